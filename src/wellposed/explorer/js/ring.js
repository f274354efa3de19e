// Ring it: one sine wave in, three outputs over time.

import { peak } from "./arrays.js";
import { createChart } from "./chart.js";
import { exact, short } from "./words.js";

const PLAYING = 4000; // milliseconds

/** Draws into #ring, and follows the settings. */
export function createRing(settings, models, duration) {
  const chart = createChart(document.querySelector("#ring .chart"), {
    x: { label: "time" },
    y: { label: "output" },
    height: 300,
    series: [
      { colour: "S4D", width: 1 },
      { colour: "PTD", width: 1.4 },
      { colour: "S4", width: 1.4 },
    ],
  });
  const [slider, number] = ["#omega-slider", "#omega"].map((id) => document.querySelector(id));
  const play = document.querySelector("#play");
  let shown = null;
  let playing = 0;

  function draw(share = 1) {
    const { time, S4, S4D, PTD } = shown;
    const count = Math.max(2, Math.round(share * time.length));
    const part = (values) => (values ? values.subarray(0, count) : new Float64Array(count).fill(Number.NaN));
    const high = 1.1 * Math.max(...[S4, S4D, PTD].filter(Boolean).map((values) => peak(values)), 1e-9);
    chart.update([part(time), part(S4D), part(PTD), part(S4)], { x: [0, time.at(-1)], y: [-high, high] });
  }

  function compute({ size, cell, row, dt, omega }) {
    const model = models[size];
    shown = model.simulate(omega, row, cell, dt, duration);
    // the loudest of the last third, where waves have had time to grow
    const from = Math.floor((2 * shown.time.length) / 3);
    const loud = Object.fromEntries(
      ["S4", "S4D", "PTD"].map((name) => [name, shown[name] ? peak(shown[name], from) : null]),
    );
    for (const name of ["S4", "S4D", "PTD"]) {
      const place = document.querySelector(`#loud-${name}`);
      if (place) place.textContent = exact(loud[name]);
    }
    const cycles = Math.atan((omega * dt) / 2) / Math.PI;
    const part = model.complex ? "; of complex outputs the real part" : "";
    document.querySelector("#cycles").textContent = `${short(1 / cycles)} steps a period${part}`;
    document.querySelector("#ring .chart").setAttribute("aria-label", say(model, loud));
    document.querySelector("#verdict").textContent = model.normal
      ? compare(loud)
      : compareOwn(model, cell, loud, omega * (shown.time.at(-1) - shown.time[from]));
    draw();
  }

  function compare(loud) {
    const times = loud.S4D / loud.S4;
    return times > 1.05
      ? `S4D answers ${short(times)} times as loudly as S4.`
      : "Here all three agree: move to a spike.";
  }

  function compareOwn(model, cell, loud, turned) {
    const growing = { A: model.abscissa >= 0, "A + E": model.cells[cell].abscissa >= 0 };
    const names = Object.keys(growing).filter((name) => growing[name]);
    if (names.length) return `${names.join(" and ")} ${names.length > 1 ? "are" : "is"} not stable: nothing settles.`;
    if (!(loud.S4 > 0)) return "Nothing comes out of this row.";
    if (turned < 0.99 * Math.PI) return "Too slow to see here: the last third is less than half a period.";
    const times = short(loud.PTD / loud.S4);
    return times === "1" ? "A + E answers as loudly as A." : `A + E answers ${times} times as loudly as A.`;
  }

  function say(model, loud) {
    const names = model.normal ? ["S4", "S4D", "PTD"] : ["S4", "PTD"];
    return `Outputs over time. At the end they reach ${names.map((name) => `${name} ${short(loud[name])}`).join(", ")}.`;
  }

  function place({ size, omega }) {
    const [low, high] = models[size].omega;
    slider.value = Math.round((1000 * Math.log(omega / low)) / Math.log(high / low));
    slider.setAttribute("aria-valuetext", short(omega));
    if (document.activeElement !== number) number.value = Number(omega.toPrecision(7));
  }

  slider.addEventListener("input", () => {
    const [low, high] = models[settings.values.size].omega;
    settings.set({ omega: low * (high / low) ** (slider.value / 1000) });
  });
  number.addEventListener("input", () => {
    if (Number(number.value) > 0) settings.set({ omega: Number(number.value) });
  });
  document.querySelector("#last-spike")?.addEventListener("click", () => {
    const { size, row } = settings.values;
    settings.set({ omega: models[size].normal.spikes[row] });
  });
  play.addEventListener("click", () => {
    const began = performance.now();
    const mine = ++playing;
    const frame = (now) => {
      if (mine !== playing) return;
      const share = Math.min(1, (now - began) / PLAYING);
      draw(share);
      if (share < 1) requestAnimationFrame(frame);
    };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) draw();
    else requestAnimationFrame(frame);
  });
  settings.on(["size", "cell", "row", "dt", "omega"], (values) => {
    playing++;
    compute(values);
  });
  settings.on(["size", "omega"], place);
  compute(settings.values);
  place(settings.values);
}
