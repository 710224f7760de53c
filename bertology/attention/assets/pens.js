// Two pens that draw alike: one on a canvas, one that writes SVG. Views draw with either.
viewer.pens = (() => {
  "use strict";
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif';
  const ruler = document.createElement("canvas").getContext("2d");
  const widths = new Map();

  function widthOf(text, size, weight = 400) {
    const key = `${size} ${weight} ${text}`;
    if (!widths.has(key)) {
      ruler.font = `${weight} ${size}px ${FONT}`;
      widths.set(key, ruler.measureText(text).width);
    }
    return widths.get(key);
  }

  /** The text, cut to a width. */
  function fit(text, width, size, weight = 400) {
    if (widthOf(text, size, weight) <= width) return text;
    const letters = [...text];
    while (letters.length > 1 && widthOf(`${letters.join("")}…`, size, weight) > width) letters.pop();
    return `${letters.join("")}…`;
  }

  function canvasPen(context) {
    const alpha = (value) => { context.globalAlpha = value ?? 1; };
    return {
      rect(x, y, w, h, { fill, stroke, opacity, radius = 0, width = 1 }) {
        alpha(opacity);
        context.beginPath();
        if (radius) context.roundRect(x, y, w, h, radius); else context.rect(x, y, w, h);
        if (fill) { context.fillStyle = fill; context.fill(); }
        if (stroke) { context.strokeStyle = stroke; context.lineWidth = width; context.stroke(); }
      },
      path(commands, { stroke, fill, opacity, width = 1 }) {
        alpha(opacity);
        context.beginPath();
        for (const [command, ...at] of commands) {
          if (command === "M") context.moveTo(...at);
          else if (command === "L") context.lineTo(...at);
          else if (command === "C") context.bezierCurveTo(...at);
          else context.closePath();
        }
        if (fill) { context.fillStyle = fill; context.fill(); }
        if (stroke) { context.strokeStyle = stroke; context.lineWidth = width; context.stroke(); }
      },
      text(text, x, y, { size, fill, align = "left", weight = 400, turn = 0, opacity }) {
        alpha(opacity);
        context.font = `${weight} ${size}px ${FONT}`;
        context.fillStyle = fill;
        context.textAlign = align;
        context.textBaseline = "middle";
        if (!turn) return void context.fillText(text, x, y);
        context.save();
        context.translate(x, y);
        context.rotate((turn * Math.PI) / 180);
        context.fillText(text, 0, 0);
        context.restore();
      },
      image(canvas, x, y, w, h) {
        alpha(1);
        context.imageSmoothingEnabled = false;
        context.drawImage(canvas, x, y, w, h);
      },
    };
  }

  /** Lines from column to column, each a stroke of its own: a screen has them from tiles, which look the same. */
  function strokeCurves(pen, { x1, x2, blocks }) {
    const middle = (x1 + x2) / 2;
    for (const block of blocks) {
      for (const { from, to, ...look } of block.lines()) pen.path([["M", x1, from], ["C", middle, from, middle, to, x2, to]], look);
    }
  }

  const ESCAPED = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  // Control characters may not stand in XML at all.
  const escaped = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").replace(/[&<>"']/g, (c) => ESCAPED[c]);
  const short = (value) => (typeof value === "number" ? String(Math.round(value * 100) / 100) : value);

  function svgPen() {
    const parts = [];
    const attributes = (given) =>
      Object.entries(given).filter(([, value]) => value !== undefined && value !== null)
        .map(([name, value]) => ` ${name}="${escaped(String(short(value)))}"`).join("");
    return {
      rect(x, y, width, height, { fill, stroke, opacity, radius, width: line }) {
        const own = { x, y, width, height, rx: radius, fill: fill ?? "none", stroke, opacity, "stroke-width": stroke && line };
        parts.push(`<rect${attributes(own)}/>`);
      },
      path(commands, { stroke, fill, opacity, width }) {
        const d = commands.map(([command, ...at]) => command + at.map(short).join(" ")).join("");
        parts.push(`<path${attributes({ d, fill: fill ?? "none", stroke, opacity, "stroke-width": width })}/>`);
      },
      text(text, x, y, { size, fill, align = "left", weight, turn, opacity }) {
        const anchor = { left: "start", center: "middle", right: "end" }[align];
        const transform = turn ? `rotate(${turn} ${short(x)} ${short(y)})` : undefined;
        const own = { x, y, "font-size": size, fill, "text-anchor": anchor, "font-weight": weight, opacity, transform };
        parts.push(`<text dominant-baseline="central"${attributes(own)}>${escaped(text)}</text>`);
      },
      image(canvas, x, y, width, height) {
        const style = "image-rendering:pixelated";
        parts.push(`<image${attributes({ x, y, width, height, style, href: canvas.toDataURL() })} preserveAspectRatio="none"/>`);
      },
      done(width, height) {
        const size = `width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}"`;
        return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${escaped(FONT)}">${parts.join("\n")}</svg>\n`;
      },
    };
  }

  /** A pen whose drawing lies so far to the right and down. */
  function shifted(pen, x, y) {
    const points = (commands) => commands.map(([command, ...at]) => [command, ...at.map((value, i) => value + (i % 2 ? y : x))]);
    const moved = {
      rect: (a, b, ...rest) => pen.rect(a + x, b + y, ...rest),
      path: (commands, look) => pen.path(points(commands), look),
      text: (text, a, b, look) => pen.text(text, a + x, b + y, look),
      image: (picture, a, b, ...rest) => pen.image(picture, a + x, b + y, ...rest),
      curves(bundle) {
        if (!pen.curves) return strokeCurves(moved, bundle);
        const lines = (block) => () => block.lines().map((line) => ({ ...line, from: line.from + y, to: line.to + y }));
        const blocks = bundle.blocks.map((block) => ({ ...block, lines: lines(block) }));
        return pen.curves({ ...bundle, name: `${bundle.name} ${y}`, x1: bundle.x1 + x, x2: bundle.x2 + x, blocks });
      },
    };
    if (pen.kept) {
      moved.kept = (name, box, draw) =>
        pen.kept(`${name} ${x} ${y}`, { ...box, x: box.x + x, y: box.y + y }, (own) => draw(shifted(own, x, y)));
    }
    return moved;
  }

  /** A pen that draws nothing, and the box in which anything but paper was drawn with it. */
  function measuringPen(paper) {
    const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    function take(x, y) {
      box.left = Math.min(box.left, x);
      box.right = Math.max(box.right, x);
      box.top = Math.min(box.top, y);
      box.bottom = Math.max(box.bottom, y);
    }
    const corners = (x, y, width, height) => { take(x, y); take(x + width, y + height); };
    const pen = {
      rect: (x, y, width, height, { fill, stroke }) => { if (stroke || fill !== paper) corners(x, y, width, height); },
      path: (commands) => { for (const [, ...at] of commands) for (let i = 0; i < at.length; i += 2) take(at[i], at[i + 1]); },
      text(text, x, y, { size, align = "left", weight, turn = 0 }) {
        const width = widthOf(text, size, weight);
        const start = { left: 0, center: -width / 2, right: -width }[align];
        const [sin, cos] = [Math.sin((turn * Math.PI) / 180), Math.cos((turn * Math.PI) / 180)];
        for (const along of [start, start + width]) {
          for (const over of [-0.6 * size, 0.6 * size]) take(x + along * cos - over * sin, y + along * sin + over * cos);
        }
      },
      image: (canvas, ...place) => corners(...place),
      curves: (bundle) => strokeCurves(pen, bundle),
    };
    return { pen, box };
  }

  /** How many arcs lie under each, so that none crosses another's crown: 1 for the innermost. */
  function arcHeights(arcs) {
    const heights = arcs.map(() => 1);
    const order = arcs.map((_, number) => number).sort((a, b) => span(arcs[a]) - span(arcs[b]));
    order.forEach((number, rank) => {
      const [low, high] = ends(arcs[number]);
      for (const other of order.slice(0, rank)) {
        const [l, h] = ends(arcs[other]);
        if (l < high && h > low) heights[number] = Math.max(heights[number], heights[other] + 1);
      }
    });
    return heights;
  }
  const ends = ([a, b]) => [Math.min(a, b), Math.max(a, b)];
  const span = (arc) => Math.abs(arc[0] - arc[1]);

  return { canvasPen, svgPen, strokeCurves, shifted, measuringPen, widthOf, fit, arcHeights };
})();
