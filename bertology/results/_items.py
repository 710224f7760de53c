"""Scores and predictions of single items as data frames, with their words where the corpus is known."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found, short_names
from bertology.corpora import Corpus, Sentences, load_corpus
from bertology.errors import ResultsError
from bertology.measures import bootstrap, count_labels, count_numbers
from bertology.measures.metrics import (
    ITSELF,
    METRICS,
    RELATION,
    UNSCORED,
    CountKind,
    label_scores,
    metric_form,
    read_edges,
    read_root,
)
from bertology.results.predictions import BETWEEN_SPANS, CLOZE, Predictions, spans_of, split_sets
from bertology.results.rows import ATTENTION, ResultRow, mean_score, own_init, sort_key
from bertology.results.views import group_names, named

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
        cells[tuple(row.reading if name == "readout" else getattr(row, name) for name in _KEY)].append(row)
    frame = []
    for key, runs in cells.items():
        score = mean_score(runs)
        assert score is not None  # rows without a value were left out before
        frame.append((*key, score.value, score.low, score.high, runs[0].n_items, len({row.seed for row in runs})))
    return pd.DataFrame(frame, columns=[*_KEY, *_SCORE, "n_items", "n_seeds"]).astype(_TYPES)


def _is_score(row: ResultRow) -> bool:
    """Whether a row is a score of a task itself, of all its items: no control, no baseline, no head, no group."""
    whole = row.model is not None and row.head is None and row.group is None and row.control == ITSELF
    return whole and row.status == "ok" and row.value is not None and not metric_form(row.metric).is_difference


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
    chances = [row.chances.get(name) for name, row in groups.items()]
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
    """Counts of items by gold label (rows) and predicted label (columns), the most frequent gold label first.

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
    """The kind of counts that a metric is made of; labels for one that is not registered."""
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


_ABOUT = ("task", "corpus", "split", "model", "layer", "init", "control", "seed")
_ITEM = ("sentence", "text", "place", "word", "gold", "predicted", "probability")
_MANY_PIECES = 4
_COLUMNS = (*_ABOUT[:4], "readout", *_ABOUT[4:], *_ITEM)


def item_frame(
    every: Sequence[ResultRow],
    rows: Sequence[ResultRow],
    kept: Mapping[str, Predictions],
    corpora: Mapping[str, Corpus],
    *,
    any_init: bool,
) -> pd.DataFrame:
    """:meth:`Results.predictions` of the cells of ``rows``, which are some of ``every``."""
    import pandas as pd

    names, texts = short_names(row.model for row in every), _texts(corpora)
    parts: list[dict[str, Any]] = []
    for row in _cells(every, rows, any_init=any_init):
        part = _items(row, kept_of(kept, row), texts)
        about = {name: getattr(row, name) for name in _ABOUT} | {"readout": row.reading or None}
        about["model"] = names.get(row.model or "")
        parts.append({name: [value] * len(part["gold"]) for name, value in about.items()} | part)
    if not parts:
        raise ResultsError(
            "no predictions of items: codes, statistics and attention heads keep sums; see .to_pandas() for scores"
        )
    more = list(dict.fromkeys(name for part in parts for name in part if name not in _COLUMNS))
    columns = {
        name: list(itertools.chain.from_iterable(part.get(name, [None] * len(part["gold"])) for part in parts))
        for name in (*_COLUMNS, *more)
    }
    types = {"layer": "Int64", "seed": "Int64", "probability": "float64"}
    return pd.DataFrame(columns).astype(types | {name: "Int64" for name in ("rank", "fold") if name in more})


def _cells(every: Sequence[ResultRow], rows: Sequence[ResultRow], *, any_init: bool) -> list[ResultRow]:
    """A row of each cell that keeps predictions of items, by the metric that the task is ranked by."""
    # The majority among the items that could be asked of a model is a row of that model's own cell.
    of_models = {row.cell_id for row in every if not row.is_baseline}
    of_sums = {row.task for row in every if row.readout in ATTENTION or row.is_statistic}
    inits: dict[tuple[str, str | None], str] = {}
    if not any_init:
        for row in every:
            if row.init is not None and (row.task, row.model) not in inits:
                same = [one for one in every if (one.task, one.model) == (row.task, row.model)]
                inits[row.task, row.model] = own_init(same)
    cells: dict[str, ResultRow] = {}
    for row in sorted(rows, key=lambda row: not row.main_metric):
        is_code = "codelength" in row.param("settings", {})
        is_other = row.init is not None and inits.get((row.task, row.model), row.init) != row.init
        is_majority = row.is_baseline and row.cell_id in of_models
        if row.status == "ok" and not (is_code or is_other or is_majority or row.task in of_sums):
            cells.setdefault(row.cell_id, row)
    order = {row.cell_id: place for place, row in reversed(list(enumerate(rows)))}
    return sorted(cells.values(), key=lambda row: order[row.cell_id])


def _items(row: ResultRow, kept: Predictions, texts: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The columns of one cell that differ between items."""
    tally = tally_of(row.metric)
    kept = tree_items(kept, tally) if tally in ("edges", "arcs", "roots") else kept
    labels = np.array(kept.labels, dtype=object)
    part: dict[str, Any] = {"gold": labels[kept.gold].tolist(), "predicted": labels[kept.pred].tolist()}
    part["probability"] = np.exp(np.asarray(kept.score, dtype=np.float64)).tolist()
    part |= {} if kept.fold is None else {"fold": kept.fold.tolist()}
    if kept.is_cloze:
        more = {name: list(kept.extra[name]) for name in CLOZE if name != "rival"}
        return {**part, **more, "sentence": list(kept.item_ids)}
    places = [item.rpartition(":")[::2] for item in kept.item_ids]
    words = texts(row.corpus_fingerprint, row.split, tuple(kept.item_ids))
    return {**part, "sentence": [name for name, _ in places], "place": [place for _, place in places], **words}


def corpora_with(known: Mapping[str, Corpus], texts: Any, rows: Sequence[ResultRow]) -> dict[str, Corpus]:
    """The corpora that are known by fingerprint, and the one that ``texts`` names, which must be that of rows."""
    if texts is None:
        return dict(known)
    corpus = load_corpus(texts)
    asked = {(row.corpus_fingerprint, row.split) for row in rows}
    read = [found for found in (corpus.as_read(*one) for one in sorted(asked)) if found is not None]
    if not read:
        raise ResultsError(f"texts: {corpus.name} is not what was probed; give the corpus of these results")
    return {**known, **{one.fingerprint: one for one in read}}


def kept_of(kept: Mapping[str, Predictions], row: ResultRow) -> Predictions:
    """The predictions of the cell of a row.

    Raises:
        ResultsError: none are kept.
    """
    if row.cell_id not in kept:
        none = f"no predictions kept of cell {row.cell_id}; run it with --out"
        raise ResultsError(f"task {row.task}, layer {row.layer}: {none}")
    return kept[row.cell_id]


def scores_of_items(
    every: Sequence[ResultRow],
    row: ResultRow,
    kept: Predictions,
    corpora: Mapping[str, Corpus],
    *,
    by: str | Sequence[str],
    metric: str | None,
) -> pd.DataFrame:
    """:meth:`Results.per_group` of the items of the cell of ``row``, which is one of ``every``, grouped ``by``."""
    same = [one for one in every if (one.cell_id, one.control) == (row.cell_id, row.control)]
    ranked = sorted(same, key=lambda one: not one.main_metric)
    known = dict.fromkeys(one.metric for one in ranked if one.metric in METRICS)
    if metric is not None and metric not in known:
        raise name_not_found(f"metric of task {row.task}", metric, known)
    if isinstance(by, str) and by != "pieces":
        raise name_not_found("grouping of words", by, ["pieces"])
    groups = _piece_groups(row, kept, corpora) if isinstance(by, str) else list(map(str, by))
    return scores_by(kept, groups, metric or next(iter(known))).sort_index()


def _piece_groups(row: ResultRow, kept: Predictions, corpora: Mapping[str, Corpus]) -> list[str]:
    """``[item]`` the group of each item by the number of pieces of all words of its spans.

    Raises:
        ResultsError: the corpus is not known here, or its items are no words.
        BertologyError: the tokenizer of the model cannot be loaded.
    """
    from bertology.encoders import resolve_model
    from bertology.encoders.loading import load_reader
    from bertology.encoders.tokenization import piece_ranges

    corpus = corpora.get(row.corpus_fingerprint)
    if corpus is None or row.split not in corpus:
        raise ResultsError(f"pieces of {row.corpus} cannot be counted without its text: give it with texts=")
    if row.model is None:
        raise ResultsError(f"{row.control} reads no pieces: choose a layer of a model")
    sentences = corpus[row.split]
    ranges, texts = piece_ranges(load_reader(resolve_model(row.model)), sentences), SplitTexts(sentences)
    groups = []
    for item in kept.item_ids:
        if (spans := texts.words(item)) is None:
            raise ResultsError(
                f"task {row.task} asks of whole sentences or prompts, which are not told by their pieces"
            )
        n = len({piece for span in spans for word in span for piece in range(*ranges[word].tolist())})
        groups.append(f"{n} piece{'s' * (n > 1)}" if n < _MANY_PIECES else f"{_MANY_PIECES} pieces or more")
    return groups


@dataclass(frozen=True)
class SplitTexts:
    """The sentences of one split, found by the ids of items."""

    sentences: Sentences

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Sentences by the names that predictions have: ids, with ``#`` and their number where several have one."""
        ids = [self.sentences.id(number) for number in range(len(self.sentences))]
        times = Counter(ids)
        numbered = {f"{name}#{number + 1}": number for number, name in enumerate(ids)}
        return numbered | {name: number for number, name in enumerate(ids) if name and times[name] == 1}

    def words(self, item: str) -> list[range] | None:
        """The words of each span of an item ``sentence:3-5,7``, numbered over the split; None where it has none."""
        name, _, place = item.rpartition(":")
        number = self._numbers.get(name)
        if number is None or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", place, re.ASCII):
            return None
        start, end = map(int, self.sentences.starts[number : number + 2])
        spans = [range(start + first, start + last) for first, last in spans_of(place)]
        return spans if all(start <= span.start < span.stop <= end for span in spans) else None

    def find(self, item: str) -> tuple[str, list[tuple[int, int]]] | None:
        """The sentence of an item, and where in it each of its spans stands (code points)."""
        if (words := self.words(item)) is None:
            return None
        places = self.sentences.char_spans
        spans = [(int(places[span.start][0]), int(places[span.stop - 1][1])) for span in words]
        return self.sentences.text(self._numbers[item.rpartition(":")[0]]), spans


def _texts(corpora: Mapping[str, Corpus]) -> Callable[[str, str, tuple[str, ...]], dict[str, list[str | None]]]:
    """The function that gives ``text`` and ``word`` of items; nothing where their corpus is not known."""
    splits = cache(lambda fingerprint, split: SplitTexts(corpora[fingerprint][split]))

    @lru_cache(maxsize=1)  # the cells of a task share their items
    def texts(fingerprint: str, split: str, items: tuple[str, ...]) -> dict[str, list[str | None]]:
        if fingerprint not in corpora or split not in corpora[fingerprint]:
            return {}
        found = [splits(fingerprint, split).find(item) for item in items]
        words = (one and BETWEEN_SPANS.join(one[0][first:last] for first, last in one[1]) for one in found)
        return {"text": [one and one[0] for one in found], "word": list(words)}

    return texts
