// What one can do: choose a layer and colours, search, point, drag, zoom, and all of it with keys.
(async () => {
  "use strict";
  const { data, n, state, kinds, view, paint, words, byId, element, change } = atlas;
  const stage = byId("stage");
  const REACH = 16;
  await atlas.load();
  const lowered = { word: null, text: null };
  const lit = new Uint8Array(n);
  let classes = atlas.classesOf(state.kind);
  let found = [];
  const isLit = (point) => lit[point] === 1;
  const ownValue = atlas.values.word[0];
  atlas.isWhole = atlas.values.word.reduce((sum, value) => sum + (value === ownValue ? 1 : 0), 0) > data.nOfForm;

  /** Which points are found and of a colour that is shown. */
  function filter() {
    const asked = state.search.trim().toLowerCase();
    const by = state.part === "word" ? atlas.values.word : atlas.textOf;
    lowered[state.part] ??= (state.part === "word" ? data.kinds.word : atlas.texts.map((one) => one[0])).map((text) => text.toLowerCase());
    const has = asked === "" ? null : Uint8Array.from(lowered[state.part], (text) => (text.includes(asked) ? 1 : 0));
    const { isThere } = atlas.layout();
    found = [];
    for (let point = 0; point < n; point++) {
      lit[point] = isThere[point] && (has === null || has[by[point]] === 1) && !state.hidden.has(classes.of[point]) ? 1 : 0;
      if (has !== null && lit[point]) found.push(point);
    }
    byId("found").textContent = has === null ? "" : `${found.length.toLocaleString("en")} found`;
    for (const id of ["previous", "next"]) byId(id).hidden = found.length === 0;
    paint.show(classes, lit, has !== null || state.hidden.size > 0);
  }

  /** Go to the next of some points, or the one before, from what is chosen. */
  function go(points, way) {
    if (!points.length) return;
    const at = points.indexOf(state.chosen);
    const point = points[at < 0 ? (way > 0 ? 0 : points.length - 1) : (at + way + points.length) % points.length];
    show(point);
  }

  /** Choose a point and bring it in sight. */
  function show(point) {
    if (view.reveal(point)) paint.redraw();
    change({ chosen: point, hovered: null });
  }
  atlas.show = show;

  function layerTold() {
    const name = `${atlas.layerName(atlas.layer())}${atlas.layer().layer === 0 ? "" : ` of ${data.layers.at(-1).layer}`}`;
    byId("layer-told").textContent = name;
    byId("layer").setAttribute("aria-valuetext", `layer ${name}`);
    byId("layer").value = String(state.layer);
  }

  atlas.onChange((isNew) => {
    if (isNew("kind")) { classes = atlas.classesOf(state.kind); state.hidden = new Set(); }
    if (["kind", "hidden", "layout"].some(isNew)) words.legend(classes);
    if (["kind", "hidden", "search", "part", "layout"].some(isNew)) filter();
    if (isNew("layout")) { view.leave(0, true); view.measure(); view.fit(); }
    if (isNew("layer")) { layerTold(); view.leave(performance.now()); }
    if (isNew("layer") || isNew("layout")) words.about();
    if (isNew("layer") || isNew("kind")) words.fillList(classes);
    if (isNew("chosen") || isNew("layer")) { words.tell(); words.mark(); }
    words.showTip();
    if (["hovered", "chosen"].some(isNew)) paint.remark();
    if (["layer", "layout", "kind"].some(isNew)) paint.redraw();
  });

  byId("layout").replaceChildren(...data.layouts.map(({ name }, number) =>
    element("option", { value: number }, name === "all" ? "all words" : `“${data.word}” alone`)));
  byId("layout").value = String(state.layout);
  byId("layout-field").hidden = data.layouts.length < 2;
  byId("layout").addEventListener("change", (event) => change({ layout: Number(event.target.value), hovered: null }));
  byId("layer").max = String(data.layers.length - 1);
  byId("layer").addEventListener("input", (event) => change({ layer: Number(event.target.value) }));
  byId("kind").replaceChildren(...kinds.map((kind) => element("option", { value: kind }, { word: "word form", tag: "tag", sense: "sense" }[kind])));
  byId("kind").value = state.kind;
  byId("kind").addEventListener("change", (event) => change({ kind: event.target.value }));
  byId("search").addEventListener("input", (event) => change({ search: event.target.value }));
  byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") go(found, event.shiftKey ? -1 : 1); });
  byId("part").addEventListener("change", (event) => change({ part: event.target.value }));
  byId("next").addEventListener("click", () => go(found, 1));
  byId("previous").addEventListener("click", () => go(found, -1));
  document.querySelector("form.controls").addEventListener("submit", (event) => event.preventDefault());
  const moved = (move) => { move(); words.showTip(); paint.redraw(); };
  byId("closer").addEventListener("click", () => moved(() => view.zoomBy(1.5)));
  byId("farther").addEventListener("click", () => moved(() => view.zoomBy(1 / 1.5)));
  byId("fit").addEventListener("click", () => moved(view.fit));

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) moved(() => view.pan(-60 * arrow[0], -60 * arrow[1]));
    else if (arrow) {
      const point = state.chosen === null ? 0 : view.beside(state.chosen, ...arrow, isLit);
      if (point !== null) show(point);
    } else if (event.key === "+" || event.key === "=") moved(() => view.zoomBy(1.5));
    else if (event.key === "-") moved(() => view.zoomBy(1 / 1.5));
    else if (event.key === "0") moved(view.fit);
    else if (event.key === "n" || event.key === "p") go(atlas.layer().near, event.key === "n" ? 1 : -1);
    else if (event.key === "Escape" && state.chosen !== null) change({ chosen: null });
    else return false;
    return true;
  }
  stage.addEventListener("keydown", (event) => { if (key(event)) event.preventDefault(); });

  // Fingers and the mouse: one drags, two zoom; what is hardly moved chooses.
  const held = new Map();
  let far = 0;
  const placeIn = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left - stage.clientLeft, event.clientY - box.top - stage.clientTop];
  };
  const middle = () => [0, 1].map((axis) => [...held.values()].reduce((sum, at) => sum + at[axis], 0) / held.size);
  const spread = () => { const [a, b] = [...held.values()]; return b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0; };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    held.set(event.pointerId, placeIn(event));
    if (held.size === 1) far = 0;
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) {
      const point = event.pointerType === "touch" ? null : view.nearest(...placeIn(event), REACH, isLit);
      stage.classList.toggle("points", point !== null);
      if (point !== state.hovered) change({ hovered: point });
      return;
    }
    const [before, apart] = [middle(), spread()];
    held.set(event.pointerId, placeIn(event));
    const now = middle();
    far += Math.hypot(now[0] - before[0], now[1] - before[1]) + Math.abs(spread() - apart);
    moved(() => {
      view.pan(now[0] - before[0], now[1] - before[1]);
      if (apart > 0) view.zoomBy(spread() / apart, ...now);
    });
  });
  function release(event) {
    const wasOne = held.size === 1 && held.has(event.pointerId);
    held.delete(event.pointerId);
    if (event.type !== "pointerup" || !wasOne || far > 6) return;
    const point = view.nearest(...placeIn(event), event.pointerType === "touch" ? 1.5 * REACH : REACH, isLit);
    change({ chosen: point });
  }
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, release);
  stage.addEventListener("pointerleave", () => { if (state.hovered !== null) change({ hovered: null }); });
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    moved(() => view.zoomBy(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0015)), ...placeIn(event)));
  }, { passive: false });

  byId("notice").remove();
  view.measure();
  paint.resize();
  view.fit();
  view.leave(0, true);
  layerTold();
  words.legend(classes);
  words.fillList(classes);
  words.about();
  words.showTip();
  filter();
  new ResizeObserver(() => { paint.resize(); words.showTip(); }).observe(stage);
  document.addEventListener("themechange", () => { words.legend(classes); words.fillList(classes); });
  document.documentElement.dataset.ready = "yes";
})();
