"""How many of its dimensions a layer uses: IsoScore, effective rank, matrix entropy, and dimensions that stand out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from bertology.errors import CorpusError, ModelError
from bertology.geometry._sums import Floats, Integers, LayerSums, jackknife_sums
from bertology.geometry._vectors import Floats32, LayerVectors

_N_BLOCKS = 20
_ROGUE = 3


def iso_score(variances: ArrayLike) -> Floats:
    """IsoScore of the variances ``[…, dim]`` on principal components, 0 to 1 (Rudman et al. 2022, algorithm 1).

    1 if all dimensions vary alike, 0 if one alone varies. It says how much of the space is used, not whether that is
    good: clusters, which a linear probe needs, make it smaller (Mickus et al. 2024).
    """
    values = np.asarray(variances, dtype=np.float64)
    dim = values.shape[-1]
    scaled = values * np.sqrt(dim) / np.linalg.norm(values, axis=-1, keepdims=True)
    defect = np.linalg.norm(scaled - 1, axis=-1) / np.sqrt(2 * (dim - np.sqrt(dim)))
    return np.asarray(((dim - defect**2 * (dim - np.sqrt(dim))) ** 2 - dim) / (dim * (dim - 1)))


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


def top_directions(centred: Floats32, n: int) -> Floats32:
    """``[n, dim]`` the directions of largest variance of centred vectors ``[word, dim]``."""
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    return np.ascontiguousarray(directions[:, ::-1][:, :n].T, dtype=np.float32)


def spectrum(vectors: LayerVectors, sentences: Integers) -> Iterator[LayerSums]:
    """Isotropy of all words of a text by layer.

    ``iso_score``, ``effective_rank_dimensions`` and ``matrix_entropy_bits`` are about the covariance of vectors;
    ``rogue_share`` is what the three dimensions that contribute most to the mean cosine of pairs of words contribute to
    it (Timkey & van Schijndel 2021). Intervals come from leaving out each of 20 blocks of neighbouring sentences.

    Args:
        vectors: of the words of a text.
        sentences: ``[word]`` the sentence of each, ascending.

    Raises:
        CorpusError: there are fewer than 20 sentences.
        ModelError: all words have the same vector.
    """
    distinct, numbers = np.unique(sentences, return_inverse=True)
    if len(distinct) < _N_BLOCKS:
        raise CorpusError(f"{len(distinct)} sentences are too few for blocks to leave out: give {_N_BLOCKS} or more")
    bounds = np.searchsorted(numbers * _N_BLOCKS // len(distinct), np.arange(_N_BLOCKS + 1))
    statistics: dict[str, Callable[[Floats], Floats]] = {
        "iso_score": iso_score,
        "effective_rank_dimensions": effective_rank,
        "matrix_entropy_bits": matrix_entropy,
    }
    values: dict[str, list[Floats]] = {name: [] for name in (*statistics, "rogue_share")}
    for layer in vectors.layers:
        of_layer = vectors.of(layer)
        spectra = _leave_one_out_spectra(of_layer, bounds, layer)
        for name, statistic in statistics.items():
            values[name].append(statistic(spectra))
        values["rogue_share"].append(_rogue_shares(of_layer, bounds))
    for name, of_layers in values.items():
        stacked = np.stack(of_layers)  # [layer, 1 + block]
        yield jackknife_sums(name, vectors.layers, stacked[:, 0], stacked[:, :1] - stacked[:, 1:], "blocks")


def _leave_one_out_spectra(vectors: Floats32, bounds: Integers, layer: int) -> Floats:
    """``[1 + block, dim]`` variances on principal components, of all words and without each block."""
    centred = vectors - vectors.mean(axis=0)
    sums, products, n = [], [], np.diff(bounds)
    for first, last in itertools.pairwise(bounds):
        block = centred[first:last]
        sums.append(block.sum(axis=0, dtype=np.float64))
        products.append((block.T @ block).astype(np.float64))
    whole, total = np.sum(products, axis=0), np.sum(sums, axis=0)
    if not np.trace(whole) > 0:
        raise ModelError(f"layer {layer}: all words have the same vector, so that there is no variance to describe")
    spectra = [np.linalg.eigvalsh(_covariance(whole, total, len(vectors)))]
    for product, part, size in zip(products, sums, n.tolist(), strict=True):
        spectra.append(np.linalg.eigvalsh(_covariance(whole - product, total - part, len(vectors) - size)))
    return np.stack(spectra)


def _covariance(products: Floats, sums: Floats, n: int) -> Floats:
    return (products - np.outer(sums, sums) / n) / (n - 1)


def _rogue_shares(vectors: Floats32, bounds: Integers) -> Floats:
    """``[1 + block]`` what the three dimensions that add most to the cosine of two words add to it."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    sums = np.add.reduceat(unit, bounds[:-1], axis=0, dtype=np.float64)
    squares = np.add.reduceat(unit**2, bounds[:-1], axis=0, dtype=np.float64)
    without = np.concatenate([sums.sum(axis=0)[None], sums.sum(axis=0) - sums])
    own = np.concatenate([squares.sum(axis=0)[None], squares.sum(axis=0) - squares])
    # Over all pairs of different words; pairs of a word with itself are taken off.
    by_dimension = without**2 - own
    top = np.argsort(by_dimension[0])[-_ROGUE:]
    return np.asarray(by_dimension[:, top].sum(axis=1) / by_dimension.sum(axis=1))
