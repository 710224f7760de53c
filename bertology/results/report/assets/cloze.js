// Behind a score of a cloze task: groups by layer, prompts that one layer got wrong and another right, what was left out.
report.cloze = (() => {
  "use strict";
  const { element, number, interval, count, fillSelect, chosen } = report;
  const byId = (id) => document.getElementById(id);
  const PAGE = 20;
  const ANY = "any";
  let limit = PAGE;
  let question = null;
  let entry = null;

  const details = () => entry.details;
  const row = (layer) => details().layers.indexOf(layer);
  /** What is said of an item that is not right: of changes nothing is right or wrong. */
  const verb = () => (details().tally === "changes" ? ["moves", "does not move"] : ["gets wrong", "gets right"]);

  function show(ofQuestion, ofEntry) {
    [question, entry] = [ofQuestion, ofEntry];
    limit = PAGE;
    showGroups();
    const missing = details().noItems;
    byId("prompts-body").hidden = Boolean(missing);
    byId("prompts-missing").hidden = !missing;
    byId("excluded-body").hidden = Boolean(missing) || !details().nExcluded;
    if (missing) {
      byId("prompts-missing").textContent = `Single prompts are not shown: ${missing}.`;
      return;
    }
    const group = byId("prompts-group");
    const options = [[ANY, "any"], ...details().names.map((name, code) => [code, name])];
    fillSelect(group, options, options.some(([value]) => String(value) === group.value) ? group.value : ANY);
    showPrompts();
    showExcluded();
  }

  function showGroups() {
    const { groups, clusters } = details();
    byId("groups-body").hidden = !groups.length;
    const { sortHead } = report.tables;
    const { percent, decimals, metric } = question;
    const layers = entry.lines.map((line) => line.layer);
    const skipped = groups.some((group) => group.skipped);
    const chance = groups.some((group) => group.chance !== null);
    const heads = [sortHead("Group", "group", "text"), sortHead("Items", "items"), sortHead(`${clusters[0].toUpperCase()}${clusters.slice(1)}`, "clusters"), skipped ? sortHead("Skipped", "skipped") : null,
      chance ? sortHead("Chance", "chance") : null, ...layers.map((layer) => sortHead(String(layer), `layer-${layer}`))];
    const values = groups.flatMap((group) => group.scores.filter(Boolean).map((score) => score[0]));
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const plain = (key, value, text) => element("td", { "data-key": key, "data-value": value ?? "" }, text);
    const rows = groups.map((group) => element("tr", {},
      element("th", { scope: "row", class: "text", "data-key": "group" }, group.name),
      plain("items", group.items, count(group.items)), plain("clusters", group.clusters, count(group.clusters)),
      skipped ? plain("skipped", group.skipped, count(group.skipped)) : null,
      chance ? plain("chance", group.chance, number(group.chance)) : null,
      ...group.scores.map((score, place) => {
        const cell = element("td", { "data-key": `layer-${layers[place]}`, "data-value": score?.[0] ?? "", "data-low": score?.[1], "data-high": score?.[2], class: layers[place] === chosen.layer ? "chosen" : null },
          score ? number(score[0], percent, decimals) : "–", score && interval(score) ? element("span", { class: "ci" }, interval(score, percent, decimals)) : null);
        if (score) cell.style.setProperty("--share", most > least ? (score[0] - least) / (most - least) : 0.5);
        return cell;
      })));
    report.tables.fill(byId("groups-table"), heads.filter(Boolean), rows);
    const same = new Set(groups.map((group) => group.chance)).size === 1;
    byId("groups-note").textContent = `${metric}${percent ? ", in percent," : ""} of each group's items alone, by layer; layer 0 is the embeddings. In brackets 95 % intervals, from the group's own ${clusters}.${chance && same ? " Chance is the same for all." : ""}`;
  }

  /** The items listed: wrong at the layer, right at the other one, of the group asked for. */
  function matching() {
    const found = details();
    const [here, there] = [row(chosen.layer), row(chosen.other)];
    const [group, wanted] = [byId("prompts-group").value, byId("prompts-find").value.trim().toLowerCase()];
    return found.ids.map((_, i) => i).filter((i) => {
      const contrast = found.wrong[here][i] && (here === there || !found.wrong[there][i]);
      const asked = (found.prompts[i]?.slice(0, 2) ?? []).map((number) => report.data.sentences[number] ?? "").join(" ");
      const text = `${found.ids[i]} ${asked} ${gold(here, i)} ${found.words[found.pred[here][i]]}`.toLowerCase();
      return contrast && (group === ANY || found.group[i] === Number(group)) && (!wanted || text.includes(wanted));
    });
  }

  const gold = (layer, i) => details().words[(details().gold[layer] ?? details().gold[0])[i]];

  function showPrompts() {
    const found = details();
    const [here, there] = [row(chosen.layer), row(chosen.other)];
    const same = here === there;
    const [wrong, right] = verb();
    const list = matching();
    byId("prompts-title").textContent = `Prompts that layer ${chosen.layer} ${wrong}${same ? "" : ` and layer ${chosen.other} ${right}`}`;
    const back = same ? "" : ` The other way round it is ${count(found.wrongRight[there][here])}.`;
    const cut = found.nWrong > found.ids.length ? ` Of ${count(found.nWrong)} that some layer ${wrong}, ${count(found.ids.length)} are kept in this file, spread over all pairs of layers.` : "";
    const how = { choices: "“log p” is the natural logarithm of the probability of what is right, “against” that of what it is compared with.",
      changes: "“was” is the word that the layer puts first in the text as it was, “now” the one in the changed text, “rank” the place of the former there." }[found.tally]
      ?? "“rank” is the place of the answer in the vocabulary, “p” its probability, “log p” the natural logarithm of that.";
    byId("prompts-note").textContent = `${count(found.wrongRight[here][there])} of ${count(found.nItems)}.${back}${cut} ${how}`;
    byId("prompts-count").textContent = `${count(list.length)} listed`;
    byId("prompts").replaceChildren(...list.slice(0, limit).map((i) => prompt(i, here, there)));
    byId("prompts-more").hidden = list.length <= limit;
    byId("prompts-more").textContent = `Show ${Math.min(PAGE, list.length - limit)} more`;
  }

  function prompt(i, here, there) {
    const found = details();
    const group = found.names.length > 1 ? found.names[found.group[i]] : "";
    const asked = found.prompts[i];
    const head = element("div", { class: "sentence" }, ...(asked ? withText(asked) : [element("mark", {}, found.ids[i]), ` ${group}`]));
    const answers = element("div", { class: "answers" });
    if (asked?.[2].length) answers.append(element("span", {}, "candidates: ", asked[2].join(", ")));
    const moving = found.tally === "changes";
    if (!moving) answers.append(element("span", {}, "right: ", element("b", {}, gold(here, i))));
    answers.append(said(chosen.layer, here, i, moving));
    if (here !== there) answers.append(said(chosen.other, there, i, moving));
    if (asked) answers.append(element("span", { class: "id" }, group ? `${found.ids[i]} · ${group}` : found.ids[i]));
    return element("li", {}, head, answers);
  }

  /** The text of an item with its mask, and in a line of its own the second one. */
  function withText([text, other]) {
    const masked = (number) => report.data.sentences[number].split("{mask}").flatMap((part, place) => (place ? [element("mark", {}, "[MASK]"), part] : [part]));
    return [...masked(text), ...(other === null ? [] : [element("br"), element("span", { class: "nothing" }, "second text: "), ...masked(other)])];
  }

  function said(layer, place, i, moving) {
    const found = details();
    const word = element("b", {}, found.words[found.pred[place][i]]);
    const kind = moving ? null : found.wrong[place][i] ? "worse" : "better";
    const before = moving ? [`layer ${layer}: was `, element("b", {}, gold(place, i)), ", now "] : [`layer ${layer}: `];
    return element("span", { class: kind }, ...before, word, numbers(found.rank[place][i], found.score[place][i], found.rival[place][i], found.tally));
  }

  function numbers(rank, score, rival, tally) {
    const parts = [];
    if (rank > 0 && tally !== "choices") parts.push(`rank ${count(rank)}`);
    // Of a whole sentence the probability has no digit to show.
    if (score !== null && Math.exp(score) >= 0.0005) parts.push(`p ${number(Math.exp(score))} %`);
    if (score !== null) parts.push(`log p ${number(score, false, 2)}`);
    if (rival !== null) parts.push(tally === "changes" ? `before ${number(rival, false, 2)}` : `against ${number(rival, false, 2)}`);
    return parts.length ? ` (${parts.join(", ")})` : "";
  }

  function showExcluded() {
    const { excluded, nExcluded } = details();
    const { sortHead } = report.tables;
    const heads = [sortHead("Item", "item", "text"), sortHead("Group", "group", "text"), sortHead("Reason", "reason", "text")];
    const cell = (key, text) => element("td", { "data-key": key, class: "text" }, text);
    const rows = excluded.map(([item, group, reason]) => element("tr", {}, element("th", { scope: "row", class: "text", "data-key": "item" }, item), cell("group", group), cell("reason", reason)));
    report.tables.fill(byId("excluded-table"), heads, rows);
    byId("excluded-note").textContent = `${count(nExcluded)} that count in no score.${nExcluded > excluded.length ? ` ${count(excluded.length)} of them, evenly spread.` : ""}`;
  }

  function refilter() {
    limit = PAGE;
    showPrompts();
  }

  byId("prompts-swap").addEventListener("click", () => report.choose({ layer: chosen.other, other: chosen.layer }));
  for (const id of ["prompts-group", "prompts-find"]) byId(id).addEventListener("input", refilter);
  byId("prompts-more").addEventListener("click", () => {
    const before = limit;
    limit += PAGE;
    showPrompts();
    // The button moves down or goes away: what it brought is where one reads on.
    const next = byId("prompts").children[before];
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
  });
  return { show };
})();
