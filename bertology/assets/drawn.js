// What pages that draw share: the data, elements, colours of the theme, and bytes that are packed in the page.
// Words and sentences enter a page as text or are drawn, never as HTML.
const drawn = (() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  let colours = {};
  document.addEventListener("themechange", () => { colours = {}; });
  function colour(name) {
    colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return colours[name];
  }

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const plain = atob(text);
    const made = new Uint8Array(plain.length);
    for (let i = 0; i < plain.length; i++) made[i] = plain.charCodeAt(i);
    return made;
  }
  /** What is packed in an element of the page. */
  function unpacked(id) {
    const packed = new Blob([bytes(byId(id).textContent)]);
    return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip")));
  }

  return { byId, data, element, colour, unpacked };
})();
