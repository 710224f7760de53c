// One head, or the mean of several, as a matrix: those who look are rows, those who are looked at are columns.
viewer.makers.matrix = (viewer) => {
  "use strict";
  const { state, maps, colour, headName, weight } = viewer;
  const { widthOf, fit } = viewer.pens;
  const SIZE = 13;
  const LEAST = 18;
  const MOST = 40;
  const WRITTEN = 28;
  const LONGEST = 130;
  const BLOCK = 16;
  const BAR = 76;
  const STEPS = 24;
  let grid = { cell: 20, left: 80, top: 80 };
  let mean = { about: "", rows: new Map(), top: null };
  let pointed = null; // places of a row and a column

  const chosenHeads = () => viewer.headsOf(state.layer).filter((head) => state.heads.has(head));
  const isReady = () => maps.ready(state.layer) && chosenHeads().length > 0;
  const longest = (side) => viewer.shown(side).reduce((most, place) => Math.max(most, Math.min(LONGEST, widthOf(viewer.units(side).labels[place], SIZE, 600))), 40);

  function measure(width) {
    const [n, m] = [viewer.shown("from").length, viewer.shown("to").length];
    const [beside, above] = [longest("from") + 16, longest("to") * 0.76 + 42];
    const lean = longest("to") * 0.64;
    const room = width - beside - Math.max(BAR, lean) - 8;
    const cell = Math.max(LEAST, Math.min(MOST, Math.floor(room / Math.max(1, m))));
    const spare = Math.max(0, (room - cell * m) / 2);
    grid = { cell, left: Math.round(beside + spare), top: Math.round(above), beside, n, m };
    const right = grid.left + cell * m + Math.max(BAR, lean);
    return { width: right, height: grid.top + Math.max(cell * n, 130) + 14, left: grid.left - beside - 4, right };
  }

  const x = (at) => grid.left + at * grid.cell;
  const y = (at) => grid.top + at * grid.cell;

  /** A row of the mean of the heads shown, kept while the same is looked at. */
  function row(i) {
    const heads = chosenHeads();
    const about = [state.kind, state.level, state.weights, state.specials, state.part, state.layer, heads].join(" ");
    if (mean.about !== about) mean = { about, rows: new Map(), top: null };
    if (!mean.rows.has(i)) {
      const found = new Float32Array(viewer.units("to").labels.length);
      for (const head of heads) maps.of(state.layer, head).each(i, (j, w) => { found[j] += w / heads.length; });
      mean.rows.set(i, found);
    }
    return mean.rows.get(i);
  }

  function ownTop() {
    if (!isReady()) return 1e-9;
    row(0);
    mean.top ??= viewer.shown("from").reduce((most, i) => row(i).reduce((a, b) => Math.max(a, b), most), 1e-9);
    return mean.top;
  }
  const top = () => viewer.inAll("matrix", "ownTop");

  function draw(pen, seen) {
    const { cell, n, m } = grid;
    const rows = [Math.max(0, Math.floor((seen.y - grid.top) / cell)), Math.min(n, Math.ceil((seen.y + seen.height - grid.top) / cell))];
    const columns = [Math.max(0, Math.floor((seen.x - grid.left) / cell)), Math.min(m, Math.ceil((seen.x + seen.width - grid.left) / cell))];
    if (isReady()) drawBlocks(pen, rows, columns);
    drawOver(pen);
    // Names stay in sight where one has scrolled on.
    const [left, above] = [Math.max(grid.left, seen.x + grid.beside), Math.max(grid.top, seen.y + grid.top)];
    const paper = { fill: colour("--raised") };
    pen.rect(left - grid.beside, seen.y, grid.beside - 1, seen.height, paper);
    drawNames(pen, "from", rows, (at, look, text) => y(at) >= above - cell && pen.text(text, left - 7, y(at) + cell / 2, { ...look, align: "right" }));
    pen.rect(seen.x, above - grid.top, seen.width, grid.top - 1, paper);
    const isBeyond = (at) => x(at) < left - cell;
    drawNames(pen, "to", columns, (at, look, text) => isBeyond(at) || pen.text(text, x(at) + cell / 2, above - 7, { ...look, turn: -50 }));
    const soft = { size: 12, fill: colour("--soft") };
    pen.text(title(), left, above - grid.top + 12, { ...soft, weight: 600, fill: colour("--text") });
    pen.text("to →", left - 7, above - 26, { ...soft, align: "right" });
    pen.text("from ↓", left - 7, above - 10, { ...soft, align: "right" });
    if (isReady()) drawBar(pen, above);
  }

  function title() {
    const heads = chosenHeads();
    if (!heads.length) return "no head";
    return heads.length === 1 ? headName(state.layer, heads[0]) : `layer ${state.layer}, mean of ${heads.length} heads`;
  }

  /** Cells are the same wherever one has scrolled to: so many of them are kept as one picture. */
  function drawBlocks(pen, [low, high], [first, last]) {
    const most = top();
    const about = [viewer.number, "matrix", state.threshold, most, state.gold].join(" ");
    row(viewer.shown("from")[low] ?? 0);
    for (let i = low - (low % BLOCK); i < high; i += BLOCK) {
      for (let j = first - (first % BLOCK); j < last; j += BLOCK) {
        const [below, right] = [Math.min(grid.n, i + BLOCK), Math.min(grid.m, j + BLOCK)];
        const cells = (on) => drawCells(on, most, [i, below], [j, right]);
        const box = { x: x(j), y: y(i), width: x(right) - x(j), height: y(below) - y(i) };
        if (pen.kept) pen.kept([about, mean.about, i, j, ...Object.values(box)].join(" "), box, cells);
        else cells(pen);
      }
    }
  }

  function drawCells(pen, most, [low, high], [first, last]) {
    const [rows, columns] = [viewer.shown("from"), viewer.shown("to")];
    const least = viewer.least(most);
    for (let i = low; i < high; i++) {
      const weights = row(rows[i]);
      for (let j = first; j < last; j++) {
        const w = weights[columns[j]];
        const isDrawn = w >= least;
        const { fill, ink } = viewer.shade(isDrawn ? w / most : 0);
        pen.rect(x(j) + 0.5, y(i) + 0.5, grid.cell - 1, grid.cell - 1, { fill });
        if (grid.cell < WRITTEN || state.weights !== "raw" || !isDrawn || w < 0.005) continue;
        pen.text(String(Math.round(100 * w)), x(j) + grid.cell / 2, y(i) + grid.cell / 2, { size: 11, fill: ink, align: "center" });
      }
    }
  }

  /** What lies over cells: between sentences, gold heads, the chosen word, the cell that is pointed at. */
  function drawOver(pen) {
    const { cell, n, m } = grid;
    const [rows, columns] = [viewer.shown("from"), viewer.shown("to")];
    const divider = { stroke: colour("--star"), width: 1.5 };
    for (const at of viewer.breaks("from")) pen.path([["M", x(0), y(at)], ["L", x(m), y(at)]], divider);
    for (const at of viewer.breaks("to")) pen.path([["M", x(at), y(0)], ["L", x(at), y(n)]], divider);
    for (const [word, head] of state.gold ? viewer.units().arcs ?? [] : []) {
      const at = [columns.indexOf(head), rows.indexOf(word)];
      if (Math.min(...at) >= 0) pen.rect(x(at[0]) + 1, y(at[1]) + 1, cell - 2, cell - 2, { stroke: colour("--star"), width: 1.6, radius: 2 });
    }
    const accent = { stroke: colour("--accent"), width: 2 };
    const word = viewer.word();
    const at = word === null ? -1 : viewer.shown(state.side).indexOf(word);
    if (at >= 0 && state.side === "from") pen.rect(x(0), y(at), cell * m, cell, accent);
    if (at >= 0 && state.side === "to") pen.rect(x(at), y(0), cell, cell * n, accent);
    if (pointed) pen.rect(x(columns.indexOf(pointed.to)), y(rows.indexOf(pointed.from)), cell, cell, accent);
  }

  function drawNames(pen, side, [low, high], write) {
    const { labels, special, segment } = viewer.units(side);
    const shown = viewer.shown(side);
    const word = viewer.word();
    for (let at = low; at < high; at++) {
      const place = shown[at];
      const isOwn = pointed?.[side] === place || (state.side === side && word === place);
      const fill = isOwn ? colour("--accent") : special[place] ? colour("--soft") : segment[place] ? colour("--star") : colour("--text");
      const isFound = viewer.matches(labels[place]);
      const text = fit(labels[place], LONGEST - 6, SIZE, 600);
      write(at, { size: SIZE, fill, weight: isOwn || isFound ? 700 : 400 }, isFound ? `▸${text}` : text);
    }
  }

  /** Which shade is which weight: heights on the bar are square roots, as shades are. */
  function drawBar(pen, above) {
    const most = top();
    const left = x(grid.m) + 18;
    const height = Math.min(160, Math.max(100, grid.cell * grid.n));
    for (let step = 0; step < STEPS; step++) {
      const share = (STEPS - step - 0.5) / STEPS;
      pen.rect(left, above + (step * height) / STEPS, 12, height / STEPS + 0.6, { fill: viewer.shade(share * share).fill });
    }
    pen.rect(left, above, 12, height, { stroke: colour("--rule") });
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      pen.text(weight(part * part * most), left + 17, above + (1 - part) * height, { size: 11, fill: colour("--soft") });
    }
  }

  function hit(where, height) {
    const at = { from: Math.floor((height - grid.top) / grid.cell), to: Math.floor((where - grid.left) / grid.cell) };
    const [from, to] = [viewer.shown("from")[at.from], viewer.shown("to")[at.to]];
    return from === undefined || to === undefined ? null : { from, to };
  }

  const panel = viewer.number;
  function hover(found) {
    pointed = found;
    viewer.change({});
  }

  /** A row is chosen, and let go of when it is chosen again. */
  function choose({ from }) {
    const isSame = state.kept && state.side === "from" && viewer.word() === from;
    viewer.change({ word: isSame ? null : from, side: "from", panel, kept: !isSame });
  }
  const OTHERS = ["level", "kind", "part", "specials", "view"];
  viewer.onChange((patch) => {
    if (OTHERS.some((name) => name in patch) || (patch.panel ?? panel) !== panel) pointed = null;
  });

  function key(name) {
    if (name === "Escape") { pointed = null; viewer.change({ word: null, kept: false }); return true; }
    if (name === "Enter" || name === " ") return pointed ? (choose(pointed), true) : false;
    if (name === "PageUp" || name === "PageDown") return viewer.own.heads.key(name);
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[name];
    if (!step) return false;
    const [rows, columns] = [viewer.shown("from"), viewer.shown("to")];
    const to = (list, at) => list[Math.max(0, Math.min(list.length - 1, at))];
    if (pointed) pointed = { from: to(rows, rows.indexOf(pointed.from) + step[0]), to: to(columns, columns.indexOf(pointed.to) + step[1]) };
    else pointed = { from: state.side === "from" ? viewer.word() ?? rows[0] : rows[0], to: columns[0] };
    viewer.change({});
    return true;
  }

  /** Clear of the names that stay in sight. */
  function focus() {
    const place = pointed?.from ?? (state.side === "from" ? viewer.word() : null);
    const column = pointed?.to ?? (state.side === "to" ? viewer.word() : null);
    const [at, over] = [viewer.shown("from").indexOf(place), viewer.shown("to").indexOf(column)];
    if (at < 0 && over < 0) return null;
    const { cell, beside, top: above } = grid;
    return { x: x(Math.max(0, over)) - beside - 4, y: y(Math.max(0, at)) - above, width: beside + cell + 8, height: above + cell + 4 };
  }

  function says() {
    if (!chosenHeads().length) return [["plain", "No head of this layer is chosen: take some above."]];
    if (!isReady()) return [["quiet", " "]];
    const [from, to] = [viewer.units("from").labels, viewer.units("to").labels];
    if (pointed) return [["strong", from[pointed.from]], ["plain", ` looks at ${to[pointed.to]} ${weight(row(pointed.from)[pointed.to])} `], ["quiet", `(${title()})`]];
    if (viewer.word() !== null) return viewer.own.word.says(state.layer, chosenHeads());
    return [["quiet", "Point at a cell for its weight; choose it to keep its row."]];
  }

  const hint = () => {
    const unit = state.weights !== "raw" ? "" : " Numbers are percent.";
    return `Rows look at columns.${unit} Shade is the square root of the weight, by the bar. Arrow keys move, Enter keeps a row, Page Up and Down change the layer.`;
  };

  return { measure, draw, hit, hover, choose, key, focus, says, hint, ownTop, needs: () => (chosenHeads().length ? [state.layer] : []), label: "Attention as a matrix, rows look at columns" };
};
