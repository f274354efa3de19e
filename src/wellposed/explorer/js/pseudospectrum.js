// The pseudospectrum: where eigenvalues of matrices nearby can be. A worker computes it, the page draws and reads.

import { chooseLevels, createFrame, drawAxes, drawBands, drawPoints, drawReading } from "./plane.js";
import { sigmaMin } from "./sigma.js";
import { colours, mix, onThemeChange } from "./theme.js";
import { exact, percent, scientific, short } from "./words.js";

const POINTS = 100;
const ROUNDING = 1e-14; // of the norm: below it, float64 says no more than "tiny"

/** Draws into #plane, and follows the settings. */
export function createPseudospectrum(settings, models, workerSource) {
  const canvas = document.querySelector("#plane");
  const ctx = canvas.getContext("2d");
  const url = URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }));
  let [worker, busy, request] = [new Worker(url), false, 0];
  let box = models[settings.values.size].box;
  let [grid, point, drag] = [null, null, null];

  function compute() {
    const { n, T } = models[settings.values.size];
    if (busy) {
      // what was asked before is of no interest any more
      worker.terminate();
      worker = new Worker(url);
    }
    busy = true;
    canvas.dataset.state = "computing";
    worker.onmessage = ({ data }) => {
      if (data.id !== request) return;
      grid = { ...data, values: Array.from(data.values, (value) => Math.log10(Math.max(value, 1e-300))) };
      busy = !data.last;
      if (data.last) canvas.dataset.state = "done";
      draw();
    };
    worker.postMessage({ id: ++request, n, T, box, points: n > 64 && T ? 60 : POINTS });
  }

  function size() {
    const width = canvas.parentElement.clientWidth;
    return [width, Math.round(Math.min(Math.max(0.75 * width, 280), 460))];
  }

  function draw() {
    const [width, height] = size();
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
      canvas.style.height = `${height}px`;
    }
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const model = models[settings.values.size];
    const cell = model.cells[settings.values.cell];
    const [frame, paint] = [createFrame(width, height, box), colours()];
    if (grid) {
      const floor = Math.log10(ROUNDING * model.norm);
      const low = Math.max(
        floor,
        grid.values.reduce((a, b) => Math.min(a, b)),
      );
      const levels = chooseLevels(
        low,
        grid.values.reduce((a, b) => Math.max(a, b)),
      );
      drawBands(ctx, frame, grid, levels, Math.log10(cell.norm), paint);
      writeScale(levels, paint);
    }
    drawAxes(ctx, frame, paint);
    drawPoints(ctx, frame, model.eigenvalues, "plus", paint.ink, paint);
    if (model.normal) drawPoints(ctx, frame, model.normal.lambda, "cross", paint.S4D, paint);
    drawPoints(ctx, frame, cell.lambda, "dot", paint.PTD, paint);
    drawReading(ctx, frame, point, drag, paint);
    document.querySelector("#level").textContent = short(cell.norm);
    const reach = `Eigenvalues of A + E reach real part ${short(cell.abscissa)}.`;
    canvas.setAttribute("aria-label", `Level curves of sigma min in the complex plane, with eigenvalues. ${reach}`);
  }

  function writeScale(levels, paint) {
    const scale = document.querySelector("#scale");
    const shown = levels.filter((_, k) => k % Math.ceil(levels.length / 6) === 0);
    scale.replaceChildren(
      ...shown.map((level) => {
        const item = document.createElement("span");
        const swatch = document.createElement("i");
        swatch.style.background = mix(paint.deep, paint.panel, (levels.indexOf(level) + 1) / levels.length);
        item.append(swatch, Number.isInteger(level) ? scientific(10 ** level) : short(10 ** level));
        return item;
      }),
    );
  }

  /** Reads sigma_min at a place of the plane, with all digits. */
  function read(re, im) {
    point = [re, im];
    [canvas.dataset.re, canvas.dataset.im] = point;
    const model = models[settings.values.size];
    const value = sigmaMin(model.operator, re, im);
    const rel = value / model.norm;
    document.querySelector("#z").textContent = `${short(re)} ${im < 0 ? "−" : "+"} ${short(Math.abs(im))}i`;
    document.querySelector("#sigma").textContent = rel < ROUNDING ? `below ${scientific(ROUNDING)} ‖A‖` : exact(value);
    document.querySelector("#sigma-rel").textContent =
      rel < ROUNDING ? "rounding" : rel < 1e-4 ? scientific(rel) : percent(rel);
    draw();
  }

  function zoomTo(next) {
    box = next;
    compute();
    draw();
  }

  /** Where one reads, if that is in view; else the middle of what is. */
  function middle() {
    const seen = point && box[0] <= point[0] && point[0] <= box[1] && box[2] <= point[1] && point[1] <= box[3];
    return seen ? point : [(box[0] + box[1]) / 2, (box[2] + box[3]) / 2];
  }

  function zoomBy(factor) {
    const [re, im] = middle();
    zoomTo([
      re + (box[0] - re) * factor,
      re + (box[1] - re) * factor,
      im + (box[2] - im) * factor,
      im + (box[3] - im) * factor,
    ]);
  }

  const whole = () => zoomTo(models[settings.values.size].box);
  listen(canvas, () => createFrame(...size(), box), {
    read,
    zoomTo,
    drag: (corners) => {
      drag = corners;
      draw();
    },
  });
  canvas.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 0.1 : 0.02;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const move = moves[event.key];
    const [re, im] = middle();
    if (move) read(re + move[0] * step * (box[1] - box[0]), im + move[1] * step * (box[3] - box[2]));
    else if (event.key === "+" || event.key === "=") zoomBy(0.5);
    else if (event.key === "-") zoomBy(2);
    else if (event.key === "0") whole();
    else return;
    event.preventDefault();
  });
  for (const [id, call] of [
    ["plane-in", () => zoomBy(0.5)],
    ["plane-out", () => zoomBy(2)],
    ["plane-whole", whole],
  ]) {
    document.getElementById(id).addEventListener("click", call);
  }
  function begin() {
    whole();
    read(box[0] + 0.4 * (box[1] - box[0]), box[2] + 0.75 * (box[3] - box[2]));
  }
  settings.on(["size"], begin);
  settings.on(["size", "cell"], () => {
    draw();
    if (point) read(...point);
  });
  onThemeChange(draw);
  new ResizeObserver(draw).observe(canvas.parentElement);
  begin();
}

/** Pointers: moving reads, dragging zooms. */
function listen(canvas, frameNow, { read, zoomTo, drag }) {
  let from = null;
  const at = (event) => {
    const rect = canvas.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    from = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (from) drag([...from, x, y]);
    else read(frameNow().re(x), frameNow().im(y));
  });
  canvas.addEventListener("pointerup", (event) => {
    const [[x, y], start, frame] = [at(event), from, frameNow()];
    from = null;
    drag(null);
    if (!start) return;
    if (Math.abs(x - start[0]) < 6 || Math.abs(y - start[1]) < 6) {
      read(frame.re(x), frame.im(y));
      return;
    }
    const [left, right] = [start[0], x].sort((a, b) => a - b);
    const [top, bottom] = [start[1], y].sort((a, b) => a - b);
    zoomTo([frame.re(left), frame.re(right), frame.im(bottom), frame.im(top)]);
  });
  canvas.addEventListener("pointercancel", () => {
    from = null;
    drag(null);
  });
}
