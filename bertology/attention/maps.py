"""One streaming pass over attention maps: each is shown to every statistic, and none is kept."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from bertology._machine import Workers, give_back_freed_memory
from bertology._names import layer_number
from bertology.activations.progress import Progress, silent
from bertology.attention._texts import Inputs, MapText, Units
from bertology.corpora import Texts, as_sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import SHARED, OnLong
from bertology.encoders.interventions import (
    StopForward,
    head_projection,
    is_plain_linear,
    value_projection,
    watching,
)
from bertology.errors import ModelError
from bertology.measures.sums import Floats, HeadRatios, Integers, Level, Scope

MOST_WORKERS = 16
"""Each holds maps and sums, or the activations of a batch for a backward pass, of its own."""
_BATCHES_BETWEEN = 4
"""After so many batches, memory that maps of ever new shapes have left behind is given back."""

# Families in which a head's output is α (x W_V + b_V) W_O and nothing else.
_FAMILIES = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")

Part = TypeVar("Part")
Made = TypeVar("Made")
OnLayer = Callable[[int, Tensor, "Tensor | None"], None]
"""Called with a layer (from 1), its maps ``[batch, head, piece, piece]`` and, where norms were requested, the lengths
of its transformed values ``[batch, head, piece]``; else None."""


@dataclass(frozen=True, eq=False)
class MapNorms:
    """‖αf(x)‖ of one layer for a few texts, computed only as far as a statistic needs it.

    Norms are merged to words as maps are: what is added *to* a word is averaged over its pieces, what comes *from* a
    word is summed.
    """

    maps: Tensor  # [sentence, head, piece, piece] α as the model gives it
    lengths: Tensor  # [sentence, head, piece] ‖f(x)‖
    inputs: Inputs  # the inputs of the batch, which state how pieces become units

    @cached_property
    def between(self) -> Tensor:
        """``[sentence, head, unit, unit]`` to (rows) each unit from (columns) each unit."""
        return self.inputs.merged(self.maps.float() * self.lengths[:, :, None])

    @cached_property
    def given(self) -> Tensor:
        """``[sentence, head, unit]`` what each unit adds to all words whose rows count, summed: the maps are read once,
        and no second table of their size is made."""
        weights = self.inputs.row_shares[:, None, None]  # [sentence, 1, 1, piece]
        by_piece = (weights @ self.maps.float()).squeeze(2) * self.lengths
        return by_piece if self.inputs.member is None else by_piece @ self.inputs.columns.transpose(1, 2)

    @cached_property
    def kept(self) -> Tensor:
        """``[sentence, head]`` what the words whose rows count add to themselves, summed."""
        rows, columns, weights = self.inputs.own_cells
        n_pieces = self.maps.shape[-1]
        cells = (rows * n_pieces + columns)[:, None].expand(-1, self.maps.shape[1], -1)
        lengths = self.lengths.gather(2, columns[:, None].expand_as(cells))
        weighed = self.maps.flatten(2).gather(2, cells).float() * lengths
        return torch.einsum("shc,sc->sh", weighed, weights)


@dataclass(frozen=True, eq=False)
class MapBatch:
    """The attention maps of one layer for a few texts. Valid while ``update`` runs: keep sums, not maps."""

    layer: int
    """Number of the layer, from 1."""
    maps: Tensor
    """``[sentence, head, unit, unit]`` float32, from (rows) each unit to (columns) each unit; 0 in columns of
    padding. At word level attention *to* a word is summed and *from* a word averaged over its pieces (Clark et al.
    2019, section 4.1), and that to a piece which words share divided equally, so that rows sum to 1."""
    norms: MapNorms | None
    """‖αf(x)‖, the length of what each unit adds to another through a head (Kobayashi et al. 2020); None unless
    norms were requested."""
    units: Units
    """The same object for all layers of a batch."""

    @cached_property
    def most_attended(self) -> tuple[Tensor, Tensor]:
        """``[sentence, head, unit]`` of each row the largest weight to a word, and the place of that word, the first of
        equals. Special tokens do not compete."""
        # Far below 0, so that adding is enough: to choose by a mask takes several times as long.
        penalty = torch.where(self.units.is_word, 0.0, -2.0).to(self.maps)
        largest, places = torch.max(self.maps + penalty[:, None, None], dim=-1)
        return largest, places


class HeadStatistic(ABC):
    """Sums over attention maps, made batch by batch.

    A statistic begins empty, for a :class:`Scope`. :func:`stream_maps` is given what makes it, a class or a
    ``functools.partial`` of one: each thread fills one of its own, and they are merged at the end.
    """

    @abstractmethod
    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer of a batch; its layers come one after another, in ascending order."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the sums of another thread."""

    @abstractmethod
    def finish(self) -> Any:
        """The result, frozen."""


MakeStatistic = Callable[[Scope], HeadStatistic]


class PerBatch(Generic[Made]):
    """Something that is made of a batch's units once, and used for all its layers."""

    def __init__(self, make: Callable[[Units], Made]) -> None:
        self._make = make
        self._units: Units | None = None

    def __call__(self, units: Units) -> Made:
        """The value for these units; made anew where they are not those of the last call."""
        if self._units is not units:
            self._made, self._units = self._make(units), units
        return self._made


class ClusterSums:
    """Numerators and denominators of ratios by name, added up by cluster of sentences: what most statistics keep.

    All heads have the same denominator, such as a number of rows, where it is ``shared``. A ``metric`` is what is
    measured where the names are groups that it is measured on.
    """

    def __init__(self, scope: Scope, names: Sequence[str], *, shared: bool, metric: str = "") -> None:
        self._scope, self._names, self._shared, self._metric = scope, tuple(names), shared, metric
        # Clusters first, so that what is added to one stands together.
        shape = (scope.n_clusters, len(scope.layers), scope.n_heads, len(names))
        self._over = np.zeros(shape)
        self._under = np.zeros((shape[0], 1, 1, shape[3]) if shared else shape)

    def add(self, layer: int, units: Units, over: Tensor, under: Tensor) -> None:
        """Add sums over the rows of each sentence in a layer: ``[sentence, head, statistic]`` numerators, and
        denominators, ``[sentence, statistic]`` where heads share them."""
        place = self._scope.layers.index(layer)
        clusters = self._scope.clusters(units.sentences)
        _add_by_cluster(self._over[:, place], clusters, over)
        if not self._shared:
            _add_by_cluster(self._under[:, place], clusters, under)
        elif place == 0:
            _add_by_cluster(self._under[:, 0, 0], clusters, under)

    def merge(self, other: ClusterSums) -> None:
        """Add the sums of another thread."""
        self._over += other._over
        self._under += other._under

    def finish(self) -> HeadRatios:
        """The result, frozen."""
        over, under = (sums.transpose(3, 1, 2, 0) for sums in (self._over, self._under))
        return HeadRatios(self._names, self._scope.layers, over, under, self._metric)


class SumsStatistic(HeadStatistic):
    """A statistic that keeps sums by cluster of sentences and nothing else; subclasses implement ``update``."""

    def __init__(self, *sums: ClusterSums) -> None:
        self._sums = sums

    def merge(self, other: Self) -> None:
        """Add the sums of another thread."""
        for sums, more in zip(self._sums, other._sums, strict=True):
            sums.merge(more)

    def finish(self) -> tuple[HeadRatios, ...]:
        """The ratios, one object for each of the sums."""
        return tuple(sums.finish() for sums in self._sums)


def row_sums(rows: Tensor, counted: Tensor) -> Tensor:
    """``[sentence, head]`` of values ``[sentence, head, unit]``, summed over the counted rows ``[sentence, unit]``."""
    # What stands in rows of padding is not defined, so it is put aside and not multiplied by zero.
    return torch.where(counted[:, None], rows, 0).sum(-1)


def _add_by_cluster(sums: Floats, clusters: Integers, values: Tensor) -> None:
    """Add ``[sentence, …]`` to ``[cluster, …]``. A cluster may stand in a batch more than once, which plain indexed
    addition would count once."""
    order = np.argsort(clusters, kind="stable")
    distinct, starts = np.unique(clusters[order], return_index=True)
    sums[distinct] += np.add.reduceat(values.cpu().double().numpy()[order], starts, axis=0)


@dataclass(frozen=True, eq=False)
class MapPass:
    """The result of a pass over the attention maps of a text."""

    results: tuple[Any, ...]  # the value of each statistic's finish, in the order in which statistics were given
    scope: Scope
    n_sentences: int  # number of sentences of which some word was read
    n_words: int  # number of words that were read
    n_windows: int
    """Number of inputs of the model: more than sentences where some were read in several windows, fewer where they were
    read in pairs."""
    n_pairs: int  # number of inputs that were pairs of sentences
    n_apart: int  # number of pairs that were too long for the model, so that each sentence was read alone
    n_skipped: int  # number of words that were not read
    skipped: dict[str, int]  # number of words that were not read, by reason; numbers in reasons are left out


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
    """Run ``work`` on each core, with the encoder or a twin of it and with every n-th batch of n cores."""
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
    """The place of the maps in a module's output: the last that fits, as a bias of positions may have their shape."""
    for place in reversed(range(len(output))):
        part = output[place]
        if isinstance(part, Tensor) and part.ndim == 4 and part.shape[1] == n_heads:
            return place if part.shape[2] == part.shape[3] else None
    return None


def knows_norms(encoder: Encoder) -> bool:
    """Whether it is known how a model transforms values: by its family, unless these parts of it were changed."""
    if encoder.family not in _FAMILIES or encoder.model.is_stock:
        return encoder.family in _FAMILIES
    return all(is_plain_linear(head_projection(block, encoder.family)) for block in encoder.model.blocks)


def check_norms(encoder: Encoder) -> None:
    """Raise a ``ModelError`` where it is not known how the family transforms values."""
    if not knows_norms(encoder):
        raise ModelError(
            f"model {encoder.name}: norms of transformed values are known for {', '.join(_FAMILIES)}, "
            f"not for {encoder.family if encoder.family not in _FAMILIES else 'changed projections'}: take raw weights"
        )


def value_norms(values: Tensor, layer: int, encoder: Encoder) -> Tensor:
    """‖f(x)‖ of every piece and head, f(x) = (x W_V + b_V) W_O with the rows of W_O that are the head's own (eq. 5).

    Attention weighs f(x) by α, which is one number, so ‖α f(x)‖ = α ‖f(x)‖. Of ``[batch, piece, dim]`` output of the
    block's value projection, ``[batch, head, piece]``; a :class:`SignalError` where they are not finite.
    """
    n_heads = encoder.n_heads
    by_head = values.float().view(*values.shape[:2], n_heads, -1)  # [batch, piece, head, value]
    projection: Any = head_projection(encoder.model.blocks[layer - 1], encoder.family)
    weight: Tensor = projection.weight.float().view(-1, n_heads, by_head.shape[-1])  # [dim, head, value]
    # Of the squared length v W Wᵀ v the middle is the same for all pieces.
    gram = torch.einsum("dhv,dhw->hvw", weight, weight)
    squared = (torch.einsum("bphv,hvw->bphw", by_head, gram) * by_head).sum(-1)
    lengths: Tensor = squared.clamp_min(0).sqrt().transpose(1, 2)
    encoder.check_finite("norms of transformed values", {layer: lengths}, by_head=True)
    return lengths
