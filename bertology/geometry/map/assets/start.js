// What all parts of the page share: the points, what is being looked at, colours and elements.
// Words and sentences enter the page as text or are drawn, never as HTML.
const atlas = (() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const kinds = Object.keys(data.kinds);
  const NONE = 65535;
  const CLASSES = 12;
  const OTHER = CLASSES; // the class of values that have no colour of their own
  const n = data.nPoints;

  const state = {
    layer: data.layers.length - 1, // its place in data.layers
    kind: ["sense", "tag", "word"].find((name) => kinds.includes(name)), // what colours are of
    search: "",
    part: "word", // searched: words or text
    hidden: new Set(), // classes of colours that are not shown
    chosen: null, // the point that is looked at; 0 is the word whose neighbours are marked
    hovered: null,
  };
  const listeners = [];
  /** Change what is looked at; whoever listens draws or fills anew. */
  function change(patch) {
    const before = { ...state };
    Object.assign(state, patch);
    const isNew = (name) => name in patch && patch[name] !== before[name];
    for (const listener of listeners) listener(isNew);
  }
  const onChange = (listener) => listeners.push(listener);

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const plain = atob(text);
    const made = new Uint8Array(plain.length);
    for (let i = 0; i < plain.length; i++) made[i] = plain.charCodeAt(i);
    return made;
  }
  function unpacked(name) {
    const part = document.getElementById(`packed-${name}`);
    const stream = new Blob([bytes(part.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
    part.remove();
    return new Response(stream);
  }

  /** Places, texts and values of the points, as the page's maker describes them. */
  async function load() {
    const content = await (await unpacked("points")).arrayBuffer();
    let at = 0;
    const take = (Type, length) => {
      const made = new Type(content.slice(at, at + length * Type.BYTES_PER_ELEMENT));
      at += made.byteLength;
      return made;
    };
    const place = (raw) => Float32Array.from(raw, (level) => ((level / 65535) * 2 - 1) * data.limit);
    made.layers = data.layers.map(() => ({ x: place(take(Uint16Array, n)), y: place(take(Uint16Array, n)) }));
    made.textOf = take(Uint32Array, n);
    made.begin = take(Uint16Array, n);
    made.end = take(Uint16Array, n);
    made.values = Object.fromEntries(kinds.map((kind) => [kind, take(Uint16Array, n)]));
    made.texts = JSON.parse(await (await unpacked("texts")).text());
  }

  /** Values with a colour of their own: the query's own first, then the most frequent ones, of which values are in order. */
  function classesOf(kind) {
    const own = made.values[kind][0];
    const rest = [...data.kinds[kind].keys()].filter((value) => value !== own);
    const shown = [...(own === NONE ? [] : [own]), ...rest].slice(0, CLASSES);
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
  const layerName = (one) => (one.layer === 0 ? "0 · embeddings" : String(one.layer));

  let colours = {};
  document.addEventListener("themechange", () => { colours = {}; });
  function colour(name) {
    colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return colours[name];
  }
  const classColour = (number) => colour(number === OTHER ? "--other" : `--line-${number}`);

  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children);
    return node;
  }

  const made = {
    data, n, kinds, state, change, onChange, load, classesOf, word, valueOf, layer, layerName, colour, classColour, element,
    OTHER, byId: (id) => document.getElementById(id),
  };
  return made;
})();
