// Score by layer: lines with their intervals as bands, baselines dashed, filled points where a layer is in the best set.
(() => {
  "use strict";
  const { data, element, svg, number, interval, colour, layerName } = report;
  const home = document.getElementById("chart");
  const tip = document.getElementById("tip");
  const zero = document.getElementById("chart-zero");
  const select = document.getElementById("chart-question");
  const COLOURS = 6;
  const KINDS = {
    main: { title: "probe", marker: "circle", dash: [], width: 2 },
    random: { title: "random init", marker: "square", dash: [6, 4], width: 1.5 },
    control: { title: "control task", marker: "triangle", dash: [2, 3], width: 1.5 },
    blind: { title: "blind", marker: "triangle", dash: [8, 3, 2, 3], width: 1.5 },
  };
  let plot = null;
  let lines = [];
  let hidden = new Set();
  let at = null;

  const question = () => data.questions[report.chosen.question];

  /** Every line there is to draw for the question: one a table and kind of score. */
  function findLines() {
    const { entries, isAccuracy } = question();
    const found = [];
    entries.forEach((entry, place) => {
      for (const [kind, style] of Object.entries(KINDS)) {
        const points = new Map(entry.lines.filter((line) => line[kind]).map((line) => [line.layer, { score: line[kind], best: kind === "main" && line.best }]));
        if (!points.size) continue;
        const own = kind === "main" && entry.ownHead ? "own head" : style.title;
        const about = kind === "control" && !isAccuracy ? `${style.title} (accuracy)` : own;
        const title = entries.length === 1 ? about : kind === "main" ? entry.label : `${entry.label}: ${about}`;
        // One table: a colour for each kind. Several: a colour for each table, told apart further by dashes and markers.
        const number = entries.length === 1 ? Object.keys(KINDS).indexOf(kind) : place;
        // More tables than colours: the markers of the next ones differ.
        const marker = kind === "main" ? Object.keys(SHAPES)[Math.floor(place / COLOURS) % 3] : style.marker;
        found.push({ ...style, kind, place, marker, title, points, compared: entry.compared, colour: `--line-${number % COLOURS}`, id: `${place}-${kind}` });
      }
    });
    return found;
  }

  const shown = () => lines.filter((line) => !hidden.has(line.id));
  const scale = () => (question().percent ? 100 : 1);
  const layersOf = (some) => [...new Set(some.flatMap((line) => [...line.points.keys()]))].sort((a, b) => a - b);

  /** Baselines of the question's tables, each name once. */
  function baselines() {
    const every = question().entries.flatMap((entry) => entry.baselines);
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
    const margin = 0.06 * (most - least || 0.02);
    const floor = zero.checked && least === 0 ? 0 : least - margin;
    return [floor * scale(), (most + margin) * scale()];
  }

  const SHAPES = {
    circle: (path, x, y, r) => path.arc(x, y, r, 0, 2 * Math.PI),
    square: (path, x, y, r) => path.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7),
    triangle: (path, x, y, r) => { path.moveTo(x, y - r * 1.1); path.lineTo(x + r, y + r * 0.8); path.lineTo(x - r, y + r * 0.8); path.closePath(); },
  };

  function drawPoints(u) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    for (const line of shown()) {
      ctx.strokeStyle = colour(line.colour);
      for (const [layer, { score, best }] of line.points) {
        const x = u.valToPos(layer, "x", true);
        const place = (value) => u.valToPos(value * scale(), "y", true);
        if (line.points.size === 1 && score[1] !== null) {
          // A single layer has no band.
          ctx.lineWidth = 1.5 * ratio;
          ctx.beginPath();
          ctx.moveTo(x, place(score[1]));
          ctx.lineTo(x, place(score[2]));
          ctx.stroke();
        }
        const path = new Path2D();
        SHAPES[line.marker](path, x, place(score[0]), (line.kind === "main" ? 4.5 : 3.4) * ratio);
        ctx.fillStyle = line.kind === "main" && line.compared && !best ? colour("--ground") : colour(line.colour);
        ctx.lineWidth = 1.6 * ratio;
        ctx.fill(path);
        ctx.stroke(path);
      }
    }
    ctx.restore();
  }

  function drawBaselines(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const [low, high] = [u.scales.y.min, u.scales.y.max];
    ctx.save();
    ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.fillStyle = ctx.strokeStyle = colour("--soft");
    ctx.lineWidth = ratio;
    let below = 0;
    for (const { name, main } of [...baselines()].sort((a, b) => b.main[0] - a.main[0])) {
      const value = main[0] * scale();
      const words = `${name} ${number(main[0], question().percent, question().decimals)}`;
      ctx.textAlign = "right";
      if (value < low || value > high) {
        ctx.textBaseline = "bottom";
        ctx.fillText(`${value < low ? "↓" : "↑"} ${words}`, bbox.left + bbox.width - 4 * ratio, bbox.top + bbox.height - (4 + 16 * below) * ratio);
        below += 1;
        continue;
      }
      const y = u.valToPos(value, "y", true);
      ctx.setLineDash(name === "majority" ? [2 * ratio, 3 * ratio] : [7 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.textBaseline = "bottom";
      ctx.fillText(words, bbox.left + bbox.width - 4 * ratio, y - 3 * ratio);
    }
    ctx.restore();
  }

  /** A tick's label, with as many decimals as the step between ticks has; there is nothing above 100 %. */
  function axisNumber(value, splits, percent) {
    if (percent && value > 100) return "";
    const step = splits.length > 1 ? splits[1] - splits[0] : 1;
    const decimals = [0, 1, 2, 3].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 4;
    return value.toFixed(decimals).replace("-", "−");
  }

  function options(layers) {
    const soft = colour("--soft");
    const grid = { stroke: colour("--grid"), width: 1 };
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: soft, font, labelFont: font, ticks: { stroke: colour("--rule"), width: 1, size: 5 }, labelSize: 22 };
    const step = Math.ceil(layers.length / Math.max(4, Math.floor(home.clientWidth / 44)));
    const series = [{}];
    const bands = [];
    for (const line of shown()) {
      const place = series.length;
      const own = colour(line.colour);
      series.push({ label: line.title, stroke: own, width: line.width, dash: line.dash, points: { show: false }, spanGaps: true });
      series.push({ stroke: "transparent", width: 0, points: { show: false } }, { stroke: "transparent", width: 0, points: { show: false } });
      bands.push({ series: [place + 2, place + 1], fill: `color-mix(in srgb, ${own} 18%, transparent)` });
    }
    const { metric, percent } = question();
    return {
      width: home.clientWidth,
      height: Math.max(290, Math.min(420, Math.round(home.clientWidth * 0.5))),
      padding: [12, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: false, range: () => [layers[0] - 0.35, layers.at(-1) + 0.35] }, y: { range } },
      axes: [
        { ...axis, label: "layer (0: embeddings)", size: 28, grid: { show: false }, splits: () => layers.filter((_, i) => i % step === 0), values: (_, splits) => splits.map(String) },
        { ...axis, label: `${metric}${percent ? ", %" : ""}`, grid, size: 48, values: (_, splits) => splits.map((value) => axisNumber(value, splits, percent)) },
      ],
      series,
      bands,
      hooks: { draw: [drawBaselines, drawPoints], setCursor: [(u) => u.cursor.idx !== at && showTip(u.cursor.idx)] },
    };
  }

  function draw() {
    const layers = layersOf(lines);
    const columns = shown().flatMap((line) =>
      [0, 1, 2].map((part) => layers.map((layer) => { const value = line.points.get(layer)?.score[part]; return value === undefined || value === null ? null : value * scale(); })));
    if (plot) plot.destroy();
    at = null;
    tip.hidden = true;
    plot = layers.length ? new uPlot(options(layers), [layers, ...columns], home) : null;
  }

  function swatch(line) {
    const at = { circle: "M14 7.5a4 4 0 1 0-.01 0", square: "M10.5 4h7v7h-7z", triangle: "M14 3.5l4 7.5h-8z" }[line.marker];
    const own = colour(line.colour);
    const dash = line.dash.join(" ");
    const stroke = svg("path", { d: "M1 7.5h26", fill: "none", stroke: own, "stroke-width": line.width, "stroke-dasharray": dash });
    const marker = line.marker === "circle" ? svg("circle", { cx: 14, cy: 7.5, r: 4, fill: own }) : svg("path", { d: at, fill: own });
    return svg("svg", { width: 28, height: 15, "aria-hidden": "true", class: "swatch" }, stroke, marker);
  }

  /** What the layer's lines say, beside the cursor and, for screen readers, as a sentence. */
  function showTip(index) {
    at = index;
    const layers = layersOf(lines);
    if (index === null || index === undefined || !plot) {
      tip.hidden = true;
      return;
    }
    const { percent, decimals, metric } = question();
    const rows = shown().filter((line) => line.points.has(layers[index])).map((line) => ({ line, ...line.points.get(layers[index]) }));
    const cells = rows.map(({ line, score, best }) =>
      element("tr", {}, element("td", {}, swatch(line), ` ${line.title}`),
        element("td", {}, number(score[0], percent, decimals), element("span", { class: "star" }, best ? "★" : "")), element("td", { class: "ci" }, interval(score, percent, decimals))));
    const grey = baselines().map(({ name, main }) =>
      element("tr", { class: "nothing" }, element("td", {}, name), element("td", {}, number(main[0], percent, decimals), element("span", { class: "star" })), element("td", { class: "ci" }, interval(main, percent, decimals))));
    tip.replaceChildren(element("b", {}, `layer ${layerName(layers[index])}`), element("table", {}, element("tbody", {}, ...cells, ...grey)));
    tip.hidden = false;
    const x = plot.over.offsetLeft + plot.valToPos(layers[index], "x");
    const left = x + 16 + tip.offsetWidth > home.clientWidth ? x - 16 - tip.offsetWidth : x + 16;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${plot.over.offsetTop + 8}px`;
    const said = rows.map(({ line, score, best }) => `${line.title} ${number(score[0], percent, decimals)} ${interval(score, percent, decimals)}${best ? ", in the best set" : ""}`);
    document.getElementById("chart-says").textContent = `layer ${layers[index]}, ${metric}: ${said.join("; ")}`;
  }

  function moveByKey(event) {
    const last = layersOf(lines).length - 1;
    const from = at ?? -1;
    const to = { ArrowRight: Math.min(last, from + 1), ArrowLeft: Math.max(0, from - 1), Home: 0, End: last }[event.key];
    if (event.key === "Escape") plot.setCursor({ left: -10, top: -10 }, true);
    if (to === undefined || !plot) return;
    event.preventDefault();
    plot.setCursor({ left: plot.valToPos(layersOf(lines)[to], "x"), top: 10 }, true);
  }

  function showChips() {
    const chips = lines.map((line) => {
      const chip = element("button", { type: "button", class: "chip", "aria-pressed": String(!hidden.has(line.id)) }, swatch(line), line.title);
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
    const { percent, decimals, metric } = question();
    const several = question().entries.length > 1;
    const drawn = new Set(shown().map((line) => line.place));
    const entries = question().entries.filter((_, place) => !several || drawn.has(place));
    const first = question().entries[0];
    const columns = [["main", metric, percent, decimals], ["second", first.second, first.secondPercent, first.secondDecimals],
      ["random", "random init", percent, decimals], ["blind", "blind", percent, decimals],
      ["control", "control task", true], ["selectivity", "selectivity", true], ["spread", "seed s.d.", percent, decimals], ["strength", "C"]]
      .filter(([field]) => field === "main" || entries.some((entry) => entry.lines.some((line) => line[field] !== null && line[field] !== "")));
    const heads = [several ? report.tables.sortHead("Model", "reader", "text") : null, report.tables.sortHead("Layer", "layer"),
      ...columns.map(([field, title]) => report.tables.sortHead(title, field))];
    const body = entries.flatMap((entry) => entry.lines.map((line) => element("tr", {},
      several ? element("th", { scope: "row", class: "text", "data-key": "reader" }, entry.label) : null,
      element("td", { "data-key": "layer", "data-value": line.layer }, layerName(line.layer)),
      ...columns.map(([field, , inPercent, places]) => scoreCell(line, field, inPercent, places)))));
    const table = document.getElementById("numbers-table");
    table.replaceChildren(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
  }

  function scoreCell(line, field, percent, decimals) {
    if (field === "strength") return element("td", { "data-key": field, "data-value": Number.parseFloat(line.strength) || "" }, line.strength || "–");
    const score = field === "spread" && line.spread !== null ? [line.spread, null, null] : line[field];
    const value = element("span", { class: field === "main" && line.best ? "best-value" : null }, score ? number(score[0], percent, decimals) : "–");
    const star = field === "main" ? element("span", { class: "star" }, line.best ? "★" : "") : null;
    return element("td", { "data-key": field, "data-value": score ? score[0] : "" }, value, star, score && interval(score, percent) ? element("span", { class: "ci" }, interval(score, percent, decimals)) : null);
  }

  function showQuestion() {
    const { label, metric, entries } = question();
    select.value = String(report.chosen.question);
    lines = findLines();
    // With several models the controls of each would crowd the picture; they are a click away.
    hidden = new Set(entries.length > 1 ? lines.filter((line) => line.kind !== "main").map((line) => line.id) : []);
    home.setAttribute("aria-label", `${label}: ${metric} by layer. Arrow keys move from layer to layer; the numbers are in the table below.`);
    const best = entries.some((entry) => entry.compared) ? "Filled circles: layers that cannot be told from the best. " : "";
    document.getElementById("chart-note").textContent = `${best}Bands: 95 % intervals. Hover, touch, or move with the arrow keys to read the numbers.`;
    showChips();
    draw();
    showNumbers();
  }

  let drawn = null;
  function onChoice() {
    if (drawn !== report.chosen.question) {
      drawn = report.chosen.question;
      showQuestion();
    }
  }

  report.fillSelect(select, data.questions.map((q, i) => [i, q.label]));
  select.addEventListener("input", () => report.choose({ question: Number(select.value), entry: 0 }));
  zero.addEventListener("input", draw);
  home.addEventListener("keydown", moveByKey);
  home.addEventListener("focus", () => at === null && plot && moveByKey({ key: "Home", preventDefault() {} }));
  home.addEventListener("blur", () => plot && plot.setCursor({ left: -10, top: -10 }, true));
  document.addEventListener("choice", onChoice);
  document.addEventListener("themechange", () => { if (plot) { showChips(); draw(); } });
  let width = home.clientWidth;
  new ResizeObserver(() => {
    if (home.clientWidth === width) return;
    width = home.clientWidth;
    draw();
  }).observe(home);
})();
