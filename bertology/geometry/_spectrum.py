"""How many of its dimensions a layer uses: IsoScore, effective rank, matrix entropy, and dimensions that stand out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from bertology.errors import CorpusError, ModelError
from bertology.geometry._layers import LayerStatistic, OneLayer, read_layers
from bertology.geometry._sums import Clusters, Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import LayerVectors

_N_BLOCKS = 20
_ROGUE = 3


def iso_score(variances: ArrayLike) -> Floats:
    """IsoScore of the variances ``[…, dim]`` on principal components, 0 to 1 (Rudman et al. 2022, algorithm 1).

    1 if all dimensions vary alike, 0 if one alone varies. It says how much of the space is used, not whether that is
    good: clusters, which a linear probe needs, make it smaller (Mickus et al. 2024).
    """
    values = np.asarray(variances, dtype=np.float64)
    return _iso_score(effective_rank(values), values.shape[-1])


def _iso_score(rank: Floats, dim: int) -> Floats:
    # What the steps of the algorithm come to: the distance of scaled variances from ones depends on their effective
    # rank r alone, being √(2 dim − 2 √(dim r)).
    return np.asarray((rank - 1) / (dim - 1))


def effective_rank(variances: ArrayLike) -> Floats:
    """(Σλ)² / Σλ² of the variances ``[…, dim]`` on principal components: the participation ratio, 1 to dim."""
    values = np.asarray(variances, dtype=np.float64)
    return np.asarray(values.sum(axis=-1) ** 2 / (values**2).sum(axis=-1))


def matrix_entropy(variances: ArrayLike) -> Floats:
    """Entropy in bits of the variances ``[…, dim]`` on principal components as shares: 0 to log2 of dim."""
    values = np.clip(np.asarray(variances, dtype=np.float64), 0, None)
    shares = values / values.sum(axis=-1, keepdims=True)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=-1))


def sentence_blocks(sentences: Integers, *, of: str = "sentences") -> Integers:
    """``[21]`` the first word of each of 20 blocks of neighbouring sentences, and the number of words.

    Args:
        sentences: ``[word]`` the sentence of each, ascending, or the document.
        of: what they are, for messages.

    Raises:
        CorpusError: there are fewer than 20 of them.
    """
    distinct, numbers = np.unique(sentences, return_inverse=True)
    if len(distinct) < _N_BLOCKS:
        raise CorpusError(f"{len(distinct)} {of} are too few for blocks to leave out: give {_N_BLOCKS} or more")
    return np.searchsorted(numbers * _N_BLOCKS // len(distinct), np.arange(_N_BLOCKS + 1))


def spectrum(vectors: LayerVectors, sentences: Integers) -> Iterator[LayerSums]:
    """Isotropy of all words of a text by layer.

    ``iso_score``, ``effective_rank_dimensions`` and ``matrix_entropy_bits`` are about the covariance of vectors;
    ``rogue_share`` is what the three dimensions that contribute most to the mean cosine of pairs of words contribute to
    it (Timkey & van Schijndel 2021). Intervals come from leaving out each of 20 blocks of neighbouring sentences; of
    the entropy to first order.

    Args:
        vectors: of the words of a text.
        sentences: ``[word]`` the sentence of each, ascending.

    Raises:
        CorpusError: there are fewer than 20 sentences.
        ModelError: all words have the same vector.
    """
    return read_layers(vectors, [Spectrum()], sentence_blocks(sentences))


class Spectrum(LayerStatistic):
    """What :func:`spectrum` yields, of layers in :func:`sentence_blocks`."""

    def __init__(self, kind: Clusters = "blocks") -> None:
        self._kind = kind

    def of_layer(self, layer: OneLayer) -> dict[str, Floats]:
        """``[1 + block]`` of all words, and without each block."""
        squares, directions = layer.principal
        if not squares.sum() > 0:
            raise ModelError(f"layer {layer.number}: all words have the same vector, so that nothing varies")
        shares = np.maximum(squares / squares.sum(), np.finfo(np.float32).eps ** 2)
        logs = (directions.T * np.log2(shares)) @ directions
        traces, norms, entropies = np.array(
            [
                (np.trace(one), np.einsum("ij,ij->", one, one), -np.einsum("ij,ij->", one, logs))
                for one in _without(layer)
            ]
        ).T
        # Sums of eigenvalues and of their squares need no decomposition; entropies are −tr(S log S), S of trace 1.
        ranks, of_shares = traces**2 / norms, entropies / traces
        return {
            "iso_score": _iso_score(ranks, len(squares)),
            "effective_rank_dimensions": ranks,
            "matrix_entropy_bits": matrix_entropy(squares) + of_shares - of_shares[0],
            "rogue_share": _rogue_shares(layer),
        }

    def sums(self, layers: tuple[int, ...], values: Mapping[str, Floats]) -> Iterator[LayerSums]:
        """The statistics, with what blocks contribute."""
        for name, of_layers in values.items():
            yield jackknife_sums(name, layers, of_layers[:, 0], of_layers[:, :1] - of_layers[:, 1:], self._kind)


def _without(layer: OneLayer) -> Iterator[Floats]:
    """``[dim, dim]`` the covariance of all words, and without each block."""
    sums = layer.block_sums
    every, total, n = layer.products.sum(axis=0, dtype=np.float64), sums.sum(axis=0), len(layer.vectors)
    yield (every - np.outer(total, total) / n) / (n - 1)
    for products, part, size in zip(layer.products, sums, np.diff(layer.bounds).tolist(), strict=True):
        rest = total - part
        yield (every - products - np.outer(rest, rest) / (n - size)) / (n - size - 1)


def _rogue_shares(layer: OneLayer) -> Floats:
    """``[1 + block]`` what the three dimensions that add most to the cosine of two words add to it."""
    weights = 1 / layer.lengths
    blocks = [slice(first, last) for first, last in itertools.pairwise(layer.bounds)]
    sums = np.stack([weights[rows] @ layer.vectors[rows] for rows in blocks]).astype(np.float64)
    squares = np.stack([weights[rows] ** 2 @ layer.vectors[rows] ** 2 for rows in blocks]).astype(np.float64)
    without = np.concatenate([sums.sum(axis=0)[None], sums.sum(axis=0) - sums])
    own = np.concatenate([squares.sum(axis=0)[None], squares.sum(axis=0) - squares])
    # Over all pairs of different words; pairs of a word with itself are taken off.
    by_dimension = without**2 - own
    top = np.argsort(by_dimension[0])[-_ROGUE:]
    return np.asarray(by_dimension[:, top].sum(axis=1) / by_dimension.sum(axis=1))
