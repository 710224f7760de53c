"""Maps as pictures of one size, and a small convolutional network that looks at them."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn

from bertology.attention.patterns._kinds import CLS, PATTERNS, SEP
from bertology.attention.patterns._layout import Layout

SIDE: Final = 32
_CHANNELS = 5
_LEAST = 0.05
"""Of an even weight: what is fainter counts as this faint."""


def pictures(maps: Tensor, layout: Layout) -> Tensor:
    """Resample maps by area, so that every length makes a picture of one size.

    Args:
        maps: ``[text, head, piece, piece]``
        layout: of the same texts.

    Returns:
        ``[text, head, channel, SIDE, SIDE]``: attention over that of a uniform map, as a logarithm of means; how far
        the logarithms of weights are above their row's, as means of logarithms, in which faint columns and lines are
        seen; whether row and column are of one sentence of a pair; special columns; the length of the text.
    """
    n = maps.shape[-1]
    pool = _pool(layout, n)  # [text, side, piece]
    rows = torch.where(layout.rows[:, None, :, None], maps.float(), 0)
    pooled = pool[:, None] @ rows @ pool[:, None].transpose(-1, -2)
    lengths = layout.lengths
    relief = _relief(rows, pool, layout)
    density = torch.log1p(pooled * lengths[:, None, None, None]) / math.log(1 + SIDE)
    sentences = torch.einsum("tkp,tsp->tsk", pool, layout.in_sentence.float())
    same = torch.einsum("tsk,tsl->tkl", sentences, sentences) * layout.is_pair[:, None, None]
    special = ((layout.kinds == CLS) | (layout.kinds == SEP)).float()
    columns = torch.einsum("tkp,tp->tk", pool, special)[:, None].expand(-1, SIDE, -1)
    length = (lengths.log() / 5)[:, None, None].expand(-1, SIDE, SIDE)
    of_text = torch.stack([same, columns, length], dim=1)[:, None].expand(-1, maps.shape[1], -1, -1, -1)
    return torch.cat([torch.stack([density, relief], dim=2), of_text], dim=2)


def _relief(maps: Tensor, pool: Tensor, layout: Layout) -> Tensor:
    """Logarithms of weights over even ones, less their row's mean, resampled; halved, to be of the size of others."""
    # Pieces that are not there, and rows that do not count, are zeros and stay so.
    logs = (maps * (layout.lengths / _LEAST)[:, None, None, None]).log1p_()
    mean = logs.sum(-1, keepdim=True) / layout.lengths[:, None, None, None]
    return (pool[:, None] @ logs @ pool[:, None].transpose(-1, -2) - pool[:, None] @ mean) / 2


def _pool(layout: Layout, n: int) -> Tensor:
    """``[text, side, piece]`` the share of each piece in each row of the picture; shares of a row sum to 1."""
    step = (layout.lengths / SIDE)[:, None, None]
    low = torch.arange(SIDE, device=layout.kinds.device)[:, None] * step
    piece = torch.arange(n, device=layout.kinds.device)
    overlap = torch.minimum(low + step, piece + 1.0) - torch.maximum(low, piece.float())
    return overlap.clamp_min(0) / step


class PatternNetwork(nn.Module):
    """Three convolutions and two layers on top: some 36,000 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(_CHANNELS, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * (SIDE // 8) ** 2, 48),
            nn.ReLU(),
            nn.Linear(48, len(PATTERNS)),
        )

    def forward(self, given: Tensor) -> Tensor:
        """``[picture, class]`` logits of ``[picture, channel, SIDE, SIDE]``."""
        logits: Tensor = self.layers(given)
        return logits
