// The drawing as a file: all of it, or, where it is very long, the part in sight.
(() => {
  "use strict";
  const { state, byId, stage, pens, pictures, colour } = viewer;
  const LONGEST = 6000;
  const MARGIN = 12;

  /** What is to be drawn: the whole, or what is in sight where the whole is too large; without empty margins. */
  function frame() {
    const { width, height } = stage.size();
    const part = width > LONGEST || height > LONGEST ? stage.seen() : { x: 0, y: 0, width, height };
    // A file is whole, however long it takes.
    pictures.begin(Infinity);
    const { pen, box } = pens.measuringPen(colour("--raised"));
    stage.view().draw(pen, part);
    const [left, top] = [Math.max(part.x, box.left) - MARGIN, Math.max(part.y, box.top) - MARGIN];
    const [right, bottom] = [Math.min(part.x + part.width, box.right) + MARGIN, Math.min(part.y + part.height, box.bottom) + MARGIN];
    return { part, x: left, y: top, width: Math.ceil(right - left), height: Math.ceil(bottom - top) };
  }

  function save(content, ending) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = `attention-${state.view}${["heads", "matrix"].includes(state.view) ? `-layer-${state.layer}` : ""}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    byId("saved").textContent = `Saved as ${link.download}`;
  }

  function draw(pen, { part, x, y, width, height }) {
    pen.rect(0, 0, width, height, { fill: colour("--raised") });
    stage.view().draw(pens.shifted(pen, -x, -y), part);
  }

  byId("save-svg").addEventListener("click", () => {
    const pen = pens.svgPen();
    const found = frame();
    draw(pen, found);
    const { width, height } = found;
    save(new Blob([pen.done(width, height)], { type: "image/svg+xml" }), "svg");
  });

  byId("save-png").addEventListener("click", () => {
    const found = frame();
    const picture = Object.assign(document.createElement("canvas"), { width: 2 * found.width, height: 2 * found.height });
    const context = picture.getContext("2d");
    context.scale(2, 2);
    draw(pens.canvasPen(context), found);
    picture.toBlob((content) => save(content, "png"), "image/png");
  });
})();
