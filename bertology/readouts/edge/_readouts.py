"""Edge readouts, which predict labels of a span of words, or of two: settings, and which layers each reads."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Literal, cast, get_args

from bertology.errors import FitError
from bertology.readouts._base import Targets, item_weights
from bertology.readouts._fitting import LabelReadout, TrainingData
from bertology.readouts._registry import get_readout
from bertology.readouts._sources import PlainPooling, as_spans, pooled
from bertology.readouts.edge._fit import Schedule, fit_edge
from bertology.readouts.edge._fitted import FittedEdge, FittedPooled
from bertology.readouts.edge._model import Design, Pooling, Reads

Columns = tuple[tuple[int, ...], ...]
Classifier = Literal["mlp", "linear"]
Loss = Literal["auto", "softmax", "sigmoid"]
Watch = Literal["score", "loss"]


# Rounds that a fit takes, roughly.
_ROUNDS = 20


@dataclass(frozen=True)
class SpanReadout(LabelReadout[FittedEdge | FittedPooled]):
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
    stem: ClassVar[str]
    """The registered name without its version."""
    reads: ClassVar[Reads]
    """How a column reads its layers."""

    pooling: Pooling = "attention"
    """How the words of a span become one vector; all but ``attention`` have no parameters."""
    projection: int = 256
    """Width that words are projected to, 0 for none."""
    classifier: Classifier = "mlp"
    """``mlp``: one hidden layer (tanh, layer norm, dropout), as the authors' code has it."""
    hidden: int = 512
    """Width of that hidden layer."""
    dropout: float = 0.2
    """Part of the hidden units that a batch does without."""
    loss: Loss = "auto"
    """``softmax`` for one label an item, ``sigmoid`` for each label on its own (as the paper has it throughout);
    ``auto``: softmax unless items have several labels."""
    learning_rate: float = 2e-3
    """Of Adam, in batches of ``batch_items``."""
    weight_decay: float = 0.0
    batch_items: int = 256
    """Items of a batch at most."""
    least_batch: int = 32
    """Of few items batches are smaller, so that a pass has ``round_steps`` of them, but no smaller than this; the
    learning rate falls with the square root of their size. As much as ``batch_items`` where all are to be alike."""
    max_epochs: int = 40
    """Rounds at most. A round is a pass over the items, or of few items as many as make ``round_steps`` steps."""
    max_steps: int = 5000
    """Steps after which no further round begins, so that of many items there are fewer rounds; 0 for no limit."""
    patience: int = 6
    """Rounds without getting better on dev after which a fit cools down, and ends."""
    cool_down: int = 8
    """Rounds in which the learning rate falls to 0 (linearly), from the best round on; half of all rounds at most."""
    watch: Watch = "score"
    """What getting better is: ``score``, a higher score; ``loss``, a higher score or a smaller loss. The score of a few
    dev items goes up in steps: with many training items a fit may learn for long between two of them."""
    round_steps: int = 100
    """Least number of batches between two evaluations on dev: after a pass over few items, scores hardly change."""

    @abstractmethod
    def columns(self, layers: Sequence[int]) -> Columns:
        """Which of the ``layers`` each column of a fit reads; columns take the place of layers in all that is fitted.

        Raises:
            FitError: there are too few layers.
        """

    @property
    def name(self) -> str:
        return f"{self.stem}.v1"

    def training_flops(self, n_items: int, dim: int, n_classes: int) -> float:
        batch = min(self.batch_items, max(self.least_batch, n_items // max(1, self.round_steps)))
        steps = min(self.max_epochs, _ROUNDS) * max(self.round_steps, n_items // batch)
        width = self.projection or dim
        # Of two spans of two words each; then the layers of the classifier. Forward and backward are three products.
        item = 4 * width * dim + 2 * width * self.hidden + self.hidden * n_classes
        return 6.0 * item * batch * min(steps, self.max_steps or steps)

    @property
    def mixing(self) -> tuple[float, float]:
        """Temperature of the weights of mixes, and how often a layer is left out of a batch."""
        settings = asdict(self)
        return settings.get("temperature", 1.0), settings.get("layer_dropout", 0.0)

    def fit_to(self, data: TrainingData) -> FittedEdge | FittedPooled:
        is_sigmoid = data.targets.is_multi_label if self.loss == "auto" else self.loss == "sigmoid"
        self._check(data.targets)
        train, dev = as_spans(data.train), as_spans(data.dev)
        if train.n_spans != dev.n_spans:
            raise FitError(f"train has {train.n_spans} spans an item and dev {dev.n_spans}: give the same number")
        layers = tuple(train.layers)
        is_linear = self.pooling != "attention" and not self.projection and self.classifier == "linear"
        if self.reads == "one" and is_linear and not is_sigmoid:
            pooling, regression = cast(PlainPooling, self.pooling), get_readout("linear", extensions=0)
            assert isinstance(regression, LabelReadout)
            on_pooled = replace(data, train=pooled(train, pooling=pooling), dev=pooled(dev, pooling=pooling))
            fitted = regression.fit_to(on_pooled)
            return FittedPooled(self.name, fitted.report, pooling, fitted, layers)
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
        schedule = self._schedule(int((item_weights(data.targets) > 0).any(axis=0).sum()))
        return fit_edge(self.name, design, schedule, replace(data, train=train, dev=dev), is_sigmoid=is_sigmoid)

    def _schedule(self, n_items: int) -> Schedule:
        batch_items = min(self.batch_items, max(self.least_batch, n_items // self.round_steps))
        steps = math.ceil(n_items / batch_items)
        passes = math.ceil(self.round_steps / steps)
        most = math.ceil(self.max_steps / (passes * steps)) if self.max_steps else self.max_epochs
        n_rounds = min(self.max_epochs, most)
        return Schedule(
            n_rounds=n_rounds,
            passes=passes,
            batch_items=batch_items,
            patience=self.patience,
            cool_down=min(self.cool_down, n_rounds // 2),
            learning_rate=self.learning_rate * math.sqrt(batch_items / self.batch_items),
            weight_decay=self.weight_decay,
            dropout=self.dropout,
            layer_dropout=self.mixing[1],
            watches_loss=self.watch == "loss",
        )

    def _check(self, targets: Targets) -> None:
        choices = {"pooling": Pooling, "classifier": Classifier, "loss": Loss, "watch": Watch}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise FitError(f"{name} is {getattr(self, name)!r}: give {', '.join(get_args(kind))}")
        positive = ("hidden", "batch_items", "least_batch", "max_epochs", "patience", "round_steps")
        for name in (*positive, "max_steps", "cool_down", "projection"):
            least = int(name in positive)
            if getattr(self, name) < least:
                raise FitError(f"{name} is {getattr(self, name)}: give {least} or more")
        temperature, layer_dropout = self.mixing
        if not self.learning_rate > 0 or not self.weight_decay >= 0 or not temperature > 0:
            raise FitError("learning_rate and temperature must be above 0, weight_decay 0 or above")
        if not (0 <= self.dropout < 1 and 0 <= layer_dropout < 1):
            raise FitError("dropout and layer_dropout must be 0 or above and below 1")
        if self.loss == "softmax" and targets.is_multi_label:
            raise FitError("loss is 'softmax' and items have several labels: give sigmoid or auto")


@dataclass(frozen=True)
class EdgeReadout(SpanReadout):
    """``edge.v1``: one probe a layer (Tenney et al. 2019a, section 3.1)."""

    stem: ClassVar[str] = "edge"
    reads: ClassVar[Reads] = "one"

    def columns(self, layers: Sequence[int]) -> Columns:
        return tuple((layer,) for layer in layers)


@dataclass(frozen=True)
class MixReadout(SpanReadout):
    """A probe of a mix of layers, γ Σ s_ℓ h_ℓ (Tenney et al. 2019b, section 3.1).

    The weights s are the softmax of what is learned; they and γ are among the ``details`` of a fit, with their centre
    of gravity and how far they are from equal.
    """

    reads: ClassVar[Reads] = "mix"

    temperature: float = 1.0
    """What the learned numbers are divided by before the softmax: below 1, weights part sooner."""
    layer_dropout: float = 0.0
    """Part of the batches that each layer is left out of; a column of one layer keeps it."""


@dataclass(frozen=True)
class EdgeMixReadout(MixReadout):
    """``edge_mix.v1``: one mix of all layers."""

    stem: ClassVar[str] = "edge_mix"

    def columns(self, layers: Sequence[int]) -> Columns:
        return (tuple(layers),)


@dataclass(frozen=True)
class EdgeCumulativeReadout(MixReadout):
    """``edge_cumulative.v1``: a mix of layers 0…ℓ for every ℓ (Tenney et al. 2019b, section 3.2).

    What the score gains from column to column says where a task is solved (``measures.differential_scores``,
    ``measures.comparisons.expected_layer``).
    """

    stem: ClassVar[str] = "edge_cumulative"

    def columns(self, layers: Sequence[int]) -> Columns:
        return tuple(tuple(layers[: place + 1]) for place in range(len(layers)))


@dataclass(frozen=True)
class EdgeCatReadout(SpanReadout):
    """``edge_cat.v1``: the first and the last layer, one after the other (Tenney et al. 2019a, section 4: ``cat``)."""

    stem: ClassVar[str] = "edge_cat"
    reads: ClassVar[Reads] = "cat"

    def columns(self, layers: Sequence[int]) -> Columns:
        if len(layers) < 2:
            raise FitError(f"{self.name} joins the first and the last layer, and only {len(layers)} is there: ask two")
        return ((layers[0], layers[-1]),)
