// The drawing: points are blended into the bytes of a picture, marks are drawn over it.
atlas.paint = (() => {
  "use strict";
  const { n, state, view, byId, colour, classColour, OTHER } = atlas;
  const [stage, canvas] = ["stage", "canvas"].map(byId);
  const context = canvas.getContext("2d", { alpha: false });
  const STEPS = 4; // places of a point within a pixel, each way
  const MOST_DOTS = 3e6;
  let picture = null;
  let pixels = null;
  let dots = 1; // pixels of the canvas for one of the page
  let isDue = false;
  let classes = null;
  let order = [];
  let lit = new Uint8Array(n).fill(1);
  let isFiltered = false;
  const stamps = new Map();

  /** What an anti-aliased disc covers of the pixels around it, for each place of its centre within one. */
  function stampsOf(radius) {
    const key = Math.round(radius * 8);
    if (stamps.has(key)) return stamps.get(key);
    const reach = Math.ceil(radius + 1);
    const made = [];
    for (let part = 0; part < STEPS * STEPS; part++) {
      const [offX, offY] = [((part % STEPS) + 0.5) / STEPS, (Math.floor(part / STEPS) + 0.5) / STEPS];
      const stamp = { x: [], y: [], share: [] };
      for (let y = -reach; y <= reach; y++) {
        for (let x = -reach; x <= reach; x++) {
          const share = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(x + 0.5 - offX, y + 0.5 - offY)));
          if (share > 0.02) { stamp.x.push(x); stamp.y.push(y); stamp.share.push(Math.round(share * 256)); }
        }
      }
      made.push({ x: Int32Array.from(stamp.x), y: Int32Array.from(stamp.y), share: Int32Array.from(stamp.share) });
    }
    stamps.clear();
    stamps.set(key, { made, reach });
    return stamps.get(key);
  }

  const rgb = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

  /** Blend points into the picture; of those in sight alone, each as strong as `share` of 256. */
  function blend(chosen, colourOf, share, radius) {
    const { made, reach } = stampsOf(radius);
    const { x, y } = view.now;
    const [width, height] = [canvas.width, canvas.height];
    const scale = view.scale() * dots;
    const [left, top] = [width / 2 - view.centre.x * scale, height / 2 - view.centre.y * scale];
    const strengths = made.map((stamp) => stamp.share.map((part) => (part * share) >> 8));
    const offsets = made.map((stamp) => stamp.x.map((across, at) => stamp.y[at] * width + across));
    for (let number = 0; number < chosen.length; number++) {
      const point = chosen[number];
      const toX = x[point] * scale + left;
      const toY = y[point] * scale + top;
      if (!(toX >= reach && toY >= reach && toX < width - reach - 1 && toY < height - reach - 1)) continue;
      const [column, row] = [toX | 0, toY | 0];
      const part = (((toY - row) * STEPS) | 0) * STEPS + (((toX - column) * STEPS) | 0);
      const strength = strengths[part];
      const offset = offsets[part];
      const start = row * width + column;
      const fill = colourOf[point];
      const [redBlue, green] = [fill & 0xff00ff, fill & 0xff00];
      for (let at = 0; at < offset.length; at++) {
        const over = strength[at];
        const place = start + offset[at];
        const under = pixels[place];
        const mixed = ((Math.imul(under & 0xff00ff, 256 - over) + Math.imul(redBlue, over)) >>> 8) & 0xff00ff;
        pixels[place] = 0xff000000 | mixed | (((Math.imul(under & 0xff00, 256 - over) + Math.imul(green, over)) >>> 8) & 0xff00);
      }
    }
  }

  let fills = null;
  let parted = null;
  const greys = new Uint32Array(n);
  /** Colours of points, and those of them that are lit. */
  function prepare() {
    const palette = Array.from({ length: OTHER + 1 }, (_, number) => packed(rgb(classColour(number))));
    greys.fill(packed(rgb(colour("--rule"))));
    fills = Uint32Array.from(classes.of, (number) => palette[number]);
    const forms = atlas.values.word;
    const [dim, bright, same] = [[], [], []];
    const { isThere } = atlas.layout();
    for (const point of order) if (isThere[point]) (!lit[point] ? dim : forms[point] === forms[0] ? same : bright).push(point);
    // Rare classes upon frequent ones.
    same.sort((a, b) => classes.counts[classes.of[b]] - classes.counts[classes.of[a]]);
    parted = { dim: Uint32Array.from(dim), bright: Uint32Array.from(bright), same: Uint32Array.from(same) };
  }

  /** Those without a colour are drawn first; the others mixed, so that no class covers another, yet always alike. */
  function arrange() {
    const mixed = new Uint32Array(n);
    let step = Math.max(1, Math.round(n * 0.618));
    const common = (a, b) => (b ? common(b, a % b) : a);
    while (common(step, n) !== 1) step++;
    for (let number = 0, point = 0; number < n; number++, point = (point + step) % n) mixed[number] = point;
    const isOther = (point) => classes.of[point] === OTHER;
    order = [...mixed.filter(isOther), ...mixed.filter((point) => !isOther(point))];
  }

  const radiusOf = (length) => {
    const room = Math.sqrt((view.size.width * view.size.height) / Math.max(1, length));
    return Math.min(4.5, Math.max(1.05, room * 0.3) * Math.min(4, view.zoom() ** 0.4));
  };

  function paint(at) {
    isDue = false;
    if (!classes) return;
    const isMoving = view.step(at);
    if (fills === null) prepare();
    pixels.fill(packed(rgb(colour("--raised"))));
    const radius = radiusOf(atlas.layout().points.length) * dots;
    if (parted.dim.length) blend(parted.dim, greys, 110, radius);
    const nBright = parted.bright.length + parted.same.length;
    const larger = isFiltered ? Math.max(radius, 0.6 * dots * radiusOf(nBright)) : radius;
    blend(parted.bright, fills, isFiltered ? 235 : 190, larger);
    // Occurrences of the word itself stand out among those of others.
    const isAlone = parted.bright.length + parted.dim.length === 0;
    blend(parted.same, fills, 235, isAlone ? larger : Math.max(larger, 2.4 * dots));
    context.putImageData(picture, 0, 0);
    context.setTransform(dots, 0, 0, dots, 0, 0);
    marks();
    if (isMoving) redraw();
    else document.documentElement.dataset.drawn = String(state.layer);
  }

  function disc(point, radius, fill, edge, width = 2) {
    const [x, y] = view.placeOf(point);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    if (fill) { context.fillStyle = fill; context.fill(); }
    if (edge) { context.lineWidth = width; context.strokeStyle = edge; context.stroke(); }
  }

  /** Write beside a point, on the first side of it where nothing is written yet. */
  function label(text, point, away, taken, weight = 600) {
    const [toX, toY] = view.placeOf(point);
    context.font = `${weight} 12px system-ui, sans-serif`;
    const width = context.measureText(text).width;
    const sides = [[away, 0], [-away - width, 0], [-width / 2, -away - 6], [-width / 2, away + 6]];
    const isFree = ([right, down]) => !taken.some((box) => Math.abs(toX + right + width / 2 - box.x) < (width + box.width) / 2 && Math.abs(toY + down - box.y) < 13);
    const side = sides.find(isFree);
    if (!side) return;
    const [x, y] = [toX + side[0], toY + side[1]];
    taken.push({ x: x + width / 2, y, width });
    context.textBaseline = "middle";
    context.lineWidth = 3.5;
    context.lineJoin = "round";
    context.strokeStyle = colour("--raised");
    context.strokeText(text, x, y);
    context.fillStyle = colour("--text");
    context.fillText(text, x, y);
  }

  /** The neighbours with their ranks, the query, and what is pointed at. */
  function marks() {
    const { near } = atlas.layer();
    const size = Math.max(4.5, radiusOf(atlas.layout().points.length) + 2);
    const { isThere } = atlas.layout();
    for (const point of near.toReversed()) disc(point, size, classColour(classes.of[point]), colour("--text"), 1.75);
    star(0, size + 5);
    const [x, y] = view.placeOf(0);
    const taken = [{ x, y, width: 16 }];
    label(atlas.word(0), 0, size + 9, taken, 700);
    if (near.length <= 20) near.forEach((point, rank) => isThere[point] && label(String(rank + 1), point, size + 4, taken));
    for (const [point, width] of [[state.hovered, 2], [state.chosen, 3]]) {
      if (point !== null) disc(point, size + 5, null, colour("--accent"), width);
    }
  }

  function star(point, size) {
    const [x, y] = view.placeOf(point);
    context.beginPath();
    for (let corner = 0; corner < 10; corner++) {
      const [length, angle] = [corner % 2 ? size * 0.45 : size, (corner * Math.PI) / 5 - Math.PI / 2];
      context.lineTo(x + length * Math.cos(angle), y + length * Math.sin(angle));
    }
    context.closePath();
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = colour("--raised");
    context.stroke();
    context.fillStyle = colour("--star");
    context.fill();
  }

  /** Paint with the next frame. */
  function redraw() {
    if (isDue) return;
    isDue = true;
    delete document.documentElement.dataset.drawn;
    requestAnimationFrame(paint);
  }

  function resize() {
    const [width, height] = [stage.clientWidth, stage.clientHeight];
    if (!width || !height) return;
    dots = Math.min(devicePixelRatio || 1, Math.sqrt(MOST_DOTS / (width * height)));
    const [across, down] = [width, height].map((side) => Math.round(side * dots));
    if (canvas.width !== across || canvas.height !== down || picture === null) {
      [canvas.width, canvas.height] = [across, down];
      picture = context.createImageData(across, down);
      pixels = new Uint32Array(picture.data.buffer);
    }
    view.resize(width, height);
    redraw();
  }

  /** Colour points by their classes, and dim those that are not lit. */
  function show(newClasses, newLit, filtered) {
    if (newClasses !== classes) { classes = newClasses; arrange(); }
    [lit, isFiltered, fills] = [newLit, filtered, null];
    redraw();
  }

  document.addEventListener("themechange", () => { fills = null; redraw(); });
  return { redraw, resize, show };
})();
