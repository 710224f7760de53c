"""Fitting edge probes, which predict labels of a span of words, or of two."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, cast, get_args

import numpy as np
import torch

from bertology._workers import Workers
from bertology.errors import FitError
from bertology.readouts._base import Progress, Readout, Targets, check_problems, item_weights
from bertology.readouts._features import FeatureSource, Floats
from bertology.readouts._registry import get_readout
from bertology.readouts._selection import EarlyStopping
from bertology.readouts._spans import PlainPooling, PooledSpans, SpanSource, as_spans
from bertology.readouts.edge._fitted import FittedEdge, FittedPooled, Scorer, dev_scores, with_parts
from bertology.readouts.edge._model import Design, Pooling, Reads, Shuffle, TrainingWindows
from bertology.readouts.edge._training import EdgeTrainer, Goals

Classifier = Literal["mlp", "linear"]
Loss = Literal["auto", "softmax", "sigmoid"]
Watch = Literal["score", "loss"]


@dataclass(frozen=True)
class SpanReadout(Readout):
    """Settings and fit of all edge readouts (Tenney et al. 2019a, section 3.1): probes of one or two spans of words.

    Words are projected, a learned attention over each span's words makes one vector of it (with parameters of their
    own for the first and the second span), and a classifier reads the two. The probes of all problems and columns are
    trained side by side on the same batches by Adam, without shared parameters, until their own dev score stops
    rising: accuracy, or micro F1 where items have several labels. A fit then goes back to its best round, and learns on
    from there while its learning rate falls to 0. Every column begins with the same parameters and leaves the same
    hidden units out.

    Only words inside spans are read, and memory is bounded by a window of them, whatever the corpus.

    Version 2 of the settings. With those of version 1 (``edge.v1`` …) a fit ends where its score stops rising, its
    learning rate as high as ever, and reads up to 1.5 points low.
    """

    stem: ClassVar[str]
    """The registered name without its version."""
    version: ClassVar[int] = 2
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
    def columns(self, layers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Which of the ``layers`` each column of a fit reads; columns take the place of layers in all that is fitted.

        Raises:
            FitError: there are too few layers.
        """

    @property
    def name(self) -> str:
        """Registered name, with its version."""
        return f"{self.stem}.v{self.version}"

    @property
    def mixing(self) -> tuple[float, float]:
        """Temperature of the weights of mixes, and how often a layer is left out of a batch."""
        settings = asdict(self)
        return settings.get("temperature", 1.0), settings.get("layer_dropout", 0.0)

    def fit(
        self,
        train: FeatureSource | SpanSource,
        targets: Targets,
        *,
        dev: FeatureSource | SpanSource,
        dev_targets: Targets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> FittedEdge | FittedPooled:
        """Fit every problem in every column, each to its own best epoch.

        Without attention, projection and hidden layer, ``edge`` is a logistic regression on pooled vectors and is
        fitted as one, by ``linear.v1``: standardised, with an L2 path chosen on dev.

        Args:
            train: spans of words to fit on; items of single words are spans of one word.
            targets: what to predict from them, one class or several for each item.
            dev: spans of other items, to see when to stop.
            dev_targets: the same problems over ``dev``.
            seed: of the initial weights (each problem its own), of the order of the items and of what is left out.
            device: where to compute, as torch names it.
            progress: called with one line about how far the fit has come.

        Raises:
            FitError: as :meth:`Readout.fit`; a setting is out of bounds; train and dev have other numbers of spans.
        """
        self._check(targets)
        check_problems(train, targets, dev, dev_targets)
        train, dev = as_spans(train), as_spans(dev)
        if train.n_spans != dev.n_spans:
            raise FitError(f"train has {train.n_spans} spans an item and dev {dev.n_spans}: give the same number")
        if self._is_regression(targets):
            pooling = cast(PlainPooling, self.pooling)
            regressions = get_readout("linear.v1").fit(
                PooledSpans(train, pooling=pooling),
                targets,
                dev=PooledSpans(dev, pooling=pooling),
                dev_targets=dev_targets,
                seed=seed,
                device=device,
                progress=progress,
            )
            return FittedPooled(self.name, regressions.report, pooling, regressions, tuple(train.layers))
        return _Fit(self, train, targets, dev, dev_targets, seed, torch.device(device), progress).run()

    def is_sigmoid(self, targets: Targets) -> bool:
        """Whether each class is judged on its own."""
        return targets.is_multi_label if self.loss == "auto" else self.loss == "sigmoid"

    def _is_regression(self, targets: Targets) -> bool:
        is_linear = self.pooling != "attention" and not self.projection and self.classifier == "linear"
        return self.reads == "one" and is_linear and not self.is_sigmoid(targets)

    def _check(self, targets: Targets) -> None:
        choices = {"pooling": Pooling, "classifier": Classifier, "loss": Loss, "watch": Watch}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise FitError(f"{name} is {getattr(self, name)!r}: give {', '.join(get_args(kind))}")
        for name, least in (
            ("hidden", 1),
            ("batch_items", 1),
            ("least_batch", 1),
            ("max_epochs", 1),
            ("patience", 1),
            ("round_steps", 1),
            ("max_steps", 0),
            ("cool_down", 0),
            ("projection", 0),
        ):
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
class _Rounds:
    """Number and size of the rounds between two evaluations on dev."""

    used: torch.Tensor
    """``[item]`` whether some problem uses an item."""
    n: int
    passes: int
    """Over the items in a round."""
    batch_items: int
    """Items of a batch."""
    cool_down: int
    """The last rounds of a fit."""

    @classmethod
    def of(cls, readout: SpanReadout, used: torch.Tensor) -> _Rounds:
        """As a readout has them, of the items that are ``used``."""
        n_items = int(used.sum())
        batch_items = min(readout.batch_items, max(readout.least_batch, n_items // readout.round_steps))
        steps = math.ceil(n_items / batch_items)
        passes = math.ceil(readout.round_steps / steps)
        most = math.ceil(readout.max_steps / (passes * steps)) if readout.max_steps else readout.max_epochs
        n = min(readout.max_epochs, most)
        return cls(used, n, passes, batch_items, min(readout.cool_down, n // 2))

    @property
    def n_cooling_items(self) -> int:
        """Items learned from in cooling down, each counted as often."""
        return int(self.used.sum()) * self.passes * self.cool_down


@dataclass(frozen=True)
class _Fit:
    """Data and settings of a fit of edge probes."""

    readout: SpanReadout
    train: SpanSource
    targets: Targets
    dev: SpanSource
    dev_targets: Targets
    seed: int
    device: torch.device
    progress: Progress | None

    def design(self) -> Design:
        """The shape of the probes."""
        readout = self.readout
        layers = list(self.train.layers)
        n_parts = 2 if readout.pooling == "endpoints" else 1
        return Design(
            columns=tuple(tuple(map(layers.index, column)) for column in readout.columns(layers)),
            reads=readout.reads,
            dim=self.train.dim,
            parts=tuple(span for span in range(self.train.n_spans) for _ in range(n_parts)),
            n_classes=self.targets.n_classes,
            pooling=readout.pooling,
            projection=readout.projection,
            hidden=readout.hidden if readout.classifier == "mlp" else 0,
            temperature=readout.mixing[0],
        )

    def run(self) -> FittedEdge:
        """Train until every fit has ended or the last round is over."""
        readout, design = self.readout, self.design()
        goals = Goals.of(self.targets, is_sigmoid=readout.is_sigmoid(self.targets), device=self.device)
        start = {name: v.to(self.device) for name, v in design.start(self.targets.n_problems, self.seed).items()}
        best = {name: value.clone() for name, value in start.items()}
        rounds = _Rounds.of(readout, self._used())
        shape = self.targets.n_problems, len(design.columns)
        race = EarlyStopping(shape, readout.patience, cool_down=rounds.cool_down, last=rounds.n)
        rate = readout.learning_rate * math.sqrt(rounds.batch_items / readout.batch_items)
        with Workers(self.device) as workers:
            trainer = EdgeTrainer(design, start, goals, workers, learning_rate=rate, weight_decay=readout.weight_decay)
            for epoch in self._epochs(design, trainer, rounds):
                score, loss = self._dev_scores(trainer, goals, workers, race)
                better = race.judge(epoch, score, loss if readout.watch == "loss" else None)
                trainer.copy(np.flatnonzero(better).tolist(), best)
                ended = race.running.size - int(race.running.sum())
                if self.progress is not None:
                    self.progress(f"edge probes: round {epoch}, {ended} of {race.running.size} have ended")
                if ended == race.running.size:
                    break
                trainer.cool(np.flatnonzero(race.begins_to_cool).tolist(), best, n_items=rounds.n_cooling_items)
                trainer.keep(np.flatnonzero(race.running).tolist())
        return FittedEdge(
            name=readout.name,
            design=design,
            parameters=best,
            layers=tuple(self.train.layers),
            n_spans=self.train.n_spans,
            absent=goals.absent,
            is_sigmoid=goals.is_sigmoid,
            is_multi_label=self.targets.is_multi_label,
            report=race.report(),
        )

    def _epochs(self, design: Design, trainer: EdgeTrainer, rounds: _Rounds) -> Iterator[int]:
        """Train round by round; yields the number of each round after it."""
        readout = self.readout
        random = torch.Generator().manual_seed(self.seed)
        shuffle = Shuffle(rounds.batch_items, random, design.hidden, readout.dropout, readout.mixing[1])
        windows = TrainingWindows(with_parts(self.train, readout.pooling), rounds.used, shuffle, device=self.device)
        for epoch in range(1, rounds.n + 1):
            for _ in range(rounds.passes):
                for window in windows:
                    trainer.learn(window.to(self.device))
                    del window  # or it would be held while the next is made
            yield epoch

    def _used(self) -> torch.Tensor:
        """``[item]`` whether some problem uses an item."""
        return torch.from_numpy((item_weights(self.targets) > 0).any(axis=0))

    def _dev_scores(
        self, trainer: EdgeTrainer, goals: Goals, workers: Workers, race: EarlyStopping
    ) -> tuple[Floats, Floats]:
        """``[problem, column]`` score and loss on dev; −1 and ∞ where a fit has ended."""
        scorer = Scorer(trainer.parts, goals.absent, workers, self.device)
        scored = scorer(with_parts(self.dev, self.readout.pooling))
        score, loss = np.full(race.running.size, -1.0), np.full(race.running.size, np.inf)
        found = dev_scores(scored, scorer.problems, self.dev_targets, is_sigmoid=goals.is_sigmoid)
        score[trainer.fits], loss[trainer.fits] = found
        return score.reshape(race.running.shape), loss.reshape(race.running.shape)
