// Colours stand in the style sheet, light and dark; canvases have to be told.

/** The colours of the moment. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: read("ink"),
    soft: read("soft"),
    grid: read("grid"),
    panel: read("panel"),
    deep: read("deep"),
    S4: read("s4"),
    S4D: read("s4d"),
    PTD: read("ptd"),
  };
}

/** A colour between two, both written as #rrggbb. */
export function mix(from, to, share) {
  const parts = [1, 3, 5].map((at) => {
    const [a, b] = [from, to].map((colour) => Number.parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * share);
  });
  return `rgb(${parts.join(" ")})`;
}

/** Calls back when light turns to dark or back. */
export function onThemeChange(call) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", call);
}
