// The drawing: as large as what is drawn, of which the part in sight is painted.
viewer.stage = (() => {
  "use strict";
  const { state, maps, views, byId, colour, element } = viewer;
  const [stage, space, canvas, readout] = ["stage", "space", "canvas", "readout"].map(byId);
  const context = canvas.getContext("2d");
  let size = { width: 0, height: 0 };
  let isDue = false;
  let isMeasured = false;
  let isNew = true;

  const view = () => views[state.view];

  function fit() {
    const room = stage.clientWidth || stage.getBoundingClientRect().width;
    size = view().measure(room);
    const most = Math.max(360, Math.min(innerHeight * 0.78, 900));
    stage.style.height = `${Math.min(size.height, most) + (size.width > room ? 16 : 2)}px`;
    space.style.width = `${Math.max(size.width, 1)}px`;
    space.style.height = `${size.height}px`;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [stage.clientWidth, stage.clientHeight];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    isMeasured = true;
    if (isNew) scrollTo(view().focus());
    isNew = false;
  }

  function paint() {
    isDue = false;
    if (!isMeasured) fit();
    const ratio = devicePixelRatio || 1;
    const seen = { x: stage.scrollLeft, y: stage.scrollTop, width: stage.clientWidth, height: stage.clientHeight };
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = colour("--raised");
    context.fillRect(0, 0, seen.width, seen.height);
    context.translate(-seen.x, -seen.y);
    view().draw(viewer.pens.canvasPen(context), seen);
    say();
    for (const layer of view().needs()) if (!maps.ready(layer)) return void maps.load(layer).then(() => redraw());
    document.documentElement.dataset.drawn = state.view;
  }

  function say() {
    const classes = { strong: "b", plain: "span", quiet: "span" };
    readout.replaceChildren(...view().says().map(([kind, text]) => element(classes[kind], { class: kind === "quiet" ? "quiet-text" : null }, text)));
    byId("hint").textContent = view().hint();
  }

  /** Paint with the next frame, and measure first where the size may have changed. */
  function redraw({ measure = false } = {}) {
    if (measure) isMeasured = false;
    if (isDue) return;
    isDue = true;
    delete document.documentElement.dataset.drawn;
    requestAnimationFrame(paint);
  }

  function place(event) {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left - stage.clientLeft + stage.scrollLeft, event.clientY - box.top - stage.clientTop + stage.scrollTop];
  }

  let before = "";
  function point(event) {
    const found = event ? view().hit(...place(event)) : null;
    stage.classList.toggle("points", found !== null);
    const key = JSON.stringify(found);
    if (key === before) return;
    before = key;
    view().hover(found);
  }

  function scrollTo(box) {
    if (!box) return;
    if (box.y < stage.scrollTop) stage.scrollTop = box.y;
    else if (box.y + box.height > stage.scrollTop + stage.clientHeight) stage.scrollTop = box.y + box.height - stage.clientHeight;
    if (box.x < stage.scrollLeft) stage.scrollLeft = box.x;
    else if (box.x + box.width > stage.scrollLeft + stage.clientWidth) stage.scrollLeft = box.x + box.width - stage.clientWidth;
  }

  stage.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event); });
  stage.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") point(null); });
  stage.addEventListener("click", (event) => {
    const found = view().hit(...place(event));
    before = "";
    if (found) view().choose(found);
  });
  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !view().key(event.key)) return;
    event.preventDefault();
    scrollTo(view().focus());
  });
  stage.addEventListener("scroll", () => redraw(), { passive: true });
  document.addEventListener("themechange", () => redraw());
  new ResizeObserver(() => redraw({ measure: true })).observe(document.querySelector("figure"));

  // Pointing changes what is drawn, not how large it is.
  const SAME_SIZE = new Set(["word", "side", "cell", "common"]);
  viewer.onChange((patch) => {
    if ("view" in patch) { stage.scrollTop = stage.scrollLeft = 0; before = ""; isNew = true; }
    redraw({ measure: Object.keys(patch).some((name) => !SAME_SIZE.has(name)) });
  });

  return { redraw, view, size: () => size, seen: () => ({ x: stage.scrollLeft, y: stage.scrollTop, width: stage.clientWidth, height: stage.clientHeight }) };
})();
