"""Maps that are kept: of the same sentences in two models; and attention through several layers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from bertology.activations.progress import Progress, silent
from bertology.attention.maps import HeadStatistic, MapBatch, stream_maps
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import OnLong
from bertology.errors import CorpusError, ModelError
from bertology.measures.sums import Floats, Integers, Scope

_CAPACITY = 10**9  # the integer for an attention weight of 1 in scipy's flow; twice that still fits 32 bits
_AT_ONCE = 1 << 24  # attention weights of one model that are in memory at a time, roughly


KeptMap = tuple[Integers, Tensor]
"""``[unit]`` numbers of words in the text that was read, −1 for special tokens; maps ``[layer, head, unit, unit]``."""


class KeptMaps(HeadStatistic):
    """The maps themselves, of sentences that one window shows whole: for a few thousand at most, by number of the
    sentence."""

    def __init__(self, scope: Scope, *, dtype: torch.dtype = torch.float64) -> None:
        self._dtype = dtype
        self._kept: dict[int, tuple[Integers, list[Tensor]]] = {}

    def update(self, batch: MapBatch) -> None:
        units = batch.units
        words, counts = units.word.cpu().numpy(), units.counts.cpu().numpy()
        for row, (sentence, n) in enumerate(zip(units.sentences.tolist(), units.lengths.tolist(), strict=True)):
            own = words[row, :n]
            if counts[row, :n][own >= 0].all():
                _, maps = self._kept.setdefault(sentence, (own, []))
                maps.append(batch.maps[row, :, :n, :n].to("cpu", self._dtype))

    def merge(self, other: Self) -> None:
        self._kept |= other._kept

    def finish(self) -> dict[int, KeptMap]:
        return {sentence: (words, torch.stack(maps)) for sentence, (words, maps) in self._kept.items()}


@dataclass(frozen=True, eq=False)
class PairedMaps:
    """The maps of one sentence in two models."""

    sentence: int  # number of the sentence in the text
    model: Floats
    """``[layer, head, word, column]`` of the layers that are compared: from each word to all words and to special
    tokens, each of which is a column where both models have as many of them, else all of them together are one."""
    reference: Floats  # the same of the reference, whose layers are those that the former are compared with


def paired_maps(
    model: Encoder,
    reference: Encoder,
    sentences: Sentences,
    *,
    layers: Sequence[tuple[int, int]],
    on_long: OnLong = "window",
    progress: Progress = silent,
) -> Iterator[PairedMaps]:
    """Word-level attention maps (Clark et al. 2019) of two models, sentence by sentence; tokenizers may differ.

    Args:
        model: one of them.
        reference: the other one, with as many heads in a layer.
        sentences: the text.
        layers: from 1, each layer of the model with that of the reference.
        on_long: ``error``: sentences longer than a model takes are not accepted. They have no map of the whole, and are
            left out otherwise.
        progress: counts sentences.

    Raises:
        ModelError: the models have other numbers of heads, or one gives no maps.
        CorpusError: there is no sentence that both read whole.
    """
    if model.n_heads != reference.n_heads:
        heads = f"{model.name} has {model.n_heads} heads in a layer, {reference.name} {reference.n_heads}"
        raise ModelError(f"{heads}: heads are compared in pairs, so both models need the same number of them")
    lengths = np.diff(sentences.starts)
    is_whole = lengths > 0  # with words that are all encoded in one window of both models
    for encoder in (model, reference):
        pieces = encoder.tokenize(sentences, on_long=on_long)
        is_whole &= np.bincount(pieces.window_sentence, minlength=len(sentences)) == 1
        is_whole[sentences.sentence_of_word[[word.word for word in pieces.skipped]]] = False
    chosen = np.flatnonzero(is_whole)
    if not len(chosen):
        raise CorpusError("no sentence is read whole by both models: give a text with shorter sentences")
    progress.start(len(chosen), unit="sentences")
    # Sentences whose maps are in memory together.
    portions = (len(layers) * model.n_heads * (lengths[chosen] + 2) ** 2).cumsum() // _AT_ONCE
    for some in (chosen[portions == portion] for portion in np.unique(portions)):
        part = Sentences(sentences[number] for number in some.tolist())
        both: list[dict[int, KeptMap]] = [
            stream_maps(encoder, part, [KeptMaps], layers=[pair[side] for pair in layers]).results[0]
            for side, encoder in enumerate((model, reference))
        ]
        for place, number in enumerate(some.tolist()):
            kept = [of_model[place] for of_model in both]
            n_special = {int((words < 0).sum()) for words, _ in kept}
            yield PairedMaps(
                number,
                *(
                    _columns(one, [pair[side] for pair in layers], together=len(n_special) > 1)
                    for side, one in enumerate(kept)
                ),
            )
        progress.advance(len(part))
    progress.finish()


def _columns(kept: KeptMap, layers: Sequence[int], *, together: bool) -> Floats:
    """``[layer, head, word, column]``, special tokens last, as one column if ``together``; each row sums to 1."""
    is_word, read = kept[0] >= 0, sorted(set(layers))
    maps = kept[1].numpy()[[read.index(layer) for layer in layers]][:, :, is_word]
    special = maps[..., ~is_word]
    if together:
        special = special.sum(axis=-1, keepdims=True)
    whole = np.concatenate([maps[..., is_word], special], axis=-1)
    return np.asarray(whole / whole.sum(axis=-1, keepdims=True))


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
