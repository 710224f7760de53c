"""When to stop: which of many fits trained side by side was best when, and which have stopped getting better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.readouts._base import FitReport

_NOT_YET = np.iinfo(np.int64).max


class Race:
    """Early stopping for every problem and layer on its own.

    Args:
        shape: numbers of problems and layers.
        patience: epochs after which a fit ends in which dev had no better score, and no smaller loss.
        cool_down: epochs that a fit goes on for then, its learning rate falling; of epochs with equal scores the last
            one is kept. With none, of equal scores the one with the smaller loss is kept, or the first.
        last: the epoch with which cooling down ends at the latest; it has no end when left out.
    """

    def __init__(self, shape: tuple[int, int], patience: int, *, cool_down: int = 0, last: int | None = None) -> None:
        self._patience, self._cool_down = patience, cool_down
        self._latest = _NOT_YET if last is None else last - cool_down
        self.running = np.ones(shape, dtype=bool)
        self.begins_to_cool = np.zeros(shape, dtype=bool)
        """``[problem, layer]`` which fits cool down from now on."""
        self._cools_from = np.full(shape, _NOT_YET)
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
        given = loss
        if loss is None:
            loss = self._loss  # never smaller than itself
        higher = score > self._score
        settled = loss < self._loss if given is not None else self._cool_down > 0
        better: NDArray[np.bool_] = self.running & (higher | ((score == self._score) & settled))
        # where all is right, a smaller loss is no reason to go on
        learns = self.running & (higher | ((loss < self._least) & (self._score < 1)))
        self._score[better], self._loss[better] = score[better], loss[better]
        self._least = np.minimum(self._least, loss)
        # a fit that has nothing right yet has not begun to lose its patience
        self._epoch[learns | (self.running & (self._score <= 0))] = epoch
        self._epochs[self.running] = epoch
        stalls = epoch - self._epoch >= self._patience
        if self._cool_down:
            self.begins_to_cool = self.running & (self._cools_from == _NOT_YET) & (stalls | (epoch >= self._latest))
            self._cools_from[self.begins_to_cool] = epoch
            stalls = epoch - self._cools_from >= self._cool_down
        self.running &= ~stalls
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
