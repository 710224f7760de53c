"""How sharp heads are, and at which offset their maximum lies."""

from __future__ import annotations

import torch

from bertology.attention._batch import MapBatch, Scope
from bertology.attention._statistic import ClusterSums, SumsStatistic, row_sums

FARTHEST = 3
"""Offsets are told apart up to this many words to either side."""


class Sharpness(SumsStatistic):
    """Entropy and confidence of heads.

    - ``entropy_nats``: mean entropy of the attention of words, in nats (Clark et al. 2019, section 3.3); attention
      that was cropped, as to pieces of no word, is left out and the rest taken as a whole.
    - ``cls_entropy_nats``: the same of the token that opens the text; NaN for a model without one.
    - ``confidence``: mean over words of the largest attention weight to a word (Voita et al. 2019, section 4:
      special tokens do not compete).
    """

    names = ("entropy_nats", "cls_entropy_nats", "confidence")

    def __init__(self, scope: Scope) -> None:
        super().__init__(ClusterSums(scope, self.names, shared=True))

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units = batch.units
        entropy = row_entropy(batch.maps)
        opening = units.is_cls & units.counts
        largest, _ = batch.most_attended
        over = [row_sums(entropy, units.word_rows), row_sums(entropy, opening), row_sums(largest, units.word_rows)]
        n_words = units.word_rows.sum(-1)
        under = torch.stack([n_words, opening.sum(-1), n_words], dim=-1)
        self._sums[0].add(batch.layer, units, torch.stack(over, dim=-1), under)


class Offsets(SumsStatistic):
    """Where the maximum lies: shares of words whose most attended word stands at each offset (Voita et al. 2019,
    section 5.1: a head is positional if one offset has 90 % of them).

    ``argmax_-1`` is the previous word, ``argmax_+1`` the next, ``argmax_0`` the word itself, ``argmax_before`` and
    ``argmax_after`` all that is farther than three words; special tokens do not compete. They sum to 1.
    """

    names = ("argmax_before", *(f"argmax_{d:+d}" if d else "argmax_0" for d in range(-3, 4)), "argmax_after")

    def __init__(self, scope: Scope) -> None:
        super().__init__(ClusterSums(scope, self.names, shared=True, metric="argmax_share"))

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units = batch.units
        _, best = batch.most_attended  # [sentence, head, unit]
        positions = units.position[:, None].expand_as(best)
        offsets = positions.gather(2, best) - positions
        bins = offsets.clamp(-FARTHEST - 1, FARTHEST + 1) + FARTHEST + 1
        counted = units.word_rows[:, None].expand_as(bins)
        over = torch.zeros(*bins.shape[:2], len(self.names), device=best.device)
        over.scatter_add_(2, bins, counted.float())
        under = units.word_rows.sum(-1, keepdim=True).expand(-1, len(self.names))
        self._sums[0].add(batch.layer, units, over, under)


def row_entropy(maps: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of each row ``[..., unit]``, scaled to a sum of 1; 0 for a row of zeros."""
    total = maps.sum(-1)
    # Of p = a / s, with s the row's sum, the entropy is ln s − (Σ a ln a) / s: no copy of the maps is divided by s.
    inside = maps.clamp_min(torch.finfo(maps.dtype).tiny).log_().mul_(maps).sum(-1)
    return torch.where(total == 0, 0, total.log() - inside / total)
