// The trade-off: a larger perturbation buys better eigenvectors.

import { createChart, logRange } from "./chart.js";
import { exact, percent, short } from "./words.js";

/** Draws into #tradeoff, and follows the settings. */
export function createTradeoff(settings, models, published) {
  const chart = createChart(document.querySelector("#tradeoff .chart"), {
    x: { label: "‖E‖, size of the perturbation", log: true },
    y: { label: "κ(V), condition", log: true },
    height: 280,
    series: [
      { colour: "PTD", width: 1.5, points: { size: 6, fill: true } },
      { colour: "S4D", width: 0, points: { size: 9, fill: false, width: 2 } },
      { colour: "S4", width: 1.2, dash: [5, 3] },
      { colour: "ink", width: 0, points: { size: 16, fill: false, width: 2 } },
    ],
    onPick: (size) => nearest(size),
  });

  function nearest(size) {
    const { cells } = models[settings.values.size];
    const far = cells.map((cell) => Math.abs(Math.log(cell.norm / size)));
    settings.set({ cell: far.indexOf(Math.min(...far)) });
  }

  function draw({ size, cell }) {
    const { n, cells } = models[size];
    const sorted = [...cells].sort((a, b) => a.norm - b.norm);
    const here = cells[cell];
    const { paper = [[], []], optimized = [[], []] } = published[String(n)] ?? {};
    const tables = [
      [sorted.map((each) => each.norm), sorted.map((each) => each.condition)],
      byFirst(paper),
      byFirst(optimized),
      [[here.norm], [here.condition]],
    ];
    const data = uPlot.join(tables);
    const ranges = { x: logRange(tables.map((table) => table[0])), y: logRange(tables.map((table) => table[1])) };
    chart.update(data, { x: ranges.x, y: ranges.y });
    document.querySelector("#kappa").textContent = exact(here.condition);
    document.querySelector("#norm-E").textContent = exact(here.norm);
    document.querySelector("#rel").textContent = percent(here.rel);
    const label = `Condition number against size of the perturbation, both logarithmic. Now ${short(here.condition)} at ${short(here.norm)}.`;
    document.querySelector("#tradeoff .chart").setAttribute("aria-label", label);
  }

  settings.on(["size", "cell"], draw);
  draw(settings.values);
}

function byFirst([sizes, values]) {
  const order = sizes.map((_, k) => k).sort((a, b) => sizes[a] - sizes[b]);
  return [order.map((k) => sizes[k]), order.map((k) => values[k])];
}
