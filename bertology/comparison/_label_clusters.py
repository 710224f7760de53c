"""How the clusters of labelled words lie in two models: separable or not, how far apart, and in which layout."""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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


_LEFT_OUT = ("layout", "centroids_model", "centroids_reference", "centroids_change")
"""Statistics with what leaving out each block changes."""


@dataclass(frozen=True, eq=False)
class LabelClusters:
    """The clusters of labels in a model B and in its reference A; returned by :func:`label_clusters`.

    What is known of a model are, of all words and without each block of sentences, ``centroids`` ``[layer, 1 + block,
    pair]``, distances of centroids, the squared ones less what their sampling adds, and ``spread`` ``[layer, 1 +
    block]``, root mean squared distance of a word from the centroid of its label; and ``hulls`` ``[layer, pair]``,
    distances of convex hulls of a sample of words, 0 of labels that no hyperplane separates; ``shuffled``, the same of
    shuffled labels.
    """

    labels: tuple[str, ...]  # most frequent first
    layers: tuple[tuple[int, int], ...]  # each layer of B, and the one of A that it is compared with
    model: Mapping[str, Floats]
    reference: Mapping[str, Floats]
    n_words: int

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of labels, in the order of distances."""
        return tuple(itertools.combinations(self.labels, 2))

    @cached_property
    def _columns(self) -> dict[str, Floats]:
        """The columns of :meth:`table`, ``[layer, 1 + block]`` where blocks are left out, else ``[layer]``."""
        columns: dict[str, Floats] = {}
        for name, layout in (("reference", self.reference), ("model", self.model)):
            columns[f"separable_{name}"] = (layout["hulls"] > 0).mean(axis=1)
            columns[f"centroids_{name}"] = layout["centroids"].mean(axis=2) / layout["spread"]
            known = layout["shuffled"] > 0
            ratios = _over((layout["hulls"] * known).sum(axis=1), layout["shuffled"].sum(axis=1))
            columns[f"hulls_{name}"] = np.where(known.mean(axis=1) < _MOST, np.nan, ratios)
        columns["separable_shuffled"] = (self.model["shuffled"] > 0).mean(axis=1)
        columns["layout"] = _pearson(self.reference["centroids"], self.model["centroids"])
        columns["layout_hulls"] = _pearson(self.reference["hulls"], self.model["hulls"])
        return columns

    def table(self) -> pd.DataFrame:
        """A row for each layer: means over pairs of labels, of A (``_reference``) and of B (``_model``).

        Columns are ``layer``, ``reference_layer``, ``separable`` (the proportion of pairs that a hyperplane separates),
        ``separable_shuffled`` (of B with shuffled labels: where this is 1, there are too few words for the dimensions,
        and ``separable`` means nothing), ``centroids`` (distance of centroids over the spread of words around them),
        ``hulls`` (distance of hulls over that of shuffled labels, NaN where most of these cannot be separated),
        ``layout`` (Pearson correlation between A and B of the distances of centroids) and ``layout_hulls``.
        """
        import pandas as pd

        layers = pd.DataFrame(self.layers, columns=["layer", "reference_layer"])
        return layers.assign(**{name: of[:, 0] if of.ndim > 1 else of for name, of in self._columns.items()})

    def pair_table(self) -> pd.DataFrame:
        """A row for each layer and pair of labels: both distances in both models."""
        import pandas as pd

        rows = ((layer, *pair) for layer, _ in self.layers for pair in self.pairs)
        frame = pd.DataFrame(rows, columns=["layer", "label", "other"])
        for name, layout in (("reference", self.reference), ("model", self.model)):
            frame[f"centroids_{name}"] = layout["centroids"][:, 0].ravel()
            frame[f"hulls_{name}"] = layout["hulls"].ravel()
        return frame

    def statistics(self) -> Iterator[LayerSums]:
        """The columns of :meth:`table` as statistics of layers; of centroids with what blocks of sentences add."""
        columns, found = dict(self._columns), []
        columns["centroids_change"] = columns["centroids_model"] - columns["centroids_reference"]
        for name in dict.fromkeys([*_LEFT_OUT, *columns]):
            for (layer, _), values in zip(self.layers, columns[name], strict=True):
                if np.isfinite(np.atleast_1d(values)[0]):
                    is_left_out = name in _LEFT_OUT
                    one = (
                        left_out_sums(name, values, "blocks")
                        if is_left_out
                        else ratio_sums(name, [values], None, "blocks")
                    )
                    found.append((layer, [one]))
        return by_layer(found)


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
    of each label: twice the margin of a linear support-vector machine with C = 10⁶. Words in many dimensions are always
    separable, hence the same with labels shuffled within each pair. Squared distances of centroids are less the
    sampling variance of the centroids, without which rare labels would look far apart.

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
        self.n_labels = int(codes.max()) + 1
        sentences, place = np.unique(of_sentence, return_inverse=True)
        self.n_blocks = min(_BLOCKS, len(sentences))
        self.cells = place * self.n_blocks // len(sentences) * self.n_labels + codes
        """``[word]`` numbers of its block and label."""
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
            found[name].append(values)
        products, hulls = centred[drawn.sample] @ centred[drawn.sample].T, []
        for (one, other), order in zip(drawn.pairs, drawn.orders, strict=True):
            # The words of the first label come first, as the sample is by label.
            words = np.flatnonzero((drawn.of_sample == one) | (drawn.of_sample == other))
            of_pair, labels = products[np.ix_(words, words)], (drawn.of_sample[words] == other).astype(int)
            hulls.append((_hull_distance(of_pair, labels), _hull_distance(of_pair, labels[order])))
        for name, distances in zip(("hulls", "shuffled"), zip(*hulls, strict=True), strict=True):
            found[name].append(distances)
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}


def _centroids(vectors: Floats, drawn: _Drawn) -> tuple[Floats, Floats]:
    """``[1 + block, pair]`` distances of centroids and ``[1 + block]`` spreads: of all, then without each block."""
    from scipy.sparse import csr_array

    n_words, n_labels, n_cells = len(vectors), drawn.n_labels, drawn.n_blocks * drawn.n_labels
    is_in = csr_array((np.ones(n_words), (drawn.cells, np.arange(n_words))), shape=(n_cells, n_words))
    total, square, size = (
        np.concatenate([part.sum(axis=0)[None], part.sum(axis=0) - part])
        for of in (vectors, np.square(vectors).sum(axis=1), np.ones(n_words))
        for part in [(is_in @ of).reshape(drawn.n_blocks, n_labels, *of.shape[1:])]
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
