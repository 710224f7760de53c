// Tables that sort by a click on a header, or by Enter while it has the focus.
report.tables = (() => {
  "use strict";

  /** The value a row has in a column: a number where the cell says one, else its text. Empty cells have none. */
  function valueOf(row, key, kind) {
    const cell = [...row.cells].find((candidate) => candidate.dataset.key === key);
    if (!cell) return null;
    if (kind === "text") return cell.textContent.trim().toLowerCase();
    return cell.dataset.value === undefined || cell.dataset.value === "" ? null : Number(cell.dataset.value);
  }

  function compare(a, b, sign) {
    // Rows without a value stay last whichever way the others go.
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  }

  function sortBy(table, head, direction) {
    const { key, kind } = head.dataset;
    for (const other of table.tHead.rows[0].cells) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", direction);
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, key, kind) }));
    rows.sort((a, b) => compare(a.value, b.value, direction === "ascending" ? 1 : -1));
    body.append(...rows.map(({ row }) => row));
  }

  /** Listens on the table, so that its rows and headers may be replaced. */
  function makeSortable(table) {
    table.addEventListener("click", (event) => {
      const head = event.target.closest("button.sort")?.closest("th");
      if (!head) return;
      // Numbers are looked at from the largest on, layers and names from the first on.
      const first = head.dataset.kind === "text" || head.dataset.key === "layer" ? "ascending" : "descending";
      const second = first === "ascending" ? "descending" : "ascending";
      sortBy(table, head, head.getAttribute("aria-sort") === first ? second : first);
    });
  }

  /** A header cell that sorts. */
  function sortHead(text, key, kind = "number", note = "") {
    const unit = note ? report.element("span", { class: "unit" }, note) : null;
    return report.element(
      "th",
      { scope: "col", "aria-sort": "none", "data-key": key, "data-kind": kind },
      report.element("button", { type: "button", class: "sort" }, report.element("span", { class: "name" }, text), unit),
    );
  }

  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
  return { sortHead, sortBy };
})();
