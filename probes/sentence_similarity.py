"""Similarity of sentences: do the cosines of their vectors rise with the similarity that people see in them?

Reimers & Gurevych (2019), *Sentence-BERT*, §4.1: Spearman's correlation of cosines with judgements of pairs, of which
nothing is learned. Both sentences of a pair are read apart; the vector of a sentence is the mean of its words or, with
``pool: cls``, the special token before it. ``spearman first_last`` takes the mean of the vectors of layer 1 and of the
layer: in the last layer it is the first-last average of Su et al. (2021), *Whitening Sentence Representations for
Better Semantics and Faster Retrieval*. ``sentence_similarity:whitened`` is their whitening: the mean of the vectors of
the training sentences is taken off, and all directions are scaled to the same variance there, with no label.

What to compare with: the share of words that both sentences have (``lexical``), the ratio of their lengths
(``length``), and the same encoder with random weights. Intervals are over pairs. The pocket world has no people who
judge: ``shared_roles:pocket`` pairs its sentences by how many of predicate, subject and object are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bertology.activations.layers import Floats32, span_means, unit_vectors
from bertology.errors import CorpusError, listed, quoted
from bertology.geometry import GeometryProbe
from bertology.geometry.probes import TextItems
from bertology.measures import Metric, sum_metric
from bertology.measures.sums import LayerSums, by_layer, rank_correlation_sums
from bertology.probing import ControlNote, GeometryCounts, ProbeFamily, Splits
from bertology.probing.items import SplitVectors, SplitWords

_ABOUT, _LEAST_PAIRS = "Spearman's correlation of cosines of pairs with judgements", 10
_SAME = 1e-5  # cosines that differ by less are the same: those of special tokens in layer 0 differ by rounding alone
_LEAST_VARIANCE, _ROUNDING = 1e-6, 1e-10
"""Variance of a direction by the largest one, and by the mean square of vectors, below which it is left out."""


@dataclass(frozen=True)
class SentenceSimilarity(GeometryProbe):
    """Are the vectors of two sentences the more alike, the more similar people find them?"""

    column: str = ""
    """Name of the labels that are numbers, such as ``similarity``; may be empty where there is only one."""
    most_sentences: int = 4000
    """Sentences of each split that are read at most, two a pair: random pairs of a larger text."""
    task = "sentence_similarity"
    subject = "meaning"
    reference = "Reimers & Gurevych 2019"
    pools = ("mean", "cls")
    baselines = (
        ControlNote("lexical", "shared words", "share of the words of both sentences that are in each of them"),
        ControlNote("length", "length", "number of words of the shorter sentence over that of the longer one"),
    )

    metrics: ClassVar[tuple[Metric, ...]] = (
        sum_metric("spearman", f"{_ABOUT}, vectors of one layer", bounds="correlation"),
        sum_metric("spearman first_last", f"{_ABOUT}, mean of the layer and layer 1", bounds="correlation"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """Pairs of neighbouring sentences with a score, and the words of those that are read."""
        text, column, found, judged = sentences["test"], self.column, list[tuple[int, int]](), list[float]()
        names, stems = text.target_layers, [text.id(number).rpartition("/") for number in range(len(text))]
        firsts = [n for n in range(len(text) - 1) if stems[n][2] == "1" and stems[n + 1] == (*stems[n][:2], "2")]
        if not firsts or any(target.span2 for name in names for _, (target, *_) in text.targets(name)):
            due = "pairs of texts with a number each, read apart (apart:CORPUS), or shared_roles:TREEBANK"
            raise CorpusError(f"no pair of sentences in it; give {due}")
        if column not in names and (column or len(names) != 1):
            raise CorpusError(f"no label {quoted(column)}; name the one with scores as column, of {listed(names)}")
        labels = dict(text.targets(column or names[0]))
        for first in filter(labels.__contains__, firsts):
            label = str(labels[first][0].label)
            try:
                judged.append(float(label))
            except ValueError:
                raise CorpusError(f"pair {quoted(stems[first][0])}: label {quoted(label)} is no number") from None
            found.append((first, first + 1))
        if not np.isfinite(judged).all() or len(set(judged)) < 2:
            raise CorpusError("the scores of pairs are all the same, or not finite: there is nothing to correlate with")
        pairs, scores = np.array(found, dtype=np.int64), np.array(judged)
        if words is None:
            drawn = np.random.default_rng(0).permutation
            chosen = {split: drawn(len(text))[: self.most_sentences] for split, text in sentences.items()}
            chosen["test"] = pairs[drawn(len(pairs))[: self.most_sentences // 2]]
            of = {split: np.isin(text.sentence_of_word, chosen[split]) for split, text in sentences.items()}
            words = {split: np.flatnonzero(is_in) for split, is_in in of.items()}
        read = np.isin(pairs, sentences["test"].sentence_of_word[words["test"]]).all(axis=1)
        if (n := int(read.sum())) < _LEAST_PAIRS:
            raise CorpusError(f"{n} pairs of sentences with a score; give {_LEAST_PAIRS} or more")
        n_train = len(np.unique(sentences["train"].sentence_of_word[words["train"]])) if "train" in words else 0
        return TextItems(words, GeometryCounts(n, n_train), (pairs[read], scores[read]))

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Correlations by layer."""
        numbers = {split: np.unique(sentences[split].sentence_of_word[words]) for split, words in items.words.items()}
        (pairs, scores), layers = items.data, vectors["test"].layers
        places = np.searchsorted(numbers["test"], pairs)  # [pair, 2]

        def of_sentences(layer: int) -> dict[str, Floats32]:
            """``[sentence, dim]`` by split: the special tokens where these are read, else the means of words."""
            found = {}
            for split, read in numbers.items():
                ends = sentences[split].starts[np.stack([read, read + 1], axis=1)]
                if (cls := vectors.get(f"cls:{split}")) is not None:
                    found[split] = cls.of(layer)[np.searchsorted(cls.words, read)]
                else:
                    words = vectors[split]
                    found[split] = span_means(words.of(layer), np.searchsorted(words.words, ends))
            return found

        first = of_sentences(1) if 1 in layers else {}

        def measured(layer: int) -> Iterator[LayerSums]:
            of_layer = of_sentences(layer)
            mixed = {split: (of_layer[split] + some) / np.float32(2) for split, some in first.items()}
            every = {"spearman": of_layer} | ({"spearman first_last": mixed} if mixed else {})
            for metric, by_split in every.items():
                unit = unit_vectors(self._changed(by_split), layer, may_vanish=True)
                cosines = np.einsum("pd,pd->p", *(unit[one] for one in places.T), dtype=np.float64)
                if np.ptp(cosines) > _SAME:
                    yield rank_correlation_sums(metric, cosines, scores, "pairs")

        return by_layer((layer, measured(layer)) for layer in layers)

    def _changed(self, by_split: Mapping[str, Floats32]) -> Floats32:
        """``[sentence, dim]`` the vectors of test whose cosines are taken."""
        return by_split["test"]

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The correlation of what both sentences share on the surface."""
        text, (pairs, scores) = sentences["test"], items.data
        starts, values = text.starts.tolist(), list[float]()
        for pair in pairs.tolist():
            one, other = ([text.word(w).casefold() for w in range(starts[n], starts[n + 1])] for n in pair)
            if name == "length":
                values.append(min(len(one), len(other)) / max(len(one), len(other)))
            else:
                values.append(len({*one} & {*other}) / len({*one} | {*other}))
        if np.ptp(values) > _SAME:
            yield rank_correlation_sums("spearman", values, scores, "pairs")


@dataclass(frozen=True)
class Whitened(SentenceSimilarity):
    """Are the whitened vectors of two sentences the more alike, the more similar people find them?"""

    dimensions: int = 0
    """Directions of the largest variance that are kept (256 in one of the paper's settings); all when 0."""
    task = "sentence_similarity:whitened"
    reference = "Su et al. 2021"
    reads = ("train", "test")
    fits = "mean and variance of the vectors of training sentences, with no label"

    def _changed(self, by_split: Mapping[str, Floats32]) -> Floats32:
        train = by_split["train"].astype(np.float64)
        mean = train.mean(axis=0)
        variances, directions = np.linalg.eigh(np.cov(train - mean, rowvar=False))
        least = max(_LEAST_VARIANCE * variances[-1], _ROUNDING * float((train**2).mean()))
        kept = np.flatnonzero(variances > least)[::-1][: self.dimensions or None]
        whitening = directions[:, kept] / np.sqrt(variances[kept])
        return np.asarray((by_split["test"] - mean) @ whitening, dtype=np.float32)


PROBE = ProbeFamily.among([Whitened()], argument="change of vectors", default=SentenceSimilarity())
