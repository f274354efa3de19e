// One matrix of the page: its responses, its outputs in time, its eigenvalues, for a choice of perturbation and row.

import { decodeComplex } from "./arrays.js";
import { legsOperator, legsResponse, simulateLegs } from "./legs.js";
import { modesResponse, simulateModes } from "./modes.js";
import { simulateTriangular, triangularOperator, triangularResponse } from "./triangular.js";

const WORK = 4e7; // multiplications a simulation may cost: a tenth of a second

/** From an entry of the inlined data. `S4D` is null where there is no normal part to fall back on. */
export function createModel(entry) {
  const { n, rows } = entry;
  const modes = (part) => ({
    ...part,
    lambda: decodeComplex(part.lambda),
    residues: cut(decodeComplex(part.residues), rows.length),
  });
  const cells = entry.cells.map(modes);
  const normal = entry.normal ? modes(entry.normal) : null;
  const itself = entry.kind === "legs" ? legsItself(n, rows) : ownItself(entry);

  /** |G| of each model at one frequency. */
  function magnitudes(omega, row, cell) {
    const own = itself.response(omega, row);
    return {
      S4: Math.hypot(...own.s4),
      S4D: own.s4d ? Math.hypot(...own.s4d) : null,
      PTD: Math.hypot(...modesResponse(omega, cells[cell].lambda, cells[cell].residues[row])),
    };
  }

  const most = itself.steps; // a moment's work

  /** Outputs to cos(omega t), from rest. */
  function simulate(omega, row, cell, dt, duration) {
    const steps = Math.min(Math.max(Math.round(duration / dt), 200), most);
    const angle = 2 * Math.atan((omega * dt) / 2); // the trapezoidal rule bends frequencies: this one comes out as omega
    const input = Float64Array.from({ length: steps + 1 }, (_, k) => Math.cos(angle * k));
    const run = (part) => simulateModes(part.lambda, part.residues[row], input, dt);
    return {
      time: Float64Array.from(input, (_, k) => k * dt),
      S4: itself.simulate(input, row, dt),
      S4D: normal ? run(normal) : null,
      PTD: run(cells[cell]),
    };
  }
  return {
    ...entry,
    cells,
    normal,
    magnitudes,
    simulate,
    most,
    operator: itself.operator,
    T: itself.T,
    eigenvalues: itself.eigenvalues,
  };
}

function legsItself(n, rows) {
  return {
    response: (omega, row) => legsResponse(omega, n, rows[row]),
    simulate: (input, row, dt) => simulateLegs(n, rows[row], input, dt),
    steps: 20000,
    operator: legsOperator(n),
    T: null,
    eigenvalues: { re: Float64Array.from({ length: n }, (_, k) => -k - 1), im: new Float64Array(n) },
  };
}

function ownItself(entry) {
  const T = decodeComplex(entry.T);
  const operator = triangularOperator(entry.n, T);
  const b = decodeComplex(entry.b);
  const c = cut(decodeComplex(entry.c), entry.rows.length);
  const diagonal = Array.from({ length: entry.n }, (_, k) => operator.start[k] + k);
  return {
    response: (omega, row) => ({ s4: triangularResponse(omega, operator, b, c[row]), s4d: null }),
    simulate: (input, row, dt) => simulateTriangular(operator, b, c[row], input, dt),
    steps: Math.round(WORK / entry.n ** 2),
    operator,
    T,
    eigenvalues: {
      re: Float64Array.from(diagonal, (at) => T.re[at]),
      im: Float64Array.from(diagonal, (at) => T.im[at]),
    },
  };
}

/** Equal pieces, one a row. */
function cut(values, count) {
  const length = values.re.length / count;
  return Array.from({ length: count }, (_, k) => ({
    re: values.re.subarray(k * length, (k + 1) * length),
    im: values.im.subarray(k * length, (k + 1) * length),
  }));
}
