"""When to stop: which of many fits trained side by side was best when, and which have stopped getting better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.readouts._base import FitReport


class Race:
    """Early stopping for every problem and layer on its own.

    Args:
        shape: numbers of problems and layers.
        patience: epochs after which a fit ends in which dev had no better score, and no smaller loss.
        prefers_later: whether of epochs with equal scores the last one is kept, as where the learning rate falls;
            else the one with the smaller loss, or the first.
    """

    def __init__(self, shape: tuple[int, int], patience: int, *, prefers_later: bool = False) -> None:
        self._patience, self._prefers_later = patience, prefers_later
        self.running = np.ones(shape, dtype=bool)
        self._score = np.full(shape, -1.0)
        self._loss = np.full(shape, np.inf)
        self._least = np.full(shape, np.inf)
        self._epoch = np.zeros(shape, dtype=np.int64)
        self._epochs = np.zeros(shape, dtype=np.int64)

    def judge(
        self, epoch: int, score: NDArray[np.float64], loss: NDArray[np.float64] | None = None
    ) -> NDArray[np.bool_]:
        """End the fits that have had their time.

        A score of few dev items goes up in steps: between two of them the loss says whether a fit still learns, and of
        equal scores the one with the smaller loss is the better one.

        Args:
            epoch: how many epochs there have been.
            score: ``[problem, layer]`` on dev; of fits that have ended it does not matter.
            loss: ``[problem, layer]`` on dev; the score alone counts when left out.

        Returns:
            ``[problem, layer]`` which fits are better than ever before and are to be kept as they are.
        """
        if loss is None:
            loss = self._loss  # never smaller than itself
        higher = score > self._score
        settled = (loss < self._loss) | self._prefers_later
        better: NDArray[np.bool_] = self.running & (higher | ((score == self._score) & settled))
        # where all is right, a smaller loss is no reason to go on
        learns = self.running & (higher | ((loss < self._least) & (self._score < 1)))
        self._score[better], self._loss[better] = score[better], loss[better]
        self._least = np.minimum(self._least, loss)
        # a fit that has nothing right yet has not begun to lose its patience
        self._epoch[learns | (self.running & (self._score <= 0))] = epoch
        self._epochs[self.running] = epoch
        self.running &= epoch - self._epoch < self._patience
        return better

    def end(self) -> None:
        """All fits have come to their end: those that go on no more because the learning rate has gone down to 0."""
        self.running[:] = False

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
