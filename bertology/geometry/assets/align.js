// Two texts, and lines between the words that a layer links.
(() => {
  const { data, at, made, layerLabel } = page;
  const sides = ["first", "second"];
  const state = { layer: data.layer, least: 0, side: null, word: null };

  for (const side of sides) {
    data[side].forEach((word, place) => {
      const button = made("button", { type: "button" }, word);
      const look = () => { state.side = side; state.word = place; mark(); };
      const leave = () => { state.word = null; mark(); };
      button.addEventListener("pointerenter", look);
      button.addEventListener("focus", look);
      button.addEventListener("click", look);
      button.addEventListener("pointerleave", leave);
      button.addEventListener("blur", leave);
      at(side).append(button);
    });
  }

  const links = () => data.links[state.layer].filter((link) => link[2] >= state.least);
  const isNear = (link) => state.word === null || link[state.side === "first" ? 0 : 1] === state.word;

  function draw() {
    const stage = at("stage"), svg = at("lines"), box = stage.getBoundingClientRect();
    svg.setAttribute("width", stage.scrollWidth);
    svg.setAttribute("height", stage.clientHeight);
    svg.replaceChildren();
    at("rows").replaceChildren();
    const words = sides.map((side) => [...at(side).children]);
    const linked = [new Set(), new Set()];
    for (const [i, j, similar] of links()) {
      linked[0].add(i);
      linked[1].add(j);
      const [a, b] = [words[0][i].getBoundingClientRect(), words[1][j].getBoundingClientRect()];
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      const left = stage.scrollLeft - box.left;
      line.setAttribute("x1", a.left + a.width / 2 + left);
      line.setAttribute("y1", a.bottom - box.top);
      line.setAttribute("x2", b.left + b.width / 2 + left);
      line.setAttribute("y2", b.top - box.top);
      line.style.opacity = Math.max(0.2, similar);
      svg.append(line);
      at("rows").append(made("tr", {}, ...[data.first[i], data.second[j], similar.toFixed(2)].map((text) => made("td", {}, text))));
    }
    words.forEach((some, side) => some.forEach((word, place) => word.classList.toggle("none", !linked[side].has(place))));
    at("layer-told").textContent = layerLabel(data.layers[state.layer]);
    at("least-told").textContent = state.least.toFixed(2);
    at("count").textContent = `${svg.children.length} links`;
    mark();
  }

  function mark() {
    const words = sides.map((side) => [...at(side).children]);
    for (const some of words) for (const word of some) word.classList.remove("near");
    links().forEach((link, number) => {
      const near = isNear(link);
      at("lines").children[number].classList.toggle("far", !near);
      at("rows").children[number].classList.toggle("near", near && state.word !== null);
      if (near && state.word !== null) [0, 1].forEach((side) => words[side][link[side]].classList.add("near"));
    });
  }

  const layer = at("layer"), least = at("least");
  layer.max = data.layers.length - 1;
  layer.value = state.layer;
  layer.addEventListener("input", () => { state.layer = Number(layer.value); draw(); });
  least.addEventListener("input", () => { state.least = Number(least.value); draw(); });
  addEventListener("resize", draw);
  draw();
})();
