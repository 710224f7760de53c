// The table of layers by tasks: filters, columns, shading, and the way from a score to what is behind it.
(() => {
  "use strict";
  const table = document.getElementById("overview-table");
  const rows = [...table.tBodies[0].rows];
  const text = document.getElementById("filter-text");
  const best = document.getElementById("filter-best");
  const reader = document.getElementById("filter-reader");
  const boxes = [...document.querySelectorAll("#columns input")];

  function shade() {
    report.data.questions.forEach((_, place) => {
      const cells = [...table.tBodies[0].querySelectorAll(`td[data-key="q${place}"][data-good]`)];
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
    return found && (!reader || !reader.value || row.dataset.reader === reader.value);
  }

  const hasScore = (row, key) => row.querySelector(`[data-key="${key}"]:not(.nothing)`) !== null;

  /** Tasks that are left out, and those of which no row that is asked for has a score, have no column. */
  function showColumns(asked) {
    report.data.questions.forEach((_, place) => {
      const key = `q${place}`;
      const box = boxes.find((candidate) => candidate.dataset.column === key);
      const shown = (!box || box.checked) && (!asked.length || asked.some((row) => hasScore(row, key)));
      for (const cell of table.querySelectorAll(`[data-key="${key}"]`)) cell.hidden = !shown;
    });
    for (const row of table.tFoot.rows) row.hidden = !row.querySelector("td:not(.nothing, [hidden])");
  }

  function filter() {
    const asked = rows.filter(fits);
    showColumns(asked);
    const starred = (row) => !best || !best.checked || row.querySelector("[data-best]:not([hidden])") !== null;
    const shown = new Set(asked.filter(starred));
    for (const row of rows) row.hidden = !shown.has(row);
    document.getElementById("count").textContent = `${shown.size} of ${rows.length} rows`;
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
  for (const control of [text, best, reader, ...boxes]) if (control) control.addEventListener("input", filter);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("choice", showChosen);
  new ResizeObserver(pin).observe(table);
  shade();
  filter();
})();
