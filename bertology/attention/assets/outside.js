// What is looked at, as others see it: in the page's address, and told to whoever holds the page in a frame, such as a
// notebook's widget. From both it is taken back.
(() => {
  "use strict";
  const { state, heads, kinds, isPair, panels, hasSet, change, onChange, stage } = viewer;
  const isFramed = window.parent !== window;
  const SOON = 250;
  const flag = { write: (value) => (value ? "1" : "0"), read: (text) => text === "1", ok: (value) => typeof value === "boolean" };
  const text = (ok) => ({ write: String, read: String, ok });
  const number = (ok) => ({ write: String, read: Number, ok });
  const orNone = ({ write, read, ok }) => ({
    write: (value) => (value === null ? "none" : write(value)),
    read: (told) => (told === "none" ? null : read(told)),
    ok: (value) => value === null || ok(value),
  });
  const isHead = (value) => heads.includes(value);
  const isLayer = (value) => panels.some((panel) => Object.values(panel.about.kinds).some((kind) => kind.layers.some((one) => one.layer === value)));

  /** By name how a part of the state is written, and what it can be in this page; of anything else nothing is taken. */
  const KNOWN = {
    view: text((value) => Object.hasOwn(viewer.views, value)),
    kind: text((value) => kinds.includes(value)),
    level: text((value) => ["word", "piece"].some((one) => one === value && hasSet(value, state.weights))),
    weights: text((value) => ["raw", "norm", "effect"].some((one) => one === value && hasSet(state.level, value))),
    specials: text((value) => ["shown", "hidden", "renormalised"].includes(value)),
    part: text((value) => value === "all" || (isPair && ["aa", "ab", "ba", "bb"].includes(value))),
    threshold: number((value) => typeof value === "number" && value >= 0 && value <= 1),
    layer: number(isLayer),
    heads: { write: (value) => value.join(","), read: (told) => told.split(",").filter(Boolean).map(Number), ok: (value) => Array.isArray(value) && value.every(isHead) },
    head: orNone(number(isHead)),
    search: text((value) => typeof value === "string"),
    panel: number((value) => Number.isInteger(value) && value >= 0 && value < panels.length),
    side: text((value) => value === "from" || value === "to"),
    word: orNone(number((value) => Number.isInteger(value) && value >= 0 && value < panels[state.panel].units(state.side).labels.length)),
    kept: flag,
    cell: orNone({
      write: ({ layer, head }) => `L${layer}H${head}`,
      read: (told) => { const [, layer, head] = /^L(\d+)H(\d+)$/.exec(told) ?? []; return { layer: Number(layer), head: Number(head) }; },
      ok: (value) => isLayer(value?.layer) && isHead(value?.head),
    }),
    gold: flag,
    common: flag,
  };

  const plain = () => ({ ...Object.fromEntries(Object.keys(KNOWN).map((name) => [name, state[name]])), heads: [...state.heads].sort((a, b) => a - b) });
  const first = plain();

  /** Take what can be looked at, one after the other: what is possible depends on what was taken before. */
  function take(asked) {
    for (const name of Object.keys(KNOWN)) {
      if (!(name in asked) || !KNOWN[name].ok(asked[name])) continue;
      if (JSON.stringify(asked[name]) === JSON.stringify(plain()[name])) continue;
      change({ [name]: name === "heads" ? new Set(asked[name]) : asked[name] });
    }
  }

  /** What differs from what the page shows at first; what is only pointed at is no part of it. */
  function fragment() {
    const now = plain();
    if (!now.kept) Object.assign(now, { word: first.word, side: now.view === "word" ? now.side : first.side, panel: first.panel });
    const changed = Object.keys(KNOWN).filter((name) => JSON.stringify(now[name]) !== JSON.stringify(first[name]) && name !== "cell");
    return changed.map((name) => `${name}=${encodeURIComponent(KNOWN[name].write(now[name]))}`).join("&");
  }

  function read() {
    const found = location.hash.slice(1).split("&").map((part) => part.split("="));
    const told = found.filter(([name, value]) => Object.hasOwn(KNOWN, name) && value !== undefined);
    return Object.fromEntries(told.map(([name, value]) => [name, KNOWN[name].read(decoded(value))]));
  }

  function decoded(value) {
    try { return decodeURIComponent(value); } catch { return value; }
  }

  let isDue = false;
  let written = "";
  /** Not more often than a person can see: browsers refuse addresses that change all the time. */
  function write() {
    if (isDue) return;
    isDue = true;
    setTimeout(() => {
      isDue = false;
      const now = fragment();
      if (now === written) return;
      written = now;
      history.replaceState(null, "", now ? `#${now}` : location.href.split("#")[0]);
    }, SOON);
  }

  let last = "";
  function tell() {
    const now = JSON.stringify(plain());
    if (now === last) return;
    last = now;
    // The frame has no origin of its own, so that there is none to name; nothing is told but what is looked at.
    window.parent.postMessage({ bertologyState: JSON.parse(now) }, "*");
  }

  if (isFramed) {
    window.addEventListener("message", (event) => {
      if (event.source === window.parent && event.data?.bertologyState) take(event.data.bertologyState);
    });
    onChange(tell);
    tell();
    return;
  }
  window.addEventListener("hashchange", () => {
    const asked = read();
    if (!Object.keys(asked).length) return;
    take(first);
    take(asked);
    stage.reveal();
  });
  take(read());
  onChange(write);
})();
