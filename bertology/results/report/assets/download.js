// Tables as CSV and LaTeX, drawings as SVG and PNG: made in the page of what is shown in it.
(() => {
  "use strict";
  const { element } = report;
  const SHARP = 3;

  function save(content, name) {
    const link = element("a", { href: URL.createObjectURL(content), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  const plain = (text) => text.replaceAll("−", "-").replaceAll("\u00a0", " ").replace(/\s+/g, " ").trim();
  const inSight = (some) => [...some].filter((part) => !part.hidden);

  /** A cell: its text, the interval apart, whether it is marked; and the number itself where the page has it. */
  function parts(cell) {
    const [interval, star] = [".ci", ".star"].map((kind) => cell.querySelector(kind)?.textContent ?? "");
    const copy = cell.cloneNode(true);
    for (const part of copy.querySelectorAll(".ci, .star, title")) part.remove();
    copy.querySelector(".unit")?.prepend(" · ");
    const { value, low = "", high = "" } = cell.dataset;
    return { text: plain(copy.textContent), interval: plain(interval), star: plain(star), value, low, high, span: cell.colSpan };
  }

  /** Rows of cells in sight, a cell over several columns followed by empty ones. */
  function rowsOf(table) {
    const empty = { text: "", interval: "", star: "", low: "", high: "" };
    return inSight(table.rows).map((row) => inSight(row.cells).flatMap((cell) => [parts(cell), ...Array(cell.colSpan - 1).fill(empty)]));
  }

  /** Which columns have intervals, and which marks. */
  function columnsOf(body) {
    const some = (column, field) => body.some((row) => row[column]?.[field]);
    return Array.from({ length: Math.max(0, ...body.map((row) => row.length)) }, (_, c) => ({ interval: some(c, "low") || some(c, "interval"), star: some(c, "star") }));
  }

  /** Numbers are those of the results, fractions and not percentages, where the page has them. */
  function csv(table) {
    const [head, ...body] = table.tHead ? rowsOf(table) : [[], ...rowsOf(table)];
    const columns = columnsOf(body);
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const line = (cells) => `${cells.map(quoted).join(",")}\n`;
    const heading = columns.flatMap(({ interval, star }, c) => {
      const name = head[c]?.text ?? "";
      return [name, ...(interval ? [`${name} low`, `${name} high`] : []), ...(star ? [`${name} in best set`] : [])];
    });
    const rows = body.map((row) => columns.flatMap(({ interval, star }, c) => {
      const cell = row[c] ?? { text: "", low: "", high: "", star: "" };
      const [, low, high] = cell.interval?.match(/\[(.*), (.*)\]/) ?? [null, "", ""];
      return [cell.value || cell.text, ...(interval ? [cell.low || low, cell.high || high] : []), ...(star ? [String(Boolean(cell.star))] : [])];
    }));
    return (head.length ? line(heading) : "") + rows.map(line).join("");
  }

  const SPECIAL = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "$<$", ">": "$>$", "★": "$\\star$", "·": "$\\cdot$", "–": "--", "→": "$\\rightarrow$", "↓": "$\\downarrow$" };
  const escaped = (text) => text.replace(/[\\~^<>★·–→↓&%$#_{}]/g, (letter) => SPECIAL[letter] ?? `\\${letter}`);

  /** A booktabs table: marks in bold, intervals small. */
  function latex(table, title) {
    const [head, ...body] = table.tHead ? rowsOf(table) : [[], ...rowsOf(table)];
    const foot = table.tFoot ? inSight(table.tFoot.rows).length : 0;
    const cell = ({ text, interval, star }) => {
      const number = text.startsWith("-") ? `$-$${escaped(text.slice(1))}` : escaped(text);
      return (star ? `\\textbf{${number}}` : number) + (interval ? ` {\\footnotesize ${escaped(interval)}}` : "");
    };
    const line = (row) => `    ${row.map(cell).join(" & ")} \\\\`;
    const rows = body.map(line);
    if (foot) rows.splice(rows.length - foot, 0, "    \\midrule");
    const kinds = Array.from({ length: Math.max(head.length, ...body.map((row) => row.length)) }, (_, c) => (c ? "r" : "l")).join("");
    return ["% needs \\usepackage{booktabs}", "\\begin{table}[t]", "  \\centering", `  \\caption{${escaped(title)}.}`, `  \\begin{tabular}{${kinds}}`, "    \\toprule",
      ...(head.length ? [line(head), "    \\midrule"] : []), ...rows, "    \\bottomrule", "  \\end{tabular}", "\\end{table}", ""].join("\n");
  }

  const drawn = (drawing) => new XMLSerializer().serializeToString(drawing);

  function savePng(drawing, name) {
    const picture = new Image();
    picture.addEventListener("load", () => {
      const canvas = element("canvas", { width: SHARP * drawing.width.baseVal.value, height: SHARP * drawing.height.baseVal.value });
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((content) => save(content, `${name}.png`));
    });
    picture.src = `data:image/svg+xml,${encodeURIComponent(drawn(drawing))}`;
  }

  const inFile = (title) => title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);

  function offer(after, title, kinds) {
    const buttons = Object.entries(kinds).map(([kind, make]) =>
      element("button", { type: "button", "aria-label": `${title}: download as ${kind}`, onclick: () => make(inFile(title)) }, kind));
    after.after(element("p", { class: "downloads" }, "Download ", ...buttons));
  }

  for (const table of document.querySelectorAll("main .scroll > table")) {
    const region = table.parentElement;
    const title = region.getAttribute("aria-label") ?? document.getElementById(region.getAttribute("aria-labelledby")).textContent;
    offer(region, title, {
      CSV: (name) => save(new Blob([csv(table)], { type: "text/csv" }), `${name}.csv`),
      LaTeX: (name) => save(new Blob([latex(table, title)], { type: "text/x-tex" }), `${name}.tex`),
    });
  }
  for (const figure of document.querySelectorAll("figure[data-drawing]")) {
    const drawing = () => figure.querySelector(".drawing svg");
    offer(figure, figure.dataset.drawing, {
      SVG: (name) => save(new Blob([drawn(drawing())], { type: "image/svg+xml" }), `${name}.svg`),
      PNG: (name) => savePng(drawing(), name),
    });
  }
})();
