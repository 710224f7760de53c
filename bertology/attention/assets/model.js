// All heads as thumbnails: layers from the bottom up, heads across.
viewer.makers.model = (viewer) => {
  "use strict";
  const { state, maps, pictures, heads, colour, headName, weight } = viewer;
  const SIDE = 40;
  const TOP = 26;
  const before = new Map(); // by head, the picture that was shown last
  let cell = 40;
  let gap = 4;
  let left = SIDE;

  /** From the top down; layer 1 is the lowest, as in all figures. */
  const layers = () => viewer.layers().map((one) => one.layer).reverse();

  function measure(width) {
    const fitted = Math.floor((width - SIDE - 10) / heads.length);
    cell = Math.max(22, Math.min(104, fitted));
    gap = cell > 40 ? 6 : 3;
    left = Math.max(SIDE, Math.floor((width - cell * heads.length - 10 + SIDE) / 2));
    return { width: left + cell * heads.length + 10, height: TOP + cell * layers().length + 10 };
  }

  /** One map as a little picture; while there is none of its size, one of another size that was shown before. */
  function thumb(layer, head, top) {
    const about = [document.documentElement.dataset.theme, state.kind, state.level, state.weights, state.specials, state.part, state.threshold, top].join(" ");
    const name = `${viewer.number} ${layer} ${head}`;
    const picture = pictures.get(`thumb ${name} ${about} ${cell}`, () => paint(maps.of(layer, head), top));
    if (picture) before.set(name, { about, picture });
    return before.get(name)?.about === about ? before.get(name).picture : null;
  }

  /** Of long sentences a pixel is the strongest of several weights. */
  function paint(map, top) {
    const [high, wide] = ["from", "to"].map((side) => Math.max(1, Math.min(cell - gap, viewer.shown(side).length)));
    const least = viewer.least(top);
    function places(side, n, size) {
      const place = new Int32Array(n).fill(-1);
      viewer.shown(side).forEach((unit, at, { length }) => { place[unit] = Math.floor((at * size) / length); });
      return place;
    }
    const [rows, columns] = [places("from", map.n, high), places("to", map.nColumns, wide)];
    const strongest = new Float32Array(high * wide);
    for (const i of viewer.shown("from")) {
      const row = rows[i] * wide;
      map.each(i, (j, w) => {
        const at = row + columns[j];
        if (w >= least && w > strongest[at]) strongest[at] = w;
      });
    }
    const [red, green, blue] = colour("--heat").split(" ").map(Number);
    const canvas = pictures.of(wide, high, (pixels) => {
      const heat = (blue << 16) | (green << 8) | red;
      strongest.forEach((w, at) => { pixels[at] = (Math.round(255 * Math.sqrt(Math.min(1, w / (top || 1)))) << 24) | heat; });
    });
    return { canvas };
  }

  function draw(pen, { y, height }) {
    const names = { size: 12, fill: colour("--soft") };
    heads.forEach((head, column) => pen.text(`${cell < 30 ? "" : "H"}${head}`, left + column * cell + cell / 2 - gap / 2, TOP / 2 + 2, { ...names, align: "center" }));
    const common = state.common ? viewer.inAll("model", "ownTop") : null;
    layers().forEach((layer, line) => {
      const top = TOP + line * cell;
      if (top > y + height || top + cell < y) return;
      pen.text(`L${layer}`, left - 10, top + (cell - gap) / 2, { ...names, align: "right" });
      for (const head of viewer.headsOf(layer)) drawCell(pen, layer, head, top, common);
    });
  }

  const ownTop = () => layers().filter(maps.ready).flatMap((layer) => viewer.headsOf(layer).map((head) => maps.of(layer, head).top())).reduce((a, b) => Math.max(a, b), 0);

  function drawCell(pen, layer, head, y, common) {
    const x = left + heads.indexOf(head) * cell;
    const size = cell - gap;
    const isChosen = state.cell?.layer === layer && state.cell?.head === head;
    pen.rect(x, y, size, size, { fill: colour("--ground"), radius: 3 });
    if (maps.ready(layer)) {
      const picture = thumb(layer, head, common ?? maps.of(layer, head).top());
      if (picture) pen.image(picture.canvas, x, y, size, size);
      if (state.gold) drawGold(pen, x, y, size, isChosen);
      drawDividers(pen, x, y, size);
    }
    pen.rect(x + 0.5, y + 0.5, size - 1, size - 1, { stroke: isChosen ? colour("--accent") : colour("--rule"), width: isChosen ? 2.5 : 1, radius: 3 });
  }

  /** Rings where a word stands on its gold head, where a cell is large enough to be ringed. */
  function drawGold(pen, x, y, size, isChosen) {
    const [from, to] = [viewer.shown("from"), viewer.shown("to")];
    const [high, wide] = [size / from.length, size / to.length];
    if (Math.min(high, wide) < 3) return;
    for (const [word, head] of viewer.units().arcs ?? []) {
      const at = [to.indexOf(head), from.indexOf(word)];
      if (Math.min(...at) < 0) continue;
      pen.rect(x + at[0] * wide + 0.5, y + at[1] * high + 0.5, wide - 1, high - 1, { stroke: colour("--star"), opacity: isChosen ? 1 : 0.45 });
    }
  }

  /** Between the two sentences of a pair. */
  function drawDividers(pen, x, y, size) {
    if (size < 30) return;
    const look = { stroke: colour("--star"), opacity: 0.7 };
    const place = (at, side) => (at * size) / viewer.shown(side).length;
    for (const at of viewer.breaks("from")) pen.path([["M", x, y + place(at, "from")], ["L", x + size, y + place(at, "from")]], look);
    for (const at of viewer.breaks("to")) pen.path([["M", x + place(at, "to"), y], ["L", x + place(at, "to"), y + size]], look);
  }

  function hit(x, y) {
    const [line, column] = [Math.floor((y - TOP) / cell), Math.floor((x - left) / cell)];
    const layer = layers()[line];
    const head = heads[column];
    return layer !== undefined && viewer.headsOf(layer).includes(head) ? { layer, head } : null;
  }

  const hover = (found) => viewer.change({ cell: found });
  const choose = ({ layer, head }) => viewer.change({ view: "heads", layer, heads: new Set([head]), word: null, kept: false });

  function key(name) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (name === "Enter" || name === " ") return state.cell ? (choose(state.cell), true) : false;
    if (name === "Escape") return (hover(null), true);
    if (!steps[name]) return false;
    const at = state.cell ? [layers().indexOf(state.cell.layer), heads.indexOf(state.cell.head)] : [layers().length - 1, 0];
    const [line, column] = state.cell ? [at[0] + steps[name][0], at[1] + steps[name][1]] : at;
    const layer = layers()[line];
    if (layer !== undefined && viewer.headsOf(layer).includes(heads[column])) hover({ layer, head: heads[column] });
    return true;
  }

  /** Where the chosen thumbnail stands, to be scrolled to. */
  function focus() {
    if (!state.cell) return null;
    return { x: left + heads.indexOf(state.cell.head) * cell, y: TOP + layers().indexOf(state.cell.layer) * cell, width: cell, height: cell };
  }

  function says() {
    if (!state.cell || !maps.ready(state.cell.layer) || !viewer.headsOf(state.cell.layer).includes(state.cell.head)) {
      return [["quiet", "Point at a head to see where it looks; choose it to see its lines."]];
    }
    const { layer, head } = state.cell;
    const map = maps.of(layer, head);
    const [rows, columns] = [viewer.units("from").labels, viewer.units("to").labels];
    const { special } = viewer.units("to");
    const shown = viewer.shown("from");
    const isSame = viewer.isSquare();
    const mass = { special: 0, self: 0, previous: 0, next: 0 };
    let all = 0;
    let best = [0, 0, -1];
    shown.forEach((i, at) => map.each(i, (j, w) => {
      all += w;
      if (special[j]) mass.special += w;
      else if (isSame && j === i) mass.self += w;
      else if (isSame && j === shown[at - 1]) mass.previous += w;
      else if (isSame && j === shown[at + 1]) mass.next += w;
      if (w > best[2]) best = [i, j, w];
    }));
    const share = (part) => `${Math.round((100 * part) / (all || 1))} %`;
    const names = { special: "special tokens", self: "the word itself", previous: "the one before", next: "the one after" };
    const parts = Object.entries(mass).filter(([name]) => (name === "special" ? state.specials === "shown" : isSame));
    return [
      ["strong", headName(layer, head)],
      ["plain", ` Strongest: ${rows[best[0]]} → ${columns[best[1]]} ${weight(Math.max(0, best[2]))}. `],
      ["quiet", parts.length && `Of its attention: ${parts.map(([name, part]) => `${share(part)} on ${names[name]}`).join(", ")}.`],
    ].filter(([, text]) => text);
  }

  const scale = () => (state.common ? "all share one scale" : "each from nothing to its own strongest");
  const hint = () => `Layer 1 is at the bottom. Rows look at columns; shade is the square root of the weight, ${scale()}.${state.gold ? " Rings: a word's gold head." : ""} Arrow keys move, Enter opens.`;

  return { measure, draw, hit, hover, choose, key, focus, says, hint, ownTop, needs: layers, label: "All heads, layers from the bottom up, heads across" };
};
