// The mathematics of the page against plain elimination and one-line formulas.

import assert from "node:assert/strict";
import test from "node:test";
import { decodeComplex, logspace, peak } from "../../../src/wellposed/explorer/js/arrays.js";
import { legsOperator, legsResponse, simulateLegs } from "../../../src/wellposed/explorer/js/legs.js";
import { modesResponse, resonances, simulateModes } from "../../../src/wellposed/explorer/js/modes.js";
import { sigmaGrid, sigmaMin } from "../../../src/wellposed/explorer/js/sigma.js";
import {
  simulateTriangular,
  triangularOperator,
  triangularResponse,
} from "../../../src/wellposed/explorer/js/triangular.js";
import { adjoint, legsPencil, minus, pack, pencil, plus, size, solve, times } from "./dense.mjs";

const near = (a, b, scale = 1, tolerance = 1e-11) =>
  assert.ok(Math.abs(a - b) <= tolerance * scale, `${a} is not ${b} (scale ${scale})`);
const wave = (count, angle) => Float64Array.from({ length: count }, (_, k) => Math.cos(angle * k));
const legsB = (n) => [...Array(n).keys()].map((k) => [Math.sqrt((2 * k + 1) / 2), 0]);

// some complex triangular matrix, and the same packed
const N = 7;
const entry = (k, i) =>
  k > i ? [0, 0] : k === i ? [-1 - k / 3, 2 * Math.sin(k)] : [Math.cos(3 * k + i), Math.sin(k * i + 1)];
const T = pack([...Array(N).keys()].flatMap((k) => [...Array(N - k).keys()].map((j) => entry(k, k + j))));
const b = [...Array(N).keys()].map((k) => [Math.cos(k), Math.sin(5 * k)]);
const c = [...Array(N).keys()].map((k) => [Math.sin(k + 2), 0.3 * k]);

test("S4 and S4D answer as elimination says", () => {
  for (const [n, l, omega] of [
    [1, 1, 0.7],
    [2, 2, 3],
    [9, 1, 25.3],
    [9, 5, 4.1],
    [16, 16, 81],
  ]) {
    const got = legsResponse(omega, n, l);
    const s4 = solve(legsPencil(n, [0, omega]), legsB(n))[l - 1];
    near(size(minus(got.s4, s4)), 0, size(s4));
    // S4D: A + B B^T in place of A, and half of B
    const M = legsPencil(n, [0, omega]);
    const B = legsB(n);
    const normal = M.map((row, k) => row.map((value, i) => minus(value, times(B[k], B[i]))));
    const s4d = times([0.5, 0], solve(normal, B)[l - 1]);
    near(size(minus(got.s4d, s4d)), 0, size(s4d), 1e-10);
  }
});

test("solves with zI - A, and with its adjoint, as elimination does", () => {
  const z = [-3.2, 5.5];
  const cases = [
    [legsOperator(12), legsPencil(12, z)],
    [triangularOperator(N, T), pencil(N, entry, z)],
  ];
  for (const [operator, M] of cases) {
    const right = M.map((_, k) => [Math.cos(k), Math.sin(2 * k)]);
    for (const [method, matrix] of [
      ["solve", M],
      ["solveAdjoint", adjoint(M)],
    ]) {
      const x = pack(right);
      operator[method](...z, x.re, x.im);
      const expected = solve(matrix, right);
      for (let k = 0; k < right.length; k++)
        near(size(minus([x.re[k], x.im[k]], expected[k])), 0, size(expected[k]) + 1);
    }
  }
});

test("a triangular system answers as elimination says", () => {
  const got = triangularResponse(2.5, triangularOperator(N, T), pack(b), pack(c));
  const x = solve(pencil(N, entry, [0, 2.5]), b);
  const expected = x.map((value, k) => times(c[k], value)).reduce(plus);
  near(size(minus(got, expected)), 0, size(expected));
});

test("sigma_min is that of 2 x 2 and normal matrices, where it is known", () => {
  // [[0, 1], [0, 0]]: sigma^2 are the roots of x^2 - (2 |z|^2 + 1) x + |z|^4
  const jordan = triangularOperator(
    2,
    pack([
      [0, 0],
      [1, 0],
      [0, 0],
    ]),
  );
  for (const r of [1e-4, 0.1, 1, 7]) {
    const half = (2 * r * r + 1) / 2;
    const expected = Math.sqrt(r ** 4 / (half + Math.sqrt(half * half - r ** 4)));
    near(sigmaMin(jordan, r * 0.6, r * 0.8), expected, expected, 1e-9);
  }
  const diagonal = triangularOperator(
    3,
    pack([
      [1, 0],
      [0, 0],
      [0, 0],
      [2, 1],
      [0, 0],
      [5, 0],
    ]),
  );
  near(sigmaMin(diagonal, 2, 0), 1, 1, 1e-9);
  near(sigmaMin(diagonal, 4.5, 0), 0.5, 1, 1e-9);
});

test("a grid runs from left to right and from bottom to top", () => {
  const point = triangularOperator(1, pack([[1, 2]]));
  const values = sigmaGrid(point, [0, 2, 0, 4], 3, 2);
  const expected = [Math.hypot(1, 2), 2, Math.hypot(1, 2), Math.hypot(1, 2)];
  for (const [j, value] of expected.entries()) near(values[j], value, 1, 1e-9);
});

test("simulations settle where the response says", () => {
  const [dt, omega, n, l] = [0.02, 6, 8, 3];
  const input = wave(4000, 2 * Math.atan((omega * dt) / 2));
  const last = (output) => peak(output, 3000);
  near(last(simulateLegs(n, l, input, dt)), size(legsResponse(omega, n, l).s4), 1, 2e-3);
  const lambda = pack([
    [-1, 5],
    [-1, -5],
    [-0.5, 0],
  ]);
  const residue = pack([
    [1, 0.5],
    [1, -0.5],
    [2, 0],
  ]);
  near(last(simulateModes(lambda, residue, input, dt)), size(modesResponse(omega, lambda, residue)), 1, 2e-3);
  const diagonal = triangularOperator(
    3,
    pack([
      [-1, 5],
      [0, 0],
      [0, 0],
      [-1, -5],
      [0, 0],
      [-0.5, 0],
    ]),
  );
  const one = pack([
    [1, 0],
    [1, 0],
    [1, 0],
  ]);
  const both = [simulateTriangular(diagonal, residue, one, input, dt), simulateModes(lambda, residue, input, dt)];
  for (let t = 0; t < input.length; t += 97) near(both[0][t], both[1][t]);
});

test("every narrow mode has frequencies on both sides of its peak", () => {
  const found = resonances(
    pack([
      [-0.5, 40],
      [-0.5, -40],
      [-30, 50],
    ]),
    1,
    100,
  );
  assert.ok(found.includes(40) && found.includes(39.5) && found.includes(40.5));
  assert.ok(found.every((omega) => Math.abs(omega - 40) < 7));
});

test("numbers travel as base64", () => {
  const bytes = new Uint8Array(Float64Array.of(1.5, -2, 1e-300, 4).buffer);
  const { re, im } = decodeComplex(btoa(String.fromCharCode(...bytes)));
  assert.deepEqual([...re], [1.5, 1e-300]);
  assert.deepEqual([...im], [-2, 4]);
  const grid = logspace(0.1, 1000, 5);
  for (const [k, value] of [0.1, 1, 10, 100, 1000].entries()) near(grid[k], value, value);
});
