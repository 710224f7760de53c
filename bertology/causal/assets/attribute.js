// The words of a text, shaded by the scores of one method and layer.
(() => {
  const { data, at, made, number, shade, walk, fill, layerLabel } = page;
  const hint = at("readout").textContent;
  const layersOf = (name) => data.methods.flatMap((method, place) => (method.name === name ? [place] : []));
  const now = () => ({ text: data.texts[at("text").value], place: Number(at("layer").value) });
  const largest = (scores) => Math.max(...scores.map(Math.abs)) || 1;

  function told(text, place, word) {
    const scores = text.scores[place];
    const total = scores.reduce((sum, score) => sum + Math.abs(score), 0) || 1;
    const others = scores.filter((_, n) => n !== text.mask);
    const rank = `rank ${1 + others.filter((score) => score > scores[word]).length} of ${others.length}`;
    const share = number((100 * Math.abs(scores[word])) / total, 0);
    return `${data.methods[place].title}: ${text.words[word]} ${number(scores[word], 3)}, ${word === text.mask ? "the mask itself" : rank}, ${share} % of the sum of absolute scores`;
  }

  function meaning(text, { name, isSigned }) {
    const key = (negative) => made("span", { class: `key shaded${negative ? " negative" : ""}` });
    if (name === "random") return ["Numbers drawn at random, a control."];
    const good = text.good ? `“${text.good}”` : "a higher number";
    const bad = text.bad ? `“${text.bad}”` : "less of it";
    if (isSigned) return [key(false), ` evidence for ${good}; `, key(true), ` evidence for ${bad}.`];
    const read = text.kind === "word" ? "the mask" : "the subwords that the prediction is read at";
    return [key(false), ` a larger share of the state of ${read} comes from the word. The scores have no sign: they are not of evidence for ${good} or for ${bad}.`];
  }

  function draw() {
    const { text, place } = now();
    const scores = text.scores[place];
    const words = text.words.map((word, n) => {
      const element = made("span", { role: "option", class: n === text.mask ? "mask" : "" }, word, made("small", {}, number(scores[n], 3)));
      shade(element, scores[n] / largest(scores));
      return element;
    });
    at("words").replaceChildren(...words);
    at("readout").textContent = hint;
    walk(at("words"), [words], (_, n) => { at("readout").textContent = n === undefined ? hint : told(text, place, n); });
    at("meaning").replaceChildren(...meaning(text, data.methods[place]));
    at("special").textContent = text.special;
    at("note").textContent = data.methods[place].name === "integrated_gradients" ? text.completeness : "";
    for (const table of [at("scores"), at("faithfulness")]) {
      const rows = [...table.tBodies[0].rows];
      rows.forEach((row, r) => row.classList.toggle("shown", r === place));
      table.parentElement.scrollTop = rows[place].offsetTop - 3 * rows[place].offsetHeight;
    }
  }

  function drawText() {
    const { text } = now();
    at("difference").textContent = text.difference;
    const cells = text.scores.map((scores, place) => scores.map((score, n) => ({ text: number(score, 3), share: score / largest(scores), says: told(text, place, n) })));
    fill(at("scores"), { corner: "method", columns: text.words, marked: [text.mask], rows: data.methods.map(({ title }) => title), cells }, at("scores-readout"));
    draw();
  }

  function fillLayers() {
    const before = data.methods[at("layer").value]?.layer;
    const places = layersOf(at("method").value);
    at("layer").replaceChildren(...places.map((place) => made("option", { value: place }, layerLabel(data.methods[place].layer))));
    at("layer").value = places.find((place) => data.methods[place].layer === before) ?? places.at(-1);
    at("layer-field").hidden = places.length === 1;
  }

  // The margin of the gold label where it is known: below 0 the model is wrong.
  const isWrong = ({ gold, good }) => gold !== "" && gold !== good;
  const margin = (text) => (isWrong(text) ? -1 : 1) * text.score;
  const orders = { "as given": null, "lowest score first": ({ score }) => score };
  if (data.texts.some(({ gold }) => gold)) orders["largest error first"] = margin;
  const labels = [...new Set(data.texts.flatMap(({ good, gold }) => [good, gold]))].filter(Boolean);

  function listTexts() {
    const label = at("label").value;
    const chosen = data.texts.map((text, place) => [text, place]).filter(([{ good, gold }]) => !label || label === good || label === gold);
    const by = orders[at("sort").value];
    if (by) chosen.sort(([a], [b]) => by(a) - by(b));
    at("text").replaceChildren(...chosen.map(([text, place]) => {
      const wrong = isWrong(text) ? `✗ ${text.good} for ${text.gold}: ` : text.gold ? `✓ ${text.good}: ` : "";
      return made("option", { value: place }, wrong + text.words.join(" "));
    }));
    drawText();
  }

  at("sort").replaceChildren(...Object.keys(orders).map((name) => made("option", { value: name }, name)));
  at("label").replaceChildren(made("option", { value: "" }, "all"), ...labels.map((name) => made("option", { value: name }, name)));
  for (const field of ["text-field", "sort-field"]) at(field).hidden = data.texts.length === 1;
  at("label-field").hidden = data.texts.length === 1 || labels.length === 1 || data.texts[0].kind === "word";
  at("sort").addEventListener("change", listTexts);
  at("label").addEventListener("change", listTexts);
  const names = [...new Set(data.methods.map(({ name }) => name))];
  at("method").replaceChildren(...names.map((name) => made("option", { value: name }, data.methods.find((method) => method.name === name).title.replace(/, layer \d+$/, ""))));
  at("text").addEventListener("change", drawText);
  at("method").addEventListener("change", () => { fillLayers(); draw(); });
  at("layer").addEventListener("change", draw);
  fillLayers();
  listTexts();
})();
