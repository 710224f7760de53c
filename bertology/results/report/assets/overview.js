// The table of layers by tasks: what it shows, shading, and the way from a score to what is behind it.
(() => {
  "use strict";
  const { data, element, view, number, interval } = report;
  const table = document.getElementById("overview-table");
  const rows = [...table.tBodies[0].rows];
  const text = document.getElementById("filter-text");
  const best = document.getElementById("filter-best");

  /** Put the chosen score of each task into the cells of the layers. */
  function fill() {
    for (const button of table.querySelectorAll("button.score")) {
      const { question, entry, layer } = button.dataset;
      const asked = data.questions[question];
      const line = asked.entries[entry].lines.find((one) => one.layer === Number(layer));
      const score = report.scoreOf(line);
      const { percent, decimals } = report.metricOf(asked, asked.entries[entry]);
      const isBest = view.score === "main" && line.best;
      const cell = button.closest("td");
      button.textContent = score ? number(score[0], percent, decimals) : "–";
      cell.querySelector(".star").textContent = isBest ? "★" : "";
      cell.querySelector(".ci")?.remove();
      if (score && interval(score)) cell.append(element("span", { class: "ci" }, interval(score, percent, decimals)));
      cell.toggleAttribute("data-best", Boolean(isBest));
      [cell.dataset.value, cell.dataset.low, cell.dataset.high] = (score ?? []).concat("", "", "").slice(0, 3).map((bound) => bound ?? "");
      cell.dataset.good = score ? (asked.higherIsBetter ? score[0] : -score[0]) : "";
    }
    data.questions.forEach((question, place) => {
      const { title, percent } = report.metricOf(question, question.entries[0]);
      table.querySelector(`thead [data-key="q${place}"] .unit`).textContent = `${title}${percent ? ", %" : ""}`;
    });
  }

  function shade() {
    data.questions.forEach((_, place) => {
      const cells = [...table.tBodies[0].querySelectorAll(`tr:not([hidden]) td[data-key="q${place}"][data-good]`)].filter((cell) => cell.dataset.good !== "");
      const values = cells.map((cell) => Number(cell.dataset.good));
      const least = Math.min(...values);
      const range = Math.max(...values) - least;
      cells.forEach((cell, i) => cell.style.setProperty("--share", range ? (values[i] - least) / range : 0));
    });
  }

  function fits(row) {
    const wanted = text.value.trim().toLowerCase();
    // A whole number means that layer; anything else is looked for in the row's names.
    const layer = row.dataset.layer;
    const names = `${row.dataset.reader} ${report.layerName(Number(layer))}`.toLowerCase();
    const found = /^\d+$/.test(wanted) ? layer === wanted || row.dataset.reader.includes(wanted) : names.includes(wanted);
    return found && !view.hidden.has(row.dataset.reader);
  }

  const hasScore = (row, key) => row.querySelector(`[data-key="${key}"]:not(.nothing)`) !== null;

  /** Tasks that are left out, and those of which no row that is shown has a score, have no column. */
  function showColumns(asked) {
    data.questions.forEach((_, place) => {
      const key = `q${place}`;
      const shown = !view.without.has(key) && (!asked.length || asked.some((row) => hasScore(row, key)));
      for (const cell of table.querySelectorAll(`[data-key="${key}"]`)) cell.hidden = !shown;
    });
    // Baselines have one score, that of the main metric.
    for (const row of table.tFoot.rows) row.hidden = view.score !== "main" || view.hidden.has(row.dataset.reader) || !row.querySelector("td:not(.nothing, [hidden])");
  }

  function show() {
    const asked = rows.filter(fits);
    showColumns(asked);
    const starred = (row) => !best || !best.checked || row.querySelector("[data-best]:not([hidden])") !== null;
    const shown = new Set(asked.filter(starred));
    for (const row of rows) row.hidden = !shown.has(row);
    document.getElementById("count").textContent = `${shown.size} of ${rows.length} rows`;
    shade();
    pin();
  }

  /** The names of models and layers stay in sight when scores are scrolled: layers stand behind the models' width. */
  function pin() {
    const names = table.tHead.querySelector('[data-key="reader"]');
    table.style.setProperty("--names", `${names ? names.offsetWidth : 0}px`);
  }

  function showChosen() {
    for (const cell of table.querySelectorAll("td.chosen")) cell.classList.remove("chosen");
    const { question, entry, layer } = report.chosen;
    const button = table.querySelector(`.score[data-question="${question}"][data-entry="${entry}"][data-layer="${layer}"]`);
    if (button) button.closest("td, th").classList.add("chosen");
  }

  table.addEventListener("click", (event) => {
    const score = event.target.closest("button.score");
    if (!score) return;
    const { question, entry, layer } = score.dataset;
    report.choose({ question: Number(question), entry: Number(entry), layer: Number(layer) });
    document.getElementById("details").scrollIntoView();
  });
  for (const control of [text, best]) control?.addEventListener("input", show);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("choice", showChosen);
  document.addEventListener("shown", () => { fill(); show(); });
  new ResizeObserver(pin).observe(table);
  show();
})();
