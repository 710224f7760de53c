"""Chunks of items with the vectors of the words in their spans, and the check of spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError


@dataclass(frozen=True)
class SpanChunk:
    """Some items and the vectors of the words in their spans; not to be modified."""

    items: Tensor
    """``[m]`` int64 numbers of the items."""
    words: Tensor
    """``[layer, w, dim]`` float32 vectors, each word once, however many spans contain it."""
    spans: Tensor
    """``[m, span, 2]`` int64 positions in ``words``, end exclusive."""


def check_spans(spans: NDArray[np.int64], n_words: int) -> None:
    """Raise :class:`FitError` unless ``spans`` is ``[item, 1 or 2, 2]`` and every span has words among ``n_words``."""
    if spans.ndim != 3 or spans.shape[1] not in (1, 2) or spans.shape[2] != 2:
        raise FitError(f"spans have shape {list(spans.shape)}: give [item, span, 2] with one or two spans an item")
    wrong = (spans[:, :, 0] < 0) | (spans[:, :, 0] >= spans[:, :, 1]) | (spans[:, :, 1] > n_words)
    if wrong.any():
        item, span = np.argwhere(wrong)[0].tolist()
        start, end = spans[item, span].tolist()
        raise FitError(
            f"item {item}: span {span + 1} is [{start}, {end}): give a start below its end, between 0 and {n_words}"
        )
