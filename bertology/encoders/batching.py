"""Input forms of texts, and batches: windows that go through the model together, with their size on each device.

On a processor the shapes decide the speed: batches hold about the same number of pieces, nearly all have windows of
exactly one length (so nothing is padded and no mask is needed), and shapes repeat. An accelerator needs larger batches
to be busy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

OnLong = Literal["window", "error", "skip"]
"""Treatment of a sentence longer than the model takes: overlapping windows, an error, or its words are skipped."""
Pooling = Literal["mean", "first", "last"]
"""Pooling of a word's pieces into its vector: the mean of all, the first or the last."""
CLS = "cls"
"""The pooling that reads the vectors of the first special tokens, one a sentence."""
NOT_APART = -2
"""The window of a word that shares all its subwords with another, and so is not asked about."""
SHARED = "sharing all subwords with another word"
"""Why words are left out that have exactly the subwords of another word."""
PIECES_IN_BATCH = 1024
"""Pieces in a batch on a processor."""
_PIECES_ON_ACCELERATOR = 1 << 14
_MOST_PADDING = 0.125


@dataclass(frozen=True)
class Encoding:
    """Input form of a sentence; the default is by itself, from the first position on, as the first segment."""

    shift: int = 0
    """Added to the position of every piece. Relative positions stay as they are."""
    is_opened_at_0: bool = False
    """Whether special tokens before the text, such as ``[CLS]``, keep their positions."""
    other_segment: bool = False
    """Whether token types are exchanged: 1 for 0 and 0 for 1."""
    after: str = ""
    """A text that the model reads before the sentence, joined as the first and the second of a pair."""
    is_hidden: bool = False
    """Whether attention leaves out the pieces of ``after`` and the separator behind it, so that the sentence has
    another position and segment, but no other context."""

    def __str__(self) -> str:
        of = " of the text" if self.is_opened_at_0 else ""
        shift = [f"positions{of} + {self.shift}"] if self.shift else []
        segment = ["segments exchanged"] if self.other_segment else []
        after = [f"after {self.after!r}{', which is hidden' if self.is_hidden else ''}"] if self.after else []
        return ", ".join(shift + segment + after)


class Batch(NamedTuple):
    """Windows to be read together, padded to ``length`` pieces."""

    windows: NDArray[np.int64]
    length: int
    is_padded: bool


def pieces_in_batch(device: "str | torch.device") -> int:
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
    of_length, firsts = np.unique(-lengths[order], return_index=True)
    for length, same in zip((-of_length).tolist(), np.split(order, firsts[1:]), strict=False):
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
    """Neighbours of about one length joined into batches of at most ``pieces`` pieces, padding included, in order."""
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
) -> "tuple[torch.Tensor, torch.Tensor | None]":
    """``[window, piece]`` vocabulary numbers of the windows of a batch, and the attention mask if any is padded."""
    import torch

    mask = padded([np.ones(len(row), dtype=np.int64) for row in rows], batch.length, 0) if batch.is_padded else None
    ids = torch.from_numpy(padded(rows, batch.length, pad_id))
    return ids, None if mask is None else torch.from_numpy(mask)
