// On every page: light or dark, what the system says until the person chooses; and files of what is shown.
(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const choices = ["system", "light", "dark"];
  let choice = "system";
  const SHARP = 3; // dots of a picture for each of the page

  function apply() {
    const theme = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${choice}`;
    // What is drawn on a canvas takes its colours from the style sheet, and must be drawn again.
    document.dispatchEvent(new Event("themechange"));
  }

  apply();
  dark.addEventListener("change", apply);

  function save(content, ending) {
    const name = (document.title || "page").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(content), download: `${name}.${ending}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /** A table as CSV: an interval below a number is in its cell. */
  function csv(table) {
    const text = (cell) => [...cell.childNodes].map((part) => part.textContent).join(" ").replaceAll("−", "-").replace(/\s+/g, " ").trim();
    const quoted = (cell) => (/[",]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
    return [...table.rows].map((row) => `${[...row.cells].map((cell) => quoted(text(cell))).join(",")}\n`).join("");
  }

  /** A colour of a style sheet as any program reads it, with its opacity. */
  function plain(colour) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return alpha ? [`rgb(${red},${green},${blue})`, (alpha / 255).toFixed(3)] : ["none", 1];
  }

  /** The lines that a text is broken into, each with its place: words whose `side` is at the same place. */
  function linesOf(part, side) {
    const lines = new Map(), range = document.createRange();
    for (const { 0: word, index } of part.data.matchAll(/\S+/g)) {
      range.setStart(part, index);
      range.setEnd(part, index + word.length);
      const at = range.getBoundingClientRect(), key = Math.round(at[side]), line = lines.get(key);
      const wider = (field, choose) => choose(at[field], line?.at[field] ?? at[field]);
      const around = { left: wider("left", Math.min), top: wider("top", Math.min), right: wider("right", Math.max), bottom: wider("bottom", Math.max) };
      lines.set(key, { text: line ? `${line.text} ${word}` : word, at: around });
    }
    return lines.values();
  }

  /** What an element shows, as a drawing: the grounds and frames of what is in it, its lines and its texts. */
  function drawingOf(home) {
    const name = "http://www.w3.org/2000/svg", box = home.getBoundingClientRect();
    const [width, height] = [Math.max(box.width, home.scrollWidth), Math.max(box.height, home.scrollHeight)].map(Math.ceil);
    const svg = document.createElementNS(name, "svg");
    const add = (kind, fields, text = "") => {
      const made = document.createElementNS(name, kind);
      for (const [field, value] of Object.entries(fields)) made.setAttribute(field, typeof value === "number" ? Number(value.toFixed(2)) : value);
      made.textContent = text;
      svg.append(made);
    };
    const paint = (kind, colour) => { const [value, alpha] = plain(colour); return { [kind]: value, [`${kind}-opacity`]: alpha }; };
    const [left, top] = [box.left - home.scrollLeft, box.top - home.scrollTop];
    for (const [field, value] of Object.entries({ xmlns: name, width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(field, value);
    add("rect", { x: 0, y: 0, width, height, ...paint("fill", getComputedStyle(document.body).backgroundColor) });
    const everything = [home, ...home.querySelectorAll("*")].map((element) => [element, getComputedStyle(element), element.getBoundingClientRect()]);
    for (const [element, style, at] of everything) {
      if (element.tagName === "line") {
        const ends = ["x1", "y1", "x2", "y2"].map((end) => [end, element.getAttribute(end)]);
        add("line", { ...Object.fromEntries(ends), ...paint("stroke", style.stroke), "stroke-width": style.strokeWidth, opacity: style.opacity });
        continue;
      }
      const place = { x: at.left - left, y: at.top - top, width: at.width, height: at.height, rx: parseFloat(style.borderTopLeftRadius) || 0 };
      const framed = parseFloat(style.borderTopWidth) > 0 && parseFloat(style.borderLeftWidth) > 0;
      const frame = framed ? { ...paint("stroke", style.borderTopColor), ...(style.borderTopStyle === "dashed" ? { "stroke-dasharray": "4 3" } : {}) } : {};
      const ground = paint("fill", style.backgroundColor);
      if (framed || ground.fill !== "none") add("rect", { ...place, ...ground, ...frame });
    }
    for (const [element, style] of everything) {
      for (const part of element.childNodes) {
        if (part.nodeType !== Node.TEXT_NODE) continue;
        const size = parseFloat(style.fontSize), turned = style.writingMode.startsWith("vertical");
        const how = { "font-family": style.fontFamily, "font-size": size, "font-weight": style.fontWeight, "text-anchor": "middle", ...paint("fill", style.color) };
        for (const { text, at } of linesOf(part, turned ? "left" : "top")) {
          const [x, y] = [(at.left + at.right) / 2 - left, (at.top + at.bottom) / 2 - top];
          add("text", { x, y: y + 0.35 * size, ...how, ...(turned ? { transform: `rotate(90 ${x} ${y})` } : {}) }, text);
        }
      }
    }
    return svg;
  }

  /** The drawing of an element, of which nothing is out of sight. */
  function drawn(home) {
    const frame = home.closest(".scroll") ?? home, before = [frame.scrollLeft, frame.scrollTop];
    frame.scrollTo({ left: 0, top: 0, behavior: "instant" });
    const svg = drawingOf(home);
    frame.scrollTo({ left: before[0], top: before[1], behavior: "instant" });
    return [svg, new XMLSerializer().serializeToString(svg)];
  }

  function savePng([svg, text]) {
    const picture = new Image();
    picture.addEventListener("load", () => {
      const [width, height] = ["width", "height"].map((side) => SHARP * svg.getAttribute(side));
      const canvas = Object.assign(document.createElement("canvas"), { width, height });
      canvas.getContext("2d").drawImage(picture, 0, 0, width, height);
      canvas.toBlob((content) => save(content, "png"));
    });
    picture.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  }

  /** A line with buttons below each table, figure of words and canvas that asks for one; reports and the viewer have their own. */
  function offer() {
    if (document.querySelector(".downloads, #save-svg, .viewer:not(.atlas)")) return;
    const line = (after, kinds) => {
      const place = document.createElement("p");
      place.className = "downloads";
      place.append("Download ");
      for (const [kind, make] of Object.entries(kinds)) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind });
        button.addEventListener("click", make);
        place.append(button);
      }
      after.after(place);
    };
    const pictures = (home) => ({
      SVG: () => save(new Blob([drawn(home)[1]], { type: "image/svg+xml" }), "svg"),
      PNG: () => savePng(drawn(home)),
    });
    for (const table of document.querySelectorAll("main table[id], main .scroll > table")) {
      const text = { CSV: () => save(new Blob([csv(table)], { type: "text/csv" }), "csv") };
      line(table.closest(".scroll") ?? table, "picture" in table.dataset ? { ...text, ...pictures(table) } : text);
    }
    for (const home of document.querySelectorAll("main [data-picture]:not(table)")) line(home, pictures(home));
    const map = document.querySelector(".atlas #canvas");
    if (map) line(document.getElementById("legend"), { PNG: () => map.toBlob((picture) => save(picture, "png")) });
  }

  document.addEventListener("DOMContentLoaded", () => {
    offer();
    document.getElementById("theme").addEventListener("click", () => {
      choice = choices[(choices.indexOf(choice) + 1) % choices.length];
      apply();
    });
  });
})();
