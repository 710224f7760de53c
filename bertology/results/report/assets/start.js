// What all parts of the page share: the data, numbers as text, elements, and which score is being looked at.
// Everything that comes from a run enters the page as text, never as HTML.
const report = (() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);

  /** An element with properties and children; strings become text. */
  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  const SVG = "http://www.w3.org/2000/svg";

  function svg(tag, properties = {}, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** A number, in percent if it is a fraction; a true minus sign. */
  function number(value, percent = true, decimals = 1) {
    if (value === null || value === undefined) return "–";
    const text = (percent ? 100 * value : value).toFixed(decimals);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  }

  /** `[98.2, 98.8]`, or nothing where there is no interval. */
  function interval(score, percent = true, decimals = 1) {
    if (!score || score[1] === null || score[2] === null) return "";
    return `[${number(score[1], percent, decimals)}, ${number(score[2], percent, decimals)}]`;
  }

  const count = (value) => value.toLocaleString("en");
  const layerName = (layer) => (layer === 0 ? "0 · embeddings" : String(layer));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function fillSelect(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
    select.value = String(chosen ?? options[0]?.[0] ?? "");
  }

  // What is looked at; whoever changes it tells the others.
  const chosen = { question: 0, entry: 0, layer: 0, other: 0 };

  function bestLayer(question, entry) {
    const { higherIsBetter, entries } = data.questions[question];
    const scored = entries[entry].lines.filter((line) => line.main);
    // What a change of the text moves is neither good nor bad: the last layer is the model's own answer.
    if (entries[entry].details.tally === "changes") return scored.at(-1)?.layer ?? 0;
    const sign = higherIsBetter ? 1 : -1;
    return scored.reduce((best, line) => (!best || sign * line.main[0] > sign * best.main[0] ? line : best), null)?.layer ?? 0;
  }

  // What the whole page shows: models and tasks that are not hidden (q0 is the first of layers, h0 the first of heads), and one score.
  const view = { hidden: new Set(), without: new Set(), score: "main" };

  /** Tasks and models that are shown, with their places. */
  const columns = () => data.questions.flatMap((question, q) => question.entries.map((entry, e) => ({ question, entry, q, e })))
    .filter(({ q, entry }) => !view.without.has(`q${q}`) && !view.hidden.has(entry.label));

  const scoreOf = (line) => line[view.score] ?? null;

  /** What the score that is shown is called, and how it is written. */
  function metricOf(question, entry) {
    const own = { title: question.metric, percent: question.percent, decimals: question.decimals };
    const share = { percent: true, decimals: 1 };
    return { main: own, second: { title: entry.second ?? "–", percent: entry.secondPercent, decimals: entry.secondDecimals },
      random: { ...own, title: `${question.metric} of random weights` }, control: { ...share, title: "accuracy on the control task" },
      selectivity: { ...share, title: "selectivity" } }[view.score];
  }

  function watchChoices() {
    const boxes = (id) => [...document.querySelectorAll(`#${id} input`)];
    const score = document.getElementById("score");
    const change = () => {
      view.hidden = new Set(boxes("models").filter((box) => !box.checked).map((box) => box.dataset.model));
      view.without = new Set(boxes("columns").filter((box) => !box.checked).map((box) => box.dataset.column));
      view.score = score?.value ?? "main";
      for (const part of document.querySelectorAll("[data-of-model]")) part.hidden = view.hidden.has(part.dataset.ofModel) || view.without.has(part.dataset.ofTask);
      document.dispatchEvent(new Event("shown"));
      // What is looked at must be among what is shown.
      const some = columns();
      if (some.length && !some.some(({ q, e }) => q === chosen.question && e === chosen.entry)) {
        const { q, e } = some.find(({ q }) => q === chosen.question) ?? some[0];
        choose({ question: q, entry: e });
      }
    };
    for (const control of [...boxes("models"), ...boxes("columns"), score]) control?.addEventListener("input", change);
  }

  function choose(change) {
    const sameTable = (change.question ?? chosen.question) === chosen.question && (change.entry ?? chosen.entry) === chosen.entry;
    Object.assign(chosen, change);
    const lines = data.questions[chosen.question].entries[chosen.entry].lines;
    const layers = lines.map((line) => line.layer);
    if (change.layer === undefined && !(sameTable && layers.includes(chosen.layer))) chosen.layer = layers[0];
    if (change.other === undefined && (!sameTable || change.layer !== undefined)) {
      const best = bestLayer(chosen.question, chosen.entry);
      // Beside the best layer stands the lowest, beside any other the best.
      chosen.other = chosen.layer === best ? layers[0] : best;
    }
    document.dispatchEvent(new Event("choice"));
  }

  watchChoices();
  return { data, element, svg, number, interval, count, layerName, colour, fillSelect, chosen, choose, bestLayer, view, columns, scoreOf, metricOf };
})();
