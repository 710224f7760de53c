// Sentences: of the point that is looked at, and of the neighbours in the list.
atlas.words = (() => {
  "use strict";
  const { data, state, kinds, view, byId, element, classColour, OTHER } = atlas;
  const [tip, told, list] = ["tip", "told", "near"].map(byId);
  const narrow = matchMedia("(max-width: 640px)");

  /** The sentence with the word marked, so many characters of it on each side. */
  function sentence(point, width = Infinity) {
    const text = atlas.texts[atlas.textOf[point]][0];
    const [begin, end] = [atlas.begin[point], atlas.end[point]];
    // Cut between words where there is a space near.
    const trim = (part, pattern) => part.replace(pattern, "");
    const before = begin > width + 1 ? `…${trim(text.slice(begin - width, begin), /^\S{0,14} /)}` : text.slice(0, begin);
    const after = text.length - end > width + 1 ? `${trim(text.slice(end, end + width), / \S{0,14}$/)}\u00a0…` : text.slice(end);
    return [before, element("mark", {}, text.slice(begin, end)), after];
  }

  const values = (point) => kinds.filter((kind) => kind !== "word").map((kind) => atlas.valueOf(kind, point)).filter((value) => value !== null);

  /** Rank and cosine of a neighbour, or what else the point is. */
  function role(point) {
    if (point === 0) return "the word itself";
    const { near, cosines } = atlas.layer();
    const rank = near.indexOf(point);
    return rank < 0 ? "" : `neighbour ${rank + 1}, cosine ${cosines[rank].toFixed(3)}`;
  }

  function fillTip(point) {
    const facts = [...values(point), role(point)].filter((fact) => fact !== "").join(" · ");
    const where = atlas.texts[atlas.textOf[point]][1];
    tip.replaceChildren(
      element("p", { class: "tip-head" }, element("b", {}, atlas.word(point)), facts ? ` ${facts}` : ""),
      element("p", { class: "tip-text" }, ...sentence(point, narrow.matches ? 110 : 240)),
      ...(where ? [element("p", { class: "tip-where" }, where)] : []),
    );
  }

  let shown = null;
  /** Show the sentence of what is pointed at, else of what is chosen, beside its point. */
  function showTip() {
    const point = state.hovered ?? state.chosen;
    const key = point === null ? "none" : `${point} ${state.layer}`;
    if (key !== shown) {
      shown = key;
      if (point === null) tip.replaceChildren(element("p", { class: "tip-head" }, "Tap a point to see its sentence."));
      else fillTip(point);
    }
    tip.classList.toggle("is-empty", point === null);
    tip.hidden = point === null && !narrow.matches;
    if (tip.hidden || point === null || narrow.matches) return tip.removeAttribute("style");
    const isThere = atlas.layout().isThere[point] === 1;
    const [x, y] = isThere ? view.placeOf(point) : [40, 0];
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const left = x + 18 + width > view.size.width ? Math.max(4, x - 18 - width) : x + 18;
    tip.style.left = `${Math.min(left, view.size.width - width - 4)}px`;
    tip.style.top = `${Math.max(4, Math.min(y - height / 2, view.size.height - height - 4))}px`;
  }

  /** Tell those who hear the page what is chosen. */
  function tell() {
    const point = state.chosen;
    if (point === null) return void (told.textContent = "");
    told.textContent = `${[atlas.word(point), ...values(point), role(point)].filter(Boolean).join(", ")}: ${atlas.texts[atlas.textOf[point]][0]}`;
  }

  function fillList(classes) {
    const one = atlas.layer();
    byId("near-title").textContent = `Nearest in layer ${atlas.layerName(one)}`;
    list.replaceChildren(...one.near.map((point, rank) => {
      const dot = element("span", { class: "dot" });
      dot.style.background = classColour(classes.of[point]);
      const facts = element("span", { class: "near-facts" }, dot, `${one.cosines[rank].toFixed(3)} ${values(point).join(" · ")}`);
      const text = element("span", { class: "near-text" }, ...sentence(point, 60));
      const look = () => atlas.show(point);
      return element("li", {}, element("button", { type: "button", "data-point": point, onclick: look }, facts, text));
    }));
    byId("same").textContent = kinds.map((kind) => {
      const own = atlas.valueOf(kind, 0);
      if (own === null) return null;
      const same = one.near.filter((point) => atlas.values[kind][point] === atlas.values[kind][0]).length;
      return `${same} of ${one.near.length} with the same ${kind} (${own})`;
    }).filter(Boolean).join(", ");
    mark();
  }
  function mark() {
    for (const button of list.querySelectorAll("button")) {
      const isChosen = Number(button.dataset.point) === state.chosen;
      if (isChosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  /** What is on the map, and how much of the vectors it shows. */
  function about() {
    const share = shareOf();
    const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
    const one = atlas.layer();
    const ofForm = `${atlas.isWhole ? "all" : "a sample of the"} ${count(data.nOfForm, "occurrence")} of its form`;
    const shown = state.layout
      ? `Shown are the word and ${ofForm} in the corpus. `
      : `Shown are the word and ${(data.nPoints - 1).toLocaleString("en")} of ${count(data.nWords, "word")} of the corpus, among them ${ofForm}. `;
    const how = data.projection === "tsne"
      ? "Places are found by t-SNE, which keeps near points together; distances between groups and their sizes mean nothing. "
      : `The two principal components of these in layer ${atlas.layerName(one)} are shown, which hold ${share} between these points (vectors of length 1). `;
    byId("share").textContent = share ?? "t-SNE";
    byId("about").textContent = `${shown}${how}Each layer is turned to lie as the one before it. ★ is the word in its sentence; rings with numbers are its nearest occurrences, by the cosine of all dimensions.`;
  }

  const shareOf = () => {
    const { shares } = atlas.layout();
    return shares === null ? null : `${(100 * shares[state.layer]).toFixed(1)} % of the variance`;
  };

  function legend(classes) {
    const chip = (number, name) => {
      const dot = element("span", { class: "dot" });
      dot.style.background = classColour(number);
      const toggle = () => {
        const hidden = new Set(state.hidden);
        if (!hidden.delete(number)) hidden.add(number);
        atlas.change({ hidden });
        byId("legend").querySelector(`[data-class="${number}"]`).focus();
      };
      const isShown = String(!state.hidden.has(number));
      return element("button", { type: "button", class: "chip", "data-class": number, "aria-pressed": isShown, onclick: toggle },
        dot, name, element("span", { class: "count" }, counts[number].toLocaleString("en")));
    };
    const counts = new Uint32Array(OTHER + 1);
    for (const point of atlas.layout().points) counts[classes.of[point]]++;
    const chips = [...classes.names.entries()].filter(([number]) => counts[number]).map(([number, name]) => chip(number, name));
    if (counts[OTHER]) chips.push(chip(OTHER, data.kinds[state.kind].length > classes.names.length ? "other" : `no ${state.kind}`));
    byId("legend").replaceChildren(...chips);
  }

  narrow.addEventListener("change", () => { shown = null; showTip(); });
  return { showTip, tell, fillList, mark, about, legend };
})();
