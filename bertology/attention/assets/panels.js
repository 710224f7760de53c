// The views of each panel; where there are several panels, side by side, or one below the other where there is no room.
(() => {
  "use strict";
  const { panels, makers, state, colour, pens } = viewer;
  const NAMES = ["model", "heads", "matrix", "word"];
  const GAP = 28;
  const HEADER = 30;
  const LEAST = 400;

  for (const panel of panels) {
    panel.maps = makers.maps(panel);
    panel.own = {};
    for (const name of NAMES) panel.own[name] = makers[name](panel);
  }
  /** The largest of what the panels have of something, so that they share one scale. */
  viewer.inAll = (name, what) => Math.max(...panels.map((panel) => panel.own[name][what]()));

  /** What tells a panel from the others: its model, or its text. */
  const models = new Set(panels.map((panel) => panel.about.model));
  const titleOf = ({ about }) => (models.size > 1 ? about.model : about.texts.join(" "));

  function together(name) {
    const views = panels.map((panel) => panel.own[name]);
    let boxes = [];

    function measure(width) {
      const isBeside = width >= views.length * LEAST + GAP;
      const each = isBeside ? Math.floor((width - GAP * (views.length - 1)) / views.length) : width;
      let [x, y] = [0, HEADER];
      boxes = views.map((view) => {
        const size = view.measure(each);
        const box = { x, y, width: Math.max(each, size.width), height: size.height };
        if (isBeside) x += box.width + GAP; else y += box.height + HEADER;
        return box;
      });
      const [right, bottom] = [boxes.map((box) => box.x + box.width), boxes.map((box) => box.y + box.height)];
      return { width: Math.max(...right), height: Math.max(...bottom) };
    }

    /** The part of a box that is in sight, from the box's corner. */
    function within(box, seen) {
      const [x, y] = [Math.max(seen.x, box.x), Math.max(seen.y, box.y)];
      const [right, bottom] = [Math.min(seen.x + seen.width, box.x + box.width), Math.min(seen.y + seen.height, box.y + box.height)];
      return { x: x - box.x, y: y - box.y, width: right - x, height: bottom - y };
    }

    function draw(pen, seen, isMore = false) {
      views.forEach((view, number) => {
        const box = boxes[number];
        const part = within(box, seen);
        const title = { size: 13, weight: 600, fill: colour("--text") };
        if (!isMore) pen.text(pens.fit(titleOf(panels[number]), box.width - 16, 13, 600), box.x + 8, box.y - HEADER / 2 + 2, title);
        if (part.width <= 0 || part.height <= 0) return;
        const paint = () => view.draw(pens.shifted(pen, box.x, box.y), part, isMore);
        if (pen.apart) pen.apart(paint, box); else paint();
        if (!isMore && box.x > 0) pen.path([["M", box.x - GAP / 2, box.y - HEADER], ["L", box.x - GAP / 2, box.y + box.height]], { stroke: colour("--rule") });
      });
    }

    function hit(x, y) {
      for (const [panel, box] of boxes.entries()) {
        const isInside = x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
        const found = isInside ? views[panel].hit(x - box.x, y - box.y) : null;
        if (found) return { panel, found };
      }
      return null;
    }

    let last = 0;
    function hover(at) {
      // Where another panel was pointed at before, nothing is any more.
      if (at?.panel !== last) views[last].hover(null);
      last = at?.panel ?? last;
      if (at) views[last].hover(at.found);
    }

    /** Keys go to the panel in which a word was chosen last, or that was chosen by its number. */
    function key(pressed) {
      const chosen = Number(pressed) - 1;
      if (!(chosen in views)) return views[state.panel].key(pressed);
      viewer.change({ panel: chosen, word: null, kept: false });
      return true;
    }

    function focus() {
      const found = views[state.panel].focus();
      const box = boxes[state.panel];
      return found && box ? { ...found, x: found.x + box.x, y: found.y + box.y } : null;
    }

    /** What all panels say is said once. */
    function says() {
      const found = views.map((view) => view.says());
      if (new Set(found.map((parts) => JSON.stringify(parts))).size === 1) return found[0];
      const title = (number) => ["quiet", `${pens.fit(titleOf(panels[number]), 220, 15)}: `];
      return found.flatMap((parts, number) => [...(number ? [["break", ""]] : []), title(number), ...parts]);
    }

    return {
      measure, draw, hit, hover, focus, says,
      choose: ({ panel, found }) => views[panel].choose(found),
      key,
      hint: () => `${views[0].hint()} 1 and 2 choose a panel.${name === "model" ? "" : " The panels share one scale."}`,
      needs: () => [...new Set(views.flatMap((view) => view.needs()))],
      label: `${views[0].label}, ${views.length} panels`,
    };
  }

  document.body.classList.toggle("several", panels.length > 1);
  viewer.views = Object.fromEntries(NAMES.map((name) => [name, panels.length > 1 ? together(name) : viewer.own[name]]));
})();
