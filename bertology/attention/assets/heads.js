// Lines between two columns of words: on the left who looks, on the right what is looked at.
viewer.makers.heads = (viewer) => {
  "use strict";
  const { state, maps, colour, headColour, headName, weight } = viewer;
  const { widthOf, fit, arcHeights } = viewer.pens;
  const LINE = 24;
  const TOP = 34;
  const SIZE = 14;
  const FAINTEST = 0.03;
  // So many lines can be told apart, if that. Of long texts, as many of each block of words, so that what is drawn of a
  // block is the same wherever one has scrolled to.
  const MOST_LINES = 600;
  const WHOLE = 32;
  const BLOCK = 8;
  const STEPS = 1024;
  let columns = { left: 0, right: 0, label: 0, square: 10, arcs: 0 };
  let chosen = { name: "", lines: new Map() };

  const chosenHeads = () => viewer.headsOf(state.layer).filter((head) => state.heads.has(head));
  const y = (at) => TOP + at * LINE + LINE / 2;

  function measure(width) {
    const [from, to] = ["from", "to"].map((side) => viewer.shown(side).map((place) => viewer.units(side).labels[place]));
    const longest = [...from, ...to].reduce((most, label) => Math.max(most, widthOf(label, SIZE, 600)), 20);
    const isNarrow = width < 500;
    const label = Math.min(longest + 14, Math.max(64, width * 0.2));
    const square = isNarrow ? 5 : 12;
    const squares = chosenHeads().length * square + 10;
    const arcs = state.gold ? Math.min(12 + 9 * Math.max(0, ...arcHeights(arcsShown())), width * (isNarrow ? 0.1 : 0.16)) : 0;
    const middle = Math.round(Math.max(72, Math.min(460, width - 2 * label - squares - arcs - 24)));
    const spare = Math.max(0, (width - arcs - 2 * label - middle - squares) / 2);
    // A whole number, so that lines painted before need not be painted again where only the room beside them changes.
    const left = Math.round(Math.max(arcs + label + 10, spare + arcs + label));
    columns = { left, right: left + middle, label, square, arcs };
    // What stands above the columns needs some room too.
    const ends = { left: left - Math.max(label + arcs + 8, 44), right: columns.right + Math.max(label + squares, 84) };
    return { width: Math.max(width, columns.right + label + squares), height: TOP + Math.max(from.length, to.length) * LINE + 14, ...ends };
  }

  /** Gold dependencies between words that are shown on the left. */
  const arcsShown = () => viewer.units().arcs?.filter((arc) => !viewer.hides(arc[0], "from") && !viewer.hides(arc[1], "from")) ?? [];

  /** The strongest weight of the heads shown, which gets the strongest line. */
  const ownTop = () => (maps.ready(state.layer) ? chosenHeads() : []).reduce((most, head) => Math.max(most, maps.of(state.layer, head).top()), 1e-9);
  const top = () => viewer.inAll("heads", "ownTop");

  /** By place, where a word stands among those that are shown on a side; −1 for the others. */
  function positions(side) {
    const position = new Int32Array(viewer.units(side).labels.length).fill(-1);
    viewer.shown(side).forEach((place, at) => { position[place] = at; });
    return position;
  }

  /** With `isMore`, only what may have changed when there are more lines painted than there were. */
  function draw(pen, seen, isMore = false) {
    const shown = { from: viewer.shown("from"), to: viewer.shown("to") };
    const position = { from: positions("from"), to: positions("to") };
    const low = Math.max(0, Math.floor((seen.y - TOP) / LINE) - 1);
    const high = Math.ceil((seen.y + seen.height - TOP) / LINE) + 1;
    const soft = { size: 12, fill: colour("--soft") };
    const drawn = { pen, shown, position, low, high };
    if (state.gold && !isMore) drawArcs(drawn);
    if (maps.ready(state.layer) && chosenHeads().length) pen.curves(curves(drawn));
    if (!isMore) for (const side of ["from", "to"]) drawLabels(drawn, side);
    pen.rect(seen.x, seen.y, seen.width, 28, { fill: colour("--raised"), opacity: 0.94 });
    pen.text("looks", columns.left, seen.y + 15, { ...soft, align: "right" });
    if (columns.right - columns.left > 220) pen.text(fitHeads(), (columns.left + columns.right) / 2, seen.y + 15, { ...soft, align: "center" });
    pen.text("is looked at", columns.right, seen.y + 15, soft);
  }

  function fitHeads() {
    const own = chosenHeads();
    return own.length === 1 ? headName(state.layer, own[0]) : `layer ${state.layer}, ${own.length} heads`;
  }

  const isPinned = (position) => viewer.word() !== null && position[state.side][viewer.word()] >= 0;
  const blockSize = (shown) => (shown.length <= WHOLE ? shown.length : BLOCK);
  const mostLines = (shown) => (shown.length <= WHOLE ? MOST_LINES : (MOST_LINES * BLOCK) / WHOLE);

  /** The lines of the words in sight, in blocks whose names tell all that a picture of their lines depends on. */
  function curves({ shown, position, low, high }) {
    const [x1, x2] = [columns.left + 5, columns.right - 5];
    const about = [viewer.number, state.kind, state.level, state.weights, state.specials, state.part, state.threshold, state.layer];
    about.push(chosenHeads(), top(), document.documentElement.dataset.theme);
    const word = viewer.word();
    const name = [...about, ...(isPinned(position) ? [word, state.side] : [])].join(" ");
    if (chosen.name !== name) chosen = { name, lines: new Map() };
    const block = (at, make) => {
      const lines = () => {
        if (!chosen.lines.has(at)) chosen.lines.set(at, make().map((line) => look(line, position)));
        return chosen.lines.get(at);
      };
      return { name: String(at), lines };
    };
    const bundle = { name, panel: viewer.number, x1, x2 };
    if (isPinned(position)) return { ...bundle, blocks: [block("word", () => strongest(ofWord, MOST_LINES))], paper: colour("--raised") };
    const rows = shown.from;
    const size = blockSize(rows);
    const blocks = [];
    for (let at = Math.floor(low / size); at * size < Math.min(high, rows.length); at++) {
      const words = rows.slice(at * size, (at + 1) * size);
      blocks.push(block(at, () => strongest((map, tell) => words.forEach((i) => map.each(i, (j, w) => tell(i, j, w))), mostLines(rows))));
    }
    return { ...bundle, blocks };
  }

  function ofWord(map, tell) {
    const word = viewer.word();
    if (state.side === "from") map.each(word, (j, w) => tell(word, j, w));
    else map.to(word).forEach((w, i) => tell(i, word, w));
  }

  /** The strongest of the lines that are told of each head, the strongest last: [from, to, share, which head]. */
  function strongest(ofMap, mostOf) {
    const most = top();
    const least = Math.max(FAINTEST * most, viewer.least(most));
    function all(tell) {
      chosenHeads().forEach((head, number) => {
        ofMap(maps.of(state.layer, head), (i, j, w) => { if (w >= least && w > 0) tell(i, j, w / most, number); });
      });
    }
    // Counted first, so that of very many lines only those are kept that will be drawn.
    const counts = new Uint32Array(STEPS + 1);
    all((i, j, share) => { counts[Math.floor(share * STEPS)]++; });
    let step = STEPS;
    for (let sum = counts[step]; step > 0 && sum < mostOf; ) sum += counts[--step];
    const found = [];
    all((i, j, share, number) => { if (share * STEPS >= step) found.push([i, j, share, number]); });
    return found.sort((a, b) => a[2] - b[2]).slice(-mostOf);
  }

  /** Where a line begins and ends, and what it looks like. */
  function look([i, j, share, number], position) {
    const own = chosenHeads();
    // Side by side, so that one head's line does not hide another's.
    const beside = (number - (own.length - 1) / 2) * Math.min(2, 14 / own.length);
    const isOne = isPinned(position);
    const opacity = isOne ? 0.18 + 0.82 * share : (own.length > 4 ? 0.6 : 0.85) * share;
    const width = 0.8 + (isOne ? 3.2 : own.length > 4 ? 1 : 2) * share;
    return { from: y(position.from[i]) + beside, to: y(position.to[j]) + beside, stroke: headColour(own[number]), opacity, width };
  }

  function drawLabels({ pen, shown, position, low, high }, side) {
    const { labels, special, segment } = viewer.units(side);
    const isReady = maps.ready(state.layer);
    const isOne = isPinned(position);
    const own = chosenHeads();
    const x = columns[side === "from" ? "left" : "right"];
    const { weights, most } = isOne && isReady && side !== state.side ? ofEach(own) : { weights: [], most: 1 };
    const breaks = viewer.breaks(side);
    for (let at = low; at < Math.min(high, shown[side].length); at++) {
      const place = shown[side][at];
      const mean = weights.length ? weights.reduce((sum, row) => sum + row[place], 0) / weights.length : 0;
      const isOwn = isOne && state.side === side && viewer.word() === place;
      const text = fit(labels[place], columns.label - 12, SIZE, isOwn ? 600 : 400);
      const width = widthOf(text, SIZE, isOwn ? 600 : 400) + 10;
      const box = [side === "from" ? x - width + 3 : x - 3, y(at) - LINE / 2 + 2, width, LINE - 4];
      if (viewer.matches(labels[place]) && !isOwn) pen.rect(...box, { fill: colour("--mark"), radius: 4 });
      if (isOwn) pen.rect(...box, { fill: colour("--accent"), radius: 4 });
      else if (mean) pen.rect(...box, { fill: colour("--accent"), opacity: 0.45 * Math.min(1, mean / most), radius: 4 });
      const fill = isOwn ? colour("--raised") : special[place] ? colour("--soft") : segment[place] ? colour("--star") : colour("--text");
      pen.text(text, side === "from" ? x - 2 : x + 2, y(at), { size: SIZE, fill, weight: isOwn ? 600 : 400, align: side === "from" ? "right" : "left" });
      if (side === "to" && own.length > 1) own.forEach((head, number) => weights.length && drawSquare(pen, head, number, at, weights[number][place] / most));
      if (breaks.includes(at)) drawDivider(pen, side, y(at) - LINE / 2);
    }
  }

  /** Between two sentences, beside the lines and not under them. */
  function drawDivider(pen, side, where) {
    const ends = side === "from" ? [columns.left - columns.label, columns.left] : [columns.right, columns.right + columns.label];
    pen.path([["M", ends[0], where], ["L", ends[1], where]], { stroke: colour("--star"), width: 1.5 });
  }

  /** The weights of the chosen word in each head, and the strongest of them: kept as long as its lines are. */
  function ofEach(own) {
    if (!chosen.ofEach) {
      const weights = own.map((head) => viewer.own.word.weights(state.layer, head));
      chosen.ofEach = { weights, most: Math.max(1e-9, ...weights.map((row) => row.reduce((a, b) => Math.max(a, b), 0))) };
    }
    return chosen.ofEach;
  }

  /** How much each head gives to a word, side by side. */
  function drawSquare(pen, head, number, at, share) {
    const size = columns.square - (columns.square > 6 ? 2 : 1);
    const x = columns.right + columns.label + number * columns.square;
    pen.rect(x, y(at) - LINE / 2 + 4, size, LINE - 8, { fill: headColour(head), opacity: 0.06 + 0.94 * share, radius: 2 });
  }

  function drawArcs({ pen, position, low, high }) {
    const arcs = arcsShown();
    const heights = arcHeights(arcs);
    const most = Math.max(1, ...heights);
    const own = viewer.word();
    const { labels } = viewer.units();
    const x = (place) => columns.left - widthOf(fit(labels[place], columns.label - 12, SIZE), SIZE) - 11;
    const base = columns.left - columns.label - 4;
    arcs.forEach(([word, head, relation], number) => {
      const [a, b] = [position.from[word], position.from[head]];
      if (Math.max(a, b) < low || Math.min(a, b) > high) return;
      const out = base - 6 - ((columns.arcs - 12) * heights[number]) / most;
      const isOwn = own === word || own === head;
      const [y1, y2] = [y(a), y(b) + (a < b ? -3 : 3)];
      const look = { stroke: colour(isOwn ? "--star" : "--soft"), opacity: isOwn ? 1 : own === null ? 0.55 : 0.25, width: isOwn ? 1.8 : 1.1 };
      pen.path([["M", x(head), y2], ["L", base, y2], ["C", out, y2, out, y2, out, (y1 + y2) / 2], ["C", out, y1, out, y1, base, y1], ["L", x(word), y1]], look);
      pen.path([["M", x(word) + 2, y1], ["L", x(word) - 4, y1 - 3], ["L", x(word) - 4, y1 + 3], ["Z"]], { fill: look.stroke, opacity: look.opacity });
      if (isOwn && relation) pen.text(relation, out - 6, (y1 + y2) / 2, { size: 11, fill: colour("--star"), align: "center", turn: -90 });
    });
  }

  function hit(x, where) {
    const at = Math.floor((where - TOP) / LINE);
    const [from, to] = [viewer.shown("from")[at], viewer.shown("to")[at]];
    if (from !== undefined && x <= columns.left + 14 && x >= columns.left - columns.label - columns.arcs) return { word: from, side: "from" };
    if (to !== undefined && x >= columns.right - 14 && x <= columns.right + columns.label) return { word: to, side: "to" };
    return null;
  }

  const isKept = () => state.kept && state.word !== null && !viewer.panels[state.panel].hides(state.word);
  const panel = viewer.number;

  function hover(found) {
    if (!isKept()) viewer.change(found ? { ...found, panel } : { word: null });
  }

  function choose(found) {
    const isSame = isKept() && state.panel === panel && state.word === found.word && state.side === found.side;
    viewer.change({ ...found, panel, kept: !isSame });
  }

  function key(name) {
    if (name === "Escape") { viewer.change({ word: null, kept: false }); return true; }
    if (name === "PageUp" || name === "PageDown") {
      const layers = viewer.allLayers();
      const next = layers[layers.indexOf(state.layer) + (name === "PageUp" ? -1 : 1)];
      if (next !== undefined) viewer.change({ layer: next });
      return true;
    }
    const side = { ArrowLeft: "from", ArrowRight: "to" }[name] ?? state.side;
    const shown = viewer.shown(side);
    let word = viewer.word();
    // The same word on the other side, where it stands there too.
    if (side !== state.side && !viewer.isSquare()) word = null;
    const at = word === null ? -1 : shown.indexOf(word);
    if (name === "ArrowDown") word = shown[Math.min(shown.length - 1, at + 1)];
    else if (name === "ArrowUp") word = shown[Math.max(0, at - 1)];
    else if (name === "ArrowLeft" || name === "ArrowRight") word = shown[Math.max(0, at)];
    else return false;
    viewer.change({ word, side, panel, kept: true });
    return true;
  }

  function focus() {
    const at = viewer.shown(state.side).indexOf(viewer.word());
    return at < 0 || !state.kept ? null : { x: columns.left - 60, y: y(at) - LINE - 20, width: 80, height: 2 * LINE + 20 };
  }

  function says() {
    const own = chosenHeads();
    if (!own.length) return [["plain", "No head of this layer is chosen: take some above."]];
    if (viewer.word() === null || viewer.hides(viewer.word())) return [["quiet", "Point at a word to see its lines alone; choose it to keep them."]];
    return viewer.own.word.says(state.layer, own);
  }

  const hint = () => {
    const scale = maps.ready(state.layer) && chosenHeads().length ? ` The strongest line here is ${weight(top())}.` : "";
    const isOne = state.word !== null && !viewer.hides(viewer.word());
    const most = isOne ? MOST_LINES : mostLines(viewer.shown());
    const of = most < MOST_LINES ? ` of every ${BLOCK} ${state.level}s` : "";
    const pair = viewer.isPair ? " B, the second sentence, is coloured." : "";
    return `Lines are as strong as their weight, against the strongest of the heads shown; at most the ${most} strongest${of} are drawn.${scale}${pair} Arrow keys move, Page Up and Down change the layer.`;
  };

  return { measure, draw, hit, hover, choose, key, focus, says, hint, ownTop, needs: () => (chosenHeads().length ? [state.layer] : []), label: "Attention as lines between words" };
};
