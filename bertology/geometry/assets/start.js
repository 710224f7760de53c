// What all parts of the page share: the points, what is being looked at, and colours of classes.
const atlas = (() => {
  "use strict";
  const { byId, data, element, colour } = drawn;
  const kinds = Object.keys(data.kinds);
  const NONE = -1;
  const LEVELS = 65535;
  // Colours in the order in which classes take them: the two blues are far apart.
  const COLOURS = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 5];
  const CLASSES = COLOURS.length;
  const OTHER = CLASSES; // the class of values that have no colour of their own
  const n = data.nPoints;

  const state = {
    layer: data.layers.length - 1, // its place in data.layers
    layout: 0, // all points, or the word's own form alone
    kind: ["sense", "tag", "word"].find((name) => kinds.includes(name)), // what colours are of
    search: "",
    part: "word", // searched: words or text
    hidden: new Set(), // classes of colours that are not shown
    chosen: null, // the point that is looked at; 0 is the word whose neighbours are marked
    hovered: null,
  };
  // Where senses are known, what is asked is whether they part.
  if (state.kind === "sense" && data.layouts.length > 1) state.layout = 1;
  const listeners = [];
  /** Change what is looked at; whoever listens draws or fills anew. */
  function change(patch) {
    const before = { ...state };
    Object.assign(state, patch);
    const isNew = (name) => name in patch && patch[name] !== before[name];
    for (const listener of listeners) listener(isNew);
  }
  const onChange = (listener) => listeners.push(listener);

  /** Places, texts and values of the points, as the page's maker describes them. */
  async function load() {
    const packed = await drawn.unpacked("packed-points").json();
    byId("packed-points").remove();
    made.layouts = data.layouts.map((about, number) => {
      const { points, places } = packed.layouts[number];
      const isThere = new Uint8Array(n);
      for (const point of points) isThere[point] = 1;
      // Points that are not there have no place.
      const axis = (levels) => {
        const placed = new Float32Array(n).fill(NaN);
        levels.forEach((level, at) => { placed[points[at]] = ((level / LEVELS) * 2 - 1) * about.limit; });
        return placed;
      };
      const layers = places.map(([x, y]) => ({ x: axis(x), y: axis(y) }));
      return { ...about, points: Uint32Array.from(points), isThere, layers };
    });
    for (const name of ["textOf", "begin", "end", "texts", "values"]) made[name] = packed[name];
  }

  /** Values with a colour of their own: the query's own, then the most frequent of its form, then of all words. */
  function classesOf(kind) {
    const values = made.values[kind];
    const ofForm = new Map();
    for (let point = 0; point < n; point++) {
      if (made.values.word[point] === made.values.word[0]) ofForm.set(values[point], (ofForm.get(values[point]) ?? 0) + 1);
    }
    const often = [...ofForm.keys()].sort((a, b) => ofForm.get(b) - ofForm.get(a));
    // Values are in order of their frequency.
    const ranked = new Set([values[0], ...often, ...data.kinds[kind].keys()]);
    ranked.delete(NONE);
    const shown = [...ranked].slice(0, CLASSES);
    const of = new Uint8Array(n).fill(OTHER);
    const classOf = new Map(shown.map((value, number) => [value, number]));
    const counts = new Uint32Array(CLASSES + 1);
    for (let point = 0; point < n; point++) {
      of[point] = classOf.get(made.values[kind][point]) ?? OTHER;
      counts[of[point]]++;
    }
    return { of, counts, names: shown.map((value) => data.kinds[kind][value]) };
  }

  const word = (point) => made.texts[made.textOf[point]][0].slice(made.begin[point], made.end[point]);
  const valueOf = (kind, point) => data.kinds[kind]?.[made.values[kind][point]] ?? null;
  const layer = () => data.layers[state.layer];
  const layout = () => made.layouts[state.layout];
  const layerName = (one) => (one.layer === 0 ? "0 · embeddings" : String(one.layer));

  const classColour = (number) => colour(number === OTHER ? "--other" : `--line-${COLOURS[number]}`);

  const made = {
    data, n, kinds, state, change, onChange, load, classesOf, word, valueOf, layer, layout, layerName, colour, classColour, element,
    OTHER, byId,
  };
  return made;
})();
