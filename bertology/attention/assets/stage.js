// The drawing: as large as what is drawn, of which the part in sight is painted.
viewer.stage = (() => {
  "use strict";
  const { state, panels, views, byId, colour, element, pictures, tiles } = viewer;
  const [stage, space, canvas, readout] = ["stage", "space", "canvas", "readout"].map(byId);
  const context = canvas.getContext("2d");
  let size = { width: 0, height: 0 };
  // Of what is in sight, the part across in which anything is drawn: every dot of a canvas takes time, drawn on or not.
  let across = { from: 0, width: 0 };
  let isDue = false;
  let isMeasured = false;
  let isNew = true;
  // Nothing has changed since the last frame, but it had no time to paint all lines.
  let isMore = false;
  let hasLines = false;
  let way = 1;
  // Of a frame of sixteen milliseconds, what is left when all else of it is drawn, less for a large canvas.
  const FOR_PICTURES = 7.5;
  const A_MILLION_DOTS = 1.5;
  const FOR_MORE = 9;
  const AHEAD = 192;

  const view = () => views[state.view];

  function fit() {
    const room = stage.clientWidth || stage.getBoundingClientRect().width;
    size = view().measure(room);
    const most = Math.max(360, Math.min(innerHeight * 0.78, 900));
    stage.style.height = `${Math.min(size.height, most) + (size.width > room ? 16 : 2)}px`;
    space.style.width = `${Math.max(size.width, 1)}px`;
    space.style.height = `${size.height}px`;
    const height = stage.clientHeight;
    across = acrossOf(stage.clientWidth, size);
    const { width } = across;
    canvas.style.marginLeft = `${across.from}px`;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const dots = [width, height].map((side) => Math.round(side * ratio()));
    // Setting a size empties the canvas and takes new memory for it, even if it had that size.
    if (canvas.width !== dots[0] || canvas.height !== dots[1]) [canvas.width, canvas.height] = dots;
    isMeasured = true;
    if (isNew) scrollTo(view().focus());
    isNew = false;
  }

  /** All of it where there is more than is in sight. */
  function acrossOf(room, { width, left = 0, right = room }) {
    if (width > room) return { from: 0, width: room };
    const from = Math.max(0, Math.floor(left));
    return { from, width: Math.min(room, Math.ceil(right)) - from };
  }

  const ratio = () => devicePixelRatio || 1;
  const seen = () => ({ x: stage.scrollLeft + across.from, y: stage.scrollTop, width: across.width, height: stage.clientHeight });

  function paint() {
    isDue = false;
    if (isMore && isMeasured) return paintMore();
    if (!isMeasured) fit();
    const part = seen();
    context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = colour("--raised");
    context.fillRect(0, 0, part.width, part.height);
    context.translate(-part.x, -part.y);
    pictures.begin(Math.max(2, FOR_PICTURES - (A_MILLION_DOTS * canvas.width * canvas.height) / 1e6));
    hasLines = false;
    const curves = (bundle) => { hasLines = true; tiles.lay(context, bundle, part, ratio()); };
    const kept = (name, box, draw) => layKept(name, box, draw, part);
    view().draw({ ...viewer.pens.canvasPen(context), curves, kept, apart }, part);
    say();
    for (const { own, maps } of panels) {
      for (const layer of own[state.view].needs()) if (!maps.ready(layer)) return void maps.load(layer).then(() => redraw());
    }
    end();
  }

  /** Draw within a box alone, and leave nothing behind that binds what is drawn next. */
  function apart(draw, { x, y, width, height }) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    draw();
    context.restore();
  }

  /** Draw what is in a box, or lay it as it was drawn before. */
  function layKept(name, { x, y, width, height }, draw, part) {
    const dots = ratio();
    const picture = pictures.get(`${name} ${dots} ${document.documentElement.dataset.theme}`, () => {
      const made = Object.assign(document.createElement("canvas"), { width: Math.ceil(width * dots), height: Math.ceil(height * dots) });
      const own = made.getContext("2d");
      own.setTransform(dots, 0, 0, dots, -x * dots, -y * dots);
      draw(viewer.pens.canvasPen(own));
      return { canvas: made };
    });
    if (!picture) return;
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    Object.assign(context, { globalAlpha: 1, imageSmoothingEnabled: false });
    context.drawImage(picture.canvas, Math.round((x - part.x) * dots), Math.round((y - part.y) * dots));
    context.restore();
  }

  /** Lay what is painted only now beside what has been laid. */
  function paintMore() {
    const part = seen();
    pictures.begin(FOR_MORE);
    context.save();
    const curves = (bundle) => tiles.lay(context, bundle, part, ratio(), true);
    view().draw({ ...viewer.pens.canvasPen(context), curves, apart }, part, true);
    context.restore();
    end();
  }

  function end() {
    if (!pictures.isWhole()) {
      redraw();
      isMore = hasLines;
      return;
    }
    document.documentElement.dataset.drawn = state.view;
    idle((left) => prepare([way, 2 * way, -way], left));
  }

  const idle = (job) => (window.requestIdleCallback ? requestIdleCallback((time) => job(time.timeRemaining())) : setTimeout(job, 40, FOR_PICTURES));
  const nothing = () => {};

  /** Make the pictures that will be wanted if one scrolls on, while there is nothing else to do. */
  function prepare(steps, left) {
    if (isDue || !isMeasured || !steps.length || !pictures.hasRoom()) return;
    const part = seen();
    part.y = Math.max(0, Math.min(size.height - part.height, part.y + steps[0] * AHEAD));
    pictures.begin(Math.min(left, FOR_PICTURES));
    view().draw({ rect: nothing, path: nothing, text: nothing, image: nothing, kept: nothing, curves: (bundle) => tiles.lay(null, bundle, part, ratio()) }, part);
    const still = pictures.isWhole() ? steps.slice(1) : steps;
    idle((next) => prepare(still, next));
  }

  const classes = { strong: "b", plain: "span", quiet: "span", break: "br" };
  let said = "";
  function say() {
    const parts = view().says();
    const hint = view().hint();
    const now = JSON.stringify([parts, hint]);
    // Nothing is laid out anew where nothing else is said.
    if (now === said) return;
    said = now;
    readout.replaceChildren(...parts.map(([kind, text]) => element(classes[kind], { class: kind === "quiet" ? "quiet-text" : null }, text)));
    byId("hint").textContent = hint;
  }

  /** Paint with the next frame, and measure first where the size may have changed. */
  function redraw({ measure = false } = {}) {
    if (measure) isMeasured = false;
    isMore = false;
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
  let last = 0;
  stage.addEventListener("scroll", () => {
    if (stage.scrollTop !== last) way = Math.sign(stage.scrollTop - last);
    last = stage.scrollTop;
    redraw();
  }, { passive: true });
  document.addEventListener("themechange", () => redraw());
  new ResizeObserver(() => redraw({ measure: true })).observe(document.querySelector("figure"));

  // Pointing changes what is drawn, not how large it is.
  const SAME_SIZE = new Set(["word", "side", "panel", "kept", "cell", "common", "threshold", "search"]);
  viewer.onChange((patch) => {
    if ("view" in patch) { stage.scrollTop = stage.scrollLeft = 0; before = ""; isNew = true; }
    // One word's view has other words across where the side changes.
    const isOther = "side" in patch && state.view === "word";
    redraw({ measure: isOther || Object.keys(patch).some((name) => !SAME_SIZE.has(name)) });
  });

  /** Scroll to what is chosen. */
  const reveal = () => scrollTo(view().focus());

  return { redraw, reveal, view, size: () => size, seen };
})();
