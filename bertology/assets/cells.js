"use strict";
// What pages of texts share: the data, elements, and cells that the pointer and the arrow keys go over.
// Words enter the page as text, never as HTML.
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const layerLabel = (layer) => (layer === 0 ? "0 · embeddings" : String(layer));

  /** An element with attributes and children; strings become text. */
  function made(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** A number with a true minus sign; what rounds to zero has none. */
  function number(value, decimals) {
    const text = value.toFixed(decimals);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  }

  /** Blue where the share is positive, orange where it is negative, the deeper the nearer to 1 or −1. */
  function shade(element, share) {
    element.classList.add("shaded");
    element.classList.toggle("negative", share < 0);
    element.style.setProperty("--share", Math.min(1, Math.abs(share)));
  }

  /**
   * Let the pointer and the arrow keys go over `rows` of elements in `home`; `look` is called with the row and column
   * of what is looked at, and with none when the pointer leaves before anything is selected.
   */
  function walk(home, rows, look) {
    let chosen = null;
    const first = rows.at(-1)?.[0];
    if (first) first.tabIndex = 0;
    const show = (place) => look(...(place ?? []));
    function choose(r, c) {
      for (const cell of home.querySelectorAll('[aria-selected="true"]')) cell.removeAttribute("aria-selected");
      for (const cell of home.querySelectorAll('[data-cell][tabindex="0"]')) cell.tabIndex = -1;
      rows[r][c].tabIndex = 0;
      rows[r][c].setAttribute("aria-selected", "true");
      chosen = [r, c];
      show(chosen);
    }
    rows.forEach((row, r) => row.forEach((cell, c) => {
      cell.dataset.cell = `${r},${c}`;
      if (cell !== first) cell.tabIndex = -1;
      cell.addEventListener("focus", () => choose(r, c));
      cell.addEventListener("click", () => cell.focus());
      cell.addEventListener("pointerenter", () => show([r, c]));
    }));
    // Properties, not listeners: what stood in it before had its own.
    home.onpointerleave = () => show(chosen);
    home.onkeydown = (event) => {
      const [r, c] = event.target.dataset.cell?.split(",").map(Number) ?? [];
      const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, rows[r]?.length - 1] }[event.key];
      const next = to && rows[to[0]]?.[to[1]];
      if (!next) return;
      event.preventDefault();
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    };
  }

  /**
   * Fill a table. `columns` are names, of `marked` ones the numbers; `rows` are names; `cells[row][column]` is null or
   * has `text`, or `parts` of a text with whether each is marked; it may have `more` below it, `share`, how deep its
   * shade is, and `says`, what the readout tells of it.
   */
  function fill(table, { corner, columns, marked = [], rows, cells }, readout) {
    const heads = columns.map((name, c) => made("th", { scope: "col" }, marked.includes(c) ? made("mark", {}, name) : name));
    const names = rows.map((name) => made("th", { scope: "row" }, name));
    const elements = cells.map((row) => row.map((cell) => {
      const parts = cell?.parts?.map(([text, isMarked]) => (isMarked ? made("mark", {}, text) : text));
      const element = made("td", {}, ...(parts ?? [cell?.text ?? "–"]));
      if (cell?.more) element.append(made("span", { class: "ci" }, cell.more));
      if (cell?.share !== undefined) shade(element, cell.share);
      return element;
    }));
    table.replaceChildren(
      made("thead", {}, made("tr", {}, made("th", { scope: "col" }, corner), ...heads)),
      made("tbody", {}, ...elements.map((row, r) => made("tr", {}, names[r], ...row))),
    );
    if (!readout) return;
    table.setAttribute("role", "grid");
    readout.dataset.hint ??= readout.textContent;
    readout.textContent = readout.dataset.hint;
    walk(table, elements, (r, c) => {
      names.forEach((name, place) => name.classList.toggle("near", place === r));
      heads.forEach((name, place) => name.classList.toggle("near", place === c));
      readout.textContent = r === undefined ? readout.dataset.hint : cells[r][c]?.says ?? `${rows[r]}, ${columns[c]}: no value`;
    });
  }

  for (const [id, table] of Object.entries(data.tables ?? {})) fill(at(id), table, at(`${id}-readout`));
  return { data, at, made, layerLabel, number, shade, walk, fill };
})();
