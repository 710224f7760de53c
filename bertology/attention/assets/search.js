// Words that contain what is searched for: all are marked, one is chosen and scrolled to.
(() => {
  "use strict";
  const { state, panels, change, onChange, byId, stage } = viewer;
  const [field, count] = [byId("search"), byId("found")];

  /** Each place in each panel, in reading order; of another text than that of rows, columns too. */
  function found() {
    const sides = (panel) => (panel.isSquare() && state.part === "all" ? ["from"] : ["from", "to"]);
    return panels.flatMap((one) => sides(one).flatMap((side) => {
      const { labels } = one.units(side);
      return one.shown(side).filter((place) => one.matches(labels[place])).map((word) => ({ word, side, panel: one.number }));
    }));
  }

  const isChosen = ({ word, side, panel }) => state.kept && state.word === word && state.side === side && state.panel === panel;

  function choose(one) {
    change(one ? { ...one, kept: true } : { word: null, kept: false });
    stage.reveal();
  }

  function say() {
    const all = state.search ? found() : [];
    const at = all.findIndex(isChosen);
    count.textContent = !state.search ? "" : !all.length ? "not found" : at < 0 ? `${all.length} found` : `${at + 1} of ${all.length}`;
  }

  field.addEventListener("input", () => {
    change({ search: field.value.trim() });
    choose(state.search ? found()[0] : null);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const all = found();
    const step = event.shiftKey ? -1 : 1;
    if (all.length) choose(all[(all.findIndex(isChosen) + step + all.length) % all.length]);
  });
  // Pointing, many times a second, changes nothing of what was found.
  const ABOUT = ["search", "kept", "level", "kind", "part", "specials"];
  onChange((patch) => {
    if (!ABOUT.some((name) => name in patch)) return;
    if (field.value.trim() !== state.search) field.value = state.search;
    say();
  });
})();
