"""Heads planted in maps, and trees drawn by lot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.measures.sums import HeadRatios
from tests.attention.planted import planted_ratios, random_trees


@pytest.fixture(scope="session")
def planted(encoder: Callable[..., Encoder]) -> Callable[..., list[HeadRatios]]:
    """What a statistic makes of heads that look at one unit each."""
    return partial(planted_ratios, encoder("bert"))


@pytest.fixture(scope="session")
def random_heads() -> Callable[[Sentences, int], list[list[int]]]:
    """A tree by lot over the words of each sentence."""
    return random_trees
