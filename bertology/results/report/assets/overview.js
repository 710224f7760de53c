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
    const starred = !best || !best.checked || [...row.querySelectorAll("[data-best]")].some((cell) => !cell.hidden);
    return found && starred && (!reader || !reader.value || row.dataset.reader === reader.value);
  }

  function filter() {
    for (const box of boxes) {
      for (const cell of table.querySelectorAll(`[data-key="${box.dataset.column}"]`)) cell.hidden = !box.checked;
    }
    let shown = 0;
    for (const row of rows) {
      row.hidden = !fits(row);
      shown += !row.hidden;
    }
    document.getElementById("count").textContent = `${shown} of ${rows.length} rows`;
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
  shade();
  filter();
})();
