"""How a score rises over the checkpoints of a training: when the gain is reached, the mean, which comes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology.measures._metric import Floats


def step_reached(scores: ArrayLike, steps: Sequence[int], share: float) -> Floats:
    """The first checkpoint that has a share of the gain of the last one over the first (cf. Liu et al. 2021).

    Where the last checkpoint is no better than the first there is no gain to reach, and the result is the last step.

    Args:
        scores: ``[…, step]``, higher ones better.
        steps: ``[step]`` updates of each checkpoint, rising.
        share: of the gain, over 0 and at most 1.

    Returns:
        ``[…]`` a step: the score was reached by then, and not yet at the checkpoint before.

    Raises:
        ValueError: fewer than two steps, steps that do not rise, or a share outside of its bounds.
    """
    values, at = _checked(scores, steps)
    if not 0 < share <= 1:
        raise ValueError(f"share is {share}; it should be over 0 and at most 1")
    gain = values - values[..., :1]
    has_it = gain >= share * gain[..., -1:]
    first = np.where(gain[..., -1] > 0, has_it.argmax(axis=-1), len(at) - 1)
    return np.asarray(at[first], dtype=np.float64)


def mean_over_steps(scores: ArrayLike, steps: Sequence[int]) -> Floats:
    """The area under ``[…, step]`` scores by the trapezoid rule, divided by the number of updates between first and
    last step: ``[…]`` the mean score over the training. Raises as :func:`step_reached`."""
    values, at = _checked(scores, steps)
    widths = np.diff(at)
    return np.asarray(((values[..., 1:] + values[..., :-1]) / 2 * widths).sum(axis=-1) / widths.sum())


def before(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """In which share of ``[resample]`` pairs the first step comes before the second, and in which both are the same."""
    a, b = np.asarray(first), np.asarray(second)
    return float((a < b).mean()), float((a == b).mean())


def _checked(scores: ArrayLike, steps: Sequence[int]) -> tuple[Floats, NDArray[np.int64]]:
    values, at = np.asarray(scores, dtype=np.float64), np.asarray(steps, dtype=np.int64)
    if values.shape[-1:] != at.shape or len(at) < 2 or (np.diff(at) <= 0).any():
        raise ValueError(f"scores of shape {values.shape} for steps {list(steps)}: give two or more rising steps")
    return values, at
