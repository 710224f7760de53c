"""How the clusters of labelled words lie in two models: separable or not, how far apart, and in which layout."""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import LayerVectors
from bertology.errors import CorpusError
from bertology.measures.sums import LayerSums, by_layer, left_out_sums, ratio_sums

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_LEAST = 10
"""Words of a label, below which it is left out."""
_BLOCKS = 50
"""Number of blocks of neighbouring sentences, each of which is left out once."""
_COST = 1e6
"""C of a support-vector machine whose margin is hard, as Zhou & Srikumar have it."""
_MOST = 0.5
"""Proportion of pairs that have to be separable with shuffled labels for distances to be held against theirs."""
_STEPS = 20_000
"""Iterations of its solver; where it separates nothing after them, nothing separates."""


@dataclass(frozen=True, eq=False)
class LabelClusters:
    """The clusters of labels in a model B and in its reference A; returned by :func:`label_clusters`.

    What is known of a model are ``centroids`` ``[layer, pair]``, distances of centroids, the squared ones less what
    their sampling adds; ``spread`` ``[layer]``, root mean squared distance of a word from the centroid of its label;
    both as ``…_left_out`` without each block of sentences ``[layer, block, …]``; ``hulls`` ``[layer, pair]``, distances
    of convex hulls of a sample of words, 0 of labels that no hyperplane separates; ``shuffled``, the same of shuffled
    labels.
    """

    labels: tuple[str, ...]
    """Most frequent first."""
    layers: tuple[tuple[int, int], ...]
    """Each layer of B, and the one of A that it is compared with."""
    model: Mapping[str, Floats]
    reference: Mapping[str, Floats]
    n_words: int

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of labels, in the order of distances."""
        return tuple(itertools.combinations(self.labels, 2))

    def table(self) -> pd.DataFrame:
        """A row for each layer: means over pairs of labels, of A (``_reference``) and of B (``_model``).

        Columns are ``layer``, ``reference_layer``, ``separable`` (the proportion of pairs that a hyperplane separates),
        ``separable_shuffled`` (of B with shuffled labels: where this is 1, there are too few words for the dimensions,
        and ``separable`` means nothing), ``centroids`` (distance of centroids over the spread of words around them),
        ``hulls`` (distance of hulls over that of shuffled labels, NaN where most of these cannot be separated),
        ``layout`` (Pearson correlation between A and B of the distances of centroids) and ``layout_hulls``.
        """
        import pandas as pd

        columns: dict[str, object] = {"layer": [of_b for of_b, _ in self.layers]}
        columns["reference_layer"] = [of_a for _, of_a in self.layers]
        for name, layout in (("reference", self.reference), ("model", self.model)):
            columns[f"separable_{name}"] = (layout["hulls"] > 0).mean(axis=1)
            columns[f"centroids_{name}"] = layout["centroids"].mean(axis=1) / layout["spread"]
            known = layout["shuffled"] > 0
            ratios = _over((layout["hulls"] * known).sum(axis=1), layout["shuffled"].sum(axis=1))
            columns[f"hulls_{name}"] = np.where(known.mean(axis=1) < _MOST, np.nan, ratios)
        columns["separable_shuffled"] = (self.model["shuffled"] > 0).mean(axis=1)
        columns["layout"] = _pearson(self.reference["centroids"], self.model["centroids"])
        columns["layout_hulls"] = _pearson(self.reference["hulls"], self.model["hulls"])
        return pd.DataFrame(columns)

    def pair_table(self) -> pd.DataFrame:
        """A row for each layer and pair of labels: both distances in both models."""
        import pandas as pd

        rows = ((layer, *pair) for layer, _ in self.layers for pair in self.pairs)
        found = {
            f"{what}_{name}": layout[what].ravel()
            for name, layout in (("reference", self.reference), ("model", self.model))
            for what in ("centroids", "hulls")
        }
        return pd.DataFrame(rows, columns=["layer", "label", "other"]).assign(**found)

    def statistics(self) -> Iterator[LayerSums]:
        """The columns of :meth:`table` as statistics of layers; of centroids with what blocks of sentences add."""
        frame, model, reference = self.table(), self.model, self.reference
        without = {
            "layout": _pearson(reference["centroids_left_out"], model["centroids_left_out"]),
            "centroids_model": model["centroids_left_out"].mean(axis=2) / model["spread_left_out"],
            "centroids_reference": reference["centroids_left_out"].mean(axis=2) / reference["spread_left_out"],
        }
        without["centroids_change"] = without["centroids_model"] - without["centroids_reference"]
        frame["centroids_change"] = frame["centroids_model"] - frame["centroids_reference"]
        single = [name for name in frame.columns if name not in {*without, "layer", "reference_layer"}]
        # One that is undefined in the first layers keeps its place.
        for name in (*without, *single):
            of_layers = []
            for place, (layer, _) in enumerate(self.layers):
                whole = np.array([frame[name][place]], dtype=np.float64)
                if not np.isfinite(whole[0]):
                    continue
                if name in without:
                    one = left_out_sums(name, np.append(whole, without[name][place]), "blocks")
                else:
                    one = ratio_sums(name, whole, None, "blocks")
                of_layers.append((layer, [one]))
            yield from by_layer(of_layers)


def label_clusters(
    model: LayerVectors,
    reference: LayerVectors,
    labels: Sequence[str | None],
    of_sentence: NDArray[np.int64],
    *,
    layers: Sequence[tuple[int, int]] | None = None,
    most_labels: int = 10,
    per_label: int = 100,
    seed: int = 0,
) -> LabelClusters:
    """How labels of words lie to each other in a model B and in its reference A (Zhou & Srikumar 2022, section 3).

    Of every pair of labels the distance of centroids, over all words, and the distance of convex hulls, over a sample
    of each label: twice the margin of a linear support-vector machine with C = 10⁶. Where no label's hull meets
    another's, the labels are linearly separable. Words in many dimensions always are (with fewer words than
    dimensions whatever their labels), hence the same with labels shuffled within each pair. Squared distances of
    centroids are less the sampling variance of the centroids, without which rare labels would look far apart.

    Args:
        model: vectors of words in layers of B.
        reference: vectors of the same words in layers of A.
        labels: ``[word]``, None for words that are left out.
        of_sentence: ``[word]`` the sentence of each word, in rising order.
        layers: layers of B, each with one of A; those of the same number when left out.
        most_labels: at most so many labels, the most frequent ones.
        per_label: at most so many words of each in hulls, drawn at random.
        seed: of this sample and of shuffled labels.

    Raises:
        CorpusError: fewer than three labels have ten words each, or the words of the models are not the same.
    """
    model.check_same_words(reference)
    values, codes = np.unique([label or "" for label in labels], return_inverse=True)
    counts = np.bincount(codes)
    order = [code for code in np.argsort(-counts, kind="stable") if values[code] and counts[code] >= _LEAST]
    chosen = order[:most_labels]
    if len(chosen) < 3:
        raise CorpusError(
            f"{len(chosen)} labels have {_LEAST} words or more, and clusters are compared of three or more: give more "
            "sentences, or other labels"
        )
    rank = np.full(len(values), -1, dtype=np.int64)
    rank[chosen] = np.arange(len(chosen))
    words = np.flatnonzero(rank[codes] >= 0)
    drawn = _Drawn(rank[codes][words], np.asarray(of_sentence)[words], per_label, seed)
    both = [(layer, layer) for layer in model.layers] if layers is None else list(layers)
    return LabelClusters(
        tuple(str(values[code]) for code in chosen),
        tuple(both),
        _layout((model.of(layer)[words] for layer, _ in both), drawn),
        _layout((reference.of(layer)[words] for _, layer in both), drawn),
        len(words),
    )


class _Drawn:
    """The choices that both models and all layers share: labels, blocks of sentences, and samples."""

    def __init__(self, codes: Integers, of_sentence: Integers, per_label: int, seed: int) -> None:
        self.codes, self.n_labels = codes, int(codes.max()) + 1
        sentences, place = np.unique(of_sentence, return_inverse=True)
        self.n_blocks = min(_BLOCKS, len(sentences))
        self.block = place * self.n_blocks // len(sentences)
        self.pairs = list(itertools.combinations(range(self.n_labels), 2))
        chance = np.random.default_rng(seed)
        places = [np.flatnonzero(codes == label) for label in range(self.n_labels)]
        parts = [np.sort(chance.permutation(of)[:per_label]) for of in places]
        self.sample = np.concatenate(parts)
        self.of_sample = np.repeat(np.arange(self.n_labels), [len(part) for part in parts])
        self.orders = [chance.permutation(len(parts[one]) + len(parts[other])) for one, other in self.pairs]


def _layout(layers: Iterator[NDArray[np.float32]], drawn: _Drawn) -> dict[str, Floats]:
    found: dict[str, list[Any]] = defaultdict(list)
    for vectors in layers:
        centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
        for name, values in zip(("centroids", "spread"), _centroids(centred, drawn), strict=True):
            found[name].append(values[0])
            found[f"{name}_left_out"].append(values[1:])
        products, hulls = centred[drawn.sample] @ centred[drawn.sample].T, []
        for (one, other), order in zip(drawn.pairs, drawn.orders, strict=True):
            # The labels of the first come first, as the sample is by label.
            words = np.flatnonzero((drawn.of_sample == one) | (drawn.of_sample == other))
            of_pair, labels = products[np.ix_(words, words)], (drawn.of_sample[words] == other).astype(int)
            hulls.append((_hull_distance(of_pair, labels), _hull_distance(of_pair, labels[order])))
        for name, distances in zip(("hulls", "shuffled"), zip(*hulls, strict=True), strict=True):
            found[name].append(distances)
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}


def _centroids(vectors: Floats, drawn: _Drawn) -> tuple[Floats, Floats]:
    """``[1 + block, pair]`` distances of centroids and ``[1 + block]`` spreads: of all, then without each block."""
    n_labels, dim = drawn.n_labels, vectors.shape[1]
    sums, squares = np.zeros((drawn.n_blocks, n_labels, dim)), np.zeros((drawn.n_blocks, n_labels))
    sizes = np.zeros((drawn.n_blocks, n_labels))
    for block in range(drawn.n_blocks):
        here = np.flatnonzero(drawn.block == block)
        is_label = (drawn.codes[here] == np.arange(n_labels)[:, None]).astype(np.float64)
        sums[block], sizes[block] = is_label @ vectors[here], is_label.sum(axis=1)
        squares[block] = is_label @ np.square(vectors[here]).sum(axis=1)
    total, square, size = (
        np.concatenate([part.sum(axis=0)[None], part.sum(axis=0) - part]) for part in (sums, squares, sizes)
    )
    means = total / size[..., None]
    within = square - np.square(total).sum(axis=2) / size
    variance = within / (size - 1) / size  # of a centroid
    one, other = np.array(drawn.pairs).T
    squared = np.square(means[:, one] - means[:, other]).sum(axis=2) - variance[:, one] - variance[:, other]
    spread = np.sqrt(within.sum(axis=1) / (size.sum(axis=1) - n_labels))
    return np.sqrt(np.maximum(squared, 0)), spread


def _hull_distance(products: Floats, labels: Integers) -> float:
    """The distance of the convex hulls of two labels ``[word]``, from inner products ``[word, word]``."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC

    with warnings.catch_warnings():
        # Where nothing separates the labels, the solver cannot converge, which is the answer.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = SVC(kernel="precomputed", C=_COST, max_iter=_STEPS).fit(products, labels)
    if (fitted.predict(products) != labels).any():
        return 0.0
    weights, support = fitted.dual_coef_[0], fitted.support_
    return float(2 / np.sqrt(weights @ products[np.ix_(support, support)] @ weights))


def _pearson(one: Floats, other: Floats) -> Floats:
    """Correlations along the last axis; NaN where one is constant."""
    a, b = (values - values.mean(axis=-1, keepdims=True) for values in (one, other))
    return _over((a * b).sum(axis=-1), np.sqrt(np.square(a).sum(axis=-1) * np.square(b).sum(axis=-1)))


def _over(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))
