// The state of the page stands in the fragment of its address, so that a link, a reload and the back button restore it.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const fields = new Map();

  /** A part of the state: `read` gives texts, `write` takes them; what it is at the start is left out of the address. */
  function add(key, read, write) {
    fields.set(key, { read, write, start: read() });
  }

  const same = (a, b) => a.length === b.length && a.every((text, place) => text === b[place]);

  /** Set a control as a person would. */
  function enter(control, property, value) {
    control[property] = value;
    control.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function addControl(id) {
    const control = byId(id);
    if (!control) return;
    const property = control.type === "checkbox" ? "checked" : "value";
    const asText = () => (property === "checked" ? (control.checked ? ["1"] : []) : control.value === "" ? [] : [control.value]);
    add(id, asText, ([value]) => enter(control, property, property === "checked" ? value === "1" : (value ?? "")));
  }

  /** Boxes that are not ticked, by their names. */
  function addBoxes(key, id) {
    const boxes = [...document.querySelectorAll(`#${id} input`)];
    const name = (box) => box.closest("label").textContent.trim();
    if (!boxes.length) return;
    add(key, () => boxes.filter((box) => !box.checked).map(name),
      (names) => { for (const box of boxes) if (box.checked === names.includes(name(box))) enter(box, "checked", !box.checked); });
  }

  function addSorting(table) {
    add(`sort-${table.id}`, () => report.tables.sorting(table), ([key, direction]) => report.tables.sortBy(table, key, direction));
  }

  addBoxes("hide", "models");
  addBoxes("without", "columns");
  addControl("score");
  if (report.data.questions.length) {
    const { chosen, choose } = report;
    const names = ["question", "entry", "layer", "other"];
    add("cell", () => [names.map((name) => chosen[name]).join(".")], ([text]) => {
      const numbers = text.split(".").map(Number);
      // An address may come from another report.
      const lines = report.data.questions[numbers[0]]?.entries[numbers[1]]?.lines.map((line) => line.layer) ?? [];
      if (numbers.slice(2).every((layer) => lines.includes(layer))) choose(Object.fromEntries(names.map((name, place) => [name, numbers[place]])));
    });
    const pressed = () => [...document.querySelectorAll("#chart-series button")];
    add("lines", () => pressed().filter((chip) => chip.ariaPressed !== chip.dataset.start).map((chip) => chip.dataset.line),
      (ids) => { for (const chip of pressed()) if ((chip.ariaPressed !== chip.dataset.start) !== ids.includes(chip.dataset.line)) chip.click(); });
    const controls = ["filter-text", "filter-best", "chart-zero", "words-gold", "words-pred", "words-find", "prompts-group", "prompts-find"];
    for (const id of controls) addControl(id);
  }
  for (const table of document.querySelectorAll("table.sortable")) addSorting(table);
  const parts = [...document.querySelectorAll("main details")];
  add("open", () => parts.filter((part) => part.open).map((part) => part.id), (ids) => { for (const part of parts) part.open = ids.includes(part.id); });

  let restoring = false;

  function save(event) {
    if (restoring) return;
    const params = new URLSearchParams();
    for (const [key, { read, start }] of fields) {
      const texts = read();
      if (!same(texts, start)) for (const text of texts.length ? texts : [""]) params.append(key, text);
    }
    const now = params.toString();
    if (now === location.hash.slice(1) || (!now && !location.hash.includes("="))) return;
    // Of a word that is typed, letter by letter, one state is kept.
    const typed = event.target.type === "search" && save.last === event.target;
    history[typed ? "replaceState" : "pushState"](null, "", `#${now}`);
    save.last = event.target;
  }

  function restore() {
    const params = new URLSearchParams(location.hash.slice(1));
    restoring = true;
    for (const [key, { read, write, start }] of fields) {
      const texts = params.has(key) ? params.getAll(key).filter(Boolean) : start;
      if (!same(texts, read())) write(texts);
    }
    restoring = false;
    save.last = null;
  }

  /** Links within the page lead to their sections and leave the state as it is. */
  function follow(event) {
    const link = event.target.closest('a[href^="#"]');
    const target = link && byId(link.hash.slice(1));
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView();
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  }

  document.addEventListener("click", follow);
  // Saved when all who listen to the event have answered it, before the next event may change more. What one sets is told
  // by its input; the click before it is not a state of its own.
  const setByInput = (target) => (target.closest("label")?.control ?? target).matches("input, select, textarea");
  window.addEventListener("click", (event) => { if (!setByInput(event.target)) save(event); });
  window.addEventListener("input", save);
  document.addEventListener("toggle", save, true);
  window.addEventListener("popstate", restore);
  if (location.hash.includes("=")) restore();
})();
