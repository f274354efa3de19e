// Numbers as they travel in the page: base64 of little-endian float64, complex ones as pairs.

/** Float64Array from base64. */
export function decodeFloats(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

/** Real and imaginary parts, apart, from base64 of interleaved pairs. */
export function decodeComplex(text) {
  const pairs = decodeFloats(text);
  const re = new Float64Array(pairs.length / 2);
  const im = new Float64Array(pairs.length / 2);
  for (let k = 0; k < re.length; k++) {
    re[k] = pairs[2 * k];
    im[k] = pairs[2 * k + 1];
  }
  return { re, im };
}

/** `count` numbers from `low` to `high`, evenly spaced in their logarithms. */
export function logspace(low, high, count) {
  const step = Math.log(high / low) / (count - 1);
  return Float64Array.from({ length: count }, (_, k) => low * Math.exp(step * k));
}

/** The largest magnitude in a stretch of numbers. */
export function peak(values, from = 0) {
  let most = 0;
  for (let k = from; k < values.length; k++) most = Math.max(most, Math.abs(values[k]));
  return most;
}
