// On every page: light or dark, what the system says until the person chooses; and files of what is shown.
(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const choices = ["system", "light", "dark"];
  let choice = "system";

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

  /** A line with a button below each table, and below a canvas that asks for one; reports and the viewer have their own. */
  function offer() {
    if (document.querySelector(".downloads, #save-svg, .viewer:not(.atlas)")) return;
    const line = (after, kind, make) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind });
      button.addEventListener("click", make);
      const place = document.createElement("p");
      place.className = "downloads";
      place.append("Download ", button);
      after.after(place);
    };
    for (const table of document.querySelectorAll("main table[id], main .scroll > table")) {
      line(table.closest(".scroll") ?? table, "CSV", () => save(new Blob([csv(table)], { type: "text/csv" }), "csv"));
    }
    const map = document.querySelector(".atlas #canvas");
    if (map) line(document.getElementById("legend"), "PNG", () => map.toBlob((picture) => save(picture, "png")));
  }

  document.addEventListener("DOMContentLoaded", () => {
    offer();
    document.getElementById("theme").addEventListener("click", () => {
      choice = choices[(choices.indexOf(choice) + 1) % choices.length];
      apply();
    });
  });
})();
