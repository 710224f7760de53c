// Lines from column to column, painted into pixels. All have one shape: an S, stretched to the height between its ends.
// So a line is one span of pixels in each column of pixels, which is quicker than a stroke of any shape, and takes the
// same time with and without a graphics card, so that one can stop in time.
viewer.strokes = (() => {
  "use strict";
  const FINE = 65536;
  let shape = { key: "" };

  /** How far down an S is at each edge of a pixel's column (0 to 1), and how much of each column it covers. */
  function shapeOf(width, start, end) {
    const key = `${width} ${start} ${end}`;
    if (shape.key === key) return shape;
    const at = (x) => fall(Math.min(1, Math.max(0, (x - start) / (end - start))));
    const edges = Float64Array.from({ length: width + 1 }, (_, x) => at(x));
    const share = Float64Array.from({ length: width }, (_, x) => Math.max(0, Math.min(x + 1, end) - Math.max(x, start)));
    shape = { key, edges, share };
    return shape;
  }

  /** The height of the Bézier curve (0, 0), (½, 0), (½, 1), (1, 1) at a place of its width. */
  function fall(x) {
    let [low, high] = [0, 1];
    for (let i = 0; i < 40; i++) {
      const t = (low + high) / 2;
      if (1.5 * t * (1 - t) + t * t * t < x) low = t; else high = t;
    }
    return low * low * (3 - 2 * low);
  }

  /**
   * Paint lines onto a tile whose pixels are a row after another, red in the lowest byte.
   * All is measured in pixels: `from` and `to` are heights from the tile's top, `start` and `end` those of all lines.
   * What is told is the part in which there may be something, or null if there is nothing.
   */
  function paint(pixels, { width, height, start, end }, lines) {
    const { edges, share } = shapeOf(width, start, end);
    const part = { left: width, top: height, right: 0, bottom: 0 };
    for (const line of lines) {
      const reach = line.thick + 1;
      const [top, bottom] = line.from < line.to ? [line.from - reach, line.to + reach] : [line.to - reach, line.from + reach];
      if (bottom < 0 || top > height) continue;
      const [low, high] = columns(edges, line, reach, height);
      if (low >= high) continue;
      paintLine(pixels, width, height, edges, share, line, low, high);
      part.left = Math.min(part.left, low);
      part.right = Math.max(part.right, high);
      part.top = Math.max(0, Math.min(part.top, Math.floor(top)));
      part.bottom = Math.min(height, Math.max(part.bottom, Math.ceil(bottom)));
    }
    return part.left < part.right ? part : null;
  }

  /** The columns in which a line may be between the tile's top and its bottom: from the first to before the last. */
  function columns(edges, { from, to }, reach, height) {
    const tall = to - from;
    const n = edges.length - 1;
    if (Math.abs(tall) < 1e-6) return [0, n];
    const [a, b] = [(-reach - from) / tall, (height + reach - from) / tall].sort((one, other) => one - other);
    // A steep line is as broad as it is thick, so that some of it is in the columns on both sides.
    const beside = Math.ceil(reach / 2) + 1;
    return [Math.max(0, before(edges, a) - beside), Math.min(n, before(edges, b) + beside)];
  }

  /** How many edges are below a height. */
  function before(edges, height) {
    let [low, high] = [0, edges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (edges[middle] < height) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** One line in some columns. All in one function, for it is run a million times a frame. */
  function paintLine(pixels, width, height, edges, share, { from, to, thick, opacity, colour }, low, high) {
    // Red and blue, green and opacity: two at a time, in sixteen bits each.
    const redBlue = colour & 0xff00ff;
    const greenWhole = ((colour >>> 8) & 0xff) | 0xff0000;
    const most = Math.min(1, thick);
    for (let x = low; x < high; x++) {
      const slope = (to - from) * (edges[x + 1] - edges[x]);
      const middle = from + ((to - from) * (edges[x] + edges[x + 1])) / 2;
      // A pixel is covered by how near it is to the middle of the line, which a slope puts further away in its column.
      const steep = Math.sqrt(1 + slope * slope);
      const half = ((thick + 1) / 2) * steep;
      const first = Math.max(0, Math.ceil(middle - half - 0.5));
      const last = Math.min(height - 1, Math.floor(middle + half - 0.5));
      const full = 256 * FINE * opacity * share[x];
      const step = (full / steep) | 0;
      const top = (most * full) | 0;
      let rise = ((first + 0.5 - middle + half) * (full / steep)) | 0;
      let sink = ((middle + half - first - 0.5) * (full / steep)) | 0;
      for (let at = first * width + x, y = first; y <= last; y++, at += width) {
        const least = rise < sink ? rise : sink;
        const part = ((least < top ? least : top) + FINE / 2) >> 16;
        const rest = 256 - part;
        const old = pixels[at];
        const one = (Math.imul(old & 0xff00ff, rest) + Math.imul(redBlue, part) + 0x800080) >>> 8;
        const other = Math.imul((old >>> 8) & 0xff00ff, rest) + Math.imul(greenWhole, part) + 0x800080;
        pixels[at] = (one & 0xff00ff) | (other & 0xff00ff00);
        rise += step;
        sink -= step;
      }
    }
  }

  /** Copy a part of a tile. A canvas takes colours as they are, while those painted are as much as they cover. */
  function copy(pixels, width, { left, top, right, bottom }, copied) {
    let to = 0;
    for (let y = top; y < bottom; y++) {
      for (let at = y * width + left, last = y * width + right; at < last; at++, to++) {
        const pixel = pixels[at];
        const whole = pixel >>> 24;
        if (whole === 0) continue;
        const by = 255 / whole;
        const red = Math.min(255, ((pixel & 0xff) * by + 0.5) | 0);
        const green = Math.min(255, (((pixel >>> 8) & 0xff) * by + 0.5) | 0);
        const blue = Math.min(255, (((pixel >>> 16) & 0xff) * by + 0.5) | 0);
        copied[to] = (whole << 24) | (blue << 16) | (green << 8) | red;
      }
    }
  }

  /** A colour of the style sheet, such as #0072b2, with red in the lowest byte. */
  function bytesOf(hex) {
    const number = Number.parseInt(hex.slice(1), 16);
    return ((number & 0xff) << 16) | (number & 0xff00) | (number >> 16);
  }

  return { paint, copy, bytesOf };
})();
