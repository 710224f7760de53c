"""Scores as data frames: of tasks, groups and labels; confusions; predicted trees as items that have a label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import short_names
from bertology.errors import ResultsError
from bertology.measures import METRICS, RELATION, UNSCORED, CountKind, bootstrap, count_labels, count_numbers
from bertology.measures.metrics import label_scores, read_edges, read_root
from bertology.results.tables.predictions import Predictions, split_sets
from bertology.results.tables.rows import ResultRow, chances_of, reading_of, sort_key
from bertology.results.views.across import group_names
from bertology.results.views.grid import named
from bertology.results.views.layers import mean_score, own_init

if TYPE_CHECKING:
    import pandas as pd

_KEY = ("task", "corpus", "split", "model", "pooling", "readout", "layer", "metric")
_SCORE = dict.fromkeys(("value", "ci_low", "ci_high"), "float64")
_TYPES = {"layer": "Int64", **_SCORE, "n_items": "int64", "n_seeds": "int64"}
_LONGEST = 8
_NOT_FOUND = "not found"
_Item = tuple[str, str, str]
"""Words of a sentence, counted from 1; what is true of them; what is predicted."""


def score_frame(rows: Sequence[ResultRow]) -> pd.DataFrame:
    """:meth:`Results.scores`."""
    import pandas as pd

    questions: dict[tuple[str, str | None], list[ResultRow]] = defaultdict(list)
    for row in filter(_is_score, rows):
        questions[row.task, row.model].append(row)
    own: list[ResultRow] = []
    for same in questions.values():
        init = own_init(same)
        own += [row for row in same if row.init == init]
    cells: dict[tuple[Any, ...], list[ResultRow]] = defaultdict(list)
    for row in named(sorted(own, key=sort_key), short_names(row.model for row in rows)):
        cells[tuple(reading_of(row) if name == "readout" else getattr(row, name) for name in _KEY)].append(row)
    frame = []
    for key, runs in cells.items():
        score = mean_score(runs)
        assert score is not None  # rows without a value were left out before
        frame.append((*key, score.value, score.low, score.high, runs[0].n_items, len({row.seed for row in runs})))
    return pd.DataFrame(frame, columns=[*_KEY, *_SCORE, "n_items", "n_seeds"]).astype(_TYPES)


def _is_score(row: ResultRow) -> bool:
    """Whether a row is a score of a task itself, of all its items: no control, no baseline, no head, no group."""
    whole = row.model is not None and row.head is None and row.group is None and row.control == "none"
    return whole and row.status == "ok" and row.value is not None and row.metric != "selectivity"


def group_scores(rows: Sequence[ResultRow]) -> pd.DataFrame:
    """The groups of one cell, in order of first appearance, from its rows of one metric and one seed.

    Columns are ``items`` (scored), ``clusters`` (they stand in), ``skipped`` (items), ``value``, ``ci_low`` and
    ``ci_high`` (fractions, NaN where undefined), and ``chance`` where something is chosen; ``attrs`` has the metric.
    """
    import pandas as pd

    by_name = {str(row.group): row for row in rows}
    groups = {name: by_name[name] for name in group_names(rows)}
    frame = pd.DataFrame(index=pd.Index(list(groups), name="group"))
    for count in ("items", "clusters", "skipped"):
        frame[count] = [getattr(row, f"n_{count}") for row in groups.values()]
    for name in _SCORE:
        frame[name] = np.array([getattr(row, name) for row in groups.values()], dtype=np.float64)
    chances = [chances_of(row).get(name) for name, row in groups.items()]
    if any(chance is not None for chance in chances):
        frame["chance"] = np.array(chances, dtype=np.float64)
    frame.attrs["metric"] = rows[0].metric
    return frame


def scores_by(kept: Predictions, groups: Sequence[str], metric: str) -> pd.DataFrame:
    """Scores of groups into which the items of one cell are sorted, with 95 % intervals over clusters.

    Columns are ``items``, ``clusters``, ``value``, ``ci_low`` and ``ci_high``.

    Args:
        kept: predicted labels, or predicted numbers.
        groups: ``[item]`` the name of the group of each item; empty for items that are left out.
        metric: the name of a metric of labels or numbers.

    Raises:
        ResultsError: another number of names than of items, or a metric of something else.
    """
    import pandas as pd

    kind, names = tally_of(metric), np.asarray(groups, dtype=object)
    if len(names) != len(kept.gold):
        raise ResultsError(f"by: {len(names)} names of groups for {len(kept.gold)} items; give one for each item")
    if kind not in ("labels", "numbers"):
        raise ResultsError(f"items of {metric} are no labels or numbers of words, which groups could divide")
    lines = {}
    for name in dict.fromkeys(name for name in names.tolist() if name):
        clusters, cluster = np.unique(kept.cluster[names == name], return_inverse=True)
        gold, pred = kept.gold[names == name], kept.pred[names == name][None]
        counts: NDArray[Any]
        labels: Sequence[str] = ()
        if kind == "numbers":
            numbers = np.array(list(map(float, kept.labels)))
            counts = count_numbers(numbers[gold], numbers[pred], cluster, n_clusters=len(clusters))
        else:
            labels, members = split_sets(kept.labels) if kept.label_sets else (kept.labels, None)
            counts = count_labels(gold, pred, cluster, n_labels=len(labels), n_clusters=len(clusters), members=members)
        score = bootstrap(counts, [metric], labels=labels)[metric]
        lines[name] = (len(gold), len(clusters), score.values[0], score.ci_low[0], score.ci_high[0])
    columns = ["items", "clusters", *_SCORE]
    frame = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("group")
    frame.attrs["metric"] = metric
    return frame


def per_label_scores(predictions: Predictions) -> pd.DataFrame:
    """Precision, recall and F1 of every label that occurs or is predicted, the most frequent first.

    Columns are ``precision``, ``recall``, ``f1`` (fractions, NaN where undefined), ``support`` (items with the label),
    ``predicted`` (items given it), and of the label as a yes or no ``tp``, ``fp``, ``fn`` and ``tn`` items.
    """
    import pandas as pd

    everything = np.zeros(len(predictions.gold), dtype=np.int64)
    gold, pred = predictions.gold, predictions.pred[None]
    labels, members = split_sets(predictions.labels) if predictions.label_sets else (predictions.labels, None)
    counts = count_labels(gold, pred, everything, n_labels=len(labels), n_clusters=1, members=members)[0, 0]
    scores = label_scores(counts)
    columns = {name: getattr(scores, name) for name in ("precision", "recall", "f1", "support", "predicted")}
    columns |= dict(zip(("tp", "fp", "fn"), counts.T, strict=True))
    columns["tn"] = len(gold) - counts.sum(axis=-1)
    frame = pd.DataFrame(columns, index=pd.Index(list(labels), name="label"))
    frame = frame[(frame["support"] > 0) | (frame["predicted"] > 0)]
    return frame.sort_index().sort_values("support", ascending=False, kind="stable")


def confusion(predictions: Predictions) -> pd.DataFrame:
    """How many items of each gold label (rows) were given each label (columns), the most frequent gold label first.

    Where an item may have any number of labels, rows and columns are the sets of them.
    """
    import pandas as pd

    predictions = replace(predictions, label_sets=False)
    n_labels = len(predictions.labels)
    pairs = np.bincount(predictions.gold.astype(np.int64) * n_labels + predictions.pred, minlength=n_labels**2)
    order = per_label_scores(predictions).index
    names = list(predictions.labels)
    frame = pd.DataFrame(pairs.reshape(n_labels, n_labels), index=names, columns=names)
    return frame.loc[order, order].rename_axis(index="gold", columns="pred")


def tally_of(metric: str) -> CountKind:
    """What a metric counts; of one that is not registered, labels."""
    return METRICS[metric].count_kind if metric in METRICS else "labels"


def tree_items(predictions: Predictions, tally: CountKind) -> Predictions:
    """The parts of predicted trees, which are written as text, each an item with a label.

    ``edges`` become items labelled by how many words they reach (those of gold, punctuation left out); ``arcs`` words
    labelled by their relation, found if head and relation are right; ``roots`` the sentences' roots.
    """
    parts = {"edges": _edges, "arcs": _arcs, "roots": _roots}[tally]
    labels: dict[str, int] = {}
    ids, codes = [], []
    for item, sentence in enumerate(predictions.item_ids):
        name = sentence.rpartition(":")[0]
        gold, pred = (predictions.labels[int(column[item])] for column in (predictions.gold, predictions.pred))
        for words, label, predicted in parts(gold, pred):
            ids.append(f"{name}:{words}")
            of_labels = (labels.setdefault(text, len(labels)) for text in (label, predicted))
            codes.append((item, int(predictions.cluster[item]), *of_labels))
    items, cluster, gold_codes, pred_codes = np.array(codes, dtype=np.int64).reshape(-1, 4).T
    score, fold = np.full(len(ids), np.nan), None if predictions.fold is None else predictions.fold[items]
    coded = gold_codes, pred_codes, score, tuple(labels)
    return Predictions(ids, cluster, predictions.cluster_ids, *coded, fold=fold)


def _edges(gold: str, pred: str) -> Iterator[_Item]:
    predicted = read_edges(pred)
    for first, last in sorted(read_edges(gold)):
        reach = last - first
        label = f"{_LONGEST} words or more" if reach >= _LONGEST else f"{reach} word{'s' * (reach > 1)}"
        yield f"{first + 1},{last + 1}", label, label if (first, last) in predicted else _NOT_FOUND


def _arcs(gold: str, pred: str) -> Iterator[_Item]:
    for word, (mark, other) in enumerate(zip(gold.split(" "), pred.split(" "), strict=True), start=1):
        if mark != UNSCORED:
            head, _, relation = mark.partition(RELATION)
            predicted, _, named_as = other.partition(RELATION)
            yield str(word), relation, named_as if predicted == head else _NOT_FOUND


def _roots(gold: str, pred: str) -> Iterator[_Item]:
    marks = gold.split(" ")
    if "0" in marks:
        root = marks.index("0")
        yield str(root + 1), "root", "root" if read_root(pred) == root else _NOT_FOUND
