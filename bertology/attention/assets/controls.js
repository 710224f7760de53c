// What is chosen above the drawing.
(() => {
  "use strict";
  const { data, state, panels, heads, kinds, hasGold, isPair, hasSet, change, byId, element, headColour } = viewer;

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
    select.value = String(chosen);
  }

  /** What is not in the page cannot be chosen. */
  function offer(select, name) {
    for (const option of select.options) {
      option.hidden = option.value === "effect" && !byId("predictions").textContent;
      option.disabled = name === "level" ? !hasSet(option.value, state.weights) : !hasSet(state.level, option.value);
    }
    select.value = state[name];
    select.disabled = [...select.options].filter((option) => !option.disabled).length < 2;
  }

  function chips() {
    const chip = (head) => {
      const dot = element("span", { class: "dot" });
      dot.style.background = headColour(head);
      const toggle = () => {
        const chosen = new Set(state.heads);
        if (!chosen.delete(head)) chosen.add(head);
        change({ heads: chosen });
        byId("head-chips").querySelector(`[data-head="${head}"]`).focus();
      };
      const shown = String(state.heads.has(head));
      return element("button", { type: "button", class: "chip", "data-head": head, "aria-pressed": shown, onclick: toggle }, dot, `H${head}`);
    };
    const all = element("button", { type: "button", class: "chip", onclick: () => change({ heads: new Set(heads) }) }, "all");
    const none = element("button", { type: "button", class: "chip", onclick: () => change({ heads: new Set() }) }, "none");
    byId("head-chips").replaceChildren(...viewer.allHeadsOf(state.layer).map(chip), all, none);
  }

  function show(patch = null) {
    for (const tab of document.querySelectorAll(".tab")) tab.setAttribute("aria-pressed", String(tab.dataset.view === state.view));
    for (const part of document.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").includes(state.view);
    byId("stage").setAttribute("aria-label", viewer.views[state.view].label);
    if (patch === null || "kind" in patch) options(byId("layer"), viewer.allLayers().map((layer) => [layer, layer]), state.layer);
    byId("layer").value = String(state.layer);
    offer(byId("level"), "level");
    offer(byId("weights"), "weights");
    for (const name of ["kind", "part", "side", "specials"]) byId(name).value = state[name];
    byId("one-head").value = state.head ?? "";
    for (const name of ["gold", "common"]) byId(name).checked = state[name];
    byId("threshold").value = Math.round(100 * state.threshold);
    byId("threshold-told").textContent = `${Math.round(100 * state.threshold)} %`;
    if (patch === null || ["level", "specials", "view", "kind", "part", "panel", "side"].some((name) => name in patch)) words();
    const panel = panels[state.panel];
    byId("word").value = String(state.word ?? panel.shown(state.side).find((place) => !panel.units(state.side).special[place]) ?? "");
    if (patch === null || "heads" in patch || "layer" in patch || "view" in patch || "kind" in patch) chips();
  }

  function words() {
    const panel = panels[state.panel];
    const { labels } = panel.units(state.side);
    options(byId("word"), panel.shown(state.side).map((place) => [place, `${labels[place]}`]), state.word ?? "");
  }

  function notices() {
    const said = new Set();
    for (const panel of panels) {
      const { kept, covered } = panel.set();
      const n = panel.units("to").labels.length;
      if (kept < n) said.add(`Of ${n} weights a row this page keeps the ${kept} strongest, ${Math.round(100 * covered)} % of the attention on average; the others are drawn as none.`);
      if (data.isPart) said.add(`The text is long: the page holds only ${{ raw: "raw", norm: "norm-weighted", effect: "effects of" }[state.weights]} weights between ${state.level}s.`);
      const leftOut = [...new Set(Object.values(panel.about.kinds).flatMap((kind) => kind.leftOut))];
      if (leftOut.length) said.add(`Left out, since the model has no piece of them: ${leftOut.join(", ")}.`);
      if (panel.about.init !== "pretrained") said.add(`The weights of ${panel.about.model} are random.`);
    }
    byId("notice").textContent = [...said].join(" ");
    byId("notice").hidden = !said.size;
  }

  const bind = (id, name, read = (control) => control.value) =>
    byId(id).addEventListener("change", (event) => change({ [name]: read(event.target) }));
  for (const tab of document.querySelectorAll(".tab")) tab.addEventListener("click", () => change({ view: tab.dataset.view }));
  const KINDS = { encoder: "in the source", cross: "target → source", decoder: "in the target" };
  options(byId("kind"), kinds.map((kind) => [kind, KINDS[kind]]), state.kind);
  options(byId("one-head"), [["", "mean of all"], ...heads.map((head) => [head, `H${head}`])], "");
  bind("layer", "layer", (control) => Number(control.value));
  bind("kind", "kind");
  bind("part", "part");
  byId("word").addEventListener("change", (event) => change({ word: Number(event.target.value), kept: true }));
  // The same word from the other side, where it stands there too.
  byId("side").addEventListener("change", (event) => {
    const isThere = viewer.isSquare() && state.part !== "ab" && state.part !== "ba";
    change(isThere ? { side: event.target.value } : { side: event.target.value, word: null, kept: false });
  });
  byId("threshold").addEventListener("input", (event) => change({ threshold: Number(event.target.value) / 100 }));
  bind("one-head", "head", (control) => (control.value ? Number(control.value) : null));
  bind("level", "level");
  bind("weights", "weights");
  bind("specials", "specials");
  bind("gold", "gold", (control) => control.checked);
  bind("common", "common", (control) => control.checked);
  byId("gold-chip").hidden = !hasGold;
  byId("kind-field").hidden = kinds.length < 2;
  byId("part-field").hidden = !isPair;
  byId("predictions").hidden = !byId("predictions").textContent;
  document.querySelector("form.controls").addEventListener("submit", (event) => event.preventDefault());

  // Pointing changes no more than these, many times a second; the choice of a word is there in its own view only.
  const POINTED = new Set(["cell", "word", "side", "panel"]);
  const isPointing = (patch) => state.view !== "word" && Object.keys(patch).every((name) => POINTED.has(name));
  viewer.onChange((patch) => { if (Object.keys(patch).length && !isPointing(patch)) show(patch); });
  viewer.onChange((patch) => { if (["level", "weights", "kind"].some((name) => name in patch)) notices(); });
  document.addEventListener("themechange", chips);
  show();
  notices();
  viewer.stage.redraw();
})();
