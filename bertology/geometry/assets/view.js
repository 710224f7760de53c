// Where points are on the screen: the part of the map in sight, the way from layer to layer, the point at a place.
atlas.view = (() => {
  "use strict";
  const { n, state } = atlas;
  const CELLS = 192;
  const MOVE = 320; // milliseconds from one layer to the next
  const MOST = 400; // times as large as the whole map
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const now = { x: new Float32Array(n), y: new Float32Array(n) };
  const from = { x: new Float32Array(n), y: new Float32Array(n) };
  const centre = { x: 0, y: 0 };
  const size = { width: 1, height: 1 };
  let scale = 1; // pixels for a unit of the map
  let whole = { x: 0, y: 0, width: 2, height: 2 };
  let began = null;
  let grid = null;

  const target = () => atlas.layout().layers[state.layer];
  const fitting = () => Math.min(size.width / whole.width, size.height / whole.height);
  const zoom = () => scale / fitting();

  /** The part of the map that holds all but the farthest of the points of every layer. */
  function measure() {
    const { layers, points } = atlas.layout();
    const range = (axis) => {
      let [low, high] = [Infinity, -Infinity];
      for (const layer of layers) {
        const sorted = Float32Array.from(points, (point) => layer[axis][point]).sort();
        const off = Math.floor(sorted.length / 400);
        const [a, b] = [sorted[off], sorted.at(-1 - off)];
        low = Math.min(low, Math.max(sorted[0], a - 0.25 * (b - a)));
        high = Math.max(high, Math.min(sorted.at(-1), b + 0.25 * (b - a)));
      }
      return [low, Math.max(high - low, 1e-3)];
    };
    const [[x, width], [y, height]] = [range("x"), range("y")];
    whole = { x: x + width / 2, y: y + height / 2, width: width * 1.08, height: height * 1.08 };
  }

  function fit() {
    Object.assign(centre, { x: whole.x, y: whole.y });
    scale = fitting();
  }
  function resize(width, height) {
    const times = zoom();
    Object.assign(size, { width, height });
    scale = fitting() * times;
  }
  const place = (x, y) => [(x - centre.x) * scale + size.width / 2, (y - centre.y) * scale + size.height / 2];
  const placeOf = (point) => place(now.x[point], now.y[point]);
  const back = (left, top) => [(left - size.width / 2) / scale + centre.x, (top - size.height / 2) / scale + centre.y];

  /** Zoom by a factor and leave what is at a place of the screen there. */
  function zoomBy(times, left = size.width / 2, top = size.height / 2) {
    const [x, y] = back(left, top);
    scale = Math.min(Math.max(scale * times, fitting() * 0.4), fitting() * MOST);
    const [after, below] = back(left, top);
    centre.x += x - after;
    centre.y += y - below;
  }
  function pan(right, down) {
    centre.x -= right / scale;
    centre.y -= down / scale;
  }
  /** Move the map so that a point is in sight; whether it had to move. */
  function reveal(point) {
    if (!atlas.layout().isThere[point]) return false;
    const [x, y] = place(target().x[point], target().y[point]);
    const [side, top] = [Math.min(60, size.width / 4), Math.min(60, size.height / 4)];
    const over = (at, margin, length) => Math.min(0, at - margin) + Math.max(0, at - (length - margin));
    const [right, down] = [-over(x, side, size.width), -over(y, top, size.height)];
    pan(right, down);
    return right !== 0 || down !== 0;
  }

  /** Begin the way to the layer that is looked at; be there at once where other points are. */
  function leave(at, isOther = false) {
    for (const axis of ["x", "y"]) from[axis].set(now[axis]);
    began = isOther || still.matches ? null : at;
    if (began === null) arrive();
    grid = null;
  }
  function arrive() {
    began = null;
    for (const axis of ["x", "y"]) now[axis].set(target()[axis]);
  }
  /** Go on with it; whether there is more of the way to go. */
  function step(at) {
    if (began === null) return false;
    const share = (at - began) / MOVE;
    if (share >= 1) { arrive(); return false; }
    const eased = share < 0 ? 0 : 1 - (1 - share) ** 3;
    for (const axis of ["x", "y"]) {
      const [to, here, start] = [target()[axis], now[axis], from[axis]];
      for (let point = 0; point < n; point++) here[point] = start[point] + (to[point] - start[point]) * eased;
    }
    return true;
  }

  const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(((value / atlas.layout().limit + 1) / 2) * CELLS)));
  /** Points of the layer sorted by the square of the map that they are in. */
  function makeGrid() {
    const { x, y } = target();
    const starts = new Uint32Array(CELLS * CELLS + 1);
    const cells = new Uint32Array(n);
    const chosen = atlas.layout().points;
    for (const point of chosen) {
      cells[point] = cell(y[point]) * CELLS + cell(x[point]);
      starts[cells[point] + 1]++;
    }
    for (let at = 0; at < CELLS * CELLS; at++) starts[at + 1] += starts[at];
    const free = starts.slice();
    const points = new Uint32Array(chosen.length);
    for (const point of chosen) points[free[cells[point]]++] = point;
    return { starts, points };
  }

  /** The nearest point that is lit, at most so many pixels from a place of the screen. */
  function nearest(left, top, most, isLit) {
    grid ??= makeGrid();
    const { x, y } = target();
    const [toX, toY] = back(left, top);
    let reach = (most / scale) ** 2;
    let found = null;
    const [firstColumn, lastColumn] = [cell(toX - most / scale), cell(toX + most / scale)];
    for (let row = cell(toY - most / scale); row <= cell(toY + most / scale); row++) {
      for (let at = grid.starts[row * CELLS + firstColumn]; at < grid.starts[row * CELLS + lastColumn + 1]; at++) {
        const point = grid.points[at];
        const away = (x[point] - toX) ** 2 + (y[point] - toY) ** 2;
        // Of two at one place the one that is drawn last, and the query before all.
        if (away <= reach && isLit(point) && !(away === reach && found === 0)) [reach, found] = [away, point];
      }
    }
    return found;
  }

  /** The nearest lit point on one side of a point, no farther across than along. */
  function beside(point, right, down, isLit) {
    const { x, y } = target();
    let reach = Infinity;
    let found = null;
    for (let other = 0; other < n; other++) {
      const along = (x[other] - x[point]) * right + (y[other] - y[point]) * down;
      const across = Math.abs((x[other] - x[point]) * down) + Math.abs((y[other] - y[point]) * right);
      if (other === point || along <= 0 || across > along || !isLit(other)) continue;
      const away = along + 2 * across;
      if (away < reach) [reach, found] = [away, other];
    }
    return found;
  }

  return { now, size, measure, fit, resize, placeOf, zoom, zoomBy, pan, reveal, leave, step, nearest, beside, centre, scale: () => scale };
})();
