"""The report of one or several runs: one HTML document with its style, script and data inside it."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from bertology._files import explained_system_errors, read_checksums, real_path, write_derived
from bertology._names import by_key, evenly, layer_label, short_names
from bertology._page import full_page
from bertology.corpora import Corpus, corpus_is_available, load_corpus
from bertology.errors import BertologyError, ResultsError, StoreError
from bertology.measures.metrics import ITSELF, LAYER_COLUMNS, metric_form
from bertology.results import table as printed
from bertology.results import views
from bertology.results._items import SplitTexts, label_columns, tally_of, tree_items
from bertology.results._results import OverSteps, Results, View, read_results
from bertology.results.predictions import Predictions
from bertology.results.rows import ATTENTION, VECTORS, ResultRow, Score
from bertology.results.table import Cell, Table, metric_title, number, titled
from bertology.results.views import LayerTable

_HERE = "results/report/assets/"
_OF_ALL = "start", "tables", "heatmap"
# Charts and details are of layers: where heads alone were asked there is nothing for their scripts to do.
_OF_LAYERS = "overview", "chart", "cloze", "details"
# What they offer and keep is all that the others made.
_LAST = "download", "state"


def counted(count: int, noun: str) -> str:
    """``1 layer``, ``5 layers``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


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
        of_run = replace(kept, rows=views.named(kept.rows, models))
        try:
            over_steps, view = of_run.at_last_step()
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
    same_about = attrgetter("task", "task_version", "corpus_fingerprint", "split", "annotation")
    every = ((run, table) for run in runs for table in run.view.tables)
    by_question = by_key(((same_about(table.about), table.metric), (run, table)) for run, table in every)
    described, readers = [], []
    for same in by_question.values():
        table, about = same[0][1], same[0][1].about
        version = f"{about.task_version}, {metric_title(table.metric)}"
        described.append([table.task, printed.data_of(about), version, f"data {about.corpus_fingerprint[:6]}"])
        readers.append([_reader(run, table) for run, table in same])
    questions = []
    labelled = zip(printed.apart(described), by_question.values(), printed.apart_in_groups(readers), strict=True)
    for label, same, names in labelled:
        entries = (Entry(run, table, name) for (run, table), name in zip(same, names, strict=True))
        questions.append(Question(label, tuple(entries)))
    return tuple(questions)


def _reader(run: Run, table: LayerTable) -> tuple[str, ...]:
    """The model, and whatever else may set it apart from others that are asked the same question."""
    about = table.about
    model = f"{about.model}{' (random weights)' if about.init == 'random' else ''}"
    readout = about.reading if table.one_of_several else ""
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
    if not with_text:
        reason = dict.fromkeys((row.corpus_fingerprint for _, row in of_words), "the report was made without text")
        return SentenceTexts({}, reason, allowed=False)
    given = [load_corpus(name, columns=columns) for name in corpora]

    @cache  # of this call only: files may be others the next time
    def load(asked: AskedCorpus) -> Corpus | str:
        """A corpus, or the reason why there is none."""
        if not corpus_is_available(asked.name):
            return "is not on this machine"
        try:
            corpus = load_corpus(asked.name, columns=asked.columns)
        except BertologyError as error:
            return f"cannot be read ({error})"
        return replace(corpus, splits={name: split[: asked.sentences] for name, split in corpus.splits.items()})

    splits: dict[tuple[str, str], SplitTexts] = {}
    reasons: dict[str, str] = {}
    for run, about in of_words:
        key = about.corpus_fingerprint, about.split
        sources = run.asked or (AskedCorpus(name=about.corpus),)
        tried = {f"corpus {one.name}": load(one) for one in sources} if key not in splits else {}
        for corpus in (*given, *tried.values()):
            found = None if isinstance(corpus, str) else corpus.as_read(*key)
            if found is not None and about.split in found:
                splits.setdefault(key, SplitTexts(found[about.split]))
        texts = (f"{name} {why if isinstance(why, str) else 'is another one here'}" for name, why in tried.items())
        reasons.setdefault(about.corpus_fingerprint, f"{'; '.join(texts)}: name the one that was scored with --corpus")
    return SentenceTexts(splits, reasons, prompts=_find_prompts([one for one in asked if one[1].answers_itself]))


def _find_prompts(asked: Sequence[tuple[Run, ResultRow]]) -> dict[str, Mapping[str, Any]]:
    """The items of cloze tasks, as far as what was asked is on this machine and is still the same."""
    found: dict[str, Mapping[str, Any]] = {}
    for run, about in asked:
        probe = printed.probe_of(about)
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


def _kept_predictions(entry: Entry) -> tuple[list[int], list[Predictions], int | None] | str:
    """The layers whose predictions were kept, these of the lowest seed, and that seed; or why there are none."""
    about, results = entry.table.about, entry.run.results
    if about.is_statistic or about.readout in ATTENTION:
        of = "vectors" if about.readout == VECTORS else "models" if about.is_statistic else "heads"
        return f"statistics of {of} are kept as sums, not as predictions of single items"
    same = about.init, ITSELF, "ok"
    rows = [row for row in entry.table.rows if (row.init, row.control, row.status) == same]
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
    return places[evenly(len(places), most)]


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
    predictions = [replace(one, label_sets=False) for one in predictions]
    scores = [label_columns(one) for one in predictions]
    codes: dict[str, int] = {}  # the most frequent gold label first
    for label in (label for of_layer in scores for label in of_layer["label"]):
        codes.setdefault(label, len(codes))

    def coded(one: Predictions, column: NDArray[np.integer]) -> Integers:
        numbers: Integers = np.array([codes.get(label, 0) for label in one.labels], dtype=np.int64)[column]
        return numbers

    gold = coded(predictions[0], predictions[0].gold)
    pred = np.stack([coded(one, one.pred) for one in predictions])
    wrong, first = np.asarray(pred != gold[None]), list(codes)[:_MOST_LABELS]
    per_label: dict[str, Any] = {"support": np.bincount(gold, minlength=len(codes))[:_MOST_LABELS].tolist()}
    for name in ("precision", "recall", "f1"):
        columns = [dict(zip(of_layer["label"], of_layer[name].tolist(), strict=True)) for of_layer in scores]
        per_label[name] = [_rounded(map(column.get, first)) for column in columns]
    chosen = _chosen_items(wrong, most_items)
    ids = [predictions[0].item_ids[item] for item in chosen.tolist()]
    corpus, split = entry.table.about.corpus_fingerprint, entry.table.about.split
    text = texts.splits.get((corpus, split))
    return {
        "layers": layers,
        "labels": list(codes),
        "nItems": len(gold),
        "perLabel": per_label,
        "confusion": _confusions(gold, pred, len(codes)),
        "confused": min(_MOST_CONFUSED, len(codes)),
        **_mistakes(wrong),
        "ids": ids,
        "gold": gold[chosen].tolist(),
        "pred": pred[:, chosen].tolist(),
        "places": [_place(text, item, sentences) for item in ids],
        "seed": seed,
        "noText": "" if text else texts.reasons.get(corpus) or "the corpus was not found",
    }


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
    by_name = views.group_rows(entry.table)
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
    both: tuple[list[list[int]], list[list[int]]] = ([], [])
    for one, of_layer in zip(kept, wrong[:, chosen].tolist(), strict=True):
        for rows, codes, is_other in zip(both, (one.gold, one.pred), ([False] * len(chosen), of_layer), strict=True):
            texts = [one.labels[code] for code in codes[chosen].tolist()]
            if not with_text:  # one word is an answer; several may be a sentence of a corpus
                texts = [_HIDDEN[other] if " " in text else text for text, other in zip(texts, is_other, strict=True)]
            rows.append([words.setdefault(text, len(words)) for text in texts])
    gold, pred = both
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
        _card(of, title=f"{of.task} · {printed.model_of(of.row)}", model=str(of.row.model), task=column)
        for column, of in heads.items()
    ]
    # What a reader may choose, each by its value and label.
    models = dict.fromkeys([*(entry.label for *_, entry in entries), *(str(of.row.model) for of in heads.values())])
    several = len({of.row.model for of in heads.values()}) > 1
    columns = {column: question.label for column, question, _ in entries}
    columns |= {column: f"{of.task} · {of.row.model}" if several else of.task for column, of in heads.items()}
    shown = {name for *_, entry in entries for name in entry.table.shown}
    scores = {
        column.script or name: column.title or f"{name} metric"
        for name, column in LAYER_COLUMNS.items()
        if name in shown
    }
    sections = _tables_of(runs, lambda run: (*run.view.head_tables, *run.view.step_tables), of_heads=True)
    return full_page(
        _HERE + "page.html",
        title="bertology report: " + ", ".join(run.name for run in runs),
        styles=(),
        scripts=[f"{_HERE}{name}.js" for name in (*_OF_ALL, *(_OF_LAYERS if questions else ()), *_LAST)],
        data=_payload(questions, texts or SentenceTexts())
        | {"heads": [one for run in runs for one in _heads(run.view)]},
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
        over_steps=_tables_of(runs, lambda run: run.over_steps.shown() if run.over_steps else ()),
        wholes=_tables_of(runs, lambda run: run.view.wholes),
        overview=_overview(questions),
        provenance=[(run.name, _provenance(run)) for run in runs],
        interval_of=printed.interval_of,
        layer_label=layer_label,
        number=number,
        titled=titled,
    )


def _overview(questions: Sequence[Question]) -> dict[str, Any]:
    """Main scores of all tables, a row for each layer of each reader; baselines below, which belong to no layer."""
    cells: dict[tuple[str, int], list[dict[str, Any] | None]] = defaultdict(lambda: [None] * len(questions))
    for place, question in enumerate(questions):
        for number_of_entry, entry in enumerate(question.entries):
            table = entry.table
            common = {"entry": number_of_entry, "task": table.task, "metric": table.metric}
            common["sign"] = 1 if table.about.higher_is_better else -1
            for line in table.lines:
                shown = {**common, "main": line.main, "best": line.in_best_set}
                cells[entry.label, line.layer][place] = shown if line.main else None
    readers = list(dict.fromkeys(entry.label for question in questions for entry in question.entries))
    ordered = sorted(cells.items(), key=lambda item: (readers.index(item[0][0]), item[0][1]))
    rows = [{"reader": reader, "layer": layer, "cells": of_layer} for (reader, layer), of_layer in ordered]
    tables = [[(entry.label, entry.table) for entry in question.entries] for question in questions]
    return {"rows": rows, "with_model": len(readers) > 1, "baselines": list(views.baseline_rows(tables))}


def _tables_of(
    runs: Sequence[Run], tables: Callable[[Run], Iterable[Table]], *, of_heads: bool = False
) -> list[dict[str, Any]]:
    """Static tables, named by their run if there are several; those of heads hidden with their model and task."""
    found = [(run, table) for run in runs for table in tables(run)]
    several, shown, n_heads = len({run.name for run, _ in found}) > 1, [], 0
    for run, table in found:
        task = f"h{n_heads}" if table.corner == views.MEASURED else ""
        n_heads += table.corner == views.MEASURED
        model = str(table.row.model) if of_heads else ""
        title = " · ".join(filter(None, [table.title, model, run.name if several else ""]))
        shown.append({"title": title, "model": model, "task": task, "table": table})
    return shown


def _payload(questions: Sequence[Question], texts: SentenceTexts) -> dict[str, Any]:
    """Everything that is drawn or listed on demand: scores of layers, details, sentences."""
    sentences: dict[str, int] = {}
    n_layers = sum(len(entry.table.lines) for question in questions for entry in question.entries)
    # All layers together list 150,000 predictions of wrong items, but each table at least 200 items and at most 3,000.
    budget = max(200, min(3000, 150_000 // max(1, n_layers)))
    plain = []
    for question in questions:
        table, tables = question.first, [(entry.label, entry.table) for entry in question.entries]
        labels = views.baseline_labels([of for _, of in tables])
        # Of these baselines each reader has its own.
        owned = {label for label in labels if views.baseline_owners(label, [tables]) != (None,)}
        is_preferred = any(column.prefers == table.metric for column in LAYER_COLUMNS.values())
        plain.append(
            {"label": question.label, "task": table.task, **_form(table.metric), "isAccuracy": is_preferred}
            | {"higherIsBetter": table.about.higher_is_better}
            | {"entries": [_entry(entry, texts, sentences, budget, owned) for entry in question.entries]}
        )
    return {"questions": plain, "sentences": list(sentences)}


def _heads(view: View) -> Iterator[dict[str, Any]]:
    """The scores of all heads of each table: by what is measured, by head in the order of the model."""
    for best, every in zip(view.head_tables, view.all_heads, strict=True):
        heads, lines = [line.label for line in every.lines if not line.baseline], []
        for name, line in zip(every.headers, best.lines, strict=True):
            scores, row = every.column(name), line.row
            lines.append(
                {"name": name, **_form(row.metric), "higherIsBetter": row.higher_is_better}
                | {"best": heads.index(str(row.head)), "standsOut": bool(line.best)}
                | {"scores": [rounded_score(scores.get(head), digits=4) for head in heads]}
            )
        yield {"model": str(best.row.model), "heads": heads, "lines": lines}


def _form(metric: str) -> dict[str, Any]:
    form = metric_form(metric)
    return {"metric": form.title, "percent": form.is_fraction, "decimals": form.decimals}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: dict[str, int], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table, own_head = entry.table, entry.table.about.answers_itself
    second = metric_form(table.shown.get("second", ""))
    lines = [
        {"layer": line.layer}
        | {LAYER_COLUMNS[name].script or name: rounded_score(score) for name, score in line.scores.items()}
        | {"spread": None if line.seed_spread is None else round(line.seed_spread.value, 6)}
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


def _about(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Heading and value of the models, corpora, tasks, date and number of scores of the report."""
    tables: list[Any] = [of for run in runs for of in (*run.view.tables, *run.view.head_tables, *run.view.step_tables)]
    rows, abouts = [row for run in runs for row in run.results.rows], [table.about for table in tables]
    days = sorted({row.started_utc[:10] for row in rows if row.started_utc})
    depths = ("" if row.n_layers is None else f", {row.n_layers} layers" for row in abouts)
    facts = {
        "Models": [printed.model_of(row) + depth for row, depth in zip(abouts, depths, strict=True)],
        "Corpora": map(printed.data_of, abouts),
        "Tasks": (table.task for table in tables),
        "Date": [" to ".join(dict.fromkeys([*days[:1], *days[-1:]]))],
        "Scores": [f"{sum(row.value is not None for row in rows):,} in {counted(len(runs), 'run')}"],
    }
    return [(heading, text) for heading, values in facts.items() if (text := "; ".join(dict.fromkeys(values)))]


def _card(table: LayerTable | Table, **more: Any) -> dict[str, Any]:
    """A table in short: its question, its best line with all of its cells, its baselines and its notes."""
    about, shown = (table.row, table) if isinstance(table, Table) else (table.about, table.table())
    question = getattr(printed.probe_of(about), "question", "")
    facts = {"question": f"{question} (task {about.task}, {about.task_version})".strip()}
    lines, best, place = [line for line in shown.lines if not line.baseline], "", 0
    if isinstance(table, LayerTable):
        line = table.chosen_line
        place = 0 if line is None else table.lines.index(line)
        if metric_form(table.metric).ranks_layers and line is not None:
            best = printed.layers_named([one.layer for one in table.lines if one.in_best_set] or [line.layer])
    if lines:
        text = "; ".join(f"{header} {cell}" for header, cell in zip(shown.headers, lines[place].cells, strict=True))
        facts["shown"] = f"{shown.corner.lower()} {lines[place].label}: {text}"
    facts["baselines"] = "; ".join(f"{line.label} {line.cells[0]}" for line in shown.lines if line.baseline)
    facts |= {note.about: note.text for note in shown.notes}
    if chances := about.chances:
        facts["chance"] = f"{number(sum(chances.values()) / len(chances))} %"
    column = 2 if isinstance(table, Table) else 0
    cell = lines[place].cells[column] if lines else Cell(printed.NOTHING)
    known = {name: text for name, text in facts.items() if text}
    return {"figure": cell.text, "interval": cell.interval, "metric": shown.title, "best": best, "notes": known, **more}


_PROVENANCE = {
    "experiment": "{0.experiment}",
    "tables": "schema {0.schema_version}",
    "tasks": "{0.task} {0.task_version}",
    "models": "{1}, {0.init}: {0.model_fingerprint}",
    "corpora": "{0.corpus} {0.split}: {0.corpus_fingerprint}",
    "readouts": "{0.readout}.{0.readout_version}",
    "pooling": "{0.pooling}",
    "seeds": "{0.seed}",
    "device": "{0.device}",
    "dtype": "{0.dtype}",
    "intervals": "{0.ci_method}",
    "intervals of means": "{0.mean_ci_method}",
}
"""What is said of how a run was made, by its heading, of a row and the run's own name of its model."""


def _provenance(run: Run) -> list[tuple[str, str]]:
    """Heading and value of everything a run says of how it was made."""
    rows = run.results.rows
    facts = {"folder": run.name}
    for heading, form in _PROVENANCE.items():
        texts = dict.fromkeys(form.format(row, run.models.get(row.model or "")) for row in rows)
        facts[heading] = "; ".join(text for text in texts if text and "None" not in text)
    versions: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        for name, version in json.loads(row.versions).items():
            versions[name][str(version)] = None
    facts["versions"] = "; ".join(f"{name} {' and '.join(sorted(known))}" for name, known in sorted(versions.items()))
    times = sorted({row.started_utc for row in rows if row.started_utc})
    facts["started"] = " to ".join(dict.fromkeys([*times[:1], *times[-1:]]))
    timed = [(row, row.wall_s) for row in rows if row.wall_s is not None and row.started_utc]
    n_fits = len({(row.task, row.model, row.init, row.started_utc) for row, _ in timed})
    facts["fitting took"] = f"{sum(seconds for _, seconds in timed):,.1f} s in {counted(n_fits, 'fit')}"
    kept = {row.cell_id: row.predictions_sha256 is not None for row in rows}
    facts["cells"] = f"{len(kept):,}, {counted(len(rows), 'row')}; predictions of {sum(kept.values()):,}, with SHA-256"
    return [(heading, value) for heading, value in facts.items() if value]
