"""Metrics of attention heads: each a ratio of two sums over sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from bertology.measures._metric import Floats, Metric, ratio


def head_metric(name: str, description: str, *, higher_is_better: bool = True) -> Metric:
    """A metric of attention heads.

    Args:
        name: what it is called; counts and means that are no fractions end in what they are counted in: ``_nats``,
            ``_bits``, ``_words``.
        description: one line that says what is divided by what.
        higher_is_better: which heads stand out; of what heads look at, those that look at it most.
    """
    return Metric(name, higher_is_better, description, _quotient, "heads")


def _quotient(counts: NDArray[Any], labels: Sequence[str]) -> Floats:
    """From ``[..., statistic, 2]`` what is divided and what by."""
    return ratio(counts[..., 0].sum(axis=-1), counts[..., 1].sum(axis=-1))
