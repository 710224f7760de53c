"""What lies behind one table: scores by label or group, confusions, the items that a layer has wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import count_labels
from bertology.measures.metrics import label_scores
from bertology.results.report._runs import Entry, SentenceTexts, SplitText
from bertology.results.tables.predictions import Predictions
from bertology.results.tables.rows import ATTENTION, VECTORS, clusters_of, is_statistic, reading_of
from bertology.results.views.across import group_tables
from bertology.results.views.frames import tally_of, tree_items
from bertology.results.views.layers import Score

_OF_A_PAIR = 12
"""Items listed of each pair of layers, at least, that one has wrong and the other right."""
MOST_LABELS = 200
MOST_CONFUSED = 20
"""Labels that have a row and column of their own in the confusion matrix."""
MOST_ITEMS = 3000
ALL_PREDICTIONS = 150_000
"""Predictions of wrong items listed, of all layers of all tables together, but of each table ``LEAST_ITEMS`` items."""
LEAST_ITEMS = 200
MOST_EXCLUDED = 300
_SEVERAL_NUMBERS = 4
"""That are kept of an item of a cloze task, where of words there is one."""
_HIDDEN = "right text", "other text"


class _NoDetailsError(Exception):
    """There are no predictions of single items to show; caught where details are made."""


def _kept_predictions(entry: Entry) -> tuple[list[int], list[Predictions], int | None]:
    """The layers whose predictions were kept, these of the lowest seed, and that seed; without the controls."""
    about = entry.table.about
    if is_statistic(about) or about.readout in ATTENTION:
        of = "vectors" if about.readout == VECTORS else "models" if is_statistic(about) else "heads"
        raise _NoDetailsError(f"statistics of {of} are kept as sums, not as predictions of single items")
    same = ("task", "corpus_fingerprint", "split", "model", "init", "pooling", "head")
    rows = [
        row
        for row in entry.run.results.rows
        if (row.control, row.status) == ("none", "ok")
        and all(getattr(row, name) == getattr(about, name) for name in same)
        and reading_of(row) == entry.table.reading
    ]
    seed = min((row.seed for row in rows if row.seed is not None and row.layer is not None), default=None)
    cells = {row.layer: row.cell_id for row in rows if row.seed == seed and row.layer is not None}
    kept = entry.run.results.kept
    layers = sorted(layer for layer, cell in cells.items() if cell in kept)
    if not layers:
        raise _NoDetailsError("the run kept no predictions of single items")
    predictions = [kept[cells[layer]] for layer in layers]
    first = list(predictions[0].item_ids)
    if any(list(other.item_ids) != first for other in predictions[1:]):
        raise _NoDetailsError("the layers were not scored on the same items")
    return layers, predictions, seed


def _mistakes(wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """How many items each layer (rows) got wrong that another (columns) got right; on the diagonal all its mistakes."""
    as_numbers = wrong.astype(np.int64)
    counts = as_numbers @ (1 - as_numbers).T
    np.fill_diagonal(counts, as_numbers.sum(axis=1))
    return {"wrongRight": counts.tolist(), "nWrong": int(wrong.any(axis=0).sum())}


def chosen_items(wrong: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Items that some layer got wrong; of more than ``most`` some for every pair of layers, the rest evenly."""
    candidates = np.flatnonzero(wrong.any(axis=0))
    if len(candidates) <= most:
        return candidates
    chosen: set[int] = set()
    for a in wrong:
        for b in wrong:
            chosen.update(_evenly(np.flatnonzero(a & ~b), _OF_A_PAIR).tolist())
    if len(chosen) < most:
        rest = np.setdiff1d(candidates, list(chosen))
        chosen.update(_evenly(rest, most - len(chosen)).tolist())
    return np.sort(_evenly(np.array(sorted(chosen), dtype=np.int64), most))


def _evenly(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).round().astype(np.int64)]


def label_details(entry: Entry, texts: SentenceTexts, sentences: dict[str, int], *, most_items: int) -> dict[str, Any]:
    """All that the page shows of single labels and items of one table, as plain values.

    Sentences that are needed are added to those that the page holds, with their numbers.
    """
    try:
        layers, predictions, seed = _kept_predictions(entry)
    except _NoDetailsError as reason:
        return {"missing": str(reason)}
    if (tally := tally_of(entry.table.metric)) == "numbers":
        return {"missing": "what is predicted are numbers, not labels"}
    if tally != "labels":
        predictions = [tree_items(one, tally) for one in predictions]
    labels, gold, pred = _by_frequency(predictions)
    wrong = np.asarray(pred != gold[None])
    chosen = chosen_items(wrong, most_items)
    ids = [predictions[0].item_ids[item] for item in chosen.tolist()]
    corpus, split = entry.table.about.corpus_fingerprint, entry.table.about.split
    text = texts.splits.get((corpus, split))
    return {
        "layers": layers,
        "labels": labels,
        "nItems": len(gold),
        "perLabel": _label_scores(gold, pred, len(labels)),
        "confusion": _confusions(gold, pred, len(labels)),
        "confused": min(MOST_CONFUSED, len(labels)),
        **_mistakes(wrong),
        "ids": ids,
        "gold": gold[chosen].tolist(),
        "pred": pred[:, chosen].tolist(),
        "places": [_place(text, item, sentences) for item in ids],
        "seed": seed,
        "noText": "" if text else texts.reasons.get(corpus) or "the corpus was not found",
    }


def _by_frequency(predictions: Sequence[Predictions]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """The labels, the most frequent gold label first; ``[item]`` gold and ``[layer, item]`` predicted ones."""
    names = sorted({label for one in predictions for label in one.labels})
    place = {name: number for number, name in enumerate(names)}
    codes = [np.array([place[label] for label in one.labels], dtype=np.int64) for one in predictions]
    gold = codes[0][predictions[0].gold]
    pred = np.stack([of_layer[one.pred] for of_layer, one in zip(codes, predictions, strict=True)])
    order = np.argsort(-np.bincount(gold, minlength=len(names)), kind="stable")
    rank = np.argsort(order)
    return [names[number] for number in order], rank[gold], rank[pred]


def _label_scores(gold: NDArray[np.int64], pred: NDArray[np.int64], n_labels: int) -> dict[str, Any]:
    """Precision, recall and F1 of each label by layer, at most ``MOST_LABELS`` labels; null where undefined."""
    together = np.zeros(len(gold), dtype=np.int64)
    scores = []
    for of_layer in pred:
        # One layer at a time: many labels make the counts of all layers large.
        counts = count_labels(gold, of_layer[None], together, n_labels=n_labels, n_clusters=1)
        scores.append(label_scores(counts[0, 0]))
    plain: dict[str, Any] = {"support": np.bincount(gold, minlength=n_labels)[:MOST_LABELS].tolist()}
    for name in ("precision", "recall", "f1"):
        plain[name] = [rounded(getattr(score, name)[:MOST_LABELS]) for score in scores]
    return plain


def rounded(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    """Numbers as the page holds them; null where there is none."""
    return [None if value is None or not np.isfinite(value) else round(float(value), digits) for value in values]


def rounded_score(score: Score | None, *, digits: int = 6) -> list[float | None] | None:
    """Value, lower and upper bound."""
    return None if score is None else rounded((score.value, score.low, score.high), digits=digits)


def _confusions(gold: NDArray[np.int64], pred: NDArray[np.int64], n_labels: int) -> list[list[list[int]]]:
    """For each layer ``[gold, predicted, count]`` of all pairs that occur; rare labels are one, the last."""
    size = min(MOST_CONFUSED, n_labels) + 1
    shown, matrices = np.minimum(gold, size - 1), []
    for of_layer in np.minimum(pred, size - 1):
        pairs = np.bincount(shown * size + of_layer, minlength=size * size)
        matrices.append([[int(p) // size, int(p) % size, int(pairs[p])] for p in np.flatnonzero(pairs)])
    return matrices


def _place(split: SplitText | None, item: str, sentences: dict[str, int]) -> list[int] | None:
    """The number of an item's sentence, and where its spans begin and end in it; None where that is not known."""
    where = split.find(item) if split else None
    if where is None:
        return None
    text, spans = where
    number = sentences.setdefault(text, len(sentences))
    return [number, *(_utf16(text[:edge]) for span in spans for edge in span)]


def _utf16(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def item_budget(n_layers: int) -> int:
    """How many wrong items each table may list, of tables that have so many layers together."""
    return max(LEAST_ITEMS, min(MOST_ITEMS, ALL_PREDICTIONS // max(1, n_layers)))


def cloze_details(entry: Entry, texts: SentenceTexts, sentences: dict[str, int], *, most_items: int) -> dict[str, Any]:
    """All that the page shows of groups and prompts of one table of a cloze task, as plain values.

    Prompts that are known are added to the sentences that the page holds, with their numbers.
    """
    tally = tally_of(entry.table.metric)
    named = {"cloze": True, "tally": tally, "clusters": clusters_of(entry.table.about)}
    try:
        layers, kept, _ = _kept_predictions(entry)
    except _NoDetailsError as reason:
        groups = _groups(entry, ())
        of_table = [line.layer for line in entry.table.lines]
        alone = {**named, "layers": of_table, "groups": groups, "noItems": str(reason)}
        return alone if groups else {"missing": str(reason)}
    columns: dict[str, NDArray[Any]] = {
        "rank": np.stack([np.asarray(one.extra["rank"], dtype=np.int64) for one in kept]),
        "score": np.stack([np.asarray(one.score, dtype=np.float64) for one in kept]),
        "rival": np.stack([np.asarray(one.extra["rival"], dtype=np.float64) for one in kept]),
    }
    scored = np.array([not reason for reason in kept[0].extra["reason"]], dtype=bool)
    # Of changes, whether the best word moved. A tie of choices is neither right nor wrong.
    with np.errstate(invalid="ignore"):
        wrong = columns["score"] < columns["rival"] if tally == "choices" else (columns["rank"] != 1) & scored[None]
    chosen = chosen_items(wrong, max(1, most_items // _SEVERAL_NUMBERS))
    items = chosen.tolist()
    of_item = kept[0].extra["group"]
    names = list(dict.fromkeys(of_item))
    gold, pred, words = _answers(kept, chosen, wrong, with_text=texts.allowed)
    prompts = texts.prompts.get(entry.table.about.corpus_fingerprint, {})
    return {
        **named,
        "layers": layers,
        "nItems": int(scored.sum()),
        "names": names,
        "groups": _groups(entry, names),
        **_mistakes(wrong),
        "ids": [kept[0].item_ids[item] for item in items],
        "group": [names.index(of_item[item]) for item in items],
        "gold": gold,
        "pred": pred,
        "wrong": wrong[:, chosen].astype(int).tolist(),
        "rank": columns["rank"][:, chosen].tolist(),
        "score": [rounded(row) for row in columns["score"][:, chosen]],
        "rival": [rounded(row) for row in columns["rival"][:, chosen]],
        "words": words,
        "prompts": [_prompt(prompts.get(kept[0].item_ids[item]), sentences) for item in items] if prompts else [],
        **_excluded(kept[0]),
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
    layers = [line.layer for line in entry.table.lines]
    return [
        {
            "name": line.name,
            "items": line.n_items,
            "clusters": line.n_clusters,
            "skipped": line.n_skipped,
            "chance": line.chance,
            "scores": [rounded_score(line.by_layer.get(layer)) for layer in layers],
        }
        for groups in group_tables(entry.run.results.rows, [entry.table])
        for line in sorted(groups.lines, key=lambda line: place.get(line.name, len(place)))
    ]


def _answers(
    kept: Sequence[Predictions], chosen: NDArray[np.int64], wrong: NDArray[np.bool_], *, with_text: bool
) -> tuple[list[list[int]], list[list[int]], list[str]]:
    """What is right and what is predicted for the chosen items by layer, as places in the words, which come last."""
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


def _excluded(kept: Predictions) -> dict[str, Any]:
    """Items that were not scored, evenly spread where they are many, each with its reason."""
    reasons, group = kept.extra["reason"], kept.extra["group"]
    left = [item for item, reason in enumerate(reasons) if reason]
    step = max(1, -(-len(left) // MOST_EXCLUDED))
    return {
        "excluded": [[kept.item_ids[item], group[item], reasons[item]] for item in left[::step]],
        "nExcluded": len(left),
    }
