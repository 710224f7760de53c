"""The report of one or several runs: one HTML document with its style, script and data inside it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from bertology._files import explained_system_errors, read_checksums, real_path, write_derived
from bertology._names import layer_label, short_names
from bertology._page import full_page
from bertology.corpora import Corpus, corpus_is_available, load_corpus
from bertology.errors import BertologyError, ResultsError, StoreError
from bertology.measures import count_labels
from bertology.measures.metrics import ITSELF, LAYER_COLUMNS, label_scores, metric_form
from bertology.results._items import SplitTexts, tally_of, tree_items
from bertology.results._results import OverSteps, Results, View, read_results
from bertology.results.predictions import Predictions
from bertology.results.rows import ATTENTION, VECTORS, ResultRow, Score
from bertology.results.table import (
    Table,
    apart,
    apart_in_groups,
    data_of,
    interval_of,
    layers_named,
    metric_title,
    model_of,
    number,
    probe_of,
    titled,
)
from bertology.results.views import (
    HeadTable,
    LayerTable,
    baseline_labels,
    baseline_owners,
    baseline_rows,
    group_rows,
    has_steps,
    last_steps,
    named,
)

_HERE = "results/report/assets/"
_PROMPT = "prompt"
_OF_ALL = "start", "tables", "heatmap"
# Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
_OF_LAYERS = "overview", "chart", "cloze", "details"
# What they offer and keep is all that the others made.
_LAST = "download", "state"


def counted(count: int, noun: str) -> str:
    """``1 layer``, ``5 layers``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


_IN_TEMPLATE: tuple[Any, ...] = (
    counted,
    data_of,
    interval_of,
    layer_label,
    layers_named,
    metric_form,
    model_of,
    number,
    titled,
)


Integers = NDArray[np.int64]


class AskedCorpus(BaseModel, frozen=True):
    """A corpus as it was named in the request or experiment."""

    name: str
    sentences: int | None = None
    """At most so many of each split, the first ones; all when None."""
    columns: str | None = None
    items: int | None = None
    """Number of items of each group of cloze tasks; all when None."""


@dataclass(frozen=True)
class Run:
    """One run's results."""

    name: str
    """The shortest end of its path that sets it apart from the other runs."""
    results: Results
    """Its rows call models by their short names."""
    models: Mapping[str, str]
    """The run's own name of each model, such as a path, by short name."""
    view: View
    """Its tables; of checkpoints of a training those of the last one."""
    over_steps: OverSteps | None = None
    """The tables over the checkpoints of a training."""
    asked: Sequence[AskedCorpus] = ()
    """The corpora as the person named them; none where the folder does not record them."""


@dataclass(frozen=True)
class Entry:
    """One answer to a question: a table, the run it comes from, and what sets it apart from other answers."""

    run: Run
    table: LayerTable
    label: str


@dataclass(frozen=True)
class Question:
    """A task on the same data, from any model or run: only scores of one question may be compared."""

    label: str
    entries: tuple[Entry, ...]

    @property
    def first(self) -> LayerTable:
        """A table, for what all of them share: task, metric, corpus."""
        return self.entries[0].table


def read_runs(folders: Sequence[str | Path]) -> tuple[Run, ...]:
    """The runs in ``folders``; a folder named twice counts once."""
    unique = {str(real_path(folder)): Path(folder) for folder in folders}
    if not unique:
        raise ResultsError("there is no run to report: name a folder that --out left")
    results = list(map(_results_in, unique.values()))
    names = short_names(unique)
    models = short_names(row.model for of_run in results for row in of_run.rows)
    runs = []
    for (real, folder), kept in zip(unique.items(), results, strict=True):
        of_run = replace(kept, rows=named(kept.rows, models))
        try:
            over_steps = of_run.over_steps() if has_steps(of_run.rows) else None
            view = (of_run if over_steps is None else replace(of_run, rows=last_steps(of_run.rows))).view()
        except ResultsError as error:
            raise ResultsError(f"{folder}: {error}") from error
        own = {models[row.model]: row.model for row in kept.rows if row.model}
        runs.append(Run(names[real], of_run, own, view, over_steps, _asked_corpora(folder)))
    return tuple(runs)


def _results_in(folder: Path) -> Results:
    if not folder.exists():
        raise ResultsError(f"{folder}: no such folder; name one that --out left")
    if not (folder / "results.parquet").is_file():
        raise ResultsError(f"{folder}: not a run, it holds no results.parquet; name a folder that --out left")
    checksums = read_checksums(folder)
    for table in ("results.parquet", "comparisons.parquet"):
        if checksums is not None and (folder / table).is_file() and checksums.is_altered(folder, table):
            raise ResultsError(
                f"{folder / table}: altered since the run wrote it, so that its scores cannot be reported; "
                "`bertology verify` says what else was, `rerun` makes it anew"
            )
    return read_results(folder)


def _asked_corpora(folder: Path) -> list[AskedCorpus]:
    """The corpora as the run's own record names them; it only helps to find sentences."""
    import yaml

    try:
        record = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
        return [AskedCorpus.model_validate(one) for one in record["corpora"]]
    except (OSError, ValueError, TypeError, LookupError, yaml.YAMLError):
        return []


def group_questions(runs: Sequence[Run]) -> tuple[Question, ...]:
    """Tables grouped by what they may be compared on, in order of first appearance.

    Tables of different data, task versions or metrics never share a question, so nothing mixes them.
    """
    by_question: dict[tuple[str, ...], list[tuple[Run, LayerTable]]] = {}
    for run in runs:
        for table in run.view.tables:
            about = table.about
            key = about.task, about.task_version, table.metric, about.corpus_fingerprint, about.split, about.annotation
            by_question.setdefault(key, []).append((run, table))
    described, readers = [], []
    for same in by_question.values():
        table, about = same[0][1], same[0][1].about
        version = f"{about.task_version}, {metric_title(table.metric)}"
        described.append([table.task, data_of(about), version, f"data {about.corpus_fingerprint[:6]}"])
        readers.append([_reader(run, table) for run, table in same])
    labels: dict[int, str] = {}
    for task in dict.fromkeys(parts[0] for parts in described):
        same_task = [place for place, parts in enumerate(described) if parts[0] == task]
        labels |= dict(zip(same_task, apart([described[place] for place in same_task]), strict=True))
    questions = []
    for place, (same, names) in enumerate(zip(by_question.values(), apart_in_groups(readers), strict=True)):
        entries = (Entry(run, table, name) for (run, table), name in zip(same, names, strict=True))
        questions.append(Question(labels[place], tuple(entries)))
    return tuple(questions)


def _reader(run: Run, table: LayerTable) -> tuple[str, ...]:
    """The model, and whatever else may set it apart from others that are asked the same question."""
    about = table.about
    model = f"{about.model}{' (random weights)' if about.init == 'random' else ''}"
    readout = table.reading if table.one_of_several else ""
    return model, run.name, readout, f"{about.pooling} of pieces" if about.pooling else ""


@dataclass(frozen=True)
class SentenceTexts:
    """The splits that were found, and why others were not."""

    splits: Mapping[tuple[str, str], SplitTexts] = field(default_factory=dict)
    """The sentences by fingerprint of the corpus and name of the split."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason why the sentences of a corpus are not shown, by fingerprint."""
    allowed: bool = True
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The items of each cloze task as its probe has them, by fingerprint and id."""


def find_sentences(
    runs: Sequence[Run], *, corpora: Sequence[str] = (), columns: str | None = None, with_text: bool = True
) -> SentenceTexts:
    """The sentences that the runs were scored on, as far as they are on this machine; nothing is downloaded for them.

    They are looked for in ``corpora``, of which each must be readable, before those that the runs themselves name.
    """
    asked = [(run, table.about) for run in runs for table in run.view.tables]
    # Tables whose items are words of a corpus, not prompts.
    of_words = [(run, about) for run, about in asked if not about.answers_itself]
    wanted = {(about.corpus_fingerprint, about.split) for _, about in of_words}
    if not with_text:
        reason = dict.fromkeys((fingerprint for fingerprint, _ in wanted), "the report was made without text")
        return SentenceTexts({}, reason, allowed=False)
    splits: dict[tuple[str, str], SplitTexts] = {}

    def take(corpus: Corpus) -> None:
        for key in wanted:
            if key[0] == corpus.fingerprint and key[1] in corpus:
                splits[key] = SplitTexts(corpus[key[1]])

    for given in (load_corpus(name, columns=columns) for name in corpora):
        for key in wanted:
            take(given.as_read(*key) or given)

    @cache  # of this call only: files may be others the next time
    def load(named: AskedCorpus) -> Corpus:
        corpus = load_corpus(named.name, columns=named.columns)
        return replace(corpus, splits={name: split[: named.sentences] for name, split in corpus.splits.items()})

    def look_in(named: AskedCorpus, about: ResultRow) -> Corpus | str:
        """A corpus if it is the one looked for, else the reason why it is not taken."""
        if not corpus_is_available(named.name):
            return f"corpus {named.name} is not on this machine; name its place with --corpus"
        try:
            corpus = load(named).as_read(about.corpus_fingerprint, about.split)
        except BertologyError as error:
            return f"corpus {named.name} cannot be read ({error})"
        return corpus or f"corpus {named.name} as it is here is not the one that was scored; name that with --corpus"

    reasons: dict[str, str] = {}
    # Of each corpus of a run the name that its first table has.
    first = {(about.corpus_fingerprint, run.name): (run, about) for run, about in reversed(of_words)}
    for (fingerprint, _), (run, about) in first.items():
        if any(key[0] == fingerprint for key in splits):
            continue
        tried = [look_in(one, about) for one in run.asked or (AskedCorpus(name=about.corpus),)]
        reasons[fingerprint] = "; ".join(reason for reason in tried if isinstance(reason, str))
        for corpus in tried:
            if isinstance(corpus, Corpus):
                take(corpus)
    prompts = _find_prompts([(run, about) for run, about in asked if about.answers_itself])
    return SentenceTexts(splits, reasons, prompts=prompts)


def _find_prompts(asked: Sequence[tuple[Run, ResultRow]]) -> dict[str, Mapping[str, Any]]:
    """The items of cloze tasks, as far as what was asked is on this machine and is still the same."""
    found: dict[str, Mapping[str, Any]] = {}
    for run, about in asked:
        probe = probe_of(about)
        for source in run.asked or (AskedCorpus(name=about.corpus),):
            if about.corpus_fingerprint in found or not hasattr(probe, "read_items"):
                break
            try:
                whole = probe.read_items(source.name, columns=source.columns)
            except BertologyError:
                # Of another task, or no longer there: the page says which items it has no text of.
                continue
            n = source.items
            parts = [whole.some_of_each_group(n, whole_clusters=clusters) for clusters in (False, True)] if n else []
            for items in (whole, *parts):
                if items.fingerprint == about.corpus_fingerprint:
                    found[about.corpus_fingerprint] = {item.id: item for item in items.items}
    return found


_OF_A_PAIR = 12
"""Items listed of each pair of layers, at least, that one has wrong and the other right."""
_MOST_LABELS = 200
_MOST_CONFUSED = 20
"""Labels that have a row and column of their own in the confusion matrix."""
_MOST_EXCLUDED = 300
_SEVERAL_NUMBERS = 4
"""Numbers kept of an item of a cloze task, where of words there is one."""
_HIDDEN = "right text", "other text"


def item_budget(n_layers: int) -> int:
    """The number of wrong items that each of several tables may list, by the number of their layers together.

    All layers of all tables together list 150,000 predictions, but each table at least 200 items, and at most 3,000.
    """
    return max(200, min(3000, 150_000 // max(1, n_layers)))


def _kept_predictions(entry: Entry) -> tuple[list[int], list[Predictions], int | None] | str:
    """The layers whose predictions were kept, these of the lowest seed, and that seed; or why there are none."""
    about, results = entry.table.about, entry.run.results
    if about.is_statistic or about.readout in ATTENTION:
        of = "vectors" if about.readout == VECTORS else "models" if about.is_statistic else "heads"
        return f"statistics of {of} are kept as sums, not as predictions of single items"
    same = {name: getattr(about, name) for name in ("task", "corpus_fingerprint", "split", "model", "init", "pooling")}
    same |= {"head": about.head, "control": ITSELF, "status": "ok", "reading": entry.table.reading}
    rows = [row for row in results.rows if row.layer is not None]
    rows = [row for row in rows if all(getattr(row, name) == value for name, value in same.items())]
    seed = min((row.seed for row in rows if row.seed is not None), default=None)
    cells = {row.layer: row.cell_id for row in rows if row.seed == seed and row.layer is not None}
    layers = sorted(layer for layer, cell in cells.items() if cell in results.kept)
    if not layers:
        return "the run kept no predictions of single items"
    predictions = [results.kept[cells[layer]] for layer in layers]
    first = list(predictions[0].item_ids)
    if any(list(other.item_ids) != first for other in predictions[1:]):
        return "the layers were not scored on the same items"
    return layers, predictions, seed


def _mistakes(wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """Counts of items that one layer (rows) got wrong and another (columns) right; on the diagonal all its mistakes."""
    as_numbers = wrong.astype(np.int64)
    counts = as_numbers @ (1 - as_numbers).T
    np.fill_diagonal(counts, as_numbers.sum(axis=1))
    return {"wrongRight": counts.tolist(), "nWrong": int(wrong.any(axis=0).sum())}


def _chosen_items(wrong: NDArray[np.bool_], most: int) -> Integers:
    """Items that some layer got wrong; of more than ``most`` some for every pair of layers, the rest evenly."""
    candidates = np.flatnonzero(wrong.any(axis=0))
    if len(candidates) <= most:
        return candidates
    of_pairs = [_evenly(np.flatnonzero(a & ~b), _OF_A_PAIR) for a in wrong for b in wrong]
    chosen = np.unique(np.concatenate(of_pairs))
    if len(chosen) < most:
        chosen = np.union1d(chosen, _evenly(np.setdiff1d(candidates, chosen), most - len(chosen)))
    return _evenly(chosen, most)


def _evenly(places: Integers, most: int) -> Integers:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).round().astype(np.int64)]


def label_details(entry: Entry, texts: SentenceTexts, sentences: dict[str, int], *, most_items: int) -> dict[str, Any]:
    """All that the page shows of single labels and items of one table, as plain values.

    Sentences that are needed are added to those that the page holds, with their numbers.
    """
    if isinstance(found := _kept_predictions(entry), str):
        return {"missing": found}
    layers, predictions, seed = found
    if (tally := tally_of(entry.table.metric)) == "numbers":
        return {"missing": "what is predicted are numbers, not labels"}
    if tally != "labels":
        predictions = [tree_items(one, tally) for one in predictions]
    # The most frequent gold label first.
    names = np.array(sorted({label for one in predictions for label in one.labels}), dtype=object)
    codes = [np.searchsorted(names, np.array(one.labels, dtype=object)) for one in predictions]
    gold = codes[0][predictions[0].gold]
    order = np.argsort(-np.bincount(gold, minlength=len(names)), kind="stable")
    rank = np.argsort(order)
    pred = rank[np.stack([of_layer[one.pred] for of_layer, one in zip(codes, predictions, strict=True)])]
    gold = rank[gold]
    wrong = np.asarray(pred != gold[None])
    chosen = _chosen_items(wrong, most_items)
    ids = [predictions[0].item_ids[item] for item in chosen.tolist()]
    corpus, split = entry.table.about.corpus_fingerprint, entry.table.about.split
    text = texts.splits.get((corpus, split))
    return {
        "layers": layers,
        "labels": names[order].tolist(),
        "nItems": len(gold),
        "perLabel": _label_scores(gold, pred, len(names)),
        "confusion": _confusions(gold, pred, len(names)),
        "confused": min(_MOST_CONFUSED, len(names)),
        **_mistakes(wrong),
        "ids": ids,
        "gold": gold[chosen].tolist(),
        "pred": pred[:, chosen].tolist(),
        "places": [_place(text, item, sentences) for item in ids],
        "seed": seed,
        "noText": "" if text else texts.reasons.get(corpus) or "the corpus was not found",
    }


def _label_scores(gold: Integers, pred: Integers, n_labels: int) -> dict[str, Any]:
    """Precision, recall and F1 of the first labels by layer; null where undefined."""
    together = np.zeros(len(gold), dtype=np.int64)
    # One layer at a time: many labels make the counts of all layers large.
    counts = (count_labels(gold, one[None], together, n_labels=n_labels, n_clusters=1)[0, 0] for one in pred)
    scores = list(map(label_scores, counts))
    plain: dict[str, Any] = {"support": np.bincount(gold, minlength=n_labels)[:_MOST_LABELS].tolist()}
    for name in ("precision", "recall", "f1"):
        plain[name] = [_rounded(getattr(score, name)[:_MOST_LABELS]) for score in scores]
    return plain


def _rounded(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    """Numbers as the page holds them; null where there is none."""
    return [None if value is None or not np.isfinite(value) else round(float(value), digits) for value in values]


def rounded_score(score: Score | None, *, digits: int = 6) -> list[float | None] | None:
    """Value, lower and upper bound."""
    return None if score is None else _rounded((score.value, score.low, score.high), digits=digits)


def _confusions(gold: Integers, pred: Integers, n_labels: int) -> list[list[list[int]]]:
    """``[gold, predicted, count]`` of all pairs that occur, for each layer; rare labels are one, the last."""
    size = min(_MOST_CONFUSED, n_labels) + 1
    shown, matrices = np.minimum(gold, size - 1), []
    for of_layer in np.minimum(pred, size - 1):
        pairs = np.bincount(shown * size + of_layer, minlength=size * size)
        matrices.append([[int(p) // size, int(p) % size, int(pairs[p])] for p in np.flatnonzero(pairs)])
    return matrices


def _place(split: SplitTexts | None, item: str, sentences: dict[str, int]) -> list[int] | None:
    """The number of an item's sentence, and where its spans begin and end in it; None where that is not known."""
    where = split.find(item) if split else None
    if where is None:
        return None
    text, spans = where
    number = sentences.setdefault(text, len(sentences))
    # As JavaScript counts letters.
    edges = (text[:edge].encode("utf-16-le", "surrogatepass") for span in spans for edge in span)
    return [number, *(len(before) // 2 for before in edges)]


def cloze_details(entry: Entry, texts: SentenceTexts, sentences: dict[str, int], *, most_items: int) -> dict[str, Any]:
    """All that the page shows of groups and prompts of one table of a cloze task, as plain values.

    Prompts that are known are added to the sentences that the page holds, with their numbers.
    """
    about, tally = entry.table.about, tally_of(entry.table.metric)
    common = {"cloze": True, "tally": tally, "clusters": about.clusters}
    if isinstance(found := _kept_predictions(entry), str):
        groups = _groups(entry, ())
        layers = [line.layer for line in entry.table.lines]
        return {**common, "layers": layers, "groups": groups, "noItems": found} if groups else {"missing": found}
    layers, kept, _ = found
    rank = np.stack([np.asarray(one.extra["rank"], dtype=np.int64) for one in kept])
    score = np.stack([np.asarray(one.score, dtype=np.float64) for one in kept])
    rival = np.stack([np.asarray(one.extra["rival"], dtype=np.float64) for one in kept])
    ids, reasons, group_of = kept[0].item_ids, kept[0].extra["reason"], kept[0].extra["group"]
    scored = np.array([not reason for reason in reasons], dtype=bool)
    # Of changes, whether the best word moved. A tie of choices is neither right nor wrong.
    with np.errstate(invalid="ignore"):
        wrong = score < rival if tally == "choices" else (rank != 1) & scored[None]
    chosen = _chosen_items(wrong, max(1, most_items // _SEVERAL_NUMBERS))
    items = chosen.tolist()
    names = list(dict.fromkeys(group_of))
    gold, pred, words = _answers(kept, chosen, wrong, with_text=texts.allowed)
    known = texts.prompts.get(about.corpus_fingerprint, {})
    left = np.flatnonzero(~scored).tolist()  # shown evenly spread where they are many
    return {
        **common,
        "layers": layers,
        "nItems": int(scored.sum()),
        "names": names,
        "groups": _groups(entry, names),
        **_mistakes(wrong),
        "ids": [ids[item] for item in items],
        "group": [names.index(group_of[item]) for item in items],
        "gold": gold,
        "pred": pred,
        "wrong": wrong[:, chosen].astype(int).tolist(),
        "rank": rank[:, chosen].tolist(),
        "score": [_rounded(row) for row in score[:, chosen]],
        "rival": [_rounded(row) for row in rival[:, chosen]],
        "words": words,
        "prompts": [_prompt(known.get(ids[item]), sentences) for item in items] if known else [],
        "excluded": [[ids[i], group_of[i], reasons[i]] for i in left[:: max(1, -(-len(left) // _MOST_EXCLUDED))]],
        "nExcluded": len(left),
    }


def _prompt(item: Any, sentences: dict[str, int]) -> list[Any] | None:
    """Numbers of an item's text and of the one that it is compared with, or null; and what is chosen from."""
    if item is None:
        return None
    numbers = [sentences.setdefault(text, len(sentences)) if text else None for text in (item.text, item.other)]
    return [*numbers, [item.answer, *item.rivals] if item.rivals else []]


def _groups(entry: Entry, order: Sequence[str]) -> list[dict[str, Any]]:
    """Counts and scores of each group, in the order of the task; none where all items are one group."""
    place = {name: number for number, name in enumerate(order)}
    by_name, _ = group_rows(entry.run.results.rows, entry.table)
    groups = []
    for name in sorted(by_name, key=lambda name: place.get(name, len(place))):
        first, scores = by_name[name][0], {row.layer: row.score for row in by_name[name] if row.value is not None}
        counts = {"items": first.n_items, "clusters": first.n_clusters, "skipped": first.n_skipped}
        by_layer = [rounded_score(scores.get(line.layer)) for line in entry.table.lines]
        groups.append({"name": name, **counts, "chance": first.chances.get(name), "scores": by_layer})
    return groups


def _answers(
    kept: Sequence[Predictions], chosen: Integers, wrong: NDArray[np.bool_], *, with_text: bool
) -> tuple[list[list[int]], list[list[int]], list[str]]:
    """Right and predicted answers for the chosen items by layer, as places in the words, which come last."""
    words: dict[str, int] = {}

    def coded(one: Predictions, codes: NDArray[np.integer], hidden: NDArray[np.bool_]) -> list[int]:
        texts = [one.labels[code] for code in codes[chosen].tolist()]
        if not with_text:
            # One word is an answer; several may be a sentence of a corpus.
            texts = [_HIDDEN[int(other)] if " " in text else text for text, other in zip(texts, hidden, strict=True)]
        return [words.setdefault(text, len(words)) for text in texts]

    gold, pred = [], []
    for layer, one in enumerate(kept):
        gold.append(coded(one, one.gold, np.zeros(len(chosen), dtype=bool)))
        pred.append(coded(one, one.pred, wrong[layer, chosen]))
    # What is right is the same at all layers, unless it is what a layer itself predicts for another text.
    return gold if any(row != gold[0] for row in gold) else gold[:1], pred, list(words)


@explained_system_errors()
def write_report(
    runs: Sequence[str | Path],
    path: str | Path,
    *,
    corpora: Sequence[str] = (),
    columns: str | None = None,
    with_text: bool = True,
) -> Path:
    """Write the results of ``runs`` as one HTML file, which is returned and needs no other file and no network.

    Args:
        runs: folders that runs left.
        path: the file to write.
        corpora: names or paths of corpora to take sentences from; those the runs name are tried as well, as far as
            they are on this machine.
        columns: what the columns of ``corpora`` hold, where they are column files: ``form,xpos,chunk``.
        with_text: whether sentences may stand in the file; otherwise only their ids do.

    Raises:
        ResultsError: a folder is not a run, or a file in it is broken or was written by a newer version.
        StoreError: the file cannot be written.
        BertologyError: a corpus of ``corpora`` cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"cannot write {path}: it is a folder; name a file in --out")
    read = read_runs(runs)
    page = render_report(read, find_sentences(read, corpora=corpora, columns=columns, with_text=with_text))
    write_derived(path.parent, {path.name: page.encode()}, remedy="name another file with --out")
    return path


def render_report(runs: Sequence[Run], texts: SentenceTexts | None = None) -> str:
    """The whole page, with the sentences behind item ids, or only ids when left out.

    It makes no request: style, script and data are inside it, and its content security policy allows nothing else, by
    the hash of each.
    """
    questions = group_questions(runs)
    entries = [(f"q{place}", question, entry) for place, question in enumerate(questions) for entry in question.entries]
    heads = {f"h{place}": table for place, table in enumerate(of for run in runs for of in run.view.head_tables)}
    tasks = [question.first.task for question in questions]
    cards = [
        _card(entry.table, title=f"{question.label} · {entry.label}", model=entry.label, task=column)
        for column, question, entry in entries
    ]
    cards += [
        _card(of, title=f"{of.task} · {model_of(of.about)}", model=str(of.about.model), task=column)
        for column, of in heads.items()
    ]
    # What a reader may choose, each by its value and label.
    models = dict.fromkeys([*(entry.label for *_, entry in entries), *(str(of.about.model) for of in heads.values())])
    several = len({of.about.model for of in heads.values()}) > 1
    columns = {column: question.label for column, question, _ in entries}
    columns |= {column: f"{of.task} · {of.about.model}" if several else of.task for column, of in heads.items()}
    shown = {
        name
        for *_, entry in entries
        for line in entry.table.lines
        for name, one in line.scores.items()
        if one is not None
    }
    scores = {
        column.script or name: column.title or f"{name} metric"
        for name, column in LAYER_COLUMNS.items()
        if name in shown
    }
    sections = list(_heads_section(runs))
    return full_page(
        _HERE + "page.html",
        title="bertology report: " + ", ".join(run.name for run in runs),
        styles=(),
        scripts=[f"{_HERE}{name}.js" for name in (*_OF_ALL, *(_OF_LAYERS if questions else ()), *_LAST)],
        data=_payload(questions, list(heads.values()), texts or SentenceTexts()),
        sizes=_sizes(entry.table.about for *_, entry in entries),
        n_runs=len(runs),
        of_heads=list(heads.values()),
        n_heads=max((len(line.heads) for of in heads.values() for line in of.lines), default=0),
        n_things=len({(of.task, of.metric, line.name) for of in heads.values() for line in of.lines}),
        about=_about(runs),
        apart=", ".join(sorted({task for task in tasks if tasks.count(task) > 1})),
        questions=questions,
        compared=any(entry.table.compared for *_, entry in entries),
        models=[(model, model) for model in models],
        columns=list(columns.items()),
        scores=list(scores.items()),
        cards=cards,
        own_heads={entry.table.about.answers_itself for *_, entry in entries},
        head_maps=[one for one in sections if one["task"]],
        heads=sections,
        over_steps=_tables_of({run.name: run.over_steps.shown() for run in runs if run.over_steps is not None}),
        wholes=_tables_of({run.name: run.view.wholes for run in runs if run.view.wholes}),
        overview=_overview(questions),
        provenance=[(run.name, _provenance(run)) for run in runs],
        **{function.__name__: function for function in _IN_TEMPLATE},
        ranks=lambda metric: tally_of(metric) != "changes",
        layer_columns=LAYER_COLUMNS,
    )


def _overview(questions: Sequence[Question]) -> dict[str, Any]:
    """Main scores of all tables, a row for each layer of each reader; baselines below, which belong to no layer."""
    cells: dict[tuple[str, int], list[dict[str, Any] | None]] = defaultdict(lambda: [None] * len(questions))
    for place, question in enumerate(questions):
        for number_of_entry, entry in enumerate(question.entries):
            table = entry.table
            common = {"entry": number_of_entry, "task": table.task, "metric": table.metric}
            common["sign"] = 1 if table.higher_is_better else -1
            for line in table.lines:
                shown = {**common, "main": line.main, "best": line.in_best_set}
                cells[entry.label, line.layer][place] = shown if line.main else None
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    ordered = sorted(cells.items(), key=lambda item: (readers.index(item[0][0]), item[0][1]))
    rows = [{"reader": reader, "layer": layer, "cells": of_layer} for (reader, layer), of_layer in ordered]
    baselines = baseline_rows([[(entry.label, entry.table) for entry in question.entries] for question in questions])
    return {"rows": rows, "with_model": len(readers) > 1, "baselines": list(baselines)}


def _heads_section(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Tables of heads and steps, which the page hides with their model and task.

    Their titles name the model, and the run where several asked for heads of that model.
    """
    of_models = Counter(model for run in runs for model in {str(of.about.model) for of in run.view.head_tables})
    n_heads = 0
    for run in runs:
        of_heads = [(f"h{n_heads + number}", of.table()) for number, of in enumerate(run.view.head_tables)]
        n_heads += len(of_heads)
        for task, shown in (*of_heads, *(("", steps) for steps in run.view.step_tables)):
            model = str(shown.row.model)
            title = f"{shown.title} · {model}" + f" · {run.name}" * (of_models[model] > 1)
            yield {"title": title, "model": model, "task": task, "table": shown}


def _tables_of(by_run: Mapping[str, Iterable[Table]]) -> list[dict[str, Any]]:
    """Static tables, named by their run if there are several."""
    return [
        {"title": table.title + (f" · {name}" if len(by_run) > 1 else ""), "table": table, "model": ""}
        for name, tables in by_run.items()
        for table in tables
    ]


def _payload(questions: Sequence[Question], heads: Sequence[HeadTable], texts: SentenceTexts) -> dict[str, Any]:
    """Everything that is drawn or listed on demand: scores of layers, details, sentences."""
    sentences: dict[str, int] = {}
    budget = item_budget(sum(len(entry.table.lines) for question in questions for entry in question.entries))
    plain = []
    for question in questions:
        table, tables = question.first, [(entry.label, entry.table) for entry in question.entries]
        labels = baseline_labels([of for _, of in tables])
        # Of these baselines each reader has its own.
        owned = {label for label in labels if baseline_owners(label, [tables]) != (None,)}
        is_preferred = any(column.prefers == table.metric for column in LAYER_COLUMNS.values())
        plain.append(
            {"label": question.label, "task": table.task, **_form(table.metric), "isAccuracy": is_preferred}
            | {"higherIsBetter": table.higher_is_better}
            | {"entries": [_entry(entry, texts, sentences, budget, owned) for entry in question.entries]}
        )
    of_heads = []
    for of in heads:
        lines = [
            {"name": of.label(line), **_form(line.metric), "higherIsBetter": line.higher_is_better}
            | {"best": of.heads.index(line.best.head), "standsOut": line.stands_out}
            | {"scores": [rounded_score(line.heads.get(head), digits=4) for head in of.heads]}
            for line in of.lines
        ]
        of_heads.append({"model": str(of.about.model), "heads": of.heads, "lines": lines})
    return {"questions": plain, "sentences": list(sentences), "heads": of_heads}


def _form(metric: str) -> dict[str, Any]:
    form = metric_form(metric)
    return {"metric": form.title, "percent": form.is_fraction, "decimals": form.decimals}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: dict[str, int], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table, own_head = entry.table, entry.table.about.answers_itself
    second = metric_form(table.second_metric or "")
    lines = [
        {"layer": line.layer}
        | {LAYER_COLUMNS[name].script or name: rounded_score(score) for name, score in line.scores.items()}
        | {"spread": None if line.seed_spread is None else round(line.seed_spread, 6)}
        | {"best": line.in_best_set, "strength": line.strength}
        for line in table.lines
    ]
    baselines = [
        {"name": f"{line.label}, {entry.label}" if line.label in owned else line.label}
        | {"main": rounded_score(line.main), "second": rounded_score(line.second)}
        for line in table.baselines
    ]
    details = cloze_details if own_head else label_details
    return {
        "label": entry.label,
        "run": entry.run.name,
        "second": second.title or None,
        "secondPercent": second.is_fraction,
        "secondDecimals": second.decimals,
        "seeds": table.n_seeds,
        "compared": table.compared,
        "lines": lines,
        "baselines": baselines,
        "ownHead": own_head,
        "details": details(entry, texts, sentences, most_items=budget),
    }


def _sizes(rows: Iterable[ResultRow]) -> dict[str, int]:
    """The number of sentences, or of what else clusters are, that answers are scored on; that of prompts last."""
    sizes: dict[str, dict[tuple[str, str], int]] = {}
    for about in rows:
        unit = about.clusters.partition(" of ")[0].removesuffix("s")
        noun, size = (_PROMPT, about.n_items) if about.answers_itself else (unit, about.n_clusters)
        of_data, data = sizes.setdefault(noun, {}), (about.corpus_fingerprint, about.split)
        of_data[data] = max(of_data.get(data, 0), size)
    return {noun: sum(sizes[noun].values()) for noun in sorted(sizes, key=lambda noun: noun == _PROMPT)}


def _about(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Heading and value of the models, corpora, tasks, date and number of scores of the report."""
    tables: list[Any] = []
    for run in runs:
        tables += (*run.view.tables, *run.view.head_tables, *run.view.step_tables)
    rows = [row for run in runs for row in run.results.rows]
    days = sorted({row.started_utc[:10] for row in rows if row.started_utc})
    facts: dict[str, Iterable[str]] = {
        "Models": dict.fromkeys(
            model_of(table.about) + (f", {depth} layers" if (depth := table.about.n_layers) is not None else "")
            for table in tables
        ),
        "Corpora": dict.fromkeys(data_of(table.about) for table in tables),
        "Tasks": dict.fromkeys(table.task for table in tables),
        "Date": [" to ".join(dict.fromkeys([days[0], days[-1]]))] if days else [],
        "Scores": [f"{sum(row.value is not None for row in rows):,} in {counted(len(runs), 'run')}"],
    }
    return [(heading, text) for heading, values in facts.items() if (text := "; ".join(values))]


def _card(table: LayerTable | HeadTable, **more: Any) -> dict[str, Any]:
    """A table that the page describes in words, hidden with its model or its task, with the notes of the table."""
    probe, about = probe_of(table.about), table.about
    question = "" if probe is None else str(probe.question).strip()
    name = f"task {about.task}, {about.task_version}"
    asked = f"{question[:1].upper()}{question[1:].rstrip('.')} ({name})." if question else f"{name.capitalize()}."
    notes = {note.about: note.text for note in table.table().notes}
    of_heads = isinstance(table, HeadTable)
    return {"table": table, "of_heads": of_heads, "about": about, "asked": asked, "notes": notes, **more}


def _provenance(run: Run) -> list[tuple[str, str]]:
    """Heading and value of everything a run says of how it was made."""
    rows = run.results.rows
    times = sorted({row.started_utc for row in rows if row.started_utc})
    versions: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for name, version in json.loads(row.versions).items():
            versions[str(name)].add(str(version))
    timed = [(row, row.wall_s) for row in rows if row.wall_s is not None and row.started_utc]
    jobs = {(row.task, row.model, row.init, row.started_utc) for row, _ in timed}
    took = f"{sum(seconds for _, seconds in timed):,.1f} s in {counted(len(jobs), 'fit')}"

    def all_of(values: Iterable[object]) -> str:
        return "; ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))

    n_cells = counted(len({row.cell_id for row in rows}), "cell")
    n_kept = counted(len({row.cell_id for row in rows if row.predictions_sha256 is not None}), "cell")
    facts = {
        "folder": run.name,
        "experiment": all_of(row.experiment for row in rows),
        "tables": f"schema {all_of(row.schema_version for row in rows)}, {counted(len(rows), 'row')}, {n_cells}",
        "tasks": all_of(f"{row.task} {row.task_version}" for row in rows),
        "models": all_of(f"{run.models[row.model]}, {row.init}: {row.model_fingerprint}" for row in rows if row.model),
        "corpora": all_of(f"{row.corpus} {row.split}: {row.corpus_fingerprint}" for row in rows),
        "readouts": all_of(f"{row.readout}.{row.readout_version}" for row in rows if row.readout),
        "pooling": all_of(row.pooling for row in rows),
        "seeds": all_of(row.seed for row in rows),
        "device": all_of(row.device for row in rows),
        "dtype": all_of(row.dtype for row in rows),
        "versions": "; ".join(f"{name} {' and '.join(sorted(known))}" for name, known in sorted(versions.items())),
        "intervals": all_of(method for row in rows for method in (row.ci_method, row.mean_ci_method)),
        "started": " to ".join(dict.fromkeys([times[0], times[-1]])) if times else "",
        "fitting took": took if jobs else "",
        "predictions": f"{n_kept} kept, with SHA-256",
    }
    return [(heading, value) for heading, value in facts.items() if value]
