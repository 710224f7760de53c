"""Importance of heads: the loss of a model without them, by gates, gradients, and curves of heads taken out.

A model is scored on a :class:`GatedTask`, such as :class:`MaskedWords`. Gradients of its loss at gates and weights come
next, then the losses without heads. All of them count passes as progress, and raise a :class:`ModelError` where heads
are gated already or cannot be gated in the model's family.
"""

import contextlib
import itertools
import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bertology._machine import on_each_core
from bertology.activations.progress import Progress, silent
from bertology.attention.maps import MOST_WORKERS, checked_layers, maps_with_gradients
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import OnLong
from bertology.encoders.interventions import Intervention, Replay, intervening
from bertology.encoders.masked_loss import SHARE, MaskedBatch, MaskedText
from bertology.errors import ModelError
from bertology.measures import bootstrap_ratio, compare
from bertology.measures.sums import Bools, Floats, HeadRatios, Integers, Scope
from bertology.probing import GeometryCounts
from bertology.results.rows import FALSE_DISCOVERY_RATE

TARGETS = ("[CLS]", "[SEP]", "[MASK]", "punctuation", "other")
REDUCED = ("all off", "all but one off")
ORDERS = ("least important", "most important", "least missed", "most missed", "random")
"""Orders in which heads are disabled: by the gradient at their gates, by the loss without each of them, at random."""
_FOLDS = 2
"""Folds of the clusters: heads are ranked by what the others show, so that none has seen what it scores."""

Head = tuple[int, int]
"""Layer and head, both from 1."""
Way = Literal["off", "uniform"]
"""Gated by 0 (Michel et al. 2019), or made to attend to everything alike (Kovaleva et al. 2019)."""


class Answers(NamedTuple):
    """Loss and score of the items of a batch."""

    loss: Tensor  # [item] in nats, or in the unit of the task; gradients flow from it to the gates of heads
    right: Tensor  # [item] bool, whether the model is correct
    texts: Tensor  # [item] the text of the batch that each is in


class GatedTask(ABC):
    """A task on which a model is scored, whatever is done to its heads: texts with items that are predicted."""

    batches: tuple[Any, ...]
    """All items, each once, with ``ids [row, piece]``, the attention ``mask``, None without padding, and ``texts``:
    ``[row]`` the text of the batch that each row is of, or is a window of."""
    unit: str = "bits"
    """Unit of the loss."""
    scale: float = 1 / math.log(2)
    """Factor from the loss of :class:`Answers` to this unit."""
    scores: tuple[str, ...] = ("loss_bits", "accuracy")
    """Metrics of the model: the loss and, if there is one, the score."""
    counts: GeometryCounts
    notes: tuple[tuple[str, str], ...] = ()
    """Subject and text of notes on the items."""

    def __init__(self, encoder: Encoder, n_texts: int) -> None:
        self.encoder = encoder
        self.layers = tuple(range(1, encoder.n_layers + 1))
        self._scope = Scope(n_texts, self.layers, encoder.n_heads, "piece")
        self.n_clusters = self._scope.n_clusters
        """Number of clusters of texts over which scores are summed: one a text, as long as there are few enough."""

    @abstractmethod
    def clusters(self, batch: Any) -> Integers:
        """``[text]`` the cluster of each text of a batch, which is what is resampled."""

    @abstractmethod
    def ask(self, encoder: Encoder, batch: Any) -> Answers:
        """Read a batch with the task's encoder, or a twin of it, in its present state: heads gated, hooks on blocks."""

    def summed(
        self,
        shapes: Sequence[tuple[int, ...]],
        add: Callable[[Encoder, Any, Sequence[Floats]], None],
        *,
        passes: int,
        progress: Progress,
    ) -> list[Floats]:
        """Sums of these shapes over all batches, a batch a core: ``add`` adds what a batch comes to with an encoder
        that no other thread uses, in so many ``passes``. A :class:`ModelError` where heads are gated already."""
        if self.encoder.is_gated:
            raise ModelError("heads are gated already: measure them outside gated_heads")
        progress.start(len(self.batches) * passes, unit="passes")

        def work(reader: Encoder, part: slice) -> list[Floats]:
            sums = [np.zeros(shape) for shape in shapes]
            for batch in self.batches[part]:
                add(reader, batch, sums)
                progress.advance(passes)
            return sums

        first, *others = on_each_core(self.encoder, work, most=min(MOST_WORKERS, len(self.batches)))
        progress.finish()
        for total, *parts in zip(first, *others, strict=True):
            for part in parts:
                total += part
        return first


class MaskedWords(GatedTask):
    """Restore masked words: an item is a word, all its pieces masked at once.

    Its loss is −ln of the probability of all its pieces, and it is correct where each of them is the most probable one.
    In each sentence the same words are masked as by :func:`masked_lm_loss`, whose arguments and errors it has; they are
    the same whatever is done to the model.
    """

    def __init__(
        self, encoder: Encoder, sentences: Sentences, *, share: float = SHARE, seed: int = 0, on_long: OnLong = "window"
    ) -> None:
        super().__init__(encoder, len(sentences))
        self.counts = GeometryCounts(sentences.n_words)
        self._text = MaskedText(encoder, sentences, share=share, seed=seed, on_long=on_long)
        self.batches = tuple(self._text.batches())

    def clusters(self, batch: MaskedBatch) -> Integers:
        """``[row]`` the cluster of sentences that each row of a batch belongs to."""
        return self._scope.clusters(self._text.pieces.window_sentence[batch.windows].astype(np.int64))

    def ask(self, encoder: Encoder, batch: MaskedBatch) -> Answers:
        """See :meth:`GatedTask.ask`."""
        words = self._text.places.word[batch.places]
        distinct, first, of_piece = np.unique(words, return_index=True, return_inverse=True)
        nats, best = batch.ask(encoder)
        by_word = torch.from_numpy(of_piece.astype(np.int64)).to(nats.device)
        wrong = torch.bincount(by_word, weights=(~best).double(), minlength=len(distinct))
        whole = nats.new_zeros(len(distinct)).index_add(0, by_word, nats)
        return Answers(whole, wrong == 0, batch.positions[torch.from_numpy(first), 0].to(nats.device))


def head_importance(task: GatedTask, *, progress: Progress = silent) -> HeadRatios:
    """The expected sensitivity of the loss to each head: I_h = E_x |∂L(x)/∂ξ_h| (Michel et al. 2019, equation 2).

    ξ_h is a gate of 1 on the head, x a text and L(x) the mean loss of its items. Every text of a batch has its own
    gates, so that one backward pass gives the gradients of all heads in each text, and their magnitudes are averaged
    over texts, not over batches.

    The statistics are ``importance``, where the importances of each layer are divided by their ℓ2 norm, as the paper
    does before it ranks heads of all layers; and ``gradient_bits`` (by the unit of the loss), as they come. The norms
    are taken as given in intervals.
    """
    n_layers, n_heads = task.encoder.n_layers, task.encoder.n_heads

    def add(reader: Encoder, batch: Any, sums: Sequence[Floats]) -> None:
        (over, under), texts = sums, torch.from_numpy(batch.texts).to(reader.device)
        gates = torch.ones(n_layers, int(texts.max()) + 1, n_heads, device=reader.device, requires_grad=True)
        places = np.ndindex(n_layers, n_heads)
        with reader.gated_heads({(layer + 1, head + 1): gates[layer, texts, head] for layer, head in places}):
            answers = task.ask(reader, batch)
        with torch.enable_grad():
            losses, has_items = _text_loss(answers, gates.shape[1])
            if not losses.requires_grad:
                raise ModelError("no head affects the loss: the task reads the model below its first block")
            losses.sum().backward()  # type: ignore[no-untyped-call]
        assert gates.grad is not None, "the loss depends on some gate"
        gradients, counted = np.abs(_numpy(gates.grad)) * task.scale, has_items.cpu().numpy()  # [layer, text, head]
        clusters = task.clusters(batch)[counted]
        np.add.at(over.transpose(2, 0, 1), clusters, gradients[:, counted].transpose(1, 0, 2))
        np.add.at(under, clusters, 1)

    shapes: list[tuple[int, ...]] = [(n_layers, n_heads, task.n_clusters), (task.n_clusters,)]
    over, under = task.summed(shapes, add, passes=1, progress=progress)
    norms = np.sqrt(((over.sum(-1) / under.sum()) ** 2).sum(-1))[:, None, None]  # [layer, 1, 1]
    normalised = np.divide(over, norms, out=np.zeros_like(over), where=norms != 0)
    both, under = np.stack([normalised, over]), np.broadcast_to(under, (2, 1, 1, task.n_clusters))
    return HeadRatios(("importance", f"gradient_{task.unit}"), task.layers, both, under)


def attention_gradients(task: GatedTask, *, progress: Progress = silent) -> tuple[HeadRatios, HeadRatios]:
    """Importance of attention to ``[SEP]`` and to other kinds of subwords for the loss (Clark et al. 2019, §3.3).

    With α the weight that a head gives from one piece to another, and L the mean loss of a text's items,
    ``attention_gradient_bits`` is the mean of |∂L/∂α| over all pairs whose target is of a kind: the paper's figure 4.
    It measures how much the loss would change with more attention there, not how much attention there is. For that,
    ``attention_effect_bits`` is the mean over texts of |Σ α · ∂L/∂α|, summed over all pairs of a kind: what the loss
    would change by, to first order, with a gate on the head's attention to that kind. Signed, these sums add up to the
    gradient at the gate of the whole head, whose mean magnitude :func:`head_importance` finds.

    Each has a statistic a kind of target that there is: ``[CLS]``, ``[SEP]``, ``[MASK]``, ``punctuation``, ``other``.
    """
    encoder, kinds = task.encoder, _kinds(task.encoder)

    def add(reader: Encoder, batch: Any, sums: Sequence[Floats]) -> None:
        over, under = sums
        real = (torch.ones_like(batch.ids) if batch.mask is None else batch.mask).bool().to(reader.device)
        kind = torch.where(real, kinds[batch.ids].to(reader.device), len(TARGETS))
        member = nn.functional.one_hot(kind, len(TARGETS) + 1)[..., :-1].float()  # [row, piece, target]
        maps, slopes, counted = _maps_with_gradients(task, reader, batch)
        texts, clusters = torch.from_numpy(batch.texts).to(reader.device), task.clusters(batch)

        def by_text(values: Tensor) -> Tensor:
            return values.new_zeros(len(counted), *values.shape[1:]).index_add(0, texts, values)

        rows = (real & counted[texts, None]).float()  # pieces that attend, in texts with items
        n_targets, n_rows = member.sum(1), rows.sum(1)  # [row, target], [row]
        n_pairs = by_text(n_targets * n_rows[:, None])  # [text, target]
        n_pairs = torch.stack([n_pairs, (by_text(n_targets) > 0) * counted[:, None]], dim=1)
        np.add.at(under.transpose(2, 0, 1), clusters, _numpy(n_pairs))
        for layer, weights in maps.items():
            of_layer = slopes[layer]
            if of_layer is None:
                problem = f"its maps in layer {layer} are not what the loss is computed from"
                raise ModelError(f"model {reader.name}: {problem}")
            slope, weights = of_layer.float(), weights.float()
            pairs, effect = (
                by_text(torch.einsum("bhij,bi,bjt->bth", each, rows, member)) for each in (slope.abs(), slope * weights)
            )
            found = torch.stack([pairs, effect.abs()], dim=1)  # [text, statistic, target, head]
            np.add.at(over[:, :, layer - 1].transpose(3, 0, 1, 2), clusters, _numpy(found) * task.scale)

    statistics = tuple(f"attention_{what}_{task.unit}" for what in ("gradient", "effect"))
    both, n = (len(statistics), len(TARGETS)), task.n_clusters
    shapes = [(*both, encoder.n_layers, encoder.n_heads, n), (*both, n)]
    over, under = task.summed(shapes, add, passes=1, progress=progress)
    occurs = under[0].any(axis=-1)
    names = tuple(itertools.compress(TARGETS, occurs))
    gradient, effect = (
        HeadRatios(names, task.layers, above[occurs], below[occurs, None, None], metric=metric)
        for metric, above, below in zip(statistics, over, under, strict=True)
    )
    return gradient, effect


def _kinds(encoder: Encoder) -> Tensor:
    """``[vocabulary]`` the kind of each piece, by its place in ``TARGETS``."""
    body: Any = encoder.model.body
    tokenizer = encoder.tokenizer
    n_entries = max(len(tokenizer), int(body.get_input_embeddings().num_embeddings))
    kinds = torch.full((n_entries,), TARGETS.index("other"))
    for form, number in tokenizer.get_vocab().items():
        bare = form.removeprefix("##").lstrip("▁Ġ")
        if bare and all(unicodedata.category(letter).startswith("P") for letter in bare):
            kinds[number] = TARGETS.index("punctuation")
    for place, number in enumerate((tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)):
        if number is not None:
            kinds[number] = place
    return kinds


def _maps_with_gradients(
    task: GatedTask, encoder: Encoder, batch: Any
) -> tuple[dict[int, Tensor], dict[int, Tensor | None], Tensor]:
    """As of :func:`maps_with_gradients` of the loss of a batch; and ``[text]`` bool which texts have items."""
    counted: list[Tensor] = []

    def loss() -> Tensor:
        losses, has_items = _text_loss(task.ask(encoder, batch), int(batch.texts.max()) + 1)
        counted.append(has_items)
        return losses

    # Passes are recorded from the embeddings on: no map of the first layer comes after a gate.
    with encoder.gated_heads({(1, 1): torch.ones((), requires_grad=True)}):
        return *maps_with_gradients(encoder, loss)[1:], counted[0]


def _numpy(values: Tensor) -> Floats:
    return np.asarray(values.detach().cpu().double().numpy())


def _text_loss(answers: Answers, n_texts: int) -> tuple[Tensor, Tensor]:
    """``[text]`` the loss of each text, the mean over its items, 0 where it has none; and whether it has any."""
    n_items = torch.bincount(answers.texts, minlength=n_texts)
    sums = answers.loss.new_zeros(n_texts).index_add(0, answers.texts, answers.loss)
    return sums / n_items.clamp_min(1), n_items > 0


def single_heads(
    task: GatedTask, *, ways: Sequence[Way] = ("off",), layers: Sequence[int] | None = None, progress: Progress = silent
) -> tuple[HeadRatios, ...]:
    """The changes of the loss and of the score with each head disabled alone, on the same items.

    These are ``delta_loss_bits`` and ``delta_accuracy``, with a statistic a way (Michel et al. 2019, section 3.2):
    ``"off"`` gates a head by 0; with ``"uniform"`` it attends to every piece alike (Kovaleva et al. 2019, section 4.4),
    in families that are built as BERT is. Heads are those of all ``layers`` where these are left out.
    """
    chosen, numbers = checked_layers(task.encoder.n_layers, layers), range(1, task.encoder.n_heads + 1)
    single = [Without(frozenset({head}), way) for way, head in product(ways, product(chosen, numbers))]
    scores = scores_without(task, [Without(), *single], progress=progress)
    return _deltas(task, scores, tuple(ways), chosen, "head")


def harmful_heads(missed: HeadRatios, clusters: slice | Bools = slice(None)) -> tuple[Head, ...]:
    """Heads without which the loss is lower in some clusters: 0 is above the 95 % interval of its change, and the false
    discovery rate over all heads is 5 % (Benjamini–Hochberg). ``missed`` is the change, first of :func:`single_heads`.
    """
    over, under = (part[missed.names.index("off")][..., clusters] for part in (missed.over, missed.under))
    n_heads = over[..., 0].size
    change = bootstrap_ratio(over.reshape(n_heads, -1), under.ravel(), metric=missed.metric)
    values, replicates = np.append(change.values, 0), np.pad(change.replicates, ((0, 0), (0, 1)))
    pairs = [(head, n_heads) for head in range(n_heads)]  # each with no change
    compared = compare(values, replicates, n_clusters=int(np.count_nonzero(under)), pairs=pairs)
    is_harmful = [one.ci_high < 0 and one.p_adj < FALSE_DISCOVERY_RATE for one in compared]
    return tuple(itertools.compress(product(missed.layers, range(1, missed.over.shape[2] + 1)), is_harmful))


@dataclass(frozen=True)
class Choice:
    """By what heads are ranked and chosen: importance and losses of all heads of a model."""

    importance: HeadRatios  # as head_importance finds it
    missed: HeadRatios  # the change of the loss with each head off, the first of single_heads
    is_other: bool = False
    """Whether they are of other texts than those that are scored; else each half of these chooses for the other."""

    @cached_property
    def folds(self) -> tuple[tuple[list[Integers], tuple[Head, ...]], ...]:
        """For each fold of the clusters that are scored, all heads, by number, in each of :data:`ORDERS` but at random;
        and the :func:`harmful_heads`."""
        fold, found = np.arange(self.missed.over.shape[-1]) % _FOLDS, list[tuple[list[Integers], tuple[Head, ...]]]()
        for clusters in [slice(None)] if self.is_other else [fold != one for one in range(_FOLDS)]:
            ranks = (self.importance.over[0], self.missed.over[self.missed.names.index("off")])
            rising = [np.argsort(of[..., clusters].sum(-1).ravel(), kind="stable") for of in ranks]
            orders: list[Integers] = [order for one in rising for order in (one, one[::-1])]
            found.append((orders, harmful_heads(self.missed, clusters)))
        return tuple(found)


def without_heads(
    task: GatedTask,
    by: Choice,
    *,
    layers: Sequence[int] | None = None,
    n_steps: int = 10,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
) -> tuple[HeadRatios, ...]:
    """The loss and score of a task with several heads disabled, on the same items.

    - ``delta_loss_bits`` and ``delta_accuracy`` of each layer, with the statistics ``all off`` and ``all but one off``,
      which keeps its most important head (Michel et al. 2019, section 3.3). What comes into a layer still passes it by,
      and its feed-forward part still works.
    - ``loss_bits`` and ``accuracy``, means over items, as more and more heads are disabled, then how much they differ
      from those of the whole model (section 4.2). Statistics are named by the heads that are off, such as ``least
      important 10 %``; the ``n_steps`` lead to none. Random orders are averaged over ``seeds``. The last statistic has
      the :func:`harmful_heads` off together.

    Args:
        task: whose loss it is; its metrics are named by the task.
        by: what heads are ranked and chosen by. No item is scored by an order that it has decided.
        layers: of whole layers, from 1; all when left out.
        n_steps: number of steps of the curves.
        seeds: of random orders.
        progress: counts passes.
    """
    n_clusters = task.n_clusters
    if n_clusters < len(by.folds) or n_steps < 1 or not seeds:
        problem = f"{n_clusters} clusters of sentences, {n_steps} steps and {len(seeds)} random orders"
        raise ModelError(f"{problem}: give at least {_FOLDS} sentences, and one of each of the others")
    chosen, best = checked_layers(task.encoder.n_layers, layers), by.importance.of("importance").argmax(-1)
    reduced = [_one_head(task, layer, most * (int(best[layer - 1]) + 1)) for most in (0, 1) for layer in chosen]
    heads = list(product(task.layers, range(1, task.encoder.n_heads + 1)))
    orders = [order for of_fold, _ in by.folds for order in of_fold]
    orders += [np.random.default_rng(seed).permutation(len(heads)) for seed in seeds]
    sizes = [round(step / n_steps * len(heads)) for step in range(n_steps + 1)]
    taken = [Without(frozenset(heads[number] for number in order[:size])) for order in orders for size in sizes]
    harmful = [Without(frozenset(some)) for _, some in by.folds]
    *scores, items = whole = scores_without(task, [Without(), *reduced, *taken, *harmful], progress=progress)
    start, end = 1 + len(reduced), 1 + len(reduced) + len(taken)
    found = _deltas(task, TaskScores(whole.loss[:start], whole.right[:start], items), REDUCED, chosen, "layer")
    percents = [f"{100 * step / n_steps:.3g} %" for step in range(n_steps + 1)]
    names = (*(f"{order} {percent}" for order in ORDERS for percent in percents), "harmful heads")
    n_folds, under = len(by.folds), np.broadcast_to(items, (len(names), 1, 1, n_clusters))
    fold, curves = np.arange(n_clusters)[None] % n_folds, list[Floats]()
    for sums in scores[: len(task.scores)]:  # each cluster's from the orders of its fold
        by_order = sums[start:end].reshape(len(orders), -1, n_clusters)  # [order, step, cluster]
        ranked = by_order[: -len(seeds)].reshape(n_folds, -1, *by_order.shape[1:])
        mine = np.take_along_axis(ranked, fold[None, None], axis=0)[0]  # [order, step, cluster]
        curve = np.concatenate([mine, by_order[-len(seeds) :].mean(0, keepdims=True)]).reshape(-1, n_clusters)
        curves.append(np.concatenate([curve, np.take_along_axis(sums[end:], fold, axis=0)]))
    changes = [curve - sums[:1] for curve, sums in zip(curves, whole, strict=False)]
    metrics = (*task.scores, *(f"delta_{name}" for name in task.scores))
    for metric, over in zip(metrics, (*curves, *changes), strict=True):
        found += (HeadRatios(names, (), over[:, None, None], under, metric=metric, unit="model"),)
    return found


def one_head_layers(
    dev: GatedTask, test: GatedTask, *, layers: Sequence[int] | None = None, progress: Progress = silent
) -> tuple[tuple[HeadRatios, ...], tuple[HeadRatios, ...]]:
    """What a task loses when a layer keeps one head alone (Michel et al. 2019, section 3.3), one layer at a time.

    Returns:
        ``delta_loss_bits`` and ``delta_accuracy`` on ``dev``, of each head that is kept alone in its layer; and on
        ``test``, of each layer that keeps the head whose loss on ``dev`` is the lowest, in the order of the layers.
    """
    chosen, numbers = checked_layers(dev.encoder.n_layers, layers), range(1, dev.encoder.n_heads + 1)

    def deltas(task: GatedTask, kept: Iterable[Head], unit: Literal["head", "layer"]) -> tuple[HeadRatios, ...]:
        states = [Without(), *(_one_head(task, *head) for head in kept)]
        found = scores_without(task, states, progress=progress)
        return _deltas(task, found, ("one head",), chosen, unit)

    of_heads = deltas(dev, product(chosen, numbers), "head")
    best = (of_heads[0].of("one head").argmin(-1) + 1).tolist()
    return of_heads, deltas(test, zip(chosen, best, strict=True), "layer")


class Without(NamedTuple):
    """A state of a model in which the given heads are disabled; without heads, the complete model."""

    heads: frozenset[Head] = frozenset()
    way: Way = "off"


def _one_head(task: GatedTask, layer: int, kept: int) -> Without:
    """The state in which a layer keeps one head alone; none with 0."""
    return Without(frozenset((layer, head) for head in range(1, task.encoder.n_heads + 1) if head != kept))


class TaskScores(NamedTuple):
    """Sums over the items of each cluster of sentences, for several states of a model."""

    loss: Floats  # [state, cluster] in the unit of the task
    right: Floats  # [state, cluster] number of items on which the model was correct
    items: Floats  # [cluster] number of items


def scores_without(task: GatedTask, states: Sequence[Without], *, progress: Progress = silent) -> TaskScores:
    """Scores of a task with each of some sets of heads disabled, on the same items.

    Each batch is read once by the whole model; then, for every state, only from the first layer with a disabled head,
    since nothing below has changed. A batch goes to a core.
    """
    distinct = list(dict.fromkeys(states))

    def add(reader: Encoder, batch: Any, sums: Sequence[Floats]) -> None:
        loss, right, items = sums
        replay = Replay(reader.model.body, reader.model.blocks)
        with replay.recording():
            whole = task.ask(reader, batch)
        cluster = task.clusters(batch)[whole.texts.cpu().numpy()]
        np.add.at(items, cluster, 1)
        for number, (heads, way) in enumerate(distinct):
            answers = whole
            if heads:
                off = dict.fromkeys(heads, 0.0)
                disabled = uniform_heads(reader, heads) if way == "uniform" else reader.gated_heads(off)
                with replay.from_layer(min(layer for layer, _ in heads)), disabled:
                    answers = task.ask(reader, batch)
            loss[number] += np.bincount(cluster, weights=_numpy(answers.loss) * task.scale, minlength=len(items))
            right[number] += np.bincount(cluster, weights=answers.right.cpu().numpy(), minlength=len(items))

    by_state = len(distinct), task.n_clusters
    shapes = [by_state, by_state, by_state[1:]]
    loss, right, items = task.summed(shapes, add, passes=len(distinct), progress=progress)
    place = [distinct.index(state) for state in states]
    return TaskScores(loss[place], right[place], items)


def _deltas(
    task: GatedTask, scores: TaskScores, names: tuple[str, ...], layers: Sequence[int], unit: Literal["head", "layer"]
) -> tuple[HeadRatios, ...]:
    """Changes of loss and score from the first state to the others, which are of each statistic and layer in order."""
    under = np.broadcast_to(scores.items, (len(names), 1, 1, len(scores.items)))
    found = []
    for name, of in zip(task.scores, scores, strict=False):
        over = (of[1:] - of[0]).reshape(len(names), len(layers), -1, len(scores.items))
        found.append(HeadRatios(names, tuple(layers), over, under, f"delta_{name}", unit))
    return tuple(found)


@contextlib.contextmanager
def uniform_heads(encoder: Encoder, heads: frozenset[Head]) -> Iterator[None]:
    """Replace the attention of some heads by the same weight for every piece but padding, in passes inside the block
    (Kovaleva et al. 2019, section 4.4): the output of such a head is the mean of its values."""
    n_heads, body, blocks = encoder.n_heads, encoder.model.body, encoder.model.blocks
    kept: dict[str, Any] = {}

    def keep_mask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        kept["mask"] = args[1] if len(args) > 1 else kwargs.get("attention_mask")

    def keep_values(values: Tensor) -> Tensor:
        kept["values"] = values
        return values

    def put_mean(is_chosen: Tensor, computed: Tensor) -> Tensor:
        values, mask = kept["values"], kept["mask"]
        mean = values.mean(1, keepdim=True)
        if mask is not None:
            real = mask[:, :, None].to(values)
            mean = (values * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        mean, heads = (torch.unflatten(one, -1, (n_heads, -1)) for one in (mean, computed))
        return torch.where(is_chosen[:, None], mean, heads).flatten(-2)

    changes = []
    for layer in sorted({layer for layer, _ in heads}):
        is_chosen = [(layer, head) in heads for head in range(1, n_heads + 1)]
        put = partial(put_mean, torch.tensor(is_chosen, device=encoder.device))
        changes += [Intervention(layer, keep_values, site="values"), Intervention(layer, put, site="head")]
    asking = body.register_forward_pre_hook(keep_mask, with_kwargs=True)
    with asking, intervening(body, blocks, changes, n_heads=n_heads, family=encoder.family):
        yield
