"""Likeness of the layers of one model or of two, by any measure, with intervals over blocks of sentences and a null."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology._names import name_not_found
from bertology.errors import CorpusError
from bertology.geometry import _likeness as likeness
from bertology.geometry._sums import Floats, Integers
from bertology.geometry._vectors import Floats32, LayerVectors

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure

N_BLOCKS = 10
_PAIRED = 1000
"""Words of which all pairs are formed."""
_PER_DIMENSION = 12
"""Words for each dimension where products of dimensions are enough."""


@dataclass(frozen=True)
class Measure:
    """A measure of likeness in two steps, so that the vectors of a layer are prepared once for all pairs."""

    prepare: Callable[[Floats32], Any]
    compare: Callable[[Any, Any], float]
    """Symmetric: of a measure that is not, the mean of both directions."""
    is_paired: bool = False
    """Whether all pairs of words are formed."""
    reorder: Callable[[Any, Integers], Any] | None = None
    """Brings what is prepared to another order of words; where there is none, it is prepared again."""

    def words(self, vectors: Sequence[LayerVectors]) -> int:
        """How many words it is computed on."""
        most = _PAIRED if self.is_paired else max(4000, _PER_DIMENSION * max(one.dim for one in vectors))
        return min(most, *(len(one) for one in vectors))


MEASURES: Mapping[str, Measure] = {
    "cka": Measure(likeness.cka_parts, likeness.parts_cka, reorder=likeness.reordered_parts),
    "procrustes": Measure(likeness.centred, likeness.procrustes),
    "rsa": Measure(lambda x: x, likeness.rsa, is_paired=True),
    "rsa_spearman": Measure(lambda x: x, likeness.rsa_spearman, is_paired=True),
    "mutual_neighbours": Measure(lambda x: x, likeness.mutual_neighbours, is_paired=True),
    "svcca": Measure(likeness.svcca_parts, lambda a, b: likeness.canonical(a, b)[0].mean()),
    "pwcca": Measure(likeness.pwcca_parts, likeness.projected),
    "rbf": Measure(likeness.rbf_gram, likeness.gram_cka, is_paired=True),
    "neuron_matching": Measure(likeness.standardised, likeness.matching),
}


def blocks_of(clusters: Integers) -> Integers:
    """``[word]`` the block of each word: ten of neighbouring sentences, or as many as there are sentences."""
    n_sentences = int(clusters[-1]) + 1
    return np.asarray(clusters * min(N_BLOCKS, n_sentences) // n_sentences)


def left_out(
    measure: Measure, a: LayerVectors, b: LayerVectors, clusters: Integers, pairs: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Floats]:
    """``[1 + block]`` the likeness of some pairs of layers, of all words and without each block.

    Pairs are places in ``a.layers`` and ``b.layers``; the vectors of one model may be given as both.
    """
    n = measure.words((a, b))
    blocks = blocks_of(clusters[:n])
    vectors_a = [a.of(layer)[:n] for layer in a.layers]
    vectors_b = vectors_a if b is a else [b.of(layer)[:n] for layer in b.layers]
    found: dict[tuple[int, int], list[float]] = {pair: [] for pair in pairs}
    for block in (-1, *range(int(blocks[-1]) + 1)):
        kept = blocks != block
        parts_a = [measure.prepare(vectors[kept]) for vectors in vectors_a]
        parts_b = parts_a if b is a else [measure.prepare(vectors[kept]) for vectors in vectors_b]
        known: dict[tuple[int, int], float] = {}
        for first, second in pairs:
            # Measures are symmetric: of a model's own layers each pair is compared once.
            if b is not a or (second, first) not in known:
                known[first, second] = float(measure.compare(parts_a[first], parts_b[second]))
            found[first, second].append(known.get((first, second), known.get((second, first), np.nan)))
    return {pair: np.array(values) for pair, values in found.items()}


def shuffled_likeness(measure: Measure, vectors: Sequence[Floats32], *, seed: int = 0) -> Floats:
    """``[layer − 1]`` likeness by chance: of each layer and the one before, whose words are in random order."""
    order = np.random.default_rng(seed).permutation(len(vectors[0]))
    parts, found = measure.prepare(vectors[0]), []
    for below, above in itertools.pairwise(vectors):
        shuffled = measure.reorder(parts, order) if measure.reorder else measure.prepare(below[order])
        parts = measure.prepare(above)
        found.append(float(measure.compare(parts, shuffled)))
    return np.array(found)


def most_alike(
    vectors_a: LayerVectors, vectors_b: LayerVectors, *, measure: str = "cka"
) -> tuple[tuple[int, int], ...]:
    """For each layer of a model the layer of another that is most like it, over the same words.

    Args:
        vectors_a: of the words of a text; of these the first 4,000 or 12 for each dimension are compared, 1,000 for
            measures of pairs of words.
        vectors_b: of the same words in the other model.
        measure: as of :func:`compare_layers`.

    Returns:
        Numbers of layers of a, each with that of b; of equals the lowest.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: the words are not the same.
        FitError: words are too few.
    """
    if measure not in MEASURES:
        raise name_not_found("measure of similarity", measure, MEASURES)
    vectors_a.check_same_words(vectors_b)
    chosen = MEASURES[measure]
    n = chosen.words((vectors_a, vectors_b))
    parts_b = [chosen.prepare(vectors_b.of(layer)[:n]) for layer in vectors_b.layers]
    found = []
    for layer in vectors_a.layers:
        part = chosen.prepare(vectors_a.of(layer)[:n])
        likeness_to = [chosen.compare(part, part_b) for part_b in parts_b]
        found.append((layer, vectors_b.layers[int(np.argmax(likeness_to))]))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class LayerMatrix:
    """The likeness of the layers of two models, or of one with itself."""

    measure: str
    layers_a: tuple[int, ...]
    layers_b: tuple[int, ...]
    values: Floats
    """``[layer a, layer b]``"""
    ci_low: Floats
    """``[layer a, layer b]`` lower ends of 95 % intervals, by the jackknife over ten blocks of sentences."""
    ci_high: Floats
    """``[layer a, layer b]`` upper ends."""
    null: Floats
    """``[layer a, layer b]`` the same with the words of b in random order."""
    n_words: int
    """That it was computed on."""

    def to_pandas(self) -> pd.DataFrame:
        """A data frame: a row for each pair of layers."""
        import pandas as pd

        rows, columns = np.indices(self.values.shape)
        layers = {"layer_a": np.array(self.layers_a)[rows.ravel()], "layer_b": np.array(self.layers_b)[columns.ravel()]}
        named = ("values", "ci_low", "ci_high", "null")
        return pd.DataFrame(layers | {name.rstrip("s"): getattr(self, name).ravel() for name in named})

    def plot(self, *, title: str | None = None) -> ShownFigure:
        """A heatmap with the layers of a on the vertical axis, from the bottom up, and those of b on the other."""
        from bertology.attention import plot_head
        from bertology.encoders import LabelledArray

        labels = {"from": list(map(str, self.layers_a[::-1])), "to": list(map(str, self.layers_b))}
        shades = LabelledArray(np.clip(self.values[::-1], 0, None).astype(np.float32), labels, {})
        return plot_head(shades, title=title or f"{self.measure} of layers", label=self.measure)


def compare_layers(
    vectors_a: LayerVectors, vectors_b: LayerVectors, sentences: Integers, *, measure: str = "cka"
) -> LayerMatrix:
    """How alike the layers of two models are, over the same words: all layers of one by all of the other.

    Such as pretrained and random weights, two seeds, or before and after fine-tuning. Vectors may differ in width, but
    for ``procrustes``, which then rotates the narrower into the wider. Words are the first 4,000 or 12 for each
    dimension; 1,000 for measures of pairs of words.

    Args:
        vectors_a: of the words of a text.
        vectors_b: of the same words; ``vectors_a`` itself compares a model's own layers.
        sentences: ``[word]`` the sentence of each, ascending.
        measure: ``cka``, ``procrustes``, ``rsa``, ``rsa_spearman``, ``mutual_neighbours``, ``svcca``, ``pwcca``,
            ``rbf`` or ``neuron_matching``; of ``pwcca`` and ``neuron_matching``, which are not symmetric, the mean of
            both ways.

    Raises:
        NameNotFoundError: there is no such measure.
        CorpusError: other words, or words of fewer than three sentences.
        FitError: words are too few for the measure.
    """
    from scipy.special import stdtrit

    if measure not in MEASURES:
        raise name_not_found("measure of similarity", measure, MEASURES)
    if len(vectors_a) != len(vectors_b) or len(vectors_a) != len(sentences):
        sizes = f"{len(vectors_a)}, {len(vectors_b)} and {len(sentences)}"
        raise CorpusError(f"vectors and sentences of {sizes} words cannot be compared: give those of the same words")
    vectors_a.check_same_words(vectors_b)
    chosen = MEASURES[measure]
    n = chosen.words((vectors_a, vectors_b))
    _, clusters = np.unique(sentences[:n], return_inverse=True)
    if len(clusters) < likeness.LEAST or clusters[-1] < 2:
        raise CorpusError(f"{n} words of fewer than three sentences are too few to compare layers by: give more text")
    shape = len(vectors_a.layers), len(vectors_b.layers)
    found = left_out(chosen, vectors_a, vectors_b, clusters, list(np.ndindex(shape)))
    every = np.stack(list(found.values())).reshape(*shape, -1)
    values, without = every[..., 0], every[..., 1:]
    n_blocks = without.shape[2]
    spread = ((without - without.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    reach = stdtrit(n_blocks - 1, 0.975) * np.sqrt(spread * (n_blocks - 1) / n_blocks)
    order = np.random.default_rng(0).permutation(n)
    parts_a = [chosen.prepare(vectors_a.of(layer)[:n]) for layer in vectors_a.layers]
    parts_b = [chosen.prepare(vectors_b.of(layer)[:n][order]) for layer in vectors_b.layers]
    null = np.array([[chosen.compare(a, b) for b in parts_b] for a in parts_a], dtype=np.float64)
    return LayerMatrix(
        measure, vectors_a.layers, vectors_b.layers, values, values - reach, values + reach, null, n_words=n
    )
