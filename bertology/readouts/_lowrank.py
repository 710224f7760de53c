"""``lowrank.v1``: a linear readout that may use few directions only, for every layer and problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bertology.errors import FitError
from bertology.readouts._base import Progress, Readout, Targets, check_problems, check_single_label
from bertology.readouts._features import FeatureSource
from bertology.readouts._mlp import Course, FittedMlp, Perceptrons
from bertology.readouts._moments import measure_moments
from bertology.readouts._objective import Items


@dataclass(frozen=True)
class LowRankReadout(Readout):
    """A softmax over a product of two matrices, L R x + b, where R has ``rank`` rows (Hewitt & Liang 2019).

    The rank bounds what it can learn by heart, which is what capacity sweeps vary. It is trained as ``mlp.v1`` is, by
    Adam until dev accuracy stops rising, without any other regularisation; with a rank of at least the number of
    classes it can say whatever ``linear.v1`` can.
    """

    rank: int = 8
    """Directions of the vectors that the readout may look at."""
    learning_rate: float = 1e-3
    batch_items: int = 256
    max_epochs: int = 50
    patience: int = 3
    """Epochs without a better dev accuracy after which a fit ends."""

    @property
    def name(self) -> str:
        """``lowrank.v1``."""
        return "lowrank.v1"

    @property
    def params(self) -> Mapping[str, Any]:
        """The settings, as JSON can hold them."""
        return asdict(self)

    def fit(
        self,
        train: FeatureSource,
        targets: Targets,
        *,
        dev: FeatureSource,
        dev_targets: Targets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> FittedMlp:
        """Fit every problem in every layer, each to its own best epoch.

        Args:
            train: vectors to fit on.
            targets: what to predict from them.
            dev: vectors of other items, to see when to stop.
            dev_targets: the same problems over ``dev``.
            seed: of the initial weights (each problem its own) and of the order of the items.
            device: where to compute, as torch names it.
            progress: told how far the fit has come.

        Raises:
            FitError: as :meth:`Readout.fit`; or a rank that is not between 1 and the width of the vectors.
        """
        check_single_label(targets, self.name)
        check_problems(train, targets, dev, dev_targets)
        if not 1 <= self.rank <= train.dim:
            raise FitError(f"rank {self.rank}: vectors have a width of {train.dim}, so give 1 to {train.dim}")
        items = Items.of(targets, torch.device(device))
        perceptrons = Perceptrons(measure_moments(train, items.weights), items, self.rank, seed, is_linear=True)
        course = Course(self.learning_rate, self.batch_items, self.max_epochs, self.patience)
        best, report = course.run(perceptrons, train, items, dev, dev_targets, seed=seed, progress=progress)
        return FittedMlp(best, report, self.name)
