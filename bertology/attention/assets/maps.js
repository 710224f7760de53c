// The maps: packed in the page by layer, unpacked when first looked at.
viewer.makers.maps = (viewer) => {
  "use strict";
  const { state, units } = viewer;
  const unpacked = new Map();
  const waiting = new Map();
  const rows = new Map();
  const parsed = document.readyState === "loading" ? new Promise((done) => document.addEventListener("DOMContentLoaded", done)) : Promise.resolve();

  const nameOf = (layer) => `${viewer.number}-${state.kind}-${state.level}-${state.weights}-${layer}`;

  async function unpack(name, nHeads, n, nColumns, kept) {
    await parsed;
    const content = await drawn.unpacked(`map-${name}`).arrayBuffer();
    const nRows = nHeads * n;
    const nCells = nRows * kept;
    const made = { n, nColumns, kept, scale: new Float32Array(content, 0, nRows), total: null, column: null };
    made.value = new Uint8Array(content, content.byteLength - nCells, nCells);
    if (kept < nColumns) {
      made.total = new Float32Array(content, 4 * nRows, nRows);
      const low = new Uint8Array(content, 8 * nRows, nCells);
      const high = new Uint8Array(content, 8 * nRows + nCells, nCells);
      made.column = new Uint16Array(nCells);
      for (let cell = 0; cell < nCells; cell++) {
        const gap = low[cell] + 256 * high[cell];
        made.column[cell] = cell % kept ? made.column[cell - 1] + gap : gap;
      }
    }
    return made;
  }

  /** Whether a layer can be drawn now. */
  const ready = (layer) => unpacked.has(nameOf(layer));

  function load(layer) {
    const name = nameOf(layer);
    if (!waiting.has(name)) {
      const work = unpack(name, viewer.headsOf(layer).length, units().labels.length, units("to").labels.length, viewer.set().kept);
      waiting.set(name, work.then((made) => unpacked.set(name, made)));
    }
    return waiting.get(name);
  }

  /** The rows of one head, without the words that are hidden; the layer must be ready. */
  function of(layer, head) {
    const name = `${nameOf(layer)}-${head}-${state.specials}-${state.part}`;
    if (!rows.has(name)) rows.set(name, make(unpacked.get(nameOf(layer)), viewer.headsOf(layer).indexOf(head)));
    return rows.get(name);
  }

  function make(map, at) {
    const { n, nColumns, kept, scale, total, column, value } = map;
    const mask = (side) => (viewer.hidesAny() ? units(side).labels.map((_, place) => viewer.hides(place, side)) : null);
    const hiddenRow = mask("from");
    const hidden = mask("to");
    const special = state.specials === "renormalised" ? units("to").special : null;
    const factors = new Float32Array(n).fill(NaN);

    /** What a row is multiplied by: what is left of it is scaled up to what it was in all. */
    function factor(i) {
      if (!special) return 1;
      if (Number.isNaN(factors[i])) {
        const row = at * n + i;
        let all = 0;
        let away = 0;
        for (let c = 0; c < kept; c++) {
          const w = (value[row * kept + c] * scale[row]) / 255;
          all += w;
          if (special[column ? column[row * kept + c] : c]) away += w;
        }
        if (total) all = total[row];
        factors[i] = all - away > 1e-9 ? all / (all - away) : 0;
      }
      return factors[i];
    }

    /** Tell every weight of a row that is not nothing. */
    function each(i, tell) {
      if (hiddenRow?.[i]) return;
      const row = at * n + i;
      const unit = (scale[row] / 255) * factor(i);
      for (let c = 0, cell = row * kept; c < kept; c++, cell++) {
        const j = column ? column[cell] : c;
        if (value[cell] && !hidden?.[j]) tell(j, value[cell] * unit);
      }
    }

    /** All weights of a row as numbers, 0 where there is none. */
    function row(i) {
      const found = new Float32Array(nColumns);
      each(i, (j, w) => { found[j] = w; });
      return found;
    }

    /** What all words give to one. */
    function to(j) {
      const found = new Float32Array(n);
      if (hidden?.[j]) return found;
      const first = at * n * kept;
      // Cell by cell rather than word by word: every head of a page is asked at once.
      for (let i = 0; i < n; i++) {
        let cell = first + i * kept + j;
        if (column) for (cell = first + i * kept; cell < first + (i + 1) * kept && column[cell] < j; ) cell++;
        if (cell >= first + (i + 1) * kept || (column && column[cell] !== j) || !value[cell] || hiddenRow?.[i]) continue;
        found[i] = value[cell] * (scale[at * n + i] / 255) * factor(i);
      }
      return found;
    }

    let most = null;
    function top() {
      if (most === null) {
        most = 0;
        for (let i = 0; i < n; i++) each(i, (_, w) => { if (w > most) most = w; });
      }
      return most;
    }

    return { n, nColumns, each, row, to, top };
  }

  return { ready, load, of };
};
