// Any matrix, by its Schur form: T upper triangular and complex, its rows packed one after another.

/** zI - T, as what can be solved with; vectors are changed in place. */
export function triangularOperator(n, T) {
  const start = Int32Array.from({ length: n }, (_, k) => k * n - (k * (k - 1)) / 2 - k);

  function solve(zr, zi, re, im) {
    for (let k = n - 1; k >= 0; k--) {
      let xr = re[k];
      let xi = im[k];
      for (let j = k + 1, at = start[k] + k + 1; j < n; j++, at++) {
        xr += T.re[at] * re[j] - T.im[at] * im[j];
        xi += T.re[at] * im[j] + T.im[at] * re[j];
      }
      divideInto(re, im, k, xr, xi, zr - T.re[start[k] + k], zi - T.im[start[k] + k]);
    }
  }

  function solveAdjoint(zr, zi, re, im) {
    for (let k = 0; k < n; k++) {
      const at = start[k] + k;
      divideInto(re, im, k, re[k], im[k], zr - T.re[at], T.im[at] - zi);
      for (let j = k + 1, to = at + 1; j < n; j++, to++) {
        re[j] += T.re[to] * re[k] + T.im[to] * im[k];
        im[j] += T.re[to] * im[k] - T.im[to] * re[k];
      }
    }
  }
  return { n, solve, solveAdjoint, start, T };
}

function divideInto(re, im, k, xr, xi, dr, di) {
  // an eigenvalue itself: nearly singular is what was asked for
  const size = dr * dr + di * di || 1e-300;
  re[k] = (xr * dr + xi * di) / size;
  im[k] = (xi * dr - xr * di) / size;
}

/** c (i omega - T)^-1 b. */
export function triangularResponse(omega, operator, b, c) {
  const re = Float64Array.from(b.re);
  const im = Float64Array.from(b.im);
  operator.solve(0, omega, re, im);
  let [gr, gi] = [0, 0];
  for (let k = 0; k < operator.n; k++) {
    gr += c.re[k] * re[k] - c.im[k] * im[k];
    gi += c.re[k] * im[k] + c.im[k] * re[k];
  }
  return [gr, gi];
}

/** Real part of c x while `input` comes in with step dt: the trapezoidal rule, O(n^2) a step. */
export function simulateTriangular(operator, b, c, input, dt) {
  const { n, T, start } = operator;
  const half = dt / 2;
  const re = new Float64Array(n);
  const im = new Float64Array(n);
  const output = new Float64Array(input.length);
  for (let t = 1; t < input.length; t++) {
    // (2/dt - T) x = (2/dt + T) x_before + b (u + u_before); row k needs only rows k and below, so in place from the top
    const drive = input[t] + input[t - 1];
    for (let k = 0; k < n; k++) {
      let xr = re[k] / half + b.re[k] * drive;
      let xi = im[k] / half + b.im[k] * drive;
      for (let j = k, at = start[k] + k; j < n; j++, at++) {
        xr += T.re[at] * re[j] - T.im[at] * im[j];
        xi += T.re[at] * im[j] + T.im[at] * re[j];
      }
      re[k] = xr;
      im[k] = xi;
    }
    operator.solve(1 / half, 0, re, im);
    for (let k = 0; k < n; k++) output[t] += c.re[k] * re[k] - c.im[k] * im[k];
  }
  return output;
}
