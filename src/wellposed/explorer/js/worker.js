// Runs beside the page: a coarse picture at once, then a fine one.

import { legsOperator } from "./legs.js";
import { sigmaGrid } from "./sigma.js";
import { triangularOperator } from "./triangular.js";

self.onmessage = ({ data }) => {
  const { id, n, T, box, points } = data;
  const operator = T ? triangularOperator(n, T) : legsOperator(n);
  for (const side of [24, points]) {
    const values = sigmaGrid(operator, box, side, side);
    self.postMessage({ id, box, side, values, last: side === points });
  }
};
