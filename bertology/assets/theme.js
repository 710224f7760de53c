// Light or dark: what the system says, until the person chooses.
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
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      choice = choices[(choices.indexOf(choice) + 1) % choices.length];
      apply();
    });
  });
})();
