"""One streaming pass over attention maps: each is shown to every statistic, and none is kept."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from bertology._memory import give_back_freed_memory
from bertology._names import layer_number
from bertology._workers import Workers
from bertology.activations import Progress, silent
from bertology.attention._norms import MapNorms, check_norms, value_norms
from bertology.attention._ratios import Level, Scope
from bertology.attention._statistic import HeadStatistic, MakeStatistic, MapBatch
from bertology.attention._texts import Inputs, MapText
from bertology.corpora import Texts, as_sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.alignment import SHARED
from bertology.encoders.interventions import StopForward, value_projection, watching
from bertology.errors import ModelError

MOST_WORKERS = 16
"""Each holds maps and sums, or the activations of a batch for a backward pass, of its own."""
_BATCHES_BETWEEN = 4
"""After so many batches, memory that maps of ever new shapes have left behind is given back."""

Part = TypeVar("Part")
OnLayer = Callable[[int, Tensor, "Tensor | None"], None]
"""Called with a layer (from 1), its maps ``[batch, head, piece, piece]`` and, where norms were requested, the lengths
of its transformed values ``[batch, head, piece]``; else None."""


@dataclass(frozen=True, eq=False)
class MapPass:
    """The result of a pass over the attention maps of a text."""

    results: tuple[Any, ...]
    """What each statistic's ``finish`` returned, in the order in which statistics were given."""
    scope: Scope
    n_sentences: int
    """Number of sentences of which some word was read."""
    n_words: int
    """Number of words that were read."""
    n_windows: int
    """Number of inputs of the model: more than sentences where some were read in several windows, fewer where they were
    read in pairs."""
    n_pairs: int
    """Number of inputs that were pairs of sentences."""
    n_apart: int
    """Number of pairs that were too long for the model, so that each sentence was read alone."""
    n_skipped: int
    """Number of words that were not read."""
    skipped: dict[str, int]
    """Number of words that were not read, by reason; numbers in reasons are left out."""


def stream_maps(
    encoder: Encoder,
    sentences: Texts,
    statistics: Sequence[MakeStatistic],
    *,
    layers: Sequence[int] | None = None,
    level: Level = "word",
    norms: bool = False,
    pairs: bool = False,
    on_long: OnLong = "window",
    exclude_shared: bool = False,
    progress: Progress = silent,
) -> MapPass:
    """Read sentences once and show the attention maps of each layer to every statistic.

    The maps of one layer of one batch are in memory at a time, in each thread; statistics keep sums. Results are the
    same every time; with another number of threads sums are added in another order, which changes them by rounding
    alone (relative differences of 1e-12).

    Args:
        encoder: whose maps are read. Inside ``encoder.gated_heads`` one thread reads, with the gates.
        sentences: the text: sentences, or plain texts, each of which is one.
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
        exclude_shared: leave out words that share all their subwords with another word, as *de* and *le* of French
            *du*: such words are one unit of the maps, which is attended to and not asked about.
        progress: counts the pieces that are read.

    Raises:
        ModelError: the model gives no maps, or not the norms or layers asked for, or takes no pairs, or a sentence is
            too long and ``on_long`` is ``"error"``.
        CorpusError: there is no word to read.
    """
    sentences = as_sentences(sentences)
    chosen = checked_layers(encoder, layers)
    if norms:
        check_norms(encoder)
    text = MapText(encoder, sentences, level=level, on_long=on_long, pairs=pairs, exclude_shared=exclude_shared)
    scope = Scope(len(sentences), chosen, encoder.n_heads, level)
    batches = list(text.batches())

    def read(reader: Encoder, part: slice) -> list[HeadStatistic]:
        filled = [make(scope) for make in statistics]
        maps = LayerMaps(reader, layers=frozenset(scope.layers), norms=norms)
        with maps.hooked():
            for number, batch in enumerate(batches[part], start=1):
                inputs = text.inputs(batch)
                maps.run(inputs.ids, inputs.mask, partial(_show, filled, inputs), types=inputs.types)
                if not number % _BATCHES_BETWEEN:
                    give_back_freed_memory()
                progress.advance(int(inputs.ids.numel() if inputs.mask is None else inputs.mask.sum()))
        return filled

    progress.start(int(text.lengths[text.windows].sum()), unit="pieces")
    filled, *others = on_each_core(encoder, read, most=1 if encoder.is_gated else MOST_WORKERS)
    progress.finish()
    for other in others:
        for statistic, more in zip(filled, other, strict=True):
            statistic.merge(more)
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    skipped = Counter(re.sub(r"\d+", "…", word.reason) for word in text.pieces.skipped)
    skipped += Counter({SHARED: len(text.left_out)})
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


def _show(
    statistics: Sequence[HeadStatistic], inputs: Inputs, layer: int, maps: Tensor, value_norms: Tensor | None
) -> None:
    norms = None if value_norms is None else MapNorms(maps, value_norms, inputs)
    batch = MapBatch(layer, inputs.merged(maps), norms, inputs.units)
    for statistic in statistics:
        statistic.update(batch)


def on_each_core(encoder: Encoder, work: Callable[[Encoder, slice], Part], *, most: int) -> list[Part]:
    """What ``work`` returns with the encoder, or a twin of it, and every so many-th of the batches, on each core."""
    with Workers(torch.device(encoder.device), most=most) as workers:
        readers = [encoder, *(encoder.twin() for _ in range(workers.n - 1))]
        return workers.map(lambda number: work(readers[number], slice(number, None, workers.n)), workers.n)


def checked_layers(encoder: Encoder, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Layers of heads in ascending order, each once, negative ones counted from the last; all when left out."""
    n_layers = encoder.n_layers
    every = range(1, n_layers + 1) if layers is None else layers
    chosen = tuple(sorted({layer_number(layer, n_layers) for layer in every}))
    wrong = [layer for layer in chosen if not 1 <= layer <= encoder.n_layers]
    if wrong or not chosen:
        asked = f"layer {wrong[0]}" if wrong else "no layer"
        raise ModelError(f"{asked} asked for: heads of {encoder.name} are in layers 1…{encoder.n_layers}")
    return chosen


class LayerMaps:
    """Forward passes of an encoder as far as the deepest layer asked for, whose maps go to a callback layer by layer:
    each is taken where its attention module returns it, so that one layer's are in memory at a time."""

    def __init__(self, encoder: Encoder, *, layers: frozenset[int], norms: bool) -> None:
        self._encoder, self._layers, self._norms = encoder, layers, norms
        self._on_layer: OnLayer | None = None
        self._values: Tensor | None = None

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Hooks on every block, and the plain attention, for the length of the block."""
        encoder = self._encoder
        with contextlib.ExitStack() as stack:
            self._taken = stack.enter_context(taking_maps(encoder, self._take))
            for block in dict.fromkeys(encoder.model.blocks) if self._norms else ():
                projection = value_projection(block, encoder.family)
                stack.callback(projection.register_forward_hook(self._keep_values).remove)
            yield

    def run(
        self, input_ids: Tensor, attention_mask: Tensor | None, on_layer: OnLayer, *, types: Tensor | None = None
    ) -> None:
        """One forward pass, inside :meth:`hooked`; ``types`` are those of tokens, all 0 when left out."""
        self._on_layer = on_layer
        self._taken.clear()
        body, device = self._encoder.model.body, self._encoder.device
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": types}
        on_device = {name: value.to(device) for name, value in inputs.items() if value is not None}
        with torch.inference_mode(), contextlib.suppress(StopForward):
            body(**on_device, return_dict=True, output_attentions=True)
        if self._layers - self._taken:
            raise ModelError(f"model {self._encoder.name}: {type(body).__name__} gives no attention maps")

    def _keep_values(self, module: nn.Module, args: Any, output: Tensor) -> None:
        self._values = output

    def _take(self, layer: int, output: tuple[Any, ...], place: int) -> tuple[Any, ...]:
        encoder, maps = self._encoder, output[place]
        if layer in self._layers and self._on_layer is not None:
            encoder.check_finite("attention maps", {layer: maps}, by_head=True)
            norms = None
            if self._norms:
                if self._values is None:
                    raise ModelError(
                        f"model {encoder.name}: layer {layer} ran without projecting values: not supported"
                    )
                norms = value_norms(self._values, layer, encoder)
            self._on_layer(layer, maps, norms)
        if layer == max(self._layers):
            raise StopForward
        return (*output[:place], None, *output[place + 1 :])


@contextlib.contextmanager
def taking_maps(encoder: Encoder, take: Callable[[int, tuple[Any, ...], int], Any]) -> Iterator[set[int]]:
    """Call ``take`` in each block where a module returns maps, with the block's number, the output and their place in
    it; what it returns, unless None, replaces the output. Yields the blocks whose maps have been taken in a pass."""
    taken: set[int] = set()

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        if watch.current in taken or not isinstance(output, tuple):
            return None
        place = _place_of_maps(output, encoder.n_heads)
        if place is None:
            return None
        taken.add(watch.current)
        return take(watch.current, output, place)

    body, blocks = encoder.model.body, encoder.model.blocks
    with encoder.plain_attention(), watching(body, blocks) as watch, contextlib.ExitStack() as stack:
        for block in dict.fromkeys(blocks):
            for module in block.modules():
                # Before the hooks by which transformers gathers them: it then finds nothing to gather.
                stack.callback(module.register_forward_hook(hook, prepend=True).remove)
        yield taken


def _place_of_maps(output: tuple[Any, ...], n_heads: int) -> int | None:
    """Where in what a module returns the maps are: last, since a bias of positions may have the same shape."""
    for place in reversed(range(len(output))):
        part = output[place]
        if isinstance(part, Tensor) and part.ndim == 4 and part.shape[1] == n_heads:
            return place if part.shape[2] == part.shape[3] else None
    return None
