// Complex numbers as [re, im] and matrices as arrays of rows: slow, plain, and nothing of what is tested.

export const times = (a, b) => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
export const plus = (a, b) => [a[0] + b[0], a[1] + b[1]];
export const minus = (a, b) => [a[0] - b[0], a[1] - b[1]];
export const over = (a, b) => {
  const size = b[0] ** 2 + b[1] ** 2;
  return [(a[0] * b[0] + a[1] * b[1]) / size, (a[1] * b[0] - a[0] * b[1]) / size];
};
export const size = (a) => Math.hypot(a[0], a[1]);

/** The solution of M x = b by Gaussian elimination with pivots. */
export function solve(M, b) {
  const rows = M.map((row, k) => [...row, b[k]]);
  const n = rows.length;
  for (let k = 0; k < n; k++) {
    const best = rows.slice(k).reduce((at, row, i) => (size(row[k]) > size(rows[at][k]) ? k + i : at), k);
    [rows[k], rows[best]] = [rows[best], rows[k]];
    for (let i = k + 1; i < n; i++) {
      const factor = over(rows[i][k], rows[k][k]);
      for (let j = k; j <= n; j++) rows[i][j] = minus(rows[i][j], times(factor, rows[k][j]));
    }
  }
  const x = Array(n);
  for (let k = n - 1; k >= 0; k--) {
    let right = rows[k][n];
    for (let j = k + 1; j < n; j++) right = minus(right, times(rows[k][j], x[j]));
    x[k] = over(right, rows[k][k]);
  }
  return x;
}

/** zI - A for HiPPO-LegS, entry by entry. */
export function legsPencil(n, z) {
  const entry = (k, i) => (k > i ? Math.sqrt((2 * k + 1) * (2 * i + 1)) : k === i ? k + 1 : 0);
  return pencil(n, (k, i) => [-entry(k, i), 0], z);
}

/** zI - A for a matrix given by its entries. */
export function pencil(n, entry, z) {
  const index = [...Array(n).keys()];
  return index.map((k) => index.map((i) => (k === i ? minus(z, entry(k, i)) : times([-1, 0], entry(k, i)))));
}

export const adjoint = (M) => M.map((_, k) => M.map((row) => [row[k][0], -row[k][1]]));

export const pack = (pairs) => ({
  re: Float64Array.from(pairs, (pair) => pair[0]),
  im: Float64Array.from(pairs, (pair) => pair[1]),
});
