// Numbers as people read them.

/** Seven digits: what is shown agrees with the library to 1e-6. */
export function exact(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return value.toPrecision(7);
}

/** Three digits, for sentences and axes. */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return scientific(value);
  return String(Number(value.toPrecision(3)));
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 2.5·10⁻⁶, or 10⁻⁶ alone. */
export function scientific(value) {
  const [digits, power] = value.toExponential(1).split("e");
  const raised = [...String(Number(power))].map((letter) => RAISED[letter]).join("");
  const factor = Number(digits);
  return factor === 1 ? `10${raised}` : `${factor}·10${raised}`;
}

/** 10 %, 0.01 %. */
export function percent(value) {
  return `${Number((100 * value).toPrecision(2))} %`;
}

/** Ticks of a logarithmic axis: decades, or 1-2-5 of them, or even steps where less than a decade is seen. */
export function logTicks(low, high, most = 7) {
  const decades = Math.log10(high / low);
  if (decades < 1) return evenTicks(low, high, most);
  const every = Math.max(1, Math.ceil(decades / most));
  const digits = [[1, 2, 5], [1, 3], [1]].find((some) => some.length * decades <= most) ?? [1];
  const found = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k += 1) {
    if (k % every !== 0) continue;
    for (const digit of digits) found.push(Number(`${digit}e${k}`));
  }
  return found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
}

/** Round numbers, at most so many. */
export function evenTicks(low, high, most = 6) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++)
    found.push(Number((k * step).toPrecision(12)));
  return found;
}
