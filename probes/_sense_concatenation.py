"""Concatenation: what does a sentence with another sense of a word do to the vector of the word before it?

Reif et al. (2019), *Visualizing and Measuring the Geometry of BERT*: of a word in its sentence alone, and
followed by *and* with a sentence that has the word in another sense, the ratio of the cosine to the centroid of its own
sense over that to the centroid of the other sense. Over 1 the word is nearer to its own sense. Here a sentence with the
same sense follows as well, which is what to compare with: a longer text alone may change the ratio. Centroids are means
of unit vectors in train. Words are weighted alike. The corpus is ``concatenated:CORPUS``, such as CoarseWSD-20.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology import geometry
from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.measures import share_metric, sum_metric
from bertology.probing import GeometryCounts, GeometryProbe

from ._sense_items import occurrences

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

Integers = NDArray[np.int64]
Span = tuple[int, int]
_KINDS = ("alone", "other", "same")


@dataclass(frozen=True)
class _Item:
    """A word of a test sentence."""

    own: tuple[str, str]
    """The word and its sense."""
    other: tuple[str, str]
    """The word and the sense of the sentence that follows in the form ``other``."""
    spans: Mapping[str, Span]
    """By form of the sentence."""


@dataclass(frozen=True)
class SenseConcatenation(GeometryProbe):
    """Does a following sentence with another sense pull a word to that sense?"""

    task = "senses:concatenation"
    version = 1
    subject = "meaning"
    question = "What does a sentence with another sense of a word do to the vector of the word before it?"
    reference = "Reif et al. 2019"
    metrics = (
        sum_metric("fall", "ratio of sentences alone, less that with another sense following"),
        sum_metric("fall_beyond_same", "ratio with the same sense following, less that with another sense"),
        sum_metric("ratio_alone", "cosine to the own sense over that to the other, of sentences alone"),
        sum_metric("ratio_other", "the same, followed by a sentence with another sense"),
        sum_metric("ratio_same", "the same, followed by a sentence with the same sense"),
        share_metric("own_share_alone", "share of words that are nearer to their own sense, of sentences alone"),
        share_metric("own_share_other", "the same, followed by a sentence with another sense"),
        share_metric("own_share_same", "the same, followed by a sentence with the same sense"),
    )
    reads = ("train", "test")
    fits = "centroids of senses"

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, Integers]:
        """All words with senses in train, and those of the test whose senses train has."""
        known, items = _data(sentences)
        spans = {
            "train": [span for of_sense in known.values() for span in of_sense],
            "test": [span for item in items for span in item.spans.values()],
        }
        return {split: np.unique(np.concatenate([np.arange(*one) for one in some])) for split, some in spans.items()}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, Integers]) -> GeometryCounts:
        """Words of the test, and occurrences and senses in train."""
        known, items = _data(sentences, words)
        return GeometryCounts(len(items), sum(map(len, known.values())), n_classes=len(known))

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """Ratios of cosines in each form of the sentence, and their differences."""
        known, items = _data(sentences, {split: some.words for split, some in vectors.items()})
        layers, place = vectors["test"].layers, {sense: number for number, sense in enumerate(known)}
        chosen = {kind: [n for n, item in enumerate(items) if kind in item.spans] for kind in _KINDS}
        ratios, nearer = ({kind: np.full((len(layers), len(items)), np.nan) for kind in _KINDS} for _ in range(2))
        for row, layer in enumerate(layers):
            train = _unit(vectors["train"], [span for of_sense in known.values() for span in of_sense], layer)
            starts = np.cumsum([0, *map(len, known.values())])[:-1]
            centroids = geometry.unit_vectors(np.add.reduceat(train, starts, axis=0), layer)
            for kind, numbers in chosen.items():
                if numbers:
                    found = _unit(vectors["test"], [items[n].spans[kind] for n in numbers], layer)
                    own, other = (
                        (found * centroids[[place[getattr(items[n], which)] for n in numbers]]).sum(axis=1)
                        for which in ("own", "other")
                    )
                    ratios[kind][row, numbers], nearer[kind][row, numbers] = own / other, own > other
        _, words = np.unique([item.own[0] for item in items], return_inverse=True)
        return _sums(layers, ratios, nearer, words)


def _data(
    sentences: Mapping[str, Sentences], words: Mapping[str, Integers] | None = None
) -> tuple[dict[tuple[str, str], list[Span]], list[_Item]]:
    """By word and sense the spans in train, and the items of the test, of which all words are among ``words``."""

    def is_read(split: str, span: Span) -> bool:
        return words is None or bool(np.isin(np.arange(*span), words[split]).all())

    known: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for one in occurrences(sentences["train"]):
        if is_read("train", one.span):
            known[one.word, one.sense].append(one.span)
    test, added = sentences["test"], dict(sentences["test"].targets("added"))
    spans: dict[str, dict[str, Span]] = defaultdict(dict)
    own: dict[str, tuple[str, str]] = {}
    other: dict[str, tuple[str, str]] = {}
    for one in occurrences(test):
        name, _, kind = test.id(one.sentence).rpartition("/")
        if kind in _KINDS and is_read("test", one.span):
            spans[name][kind], own[name] = one.span, (one.word, one.sense)
        if kind == "other" and one.sentence in added:
            word, _, sense = added[one.sentence][0].labels[0].partition(":")
            other[name] = word, sense
    if not other:
        remedy = "give concatenated:CORPUS, such as concatenated:path/to/CoarseWSD-20"
        raise CorpusError(f"no sentence of the test is followed by one with another sense of its word: {remedy}")
    items = [
        _Item(own[name], other[name], spans[name])
        for name in other
        if {"alone", "other"} <= spans[name].keys() and own[name] in known and other[name] in known
    ]
    if not items:
        word, sense = next(iter(own.values()))
        raise CorpusError(f"train has no example of senses of the test, such as {word}:{sense}: give a train with them")
    return known, items


def _unit(vectors: LayerVectors, spans: Sequence[Span], layer: int) -> NDArray[np.float32]:
    places = np.searchsorted(vectors.words, np.array(spans))
    return geometry.unit_vectors(geometry.span_means(vectors.of(layer), places), layer)


def _sums(
    layers: tuple[int, ...],
    ratios: Mapping[str, NDArray[np.float64]],
    nearer: Mapping[str, NDArray[np.float64]],
    words: Integers,
) -> Iterator[LayerSums]:
    """Means over words of means over items, of those that have the form."""

    def mean(name: str, values: NDArray[np.float64]) -> LayerSums:
        has = np.isfinite(values[0])
        counts = np.bincount(words[has], minlength=int(words.max()) + 1)
        weights = np.where(has, 1.0 / np.maximum(counts[words], 1), 0.0)
        over = np.where(has, values, 0.0) * weights
        return geometry.LayerSums(name, layers, over, weights[None], "sentences")

    yield mean("fall", ratios["alone"] - ratios["other"])
    for kind, of_kind in ratios.items():
        if np.isfinite(of_kind).any():
            yield mean(f"ratio_{kind}", of_kind)
            yield mean(f"own_share_{kind}", nearer[kind])
    if np.isfinite(ratios["same"]).any():
        yield mean("fall_beyond_same", ratios["same"] - ratios["other"])
