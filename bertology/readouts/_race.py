"""When to stop: which of many fits trained side by side was best when, and which have stopped getting better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.readouts._base import FitReport


class Race:
    """Early stopping for every problem and layer on its own.

    Args:
        shape: numbers of problems and layers.
        patience: epochs without a better dev score after which a fit ends.
    """

    def __init__(self, shape: tuple[int, int], patience: int) -> None:
        self._patience = patience
        self.running = np.ones(shape, dtype=bool)
        self._score = np.full(shape, -1.0)
        self._epoch = np.zeros(shape, dtype=np.int64)
        self._epochs = np.zeros(shape, dtype=np.int64)

    def judge(self, epoch: int, score: NDArray[np.float64]) -> NDArray[np.bool_]:
        """End the fits that have had their time.

        Args:
            epoch: how many epochs there have been.
            score: ``[problem, layer]`` on dev; of fits that have ended it does not matter.

        Returns:
            ``[problem, layer]`` which fits are better than ever before and are to be kept as they are.
        """
        better: NDArray[np.bool_] = self.running & (score > self._score)
        self._score[better], self._epoch[better] = score[better], epoch
        # a fit that has nothing right yet has not begun to lose its patience
        self._epoch[self.running & (self._score <= 0)] = epoch
        self._epochs[self.running] = epoch
        self.running &= epoch - self._epoch < self._patience
        return better

    def report(self) -> FitReport:
        """How the training went."""
        return FitReport(
            strengths=(0.0,),
            chosen=np.zeros(self.running.shape),
            dev_accuracy=self._score[:, :, None].copy(),
            iterations=self._epochs[:, :, None].copy(),
            converged=~self.running[:, :, None],
            gradient_norm=np.full((*self.running.shape, 1), np.nan),
        )
