"""Attention through several layers: rollout and flow, for single sentences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bertology.attention._pass import stream_maps
from bertology.attention._ratios import Floats, Level, Scope
from bertology.attention._statistic import HeadStatistic, MapBatch
from bertology.corpora import Sentence, as_sentences
from bertology.encoders import Encoder
from bertology.errors import ModelError

_CAPACITY = 10**9
"""The integer for an attention weight of 1 in scipy's flow; twice that still fits 32 bits."""


@dataclass(frozen=True, eq=False)
class SentenceMaps:
    """All attention maps of one sentence."""

    units: tuple[str, ...]
    """``[unit]`` words or pieces and special tokens, as they are written."""
    layers: tuple[int, ...]
    maps: Floats
    """``[layer, head, unit, unit]`` from (rows) each unit to (columns) each unit."""
    norms: Floats | None
    """``[layer, head, unit, unit]`` ‖αf(x)‖; None unless norms were requested."""


def sentence_maps(
    encoder: Encoder,
    sentence: Sentence | str,
    *,
    layers: Sequence[int] | None = None,
    level: Level = "word",
    norms: bool = False,
) -> SentenceMaps:
    """The maps of one sentence, to look at them; for many sentences use :func:`stream_maps`, which keeps none.

    Raises:
        ModelError: the sentence does not fit one window, or what :func:`stream_maps` raises.
        CorpusError: it has no word that can be read.
    """
    sentence = as_sentences(sentence)[0]
    read = stream_maps(encoder, [sentence], [_Kept], layers=layers, level=level, norms=norms, on_long="error")
    numbers, maps, of_norms = read.results[0]
    pieces = encoder.tokenize([sentence]).window(0)
    tokens = list(encoder.tokenizer.convert_ids_to_tokens(pieces.tolist()))
    if level == "word":
        closing = len(tokens) - encoder.n_suffix
        words = [sentence.words[number] for number in numbers if number >= 0]
        tokens = [*tokens[: encoder.n_prefix], *words, *tokens[closing:]]
    return SentenceMaps(tuple(tokens), read.scope.layers, maps, of_norms)


class _Kept(HeadStatistic):
    """The maps themselves: ``finish`` returns numbers of words, maps and norms, each ``[layer, …]`` or None."""

    def __init__(self, scope: Scope) -> None:
        self._layers: list[tuple[list[int], Floats, Floats | None]] = []

    def update(self, batch: MapBatch) -> None:
        norms = None if batch.norms is None else batch.norms.between[0].double().cpu().numpy()
        self._layers.append((batch.units.word[0].tolist(), batch.maps[0].double().cpu().numpy(), norms))

    def merge(self, other: _Kept) -> None:
        self._layers += other._layers

    def finish(self) -> tuple[list[int], Floats, Floats | None]:
        words, maps, norms = zip(*self._layers, strict=True)
        return words[0], np.stack(maps), None if norms[0] is None else np.stack(norms)


def attention_rollout(maps: ArrayLike, *, residual: float = 0.5) -> Floats:
    """The share of each input unit in each unit of each layer, if attention mixed them linearly (attention rollout).

    Heads are averaged, the residual connection is a share of identity, and layers are multiplied (Abnar & Zuidema
    2020, section 3.2).

    Args:
        maps: ``[layer, head, unit, unit]``, or ``[layer, unit, unit]`` averaged already; from layer 1 on. Of pieces,
            as the model mixes them.
        residual: the share of the residual connection.

    Returns:
        ``[layer, unit, unit]`` from (rows) each unit of a layer to (columns) the input units.

    Raises:
        ModelError: maps of another shape, or a share outside 0…1.
    """
    return np.stack([*itertools.accumulate(_mixing(maps, residual), lambda below, step: step @ below)])


def attention_flow(maps: ArrayLike, *, residual: float = 0.5) -> Floats:
    """The most that can flow from each unit of the last layer to each input unit, attention weights being capacities.

    Edges lead from each unit to those that it attends to, one layer lower (Abnar & Zuidema 2020, section 3.3). Every
    pair is a maximum flow of its own: seconds for a sentence, not for a corpus. Right to about 1e-8.

    Args:
        maps: as of :func:`attention_rollout`; give the first layers only for the flow from an earlier layer.
        residual: the share of the residual connection.

    Returns:
        ``[unit, unit]`` from (rows) units of the last layer of ``maps`` to (columns) the input units.

    Raises:
        ModelError: maps of another shape, or a share outside 0…1.
    """
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import maximum_flow

    mixing = _mixing(maps, residual)
    n_layers, n = mixing.shape[:2]
    layer, source, target = np.indices(mixing.shape)
    capacity = np.rint(mixing * _CAPACITY).astype(np.int32).ravel()
    edges = ((layer + 1) * n + source).ravel(), (layer * n + target).ravel()
    n_nodes = (n_layers + 1) * n
    graph = csr_array(coo_array((capacity, edges), shape=(n_nodes, n_nodes)))
    flow = [[maximum_flow(graph, n_layers * n + top, bottom).flow_value for bottom in range(n)] for top in range(n)]
    return np.array(flow, dtype=np.float64) / _CAPACITY


def _mixing(maps: ArrayLike, residual: float) -> Floats:
    """``[layer, unit, unit]`` what each layer takes from the one below, the residual connection included."""
    mean = np.asarray(maps, dtype=np.float64)
    if mean.ndim == 4:
        mean = mean.mean(1)
    if mean.ndim != 3 or mean.shape[1] != mean.shape[2] or not mean.size:
        raise ModelError(f"maps of shape {np.shape(maps)}: give [layer, head, unit, unit] or [layer, unit, unit]")
    if not 0 <= residual <= 1:
        raise ModelError(f"residual {residual}: the share of the residual connection is from 0 to 1")
    return np.asarray(residual * np.eye(mean.shape[1]) + (1 - residual) * mean)
