"""Edge probes (Tenney et al. 2019): their shape, batches of spans, their training, and the fitted probes."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from bertology._machine import Workers
from bertology._products import product
from bertology._settings import Count, Natural, Positive
from bertology.activations import SpanChunk
from bertology.errors import FitError
from bertology.readouts import _base, _sources
from bertology.readouts._base import FittedReadout
from bertology.readouts._fitting import IMPOSSIBLE, AdamState, EarlyStopping, FitLoop, FittedScores, drawn_alike, moved
from bertology.readouts._sources import pooled, pooled_parts

Pooling = Literal["attention", "first", "last", "mean", "endpoints"]
Reads = Literal["one", "mix", "cat"]
Takes = Literal["one", "all", "below", "ends"]
Part = Annotated[float, Field(ge=0, lt=1)]
Parameters = Mapping[str, Tensor]
"""Tensors by name, whose first axis is the fits (or whose first two are problems and columns)."""
Scored = Iterator[tuple[Tensor, Tensor]]
"""Item numbers ``[m]`` and scores ``[fit, m, class]``, on the processor, classes that cannot be left out."""
MIX_PACE = 20.0
"""Factor of the learned numbers of a mix before the softmax. Adam moves every number by about the learning
rate a step, which is much for weights of words and next to nothing for these, of which differences of 1 and more
matter: without it, mixes are still equal when the probe is done."""
_SCORED_AT_ONCE = 1024
_SCORED_ON_ACCELERATOR = 1 << 14
_ROUNDS = 20  # rounds that a fit takes, roughly


@dataclass(frozen=True)
class SpanBatch:
    """A batch of span items for all probes that are fitted together."""

    items: Tensor  # [m] their numbers
    rows: tuple[tuple[Tensor, Tensor | None], ...]
    """For each part (see :attr:`Design.parts`) ``[row]`` places of its words, span after span, and ``[row]`` which item
    of the batch each belongs to; None where every span has one word."""
    dropout: Tensor | None = None
    """``[m, hidden]`` what hidden units are multiplied by: 0, or more than 1. The same in every fit."""
    dropped_layers: Tensor | None = None  # [layer] layers that mixes leave out this time


def cut_batches(
    chunk: SpanChunk,
    batch_items: int,
    random: torch.Generator,
    *,
    hidden: int = 0,
    dropout: float = 0.0,
    layer_dropout: float = 0.0,
) -> list[SpanBatch]:
    """Batches of all items of a window, of sizes as equal as can be, in random order.

    In each a part ``dropout`` of the ``hidden`` units and a part ``layer_dropout`` of the layers are left out.
    """
    order = torch.randperm(len(chunk.items), generator=random)
    n = -(-len(order) // batch_items)
    masks: Sequence[Tensor | None] = [None] * n
    layers: Sequence[Tensor | None] = [None] * n
    if hidden and dropout:
        masks = torch.rand(len(order), hidden, generator=random).ge_(dropout).div_(1 - dropout).tensor_split(n)
    if layer_dropout:
        layers = (torch.rand(n, len(chunk.words), generator=random) < layer_dropout).unbind()
    parts = zip(order.tensor_split(n), masks, layers, strict=True)
    return [SpanBatch(chunk.items[part], _rows(chunk.spans[part]), mask, layer) for part, mask, layer in parts]


def _rows(spans: Tensor) -> tuple[tuple[Tensor, Tensor | None], ...]:
    """The words of ``[m, part, 2]`` spans, by part."""
    are_words = bool((spans[:, :, 1] - spans[:, :, 0] == 1).all())
    return tuple((of_part[:, 0], None) if are_words else _sources.span_rows(of_part) for of_part in spans.unbind(1))


@dataclass(frozen=True)
class Design:
    """The shape of the probes: all that is the same in every problem and column."""

    columns: tuple[tuple[int, ...], ...]  # places of the layers that each column reads
    reads: Reads  # how a column reads them: the only one; their mix under learned weights; one vector after the other
    dim: int  # how wide a word's vector is in one layer
    parts: tuple[int, ...]
    """For each pooled vector of an item the span it comes from: ``(0, 1)`` for two spans, ``(0, 0, 1, 1)`` for their
    endpoints. Vectors of one span share its projection."""
    n_classes: int
    pooling: Pooling
    projection: int
    hidden: int  # width of the hidden layer, 0 for a linear classifier
    temperature: float = 1.0

    @property
    def width(self) -> int:
        """Width of a word's vector as a column reads it."""
        return self.dim * (len(self.columns[0]) if self.reads == "cat" else 1)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        pooled = self.projection or self.width
        if self.reads == "mix":
            shapes |= {"mix": (max(max(column) for column in self.columns) + 1,), "gamma": (1,)}
        for span in sorted(set(self.parts)):
            if self.projection:
                shapes |= {f"project_{span}": (self.width, pooled), f"project_{span}_bias": (1, pooled)}
            if self.pooling == "attention":
                shapes[f"attend_{span}"] = (pooled, 1)
        last = pooled * len(self.parts)
        if self.hidden:
            shapes |= {"hidden": (last, self.hidden), "hidden_bias": (1, self.hidden)}
            shapes |= {"norm": (1, self.hidden), "norm_bias": (1, self.hidden)}
            last = self.hidden
        return shapes | {"out": (last, self.n_classes), "out_bias": (1, self.n_classes)}

    def start(self, n_problems: int, seed: int) -> dict[str, Tensor]:
        """Initial parameters ``[problem, column, …]``, uniform within ±1/√inputs; mixes with equal weights."""
        shapes = self.shapes()
        fixed = {"mix": 0.0, "norm_bias": 0.0, "gamma": 1.0, "norm": 1.0}

        def draw(random: torch.Generator) -> dict[str, Tensor]:
            return {
                name: torch.full(shape, fixed[name])
                if name in fixed
                else (2 * torch.rand(shape, generator=random) - 1) * shapes[name.removesuffix("_bias")][0] ** -0.5
                for name, shape in shapes.items()
            }

        return drawn_alike(n_problems, len(self.columns), seed, draw)

    def weights(self, parameters: Parameters, columns: Tensor, dropped: Tensor | None = None) -> Tensor:
        """``[fit, layer]`` the weights of mixes: softmax over the layers that a column reads."""
        mix = parameters["mix"]
        places = torch.arange(mix.shape[-1], device=mix.device)
        read = torch.stack([torch.isin(places, torch.tensor(c, device=mix.device)) for c in self.columns])[columns]
        if dropped is not None:
            kept = read & ~dropped[: len(places)]
            read = torch.where(kept.any(-1, keepdim=True), kept, read)  # a column of one layer cannot do without it
        return (mix * MIX_PACE / self.temperature).masked_fill(~read, -torch.inf).softmax(-1)


class Probes:
    """Some of the fits of a design, numbered problem by problem and column by column, computed in the same products."""

    def __init__(self, design: Design, fits: Sequence[int], parameters: Parameters) -> None:
        self.design, self.parameters = design, parameters
        self.problems = [fit // len(design.columns) for fit in fits]
        self.columns = [fit % len(design.columns) for fit in fits]

    def scores(self, words: Tensor, batch: SpanBatch) -> Tensor:
        """``[fit, m, class]`` scores of the items of a batch, from ``[layer, word, dim]`` words of its window."""
        design, parameters, pooled = self.design, self.parameters, []
        weights = None
        if design.reads == "mix":
            columns = torch.tensor(self.columns, device=words.device)
            weights = parameters["gamma"] * design.weights(parameters, columns, batch.dropped_layers)
        for span, (rows, items) in zip(design.parts, batch.rows, strict=True):
            vectors = self._read(words, rows, weights)  # [fit, row, width]
            if design.projection:
                vectors = product(vectors, parameters[f"project_{span}"].mT) + parameters[f"project_{span}_bias"]
            if items is not None:
                # self-attentive pooling (Lee et al. 2017, section 4): [fit, item, dim] from [fit, row, dim]
                scores = torch.bmm(vectors, parameters[f"attend_{span}"]).squeeze(2)  # [fit, row]
                shape = len(scores), len(batch.items)
                most = scores.new_full(shape, -torch.inf)
                most = most.scatter_reduce_(1, items.expand_as(scores), scores.detach(), "amax")
                grown = (scores - most[:, items]).exp()
                shares = grown / grown.new_zeros(shape).index_add(1, items, grown)[:, items]
                empty = vectors.new_zeros(*shape, vectors.shape[2])
                vectors = empty.index_add(1, items, vectors * shares[:, :, None])
            pooled.append(vectors)
        hidden = torch.cat(pooled, dim=2) if len(pooled) > 1 else pooled[0]
        if design.hidden:
            hidden = (product(hidden, parameters["hidden"].mT) + parameters["hidden_bias"]).tanh()
            hidden = functional.layer_norm(hidden, (design.hidden,))
            hidden = torch.addcmul(parameters["norm_bias"], hidden, parameters["norm"])
            if batch.dropout is not None:
                hidden = hidden * batch.dropout
        return product(hidden, parameters["out"].mT) + parameters["out_bias"]

    def _read(self, words: Tensor, rows: Tensor, weights: Tensor | None) -> Tensor:
        """``[fit, row, width]`` the vectors of some words as the columns of the fits read them."""
        design = self.design
        if weights is not None:
            part = words[: weights.shape[1], rows]
            return (weights @ part.flatten(1)).view(len(weights), *part.shape[1:])
        if design.reads == "cat":
            return torch.stack([torch.cat([words[at, rows] for at in design.columns[c]], dim=1) for c in self.columns])
        layers = [design.columns[column][0] for column in self.columns]
        if layers == list(range(layers[0], layers[-1] + 1)):
            return words[layers[0] : layers[-1] + 1].index_select(1, rows)
        distinct = sorted(set(layers))
        part = torch.stack([words[layer].index_select(0, rows) for layer in distinct])
        return part[[distinct.index(layer) for layer in layers]]


def log_probs(scores: Tensor, labels: Tensor, *, is_sigmoid: bool) -> Tensor:
    """``[fit, m]`` natural logarithm of the probability of classes ``[fit, m]``, or of sets ``[fit, m, class]``.

    If ``is_sigmoid``, each class is judged on its own: of one class it is then the probability of that and no other.
    """
    if not is_sigmoid:
        flat = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
        return -flat.view(labels.shape)
    truth = labels if labels.ndim == 3 else functional.one_hot(labels, scores.shape[2])
    return -functional.binary_cross_entropy_with_logits(scores, truth.float(), reduction="none").sum(2)


def span_scores(
    source: _sources.SpanSource, parts: Sequence[Probes], absent: Tensor | None, workers: Workers
) -> Scored:
    """Scores of all items in the order of the source; ``absent [problem, 1, class]`` is added to them."""
    design, device = parts[0].design, next(iter(parts[0].parameters.values())).device
    if absent is not None:
        absent = absent.cpu()[[problem for part in parts for problem in part.problems]]
    most = _SCORED_AT_ONCE if device.type == "cpu" else _SCORED_ON_ACCELERATOR

    def of_part(words: Tensor, batch: SpanBatch, number: int) -> Tensor:
        with torch.inference_mode():
            return parts[number].scores(words, batch)

    for chunk in pooled_parts(source, design.pooling).chunks():
        words = chunk.words.to(device)
        for items, spans in zip(torch.split(chunk.items, most), torch.split(chunk.spans, most), strict=True):
            batch = moved(SpanBatch(items, _rows(spans)), device)
            scores = torch.cat(workers.map(partial(of_part, words, batch), len(parts))).cpu()
            yield items, scores if absent is None else scores + absent


@dataclass(frozen=True)
class FittedEdge(FittedReadout):
    """Edge probes as they were after the epoch with the best dev score.

    In the report ``iterations`` counts epochs, and ``converged`` says that the dev score had stopped rising.
    """

    name: str
    design: Design
    parameters: Mapping[str, Tensor]
    """Parameters by name, ``[problem, column, …]``."""
    layers: tuple[int, ...]
    """``[layer]`` numbers of the layers they were fitted on."""
    absent: Tensor | None
    """``[problem, 1, class]`` added to scores, so that no class without training items is predicted."""
    is_sigmoid: bool
    """Whether each class is judged on its own."""
    is_multi_label: bool
    report: _base.FitReport

    @property
    def n_params(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.design.shapes().values())

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the layers that each column reads."""
        return tuple(tuple(self.layers[place] for place in column) for column in self.design.columns)

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        """The layers that the column reads; for a mix also its weights, their mean layer and how unequal they are.

        Mean layer is Σ ℓ·s_ℓ (Tenney et al. 2019b, section 3.1), inequality KL(s ‖ uniform) in bits (section 4).
        """
        layers = self.columns[layer]
        facts: dict[str, Any] = {"layers": list(layers)}
        if self.design.reads == "mix":
            parameters = {name: value[problem, layer : layer + 1] for name, value in self.parameters.items()}
            weights_of_all = self.design.weights(parameters, torch.tensor([layer]))[0].double().cpu()
            weights = weights_of_all[list(self.design.columns[layer])].numpy()
            logs = np.log2(np.where(weights > 0, weights, 1.0))
            facts |= {
                "mix_weights": [round(float(weight), 6) for weight in weights],
                "mix_pace": MIX_PACE,
                "mix_gamma": round(float(parameters["gamma"]), 6),
                "center_of_gravity": round(float(weights @ np.array(layers, dtype=np.float64)), 6),
                "kl_from_uniform_bits": round(float(np.log2(len(weights)) + (weights * logs).sum()), 6),
            }
        return facts

    def predict(self, source: _sources.AnySource) -> _base.Predictions:
        shape = (*self.parameters["out"].shape[:2], source.n_items)
        by_fit = shape[0] * shape[1], shape[2]
        multi = self.is_multi_label
        labels = np.empty((*by_fit, self.design.n_classes), bool) if multi else np.empty(by_fit, np.int64)
        log_prob = np.empty(by_fit, dtype=np.float32)
        for items, scores in self._scores(source):
            best = scores > 0 if multi else scores.argmax(2)
            labels[:, items.numpy()] = best.numpy()
            log_prob[:, items.numpy()] = log_probs(scores, best, is_sigmoid=self.is_sigmoid).numpy()
        return _base.Predictions(labels.reshape(*shape, *labels.shape[2:]), log_prob.reshape(shape))

    def log_probs(self, source: _sources.AnySource, labels: _base.Integers | NDArray[np.bool_]) -> _base.Floats:
        """``[problem, column, item]`` log-probability of classes ``[problem, item]``, or of sets ``[problem, item,
        class]``.
        """
        multi, shape = self.is_multi_label, (*self.parameters["out"].shape[:2], source.n_items)
        targets = _base.check_labels(source, labels, shape[0], self.design.n_classes)
        truth, problems = torch.from_numpy(targets.labels), torch.arange(shape[0]).repeat_interleave(shape[1])
        values = np.empty((len(problems), shape[2]))
        for items, scores in self._scores(source):
            of_items = truth[:, items][problems]
            classes = of_items if multi else of_items.clamp(min=0)
            known = log_probs(scores, classes, is_sigmoid=self.is_sigmoid).double()
            known = known.masked_fill(known < IMPOSSIBLE / 2, -torch.inf)
            values[:, items.numpy()] = (known if multi else known.masked_fill(of_items < 0, torch.nan)).numpy()
        return values.reshape(shape)

    def _scores(self, source: _sources.AnySource) -> Scored:
        _base.check_same_shape(source, len(self.layers), self.design.dim)
        spans = _sources.as_spans(source)
        flat = {name: value.flatten(0, 1) for name, value in self.parameters.items()}
        n_fits, device = len(flat["out"]), flat["out"].device
        with Workers(device) as workers:
            shares = [fits.tolist() for fits in np.array_split(np.arange(n_fits), min(workers.n, n_fits))]
            parts = [
                Probes(self.design, fits, {name: value[fits[0] : fits[-1] + 1] for name, value in flat.items()})
                for fits in shares
            ]
            yield from span_scores(spans, parts, self.absent, workers)


class EdgeLoop(FitLoop):
    """The training loop of all probes of a design; unfinished fits are distributed over one shard for each worker."""

    what = "edge probes: round"

    def __init__(
        self, readout: "SpanReadout", design: Design, data: _base.TrainingData, workers: Workers, *, is_sigmoid: bool
    ) -> None:
        targets, shape = data.targets, (data.targets.n_problems, len(design.columns))
        weights = torch.from_numpy(targets.item_weights())
        used = (weights > 0).any(dim=0)
        n_items = int(used.sum())
        # Of few items, batches are small and a round has several passes.
        self._batch_items = min(readout.batch_items, max(readout.least_batch, n_items // readout.round_steps))
        steps = math.ceil(n_items / self._batch_items)
        self._passes = math.ceil(readout.round_steps / steps)
        most = math.ceil(readout.max_steps / (self._passes * steps)) if readout.max_steps else readout.max_epochs
        n_rounds = min(readout.max_epochs, most)
        cool_down = min(readout.cool_down, n_rounds // 2)
        stopping = EarlyStopping(shape, readout.patience, cool_down=cool_down, last=n_rounds)
        super().__init__(stopping, n_rounds, data.say)
        self._readout, self._design, self._data, self._workers = readout, design, data, workers
        self._is_sigmoid = is_sigmoid
        self._learning_rate = readout.learning_rate * math.sqrt(self._batch_items / readout.batch_items)
        self._labels = torch.from_numpy(targets.labels if targets.is_multi_label else targets.labels.clip(min=0))
        self._labels, weights = self._labels.to(data.device), weights.to(data.device)
        self._weights = None if bool((weights == 1).all()) else weights / weights.mean(1, keepdim=True)
        present = torch.from_numpy(targets.class_weights() > 0).to(data.device)
        self.absent = None if bool(present.all()) else torch.where(present, 0.0, IMPOSSIBLE)[:, None]
        """``[problem, 1, class]`` added to scores, so that no class without training items is predicted."""
        self.best = {name: value.to(data.device) for name, value in design.start(shape[0], data.seed).items()}
        """The probes at their best, ``[problem, column, …]``."""
        self._random = torch.Generator().manual_seed(data.seed)
        self._joined = _sources.JoinedChunks(pooled_parts(data.train, design.pooling), used, device=data.device)
        self._n_cooling = n_items * self._passes * cool_down
        self._n_seen = 0
        self._cools: dict[int, int] = {}  # by fit: items learned from before cooling down
        self._state = AdamState.start({name: value.flatten(0, 1) for name, value in self.best.items()})
        self.fits = list(range(len(self._state.steps)))
        """Numbers of the fits that have not ended."""
        self._cut()

    def _cut(self) -> None:
        """Share the fits out: neighbouring ones to a worker, whose steps change the state in place."""
        n_shards = max(1, min(self._workers.n, len(self.fits)))
        bounds = [shard * len(self.fits) // n_shards for shard in range(n_shards + 1)]
        self._shards: list[tuple[slice, Probes, AdamState]] = []
        for places in (slice(*pair) for pair in itertools.pairwise(bounds)):
            state = self._state.some(places)
            # .data: torch is not to take another shard's steps, in the same memory, for changes of these
            parameters = {name: value.data.requires_grad_() for name, value in state.parameters.items()}
            self._shards.append((places, Probes(self._design, self.fits[places], parameters), state))

    def learn(self) -> None:
        parts = {"dropout": self._readout.dropout, "layer_dropout": self._readout.mixing[1]}
        for _ in range(self._passes):
            for chunk in self._joined:
                batches = cut_batches(chunk, self._batch_items, self._random, hidden=self._design.hidden, **parts)
                self.learn_window(*moved((chunk.words, batches), self._data.device))
                del chunk  # or it would be held while the next is made

    def learn_window(self, words: Tensor, batches: Sequence[SpanBatch]) -> None:
        """Take every fit through the batches of a window."""
        ends = list(itertools.accumulate((len(batch.items) for batch in batches), initial=self._n_seen))
        middles = [sum(pair) / 2 for pair in itertools.pairwise(ends)]
        cooled = [[(n - self._cools.get(fit, n)) / max(1, self._n_cooling) for fit in self.fits] for n in middles]
        # [batch][place of a fit]
        rates = [[self._learning_rate * max(0.0, 1 - part) for part in of_batch] for of_batch in cooled]

        def work(number: int) -> None:
            places, probes, state = self._shards[number]
            parameters = list(probes.parameters.values())
            problems = torch.tensor(probes.problems, device=words.device)
            for batch, rate in zip(batches, rates, strict=True):
                scores = probes.scores(words, batch)
                if self.absent is not None:
                    scores = scores + self.absent[problems]
                losses = -log_probs(scores, self._labels[:, batch.items][problems], is_sigmoid=self._is_sigmoid)
                if self._weights is not None:
                    losses = losses * self._weights[:, batch.items][problems]
                # the cross-entropy per item, summed over the fits, which share no parameter
                loss = losses.sum() / len(batch.items)
                # what a batch does not reach (attention over spans of one word) has gradient 0
                gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
                state.step(gradients, rate[places], weight_decay=self._readout.weight_decay)

        self._workers.map(work, len(self._shards))
        self._n_seen = ends[-1]

    def dev_scores(self) -> tuple[_base.Floats, _base.Floats | None]:
        """Weighted accuracy, or micro F1 (Tenney et al. 2019a, section 3) where items have several labels; and nats."""
        parts, targets = [probes for _, probes, _ in self._shards], self._data.dev_targets
        which = torch.tensor([problem for part in parts for problem in part.problems])
        labels, weights = torch.from_numpy(targets.labels), torch.from_numpy(targets.item_weights()).double()
        right, n_predicted, n_gold, loss = torch.zeros(4, len(which), dtype=torch.float64)
        for items, scores in span_scores(self._data.dev, parts, self.absent, self._workers):
            truth, weight = labels[:, items][which], weights[:, items][which]
            classes = truth if targets.is_multi_label else truth.clamp(min=0)
            loss -= (log_probs(scores, classes, is_sigmoid=self._is_sigmoid) * weight).sum(1)
            if targets.is_multi_label:
                positive = scores > 0
                right += ((positive & truth).sum(2) * weight).sum(1)
                n_predicted += (positive.sum(2) * weight).sum(1)
                n_gold += (truth.sum(2) * weight).sum(1)
            else:
                right += ((scores.argmax(2) == truth) * weight).sum(1)
                n_predicted += weight.sum(1)
                n_gold += weight.sum(1)
        shape = self.stopping.running.shape
        of_all, losses = np.full(shape, -1.0), np.full(shape, np.inf)
        of_all.flat[self.fits] = (2 * right / (n_predicted + n_gold)).numpy()
        losses.flat[self.fits] = (loss / weights[which].sum(1)).numpy()
        return of_all, losses if self._readout.watch == "loss" else None

    def keep(self, better: NDArray[np.bool_]) -> None:
        chosen = [place for place, fit in enumerate(self.fits) if better.flat[fit]]
        numbers = [self.fits[place] for place in chosen]
        for name, value in self._state.parameters.items():
            self.best[name].view(-1, *value.shape[1:])[numbers] = value[chosen]
        # fits that cool down decay their learning rate to 0, starting from their best parameters
        cooling: list[int] = np.flatnonzero(self.stopping.begins_to_cool).tolist()
        places = [self.fits.index(fit) for fit in cooling]
        for name, value in self._state.parameters.items():
            value[places] = self.best[name].flatten(0, 1)[cooling]
        self._cools |= dict.fromkeys(cooling, self._n_seen)
        running = np.flatnonzero(self.stopping.running).tolist()
        if running and running != self.fits:
            self._state = self._state.some([self.fits.index(fit) for fit in running])
            self.fits = running
            self._cut()


Columns = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SpanReadout(_base.Readout):
    """Settings and fit of all edge readouts (Tenney et al. 2019a, section 3.1): probes of one or two spans of words.

    Words are projected, a learned attention over each span's words makes one vector of it (with parameters of their
    own for the first and the second span), and a classifier reads the two. The probes of all problems and columns are
    trained side by side on the same batches by Adam, without shared parameters, until their own dev score stops
    rising: accuracy, or micro F1 where items have several labels. A fit then goes back to its best round, and learns on
    from there while its learning rate falls to 0. Every column begins with the same parameters and leaves the same
    hidden units out.

    Only words inside spans are read, and memory is bounded by a window of them, whatever the corpus. Items of single
    words are spans of one word. Without attention, projection and hidden layer, ``edge`` is a logistic regression on
    pooled vectors and is fitted as one, by ``linear`` without extensions of its path: standardised, with the L2 penalty
    chosen on dev. The seed is that of the initial weights (each problem its own), of the order of the items and of what
    is left out.
    """

    gives_sets: ClassVar[bool] = True
    reads: ClassVar[Reads] = "one"
    """Combination of a column's layers."""
    takes: ClassVar[Takes] = "one"
    """Layers of a column: one, all, one and those below it, the first and the last."""

    pooling: Pooling = "attention"
    """Pooling of the words of a span into one vector; all but ``attention`` have no parameters."""
    projection: Natural = 256
    """Width that words are projected to, 0 for none."""
    classifier: Literal["mlp", "linear"] = "mlp"
    """``mlp``: one hidden layer (tanh, layer norm, dropout), as the authors' code has it."""
    hidden: Count = 512
    """Width of that hidden layer."""
    dropout: Part = 0.2
    """Part of the hidden units that a batch does without."""
    loss: Literal["auto", "softmax", "sigmoid"] = "auto"
    """``softmax`` for one label an item, ``sigmoid`` for each label on its own (as the paper has it throughout);
    ``auto``: softmax unless items have several labels."""
    learning_rate: Positive = 2e-3
    """Learning rate of Adam, in batches of ``batch_items``."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    batch_items: Count = 256
    """Items of a batch at most."""
    least_batch: Count = 32
    """Smallest size of a batch: where items are few, batches shrink until a pass has ``round_steps`` of them; the
    learning rate falls with the square root of their size. As much as ``batch_items`` where all are to be alike."""
    max_epochs: Count = 40
    """Rounds at most. A round is a pass over the items, or of few items as many as make ``round_steps`` steps."""
    max_steps: Natural = 5000
    """Steps after which no further round begins, so that of many items there are fewer rounds; 0 for no limit."""
    patience: Count = 6
    """Rounds without getting better on dev after which a fit cools down, and ends."""
    cool_down: Natural = 8
    """Rounds in which the learning rate falls to 0 (linearly), from the best round on; half of all rounds at most."""
    watch: Literal["score", "loss"] = "score"
    """Criterion of getting better: ``score``, a higher score; ``loss``, a higher score or a smaller loss. The score of
    a few dev items goes up in steps: with many training items a fit may learn for long between two of them."""
    round_steps: Count = 100
    """Least number of batches between two evaluations on dev: after a pass over few items, scores hardly change."""

    def columns(self, layers: Sequence[int]) -> Columns:
        """The ``layers`` that each column of a fit reads; columns take the place of layers in all that is fitted."""
        if self.takes == "ends":
            if (n := len(layers)) < 2:
                raise FitError(f"{self.name} joins the first and the last layer, and only {n} is there: ask two")
            return ((layers[0], layers[-1]),)
        if self.takes == "all":
            return (tuple(layers),)
        return tuple(tuple(layers[place if self.takes == "one" else 0 : place + 1]) for place in range(len(layers)))

    def training_flops(self, n_items: int, dim: int, n_classes: int) -> float:
        batch = min(self.batch_items, max(self.least_batch, n_items // max(1, self.round_steps)))
        steps = min(self.max_epochs, _ROUNDS) * max(self.round_steps, n_items // batch)
        width = self.projection or dim
        # Of two spans of two words each; then the layers of the classifier. Forward and backward are three products.
        item = 4 * width * dim + 2 * width * self.hidden + self.hidden * n_classes
        return 6.0 * item * batch * min(steps, self.max_steps or steps)

    @property
    def mixing(self) -> tuple[float, float]:
        """Softmax temperature of the layer mix, and probability that a layer is dropped from a batch."""
        settings = asdict(self)
        return settings.get("temperature", 1.0), settings.get("layer_dropout", 0.0)

    def fit_to(self, data: _base.TrainingData) -> FittedEdge | FittedScores:
        is_sigmoid = data.targets.is_multi_label if self.loss == "auto" else self.loss == "sigmoid"
        if self.loss == "softmax" and data.targets.is_multi_label:
            raise FitError("loss is 'softmax' and items have several labels: give sigmoid or auto")
        train, dev = _sources.as_spans(data.train), _sources.as_spans(data.dev)
        if train.n_spans != dev.n_spans:
            raise FitError(f"train has {train.n_spans} spans an item and dev {dev.n_spans}: give the same number")
        layers = tuple(train.layers)
        is_linear = self.pooling != "attention" and not self.projection and self.classifier == "linear"
        if self.reads == "one" and is_linear and not is_sigmoid:
            pooling, regression = cast(_sources.PlainPooling, self.pooling), _base.get_readout("linear", extensions=0)
            on_pooled = replace(data, train=pooled(train, pooling=pooling), dev=pooled(dev, pooling=pooling))
            fitted: FittedScores = regression.fit_to(on_pooled)
            return replace(fitted, name=self.name, pooling=pooling, layers=layers)
        n_parts = 2 if self.pooling == "endpoints" else 1
        design = Design(
            columns=tuple(tuple(map(layers.index, column)) for column in self.columns(layers)),
            reads=self.reads,
            dim=train.dim,
            parts=tuple(span for span in range(train.n_spans) for _ in range(n_parts)),
            n_classes=data.targets.n_classes,
            pooling=self.pooling,
            projection=self.projection,
            hidden=self.hidden if self.classifier == "mlp" else 0,
            temperature=self.mixing[0],
        )
        with Workers(data.device) as workers:
            spans = replace(data, train=train, dev=dev)
            loop = EdgeLoop(self, design, spans, workers, is_sigmoid=is_sigmoid)
            report = loop.run().report()
        return FittedEdge(
            name=self.name,
            design=design,
            parameters=loop.best,
            layers=layers,
            absent=loop.absent,
            is_sigmoid=is_sigmoid,
            is_multi_label=data.targets.is_multi_label,
            report=report,
        )


@dataclass(frozen=True)
class EdgeReadout(SpanReadout):
    """``edge.v1``: one probe a layer (Tenney et al. 2019a, section 3.1)."""

    name: ClassVar[str] = "edge.v1"


@dataclass(frozen=True)
class MixReadout(SpanReadout):
    """A probe of a mix of layers, γ Σ s_ℓ h_ℓ (Tenney et al. 2019b, section 3.1).

    The weights s are the softmax of what is learned; they and γ are among the ``details`` of a fit, with their centre
    of gravity and how far they are from equal.
    """

    reads: ClassVar[Reads] = "mix"

    temperature: Positive = 1.0
    """Divisor of the learned numbers before the softmax: below 1, weights part sooner."""
    layer_dropout: Part = 0.0
    """Part of the batches that each layer is left out of; a column of one layer keeps it."""


@dataclass(frozen=True)
class EdgeMixReadout(MixReadout):
    """``edge_mix.v1``: one mix of all layers."""

    name: ClassVar[str] = "edge_mix.v1"
    takes: ClassVar[Takes] = "all"


@dataclass(frozen=True)
class EdgeCumulativeReadout(MixReadout):
    """``edge_cumulative.v1``: a mix of layers 0…ℓ for every ℓ (Tenney et al. 2019b, section 3.2).

    What the score gains from column to column shows where a task is solved (``comparisons.expected_layer``).
    """

    name: ClassVar[str] = "edge_cumulative.v1"
    takes: ClassVar[Takes] = "below"


@dataclass(frozen=True)
class EdgeCatReadout(SpanReadout):
    """``edge_cat.v1``: the first and the last layer, one after the other (Tenney et al. 2019a, section 4: ``cat``)."""

    name: ClassVar[str] = "edge_cat.v1"
    reads: ClassVar[Reads] = "cat"
    takes: ClassVar[Takes] = "ends"
