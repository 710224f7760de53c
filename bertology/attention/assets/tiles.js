// Lines from column to column in tiles: a tile is what the lines of one block of words paint in one stripe of the drawing.
// Tiles are painted once, when they are first in sight, and laid upon each other from then on.
viewer.tiles = (() => {
  "use strict";
  const { pictures, strokes } = viewer;
  // In pixels of the screen, so that no tile takes long: those of one word's lines have more lines each.
  const TALL = 192;
  const TALL_OF_WORD = 96;
  let sheet = new Uint32Array(0);

  /**
   * Lay the tiles in sight on a canvas; those that there is no time for now are left out, and nothing is laid on none.
   * With `isMore` only where there are tiles that were not there before, and whatever is drawn afterwards is drawn
   * there only.
   */
  function lay(context, { name, panel, x1, x2, blocks, paper = null }, seen, ratio, isMore = false) {
    const [offX, offY] = [Math.round(seen.x * ratio), Math.round(seen.y * ratio)];
    const left = Math.floor(x1 * ratio);
    const tall = paper ? TALL_OF_WORD : TALL;
    const size = { width: Math.ceil(x2 * ratio) - left, height: tall, start: x1 * ratio - left, end: x2 * ratio - left };
    const shape = `${name} ${ratio} ${size.start} ${size.end}`;
    const make = paper ? onPaper : alone;
    context?.save();
    context?.setTransform(1, 0, 0, 1, 0, 0);
    if (context) Object.assign(context, { globalAlpha: 1, imageSmoothingEnabled: false });
    const places = [];
    for (let stripe = Math.floor(offY / tall); stripe * tall < offY + seen.height * ratio; stripe++) {
      const before = pictures.told().made;
      const found = blocks.map((block) => (
        pictures.get(`${shape} ${block.name} ${stripe}`, () => make(scaled(block.lines(), stripe * tall, ratio), size, paper), paper && [panel, name])
      ));
      if (!context || (isMore && pictures.told().made === before)) continue;
      const place = [left - offX, stripe * tall - offY, size.width, tall];
      if (isMore) clear(context, place);
      places.push(place);
      for (const picture of found) if (picture) context.drawImage(picture.canvas, place[0] + picture.left, place[1] + picture.top);
    }
    context?.restore();
    if (isMore) keepTo(context, places);
  }

  function clear(context, place) {
    context.fillStyle = viewer.colour("--raised");
    context.fillRect(...place);
  }

  function keepTo(context, places) {
    const before = context.getTransform();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.beginPath();
    for (const place of places) context.rect(...place);
    context.clip();
    context.setTransform(before);
  }

  const scaled = (lines, top, ratio) => lines.map(({ from, to, stroke, opacity, width }) => (
    { from: from * ratio - top, to: to * ratio - top, thick: width * ratio, opacity, colour: strokes.bytesOf(stroke) }
  ));

  /** Lines under which nothing lies but paper: they are painted where they will be shown from. */
  function onPaper(lines, size, paper) {
    const canvas = pictures.of(size.width, size.height, (pixels) => {
      pixels.fill(strokes.bytesOf(paper) | 0xff000000);
      strokes.paint(pixels, size, lines);
    });
    return { canvas, left: 0, top: 0 };
  }

  /** Lines that are laid upon others. */
  function alone(lines, size) {
    const n = size.width * size.height;
    if (sheet.length < n) sheet = new Uint32Array(n);
    sheet.fill(0, 0, n);
    const part = strokes.paint(sheet, size, lines);
    if (!part) return null;
    const canvas = pictures.of(part.right - part.left, part.bottom - part.top, (pixels) => strokes.copy(sheet, size.width, part, pixels));
    return { canvas, left: part.left, top: part.top };
  }

  return { lay };
})();
