// sigma_min(zI - A), the distance from A to the nearest matrix with eigenvalue z, by inverse Lanczos: the largest
// eigenvalue of (M* M)^-1 costs two triangular solves a step, and converges in a few.

/** The smallest singular value of zI - A to a relative `tolerance`. */
export function sigmaMin(operator, zr, zi, tolerance = 1e-10, most = 60) {
  const n = operator.n;
  let [qr, qi] = startVector(n);
  let [pr, pi] = [new Float64Array(n), new Float64Array(n)];
  let [wr, wi] = [new Float64Array(n), new Float64Array(n)];
  const [alpha, beta] = [[], []];
  let largest = 0;
  for (let step = 0; step < Math.min(most, 3 * n); step++) {
    wr.set(qr);
    wi.set(qi);
    operator.solveAdjoint(zr, zi, wr, wi);
    operator.solve(zr, zi, wr, wi);
    let a = 0;
    for (let k = 0; k < n; k++) a += wr[k] * qr[k] + wi[k] * qi[k];
    const back = step ? beta[step - 1] : 0;
    let size = 0;
    for (let k = 0; k < n; k++) {
      wr[k] -= a * qr[k] + back * pr[k];
      wi[k] -= a * qi[k] + back * pi[k];
      size += wr[k] * wr[k] + wi[k] * wi[k];
    }
    alpha.push(a);
    const found = largestOfTridiagonal(alpha, beta, largest, tolerance);
    const b = Math.sqrt(size);
    beta.push(b);
    const settled = step > 1 && found - largest < tolerance * found;
    largest = found;
    if (settled || b < 1e-14 * found) break;
    for (let k = 0; k < n; k++) {
      wr[k] /= b;
      wi[k] /= b;
    }
    [pr, qr, wr] = [qr, wr, pr];
    [pi, qi, wi] = [qi, wi, pi];
  }
  return 1 / Math.sqrt(largest);
}

/** The same on a grid, row by row from the bottom; `box` is [left, right, bottom, top]. */
export function sigmaGrid(operator, box, width, height, tolerance = 5e-3) {
  const [left, right, bottom, top] = box;
  const values = new Float64Array(width * height);
  for (let i = 0; i < height; i++) {
    const y = bottom + ((top - bottom) * i) / (height - 1);
    for (let j = 0; j < width; j++) {
      const x = left + ((right - left) * j) / (width - 1);
      values[i * width + j] = sigmaMin(operator, x, y, tolerance, 20);
    }
  }
  return values;
}

const starts = new Map();

/** Always the same, and orthogonal to nothing in particular. */
function startVector(n) {
  if (starts.has(n)) return starts.get(n).map((part) => part.slice());
  const re = Float64Array.from({ length: n }, (_, k) => Math.cos(1 + 2.4 * k * k));
  const im = Float64Array.from({ length: n }, (_, k) => Math.sin(2 + 1.7 * k * k));
  let size = 0;
  for (let k = 0; k < n; k++) size += re[k] * re[k] + im[k] * im[k];
  for (let k = 0; k < n; k++) {
    re[k] /= Math.sqrt(size);
    im[k] /= Math.sqrt(size);
  }
  starts.set(n, [re, im]);
  return startVector(n);
}

/** By bisection: all pivots of alpha - x are negative exactly where x is beyond the last eigenvalue. */
function largestOfTridiagonal(alpha, beta, known, tolerance) {
  let low = Math.max(known, ...alpha);
  let high = 0;
  for (let k = 0; k < alpha.length; k++) {
    high = Math.max(high, alpha[k] + (k ? beta[k - 1] : 0) + (k + 1 < alpha.length ? beta[k] : 0));
  }
  while (high - low > 0.01 * tolerance * high) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    let pivot = alpha[0] - middle;
    for (let k = 1; k < alpha.length && pivot < 0; k++) {
      pivot = alpha[k] - middle - (beta[k - 1] * beta[k - 1]) / pivot;
    }
    if (pivot < 0) high = middle;
    else low = middle;
  }
  return high;
}
