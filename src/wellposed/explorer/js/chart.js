// Curves by uPlot: as wide as their place, coloured by the page, zoomed by dragging or by buttons.

import { colours, onThemeChange } from "./theme.js";
import { evenTicks, logTicks, short } from "./words.js";

/**
 * A chart in `place`. `series` name a colour of the theme, a width, a dash, or points; `marks` are vertical lines.
 * onZoom(low, high) is called after a drag, onPick(x) after a click.
 */
export function createChart(place, { series, x, y, height = 300, onZoom, onPick }) {
  let plot = null;
  let data = [[], ...series.map(() => [])];
  let ranges = { x: [1, 10], y: [1, 10] };
  let marks = [];

  function build() {
    plot?.destroy();
    const paint = colours();
    const axis = (kind, label, log, space) => ({
      label,
      labelSize: 18,
      labelFont: FONT,
      font: FONT,
      size: kind === "y" ? 54 : 30,
      stroke: paint.soft,
      grid: { stroke: paint.grid, width: 1 },
      ticks: { stroke: paint.grid, width: 1, size: 4 },
      splits: (u, _, low, high) =>
        (log ? logTicks : evenTicks)(low, high, Math.max(3, Math.floor(span(u, kind) / space))),
      values: (_, ticks) => ticks.map(short),
      filter: (_, ticks) => ticks,
    });
    const options = {
      width: place.clientWidth,
      height,
      legend: { show: false },
      cursor: { drag: { x: Boolean(onZoom), y: false, setScale: false }, points: { show: false }, y: false },
      scales: {
        x: { time: false, distr: x.log ? 3 : 1, range: () => ranges.x },
        y: { distr: y.log ? 3 : 1, range: () => ranges.y },
      },
      axes: [axis("x", x.label, x.log, 64), axis("y", y.label, y.log, 26)],
      series: [{}, ...series.map((one) => styled(one, paint))],
      hooks: {
        setSelect: [(u) => zoomed(u)],
        draw: [(u) => drawMarks(u, paint)],
      },
    };
    plot = new uPlot(options, data, place);
    if (onPick) plot.over.addEventListener("click", (event) => picked(event));
  }

  function zoomed(u) {
    if (!onZoom || u.select.width < 4) return;
    const ends = [u.select.left, u.select.left + u.select.width].map((at) => u.posToVal(at, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    onZoom(...ends);
  }

  let pressed = 0;
  place.addEventListener("pointerdown", (event) => {
    pressed = event.clientX;
  });
  function picked(event) {
    if (Math.abs(event.clientX - pressed) < 4) onPick(plot.posToVal(event.offsetX, "x"));
  }

  function drawMarks(u, paint) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.font = `${Math.round(11 * devicePixelRatio)}px system-ui, sans-serif`;
    for (const { at, text, dash, low } of marks) {
      if (!(at > ranges.x[0] && at < ranges.x[1])) continue;
      const left = u.valToPos(at, "x", true);
      ctx.strokeStyle = ctx.fillStyle = paint.soft;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      const onRight = left < bbox.left + bbox.width * 0.7;
      ctx.textAlign = onRight ? "left" : "right";
      const down = low ? bbox.height - 8 * devicePixelRatio : 12 * devicePixelRatio;
      ctx.fillText(text, left + (onRight ? 5 : -5) * devicePixelRatio, bbox.top + down);
    }
    ctx.restore();
  }

  function update(next, nextRanges, nextMarks = []) {
    data = next;
    ranges = nextRanges;
    marks = nextMarks;
    if (plot) plot.setData(data);
    else build();
  }

  new ResizeObserver(() => {
    if (plot && plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height });
  }).observe(place);
  onThemeChange(() => plot && build());
  return { update };
}

const FONT = "12px system-ui, sans-serif";

function span(u, kind) {
  return u.bbox[kind === "x" ? "width" : "height"] / devicePixelRatio;
}

function styled({ colour, width = 1.5, dash, points, alpha = 1 }, paint) {
  const stroke = paint[colour];
  const dots = points && {
    show: true,
    size: points.size,
    width: points.width ?? 1.5,
    stroke,
    fill: points.fill ? stroke : paint.panel,
  };
  return {
    stroke,
    width,
    dash,
    alpha,
    spanGaps: true,
    points: dots || { show: false },
    ...(width === 0 ? { paths: () => null } : {}),
  };
}

/** The ends of some lists of positive numbers, with a little room. */
export function logRange(lists, room = 1.4, floor = 1e-12) {
  let [low, high] = [Infinity, 0];
  for (const list of lists) {
    for (const value of list) {
      if (value === null || value < floor) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high > 0 ? [low / room, high * room] : [0.1, 1];
}
