// A piece of the complex plane on a canvas: bands between levels, one level drawn strong, and eigenvalues.

import { mix } from "./theme.js";
import { evenTicks, short } from "./words.js";

const MARGIN = { left: 52, right: 8, top: 8, bottom: 36 };

/** From the plane to the canvas and back, in CSS pixels. */
export function createFrame(width, height, box) {
  const [left, right, bottom, top] = box;
  const [inner, tall] = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
  return {
    x: (re) => MARGIN.left + ((re - left) / (right - left)) * inner,
    y: (im) => MARGIN.top + ((top - im) / (top - bottom)) * tall,
    re: (x) => left + ((x - MARGIN.left) / inner) * (right - left),
    im: (y) => top - ((y - MARGIN.top) / tall) * (top - bottom),
    inner: [MARGIN.left, MARGIN.top, inner, tall],
    box,
  };
}

/** Levels of log10 sigma between two ends, a dozen at most, and their step. */
export function chooseLevels(low, high) {
  const step = [0.05, 0.1, 0.25, 0.5, 1, 2, 4].find((one) => (high - low) / one <= 12) ?? 8;
  const levels = [];
  for (let k = Math.ceil(low / step); k * step < high; k++) levels.push(k * step);
  return levels;
}

/** Fills the bands of a grid of log10 sigma, and strokes the level `strong`. */
export function drawBands(ctx, frame, { values, side, box }, levels, strong, paint) {
  const shapes = d3.contours().size([side, side]);
  // a value of the grid stands in the middle of its cell
  const place = ([i, j]) => [
    frame.x(box[0] + ((i - 0.5) / (side - 1)) * (box[1] - box[0])),
    frame.y(box[2] + ((j - 0.5) / (side - 1)) * (box[3] - box[2])),
  ];
  ctx.save();
  ctx.beginPath();
  ctx.rect(...frame.inner);
  ctx.clip();
  ctx.fillStyle = mix(paint.deep, paint.panel, 0);
  ctx.fillRect(...frame.inner);
  levels.forEach((level, k) => {
    trace(ctx, shapes.contour(values, level), place);
    ctx.fillStyle = mix(paint.deep, paint.panel, (k + 1) / levels.length);
    ctx.fill("evenodd");
    ctx.strokeStyle = mix(paint.deep, paint.ink, 0.25);
    ctx.lineWidth = 0.6;
    ctx.stroke();
  });
  trace(ctx, shapes.contour(values, strong), place);
  ctx.strokeStyle = paint.PTD;
  ctx.lineWidth = 2.2;
  ctx.setLineDash([8, 4]);
  ctx.stroke();
  ctx.restore();
}

/** The outline of a shape, its edge along the border pushed out of sight. */
function trace(ctx, shape, place) {
  ctx.beginPath();
  for (const polygon of shape.coordinates) {
    for (const ring of polygon) {
      ring.forEach((point, k) => {
        if (k) ctx.lineTo(...place(point));
        else ctx.moveTo(...place(point));
      });
      ctx.closePath();
    }
  }
}

/** Numbers along both sides, and the imaginary axis, right of which nothing stable lives. */
export function drawAxes(ctx, frame, paint) {
  const [left, top, width, height] = frame.inner;
  ctx.save();
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = paint.soft;
  ctx.strokeStyle = paint.grid;
  ctx.lineWidth = 1;
  ctx.strokeRect(left, top, width, height);
  ctx.textAlign = "center";
  for (const tick of evenTicks(frame.box[0], frame.box[1], Math.max(2, Math.floor(width / 70)))) {
    ctx.fillText(short(tick), frame.x(tick), top + height + 15);
  }
  ctx.fillText("real part", left + width / 2, top + height + 31);
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const tick of evenTicks(frame.box[2], frame.box[3], 6)) ctx.fillText(short(tick), left - 5, frame.y(tick));
  if (frame.box[0] < 0 && frame.box[1] > 0) {
    ctx.strokeStyle = paint.soft;
    ctx.setLineDash([2, 3]);
    ctx.beginPath();
    ctx.moveTo(frame.x(0), top);
    ctx.lineTo(frame.x(0), top + height);
    ctx.stroke();
  }
  ctx.restore();
}

/** Eigenvalues: "plus", "cross" or "dot". */
export function drawPoints(ctx, frame, points, mark, colour, paint) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(...frame.inner);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.lineWidth = 1.8;
  for (let k = 0; k < points.re.length; k++) {
    const [x, y] = [frame.x(points.re[k]), frame.y(points.im[k])];
    ctx.beginPath();
    if (mark === "dot") {
      ctx.arc(x, y, 4, 0, 7);
      ctx.fill();
      ctx.lineWidth = 1;
      ctx.strokeStyle = paint.panel;
      ctx.stroke();
      continue;
    }
    const strokes =
      mark === "plus"
        ? [
            [4, 0],
            [0, 4],
          ]
        : [
            [3.5, 3.5],
            [3.5, -3.5],
          ];
    for (const [dx, dy] of strokes) {
      ctx.moveTo(x - dx, y - dy);
      ctx.lineTo(x + dx, y + dy);
    }
    ctx.stroke();
  }
  ctx.restore();
}

/** A cross where numbers are read, or the rectangle being dragged. */
export function drawReading(ctx, frame, point, drag, paint) {
  const [left, top, width, height] = frame.inner;
  ctx.save();
  ctx.strokeStyle = paint.ink;
  ctx.lineWidth = 1;
  if (point) {
    const [x, y] = [frame.x(point[0]), frame.y(point[1])];
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.setLineDash([1, 3]);
    ctx.stroke();
  }
  if (drag) {
    ctx.setLineDash([4, 3]);
    ctx.strokeRect(drag[0], drag[1], drag[2] - drag[0], drag[3] - drag[1]);
  }
  ctx.restore();
}
