// All heads as thumbnails: layers down, heads across.
viewer.views.model = (() => {
  "use strict";
  const { data, state, maps, pictures, heads, colour, headName, weight } = viewer;
  const SIDE = 40;
  const TOP = 26;
  const before = new Map(); // by head, the picture that was shown last
  let cell = 40;
  let gap = 4;
  let left = SIDE;

  const layers = () => data.layers.map((one) => one.layer);

  function measure(width) {
    const fitted = Math.floor((width - SIDE - 10) / heads.length);
    cell = Math.max(22, Math.min(104, fitted));
    gap = cell > 40 ? 6 : 3;
    left = Math.max(SIDE, Math.floor((width - cell * heads.length - 10 + SIDE) / 2));
    return { width: left + cell * heads.length + 10, height: TOP + cell * layers().length + 10 };
  }

  /** One map as a little picture; while there is none of its size, one of another size that was shown before. */
  function thumb(layer, head, top) {
    const about = [document.documentElement.dataset.theme, state.level, state.weights, state.specials, top].join(" ");
    const name = `${layer} ${head}`;
    const picture = pictures.get(`thumb ${name} ${about} ${cell}`, () => paint(maps.of(layer, head), top));
    if (picture) before.set(name, { about, picture });
    return before.get(name)?.about === about ? before.get(name).picture : null;
  }

  /** Of long sentences a pixel is the strongest of several weights. */
  function paint(map, top) {
    const shown = viewer.shown();
    const size = Math.max(1, Math.min(cell - gap, shown.length));
    const place = new Int32Array(map.n).fill(-1);
    shown.forEach((unit, at) => { place[unit] = Math.floor((at * size) / shown.length); });
    const strongest = new Float32Array(size * size);
    for (const i of shown) {
      const row = place[i] * size;
      map.each(i, (j, w) => {
        const at = row + place[j];
        if (w > strongest[at]) strongest[at] = w;
      });
    }
    const [red, green, blue] = colour("--heat").split(" ").map(Number);
    const canvas = pictures.of(size, size, (pixels) => {
      const heat = (blue << 16) | (green << 8) | red;
      strongest.forEach((w, at) => { pixels[at] = (Math.round(255 * Math.sqrt(Math.min(1, w / (top || 1)))) << 24) | heat; });
    });
    return { canvas };
  }

  function draw(pen, { y, height }) {
    const names = { size: 12, fill: colour("--soft") };
    heads.forEach((head, column) => pen.text(`${cell < 30 ? "" : "H"}${head}`, left + column * cell + cell / 2 - gap / 2, TOP / 2 + 2, { ...names, align: "center" }));
    const common = state.common ? Math.max(...layers().filter(maps.ready).flatMap((layer) => viewer.headsOf(layer).map((head) => maps.of(layer, head).top()))) : null;
    layers().forEach((layer, line) => {
      const top = TOP + line * cell;
      if (top > y + height || top + cell < y) return;
      pen.text(`L${layer}`, left - 10, top + (cell - gap) / 2, { ...names, align: "right" });
      for (const head of viewer.headsOf(layer)) drawCell(pen, layer, head, top, common);
    });
  }

  function drawCell(pen, layer, head, y, common) {
    const x = left + heads.indexOf(head) * cell;
    const size = cell - gap;
    const isChosen = state.cell?.layer === layer && state.cell?.head === head;
    pen.rect(x, y, size, size, { fill: colour("--ground"), radius: 3 });
    if (maps.ready(layer)) {
      const picture = thumb(layer, head, common ?? maps.of(layer, head).top());
      if (picture) pen.image(picture.canvas, x, y, size, size);
      if (state.gold) drawGold(pen, x, y, size, isChosen);
    }
    pen.rect(x + 0.5, y + 0.5, size - 1, size - 1, { stroke: isChosen ? colour("--accent") : colour("--rule"), width: isChosen ? 2.5 : 1, radius: 3 });
  }

  /** Rings where a word stands on its gold head, where a cell is large enough to be ringed. */
  function drawGold(pen, x, y, size, isChosen) {
    const shown = viewer.shown();
    const unit = size / shown.length;
    if (unit < 3) return;
    for (const [word, head] of viewer.units().arcs) {
      const at = [shown.indexOf(head), shown.indexOf(word)];
      pen.rect(x + at[0] * unit + 0.5, y + at[1] * unit + 0.5, unit - 1, unit - 1, { stroke: colour("--star"), opacity: isChosen ? 1 : 0.45 });
    }
  }

  function hit(x, y) {
    const [line, column] = [Math.floor((y - TOP) / cell), Math.floor((x - left) / cell)];
    const layer = layers()[line];
    const head = heads[column];
    return layer !== undefined && viewer.headsOf(layer).includes(head) ? { layer, head } : null;
  }

  const hover = (found) => viewer.change({ cell: found });
  const choose = ({ layer, head }) => viewer.change({ view: "heads", layer, heads: new Set([head]), word: null });

  function key(name) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (name === "Enter" || name === " ") return state.cell ? (choose(state.cell), true) : false;
    if (name === "Escape") return (hover(null), true);
    if (!steps[name]) return false;
    const at = state.cell ? [layers().indexOf(state.cell.layer), heads.indexOf(state.cell.head)] : [0, 0];
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
    if (!state.cell || !maps.ready(state.cell.layer)) return [["quiet", "Point at a head to see where it looks; choose it to see its lines."]];
    const { layer, head } = state.cell;
    const map = maps.of(layer, head);
    const { labels, special } = viewer.units();
    const shown = viewer.shown();
    const mass = { special: 0, self: 0, previous: 0, next: 0 };
    let all = 0;
    let best = [0, 0, -1];
    shown.forEach((i, at) => map.each(i, (j, w) => {
      all += w;
      if (special[j]) mass.special += w;
      else if (j === i) mass.self += w;
      else if (j === shown[at - 1]) mass.previous += w;
      else if (j === shown[at + 1]) mass.next += w;
      if (w > best[2]) best = [i, j, w];
    }));
    const share = (part) => `${Math.round((100 * part) / (all || 1))} %`;
    const names = { special: "special tokens", self: "the word itself", previous: "the one before", next: "the one after" };
    const parts = Object.entries(mass).filter(([name]) => name !== "special" || state.specials === "shown");
    return [
      ["strong", headName(layer, head)],
      ["plain", ` Strongest: ${labels[best[0]]} → ${labels[best[1]]} ${weight(Math.max(0, best[2]))}. `],
      ["quiet", `Of its attention: ${parts.map(([name, part]) => `${share(part)} on ${names[name]}`).join(", ")}.`],
    ];
  }

  const scale = () => (state.common ? "all share one scale" : "each from nothing to its own strongest");
  const hint = () => `Rows look at columns. Shade is the square root of the weight, ${scale()}.${state.gold ? " Rings: a word's gold head." : ""} Arrow keys move, Enter opens.`;

  return { measure, draw, hit, hover, choose, key, focus, says, hint, needs: layers, label: "All heads, layers down, heads across" };
})();
