// Heatmaps: layers by tasks, models next to each other; attention heads by what is asked of them.
// Layers run from the bottom up where they are rows, and from left to right where they are columns.
report.heatmaps = (() => {
  "use strict";
  const { data, element, svg, number, interval, colour, view } = report;
  const GAP = 10;
  const SLANT = 40;
  const TURNED = (SLANT * Math.PI) / 180;
  const font = { "font-family": "system-ui, sans-serif" };
  const letters = (texts, size) => Math.max(0, ...texts.map((text) => text.length)) * size * 0.56;
  const shortened = (text, most) => (text.length > most ? `${text.slice(0, Math.ceil(most / 2))}…${text.slice(-Math.floor(most / 2) + 1)}` : text);

  /**
   * Draw a heatmap into a figure, and let the pointer and the arrow keys move over it.
   *
   * `rows` and `columns` have labels, columns also a group; `cells[row][column]` is null or has `share` (0 to 1, how
   * deep the shade is), `text`, `best` (starred), `framed` and `says`, its description.
   */
  function draw(figure, { rows, columns, cells, width, height, size = 12, choose }) {
    const home = figure.querySelector(".drawing");
    const tip = figure.querySelector(".tip");
    const says = figure.querySelector(".sr-only");
    const groups = columns.map((column, c) => (c && columns[c - 1].group !== column.group ? 1 : 0)).map(((sum) => (step) => (sum += step))(0));
    const labels = columns.map(({ label }) => shortened(label, 34));
    const slanted = letters(labels, 12) > width;
    const names = rows.map(({ label }) => shortened(label, 40));
    const after = rows.map((row) => row.after ?? "");
    const beside = after.some(Boolean) ? letters(after, size) + 10 : 0;
    const left = letters(names, size) + beside + 18;
    const grouped = new Set(groups).size > 1 || columns[0]?.group;
    const rise = slanted ? letters(labels, 12) * Math.sin(TURNED) + 14 : labels.some(Boolean) ? 20 : 0;
    const top = rise + (grouped ? 20 : 4);
    const lean = slanted ? Math.max(0, ...labels.map((label, c) => letters([label], 12) * Math.cos(TURNED) - (columns.length - c - 0.5) * width)) : 0;
    const x = (c) => left + c * width + groups[c] * GAP;
    const y = (r) => top + r * height;
    const end = columns.length ? x(columns.length - 1) + width : left;
    const whole = [Math.ceil(end + lean + 8), Math.ceil(y(rows.length) + 6)];
    const [text, soft, heat, star] = ["--text", "--soft", "--line-0", "--star"].map(colour);
    const label = (words, at, more = {}) => svg("text", { x: at[0], y: at[1], fill: text, "font-size": size, ...more }, words);
    const drawing = svg("svg", { width: whole[0], height: whole[1], viewBox: `0 0 ${whole.join(" ")}`, ...font });
    drawing.append(svg("rect", { width: whole[0], height: whole[1], fill: colour("--ground") }));
    columns.forEach((column, c) => {
      if (grouped && (!c || groups[c] !== groups[c - 1])) {
        const wide = groups.filter((group) => group === groups[c]).length * width;
        const most = Math.max(4, Math.floor(wide / 7));
        drawing.append(label(shortened(column.group, most), [x(c), 14], { "font-weight": 600 }));
      }
      const at = [x(c) + width / 2, top - 7];
      if (labels[c]) drawing.append(label(labels[c], at, { "font-size": 12, fill: soft, ...(slanted ? { transform: `rotate(-${SLANT} ${at.join(" ")})` } : { "text-anchor": "middle" }) }));
    });
    rows.forEach((row, r) => {
      drawing.append(label(names[r], [left - beside - 8, y(r) + height / 2 + size * 0.36], { "text-anchor": "end" }));
      if (row.after) drawing.append(label(row.after, [left - beside, y(r) + height / 2 + size * 0.36], { fill: soft }));
      cells[r].forEach((cell, c) => {
        const place = { x: x(c) + 0.5, y: y(r) + 0.5, width: width - 1, height: height - 1 };
        if (!cell) return;
        drawing.append(svg("rect", { ...place, rx: 2, fill: heat, "fill-opacity": (0.04 + 0.46 * cell.share).toFixed(3), "data-cell": `${r},${c}` }));
        if (cell.framed) drawing.append(svg("rect", { ...place, rx: 2, fill: "none", stroke: star, "stroke-width": 1.5, "pointer-events": "none" }));
        if (!cell.text) return;
        drawing.append(label(`${cell.text}${cell.best ? " ★" : ""}`, [x(c) + width / 2, y(r) + height / 2 + size * 0.36], { "text-anchor": "middle", "pointer-events": "none", ...(cell.best ? { "font-weight": 700 } : {}) }));
      });
    });
    const mark = svg("rect", { fill: "none", stroke: colour("--accent"), "stroke-width": 2, width, height, visibility: "hidden", "pointer-events": "none", class: "mark" });
    drawing.append(mark);
    home.replaceChildren(drawing);
    let at = null;

    function look(place) {
      at = place;
      const cell = place && cells[place[0]][place[1]];
      tip.hidden = !place;
      mark.setAttribute("visibility", place ? "visible" : "hidden");
      if (!place) return;
      mark.setAttribute("x", x(place[1]));
      mark.setAttribute("y", y(place[0]));
      const words = cell?.says ?? `${rows[place[0]].label}, ${columns[place[1]].label}: no score`;
      tip.textContent = words;
      says.textContent = words;
      tip.style.top = `${home.offsetTop + y(place[0]) + height + 4 - home.scrollTop}px`;
      tip.style.left = `${Math.max(0, Math.min(x(place[1]) - home.scrollLeft, home.clientWidth - tip.offsetWidth))}px`;
    }

    function move(event) {
      const [r, c] = at ?? [rows.length, 0];
      const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, columns.length - 1] }[event.key];
      if (event.key === "Escape") look(null);
      if (event.key === "Enter" && at && choose && cells[r][c]) choose(r, c);
      if (!to || !columns.length) return;
      event.preventDefault();
      const [row, column] = [[to[0], rows], [to[1], columns]].map(([place, all]) => Math.max(0, Math.min(all.length - 1, place)));
      look([row, column]);
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    const cellOf = (event) => event.target.dataset.cell?.split(",").map(Number) ?? null;
    // Properties, not listeners: the drawing before this one had its own.
    Object.assign(home, {
      onkeydown: move,
      onblur: () => look(null),
      onpointermove: (event) => look(cellOf(event)),
      onpointerleave: () => look(null),
      onclick: (event) => { const place = cellOf(event); if (place && choose) choose(...place); },
    });
  }

  const shareOf = (values) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    const least = Math.min(...known);
    const range = Math.max(...known) - least;
    return (value) => (range ? (value - least) / range : 0.5);
  };

  const spanOf = (values) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    return known.length ? Math.max(...known) - Math.min(...known) : 0;
  };

  /**
   * Layers by tasks, of each task the models next to each other. The best score of a task has the deepest shade; how much
   * paler others are is measured alike in all tasks of percentages, so that scores that hardly differ look so.
   */
  function drawLayers() {
    const figure = document.getElementById("heatmap");
    const columns = report.columns().filter(({ entry }) => entry.lines.some(report.scoreOf)).map(({ question, entry, q, e }) => ({ question, entry, q, e, group: question.label, label: entry.label }));
    const several = new Set(columns.map(({ entry }) => entry.label)).size > 1;
    const layers = [...new Set(columns.flatMap(({ entry }) => entry.lines.map(({ layer }) => layer)))].sort((a, b) => b - a);
    const cells = layers.map(() => []);
    const scoresOf = ({ q: asked }) => columns.filter(({ q }) => q === asked).flatMap(({ entry }) => entry.lines.map((line) => report.scoreOf(line)?.[0]));
    const common = Math.max(0, ...columns.filter(({ question, entry }) => report.metricOf(question, entry).percent).map((column) => spanOf(scoresOf(column))));
    columns.forEach((column) => {
      const of = scoresOf(column).filter((value) => value !== null && value !== undefined);
      const best = column.question.higherIsBetter ? Math.max(...of) : Math.min(...of);
      const span = report.metricOf(column.question, column.entry).percent ? common : spanOf(of);
      const { title, percent, decimals } = report.metricOf(column.question, column.entry);
      layers.forEach((layer, r) => {
        const line = column.entry.lines.find((one) => one.layer === layer);
        const score = line && report.scoreOf(line);
        if (!score) { cells[r].push(null); return; }
        const isBest = view.score === "main" && line.best;
        const words = `${column.group} · ${column.label}, layer ${report.layerName(layer)}: ${title} ${number(score[0], percent, decimals)}${percent ? " %" : ""} ${interval(score, percent, decimals)}`;
        const share = span ? 1 - Math.abs(best - score[0]) / span : 1;
        cells[r].push({ share, text: number(score[0], percent, decimals), best: isBest, framed: isBest, says: `${words.trimEnd()}${isBest ? " ★ statistically tied for best layer" : ""}` });
      });
    });
    const shown = several ? columns : columns.map((column) => ({ ...column, group: "", label: column.group }));
    draw(figure, { rows: layers.map((layer) => ({ label: layer ? String(layer) : "0 embeddings" })), columns: shown, cells, width: 64, height: 26,
      choose: (r, c) => { report.choose({ question: columns[c].q, entry: columns[c].e, layer: layers[r] }); document.getElementById("details").scrollIntoView(); } });
    figure.hidden = !columns.length;
  }

  /** All heads, by layer, by what is asked of them; shades run from the least to the greatest head of each row. */
  function drawHeads(figure, table) {
    const columns = table.heads.map((head) => ({ label: "", name: head, group: `L${head.match(/\d+/)[0]}` }));
    const cells = table.lines.map((line) => {
      const share = shareOf(line.scores.map((score) => score?.[0]));
      return line.scores.map((score, c) => score && {
        share: line.higherIsBetter ? share(score[0]) : 1 - share(score[0]), framed: c === line.best,
        says: `${line.name} · ${table.heads[c]}: ${line.metric} ${number(score[0], line.percent, line.decimals)} ${interval(score, line.percent, line.decimals)}${c === line.best ? ", the head that was chosen" : ""}`,
      });
    });
    const rows = table.lines.map((line) => ({ label: line.name, after: `${table.heads[line.best]} ${number(line.scores[line.best][0], line.percent, line.decimals)}${line.standsOut ? " ★" : ""}` }));
    draw(figure, { rows, columns, cells, width: 12, height: 17, size: 11.5 });
  }

  function drawAll() {
    if (data.questions.length) drawLayers();
    document.querySelectorAll("figure.heads").forEach((figure, place) => drawHeads(figure, data.heads[place]));
  }

  for (const name of ["shown", "themechange"]) document.addEventListener(name, drawAll);
  drawAll();
})();
