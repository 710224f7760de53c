"""Structural probes (Hewitt & Manning 2019): a linear map under which squared distances are distances in a tree."""

import itertools
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from bertology._machine import Workers
from bertology._products import product
from bertology._settings import Checked, Count, Positive
from bertology.activations import SpanChunk
from bertology.errors import FitError
from bertology.readouts._base import Floats, Integers, TrainingData, check_same_shape
from bertology.readouts._fitting import AdamState, EarlyStopping, FitLoop, drawn_alike, moved
from bertology.readouts._sources import JoinedChunks, SpanSource, check_finite

Asks = Literal["distances", "depths"]
_BLOCK_WORDS = 2048  # how many words are computed in the same products, at most (but for a single sentence)
_START = 0.05  # maps begin uniform within ± this (as the authors' code has it)
_RANK = 64  # the rank of a map where none is given, of vectors that are as wide
_LEAST_GAIN = 1e-4  # minimum improvement of the dev loss for early stopping (as in the authors' code)


@dataclass(frozen=True)
class TreeTargets:
    """Distances or depths in the trees of the sentences of a source."""

    asks: Asks
    values: Sequence[NDArray[np.integer[Any]]]
    """For each sentence ``[word, word]`` distances, or ``[word]`` depths."""
    weights: NDArray[np.float32] | None = None
    """``[problem, sentence]`` how often each counts in each problem (resampling by seed); one problem in which each
    counts once when left out."""

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return 1 if self.weights is None else len(self.weights)


@dataclass(frozen=True)
class Block:
    """Sentences in rows of ``n`` words, as long as the longest of them; short ones stand in a row one after another.

    What is computed of two words in different sentences is for nothing, but saves more operations than it costs.
    """

    first: int  # words of the batch that come before theirs, those that fill rows up counted
    gold: Tensor  # [row, n, n] distances, or [row, n] depths; 0 between sentences and where rows are filled up
    share: Tensor
    """Shaped as ``gold``: 1 over the number of a sentence's pairs (or words), 0 between sentences and where filled."""
    weights: Tensor | None  # [problem, row, n] how often the sentence that a word is in counts


@dataclass(frozen=True)
class TreeBatch:
    """Sentences that go through the probes together."""

    words: Tensor
    """``[word]`` places of their words in the window, block after block and row after row; where a row is filled up,
    that of any word."""
    n_sentences: int
    blocks: tuple[Block, ...]


def cut_batches(
    chunk: SpanChunk, targets: TreeTargets, size: int | None = None, random: torch.Generator | None = None
) -> list[TreeBatch]:
    """Batches of the sentences of a chunk (one span each), shuffled if by ``random``; of all of them without a size."""
    items, spans = chunk.items.numpy(), chunk.spans[:, 0].numpy()
    lengths = spans[:, 1] - spans[:, 0]
    for item, length in zip(items.tolist(), lengths.tolist(), strict=True):
        if (n := len(targets.values[item])) != length:
            of_tree = f"sentence {item} has {length} words and {targets.asks} of {n}"
            raise FitError(f"{of_tree}: give one tree over all of its words")
    order = np.arange(len(items)) if random is None else torch.randperm(len(items), generator=random).numpy()
    batches = []
    for at in range(0, len(order), size or len(order)):
        cut = order[at : at + (size or len(order))]
        # The longest come first, so that sentences of like length are neighbours.
        cut = cut[np.argsort(-lengths[cut], kind="stable")]
        ends, first, n_words = lengths[cut].cumsum(), 0, 0
        words, blocks = [], []
        while first < len(cut):
            before = int(ends[first] - lengths[cut[first]])
            last = max(first + 1, int(np.searchsorted(ends, before + _BLOCK_WORDS, side="right")))
            places, block = _block(items[cut[first:last]], spans[cut[first:last]], targets, n_words)
            words.append(places)
            blocks.append(block)
            first, n_words = last, n_words + len(places)
        batches.append(TreeBatch(torch.from_numpy(np.concatenate(words)), len(cut), tuple(blocks)))
    return batches


def _block(items: Integers, spans: Integers, targets: TreeTargets, before: int) -> tuple[Integers, Block]:
    """The places of the words of a block in the window, and the block; sentences come longest first.

    They are laid into rows of ``n`` words, each where least room is left after it.
    """
    lengths: list[int] = (spans[:, 1] - spans[:, 0]).tolist()
    is_pairs = targets.asks == "distances"
    n = lengths[0] if is_pairs else sum(lengths)  # nothing is computed for words that are not asked about in pairs
    places: list[tuple[int, int]] = []  # row of each sentence, and where in it the sentence begins
    rooms: list[tuple[int, int]] = []  # what is free in a row, and which row; in order
    n_rows = 0
    for length in lengths:
        best = bisect_left(rooms, (length, -1))
        if best == len(rooms):
            free, row, n_rows = n, n_rows, n_rows + 1
        else:
            free, row = rooms.pop(best)
        places.append((row, n - free))
        insort(rooms, (free - length, row))
    words = np.full((n_rows, n), spans[0, 0])
    gold = np.zeros((n_rows, n, n) if is_pairs else (n_rows, n), np.float32)
    share, weights = np.zeros_like(gold), np.zeros((targets.n_problems, n_rows, n), np.float32)
    for item, start, length, (row, at) in zip(items.tolist(), spans[:, 0].tolist(), lengths, places, strict=True):
        inside = slice(at, at + length)
        area = (row, inside, inside) if is_pairs else (row, inside)
        words[row, inside] = np.arange(start, start + length)
        gold[area] = targets.values[item]
        share[area] = 1 / (length * length if is_pairs else length)
        if targets.weights is not None:
            weights[:, row, inside] = targets.weights[:, item, None]
    word_weights = None if targets.weights is None else torch.from_numpy(weights)
    return words.ravel(), Block(before, torch.from_numpy(gold), torch.from_numpy(share), word_weights)


@dataclass(frozen=True)
class MapShard:
    """Maps of one rank in some layers, which one worker trains."""

    rank: int
    layers: list[int]
    fits: list[int]  # their numbers, by layer, and by problem within a layer
    n_problems: int
    state: AdamState
    rates: list[float]

    def learn(self, words: Tensor, batch: TreeBatch, asks: Asks) -> None:
        """One step on a batch, by the slope of the loss at the mapped vectors (Hewitt & Manning 2019, §§ 2.2, 2.3)."""
        slopes = []
        for block, vectors in self._mapped(words, batch):
            # The slope of |missing|: a sign, times how much the pair (or word) counts.
            slope = _missing(vectors, block, asks).sign_().mul_(block.share)
            if block.weights is not None:
                slope.mul_(block.weights if asks == "depths" else block.weights[..., None])
            if asks == "depths":
                pull = slope[..., None] * vectors
            else:  # Σ_j s_ij (v_j − v_i), as one product
                slope.diagonal(dim1=-2, dim2=-1).sub_(slope.sum(-1))
                pull = torch.bmm(slope.flatten(0, 2), vectors.flatten(0, 2)).view_as(vectors)
            slopes.append(pull.permute(0, 2, 3, 1, 4).flatten(3).flatten(1, 2))  # [layer, word, problem × rank]
        whole = torch.cat(slopes, dim=1) if len(slopes) > 1 else slopes[0]
        # Distances pull both words of a pair, each of which stands in two pairs.
        scale = (4.0 if asks == "distances" else -2.0) / batch.n_sentences
        gradients = product(whole.mT, words.mT).mul_(scale)
        self.state.step([gradients.view_as(self.state.parameters["map"])], self.rates)

    def losses(self, words: Tensor, batch: TreeBatch, asks: Asks) -> Tensor:
        """``[layer, problem]`` the loss of a batch, summed over its sentences, which weigh the same."""
        total = torch.zeros(len(self.layers), self.n_problems, dtype=torch.float64, device=words.device)
        for block, vectors in self._mapped(words, batch):
            total += _missing(vectors, block, asks).abs_().mul_(block.share).flatten(2).sum(-1)
        return total.mul_(2) if asks == "distances" else total

    def _mapped(self, words: Tensor, batch: TreeBatch) -> Iterator[tuple[Block, Tensor]]:
        """The blocks of a batch with their mapped vectors, ``[layer, problem, row, n, rank]``."""
        maps = self.state.parameters["map"].view(len(self.layers), -1, words.shape[2])
        mapped = product(words, maps)  # [layer, word, problem × rank]
        for block in batch.blocks:
            n_rows, n = block.gold.shape[:2]
            of_block = mapped[:, block.first : block.first + n_rows * n]
            vectors = of_block.view(len(mapped), n_rows, n, self.n_problems, -1)
            yield block, vectors.permute(0, 3, 1, 2, 4).contiguous()


def squared_distances(vectors: Tensor) -> Tensor:
    """``[…, n, n]`` squared distances between ``[…, n, dim]`` vectors."""
    products = vectors @ vectors.transpose(-1, -2)
    norms = products.diagonal(dim1=-2, dim2=-1).clone()
    return products.mul_(-2).add_(norms[..., :, None]).add_(norms[..., None, :])


def _missing(vectors: Tensor, block: Block, asks: Asks) -> Tensor:
    """Gold less prediction: ``[layer, problem, row, n]`` of depths, ``[…, n, n]`` half of it of distances."""
    if asks == "depths":
        return block.gold - vectors.square().sum(-1)
    flat = vectors.flatten(0, 2)
    products = torch.bmm(flat, flat.transpose(1, 2).contiguous())
    halves = products.diagonal(dim1=1, dim2=2) / 2
    products.sub_(halves[:, :, None]).sub_(halves[:, None])
    return products.view(*vectors.shape[:-1], -1).add_(block.gold, alpha=0.5)


class MapLoop(FitLoop):
    """The training of the maps of several ranks (Hewitt & Manning 2019, appendix), in shards for each worker."""

    what = "structural probes: epoch"

    def __init__(self, readouts: "Sequence[StructuralReadout]", data: TrainingData, workers: Workers) -> None:
        readout, train, targets = readouts[0], data.train, data.targets  # readouts are alike but for their rank
        shape = len(readouts), train.n_layers, targets.n_problems
        stopping = EarlyStopping(shape, readout.patience, least_gain=_LEAST_GAIN, floor=-np.inf)
        super().__init__(stopping, readout.max_epochs, data.say)
        self._readout, self._targets, self._workers, self._device = readout, targets, workers, data.device
        self._dev, self._dev_targets = data.dev, replace(data.dev_targets, weights=None)
        is_used = True if targets.weights is None else (targets.weights > 0).any(axis=0)
        used = torch.from_numpy(np.broadcast_to(is_used, train.n_items).copy())
        self._joined = JoinedChunks(train, used, device=data.device)
        self._random = torch.Generator().manual_seed(data.seed)
        self._rates = np.full(shape, readout.learning_rate, dtype=np.float32)
        self._states, self.best = [], []
        for one in readouts:
            rank = min(_RANK, train.dim) if one.rank is None else one.rank

            def draw(random: torch.Generator, rank: int = rank) -> dict[str, Tensor]:
                return {"map": _START * (2 * torch.rand(train.dim, rank, generator=random) - 1).T}

            maps = drawn_alike(shape[2], shape[1], data.seed, draw)["map"].transpose(0, 1).contiguous()
            maps = maps.to(data.device)
            self._states.append(AdamState.start({"map": maps.flatten(0, 1)}))
            self.best.append(maps.clone())
        self._shards: list[list[MapShard]] = []

    def learn(self) -> None:
        """Deal out the maps that go on, the largest first, to the worker with the least to compute; and train them."""
        jobs = [
            (-best.shape[2], place, layer)
            for place, best in enumerate(self.best)
            for layer in np.flatnonzero(self.stopping.running[place].any(axis=1)).tolist()
        ]
        loads = [0.0] * self._workers.n
        dealt: list[dict[int, list[int]]] = [{} for _ in loads]
        for rank, place, layer in sorted(jobs):
            worker = loads.index(min(loads))
            # What a map costs beside its products, in units of rank.
            loads[worker] += 8 - rank
            dealt[worker].setdefault(place, []).append(layer)
        n = self._targets.n_problems
        self._shards = [[] for _ in loads]
        for shards, of_worker in zip(self._shards, dealt, strict=True):
            for place, layers in of_worker.items():
                fits = [layer * n + problem for layer in sorted(layers) for problem in range(n)]
                rates = self._rates[place, sorted(layers)].ravel().tolist()
                shards.append(MapShard(place, sorted(layers), fits, n, self._states[place].some(fits), rates))
        size, asks = self._readout.batch_sentences, self._targets.asks
        for chunk in self._joined:
            batches = cut_batches(chunk, self._targets, size, self._random)
            self._each(chunk, batches, lambda shard, words, batch: shard.learn(words, batch, asks))

    def dev_scores(self) -> tuple[Floats, None]:
        """``[rank, layer, problem]`` the dev loss, negative: the lower the better."""
        totals = np.zeros(self.stopping.running.shape)

        def add(shard: MapShard, words: Tensor, batch: TreeBatch) -> None:
            totals[shard.rank, shard.layers] += shard.losses(words, batch, self._targets.asks).cpu().numpy()

        for chunk in self._dev.chunks():
            check_finite(self._dev, chunk.words.sum(dim=(1, 2)))
            self._each(chunk, cut_batches(chunk, self._dev_targets), add)
            del chunk  # or it would be held while the next is read
        for shard in itertools.chain.from_iterable(self._shards):
            self._states[shard.rank].put(shard.fits, shard.state)
        return -totals / self._dev.n_items, None

    def keep(self, better: NDArray[np.bool_]) -> None:
        """Keep the best maps; those that go on without a new minimum begin anew at a lower rate."""
        slower = self.stopping.running & ~better
        self._rates = np.where(slower, self._rates * np.float32(self._readout.slow_down), self._rates)
        for place, state in enumerate(self._states):
            chosen = torch.from_numpy(better[place]).to(self._device)
            self.best[place][chosen] = state.parameters["map"].view_as(self.best[place])[chosen]
            state.reset(np.flatnonzero(slower[place]).tolist())

    def _each(self, chunk: SpanChunk, batches: list[TreeBatch], job: Callable[..., None]) -> None:
        """Call ``job`` with every shard and batch, and the words of the batch in the shard's layers."""
        window, batches = moved((chunk.words.contiguous(), batches), self._device)
        every = window.view(-1, window.shape[2])

        def work(worker: int) -> None:
            for batch in batches:
                gathered: dict[tuple[int, ...], Tensor] = {}  # shards of the same layers share them
                for shard in self._shards[worker]:
                    if (layers := tuple(shard.layers)) not in gathered:
                        # One selection of whole rows, so that no more of the window is touched than the batch needs.
                        starts = torch.tensor(layers, device=window.device)[:, None] * window.shape[1]
                        rows = every.index_select(0, (starts + batch.words).flatten())
                        gathered[layers] = rows.view(len(layers), -1, window.shape[2])
                    job(shard, gathered[layers], batch)

        self._workers.map(work, len(self._shards))


@dataclass(frozen=True, eq=False)
class FittedStructural:
    """Linear maps as they were after the epoch with the lowest dev loss."""

    readout: str
    """Registered name of what fitted them."""
    asks: Asks
    maps: Tensor
    """``[problem, layer, dim, rank]``"""
    layers: tuple[int, ...]
    """``[layer]`` numbers of the layers they were fitted on."""
    dev_loss: Floats
    """``[problem, layer]`` the lowest dev loss: the mean absolute difference, over sentences."""
    epochs: Integers
    """``[problem, layer]`` number of epochs."""
    converged: NDArray[np.bool_]
    """``[problem, layer]`` whether the dev loss had stopped falling."""

    @property
    def rank(self) -> int:
        """Dimensions that vectors are mapped to."""
        return int(self.maps.shape[3])

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self.maps.shape[2])

    @property
    def n_params(self) -> int:
        """Number of trained parameters of one layer's map for one problem."""
        return self.dim * self.rank

    def read(self, source: SpanSource) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The number of each sentence, in the order of ``source``, and its squared distances ``[problem, layer, word,
        word]`` or depths ``[problem, layer, word]``; FitError where the source has other layers or another width.
        """
        n_problems, n_layers, dim, rank = self.maps.shape
        check_same_shape(source, n_layers, dim, what="probe")
        flat = self.maps.permute(1, 2, 0, 3).flatten(2)  # [layer, dim, problem × rank]
        for chunk in source.chunks():
            mapped = product(chunk.words, flat.mT).view(n_layers, -1, n_problems, rank).permute(2, 0, 1, 3)
            for item, (start, end) in zip(chunk.items.tolist(), chunk.spans[:, 0].tolist(), strict=True):
                vectors = mapped[:, :, start:end]
                if self.asks == "distances":
                    yield item, squared_distances(vectors).clamp_(min=0).numpy()
                else:
                    yield item, vectors.square().sum(-1).numpy()


@dataclass(frozen=True)
class StructuralReadout(Checked):
    """A linear map of rank ``rank`` (Hewitt & Manning 2019, sections 2.2 and 2.3).

    Squared distances between mapped vectors are fitted to distances in the tree, or their squared lengths to depths,
    by the mean absolute difference, of which every sentence has the same share. Adam in batches of whole sentences;
    after an epoch without a new minimum of the dev loss it begins anew at a tenth of its rate. The maps of all layers,
    problems and ranks are trained on the same batches and share no parameter. Memory is bounded by a window
    of words, whatever the corpus.
    """

    name: ClassVar[str] = "structural.v1"
    rank: Count | None = None
    """Dimensions that vectors are mapped to, at most those they have; 64, or the width of narrower vectors, when left
    out."""
    learning_rate: Positive = 1e-3
    batch_sentences: Count = 20
    max_epochs: Count = 40
    patience: Count = 5
    """Epochs without a new minimum after which a fit ends."""
    slow_down: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Factor of the learning rate after an epoch without a new minimum."""


def fit_ranks(
    readouts: Sequence[StructuralReadout],
    train: SpanSource,
    targets: TreeTargets,
    *,
    dev: SpanSource,
    dev_targets: TreeTargets,
    **settings: Any,
) -> list[FittedStructural]:
    """Fit the maps of several ranks, of all layers and problems, in the same passes over the data.

    Readouts are alike but for their rank, and the result of one does not depend on the others. Arguments are those
    of :meth:`Readout.fit`, of whole sentences, one span an item; dev sentences show when to slow down and when to stop.

    Raises:
        FitError: a rank above the width of the vectors, a problem without sentences, sentences that do not fit their
            trees, or vectors that are not finite.
    """
    data = TrainingData(train, targets, dev, dev_targets, **settings)
    for rank in (readout.rank for readout in readouts):
        if rank is not None and rank > train.dim:
            raise FitError(f"rank {rank} of vectors that are {train.dim} wide: give 1 to {train.dim}")
    if targets.weights is not None and not (targets.weights > 0).any(axis=1).all():
        raise FitError("a problem has no training sentence: give some of them a weight above 0")
    with Workers(data.device) as workers:
        loop = MapLoop(readouts, data, workers)
        stopping = loop.run()
    return [
        FittedStructural(
            readout=readout.name,
            asks=targets.asks,
            maps=loop.best[place].permute(1, 0, 3, 2).contiguous().cpu(),
            layers=tuple(train.layers),
            dev_loss=-stopping.score[place].T,
            epochs=stopping.epochs[place].T,
            converged=~stopping.running[place].T,
        )
        for place, readout in enumerate(readouts)
    ]
