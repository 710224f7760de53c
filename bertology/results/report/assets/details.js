// Behind a score: labels, confusions, and the words that one layer got wrong and another right.
(() => {
  "use strict";
  const { data, element, svg, number, count, layerName, fillSelect, chosen } = report;
  const byId = (id) => document.getElementById(id);
  const PAGE = 20;
  const ANY = "any";
  let limit = PAGE;

  const entries = data.questions.flatMap((question, q) => question.entries.map((entry, e) => ({ question, entry, q, e })));
  const current = () => entries.find(({ q, e }) => q === chosen.question && e === chosen.entry);
  const details = () => current().entry.details;
  /** The place of a layer among those with predictions, or -1. */
  const row = (layer) => details().layers.indexOf(layer);

  function showEntry() {
    const { question, entry } = current();
    byId("detail-entry").value = `${chosen.question}/${chosen.entry}`;
    const found = entry.details;
    byId("detail-missing").hidden = !found.missing;
    for (const id of ["detail-body", "cloze-body"]) byId(id).hidden = true;
    const layers = found.missing ? entry.lines.map((line) => line.layer) : found.layers;
    fillSelect(byId("detail-layer"), layers.map((layer) => [layer, layerName(layer)]), chosen.layer);
    fillSelect(byId("detail-other"), layers.map((layer) => [layer, layerName(layer)]), chosen.other);
    if (found.missing) {
      byId("detail-missing").textContent = `${question.label}, ${entry.label}: ${found.missing}, so there is nothing to show below the scores.`;
      return;
    }
    if (row(chosen.layer) < 0 || row(chosen.other) < 0) {
      byId("detail-missing").hidden = false;
      byId("detail-missing").textContent = `No predictions were kept of layer ${row(chosen.layer) < 0 ? chosen.layer : chosen.other}: choose another.`;
      return;
    }
    byId(found.cloze ? "cloze-body" : "detail-body").hidden = false;
    if (found.cloze) {
      report.cloze.show(question, entry);
      return;
    }
    showLabels(found);
    showConfusion(found);
    showWordFilters(found);
    showWords();
  }

  const ofSeed = (found) => (current().entry.seeds > 1 ? ` Of seed ${found.seed}.` : "");

  function showLabels(found) {
    const { support, precision, recall, f1 } = found.perLabel;
    const [here, there] = [row(chosen.layer), row(chosen.other)];
    const { sortHead } = report.tables;
    const heads = [sortHead("Label", "label", "text"), sortHead("Items", "support"), sortHead("Precision", "precision"), sortHead("Recall", "recall"),
      sortHead("F1", "f1"), sortHead(`F1 less layer ${chosen.other}`, "gain"), element("th", { scope: "col" }, "F1 by layer")];
    const rows = support.map((items, label) => {
      const gain = f1[here][label] === null || f1[there][label] === null ? null : f1[here][label] - f1[there][label];
      const cell = (key, value, text, kind) => element("td", { "data-key": key, "data-value": value ?? "", class: kind }, text);
      const sign = gain > 0.0005 ? "+" : "";
      return element("tr", {},
        element("th", { scope: "row", class: "text", "data-key": "label" }, found.labels[label]),
        cell("support", items, count(items)),
        cell("precision", precision[here][label], number(precision[here][label])),
        cell("recall", recall[here][label], number(recall[here][label])),
        cell("f1", f1[here][label], number(f1[here][label])),
        cell("gain", gain, gain === null ? "–" : sign + number(gain), gain > 0.0005 ? "better" : gain < -0.0005 ? "worse" : null),
        element("td", { class: "bar-cell" }, spark(f1.map((values) => values[label]), here, there, found)));
    });
    report.tables.fill(byId("labels-table"), heads, rows);
    const cut = found.labels.length > support.length ? ` The ${support.length} most frequent of ${found.labels.length} labels.` : "";
    byId("labels-note").textContent = `Layer ${layerName(chosen.layer)}, in percent; ● in the line is that layer, ○ layer ${chosen.other}.${cut}${ofSeed(found)}`;
  }

  /** F1 over all layers as a small line, scaled from the label's worst to its best. */
  function spark(values, here, there, found) {
    const [width, height] = [110, 20];
    const known = values.filter((value) => value !== null);
    if (!known.length) return "–";
    const least = Math.min(...known);
    const range = Math.max(Math.max(...known) - least, 0.02);
    const x = (i) => (values.length > 1 ? 4 + (i * (width - 8)) / (values.length - 1) : width / 2);
    const y = (value) => height - 3 - ((value - least) / range) * (height - 6);
    const points = values.map((value, i) => (value === null ? null : `${x(i).toFixed(1)} ${y(value).toFixed(1)}`)).filter(Boolean);
    const said = values.map((value, i) => `${found.layers[i]}: ${number(value)}`).join(", ");
    const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "spark", role: "img", "aria-label": `F1 by layer ${said}` });
    drawing.append(svg("title", {}, `F1 by layer — ${said}`), svg("path", { d: `M${points.join("L")}` }));
    if (values[there] !== null) drawing.append(svg("circle", { cx: x(there), cy: y(values[there]), r: 3, class: "other" }));
    if (values[here] !== null) drawing.append(svg("circle", { cx: x(here), cy: y(values[here]), r: 3.2 }));
    return drawing;
  }

  function showConfusion(found) {
    const size = found.confused;
    const rest = found.labels.length - size;
    const names = found.labels.slice(0, size);
    if (rest > 0) names.push(`${rest} others`);
    const matrix = names.map(() => new Array(names.length).fill(0));
    for (const [gold, pred, n] of found.confusion[row(chosen.layer)]) matrix[gold][pred] = n;
    const totals = matrix.map((values) => values.reduce((a, b) => a + b, 0));
    const heads = names.map((name) => element("th", { scope: "col", class: "turned", title: name }, element("span", {}, name)));
    const rows = matrix.map((values, gold) => element("tr", {}, element("th", { scope: "row", title: names[gold] }, names[gold]),
      ...values.map((n, pred) => confusionCell(n, gold, pred, names, totals[gold], pred < size && gold < size))));
    byId("confusion-table").replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { class: "axis", scope: "col" }, "label ↓ taken for →"), ...heads)),
      element("tbody", {}, ...rows));
    const cut = rest > 0 ? ` The ${size} most frequent labels; ${rest} others are counted together, and those of them taken for one another stand on the diagonal.` : "";
    byId("confusion-note").textContent = `Layer ${layerName(chosen.layer)}: rows are the labels given by the corpus, columns what was predicted. Shading: share of the row. Choose a mistake to see its words.${cut}${ofSeed(found)}`;
  }

  function confusionCell(n, gold, pred, names, total, single) {
    const right = gold === pred;
    const cell = element("td", { class: right ? "right" : n ? "mistake" : null });
    if (!n) return cell;
    // Mistakes are rare: their shading rises faster, so that one in a hundred can be seen.
    cell.style.setProperty("--share", right ? n / total : Math.min(1, Math.sqrt(n / total) * 1.6));
    const said = `${names[gold]} taken for ${names[pred]}: ${count(n)}`;
    if (right || !single) {
      cell.title = said;
      cell.append(count(n));
    } else {
      cell.append(element("button", { type: "button", "aria-label": `${said}; show words`, title: said, "data-gold": gold, "data-pred": pred }, count(n)));
    }
    return cell;
  }

  function showWordFilters(found) {
    const here = row(chosen.layer);
    const wrong = found.ids.map((_, i) => i).filter((i) => found.pred[here][i] !== found.gold[i]);
    const used = (codes) => [...new Set(codes)].sort((a, b) => a - b).map((code) => [code, found.labels[code]]);
    const [gold, pred] = [byId("words-gold"), byId("words-pred")];
    const keep = (select, options) => fillSelect(select, options, options.some(([value]) => String(value) === select.value) ? select.value : ANY);
    keep(gold, [[ANY, "any"], ...used(wrong.map((i) => found.gold[i]))]);
    keep(pred, [[ANY, "any"], ...used(wrong.map((i) => found.pred[here][i]))]);
  }

  /** The items listed: wrong at the layer, right at the other one, of the labels asked for. */
  function matching(found) {
    const [here, there] = [row(chosen.layer), row(chosen.other)];
    const [gold, pred, wanted] = [byId("words-gold").value, byId("words-pred").value, byId("words-find").value.trim().toLowerCase()];
    return found.ids.map((_, i) => i).filter((i) => {
      const wrong = found.pred[here][i] !== found.gold[i];
      const contrast = here === there || found.pred[there][i] === found.gold[i];
      const labels = (gold === ANY || found.gold[i] === Number(gold)) && (pred === ANY || found.pred[here][i] === Number(pred));
      const place = found.places[i];
      const text = `${found.ids[i]} ${place ? data.sentences[place[0]] : ""}`.toLowerCase();
      return wrong && contrast && labels && (!wanted || text.includes(wanted));
    });
  }

  function showWords() {
    const found = details();
    const [here, there] = [row(chosen.layer), row(chosen.other)];
    const list = matching(found);
    const all = found.wrongRight[here][there];
    const same = here === there;
    byId("words-title").textContent = same ? `Words that layer ${chosen.layer} got wrong` : `Words that layer ${chosen.layer} got wrong and layer ${chosen.other} right`;
    const back = same ? "" : ` The other way round it is ${count(found.wrongRight[there][here])}.`;
    const cut = found.nWrong > found.ids.length ? ` Of ${count(found.nWrong)} words that some layer got wrong, ${count(found.ids.length)} are kept in this file, spread over all pairs of layers.` : "";
    const text = found.noText ? ` Sentences are not shown: ${found.noText}. Ids are sentence:word.` : "";
    byId("words-note").textContent = `${count(all)} of ${count(found.nItems)}.${back}${cut}${text}${ofSeed(found)}`;
    byId("words-count").textContent = `${count(list.length)} listed`;
    byId("words").replaceChildren(...list.slice(0, limit).map((i) => word(found, i, here, there)));
    byId("words-more").hidden = list.length <= limit;
    byId("words-more").textContent = `Show ${Math.min(PAGE, list.length - limit)} more`;
  }

  // A text with its spans marked, the second of a pair in another way; where both are, the first is seen.
  function marked(text, edges) {
    const cuts = [...new Set([0, ...edges, text.length])].sort((a, b) => a - b);
    return cuts.slice(1).map((end, number) => {
      const start = cuts[number];
      const inside = (span) => edges[2 * span] <= start && end <= edges[2 * span + 1];
      const part = text.slice(start, end);
      if (inside(0)) return element("mark", {}, part);
      return edges.length > 2 && inside(1) ? element("mark", { class: "second" }, part) : part;
    });
  }

  function word(found, item, here, there) {
    const place = found.places[item];
    const body = element("div", { class: "sentence" });
    if (place) {
      body.append(...marked(data.sentences[place[0]], place.slice(1)));
    } else {
      body.append(element("mark", {}, found.ids[item]));
    }
    const said = (layer, code) => element("span", { class: code === found.gold[item] ? "better" : "worse" }, `layer ${layer}: `, element("b", {}, found.labels[code]));
    const answers = element("div", { class: "answers" }, element("span", {}, "label: ", element("b", {}, found.labels[found.gold[item]])), said(chosen.layer, found.pred[here][item]));
    if (here !== there) answers.append(said(chosen.other, found.pred[there][item]));
    if (place) answers.append(element("span", { class: "id" }, found.ids[item]));
    return element("li", {}, body, answers);
  }

  function refilter() {
    limit = PAGE;
    showWords();
  }

  const fillEntries = () => fillSelect(byId("detail-entry"), report.columns().map(({ question, entry, q, e }) => [`${q}/${e}`, `${question.label} · ${entry.label}`]), `${chosen.question}/${chosen.entry}`);
  fillEntries();
  document.addEventListener("shown", fillEntries);
  byId("detail-entry").addEventListener("input", (event) => {
    const [question, entry] = event.target.value.split("/").map(Number);
    // Of a model's own head the lowest layer: what it gets wrong and the best one right is what there is to read.
    const { ownHead, lines } = data.questions[question].entries[entry];
    report.choose({ question, entry, layer: ownHead ? lines[0].layer : report.bestLayer(question, entry) });
  });
  byId("detail-layer").addEventListener("input", (event) => report.choose({ layer: Number(event.target.value), other: chosen.other }));
  byId("detail-other").addEventListener("input", (event) => report.choose({ layer: chosen.layer, other: Number(event.target.value) }));
  byId("words-swap").addEventListener("click", () => report.choose({ layer: chosen.other, other: chosen.layer }));
  for (const id of ["words-gold", "words-pred", "words-find"]) byId(id).addEventListener("input", refilter);
  byId("words-more").addEventListener("click", () => {
    const before = limit;
    limit += PAGE;
    showWords();
    // The button moves down or goes away: what it brought is where one reads on.
    const next = byId("words").children[before];
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
  });
  byId("confusion-table").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    // All mistakes of the layer, not only those another layer avoided.
    report.choose({ layer: chosen.layer, other: chosen.layer });
    byId("words-gold").value = button.dataset.gold;
    byId("words-pred").value = button.dataset.pred;
    refilter();
    byId("words-title").scrollIntoView();
  });
  document.addEventListener("choice", () => {
    limit = PAGE;
    showEntry();
  });
  // The page opens on what the lowest layer gets wrong and the best one right.
  const lowest = data.questions[0].entries[0].lines[0].layer;
  report.choose({ question: 0, entry: 0, layer: lowest, other: report.bestLayer(0, 0) });
})();
