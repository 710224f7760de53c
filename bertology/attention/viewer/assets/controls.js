// What is chosen above the drawing.
(() => {
  "use strict";
  const { data, state, heads, hasGold, change, byId, element, headColour, headsOf } = viewer;

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
    select.value = String(chosen);
  }

  /** What is not in the page cannot be chosen. */
  function offer(select, name) {
    for (const option of select.options) {
      const key = name === "level" ? `${option.value}-${state.weights}` : `${state.level}-${option.value}`;
      option.disabled = !data.sets[key];
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
    byId("head-chips").replaceChildren(...headsOf(state.layer).map(chip), all, none);
  }

  function show(patch = null) {
    for (const tab of document.querySelectorAll(".tab")) tab.setAttribute("aria-pressed", String(tab.dataset.view === state.view));
    for (const part of document.querySelectorAll("[data-for]")) part.hidden = part.dataset.for !== state.view;
    byId("stage").setAttribute("aria-label", viewer.views[state.view].label);
    byId("layer").value = String(state.layer);
    offer(byId("level"), "level");
    offer(byId("weights"), "weights");
    if (patch === null || "level" in patch || "specials" in patch || "view" in patch) {
      const { labels } = viewer.units();
      options(byId("word"), viewer.shown().map((place) => [place, `${labels[place]}`]), state.word ?? "");
    }
    byId("word").value = String(state.word ?? viewer.shown().find((place) => !viewer.units().special[place]) ?? "");
    byId("side").value = state.side;
    if (patch === null || "heads" in patch || "layer" in patch || "view" in patch) chips();
  }

  function notices() {
    const said = [];
    const { kept, covered } = viewer.set();
    const n = viewer.units().labels.length;
    if (kept < n) said.push(`Of ${n} weights a row this page keeps the ${kept} strongest, ${Math.round(100 * covered)} % of the attention on average; the others are drawn as none.`);
    if (data.isPart) said.push(`The text is long: the page holds only ${state.weights === "norm" ? "norm-weighted" : "raw"} weights between ${state.level}s.`);
    if (data.leftOut.length) said.push(`Left out, since the model has no piece of them: ${data.leftOut.join(", ")}.`);
    if (data.init !== "pretrained") said.push("The model's weights are random.");
    byId("notice").textContent = said.join(" ");
    byId("notice").hidden = !said.length;
  }

  const bind = (id, name, read = (control) => control.value) =>
    byId(id).addEventListener("change", (event) => change({ [name]: read(event.target) }));
  for (const tab of document.querySelectorAll(".tab")) tab.addEventListener("click", () => change({ view: tab.dataset.view }));
  options(byId("layer"), data.layers.map(({ layer }) => [layer, layer]), state.layer);
  options(byId("one-head"), [["", "mean of all"], ...heads.map((head) => [head, `H${head}`])], "");
  bind("layer", "layer", (control) => Number(control.value));
  bind("word", "word", (control) => Number(control.value));
  bind("side", "side");
  bind("one-head", "head", (control) => (control.value ? Number(control.value) : null));
  bind("level", "level");
  bind("weights", "weights");
  bind("specials", "specials");
  bind("gold", "gold", (control) => control.checked);
  bind("common", "common", (control) => control.checked);
  byId("gold").checked = state.gold;
  byId("gold-chip").hidden = !hasGold;
  document.querySelector("form.controls").addEventListener("submit", (event) => event.preventDefault());

  // Pointing changes no more than these, many times a second; the choice of a word is there in its own view only.
  const POINTED = new Set(["cell", "word", "side"]);
  const isPointing = (patch) => state.view !== "word" && Object.keys(patch).every((name) => POINTED.has(name));
  viewer.onChange((patch) => { if (Object.keys(patch).length && !isPointing(patch)) show(patch); });
  document.addEventListener("themechange", chips);
  show();
  notices();
  viewer.stage.redraw();
})();
