// What is looked at, told to whoever holds this page in a frame, and taken from there: a notebook's widget.
(() => {
  "use strict";
  if (window.parent === window) return;
  const { data, state, heads, change, onChange } = viewer;
  const told = ["view", "level", "weights", "specials", "layer", "head", "word", "side", "cell", "gold", "common"];
  const plain = () => ({ ...Object.fromEntries(told.map((name) => [name, state[name]])), heads: [...state.heads].sort((a, b) => a - b) });
  let last = "";

  function tell() {
    const now = JSON.stringify(plain());
    if (now === last) return;
    last = now;
    // The frame has no origin of its own, so that there is none to name; nothing is told but what is looked at.
    window.parent.postMessage({ bertologyState: JSON.parse(now) }, "*");
  }

  /** What can be looked at in this page; of anything else nothing is taken. */
  const known = {
    view: (value) => value in viewer.views,
    level: (value) => Boolean(data.sets[`${value}-${state.weights}`]),
    weights: (value) => Boolean(data.sets[`${state.level}-${value}`]),
    layer: (value) => data.layers.some((one) => one.layer === value),
    heads: (value) => Array.isArray(value) && value.every((head) => heads.includes(head)),
    word: (value) => value === null || (Number.isInteger(value) && value >= 0 && value < viewer.units().labels.length),
    head: (value) => value === null || heads.includes(value),
    side: (value) => value === "from" || value === "to",
    specials: (value) => ["shown", "hidden", "renormalised"].includes(value),
    gold: (value) => typeof value === "boolean",
  };

  window.addEventListener("message", (event) => {
    const asked = event.source === window.parent && event.data?.bertologyState;
    if (!asked) return;
    for (const [name, value] of Object.entries(asked)) {
      if (!known[name]?.(value) || JSON.stringify(value) === JSON.stringify(plain()[name])) continue;
      change({ [name]: name === "heads" ? new Set(value) : value });
    }
  });
  onChange(tell);
  tell();
})();
