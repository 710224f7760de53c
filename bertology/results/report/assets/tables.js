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

  // How each table is sorted, by its id, which stays while its rows and headers are replaced.
  const sortings = new Map();
  const sorting = (table) => sortings.get(table.id) ?? [];

  function sortBy(table, key, direction) {
    const head = [...(table.tHead?.rows[0].cells ?? [])].find((cell) => cell.dataset.key === key && cell.hasAttribute("aria-sort"));
    for (const cell of table.tHead?.rows[0].cells ?? []) if (cell.hasAttribute("aria-sort")) cell.setAttribute("aria-sort", "none");
    if (key) sortings.set(table.id, [key, direction]);
    else sortings.delete(table.id);
    const rows = [...(table.tBodies[0]?.rows ?? [])].map((row, place) => {
      row.dataset.place ??= place;
      return { row, value: head ? valueOf(row, key, head.dataset.kind) : Number(row.dataset.place) };
    });
    head?.setAttribute("aria-sort", direction);
    rows.sort((a, b) => compare(a.value, b.value, head && direction === "descending" ? -1 : 1));
    table.tBodies[0]?.append(...rows.map(({ row }) => row));
  }

  /** Put a head and rows into a table, sorted as it was. */
  function fill(table, heads, rows) {
    table.replaceChildren(report.element("thead", {}, report.element("tr", {}, ...heads)), report.element("tbody", {}, ...rows));
    const [key, direction] = sorting(table);
    if (key) sortBy(table, key, direction);
  }

  /** Listens on the table, so that its rows and headers may be replaced. */
  function makeSortable(table) {
    table.addEventListener("click", (event) => {
      const head = event.target.closest("button.sort")?.closest("th");
      if (!head) return;
      // Numbers are looked at from the largest on, layers and names from the first on.
      const first = head.dataset.kind === "text" || head.dataset.key === "layer" ? "ascending" : "descending";
      const second = first === "ascending" ? "descending" : "ascending";
      sortBy(table, head.dataset.key, head.getAttribute("aria-sort") === first ? second : first);
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
  return { sortHead, sortBy, sorting, fill };
})();
