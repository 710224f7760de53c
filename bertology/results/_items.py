"""Predictions of single items: their labels counted, parts of trees as items, and their words where the corpus is
known."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import pd
from bertology.corpora import Corpus, Sentences, load_corpus
from bertology.errors import ResultsError
from bertology.measures import bootstrap, count_labels, count_numbers
from bertology.measures.metrics import METRICS, RELATION, UNSCORED, CountKind, label_scores, read_edges, read_root
from bertology.results.predictions import BETWEEN_SPANS, CLOZE, INFORMATION, Predictions, spans_of, split_sets
from bertology.results.rows import ResultRow

_LONGEST, _MANY_PIECES = 8, 4
_NOT_FOUND = "not found"


def label_columns(predictions: Predictions) -> dict[str, Any]:
    """The columns of :func:`per_label_scores` as lists and arrays, and ``label``."""
    everything = np.zeros(len(predictions.gold), dtype=np.int64)
    gold, pred = predictions.gold, predictions.pred[None]
    labels, members = split_sets(predictions.labels) if predictions.label_sets else (predictions.labels, None)
    counts = count_labels(gold, pred, everything, n_labels=len(labels), n_clusters=1, members=members)[0, 0]
    columns = label_scores(counts)._asdict() | dict(zip(("tp", "fp", "fn"), counts.T, strict=True))
    columns["tn"] = len(gold) - counts.sum(axis=-1)
    used = np.flatnonzero((columns["support"] > 0) | (columns["predicted"] > 0)).tolist()
    order = sorted(used, key=lambda place: (-int(columns["support"][place]), labels[place]))
    return {"label": [labels[place] for place in order]} | {name: column[order] for name, column in columns.items()}


def per_label_scores(predictions: Predictions) -> "pd.DataFrame":
    """Precision, recall and F1 of every label that occurs or is predicted, the most frequent first.

    Columns are ``precision``, ``recall``, ``f1`` (fractions, NaN where undefined), ``support`` (items with the label),
    ``predicted`` (items given it), and of the label as a yes or no ``tp``, ``fp``, ``fn`` and ``tn`` items.
    """
    return pd.DataFrame(label_columns(predictions)).set_index("label")


def scores_by(kept: Predictions, groups: Sequence[str], metric: str) -> "pd.DataFrame":
    """Scores of ``groups``, the name of one for each item of a cell, with 95 % intervals over clusters.

    Items of an empty name are left out. Columns are ``items``, ``clusters``, ``value``, ``ci_low`` and ``ci_high``.

    Raises:
        ResultsError: another number of names than of items, or a metric of neither labels nor numbers.
    """
    kind, names = tally_of(metric), np.asarray(groups, dtype=object)
    if len(names) != len(kept.gold):
        raise ResultsError(f"by: {len(names)} names of groups for {len(kept.gold)} items; give one for each item")
    if kind not in ("labels", "numbers"):
        raise ResultsError(f"items of {metric} are no labels or numbers of words, which groups could divide")
    labels, members = split_sets(kept.labels) if kept.label_sets else (kept.labels, None)
    numbers = np.array(list(map(float, kept.labels))) if kind == "numbers" else None
    lines = {}
    for name in dict.fromkeys(filter(None, names.tolist())):
        clusters, cluster = np.unique(kept.cluster[names == name], return_inverse=True)
        gold, pred, n = kept.gold[names == name], kept.pred[names == name][None], len(clusters)
        if numbers is not None:
            counts: NDArray[Any] = count_numbers(numbers[gold], numbers[pred], cluster, n_clusters=n)
        else:
            counts = count_labels(gold, pred, cluster, n_labels=len(labels), n_clusters=n, members=members)
        score = bootstrap(counts, [metric], labels=() if kind == "numbers" else labels)[metric]
        lines[name] = (len(gold), n, score.values[0], score.ci_low[0], score.ci_high[0])
    columns = ["items", "clusters", "value", "ci_low", "ci_high"]
    frame = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("group")
    frame.attrs["metric"] = metric
    return frame


def confusion(predictions: Predictions) -> "pd.DataFrame":
    """Counts of items by gold label (rows) and predicted label (columns), the most frequent gold label first.

    Where an item may have any number of labels, rows and columns are the sets of them.
    """
    names, n_labels = list(predictions.labels), len(predictions.labels)
    pairs = np.bincount(predictions.gold.astype(np.int64) * n_labels + predictions.pred, minlength=n_labels**2)
    frame = pd.DataFrame(pairs.reshape(n_labels, n_labels), index=names, columns=names)
    order = per_label_scores(replace(predictions, label_sets=False)).index
    return frame.loc[order, order].rename_axis(index="gold", columns="pred")


def tally_of(metric: str) -> CountKind:
    """The kind of counts that a metric is made of; labels for one that is not registered."""
    return METRICS[metric].count_kind if metric in METRICS else "labels"


def tree_items(predictions: Predictions, tally: CountKind) -> Predictions:
    """The parts of predicted trees, which are written as text, each an item with a label.

    ``edges`` become items labelled by how many words they reach (those of gold, punctuation left out); ``arcs`` words
    labelled by their relation, found if head and relation are right; ``roots`` the sentences' roots.
    """
    labels: dict[str, int] = {}
    ids, codes = [], []
    for item, sentence in enumerate(predictions.item_ids):
        gold, pred = (predictions.labels[int(column[item])] for column in (predictions.gold, predictions.pred))
        for words, label, predicted in _parts(tally, gold, pred):
            ids.append(f"{sentence.rpartition(':')[0]}:{words}")
            of_labels = (labels.setdefault(text, len(labels)) for text in (label, predicted or _NOT_FOUND))
            codes.append((item, int(predictions.cluster[item]), *of_labels))
    items, cluster, gold_codes, pred_codes = np.array(codes, dtype=np.int64).reshape(-1, 4).T
    score, fold = np.full(len(ids), np.nan), None if predictions.fold is None else predictions.fold[items]
    coded = gold_codes, pred_codes, score, tuple(labels)
    return Predictions(ids, cluster, predictions.cluster_ids, *coded, fold=fold)


def _parts(tally: CountKind, gold: str, pred: str) -> Iterator[tuple[str, str, str | None]]:
    """The words of each part of a tree, counted from 1, its label and the prediction, None where it is missed."""
    marks = gold.split(" ")
    if tally == "edges":
        predicted = read_edges(pred)
        for first, last in sorted(read_edges(gold)):
            reach = last - first
            label = f"{_LONGEST} words or more" if reach >= _LONGEST else f"{reach} word{'s' * (reach > 1)}"
            yield f"{first + 1},{last + 1}", label, label if (first, last) in predicted else None
    elif tally == "arcs":
        for word, (mark, other) in enumerate(zip(marks, pred.split(" "), strict=True), start=1):
            if mark != UNSCORED:
                (head, _, relation), (guess, _, named) = mark.partition(RELATION), other.partition(RELATION)
                yield str(word), relation, named if guess == head else None
    elif "0" in marks:
        root = marks.index("0")
        yield str(root + 1), "root", "root" if read_root(pred) == root else None


def item_columns(row: ResultRow, kept: Predictions, words_of: Callable[..., Any] | None) -> dict[str, Any]:
    """The columns of one cell that differ between items, of :meth:`Results.predictions`."""
    tally = tally_of(row.metric)
    kept = tree_items(kept, tally) if tally in ("edges", "arcs", "roots") else kept
    labels = np.array(kept.labels, dtype=object)
    part: dict[str, Any] = {"gold": labels[kept.gold].tolist(), "predicted": labels[kept.pred].tolist()}
    part["probability"] = np.exp(np.asarray(kept.score, dtype=np.float64)).tolist()
    part |= {} if kept.fold is None else {"fold": kept.fold.tolist()}
    part |= {INFORMATION: kept.extra[INFORMATION].tolist()} if INFORMATION in kept.extra else {}
    if kept.is_cloze:
        more = {name: list(kept.extra[name]) for name in CLOZE if name != "rival"}
        return {**part, **more, "sentence": list(kept.item_ids)}
    places = [item.rpartition(":")[::2] for item in kept.item_ids]
    part |= {"sentence": [name for name, _ in places], "place": [place for _, place in places]}
    return part | (words_of(tuple(kept.item_ids)) if words_of else {})


def corpora_with(known: Mapping[str, Corpus], texts: Any, rows: Sequence[ResultRow]) -> dict[str, Corpus]:
    """The corpora that are known by fingerprint, and the one that ``texts`` names, which must be that of rows."""
    if texts is None:
        return dict(known)
    corpus = load_corpus(texts)
    asked = sorted({(row.corpus_fingerprint, row.split) for row in rows})
    read = [found for one in asked if (found := corpus.as_read(*one)) is not None]
    if not read:
        raise ResultsError(f"texts: {corpus.name} is not what was probed; give the corpus of these results")
    return {**known, **{one.fingerprint: one for one in read}}


def kept_of(kept: Mapping[str, Predictions], row: ResultRow) -> Predictions:
    """The predictions of the cell of a row; a :class:`ResultsError` where none are kept."""
    if row.cell_id not in kept:
        none = f"no predictions kept of cell {row.cell_id}; run it with --out"
        raise ResultsError(f"task {row.task}, layer {row.layer}: {none}")
    return kept[row.cell_id]


def piece_groups(row: ResultRow, kept: Predictions, corpora: Mapping[str, Corpus]) -> list[str]:
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
    sentences, groups = corpus[row.split], []
    ranges, texts = piece_ranges(load_reader(resolve_model(row.model)), sentences), SplitTexts(sentences)
    for item in kept.item_ids:
        if (spans := texts.words(item)) is None:
            what = "asks of whole sentences or prompts, which are not told by their pieces"
            raise ResultsError(f"task {row.task} {what}")
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

    def columns(self, items: Sequence[str]) -> dict[str, list[str | None]]:
        """The columns ``text`` and ``word`` of items; None where an item is not found."""
        found = [self.find(item) for item in items]
        words = [one and BETWEEN_SPANS.join(one[0][first:last] for first, last in one[1]) for one in found]
        return {"text": [one and one[0] for one in found], "word": words}

    def find(self, item: str) -> tuple[str, list[tuple[int, int]]] | None:
        """The sentence of an item, and where in it each of its spans stands (code points)."""
        if (words := self.words(item)) is None:
            return None
        places = self.sentences.char_spans
        spans = [(int(places[span.start][0]), int(places[span.stop - 1][1])) for span in words]
        return self.sentences.text(self._numbers[item.rpartition(":")[0]]), spans
