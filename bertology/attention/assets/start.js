// What all parts of the page share: what is being looked at, and text.
// A panel is one model's attention in one text; `viewer` itself is the first of them, the others derive from it.
const viewer = (() => {
  "use strict";
  const { byId, data, element, colour } = drawn;
  const sheets = data.panels.flatMap((panel) => Object.values(panel.kinds));
  const kinds = [...new Set(data.panels.flatMap((panel) => Object.keys(panel.kinds)))];
  const heads = [...new Set(sheets.flatMap((sheet) => sheet.layers.flatMap((one) => one.heads)))].sort((a, b) => a - b);
  const first = data.panels[0].kinds[data.start.kind];
  const nMaps = first.layers.reduce((sum, one) => sum + one.heads.length, 0);
  const hasGold = sheets.some((sheet) => sheet.levels.word.arcs.length > 0);
  const hasSet = (level, weights) => sheets.some((sheet) => `${level}-${weights}` in sheet.sets);
  const isPair = sheets.some((sheet) => sheet.levels.word.segment.includes(1));

  const state = {
    view: nMaps > 16 ? "model" : "heads",
    kind: data.start.kind, // encoder, cross or decoder
    level: data.start.level,
    weights: data.start.weights,
    threshold: data.start.threshold, // weights below it are not drawn
    specials: "shown",
    part: "all", // of a pair: from its sentence a or b to its sentence a or b
    search: "",
    layer: first.layers[0].layer,
    heads: new Set(heads),
    head: null, // of one word's view: a number, or null for the mean
    word: null, // the place of the word that is chosen
    side: "from",
    panel: 0, // in which it is
    kept: false, // whether it stays when the pointer leaves it
    cell: null, // of the model view: { layer, head }
    gold: hasGold,
    common: false,
  };
  const listeners = [];

  /** Change what is looked at; whoever listens draws or fills anew. */
  function change(patch) {
    const isNew = (name) => name in patch && patch[name] !== state[name];
    if (["level", "kind", "part"].some(isNew)) Object.assign(state, { word: null, kept: false, panel: 0 });
    Object.assign(state, patch);
    const layers = allLayers();
    if (!layers.includes(state.layer)) state.layer = layers[0];
    for (const listener of listeners) listener(patch);
  }

  const onChange = (listener) => listeners.push(listener);
  const headName = (layer, head) => `L${layer}H${head}`;
  const matches = (label) => state.search !== "" && label.toLowerCase().includes(state.search.toLowerCase());

  const weight = (value) =>
    state.weights !== "raw" ? value.toPrecision(2) : `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;
  /** The weight below which nothing is drawn: norms and effects are measured by the strongest one. */
  const least = (most) => (state.weights !== "raw" ? state.threshold * most : state.threshold);

  let shades = {};
  document.addEventListener("themechange", () => { shades = {}; });
  const headColour = (head) => colour(`--line-${(head - 1) % 12}`);
  const rgb = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  const mixed = (under, over, part) => under.map((value, at) => value + (over[at] - value) * part);

  /** The colour of a cell whose weight is such a part of the strongest, and of what is written on it. */
  function shade(part) {
    shades.bed ??= mixed(rgb(colour("--raised")), rgb(colour("--grid")), 0.45);
    shades.hot ??= colour("--heat").split(" ").map(Number);
    const share = Math.sqrt(part);
    const onHot = colour("--raised") === "#ffffff" ? "#ffffff" : "#0d1116";
    // One colour of what would lie upon each other, for there are hundreds of cells in sight.
    const fill = `rgb(${mixed(shades.bed, shades.hot, 0.92 * share).map(Math.round)})`;
    return { fill, ink: share > 0.62 ? onHot : colour("--text") };
  }

  /** What a panel shows of the kind, level and weights that are looked at; sides are `from` (rows) and `to` (columns). */
  function panelOf(about, number) {
    // A kind that one model has not is empty there.
    const sheet = () => about.kinds[state.kind] ?? { ...Object.values(about.kinds)[0], layers: [] };
    const isSquare = () => sheet().columns === null;
    const units = (side = "from") => (side === "to" && !isSquare() ? sheet().columns : sheet().levels)[state.level];
    const set = () => sheet().sets[`${state.level}-${state.weights}`];
    const layers = () => sheet().layers;
    const headsOf = (layer) => layers().find((one) => one.layer === layer)?.heads ?? [];
    const hidesAny = () => state.specials !== "shown" || state.part !== "all";

    function hides(place, side = state.side) {
      const { special, segment } = units(side);
      if (state.specials !== "shown" && special[place] === 1) return true;
      return state.part !== "all" && segment[place] !== "ab".indexOf(state.part[side === "from" ? 0 : 1]);
    }

    const kept = {};
    /** Places of the words that are shown. */
    function shown(side = "from") {
      const key = [state.kind, state.level, state.specials, state.part].join(" ");
      if (kept[side]?.key !== key) {
        const places = units(side).labels.map((_, place) => place);
        kept[side] = { key, places: hidesAny() ? places.filter((place) => !hides(place, side)) : places };
      }
      return kept[side].places;
    }

    /** Before which of the words that are shown the second sentence begins. */
    function breaks(side) {
      const { segment } = units(side);
      const places = shown(side);
      return [...places.keys()].filter((at) => at > 0 && segment[places[at]] !== segment[places[at - 1]]);
    }

    /** The place of the chosen word in this panel: where another panel has the same text, of the same word there. */
    function word() {
      if (state.word === null || number === state.panel) return state.word;
      const other = made.panels[state.panel];
      if (JSON.stringify(other.about.texts) !== JSON.stringify(about.texts)) return null;
      const theirs = other.units(state.side);
      const ours = units(state.side);
      if (theirs.word[state.word] >= 0) {
        const at = ours.word.indexOf(theirs.word[state.word]);
        return at < 0 ? null : at;
      }
      const which = theirs.special.slice(0, state.word).reduce((sum, one) => sum + one, 0);
      const specials = [...ours.special.keys()].filter((place) => ours.special[place]);
      return theirs.special[state.word] ? specials[which] ?? null : null;
    }

    return { about, number, isSquare, units, set, layers, headsOf, hidesAny, hides, shown, breaks, word };
  }

  const made = {
    data, heads, kinds, hasGold, isPair, hasSet, state, change, onChange, headName, matches, weight, least, colour, headColour,
    shade, element, makers: {}, byId,
  };
  made.panels = data.panels.map((about, number) => Object.assign(number ? Object.create(made) : made, panelOf(about, number)));
  /** Layers and heads of any panel. */
  const allLayers = () => [...new Set(made.panels.flatMap((panel) => panel.layers().map((one) => one.layer)))].sort((a, b) => a - b);
  const allHeadsOf = (layer) => heads.filter((head) => made.panels.some((panel) => panel.headsOf(layer).includes(head)));
  return Object.assign(made, { allLayers, allHeadsOf });
})();
