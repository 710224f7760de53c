"""Attention maps of the same sentences in two models, a few sentences at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.attention._pass import stream_maps
from bertology.attention._ratios import Floats, Integers, Scope
from bertology.attention._statistic import HeadStatistic, MapBatch
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.errors import CorpusError, ModelError

_AT_ONCE = 1 << 24
"""Attention weights of one model that are in memory at a time, roughly."""


@dataclass(frozen=True, eq=False)
class PairedMaps:
    """The maps of one sentence in two models."""

    sentence: int
    """Number of the sentence in the text."""
    model: Floats
    """``[layer, head, word, column]`` of the layers that are compared: from each word to all words and to special
    tokens, each of which is a column where both models have as many of them, else all of them together are one."""
    reference: Floats
    """The same of the reference, whose layers are those that the former are compared with."""


class _OneMap(NamedTuple):
    words: Integers  # [unit] number of the word, −1 for special tokens
    by_layer: dict[int, Floats]  # [head, unit, unit]


class _Kept(HeadStatistic):
    """The maps themselves, of few sentences that are read in one window."""

    def __init__(self, scope: Scope) -> None:
        self.maps: dict[int, _OneMap] = {}

    def update(self, batch: MapBatch) -> None:
        units, maps = batch.units, batch.maps.double().cpu().numpy()
        words = units.word.cpu().numpy()
        for row, (sentence, n_units) in enumerate(zip(units.sentences.tolist(), units.lengths.tolist(), strict=True)):
            one = self.maps.setdefault(sentence, _OneMap(words[row, :n_units], {}))
            one.by_layer[batch.layer] = maps[row, :, :n_units, :n_units]

    def merge(self, other: Self) -> None:
        self.maps |= other.maps

    def finish(self) -> dict[int, _OneMap]:
        """By sentence."""
        return self.maps


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
        raise ModelError(f"{heads}: heads of models are compared one with one, which takes the same number")
    whole = [_read_whole(encoder, sentences, on_long) for encoder in (model, reference)]
    chosen = np.flatnonzero(whole[0] & whole[1])
    if not len(chosen):
        raise CorpusError("no sentence is read whole by both models: give a text with shorter sentences")
    lengths = np.diff(sentences.starts)
    progress.start(len(chosen), unit="sentences")
    for some in _portions(chosen, lengths[chosen], len(layers) * model.n_heads):
        part = Sentences(sentences[number] for number in some.tolist())
        of_model = _maps_of(part, model, [own for own, _ in layers])
        of_reference = _maps_of(part, reference, [other for _, other in layers])
        for place, number in enumerate(some.tolist()):
            yield PairedMaps(number, *_aligned(of_model[place], of_reference[place], layers))
        progress.advance(len(part))
    progress.finish()


def _read_whole(encoder: Encoder, sentences: Sentences, on_long: OnLong) -> NDArray[np.bool_]:
    """``[sentence]`` whether it has words, and all of them are read in one window."""
    pieces = encoder.tokenize(sentences, on_long=on_long)
    n_windows = np.bincount(pieces.window_sentence, minlength=len(sentences))
    left_out = sentences.sentence_of_word[[word.word for word in pieces.skipped]]
    n_skipped = np.bincount(left_out, minlength=len(sentences))
    return np.asarray((n_windows == 1) & (n_skipped == 0) & (np.diff(sentences.starts) > 0))


def _portions(chosen: Integers, lengths: Integers, n_maps: int) -> Iterator[Integers]:
    """Sentences whose maps are in memory together."""
    sizes = (n_maps * (lengths + 2) ** 2).cumsum()
    portions = sizes // _AT_ONCE
    for portion in np.unique(portions).tolist():
        yield chosen[portions == portion]


def _maps_of(sentences: Sentences, encoder: Encoder, layers: Sequence[int]) -> dict[int, _OneMap]:
    found = stream_maps(encoder, sentences, [_Kept], layers=layers).results[0]
    assert isinstance(found, dict)
    return found


def _aligned(model: _OneMap, reference: _OneMap, layers: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """``[layer, head, word, column]`` of both, with the same columns; each row sums to 1."""
    n_special = {int((one.words < 0).sum()) for one in (model, reference)}

    def columns(one: _OneMap, chosen: Sequence[int]) -> Floats:
        is_word = one.words >= 0
        maps = np.stack([one.by_layer[layer] for layer in chosen])[:, :, is_word]
        special = maps[..., ~is_word]
        if len(n_special) > 1:
            special = special.sum(axis=-1, keepdims=True)
        whole = np.concatenate([maps[..., is_word], special], axis=-1)
        return np.asarray(whole / whole.sum(axis=-1, keepdims=True))

    return columns(model, [own for own, _ in layers]), columns(reference, [other for _, other in layers])
