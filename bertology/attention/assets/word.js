// One word's attention through the layers: layers from the bottom up, words across, dependencies above.
viewer.makers.word = (viewer) => {
  "use strict";
  const { state, maps, colour, headName, weight } = viewer;
  const { widthOf, fit, arcHeights } = viewer.pens;
  const SIDE = 44;
  const ROW = 30;
  const SIZE = 13;
  const STEP = 15;
  const BLOCK = 8;
  let grid = { edges: [0], left: SIDE, top: 100, arcs: 0, slant: false };
  let means = { about: "", found: new Map() };

  let own = null; // the word of this panel where that of another stands not in it
  /** From the top down; layer 1 is the lowest, as in all figures. */
  const layers = () => viewer.layers().map((one) => one.layer).reverse();
  /** The words across: those that the chosen one looks at, or that look at it. */
  const across = () => (state.side === "from" ? "to" : "from");
  const headsHere = (layer) => (state.head === null ? viewer.headsOf(layer) : viewer.headsOf(layer).filter((head) => head === state.head));

  /** Of each word, what it gets from the chosen one or gives to it, in one head. */
  function weights(layer, head) {
    const map = maps.of(layer, head);
    return state.side === "from" ? map.row(current()) : map.to(current());
  }

  /** The same for several heads: their mean, which is kept while the same is looked at. */
  function mean(layer, chosen = headsHere(layer)) {
    const about = [state.kind, state.level, state.weights, state.specials, state.part, current(), state.side].join(" ");
    if (means.about !== about) means = { about, found: new Map() };
    const name = `${layer} ${chosen}`;
    if (!means.found.has(name)) means.found.set(name, meanOf(layer, chosen));
    return means.found.get(name);
  }

  function meanOf(layer, chosen) {
    const found = new Float32Array(viewer.units(across()).labels.length);
    for (const head of chosen) weights(layer, head).forEach((w, place) => { found[place] += w / chosen.length; });
    return found;
  }

  /** There is always a word in this view. */
  function current() {
    const shown = viewer.shown(state.side);
    const { special } = viewer.units(state.side);
    own = viewer.word() ?? own;
    if (own === null || !shown.includes(own)) own = shown.find((place) => !special[place]) ?? shown[0];
    if (state.view === "word" && state.panel === viewer.number) state.word = own;
    return own;
  }

  function measure(width) {
    const { labels } = viewer.units(across());
    const shown = viewer.shown(across());
    const names = shown.map((place) => Math.min(130, widthOf(labels[place], SIZE, 700)));
    const longest = Math.max(20, ...names);
    const room = width - SIDE - 16;
    // Words stand upright over columns of their own width where these fit; else they lean over narrow ones.
    let cells = names.map((one) => Math.max(30, one + 14));
    const all = cells.reduce((a, b) => a + b, 0);
    const slant = all > room;
    if (slant) cells = cells.map(() => Math.max(22, Math.min(76, Math.floor((room - longest * 0.76) / shown.length))));
    else cells = cells.map((one) => one + Math.min(26, (room - all) / shown.length));
    const edges = [0];
    for (const one of cells) edges.push(edges.at(-1) + one);
    const above = slant ? longest * 0.76 + 16 : 28;
    const crowns = state.gold ? 22 + STEP * Math.min(9, Math.max(0, ...arcHeights(arcsShown()))) : 6;
    grid = { edges, left: Math.max(SIDE, (width - edges.at(-1) - 16 + SIDE) / 2), top: crowns + above, arcs: crowns, slant };
    return { width: grid.left + edges.at(-1) + (slant ? longest * 0.76 : 8) + 8, height: grid.top + layers().length * ROW + 14 };
  }

  /** Gold dependencies between words that are shown. */
  const arcsShown = () => viewer.units().arcs?.filter((arc) => !viewer.hides(arc[0], across()) && !viewer.hides(arc[1], across())) ?? [];
  const x = (at) => grid.left + (grid.edges[at] + grid.edges[at + 1]) / 2;
  const wide = (at) => grid.edges[at + 1] - grid.edges[at];
  /** The column at a place, which may be none. */
  const columnAt = (where) => grid.edges.findLastIndex((edge) => edge <= where - grid.left);

  function draw(pen, seen) {
    const shown = viewer.shown(across());
    const low = Math.max(0, columnAt(seen.x) - 6);
    const high = Math.min(shown.length, columnAt(seen.x + seen.width) + 2);
    if (state.gold) drawArcs(pen, shown, low, high);
    drawLabels(pen, shown, low, high);
    const known = layers().filter((layer) => maps.ready(layer) && headsHere(layer).length);
    const rows = new Map(known.map((layer) => [layer, mean(layer)]));
    const most = viewer.inAll("word", "ownTop");
    const cells = (on, from, to) => layers().forEach((layer, line) => {
      const y = grid.top + line * ROW;
      const row = rows.get(layer);
      for (let at = from; at < to; at++) drawCell(on, at, y, row ? row[shown[at]] : null, most);
    });
    const about = [viewer.number, means.about, state.head, state.threshold, known, most].join(" ");
    if (pen.kept) drawBlocks(pen, low, high, shown.length, about, cells);
    else cells(pen, low, high);
    for (const at of viewer.breaks(across())) {
      const edge = grid.left + grid.edges[at];
      pen.path([["M", edge, grid.top - 22], ["L", edge, grid.top + layers().length * ROW]], { stroke: colour("--star"), width: 1.5 });
    }
    pen.rect(seen.x, grid.top - 2, grid.left > SIDE ? 0 : SIDE - 4, layers().length * ROW + 4, { fill: colour("--raised"), opacity: 0.92 });
    const edge = grid.left > SIDE ? grid.left : seen.x + SIDE;
    layers().forEach((layer, line) => pen.text(`L${layer}`, edge - 12, grid.top + line * ROW + ROW / 2, { size: 12, fill: colour("--soft"), align: "right" }));
  }

  function ownTop() {
    const known = layers().filter((layer) => maps.ready(layer) && headsHere(layer).length);
    return Math.max(1e-9, ...known.map((layer) => mean(layer).reduce((a, b) => Math.max(a, b), 0)));
  }

  /** Cells are the same wherever one has scrolled to: so many columns of them are kept as one picture. */
  function drawBlocks(pen, low, high, n, about, cells) {
    for (let from = low - (low % BLOCK); from < high; from += BLOCK) {
      const to = Math.min(n, from + BLOCK);
      const [left, right] = [Math.floor(grid.left + grid.edges[from]), Math.ceil(grid.left + grid.edges[to])];
      const box = { x: left, y: Math.floor(grid.top), width: right - left, height: layers().length * ROW + 1 };
      const place = [from, grid.left + grid.edges[from], grid.edges[to], grid.top].join(" ");
      pen.kept(`cells ${about} ${place}`, box, (on) => cells(on, from, to));
    }
  }

  /** A weight, null where it is not known yet, against the strongest one. */
  function drawCell(pen, at, y, w, most) {
    const isDrawn = w !== null && w >= viewer.least(most);
    const { fill, ink } = viewer.shade(isDrawn ? w / most : 0);
    pen.rect(x(at) - wide(at) / 2 + 1, y + 1, wide(at) - 2, ROW - 2, { fill, radius: 3 });
    if (!isDrawn || wide(at) < (state.weights !== "raw" ? 40 : 28)) return;
    const text = state.weights !== "raw" ? w.toPrecision(2) : String(Math.round(100 * w));
    if (state.weights !== "raw" || w >= 0.005) pen.text(text, x(at), y + ROW / 2, { size: 12, fill: ink, align: "center" });
  }

  function drawLabels(pen, shown, low, high) {
    const { labels, special, segment } = viewer.units(across());
    // Of cross-attention the chosen word is not among those across.
    const word = viewer.isSquare() ? current() : null;
    for (let at = low; at < high; at++) {
      const place = shown[at];
      const isOwn = place === word;
      const fill = isOwn ? colour("--accent") : special[place] ? colour("--soft") : segment[place] ? colour("--star") : colour("--text");
      const look = { size: SIZE, fill, weight: isOwn ? 700 : 400 };
      const text = fit(labels[place], grid.slant ? 130 : wide(at) - 4, SIZE, isOwn ? 700 : 400);
      if (viewer.matches(labels[place]) && !isOwn) pen.rect(x(at) - wide(at) / 2 + 1, grid.top - 5, wide(at) - 2, 5, { fill: colour("--mark") });
      if (grid.slant) pen.text(text, x(at) - 3, grid.top - 9, { ...look, turn: -50 });
      else pen.text(text, x(at), grid.top - 13, { ...look, align: "center" });
      if (isOwn) pen.rect(x(at) - wide(at) / 2 + 0.5, grid.top - 0.5, wide(at) - 1, layers().length * ROW + 1, { stroke: colour("--accent"), width: 1.6, radius: 4 });
    }
  }

  function drawArcs(pen, shown, low, high) {
    const arcs = arcsShown();
    const heights = arcHeights(arcs);
    const base = grid.arcs;
    arcs.forEach(([word, head, relation], number) => {
      const [a, b] = [shown.indexOf(word), shown.indexOf(head)];
      if (Math.max(a, b) < low || Math.min(a, b) > high) return;
      const isOwn = current() === word || current() === head;
      const crown = base - 8 - STEP * Math.min(9, heights[number]);
      const [from, to] = [x(b) + (a < b ? -4 : 4), x(a) + (a < b ? 3 : -3)];
      const round = Math.min(14, Math.abs(from - to) / 2) * Math.sign(to - from);
      const look = { stroke: colour(isOwn ? "--star" : "--soft"), opacity: isOwn ? 1 : 0.5, width: isOwn ? 1.8 : 1.1 };
      pen.path([["M", from, base], ["L", from, crown + 10], ["C", from, crown, from, crown, from + round, crown], ["L", to - round, crown], ["C", to, crown, to, crown, to, crown + 10], ["L", to, base - 4]], look);
      pen.path([["M", to - 3.5, base - 6], ["L", to + 3.5, base - 6], ["L", to, base], ["Z"]], { fill: look.stroke, opacity: look.opacity });
      const width = widthOf(relation, 11) + 6;
      if (width > Math.abs(from - to) - 4 && !isOwn) return;
      pen.rect((from + to) / 2 - width / 2, crown - 6, width, 12, { fill: colour("--raised") });
      pen.text(relation, (from + to) / 2, crown, { size: 11, fill: look.stroke, align: "center", opacity: isOwn ? 1 : 0.85 });
    });
  }

  function hit(where, y) {
    const shown = viewer.shown(across());
    // A slanted label leans over the columns to its right.
    const lean = grid.slant && y < grid.top && y > grid.arcs ? (grid.top - y) * 0.84 : 0;
    const at = columnAt(where - lean);
    const line = Math.floor((y - grid.top) / ROW);
    return at >= 0 && at < shown.length ? { place: shown[at], layer: layers()[line] ?? null } : null;
  }

  let seen = null;
  const hover = (found) => { seen = found; viewer.change({}); };
  const panel = viewer.number;

  /** Across stand words of the same text, or those of the other side. */
  function choose({ place }) {
    const isHere = viewer.isSquare() && !viewer.hides(place, state.side);
    seen = null;
    viewer.change({ word: place, panel, kept: true, side: isHere ? state.side : across() });
  }

  function key(name) {
    const shown = viewer.shown(state.side);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[name];
    if (!step) return false;
    seen = null;
    viewer.change({ word: shown[Math.max(0, Math.min(shown.length - 1, shown.indexOf(current()) + step))], panel, kept: true });
    return true;
  }

  function focus() {
    const at = viewer.shown(across()).indexOf(current());
    return viewer.isSquare() && at >= 0 ? { x: x(at) - 90, y: 0, width: 180, height: 1 } : null;
  }

  /** The strongest cell of the grid in words. */
  function strongest(looks) {
    let best = [0, null, 0];
    for (const layer of layers().filter((one) => maps.ready(one) && headsHere(one).length)) {
      mean(layer).forEach((w, place) => { if (w > best[0]) best = [w, layer, place]; });
    }
    return best[1] === null ? " " : ` ${looks} ${viewer.units(across()).labels[best[2]]} most: ${weight(best[0])} in layer ${best[1]}.`;
  }

  /** What a word looks at in a layer, strongest first, and its gold head. */
  function says(layer = null, heads = null) {
    const { labels } = viewer.units(across());
    const place = heads ? viewer.word() : current();
    const looks = state.side === "from" ? "looks at" : "is looked at by";
    const parts = [["strong", viewer.units(state.side).labels[place]]];
    const at = layer ?? seen?.layer ?? null;
    if (at !== null && maps.ready(at)) {
      const chosen = heads ?? headsHere(at);
      if (chosen.length) {
        const row = mean(at, chosen);
        const who = chosen.length === 1 ? headName(at, chosen[0]) : `L${at}, mean of ${chosen.length} heads`;
        const first = heads === null && seen && seen.place !== place ? [seen.place] : [];
        const best = [...row.keys()].filter((one) => row[one] > 0).sort((a, b) => row[b] - row[a]).slice(0, 4);
        const told = first.length ? first : best;
        parts.push(["plain", ` ${looks} ${told.map((one) => `${labels[one]} ${weight(row[one])}`).join(", ")} `], ["quiet", `(${who})`]);
      }
    } else parts.push(["plain", strongest(looks)], ["quiet", " Point at a cell for its number, choose a column for its word."]);
    const gold = state.gold && state.side === "from" && viewer.units().arcs?.find(([word]) => word === place);
    if (gold) parts.push(["quiet", ` · gold head: ${viewer.units().labels[gold[1]]} (${gold[2]})`]);
    return parts;
  }

  function hint() {
    const unit = { raw: "Percent", norm: "Norms", effect: "Effects" }[state.weights];
    const which = state.head === null ? "the mean of a layer's heads" : `head ${state.head} of each layer`;
    return `Layer 1 is at the bottom. ${unit} of ${which}; shade is their square root, against the strongest of the grid. Left and right arrows change the word.`;
  }

  return { measure, draw, hit, hover, choose, key, focus, says, hint, ownTop, weights, needs: layers, label: "One word through the layers, from the bottom up" };
};
