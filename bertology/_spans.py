"""Words that stand in spans, as they are handed from the store to readouts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class SpanChunk:
    """Some items and the vectors of the words in their spans. Whoever receives it does not change it."""

    items: Tensor
    """``[m]`` int64 numbers of the items."""
    words: Tensor
    """``[layer, w, dim]`` float32 vectors, of each word once however many spans it stands in."""
    spans: Tensor
    """``[m, span, 2]`` int64 places in ``words``, end exclusive."""
