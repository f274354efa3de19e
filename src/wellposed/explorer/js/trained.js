// Trained models: accuracy against the frequency of the noise, from records.

import { createChart } from "./chart.js";
import { short } from "./words.js";

const COLOURS = { S4D: "S4D", "S4-PTD": "PTD", S5: "S4D", "S5-PTD": "PTD" };

/** The lowest accuracy within a width or so of a spike. */
function leastNear({ frequency, accuracy }, spike) {
  return Math.min(...accuracy.filter((_, k) => Math.abs(frequency[k] - spike) < 1.2));
}

/** Draws into #trained, where the page has records; one at a time. */
export function createTrained(records) {
  const place = document.querySelector("#trained .chart");
  if (!place || !records.length) return;
  const choice = document.querySelector("#record");
  let chart = null;

  function draw() {
    const record = records[Number(choice?.value ?? 0)];
    place.replaceChildren();
    chart = createChart(place, {
      x: { label: "frequency of the noise inside the layer", log: true },
      y: { label: "accuracy, %" },
      height: 280,
      series: record.curves.map(({ name }) => ({
        colour: COLOURS[name],
        width: 1.8,
        ...(name.startsWith("S5") ? { dash: [6, 4] } : {}),
      })),
    });
    const tables = record.curves.map(({ frequency, accuracy }) => [frequency, accuracy.map((value) => 100 * value)]);
    const ends = [Math.min(...tables.map(([at]) => at[0])), Math.max(...tables.map(([at]) => at.at(-1)))];
    const marks = [{ at: record.spike, text: "last spike", dash: [3, 3], low: true }];
    chart.update(uPlot.join(tables), { x: ends, y: [0, 103] }, marks);
    const kept = record.curves.map((curve) => `${curve.name} keeps ${short(100 * leastNear(curve, record.spike))} %`);
    document.querySelector("#worst").textContent = `At the last spike ${kept.join(", ")}.`;
    document.querySelector("#form").textContent = `${record.form}; noise of amplitude ${short(record.amplitude)}`;
    place.setAttribute("aria-label", `Accuracy against the frequency of noise. At the last spike ${kept.join(", ")}.`);
  }
  choice?.addEventListener("change", draw);
  draw();
}
