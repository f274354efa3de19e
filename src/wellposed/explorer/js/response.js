// The frequency response: how strongly each model answers a sine wave, frequency by frequency.

import { logspace } from "./arrays.js";
import { createChart, logRange } from "./chart.js";
import { resonances } from "./modes.js";
import { exact, percent, short } from "./words.js";

const FREQUENCIES = 700;

/** Draws into #response, writes the numbers beside it, and follows the settings. */
export function createResponse(settings, models) {
  let range = null;
  const chart = createChart(document.querySelector("#response .chart"), {
    x: { label: "frequency ω", log: true },
    y: { label: "|G|, gain to the output", log: true },
    height: 320,
    series: [
      { colour: "S4", width: 5, alpha: 0.55 },
      { colour: "S4D", width: 1.3 },
      { colour: "PTD", width: 1.6, dash: [7, 3] },
    ],
    onZoom: (low, high) => zoom(low, high),
    onPick: (omega) => settings.set({ omega }),
  });

  function zoom(low, high) {
    const [least, most] = models[settings.values.size].omega;
    range = high > low * (1 + 1e-9) ? [Math.max(low, least / 100), Math.min(high, most * 100)] : null;
    draw(settings.values);
  }

  function draw({ size, cell, row, dt, omega }) {
    const model = models[size];
    const [low, high] = range ?? model.omega;
    const lists = [model.cells[cell], model.normal].filter(Boolean).map((part) => resonances(part.lambda, low, high));
    const at = Float64Array.from([...logspace(low, high, FREQUENCIES), ...lists.flat()]).sort();
    const values = Array.from(at, (each) => model.magnitudes(each, row, cell));
    const curves = ["S4", "S4D", "PTD"].map((name) => values.map((value) => value[name]));
    const marks = [
      { at: omega, text: "listening here", dash: [] },
      { at: 2 / dt, text: "4 steps a period", dash: [3, 4], low: true },
    ];
    const floor = Math.max(...curves[0]) * 1e-7;
    chart.update([at, ...curves], { x: [low, high], y: logRange(curves, 1.5, floor) }, marks);
    write(model, settings.values);
  }

  function write(model, { row, cell, omega }) {
    const gains = model.magnitudes(omega, row, cell);
    document.querySelector("#at-omega").textContent = short(omega);
    for (const name of ["S4", "S4D", "PTD"]) {
      const place = document.querySelector(`#gain-${name}`);
      if (place) place.textContent = exact(gains[name]);
    }
    const { rel, distances, abscissa } = model.cells[cell];
    document.querySelector("#ptd-name").textContent = `${percent(rel)} away`;
    const pairs = [
      ["PTD", distances[row]],
      ["S4D", model.normal?.distances[row]],
    ];
    for (const [name, found] of pairs) {
      const place = document.querySelector(`#distance-${name}`);
      if (!place) continue;
      place.textContent = found
        ? exact(found.value)
        : abscissa >= 0 || model.abscissa >= 0
          ? "not stable"
          : "not certified";
      place.title = found
        ? `certified: below ${found.upper.toPrecision(9)}, reached at ω = ${short(found.frequency)}`
        : "";
    }
    document.querySelector("#response .chart").setAttribute("aria-label", describe(model, gains, settings.values));
  }

  function describe(model, gains, { omega }) {
    const names = model.normal ? ["S4", "S4D", "PTD"] : ["S4", "PTD"];
    const parts = names.map((name) => `${name === "S4" && !model.normal ? "A" : name} ${short(gains[name])}`);
    return `Gain over frequency, both logarithmic. At frequency ${short(omega)}: ${parts.join(", ")}.`;
  }

  const by = (factor) => {
    const [low, high] = range ?? models[settings.values.size].omega;
    const { omega } = settings.values;
    const middle = omega > low && omega < high ? omega : Math.sqrt(low * high);
    const half = (Math.log(high / low) / 2) * factor;
    zoom(middle * Math.exp(-half), middle * Math.exp(half));
  };
  const buttons = {
    "zoom-in": () => by(1 / 3),
    "zoom-out": () => by(3),
    "zoom-whole": () => zoom(1, 1),
    "zoom-spike": () => {
      const { size, row } = settings.values;
      const spike = models[size].normal?.spikes[row];
      if (!spike) return;
      settings.set({ omega: spike });
      zoom(spike - Math.min(8, spike / 4), spike + Math.min(8, spike / 4));
    },
  };
  for (const [id, call] of Object.entries(buttons)) document.getElementById(id)?.addEventListener("click", call);
  settings.on(["size"], () => {
    range = null;
  });
  settings.on(["size", "cell", "row", "dt", "omega"], draw);
  draw(settings.values);
}
