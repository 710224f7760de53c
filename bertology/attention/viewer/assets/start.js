// What all parts of the page share: the data, what is being looked at, text and elements.
// Words of the sentence enter the page as text or are drawn, never as HTML.
const viewer = (() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const heads = [...new Set(data.layers.flatMap((one) => one.heads))].sort((a, b) => a - b);
  const nMaps = data.layers.reduce((sum, one) => sum + one.heads.length, 0);
  const hasGold = data.levels.word.arcs.length > 0;

  const state = {
    view: nMaps > 16 ? "model" : "heads",
    level: data.level,
    weights: data.weights,
    specials: "shown",
    layer: data.layers[0].layer,
    heads: new Set(heads),
    head: null, // of one word's view: a number, or null for the mean
    word: null, // the place of the word that is chosen
    side: "from",
    cell: null, // of the model view: { layer, head }
    gold: hasGold,
    common: false,
  };
  const listeners = [];

  /** Change what is looked at; whoever listens draws or fills anew. */
  function change(patch) {
    if ("level" in patch && patch.level !== state.level) state.word = null;
    Object.assign(state, patch);
    for (const listener of listeners) listener(patch);
  }

  const onChange = (listener) => listeners.push(listener);
  const units = () => data.levels[state.level];
  const set = () => data.sets[`${state.level}-${state.weights}`];
  const hides = (place) => state.specials !== "shown" && units().special[place] === 1;
  /** Places of the words that are shown. */
  const shown = () => units().labels.map((_, place) => place).filter((place) => !hides(place));
  const headsOf = (layer) => data.layers.find((one) => one.layer === layer)?.heads ?? [];
  const headName = (layer, head) => `L${layer}H${head}`;

  const weight = (value) =>
    state.weights === "norm" ? value.toPrecision(2) : `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;

  let colours = {};
  document.addEventListener("themechange", () => { colours = {}; });
  function colour(name) {
    colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return colours[name];
  }
  const headColour = (head) => colour(`--line-${(head - 1) % 12}`);

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  const views = {};
  return {
    data, heads, hasGold, state, change, onChange, units, set, hides, shown, headsOf, headName, weight, colour, headColour,
    element, views, byId: (id) => document.getElementById(id),
  };
})();
