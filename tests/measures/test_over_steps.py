"""When a score is reached over steps, its mean over a training, and which of two comes first."""

from __future__ import annotations

import numpy as np
import pytest

from bertology.measures import before, mean_over_steps, step_reached

STEPS = [0, 10, 100, 1000]


def test_first_checkpoint_with_a_share_of_the_gain() -> None:
    scores = [[0.2, 0.3, 0.9, 1.0], [0.2, 0.95, 0.5, 1.0], [0.5, 0.7, 0.9, 0.5]]
    assert step_reached(scores, STEPS, 0.8).tolist() == [100, 10, 1000]
    assert step_reached(scores, STEPS, 0.9).tolist() == [1000, 10, 1000]


def test_mean_is_the_area_by_the_trapezoid_rule() -> None:
    scores = np.random.default_rng(0).random((5, 4))
    np.testing.assert_allclose(mean_over_steps(scores, STEPS), np.trapezoid(scores, STEPS, axis=-1) / 1000)
    assert mean_over_steps([0.7, 0.7, 0.7, 0.7], STEPS) == pytest.approx(0.7)


def test_order_counts_what_is_reached_together_apart() -> None:
    assert before([10, 10, 100, 1000], [100, 10, 10, 1000]) == (0.25, 0.5)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="two or more rising steps"):
        mean_over_steps([0.1, 0.2], [5, 5])
    with pytest.raises(ValueError, match=r"share is 1\.5"):
        step_reached([0.1, 0.2], [0, 5], 1.5)
