"""All that describes the vectors of a text, of its words, its sentences and the whole, in one reading of each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from bertology.errors import CorpusError
from bertology.geometry._contextuality import Contextuality, WordSample
from bertology.geometry._layers import Groups, LayerStatistic, OneLayer, group_sums, read_layers
from bertology.geometry._spectrum import Spectrum, sentence_blocks
from bertology.geometry._sums import Clusters, Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import LayerVectors


def text_statistics(
    vectors: LayerVectors,
    sentences: Integers,
    sample: WordSample,
    tags: Integers | None = None,
    *,
    documents: Integers | None = None,
) -> Iterator[LayerSums]:
    """All that describes the vectors of a text, in one reading of each layer.

    That is what :func:`contextuality`, :func:`anisotropy`, :func:`intra_sentence_similarity`, :func:`variance_shares`
    of the words of the sample, and :func:`spectrum` yield.

    Args:
        vectors: of the words of whole sentences.
        sentences: ``[word]`` the sentence of each, ascending.
        sample: the words whose types are compared.
        tags: ``[word]`` the tag of each, where there are tags.
        documents: ``[word]`` the document of each, ascending. Then intervals are over 20 blocks of whole documents,
            but for those of explainable variance; else over types, sentences, and blocks of sentences, as if other text
            were of the same documents.

    Raises:
        CorpusError: there are fewer than 20 sentences, or documents.
    """
    types = np.repeat(np.arange(len(sample.counts)), sample.counts)
    units = sentences if documents is None else documents
    bounds = sentence_blocks(units, of="sentences" if documents is None else "documents")
    blocks = None if documents is None else np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    of_word = sentences if blocks is None else blocks
    _, clusters = np.unique(of_word[sample.places], return_inverse=True)
    kind: Clusters = "sentences" if blocks is None else "documents"
    shares = _VarianceShares(sample.places, types, None if tags is None else tags[sample.places], clusters, kind=kind)
    statistics = [
        Contextuality(sample, None if blocks is None else blocks[sample.places]),
        _Anisotropy(of_word, kind=kind),
        _IntraSentence(sentences, blocks=blocks),
        shares,
        Spectrum("blocks" if blocks is None else "documents"),
    ]
    return read_layers(vectors, statistics, bounds)


def anisotropy(vectors: LayerVectors, sentences: Integers) -> Iterator[LayerSums]:
    """The mean cosine of two words, of all pairs of words of a text (Ethayarajh 2019, section 3.3, of all pairs).

    Intervals leave out one sentence after the other (jackknife).

    Args:
        vectors: of the words of a text.
        sentences: ``[word]`` the sentence of each, ascending.
    """
    return read_layers(vectors, [_Anisotropy(sentences)])


class _Anisotropy(LayerStatistic):
    def __init__(self, clusters: Integers, *, kind: Clusters = "sentences") -> None:
        _, starts, self._counts = np.unique(clusters, return_index=True, return_counts=True)
        self._starts, self._kind = np.append(starts, len(clusters)), kind

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[1 + cluster]`` the mean, and what leaving each cluster out changes."""
        by_cluster = group_sums(layer.vectors, self._starts, weights=np.reciprocal(layer.lengths))
        whole, influences = mean_cosine(by_cluster.astype(np.float64), self._counts)
        return {"anisotropy": np.append(whole, influences)}

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Of all pairs."""
        for name, found in values.items():
            yield jackknife_sums(name, layers, found[:, 0], found[:, 1:], self._kind)


def mean_cosine(by_cluster: Floats, counts: Integers) -> tuple[float, Floats]:
    """The mean cosine of all pairs of words, and ``[cluster]`` by how much it is more than without each cluster.

    Args:
        by_cluster: ``[cluster, dim]`` sums of the unit vectors of each cluster.
        counts: ``[cluster]`` its number of words.
    """
    n, total = int(counts.sum()), by_cluster.sum(axis=0)
    # ‖Σ x̂‖² less the n cosines of words with themselves, without each cluster.
    left = n - counts
    squared = total @ total - 2 * by_cluster @ total + (by_cluster**2).sum(axis=1)
    whole = (total @ total - n) / (n * (n - 1))
    without = (squared - left) / (left * (left - 1))
    return float(whole), np.asarray(whole - without)


def intra_sentence_similarity(vectors: LayerVectors, sentences: Integers, *, seed: int = 0) -> Iterator[LayerSums]:
    """How close words are to the mean of their sentence: mean cosine of both, beside words at random.

    The baseline is the same of sentences of as many words drawn at random from the whole text. Sentences are weighted
    alike; one with a single word is left out, as it is its own mean.

    Args:
        vectors: of the words of whole sentences.
        sentences: ``[word]`` the sentence of each, ascending.
        seed: of the words at random.

    Raises:
        CorpusError: every sentence has one word.
    """
    return read_layers(vectors, [_IntraSentence(sentences, seed=seed)])


class _IntraSentence(LayerStatistic):
    def __init__(self, sentences: Integers, *, seed: int = 0, blocks: Integers | None = None) -> None:
        _, starts, counts = np.unique(sentences, return_index=True, return_counts=True)
        starts, self._counts = starts[counts > 1], counts[counts > 1]
        if not len(starts):
            raise CorpusError("every sentence has a single word, which has no context: give sentences")
        self._bounds = np.append(0, self._counts.cumsum())
        self._places = np.arange(self._bounds[-1]) + np.repeat(starts - self._bounds[:-1], self._counts)
        self._shuffled = np.random.default_rng(seed).permutation(self._places)
        self._clusters = np.arange(len(starts)) if blocks is None else blocks[starts]
        self._kind: Clusters = "sentences" if blocks is None else "documents"

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[sentence]`` mean cosines."""
        return {"raw": self._to_mean(layer, self._places), "baseline": self._to_mean(layer, self._shuffled)}

    def _to_mean(self, layer: OneLayer, order: Integers) -> Floats:
        """Of words with the mean of their sentence, whose direction is that of their sum."""
        weights = np.stack([np.ones_like(layer.lengths), np.reciprocal(layer.lengths)], axis=1)
        both = group_sums(layer.vectors, self._bounds, order=order, weights=weights)
        sums, of_unit = both[:, 0].astype(np.float64), both[:, 1]
        lengths = np.linalg.norm(sums, axis=1)
        products = np.einsum("sd,sd->s", sums, of_unit)
        return np.asarray(np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0) / self._counts)

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Means over sentences."""
        under = np.bincount(self._clusters).astype(np.float64)[None]
        adjusted = values["raw"] - values["baseline"]
        for name, of_sentences in (("", values["raw"]), ("_adjusted", adjusted)):
            over = np.stack([np.bincount(self._clusters, of_layer) for of_layer in of_sentences]).astype(np.float64)
            yield LayerSums(f"intra_sentence_similarity{name}", layers, over, under, self._kind)


def variance_shares(
    vectors: LayerVectors, places: Integers, types: Integers, tags: Integers | None, sentences: Integers
) -> Iterator[LayerSums]:
    """Shares of the variance of vectors between word types, between the tags of a type, and within a tag of a type.

    Variances are unbiased, pooled over types: n occurrences of a type vary by SS / (n − 1), so that a type of few
    occurrences is not taken for one that explains them (ε², Kelley 1935). The three shares add up to 1.

    Args:
        vectors: of the words.
        places: ``[item]`` the words among them that are decomposed: types that occur at least twice.
        types: ``[item]`` their types.
        tags: ``[item]`` their tags; None where there are none, then types are not divided.
        sentences: ``[item]`` their sentences, from 0.

    Yields:
        ``variance_between_types``, ``variance_between_tags`` (with tags) and ``variance_within``, over sentences.
    """
    return read_layers(vectors, [_VarianceShares(places, types, tags, sentences)])


class _VarianceShares(LayerStatistic):
    def __init__(
        self,
        places: Integers,
        types: Integers,
        tags: Integers | None,
        sentences: Integers,
        *,
        kind: Clusters = "sentences",
    ) -> None:
        cells = types if tags is None else np.unique(np.stack([types, tags]), axis=1, return_inverse=True)[1].ravel()
        self._places, self._sentences, self._has_tags, self._kind = places, sentences, tags is not None, kind
        self._groups = {
            name: Groups(of) for name, of in (("total", np.zeros_like(types)), ("types", types), ("cells", cells))
        }
        self._degrees = {name: len(places) - len(groups) for name, groups in self._groups.items()}
        if not self._degrees["cells"]:
            raise CorpusError(
                "no word occurs twice with the same tag, so that its variance is not known: give more text"
            )

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[sentence]`` sums of squares, over their degrees of freedom."""
        some = layer.centred(self._places)
        found = {}
        for name, groups in self._groups.items():
            squares = groups.squared_distances(some)
            found[name] = np.bincount(self._sentences, squares) / self._degrees[name]
        return found

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """Shares of the variance of the whole text."""
        total, within_types, within = values["total"], values["types"], values["cells"]
        kind = self._kind
        yield LayerSums("variance_between_types", layers, total - within_types, total, kind)
        if self._has_tags:
            yield LayerSums("variance_between_tags", layers, within_types - within, total, kind)
        yield LayerSums("variance_within", layers, within, total, kind)
