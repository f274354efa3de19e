// HiPPO-LegS in closed form. A[k][i] = -sqrt((2k-1)(2i-1)) below the diagonal and -k on it, so that a solve
// needs one running sum instead of a matrix: O(n).

/** Transfer functions of S4 and S4D at i omega, output row l: Lemma 1 with its sign corrected. */
export function legsResponse(omega, n, l) {
  const q = rowResponse(omega, l);
  // a = s/(s+n) prod_{j<n} (s-j)/(s+j); S4D is q / (1 + a)
  let re = 1;
  let im = 0;
  for (let j = 1; j < n; j++) [re, im] = timesBlaschke(re, im, omega, j);
  const size = omega * omega + n * n;
  const [fr, fi] = [(omega * omega) / size, (omega * n) / size];
  const [ar, ai] = [1 + re * fr - im * fi, re * fi + im * fr];
  const down = ar * ar + ai * ai;
  return {
    s4: q,
    s4d: [(q[0] * ar + q[1] * ai) / down, (q[1] * ar - q[0] * ai) / down],
  };
}

/** q_l(i omega) = c s / ((s+l-1)(s+l)) prod_{j<l-1} (s-j)/(s+j), with c = sqrt((2l-1)/2). */
function rowResponse(omega, l) {
  const c = Math.sqrt((2 * l - 1) / 2);
  let [re, im] = divide(c, 0, l, omega);
  if (l === 1) return [re, im];
  [re, im] = divide(-im * omega, re * omega, l - 1, omega);
  for (let j = 1; j < l - 1; j++) [re, im] = timesBlaschke(re, im, omega, j);
  return [re, im];
}

function divide(re, im, dr, di) {
  const size = dr * dr + di * di;
  return [(re * dr + im * di) / size, (im * dr - re * di) / size];
}

/** Times (i omega - j)/(i omega + j), which has modulus one. */
function timesBlaschke(re, im, omega, j) {
  const size = omega * omega + j * j;
  const cos = (omega * omega - j * j) / size;
  const sin = (2 * omega * j) / size;
  return [re * cos - im * sin, re * sin + im * cos];
}

/** zI - A for LegS, as what can be solved with; vectors are changed in place. */
export function legsOperator(n) {
  const root = Float64Array.from({ length: n }, (_, k) => Math.sqrt(2 * k + 1));

  function substitute(zr, zi, re, im, first, step) {
    let sr = 0;
    let si = 0;
    for (let k = first; k >= 0 && k < n; k += step) {
      const dr = zr + k + 1;
      // an eigenvalue itself: nearly singular is what was asked for
      const size = dr * dr + zi * zi || 1e-300;
      const br = re[k] - root[k] * sr;
      const bi = im[k] - root[k] * si;
      const xr = (br * dr + bi * zi) / size;
      const xi = (bi * dr - br * zi) / size;
      re[k] = xr;
      im[k] = xi;
      sr += root[k] * xr;
      si += root[k] * xi;
    }
  }
  return {
    n,
    solve: (zr, zi, re, im) => substitute(zr, zi, re, im, 0, 1),
    solveAdjoint: (zr, zi, re, im) => substitute(zr, -zi, re, im, n - 1, -1),
  };
}

/** What state l of LegS is while `input` comes in with step dt: the trapezoidal rule, O(n) a step. */
export function simulateLegs(n, l, input, dt) {
  const root = Float64Array.from({ length: n }, (_, k) => Math.sqrt(2 * k + 1));
  const state = new Float64Array(n);
  const output = new Float64Array(input.length);
  const half = dt / 2;
  for (let t = 1; t < input.length; t++) {
    // (I - dt/2 A) x = (I + dt/2 A) x_before + dt B (u + u_before)/2
    const drive = (half * (input[t] + input[t - 1])) / Math.SQRT2;
    let before = 0;
    let after = 0;
    for (let k = 0; k < n; k++) {
      const old = state[k];
      const right = old - half * ((k + 1) * old + root[k] * before) + root[k] * drive;
      state[k] = (right - half * root[k] * after) / (1 + half * (k + 1));
      before += root[k] * old;
      after += root[k] * state[k];
    }
    output[t] = state[l - 1];
  }
  return output;
}
