"""One streaming pass over attention maps: each is shown to every statistic, and none is kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertology._memory import give_back_freed_memory
from bertology._workers import Workers
from bertology.activations import Progress, silent
from bertology.attention._batch import Level, MapBatch, Scope
from bertology.attention._layer_maps import LayerMaps, OnLayer
from bertology.attention._map_norms import MapNorms
from bertology.attention._norms import check_norms
from bertology.attention._statistic import HeadStatistic, MakeStatistic
from bertology.attention._texts import Inputs, MapText
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.batching import Batch
from bertology.errors import ModelError

_MOST_WORKERS = 16
"""Each holds maps and sums of its own."""
_BATCHES_BETWEEN = 4
"""After so many, what maps of ever new shapes have left behind is given back."""


@dataclass(frozen=True, eq=False)
class MapPass:
    """What a pass came to."""

    results: tuple[Any, ...]
    """What each statistic's ``finish`` gave, in the order they were asked for."""
    scope: Scope
    n_sentences: int
    """Sentences of which something was read."""
    n_words: int
    """Words that were read."""
    n_windows: int
    """Texts that the model was given: more than sentences where some were read in several windows, fewer where they
    were read in pairs."""
    n_pairs: int
    """Of these so many were two sentences."""
    n_apart: int
    """So many pairs were too long for the model: each sentence was read alone."""
    n_skipped: int
    """Words that were not read."""
    skipped: dict[str, int]
    """How many words were not read, by reason; numbers in reasons are left out."""


def stream_maps(
    encoder: Encoder,
    sentences: Sequence[Sentence] | Sentences,
    statistics: Sequence[MakeStatistic],
    *,
    layers: Sequence[int] | None = None,
    level: Level = "word",
    norms: bool = False,
    pairs: bool = False,
    on_long: OnLong = "window",
    progress: Progress = silent,
) -> MapPass:
    """Read sentences once and show the attention maps of each layer to every statistic.

    The maps of one layer of one batch are in memory at a time, in each thread; statistics keep sums. What they come to
    is the same every time; with another number of threads sums are added in another order, which moves them by
    rounding alone (relative differences of 1e-12).

    Args:
        encoder: what is read. Inside ``encoder.gated_heads`` one thread reads, with the gates.
        sentences: the text.
        statistics: what makes each statistic: a subclass of :class:`HeadStatistic`, or a partial of one.
        layers: from 1; all when left out. Nothing beyond the deepest is computed.
        level: units of the maps: words (with ``[CLS]`` and ``[SEP]`` as units of their own) or pieces.
        norms: also give ‖αf(x)‖ (Kobayashi et al. 2020), for models built as BERT is.
        pairs: read the first sentence with the second, the third with the fourth, and so on, as the pair that the model
            takes: no text is read twice, a last one that is left over is read alone, and so are two that are too long
            for the model together. Sums are those of the first sentence's cluster.
        on_long: what to do with a sentence longer than the model takes: read it in overlapping windows, the row of
            each word from the one where it has most context, its columns the words which that window shows whole;
            raise; or skip it.
        progress: told how many pieces are read of how many.

    Raises:
        ModelError: the model gives no maps, or not the norms or layers asked for, or takes no pairs, or a sentence is
            too long and ``on_long`` is ``"error"``.
        CorpusError: there is no word to read.
    """
    if not isinstance(sentences, Sentences):
        sentences = Sentences(sentences)
    chosen = _checked_layers(encoder, layers)
    if norms:
        check_norms(encoder)
    text = MapText(encoder, sentences, level=level, on_long=on_long, pairs=pairs)
    scope = Scope(len(sentences), chosen, encoder.n_heads, level)
    filled = _fill(encoder, text, statistics, scope, norms=norms, progress=progress)
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    skipped = Counter(re.sub(r"\d+", "…", word.reason) for word in text.pieces.skipped)
    return MapPass(
        results=tuple(statistic.finish() for statistic in filled),
        scope=scope,
        n_sentences=text.n_sentences,
        n_words=sentences.n_words - skipped.total(),
        n_windows=len(text.windows),
        n_pairs=text.n_pairs,
        n_apart=text.n_apart,
        n_skipped=skipped.total(),
        skipped=dict(skipped),
    )


def _fill(
    encoder: Encoder,
    text: MapText,
    statistics: Sequence[MakeStatistic],
    scope: Scope,
    *,
    norms: bool,
    progress: Progress,
) -> list[HeadStatistic]:
    """Statistics of all the text, from as many threads as there are cores."""
    workers = Workers(torch.device(encoder.device), most=1 if encoder.is_gated else _MOST_WORKERS)
    readers = [encoder, *(encoder.twin() for _ in range(workers.n - 1))]
    batches = text.batches()

    def read(number: int) -> list[HeadStatistic]:
        filled = [make(scope) for make in statistics]
        _read(readers[number], text, batches[number :: workers.n], filled, scope, norms, progress)
        return filled

    progress.start(int(text.lengths[text.windows].sum()), unit="pieces")
    with workers:
        first, *others = workers.map(read, workers.n)
    progress.finish()
    for other in others:
        for statistic, more in zip(first, other, strict=True):
            statistic.merge(more)
    return first


def _read(
    encoder: Encoder,
    text: MapText,
    batches: Sequence[Batch],
    statistics: Sequence[HeadStatistic],
    scope: Scope,
    norms: bool,
    progress: Progress,
) -> None:
    maps = LayerMaps(encoder, layers=frozenset(scope.layers), norms=norms)
    with maps.hooked():
        for number, batch in enumerate(batches, start=1):
            inputs = text.inputs(batch)
            maps.run(inputs.ids, inputs.mask, _shown_to(statistics, inputs), types=inputs.types)
            if not number % _BATCHES_BETWEEN:
                give_back_freed_memory()
            progress.advance(int(inputs.ids.numel() if inputs.mask is None else inputs.mask.sum()))


def _shown_to(statistics: Sequence[HeadStatistic], inputs: Inputs) -> OnLayer:
    def show(layer: int, maps: Tensor, value_norms: Tensor | None) -> None:
        norms = None if value_norms is None else MapNorms(maps, value_norms, inputs)
        batch = MapBatch(layer, inputs.merged(maps), norms, inputs.units)
        for statistic in statistics:
            statistic.update(batch)

    return show


def _checked_layers(encoder: Encoder, layers: Sequence[int] | None) -> tuple[int, ...]:
    chosen = tuple(range(1, encoder.n_layers + 1)) if layers is None else tuple(sorted(set(layers)))
    wrong = [layer for layer in chosen if not 1 <= layer <= encoder.n_layers]
    if wrong or not chosen:
        asked = f"layer {wrong[0]}" if wrong else "no layer"
        raise ModelError(f"{asked} asked for: maps of {encoder.name} are of layers 1…{encoder.n_layers}")
    return chosen
