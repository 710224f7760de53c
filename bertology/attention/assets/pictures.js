// Pictures that are drawn once and shown often: made within the time that a frame has, kept up to a bound of memory.
viewer.pictures = (() => {
  "use strict";
  const MOST_BYTES = 64 * 2 ** 20;
  const kept = new Map(); // by name, the one used longest ago first
  const frame = { number: 0, until: Infinity, isWhole: true, bytes: 0, made: 0, longest: 0 };
  let bytes = 0;
  let made = 0;
  const passing = new Map(); // by panel, under which name pictures pass in it

  /** From here on one frame is drawn, which may make pictures for so many milliseconds. */
  function begin(milliseconds) {
    Object.assign(frame, { number: frame.number + 1, until: performance.now() + milliseconds, isWhole: true, bytes: 0, made: 0, longest: 0 });
  }

  /**
   * The picture of a name ({ canvas, … }, or null if there is nothing on it), or undefined where this frame has no time
   * left to make it. Those that are passing, `[panel, name]`, go when others come that pass in the same panel under
   * another name: what one points at only shall not drop what one comes back to.
   */
  function get(name, make, pass = null) {
    if (pass && passing.get(pass[0]) !== pass[1]) forget(...pass);
    const found = kept.get(name) ?? add(make, pass?.[0]);
    if (!found) return void (frame.isWhole = false);
    // Taken out and put in again, so that it is the last to be dropped.
    kept.delete(name);
    kept.set(name, found);
    if (found.frame !== frame.number) frame.bytes += found.bytes;
    found.frame = frame.number;
    return found.picture;
  }

  function add(make, panel) {
    // One at least, so that every frame comes nearer to the whole; no other that might take longer than there is time.
    const start = performance.now();
    if (frame.made && start + frame.longest > frame.until) return null;
    const picture = make();
    frame.longest = Math.max(frame.longest, performance.now() - start);
    const own = picture ? 4 * picture.canvas.width * picture.canvas.height : 0;
    frame.made++;
    made++;
    bytes += own;
    drop();
    return { picture, bytes: own, frame: 0, panel };
  }

  function forget(panel, pass) {
    passing.set(panel, pass);
    for (const [name, one] of kept) {
      if (one.panel !== panel) continue;
      kept.delete(name);
      bytes -= one.bytes;
    }
  }

  /** Those used longest ago go, but never one that is in sight. */
  function drop() {
    for (const [name, one] of kept) {
      if (bytes <= MOST_BYTES || one.frame === frame.number) return;
      kept.delete(name);
      bytes -= one.bytes;
    }
  }

  /** A canvas of pixels, a row after another, red in the lowest byte. */
  function of(width, height, fill) {
    const image = new ImageData(width, height);
    fill(new Uint32Array(image.data.buffer));
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  return {
    begin, get, of, isWhole: () => frame.isWhole, hasRoom: () => 2 * frame.bytes < MOST_BYTES,
    told: () => ({ made, bytes, most: MOST_BYTES, kept: kept.size }),
  };
})();
