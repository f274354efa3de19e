// Trained models: accuracy against the frequency of the noise, from records.

import { createChart } from "./chart.js";
import { short } from "./words.js";

const COLOURS = { S4D: "S4D", "S4-PTD": "PTD", S5: "S4D", "S5-PTD": "PTD" };

/** The lowest accuracy within a width or so of a spike. */
function leastNear(frequency, accuracy, spike) {
  return Math.min(...accuracy.filter((_, k) => Math.abs(frequency[k] - spike) < 1.2));
}

/** "S4D keeps 55.4 %", and between which ends its seeds lie where they are several. */
function kept({ name, frequency, accuracy, seeds }, spike) {
  const ends = seeds.map((values) => leastNear(frequency, values, spike)).sort((a, b) => a - b);
  const range = seeds.length > 1 ? ` (${short(100 * ends[0])} to ${short(100 * ends.at(-1))})` : "";
  return `${name} keeps ${short(100 * leastNear(frequency, accuracy, spike))} %${range}`;
}

/** The mean of a layer, and faintly each of its seeds. */
function seriesOf({ name, seeds }) {
  const line = { colour: COLOURS[name], ...(name.startsWith("S5") ? { dash: [6, 4] } : {}) };
  return [{ ...line, width: 1.8 }, ...(seeds.length > 1 ? seeds.map(() => ({ ...line, width: 0.7, alpha: 0.5 })) : [])];
}

function tableOf({ frequency, accuracy, seeds }) {
  const lines = [accuracy, ...(seeds.length > 1 ? seeds : [])];
  return [frequency, ...lines.map((values) => values.map((value) => 100 * value))];
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
      series: record.curves.flatMap(seriesOf),
    });
    const tables = record.curves.map(tableOf);
    const ends = [Math.min(...tables.map(([at]) => at[0])), Math.max(...tables.map(([at]) => at.at(-1)))];
    const marks = [{ at: record.spike, text: "last spike", dash: [3, 3], low: true }];
    chart.update(uPlot.join(tables), { x: ends, y: [0, 103] }, marks);
    const words = record.curves.map((curve) => kept(curve, record.spike)).join(", ");
    document.querySelector("#worst").textContent = `At the last spike ${words}.`;
    document.querySelector("#form").textContent = about(record);
    place.setAttribute("aria-label", `Accuracy against the frequency of noise. At the last spike ${words}.`);
  }
  choice?.addEventListener("change", draw);
  draw();
}

function about({ form, amplitude, sample, curves }) {
  const most = Math.max(...curves.map(({ seeds }) => seeds.length));
  const parts = [form, `noise of amplitude ${short(amplitude)}`];
  if (most > 1) parts.push(`mean of ${most} seeds (the lowest to the highest), each drawn faintly`);
  if (sample) parts.push(`on ${sample} test sequences`);
  return parts.join("; ");
}
