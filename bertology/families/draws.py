"""How many draws of random weights a task's scores are compared with, and which seeds they have."""

from __future__ import annotations

from bertology.families.tasks import Pair

DRAWS = 3
"""Of the control ``random`` where they are cheap."""
MOST_WORK = 4e12
"""Weights of the blocks × words read × seeds up to which a draw is cheap: about a minute of forward passes on one core.
An encoder of 6 layers of 384 takes 2.7e12 for the English Web Treebank, BERT-base 2.2e13."""
_APART = 10_000


def control_seeds(n_draws: int) -> tuple[int, ...]:
    """The seeds of the draws of the control ``random``: 0, then far from those that people give their own models."""
    return tuple(range(0, n_draws * _APART, _APART))


def n_draws(pair: Pair, n_words: float, *, is_quick: bool) -> int:
    """How many draws a task has: as many as are asked for, else three where they are cheap and one where they are not.

    Args:
        pair: the model and the corpus.
        n_words: words that a draw reads.
        is_quick: whether what is fitted to the vectors takes little time.
    """
    asked = pair.request.random_draws
    if asked != "auto":
        return asked
    work = 12 * pair.shape.dim**2 * max(pair.layers) * n_words
    return DRAWS if is_quick and work <= MOST_WORK else 1
