"""Batches: windows of text that go through the model together, and their size on each kind of device.

On a processor the shapes decide the speed: batches hold about the same number of pieces, nearly all have windows of
exactly one length (so nothing is padded and no mask is needed), and shapes repeat. An accelerator needs larger batches
to be busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

PIECES_IN_BATCH = 1024
"""Pieces in a batch on a processor."""
_PIECES_ON_ACCELERATOR = 1 << 14
_MOST_PADDING = 0.125


class Batch(NamedTuple):
    """Windows to be read together, padded to ``length`` pieces."""

    windows: NDArray[np.int64]
    length: int
    is_padded: bool


def pieces_in_batch(device: str | torch.device) -> int:
    """The number of pieces that a batch should have on a device, padding included.

    On a processor 1,024, so that its activations stay in the caches; on an accelerator 16,384, which keep it busy and
    take about 2 GB for all layers of a model like BERT-base.
    """
    return PIECES_IN_BATCH if str(device) == "cpu" else _PIECES_ON_ACCELERATOR


def plan_batches(lengths: NDArray[np.int64], *, pieces: int = PIECES_IN_BATCH) -> list[Batch]:
    """Batches of about ``pieces`` pieces that hold each window once, longest first; the same for the same lengths.

    ``lengths [window]`` are the pieces in each window.
    """
    batches: list[Batch] = []
    waiting: list[int] = []  # windows too few to fill a batch of their own length, longest first

    def close(n: int) -> None:
        chosen = np.array(waiting[:n])
        longest = int(lengths[chosen].max())
        batches.append(Batch(chosen, longest, bool((lengths[chosen] < longest).any())))
        del waiting[:n]

    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    for length in np.unique(lengths)[::-1].tolist():
        same = order[np.searchsorted(-ordered, -length, "left") : np.searchsorted(-ordered, -length, "right")]
        if waiting and length < (1 - _MOST_PADDING) * lengths[waiting[0]]:
            close(len(waiting))
        rows = max(1, pieces // length)
        full = len(same) // rows * rows
        batches += [Batch(same[i : i + rows], length, False) for i in range(0, full, rows)]
        waiting += same[full:].tolist()
        while waiting and len(waiting) * lengths[waiting[0]] >= pieces:
            close(max(1, pieces // int(lengths[waiting[0]])))
    if waiting:
        close(len(waiting))
    return batches


def join_batches(batches: Sequence[Batch], *, pieces: int) -> list[Batch]:
    """Join neighbours of about one length into larger batches, which hold the same windows in the same order.

    A batch that is joined of several has at most ``pieces`` pieces, padding included.
    """
    joined: list[Batch] = []
    for batch in batches:
        if joined:
            windows = np.concatenate([joined[-1].windows, batch.windows])
            shorter, longer = sorted((joined[-1].length, batch.length))
            if len(windows) * longer <= pieces and shorter >= (1 - _MOST_PADDING) * longer:
                is_padded = joined[-1].is_padded or batch.is_padded or shorter < longer
                joined[-1] = Batch(windows, longer, is_padded)
                continue
        joined.append(batch)
    return joined


def padded(rows: Sequence[Sequence[int] | NDArray[Any]], width: int, fill: int) -> NDArray[Any]:
    """``[row, width]`` of rows of numbers, or of truth values, followed by ``fill``, whose type the table has."""
    table = np.full((len(rows), width), fill)
    for into, row in zip(table, rows, strict=True):
        into[: len(row)] = row
    return table


def padded_inputs(
    rows: Sequence[Sequence[int] | NDArray[Any]], batch: Batch, pad_id: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``[window, piece]`` vocabulary numbers of the windows of a batch, and the attention mask if any is padded."""
    import torch

    mask = padded([np.ones(len(row), dtype=np.int64) for row in rows], batch.length, 0) if batch.is_padded else None
    ids = torch.from_numpy(padded(rows, batch.length, pad_id))
    return ids, None if mask is None else torch.from_numpy(mask)
