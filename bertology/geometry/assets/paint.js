// The drawing: points are blended into the bytes of a picture, marks are drawn over it.
atlas.paint = (() => {
  "use strict";
  const { n, state, view, byId, colour, classColour, OTHER } = atlas;
  const [stage, canvas] = ["stage", "canvas"].map(byId);
  const context = canvas.getContext("2d", { alpha: false });
  const STEPS = 4; // places of a point within a pixel, each way
  const MOST_DOTS = 3e6;
  const REST = 90; // milliseconds after which the map is taken to rest
  let picture = null;
  let pixels = null;
  let dots = 1; // pixels of the canvas for one of the page
  let isDue = false;
  let isStale = true;
  let classes = null;
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
    if (stamps.size > 12) stamps.clear();
    stamps.set(key, { made, reach });
    return stamps.get(key);
  }

  const rgb = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red);

  /** What the stamps add of each colour: red and blue, green, and what they leave of what is below, in 256ths. */
  function inks({ made }, palette, share) {
    const length = Math.max(...made.map((stamp) => stamp.x.length));
    const size = made.length * length;
    const [redBlue, green] = [0, 1].map(() => new Int32Array(palette.length * size));
    const left = new Int32Array(size).fill(256);
    made.forEach((stamp, part) => stamp.share.forEach((cover, at) => {
      const over = (cover * share) >> 8;
      left[part * length + at] = 256 - over;
      palette.forEach((colour, number) => {
        redBlue[number * size + part * length + at] = Math.imul(colour & 0xff00ff, over);
        green[number * size + part * length + at] = Math.imul(colour & 0xff00, over);
      });
    }));
    return { length, size, redBlue, green, left };
  }

  /** Blend the first points of a list into the picture, those in sight alone, each as strong as `share` of 256. */
  function blend(chosen, length, palette, colourOf, share, radius) {
    const stamps = stampsOf(radius);
    const ink = inks(stamps, palette, share);
    const { redBlue, green, left } = ink;
    const { x, y } = view.now;
    const { width, height } = canvas;
    const scale = view.scale() * dots;
    const right = width / 2 - view.centre.x * scale;
    const down = height / 2 - view.centre.y * scale;
    const least = stamps.reach;
    const [most, lowest] = [width - least - 1, height - least - 1];
    const offsets = stamps.made.map((stamp) => stamp.x.map((across, at) => stamp.y[at] * width + across));
    // Millions of times a second: nothing is made in here.
    for (let number = 0; number < length; number++) {
      const point = chosen[number];
      const toX = x[point] * scale + right;
      const toY = y[point] * scale + down;
      if (!(toX >= least && toY >= least && toX < most && toY < lowest)) continue;
      const column = toX | 0;
      const row = toY | 0;
      const part = (((toY - row) * STEPS) | 0) * STEPS + (((toX - column) * STEPS) | 0);
      const offset = offsets[part];
      const start = row * width + column;
      const under = part * ink.length;
      const over = colourOf[point] * ink.size + under;
      for (let at = 0; at < offset.length; at++) {
        const place = start + offset[at];
        const before = pixels[place];
        const share = left[under + at];
        pixels[place] = 0xff000000
          | (((Math.imul(before & 0xff00ff, share) + redBlue[over + at]) >>> 8) & 0xff00ff)
          | (((Math.imul(before & 0xff00, share) + green[over + at]) >>> 8) & 0xff00);
      }
    }
  }

  let lists = null;
  const none = new Uint8Array(n);
  /** Points by how they are drawn: dimmed, without a colour, with one, and of the word's own form. */
  function prepare() {
    const forms = atlas.values.word;
    const { isThere } = atlas.layout();
    const kindOf = (point) => (!lit[point] ? 0 : forms[point] === forms[0] ? 3 : classes.of[point] === OTHER ? 1 : 2);
    lists = [0, 1, 2, 3].map(() => new Uint32Array(n));
    const lengths = [0, 0, 0, 0];
    for (const point of order) {
      if (!isThere[point]) continue;
      const kind = kindOf(point);
      lists[kind][lengths[kind]++] = point;
    }
    lists = lists.map((list, kind) => list.subarray(0, lengths[kind]));
    // Rare classes upon frequent ones.
    lists[3].sort((a, b) => classes.counts[classes.of[b]] - classes.counts[classes.of[a]]);
  }

  /** Points mixed, so that no class covers another and the first of them are a sample, yet always alike. */
  const order = (() => {
    const common = (a, b) => (b ? common(b, a % b) : a);
    let step = Math.max(1, Math.round(n * 0.618));
    while (common(step, n) !== 1) step++;
    const mixed = new Uint32Array(n);
    for (let number = 0, point = 0; number < n; number++, point = (point + step) % n) mixed[number] = point;
    return mixed;
  })();

  const radiusOf = (length) => {
    const room = Math.sqrt((view.size.width * view.size.height) / Math.max(1, length));
    return Math.min(4.5, Math.max(1.05, room * 0.3) * Math.min(4, view.zoom() ** 0.4));
  };

  // While the map moves, a frame draws no more points than it has time for; once it rests, all of them.
  const BUDGET = 6;
  let cost = 0; // milliseconds a point
  function points(isMoving) {
    const total = lists[0].length + lists[1].length + lists[2].length;
    const part = isMoving && cost * total > BUDGET ? BUDGET / (cost * total) : 1;
    const length = (list) => Math.ceil(part * list.length);
    const palette = Array.from({ length: OTHER + 1 }, (_, number) => packed(rgb(classColour(number))));
    const [dim, plain, bright, same] = lists;
    const nLit = plain.length + bright.length + same.length;
    const radius = radiusOf(total + same.length) * dots;
    const larger = isFiltered ? Math.max(radius, 0.6 * dots * radiusOf(nLit)) : radius;
    const share = isFiltered ? 235 : 190;
    const began = performance.now();
    pixels.fill(packed(rgb(colour("--raised"))));
    blend(dim, length(dim), [packed(rgb(colour("--rule")))], none, 110, radius);
    for (const list of [plain, bright]) blend(list, length(list), palette, classes.of, share, larger);
    if (total) cost = (performance.now() - began) / (part * total);
    // Occurrences of the word itself stand out among those of others.
    blend(same, same.length, palette, classes.of, 235, total ? Math.max(larger, 2.4 * dots) : larger);
    return part === 1;
  }

  let last = -Infinity;
  let resting = 0;
  function paint(at) {
    isDue = false;
    if (!classes) return;
    const isOnTheWay = view.step(at);
    if (lists === null) prepare();
    const isWhole = isStale ? points(isOnTheWay || at - last < REST) : true;
    if (isStale) last = at;
    isStale = isOnTheWay;
    context.putImageData(picture, 0, 0);
    context.setTransform(dots, 0, 0, dots, 0, 0);
    marks();
    if (isOnTheWay) remark();
    else if (!isWhole) {
      clearTimeout(resting);
      resting = setTimeout(redraw, REST + 20);
    }
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

  /** Paint points and marks with the next frame. */
  function redraw() {
    isStale = true;
    remark();
  }

  /** Paint marks with the next frame, over the points as they are. */
  function remark() {
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
      pixels = new Int32Array(picture.data.buffer);
    }
    view.resize(width, height);
    redraw();
  }

  /** Colour points by their classes, and dim those that are not lit. */
  function show(newClasses, newLit, filtered) {
    [classes, lit, isFiltered, lists] = [newClasses, newLit, filtered, null];
    redraw();
  }

  document.addEventListener("themechange", redraw);
  return { redraw, remark, resize, show };
})();
