// Puts the page together: numbers, sliders, panels.

import { createModel } from "./model.js";
import { createPseudospectrum } from "./pseudospectrum.js";
import { createResponse } from "./response.js";
import { createRing } from "./ring.js";
import { createSettings } from "./settings.js";
import { createTradeoff } from "./tradeoff.js";
import { createTrained } from "./trained.js";
import { percent, short } from "./words.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const models = data.sizes.map(createModel);
const steps = [1 / 20000, 1 / 6000, 1 / 2000, 1 / 600, 1 / 200].map((part) => part * data.duration);
const largest = models.length - 1;
const first = models[largest];
const tenth = first.cells.findIndex((cell) => Math.abs(cell.rel - 0.1) < 0.01);
const settings = createSettings({
  size: largest,
  cell: Math.max(tenth, 0),
  row: 0,
  dt: steps.slice(1).find((dt) => data.duration / dt <= first.most) ?? steps.at(-1), // all of the time is seen
  omega: first.normal?.spikes[0] ?? first.norm / 10,
});

/** A slider over a table: its value is a place in the table, and says what stands there. */
function connect(id, list, current, change, words) {
  const slider = document.getElementById(id);
  const output = document.querySelector(`output[for="${id}"]`);
  function show() {
    const choices = list();
    slider.max = choices.length - 1;
    slider.value = current();
    slider.disabled = choices.length < 2;
    const text = words(choices[current()]);
    slider.setAttribute("aria-valuetext", text);
    output.textContent = text;
  }
  slider.addEventListener("input", () => change(Number(slider.value)));
  settings.on(["size", "cell", "row", "dt"], show);
  show();
}

/** Another size has other rows and its own spikes; what was looked at stays as close as it can. */
function changeSize(size) {
  const { row, cell, omega } = settings.values;
  const [before, next] = [models[settings.values.size], models[size]];
  const onSpike = before.normal?.spikes[row] === omega;
  const patch = { size, row: Math.min(row, next.rows.length - 1), cell: Math.min(cell, next.cells.length - 1) };
  settings.set(onSpike ? { ...patch, omega: next.normal.spikes[patch.row] } : patch);
}

function changeRow(row) {
  const { size, omega } = settings.values;
  const spikes = models[size].normal?.spikes;
  const onSpike = spikes?.[settings.values.row] === omega;
  settings.set(onSpike ? { row, omega: spikes[row] } : { row });
}

const now = () => models[settings.values.size];
// sliders run from small to large, tables of perturbations from large to small
const cells = () => now().cells.slice().reverse();
const mirrored = (place) => now().cells.length - 1 - place;
connect(
  "size",
  () => models,
  () => settings.values.size,
  changeSize,
  (model) => String(model.n),
);
connect(
  "perturbation",
  cells,
  () => mirrored(settings.values.cell),
  (at) => settings.set({ cell: mirrored(at) }),
  (cell) => `${percent(cell.rel)} of ‖A‖`,
);
connect(
  "row",
  () => now().rows,
  () => settings.values.row,
  changeRow,
  String,
);
connect(
  "dt",
  () => steps,
  () => steps.indexOf(settings.values.dt),
  (at) => settings.set({ dt: steps[at] }),
  short,
);

/** The point of the page in one sentence, for the settings of the moment. */
function writeClaim({ size, cell, row }) {
  const model = models[size];
  const near = model.cells[cell];
  const [far, close] = [model.normal?.distances[row], near.distances[row]];
  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
  const claim = document.querySelector("#claim");
  const kappa = `κ(V) = ${short(near.condition)}`;
  if (far && close) {
    claim.replaceChildren(
      "Drop the low-rank part of HiPPO (S4D), and the answer to some sine wave is off by ",
      bold(short(far.value)),
      `. Perturb it by ${percent(near.rel)} instead (PTD), and it is off by at most `,
      bold(short(close.value)),
      `: ${short(far.value / close.value)} times less, with ${kappa}.`,
    );
  } else {
    const off =
      close && near.norm ? ["The answer to a sine wave is off by at most ", bold(short(close.value)), ". "] : [];
    const how = near.norm ? `Perturbed by ${percent(near.rel)}, the matrix is diagonalised with ${kappa}. ` : "";
    const good = near.norm ? "" : `Its eigenvectors are good as they are, ${kappa}: nothing was perturbed. `;
    const grows = model.abscissa >= 0 ? `It is not stable: an eigenvalue has real part ${short(model.abscissa)}.` : "";
    claim.replaceChildren(how, good, ...off, grows);
  }
}
settings.on(["size", "cell", "row"], writeClaim);
writeClaim(settings.values);
createResponse(settings, models);
createPseudospectrum(settings, models, data.worker);
createRing(settings, models, data.duration);
createTradeoff(settings, models, data.tradeoff);
createTrained(data.trained);
document.documentElement.dataset.ready = "yes";
