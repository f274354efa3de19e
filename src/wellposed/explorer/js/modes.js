// Diagonal systems: eigenvalues and, for one output row, the residues C_k B_k.

/** Sum of residue / (i omega - lambda). */
export function modesResponse(omega, lambda, residue) {
  let [gr, gi] = [0, 0];
  for (let k = 0; k < lambda.re.length; k++) {
    const dr = -lambda.re[k];
    const di = omega - lambda.im[k];
    const size = dr * dr + di * di;
    gr += (residue.re[k] * dr + residue.im[k] * di) / size;
    gi += (residue.im[k] * dr - residue.re[k] * di) / size;
  }
  return [gr, gi];
}

/** Real part of the output while `input` comes in with step dt: the trapezoidal rule, O(n) a step. */
export function simulateModes(lambda, residue, input, dt) {
  const half = dt / 2;
  const output = new Float64Array(input.length);
  for (let k = 0; k < lambda.re.length; k++) {
    const [dr, di] = [1 - half * lambda.re[k], -half * lambda.im[k]];
    const size = dr * dr + di * di;
    // (1 + dt/2 lambda) / (1 - dt/2 lambda), and residue dt/2 / (1 - dt/2 lambda)
    const [nr, ni] = [1 + half * lambda.re[k], half * lambda.im[k]];
    const [ar, ai] = [(nr * dr + ni * di) / size, (ni * dr - nr * di) / size];
    const br = (half * (residue.re[k] * dr + residue.im[k] * di)) / size;
    const bi = (half * (residue.im[k] * dr - residue.re[k] * di)) / size;
    let [xr, xi] = [0, 0];
    for (let t = 1; t < input.length; t++) {
      const drive = input[t] + input[t - 1];
      const next = ar * xr - ai * xi + br * drive;
      xi = ar * xi + ai * xr + bi * drive;
      xr = next;
      output[t] += xr;
    }
  }
  return output;
}

/** Frequencies around every mode close to the imaginary axis, so that no spike falls between two others. */
export function resonances(lambda, low, high) {
  const offsets = [0, 0.25, 0.5, 1, 1.7, 3, 6, 12];
  const found = [];
  for (let k = 0; k < lambda.re.length; k++) {
    const [width, centre] = [Math.abs(lambda.re[k]), lambda.im[k]];
    if (centre <= 0 || width > 0.3 * centre) continue;
    for (const offset of offsets) found.push(centre - offset * width, centre + offset * width);
  }
  return found.filter((omega) => omega > low && omega < high);
}
