// The drawing as a file: all of it, or, where it is very long, the part in sight.
(() => {
  "use strict";
  const { state, byId, stage, pens, pictures, colour } = viewer;
  const LONGEST = 6000;

  /** What is to be drawn: the whole, or what is in sight where the whole is too large. */
  function frame() {
    const { width, height } = stage.size();
    return width > LONGEST || height > LONGEST ? stage.seen() : { x: 0, y: 0, width, height };
  }

  function save(content, ending) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = `attention-${state.view}${state.view === "heads" ? `-layer-${state.layer}` : ""}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    byId("saved").textContent = `Saved as ${link.download}`;
  }

  /** Draw with the origin at the frame's corner. */
  function shifted(pen, { x, y }) {
    const points = (commands) => commands.map(([command, ...at]) => [command, ...at.map((value, i) => value - (i % 2 ? y : x))]);
    const moved = {
      rect: (a, b, ...rest) => pen.rect(a - x, b - y, ...rest),
      path: (commands, look) => pen.path(points(commands), look),
      text: (text, a, b, look) => pen.text(text, a - x, b - y, look),
      image: (picture, a, b, ...rest) => pen.image(picture, a - x, b - y, ...rest),
      curves: (bundle) => pens.strokeCurves(moved, bundle),
    };
    return moved;
  }

  function draw(pen) {
    const part = frame();
    // A file is whole, however long it takes.
    pictures.begin(Infinity);
    pen.rect(0, 0, part.width, part.height, { fill: colour("--raised") });
    stage.view().draw(shifted(pen, part), part);
    return part;
  }

  byId("save-svg").addEventListener("click", () => {
    const pen = pens.svgPen();
    const { width, height } = draw(pen);
    save(new Blob([pen.done(width, height)], { type: "image/svg+xml" }), "svg");
  });

  byId("save-png").addEventListener("click", () => {
    const { width, height } = frame();
    const picture = Object.assign(document.createElement("canvas"), { width: Math.ceil(2 * width), height: Math.ceil(2 * height) });
    const context = picture.getContext("2d");
    context.scale(2, 2);
    draw(pens.canvasPen(context));
    picture.toBlob((content) => save(content, "png"), "image/png");
  });
})();
