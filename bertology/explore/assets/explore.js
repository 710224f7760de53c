// The page of `bertology explore`: what is asked stands in the address, and each answer in a frame of its own.
(() => {
  "use strict";
  const WAIT = 450; // ms after the last key
  const { panels, models, corpora, lenses } = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const byName = new Map(panels.map((panel) => [panel.name, panel]));
  let running = null;
  let timer = 0;
  let asked = "";
  let before = null; // the panel that was shown
  const seconds = new Map(); // what the second box holds, by panel

  function make(name, values = {}, ...inside) {
    const made = Object.assign(document.createElement(name), values);
    made.append(...inside);
    return made;
  }

  const options = (names) => names.map((name) => make("option", { value: name }, name));
  const chosen = () => byName.get(document.querySelector("#panels input:checked").value);
  const inputs = () => [...at("settings").querySelectorAll("[name]")];

  // All that is asked; settings as they are typed.
  function state() {
    const panel = chosen();
    const found = { panel: panel.name, text: at("text").value, model: at("model").value };
    if (panel.second) found.second = at("second").value;
    if (panel.has_corpus) found.corpus = at("corpus").value;
    for (const input of inputs()) found[input.name] = input.value;
    return found;
  }

  function arrange(values = null) {
    const panel = chosen();
    if (before) seconds.set(before, at("second").value);
    if (before !== panel.name) at("second").value = seconds.get(panel.name) ?? "";
    before = panel.name;
    at("about").textContent = panel.about;
    at("second-box").hidden = !panel.second;
    at("second-label").textContent = panel.second;
    at("corpus-field").hidden = !panel.has_corpus;
    const typed = Object.fromEntries(inputs().map((input) => [input.name, input.value]));
    at("settings").replaceChildren(...panel.settings.filter((one) => one.name !== "lens" || lenses.length).map((one) => {
      const is = one.choices.length ? "select" : "input";
      const input = make(is, { name: one.name }, ...options(one.choices));
      if (one.default !== null) Object.assign(input, { type: "number", min: one.least, max: one.most, value: one.default });
      if (is === "input") input.placeholder = one.hint;
      const value = (values ?? typed)[one.name];
      if (value && (!one.choices.length || one.choices.includes(value))) input.value = value;
      return make("label", { className: "field" }, `${one.label} `, input);
    }));
    at("examples").replaceChildren(...panel.examples.filter((one) => !one.model || models.includes(one.model)).map((example) => {
      const text = Object.entries(example).filter(([name]) => name !== "model").map(([, value]) => value).join(" · ");
      const button = make("button", { type: "button", className: "chip" }, text);
      button.addEventListener("click", () => put({ ...example, panel: panel.name }));
      return button;
    }));
  }

  // Show a state and ask for its view.
  function put(values) {
    if (byName.has(values.panel)) at(`panel-${values.panel}`).checked = true;
    if (values.text !== undefined) at("text").value = values.text;
    if (models.includes(values.model)) at("model").value = values.model;
    if (corpora.includes(values.corpus)) at("corpus").value = values.corpus;
    arrange(values);
    at("second").value = values.second ?? "";
    ask();
  }

  function tell(text, isError = false) {
    at("status").textContent = text;
    at("status").classList.toggle("error", isError);
  }

  function show(answer) {
    const frame = make("iframe", { src: answer.view, title: chosen().title });
    frame.setAttribute("sandbox", "allow-scripts allow-downloads");
    at("view").replaceChildren(frame);
    at("command").textContent = answer.command;
    at("python").textContent = answer.python;
    Object.assign(at("save"), { href: `${answer.view}?save`, download: answer.file });
    at("found").hidden = false;
  }

  async function ask() {
    clearTimeout(timer);
    running?.abort();
    const question = state();
    asked = JSON.stringify(question);
    history.replaceState(null, "", `#${new URLSearchParams(question)}`);
    if (!question.text.trim()) {
      at("found").hidden = true;
      return tell("Type a sentence, or choose an example.");
    }
    const mine = (running = new AbortController());
    const began = performance.now();
    at("found").classList.add("old");
    at("stop").hidden = false;
    tell("…");
    try {
      const headers = { "content-type": "application/json" };
      const reply = await fetch("ask", { method: "POST", body: asked, headers, signal: mine.signal });
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines.map((text) => JSON.parse(text))) {
          if (line.progress) tell(`${line.progress} …`);
          if (line.error) {
            at("found").hidden = true;
            tell(line.error, true);
          }
          if (line.view) {
            show(line);
            tell(`${((performance.now() - began) / 1000).toFixed(2)} s`);
          }
        }
      }
    } catch (error) {
      if (mine.signal.aborted) tell("Stopped.");
      else tell("No answer: is bertology explore still running?", true);
    } finally {
      if (running === mine) {
        running = null;
        at("stop").hidden = true;
        at("found").classList.remove("old");
      }
    }
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(() => JSON.stringify(state()) !== asked && ask(), WAIT);
  }

  async function copy(text, button) {
    await navigator.clipboard.writeText(text);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1200);
  }

  at("panels").append(...panels.map((panel) => {
    const input = make("input", { type: "radio", name: "panel", value: panel.name, id: `panel-${panel.name}` });
    return make("label", { className: "chip" }, input, panel.title);
  }));
  at("model").append(...options(models));
  at("corpus").append(...options(corpora));
  at("panels").addEventListener("change", () => {
    arrange();
    ask();
  });
  at("question").addEventListener("input", (event) => event.target.name !== "panel" && soon());
  at("question").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  for (const id of ["text", "second"]) {
    at(id).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        ask();
      }
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && running?.abort());
  at("stop").addEventListener("click", () => running?.abort());
  at("link").addEventListener("click", (event) => copy(location.href, event.target));
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy(at(button.dataset.copy).textContent, button));
  }
  const read = () => put({ panel: "attention", ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });
  at("panel-attention").checked = true;
  arrange();
  addEventListener("hashchange", read);
  read();
})();
