// What all panels share: which size, perturbation, row and step, and the frequency that is listened to.

/** A set of values that calls back, once a frame, those who asked for one that changed. */
export function createSettings(values) {
  const listeners = [];
  let changed = new Set();

  function flush() {
    const names = changed;
    changed = new Set();
    for (const { wanted, call } of listeners) if (wanted.some((name) => names.has(name))) call(values);
  }

  function set(patch) {
    for (const [name, value] of Object.entries(patch)) {
      if (values[name] === value) continue;
      values[name] = value;
      if (changed.size === 0) requestAnimationFrame(flush);
      changed.add(name);
    }
  }
  return { values, set, flush, on: (wanted, call) => listeners.push({ wanted, call }) };
}
