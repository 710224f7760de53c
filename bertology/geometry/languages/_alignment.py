"""Words of a sentence linked with words of its translation by their vectors, and such links against gold ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Links, ParallelText
from bertology.errors import CorpusError
from bertology.geometry._sums import Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors

Linked = NDArray[np.bool_]
_ONE_SIDE_LINKED = 0.9
"""What itermax takes the similarity of two words by of which one is linked already; with both linked by 0."""
_FEW = 2
"""Words of the shorter sentence up to which itermax adds nothing."""


def word_similarity(source: Floats32, target: Floats32, *, distortion: float = 0.0) -> Floats:
    """``[source, target]`` similarity of words, (cosine + 1) / 2, from 0 to 1.

    Args:
        source: ``[source, dim]`` vectors of the words of a sentence.
        target: ``[target, dim]`` of its translation.
        distortion: κ, by which similarity falls with the distance of relative places, sim · (1 − κ (i/m − j/n)²), i and
            j from 0 and m and n the last places (Jalili Sabet et al. 2020, §2.2).
    """
    units = (unit_vectors(some, 0, may_vanish=True).astype(np.float64) for some in (source, target))
    similar = (np.matmul(*(one if place == 0 else one.T for place, one in enumerate(units))) + 1) / 2
    if distortion and min(similar.shape) > 1:
        rows, columns = (np.linspace(0, 1, n) for n in similar.shape)
        similar = similar * (1 - distortion * np.square(rows[:, None] - columns))
    return np.asarray(similar)


def _mutual(similar: Floats) -> Linked:
    """Cells that are the highest of their row and of their column, the first of equals."""
    linked = np.zeros(similar.shape, dtype=bool)
    best, of_columns = np.argmax(similar, axis=1), np.argmax(similar, axis=0)
    rows = np.flatnonzero(of_columns[best] == np.arange(len(similar)))
    linked[rows, best[rows]] = True
    return linked


def _argmax(similar: Floats) -> Linked:
    return _mutual(similar)


def _itermax(similar: Floats) -> Linked:
    linked = _mutual(similar)
    has_row, has_column = (np.asarray(linked.any(axis=axis)) for axis in (1, 0))
    if min(similar.shape) <= _FEW or has_row.all() or has_column.all():
        return linked
    n_linked = has_row[:, None].astype(int) + has_column
    factors = np.array([1.0, _ONE_SIDE_LINKED, 0.0])[n_linked]
    return np.asarray(linked | (_mutual(similar * factors) & (n_linked < 2)))


def _match(similar: Floats) -> Linked:
    from scipy.optimize import linear_sum_assignment

    linked = np.zeros(similar.shape, dtype=bool)
    linked[linear_sum_assignment(similar, maximize=True)] = True
    return linked


METHODS: Final[Mapping[str, Callable[[Floats], Linked]]] = {"argmax": _argmax, "itermax": _itermax, "match": _match}
"""The three methods of SimAlign."""


def align_words(similar: Floats, method: str) -> Linked:
    """``[source, target]`` which words are linked, by a method of SimAlign (Jalili Sabet et al. 2020, §2.1).

    ``argmax``: words that are the most similar to each other in both directions. ``itermax``: those, and one more round
    among the cells of which not both words are linked yet, with 0.9 of the similarity where one of them is; none where
    a sentence has two words or fewer or all of its words are linked. ``match``: the one-to-one links of as many words
    as possible with the largest sum.

    Args:
        similar: ``[source, target]`` similarities, 0 or more.
        method: one of :data:`METHODS`.
    """
    return METHODS[method](similar)


@dataclass(frozen=True)
class LinkCounts:
    """Links that were found against gold ones: |A|, |A ∩ S|, |A ∩ P| (sure ones included) and |S|."""

    found: int
    found_sure: int
    found_possible: int
    sure: int


def count_links(linked: Linked, gold: Links) -> LinkCounts:
    """Count links ``[source, target]`` of two sentences against gold ones."""
    pairs = set(zip(*(places.tolist() for places in np.nonzero(linked)), strict=True))
    n_sure = len(pairs & gold.sure)
    return LinkCounts(len(pairs), n_sure, len(pairs & (gold.sure | gold.possible)), len(gold.sure))


def scores_of_links(
    prefix: str, layers: tuple[int | None, ...], counts: Sequence[Sequence[LinkCounts]], clusters: Integers
) -> Iterator[LayerSums]:
    """Precision against possible links, recall of sure ones, their F1, and the alignment error rate.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|) (Och & Ney 2003, §4).

    Args:
        prefix: of the names of metrics, such as ``argmax``.
        layers: those of the counts.
        counts: ``[layer][pair]``.
        clusters: ``[pair]`` what is resampled.
    """
    table = np.array([[(c.found, c.found_sure, c.found_possible, c.sure) for c in one] for one in counts], dtype=float)
    n = int(clusters.max()) + 1
    summed = np.zeros((n, len(table), 4))
    np.add.at(summed, clusters, table.swapaxes(0, 1))
    by_cluster = summed.swapaxes(0, 1)
    found, found_sure, found_possible, sure = np.moveaxis(by_cluster, 2, 0)
    total = by_cluster.sum(axis=1, keepdims=True)
    whole = _f1(total)[:, 0]
    yield jackknife_sums(f"{prefix}_f1", layers, whole, whole[:, None] - _f1(total - by_cluster), "sentences")
    yield LayerSums(f"{prefix}_precision", layers, found_possible, found, "sentences")
    yield LayerSums(f"{prefix}_recall", layers, found_sure, sure, "sentences")
    both = found + sure
    yield LayerSums(f"{prefix}_error", layers, both - found_sure - found_possible, both, "sentences")


def _f1(counts: Floats) -> Floats:
    """Harmonic mean of precision and recall of counts ``[..., 4]``; 0 where nothing is found."""
    found, found_sure, found_possible, sure = np.moveaxis(counts, -1, 0)
    precision, recall = found_possible / np.maximum(found, 1), found_sure / np.maximum(sure, 1)
    return np.asarray(2 * precision * recall / np.maximum(precision + recall, 1e-12))


@dataclass(frozen=True, eq=False)
class AlignedPairs:
    """Sentences with gold links of their words."""

    title: str
    """The two languages."""
    words: Sequence[tuple[Integers, Integers]]
    """``[pair]`` the places among the words that are read of those of both sentences."""
    places: Sequence[tuple[Integers, Integers]]
    """``[pair]`` the places of the same words in their sentences."""
    gold: Sequence[Links]
    """``[pair]``."""

    @classmethod
    def of(cls, text: ParallelText, words: NDArray[np.int64]) -> AlignedPairs:
        """The pairs of a text that have gold links, of the first two languages of which any has.

        Args:
            text: sentences of several languages.
            words: ``[word]`` numbers of the words that are read, ascending.

        Raises:
            CorpusError: no pair has gold links.
        """
        for place, source in enumerate(text.languages):
            for target in text.languages[place + 1 :]:
                some = zip(text.pairs(source, target).tolist(), text.links(source, target), strict=True)
                if known := [(pair, links) for pair, links in some if links is not None]:
                    return cls._of(f"{source} – {target}", known, text, words)
        raise CorpusError("no sentence has gold links of words: give parallel:en=PATH,fr=PATH,links=path/to/gold")

    @classmethod
    def _of(
        cls, title: str, known: Sequence[tuple[list[int], Links]], text: ParallelText, words: NDArray[np.int64]
    ) -> AlignedPairs:
        starts = text.sentences.starts
        read, places = [], []
        for pair, _ in known:
            ends = [np.searchsorted(words, starts[number : number + 2]) for number in pair]
            read.append((np.arange(*ends[0]), np.arange(*ends[1])))
            own, other = (words[which] - starts[number] for which, number in zip(read[-1], pair, strict=True))
            places.append((own, other))
        return cls(title, read, places, [links for _, links in known])

    def __len__(self) -> int:
        return len(self.gold)

    def counts(self, pair: int, linked: Linked) -> LinkCounts:
        """Count links among the words of a pair that are read; gold links of others are missed."""
        own, other = self.places[pair]
        whole = np.zeros((int(own.max(initial=-1)) + 1, int(other.max(initial=-1)) + 1), dtype=bool)
        whole[np.ix_(own, other)] = linked
        return count_links(whole, self.gold[pair])


def alignment_scores(read: LayerVectors, pairs: AlignedPairs, *, distortion: float = 0.0) -> Iterator[LayerSums]:
    """How well each method of :func:`align_words` finds gold links, by layer.

    Of vectors as they are, and for F1 also less the mean of their language (``_centred``; Libovický et al. 2019).

    Args:
        read: vectors of the words of the pairs.
        pairs: sentences with gold links.
        distortion: of :func:`word_similarity`.

    Yields:
        F1, precision, recall and alignment error rate of each method.
    """
    sides = [np.concatenate([pair[side] for pair in pairs.words]) for side in (0, 1)]

    def of_layer(_: int, vectors: Floats32) -> dict[str, list[LinkCounts]]:
        means = [vectors[side].mean(axis=0) for side in sides]
        counts = defaultdict[str, list[LinkCounts]](list)
        for number, (own, other) in enumerate(pairs.words):
            for suffix, shift in (("", (0.0, 0.0)), ("_centred", means)):
                some = vectors[own] - shift[0], vectors[other] - shift[1]
                similar = word_similarity(*some, distortion=distortion)
                for method, align in METHODS.items():
                    linked = align(similar) if similar.size else similar > 0
                    counts[f"{method}{suffix}"].append(pairs.counts(number, linked))
        return dict(counts)

    by_layer = read.each(of_layer)
    clusters = np.arange(len(pairs))
    for name in by_layer[0]:
        for sums in scores_of_links(name, read.layers, [one[name] for one in by_layer], clusters):
            if not name.endswith("_centred") or sums.metric.endswith("_f1"):
                yield sums
