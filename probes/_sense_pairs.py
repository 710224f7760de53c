"""Pairs of occurrences: does the cosine of a word's vectors in two contexts tell whether it has the same sense?

WiC (Pilehvar & Camacho-Collados 2019): the cosine is compared with the threshold that does best on train; the area
under the curve needs no threshold. ``_standardised`` scores are of vectors whose dimensions have mean 0 and variance 1
over the training occurrences, since few dimensions dominate raw cosines (Timkey & van Schijndel 2021). A pair of texts
is read as one text, in which one occurrence sees the other; ``apart:CORPUS`` has each text read by itself, as in the
paper. What to compare with: the more frequent answer, and TF-IDF of the other words of both texts (``lexical``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology import geometry
from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.measures import share_metric, sum_metric
from bertology.probing import ControlNote, GeometryBaseline, GeometryCounts, GeometryProbe

from ._sense_items import context, context_vectors

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

_SAME, _OTHER = frozenset({"t", "true", "1", "yes", "same"}), frozenset({"f", "false", "0", "no", "different"})


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of spans of one split."""

    spans: NDArray[np.int64]
    """``[pair, 2, 2]`` both spans, numbered in the split."""
    bounds: NDArray[np.int64]
    """``[pair, 2, 2]`` the texts that they stand in."""
    same: NDArray[np.bool_]
    clusters: NDArray[np.int64]

    def of(self, chosen: Any) -> _Pairs:
        return _Pairs(self.spans[chosen], self.bounds[chosen], self.same[chosen], self.clusters[chosen])

    def readable(self, words: NDArray[np.int64]) -> _Pairs:
        inside = np.diff(np.searchsorted(words, self.spans), axis=2)[..., 0]
        return self.of((inside == np.diff(self.spans, axis=2)[..., 0]).all(axis=1))


@dataclass(frozen=True)
class SensePairs(GeometryProbe):
    """Does a word have the same sense in two contexts?"""

    column: str = "label"
    """Of the labels of pairs: ``T`` and ``F``, 1 and 0, ``same`` and ``different``."""
    task = "senses:pairs"
    version = 1
    subject = "meaning"
    question = "Does a word have the same sense in two contexts, by the cosine of its vectors?"
    reference = "Pilehvar & Camacho-Collados 2019"
    metrics = (
        share_metric("accuracy", "share of pairs on the right side of the threshold from train"),
        sum_metric("area_under_curve", "share of pairs of pairs that cosines put in order"),
        share_metric("accuracy_standardised", "accuracy in standardised dimensions"),
        sum_metric("area_under_curve_standardised", "area under the curve in standardised dimensions"),
    )
    reads = ("train", "test")
    fits = "a threshold of cosines"
    baselines = (
        ControlNote("majority", "majority", "the more frequent answer of train"),
        ControlNote("lexical", "words alone", "the same by the cosine of the words of both contexts (TF-IDF)"),
    )

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words of both spans of all pairs."""
        pairs = {split: self._pairs(text) for split, text in sentences.items()}
        for split, of_split in pairs.items():
            if of_split.same.all() or not of_split.same.any():
                raise CorpusError(f"all pairs of {split} have the same label: give some of both")
        return {
            split: np.unique(np.concatenate([np.arange(*span) for span in of_split.spans.reshape(-1, 2)]))
            for split, of_split in pairs.items()
        }

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Pairs."""
        pairs = self._readable(sentences, words)
        return GeometryCounts(len(pairs["test"].same), len(pairs["train"].same), n_classes=2)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """Of raw and of standardised vectors."""
        pairs = self._readable(sentences, {split: read.words for split, read in vectors.items()})
        layers = vectors["test"].layers
        cosines: dict[str, dict[str, list[Any]]] = {suffix: {"train": [], "test": []} for suffix in _VARIANTS}
        for layer in layers:
            both = {split: _both(read.of(layer), read.words, pairs[split]) for split, read in vectors.items()}
            mean = both["train"].mean(axis=(0, 1))
            deviation = both["train"].std(axis=(0, 1))
            for split, of_split in both.items():
                cosines[""][split].append(_cosines(of_split, layer))
                scaled = np.divide(of_split - mean, deviation, out=np.zeros_like(of_split), where=deviation > 0)
                cosines["_standardised"][split].append(_cosines(scaled, layer, may_vanish=True))
        for suffix, by_split in cosines.items():
            stacked = {split: np.stack(of_split) for split, of_split in by_split.items()}
            yield from _scores(layers, stacked, pairs, _groups(pairs["test"], sentences["test"]), suffix)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The more frequent answer of train, or the cosine of both contexts."""
        pairs = self._readable(sentences, words)
        cosines = {split: np.zeros((1, len(of_split.same))) for split, of_split in pairs.items()}
        if name == "lexical":
            contexts = {
                split: [
                    context(sentences[split], tuple(bounds), tuple(span))
                    for bounds, span in zip(some.bounds.reshape(-1, 2), some.spans.reshape(-1, 2), strict=True)
                ]
                for split, some in pairs.items()
            }
            for split, weights in context_vectors(contexts).items():
                cosines[split] = np.asarray(weights[::2].multiply(weights[1::2]).sum(axis=1)).reshape(1, -1)
        return _scores((None,), cosines, pairs, _groups(pairs["test"], sentences["test"]), "")

    def _readable(
        self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, _Pairs]:
        return {split: self._pairs(text).readable(words[split]) for split, text in sentences.items()}

    def _pairs(self, sentences: Sentences) -> _Pairs:
        """Pairs in one sentence, or in two that follow one another as ``apart:CORPUS`` parts them."""
        spans, bounds, same, clusters = [], [], [], []
        texts = dict(sentences.targets("texts"))
        waiting: tuple[int, str, Any] | None = None
        for number, (target, *others) in sentences.targets(self.column):
            start, end = int(sentences.starts[number]), int(sentences.starts[number + 1])
            name, _, half = sentences.id(number).rpartition("/")
            of_first = (start + target.span1[0], start + target.span1[1])
            if others or len(target.labels) != 1:
                raise CorpusError(
                    f"sentence {sentences.id(number)} has several labels in {quoted(self.column)}: give one"
                )
            if target.span2 is not None:
                middle = start + (texts[number][1].span1[0] if number in texts else target.span2[0])
                spans.append((of_first, (start + target.span2[0], start + target.span2[1])))
                bounds.append(((start, middle), (middle, end)))
            elif half == "2" and waiting is not None and waiting[:2] == (number - 1, name):
                spans.append((waiting[2][0], of_first))
                bounds.append((waiting[2][1], (start, end)))
            else:
                waiting = number, name, (of_first, (start, end))
                continue
            same.append(self._is_same(target.labels[0], sentences.id(number)))
            clusters.append(number)
        if not same:
            remedy = "give WiC, or a table with columns such as text=s1,text2=s2,at=i,at2=j,label=same"
            raise CorpusError(f"no pair of words has a label in column {quoted(self.column)}: {remedy}")
        shape = (-1, 2, 2)
        return _Pairs(
            np.array(spans, dtype=np.int64).reshape(shape),
            np.array(bounds, dtype=np.int64).reshape(shape),
            np.array(same),
            np.array(clusters),
        )

    def _is_same(self, label: str, name: str) -> bool:
        if label.casefold() not in _SAME | _OTHER:
            known = listed(sorted(_SAME | _OTHER))
            raise CorpusError(f"sentence {name}: label {quoted(label)} in {quoted(self.column)} is none of {known}")
        return label.casefold() in _SAME


_VARIANTS = ("", "_standardised")


def _both(vectors: Any, words: NDArray[np.int64], pairs: _Pairs) -> Any:
    """``[pair, 2, dim]``."""
    means = geometry.span_means(vectors, np.searchsorted(words, pairs.spans.reshape(-1, 2)))
    return means.reshape(len(pairs.same), 2, -1)


def _cosines(both: Any, layer: int, *, may_vanish: bool = False) -> Any:
    unit = geometry.unit_vectors(both.reshape(-1, both.shape[2]), layer, may_vanish=may_vanish).reshape(both.shape)
    return np.einsum("pd,pd->p", unit[:, 0], unit[:, 1])


def _scores(
    layers: tuple[int | None, ...],
    cosines: Mapping[str, Any],
    pairs: Mapping[str, _Pairs],
    groups: Mapping[str, NDArray[np.bool_]],
    suffix: str,
) -> Iterator[LayerSums]:
    same = {split: some.same for split, some in pairs.items()}
    return geometry.pair_scores(layers, cosines, same, pairs["test"].clusters, suffix=suffix, groups=groups)


def _groups(pairs: _Pairs, sentences: Sentences) -> dict[str, NDArray[np.bool_]]:
    """Whether the word is written alike in both."""
    forms = [[context(sentences, tuple(span), (span[1], span[1])) for span in both] for both in pairs.spans]
    alike = np.array([first == second for first, second in forms], dtype=bool)
    groups = {"same form": alike, "other form": ~alike}
    return {name: which for name, which in groups.items() if which.any()}
