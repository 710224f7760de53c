// Score by layer: lines with their intervals as bands, baselines dashed, filled points where a layer is in the best set.
(() => {
  "use strict";
  const { data, element, svg, number, interval, colour, layerName, view } = report;
  const home = document.getElementById("chart");
  const tip = document.getElementById("tip");
  const zero = document.getElementById("chart-zero");
  const select = document.getElementById("chart-question");
  const COLOURS = 6;
  const KINDS = {
    main: { title: "probe", marker: "circle", dash: "", width: 2 },
    random: { title: "random init", marker: "square", dash: "6 4", width: 1.5 },
    control: { title: "control task", marker: "triangle", dash: "2 3", width: 1.5 },
    blind: { title: "blind", marker: "triangle", dash: "8 3 2 3", width: 1.5 },
    rescaled: { title: "rescaled", marker: "triangle", dash: "4 3", width: 1.5 },
    refit: { title: "refitted", marker: "triangle", dash: "6 2", width: 1.5 },
    reference: { title: "reference", marker: "square", dash: "2 2", width: 1.5 },
  };
  const SHAPES = {
    circle: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
    square: (x, y, r) => `M${x - r * 0.85} ${y - r * 0.85}h${r * 1.7}v${r * 1.7}h${-r * 1.7}z`,
    triangle: (x, y, r) => `M${x} ${y - r * 1.1}l${r} ${r * 1.9}h${-2 * r}z`,
  };
  const MARGIN = { left: 58, right: 12, top: 14, bottom: 46 };
  let frame = null;
  let lines = [];
  let hidden = new Set();
  let at = null;
  let drawn = null;

  const question = () => data.questions[report.chosen.question];
  const metric = () => report.metricOf(question(), question().entries[report.chosen.entry] ?? question().entries[0]);

  /** Every line there is to draw for the question: one a table and kind of score; of scores but the main one, one. */
  function findLines() {
    const { entries, isAccuracy } = question();
    const shown = entries.filter((entry) => !view.hidden.has(entry.label));
    const found = [];
    entries.forEach((entry, place) => {
      if (!shown.includes(entry)) return;
      for (const [kind, style] of Object.entries(view.score === "main" ? KINDS : { main: { ...KINDS.main, title: metric().title } })) {
        const points = new Map(entry.lines.map((line) => ({ line, score: kind === "main" ? report.scoreOf(line) : line[kind] }))
          .filter(({ score }) => score).map(({ line, score }) => [line.layer, { score, best: kind === "main" && view.score === "main" && line.best }]));
        if (!points.size) continue;
        const own = kind === "main" && entry.ownHead && view.score === "main" ? "own head" : style.title;
        const about = kind === "control" && !isAccuracy ? `${style.title} (accuracy)` : own;
        const title = entries.length === 1 ? about : kind === "main" ? entry.label : `${entry.label}: ${about}`;
        // One table: a colour for each kind. Several: a colour for each table, told apart further by dashes and markers.
        const number = entries.length === 1 ? Object.keys(KINDS).indexOf(kind) : place;
        // More tables than colours: the markers of the next ones differ.
        const marker = kind === "main" ? Object.keys(SHAPES)[Math.floor(place / COLOURS) % 3] : style.marker;
        found.push({ ...style, kind, place, marker, title, points, compared: entry.compared && view.score === "main", colour: `--line-${number % COLOURS}`, id: `${place}-${kind}` });
      }
    });
    return found;
  }

  const shown = () => lines.filter((line) => !hidden.has(line.id));
  const scale = () => (metric().percent ? 100 : 1);
  const layersOf = (some) => [...new Set(some.flatMap((line) => [...line.points.keys()]))].sort((a, b) => a - b);

  /** Baselines of the question's tables that are shown, each name once. */
  function baselines() {
    const field = { main: "main", second: "second" }[view.score];
    const every = question().entries.filter((entry) => !view.hidden.has(entry.label)).flatMap((entry) => entry.baselines)
      .flatMap(({ name, ...scores }) => (scores[field] ? [{ name, main: scores[field] }] : []));
    return [...new Map([...every].reverse().map((baseline) => [baseline.name, baseline])).values()].reverse();
  }

  function range() {
    const values = shown().flatMap((line) => [...line.points.values()].flatMap(({ score }) => score)).filter((value) => value !== null);
    let least = Math.min(...values);
    let most = Math.max(...values);
    if (!values.length) [least, most] = [0, 1];
    // A baseline close by belongs into the picture; one far below would press all else together, and is named instead.
    for (const { main } of baselines()) {
      const room = 0.6 * (most - least || 0.1);
      if (main[0] > least - room && main[0] < most + room) [least, most] = [Math.min(least, main[0]), Math.max(most, main[0])];
    }
    if (zero.checked) least = Math.min(0, least);
    const size = Math.max(Math.abs(least), Math.abs(most)) || 1;
    const margin = most - least > 1e-6 * size ? 0.06 * (most - least) : 0.01 * size;
    // Nothing is drawn past a bound of the metric unless a value is.
    const [bottom, top] = metric().percent ? [least < 0 ? -1 : 0, most > 0 || least === 0 ? 1 : 0] : [least < 0 ? -Infinity : 0, Infinity];
    const ends = [least < bottom ? least - margin : Math.max(bottom, least - margin), most > top ? most + margin : Math.min(top, most + margin)];
    return ends.map((end) => end * scale());
  }

  /** Round numbers within a range, some five of them, and the decimals that they need. */
  function ticksOf([low, high]) {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const plain = decimals <= 9 && Math.max(-low, high) < 1e7;
    return Array.from({ length: count }, (_, i) => (first + i) * step)
      .map((value) => ({ value, text: (plain ? value.toFixed(decimals) : String(Number(value.toPrecision(7)))).replace("-", "−") }));
  }

  function drawAxes(drawing, layers, ends) {
    const { left, top, width, height, x, y } = frame;
    const [soft, rule] = ["--soft", "--rule"].map(colour);
    const write = (words, at, more) => drawing.append(svg("text", { x: at[0], y: at[1], fill: soft, "font-size": 12, ...more }, words));
    for (const { value, text } of ticksOf(ends)) {
      drawing.append(svg("path", { d: `M${left} ${y(value)}h${width}`, stroke: colour("--grid") }));
      write(text, [left - 8, y(value) + 4], { "text-anchor": "end" });
    }
    const step = Math.ceil(layers.length / Math.max(4, Math.floor(width / 34)));
    layers.forEach((layer, place) => {
      if (place % step) return;
      drawing.append(svg("path", { d: `M${x(layer)} ${top + height}v5`, stroke: rule }));
      write(String(layer), [x(layer), top + height + 18], { "text-anchor": "middle" });
    });
    drawing.append(svg("path", { d: `M${left} ${top}v${height}h${width}`, fill: "none", stroke: rule }));
    write("layer (0: embeddings)", [left + width / 2, top + height + 38], { "text-anchor": "middle" });
    const middle = [14, top + height / 2].join(" ");
    write(`${metric().title}${metric().percent ? ", %" : ""}`, middle.split(" "), { "text-anchor": "middle", transform: `rotate(-90 ${middle})` });
  }

  function drawBaselines(drawing, [low, high]) {
    const { left, top, width, height, y } = frame;
    const soft = colour("--soft");
    let below = 0;
    for (const { name, main } of [...baselines()].sort((a, b) => b.main[0] - a.main[0])) {
      const value = main[0] * scale();
      const words = `${name} ${number(main[0], metric().percent, metric().decimals)}`;
      const inside = value >= low && value <= high;
      if (inside) drawing.append(svg("path", { d: `M${left} ${y(value)}h${width}`, stroke: soft, "stroke-dasharray": name === "majority" ? "2 3" : "7 4" }));
      else below += 1;
      const place = inside ? y(value) - 4 : top + height + 12 - 16 * below;
      const arrow = inside ? "" : value < low ? "↓ " : "↑ ";
      drawing.append(svg("text", { x: left + width - 4, y: place, fill: soft, "font-size": 12, "text-anchor": "end" }, arrow + words));
    }
  }

  function drawLine(drawing, line) {
    const { x, y } = frame;
    const own = colour(line.colour);
    const points = [...line.points].sort(([a], [b]) => a - b).map(([layer, { score, best }]) => ({ at: x(layer), best, y: score.map((value) => (value === null ? null : y(value * scale()))) }));
    const banded = points.filter(({ y }) => y[1] !== null && y[2] !== null);
    const edge = (side) => banded.map(({ at, y }) => `${at} ${y[side]}`);
    // A single layer has no band.
    if (banded.length === 1) drawing.append(svg("path", { d: `M${edge(1)}L${edge(2)}`, stroke: own, "stroke-width": 1.5 }));
    else if (banded.length) drawing.append(svg("path", { d: `M${edge(1).join("L")}L${edge(2).reverse().join("L")}z`, fill: own, "fill-opacity": 0.18 }));
    drawing.append(svg("path", { d: `M${points.map(({ at, y }) => `${at} ${y[0]}`).join("L")}`, fill: "none", stroke: own, "stroke-width": line.width, "stroke-dasharray": line.dash }));
    for (const { at, best, y } of points) {
      const fill = line.kind === "main" && line.compared && !best ? colour("--ground") : own;
      drawing.append(svg("path", { d: SHAPES[line.marker](at, y[0], line.kind === "main" ? 4.5 : 3.4), fill, stroke: own, "stroke-width": 1.6 }));
    }
  }

  function draw() {
    showTip(null);
    const layers = layersOf(lines);
    home.replaceChildren();
    if (!layers.length || !home.clientWidth) return;
    const size = [home.clientWidth, Math.max(290, Math.min(420, Math.round(home.clientWidth * 0.5)))];
    const [width, height] = [size[0] - MARGIN.left - MARGIN.right, size[1] - MARGIN.top - MARGIN.bottom];
    const ends = range();
    const span = layers.at(-1) - layers[0] + 0.7;
    frame = { ...MARGIN, width, height, x: (layer) => MARGIN.left + ((layer - layers[0] + 0.35) / span) * width,
      y: (value) => MARGIN.top + height - ((value - ends[0]) / (ends[1] - ends[0])) * height };
    const drawing = svg("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, "font-family": "system-ui, sans-serif" },
      svg("rect", { width: size[0], height: size[1], fill: colour("--ground") }));
    drawAxes(drawing, layers, ends);
    drawBaselines(drawing, ends);
    for (const line of shown()) drawLine(drawing, line);
    frame.cursor = svg("path", { stroke: colour("--soft"), "stroke-dasharray": "2 3", visibility: "hidden", class: "mark" });
    drawing.append(frame.cursor);
    home.append(drawing);
  }

  function swatch(line) {
    const own = colour(line.colour);
    const stroke = svg("path", { d: "M1 7.5h26", fill: "none", stroke: own, "stroke-width": line.width, "stroke-dasharray": line.dash });
    return svg("svg", { width: 28, height: 15, "aria-hidden": "true", class: "swatch" }, stroke, svg("path", { d: SHAPES[line.marker](14, 7.5, 4), fill: own }));
  }

  /** What the layer's lines say, next to the cursor and, for screen readers, as a sentence. */
  function showTip(index) {
    at = index;
    const layers = layersOf(lines);
    tip.hidden = index === null || !home.firstChild;
    frame?.cursor?.setAttribute("visibility", tip.hidden ? "hidden" : "visible");
    if (tip.hidden) return;
    const { percent, decimals, title } = metric();
    const rows = shown().filter((line) => line.points.has(layers[index])).map((line) => ({ line, ...line.points.get(layers[index]) }));
    const cells = rows.map(({ line, score, best }) =>
      element("tr", {}, element("td", {}, swatch(line), ` ${line.title}`),
        element("td", {}, number(score[0], percent, decimals), element("span", { class: "star" }, best ? "★" : "")), element("td", { class: "ci" }, interval(score, percent, decimals))));
    const grey = baselines().map(({ name, main }) =>
      element("tr", { class: "nothing" }, element("td", {}, name), element("td", {}, number(main[0], percent, decimals), element("span", { class: "star" })), element("td", { class: "ci" }, interval(main, percent, decimals))));
    tip.replaceChildren(element("b", {}, `layer ${layerName(layers[index])}`), element("table", {}, element("tbody", {}, ...cells, ...grey)));
    const x = frame.x(layers[index]);
    frame.cursor.setAttribute("d", `M${x} ${frame.top}v${frame.height}`);
    const left = x + 16 + tip.offsetWidth > home.clientWidth ? x - 16 - tip.offsetWidth : x + 16;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${frame.top + 8}px`;
    const said = rows.map(({ line, score, best }) => `${line.title} ${number(score[0], percent, decimals)} ${interval(score, percent, decimals)}${best ? ", in the best set" : ""}`);
    document.getElementById("chart-says").textContent = `layer ${layers[index]}, ${title}: ${said.join("; ")}`;
  }

  function moveByPointer(event) {
    if (!home.firstChild) return;
    const layers = layersOf(lines);
    const x = event.clientX - home.getBoundingClientRect().left;
    const away = layers.map((layer) => Math.abs(frame.x(layer) - x));
    const nearest = away.indexOf(Math.min(...away));
    if (nearest !== at) showTip(nearest);
  }

  function moveByKey(event) {
    const last = layersOf(lines).length - 1;
    const from = at ?? -1;
    const to = { ArrowRight: Math.min(last, from + 1), ArrowLeft: Math.max(0, from - 1), Home: 0, End: last }[event.key];
    if (event.key === "Escape") showTip(null);
    if (to === undefined || !home.firstChild) return;
    event.preventDefault();
    showTip(to);
  }

  function showChips() {
    const chips = lines.map((line) => {
      const chip = element("button", { type: "button", class: "chip", "aria-pressed": String(!hidden.has(line.id)), "data-line": line.id, "data-start": String(!hidden.has(line.id)) }, swatch(line), line.title);
      chip.addEventListener("click", () => {
        if (!hidden.delete(line.id)) hidden.add(line.id);
        chip.setAttribute("aria-pressed", String(!hidden.has(line.id)));
        draw();
        showNumbers();
      });
      return chip;
    });
    document.getElementById("chart-series").replaceChildren(...chips);
  }

  function showNumbers() {
    const { metric: title, percent, decimals } = question();
    const several = question().entries.length > 1;
    const drawn = new Set(shown().map((line) => line.place));
    const entries = question().entries.filter((_, place) => !several || drawn.has(place));
    const first = question().entries[0];
    const columns = [["main", title, percent, decimals], ["second", first.second, first.secondPercent, first.secondDecimals],
      ["random", "random init", percent, decimals], ["blind", "blind", percent, decimals],
      ["rescaled", "rescaled", percent, decimals], ["refit", "refitted", percent, decimals], ["reference", "reference", percent, decimals],
      ["control", "control task", true], ["selectivity", "selectivity", true], ["spread", "seed s.d.", percent, decimals], ["strength", "C"]]
      .filter(([field]) => field === "main" || entries.some((entry) => entry.lines.some((line) => line[field] !== null && line[field] !== "")));
    const heads = [several ? report.tables.sortHead("Model", "reader", "text") : null, report.tables.sortHead("Layer", "layer"),
      ...columns.map(([field, title]) => report.tables.sortHead(title, field))];
    const body = entries.flatMap((entry) => entry.lines.map((line) => element("tr", {},
      several ? element("th", { scope: "row", class: "text", "data-key": "reader" }, entry.label) : null,
      element("td", { "data-key": "layer", "data-value": line.layer }, layerName(line.layer)),
      ...columns.map(([field, , inPercent, places]) => scoreCell(line, field, inPercent, places)))));
    const table = document.getElementById("numbers-table");
    report.tables.fill(table, heads, body);
  }

  function scoreCell(line, field, percent, decimals) {
    if (field === "strength") return element("td", { "data-key": field, "data-value": Number.parseFloat(line.strength) || "" }, line.strength || "–");
    const score = field === "spread" && line.spread !== null ? [line.spread, null, null] : line[field];
    const value = element("span", { class: field === "main" && line.best ? "best-value" : null }, score ? number(score[0], percent, decimals) : "–");
    const star = field === "main" ? element("span", { class: "star" }, line.best ? "★" : "") : null;
    const [known, low, high] = score ?? [];
    return element("td", { "data-key": field, "data-value": known ?? "", "data-low": low, "data-high": high }, value, star, score && interval(score, percent) ? element("span", { class: "ci" }, interval(score, percent, decimals)) : null);
  }

  function showQuestion() {
    const { label, entries } = question();
    drawn = report.chosen.question;
    select.value = String(report.chosen.question);
    lines = findLines();
    // With several models the controls of each would crowd the picture; they are a click away.
    hidden = new Set(entries.length > 1 ? lines.filter((line) => line.kind !== "main").map((line) => line.id) : []);
    home.setAttribute("aria-label", `${label}: ${metric().title} by layer. Arrow keys move from layer to layer; the numbers are in the table below.`);
    const best = entries.some((entry) => entry.compared) ? "Filled circles: layers statistically tied with the best. " : "";
    document.getElementById("chart-note").textContent = `${best}Bands: 95 % intervals. Hover, touch, or move with the arrow keys to read the numbers.`;
    showChips();
    draw();
    showNumbers();
  }

  function onChoice() {
    if (drawn !== report.chosen.question) showQuestion();
  }

  /** The tasks that are shown; of the one that is drawn the models may have changed. */
  function onShown() {
    const some = report.columns();
    report.fillSelect(select, data.questions.map((q, i) => [i, q.label]).filter(([i]) => some.some(({ q }) => q === i)), report.chosen.question);
    if (some.some(({ q }) => q === report.chosen.question)) showQuestion();
  }

  select.addEventListener("input", () => {
    const { q, e } = report.columns().find(({ q }) => q === Number(select.value));
    report.choose({ question: q, entry: e });
  });
  zero.addEventListener("input", draw);
  home.addEventListener("keydown", moveByKey);
  home.addEventListener("focus", () => at === null && moveByKey({ key: "Home", preventDefault() {} }));
  home.addEventListener("blur", () => showTip(null));
  for (const name of ["pointermove", "pointerdown"]) home.addEventListener(name, moveByPointer);
  home.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && showTip(null));
  document.addEventListener("shown", onShown);
  onShown();
  document.addEventListener("choice", onChoice);
  document.addEventListener("themechange", () => { showChips(); draw(); });
  let width = home.clientWidth;
  new ResizeObserver(() => {
    if (home.clientWidth === width) return;
    width = home.clientWidth;
    draw();
  }).observe(home);
})();
