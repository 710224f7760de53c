"""The statistics of all heads: how much attention goes where, how sharp it is, and where its maximum lies."""

from __future__ import annotations

import torch
from torch import Tensor

from bertology.attention._ratios import Scope
from bertology.attention._statistic import ClusterSums, MapBatch, PerBatch, SumsStatistic, row_sums
from bertology.attention._texts import Units

FARTHEST = 3
"""Offsets up to this many words to either side are distinguished."""


class Masses(SumsStatistic):
    """Mean attention of words to kinds of units (Clark et al. 2019, sections 3.1 and 3.2), and its mean distance.

    Rows are words (at piece level, pieces of words); special tokens are columns only, for what they look at is a
    matter of its own. Each mass is a mean over the rows that have such a unit: ``previous`` leaves out the first word,
    ``same_word`` words that occur once in their sentence; ``punctuation`` is over all rows, for punctuation there may
    be none.

    - ``cls``, ``sep``: to the special tokens that open and close the text; NaN for a model without them.
    - ``punctuation``: to words of nothing but punctuation, the row's own word among them.
    - ``self``, ``previous``, ``next``: to the unit itself and the words (pieces of words) next to it.
    - ``same_word``: to other words of the same form, whatever their case.
    - ``distance``: Σ α·|offset| ÷ Σ α over attention to words, in words (pieces) (Vig & Belinkov 2019, section 4.3).
    """

    names = ("cls", "sep", "punctuation", "self", "previous", "next", "same_word", "distance")

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            ClusterSums(scope, self.names[:-1], shared=True, metric="attention_mass"),
            ClusterSums(scope, self.names[-1:], shared=False),
        )
        self._cells = PerBatch(_cells)

    def update(self, batch: MapBatch) -> None:
        weights, n_rows = self._cells(batch.units)
        over = weighted_sums(batch.maps, weights)
        means, distance = self._sums
        means.add(batch.layer, batch.units, over[..., :-2], n_rows)
        distance.add(batch.layer, batch.units, over[..., -2:-1], over[..., -1:])


class NormShares(SumsStatistic):
    """Shares of what heads add to words, by the kind of unit that it comes from (Kobayashi et al. 2020, section 4).

    The measure is ‖αf(x)‖: a large weight on a vector that a head maps to nearly nothing has no effect. A share is
    Σ ‖αf(x)‖ over units of a kind, divided by the same sum over all units. Rows are words. ``norm_cls``, ``norm_sep``,
    ``norm_punctuation`` and ``norm_self`` correspond to ``cls``, ``sep``, ``punctuation`` and ``self`` of
    :class:`Masses`. Norms of a word's pieces are summed, as its weights are.
    """

    names = ("norm_cls", "norm_sep", "norm_punctuation", "norm_self")

    def __init__(self, scope: Scope) -> None:
        super().__init__(ClusterSums(scope, self.names, shared=False, metric="norm_share"))

    def update(self, batch: MapBatch) -> None:
        units, norms = batch.units, batch.norms
        if norms is None:
            raise ValueError("norms were not asked for: stream_maps(…, norms=True)")
        given = norms.given
        kinds = torch.stack([units.is_cls, units.is_sep, units.is_punctuation], dim=-1)
        over = torch.cat([given @ kinds.to(given), norms.kept[..., None]], dim=-1)
        # Without such a token in the model there is no share of it.
        present = kinds.any(1)  # [sentence, kind]
        present[:, 2] = True
        under = given.sum(-1, keepdim=True).expand_as(over).clone()
        under[..., :3] *= present[:, None]
        self._sums[0].add(batch.layer, units, over, under)


class Sharpness(SumsStatistic):
    """Entropy and confidence of heads.

    - ``entropy_nats``: mean entropy of the attention of words, in nats (Clark et al. 2019, section 3.3).
    - ``cls_entropy_nats``: the same of the token that opens the text; NaN for a model without one.
    - ``confidence``: mean over words of the largest attention weight to a word (Voita et al. 2019, section 4:
      special tokens do not compete).
    """

    names = ("entropy_nats", "cls_entropy_nats", "confidence")

    def __init__(self, scope: Scope) -> None:
        super().__init__(ClusterSums(scope, self.names, shared=True))

    def update(self, batch: MapBatch) -> None:
        units = batch.units
        entropy = row_entropy(batch.maps)
        opening = units.is_cls & units.counts
        largest, _ = batch.most_attended
        over = [row_sums(entropy, units.word_rows), row_sums(entropy, opening), row_sums(largest, units.word_rows)]
        n_words = units.word_rows.sum(-1)
        under = torch.stack([n_words, opening.sum(-1), n_words], dim=-1)
        self._sums[0].add(batch.layer, units, torch.stack(over, dim=-1), under)


class Offsets(SumsStatistic):
    """Shares of words whose most attended word stands at each offset (Voita et al. 2019, section 5.1: a head is
    positional if one offset has 90 % of them).

    ``argmax_-1`` is the previous word, ``argmax_+1`` the next, ``argmax_0`` the word itself, ``argmax_before`` and
    ``argmax_after`` all that is farther than three words; special tokens do not compete. They sum to 1.
    """

    names = ("argmax_before", *(f"argmax_{d:+d}" if d else "argmax_0" for d in range(-3, 4)), "argmax_after")

    def __init__(self, scope: Scope) -> None:
        super().__init__(ClusterSums(scope, self.names, shared=True, metric="argmax_share"))

    def update(self, batch: MapBatch) -> None:
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


def weighted_sums(maps: Tensor, weights: Tensor) -> Tensor:
    """``Σ_ij maps_ij · weights_ij``: ``[sentence, head, kind]`` of ``[sentence, kind, unit, unit]`` weights, in one
    product, which reads the maps once."""
    return torch.bmm(maps.flatten(2), weights.flatten(2).transpose(1, 2))


def row_entropy(maps: Tensor) -> Tensor:
    """Entropy in nats of each row ``[..., unit]``, scaled to a sum of 1; 0 for a row of zeros."""
    total = maps.sum(-1)
    # Of p = a / s, with s the row's sum, the entropy is ln s − (Σ a ln a) / s: no copy of the maps is divided by s.
    inside = maps.clamp_min(torch.finfo(maps.dtype).tiny).log_().mul_(maps).sum(-1)
    return torch.where(total == 0, 0, total.log() - inside / total)


def _cells(units: Units) -> tuple[Tensor, Tensor]:
    """``[sentence, kind, unit, unit]`` how much each cell counts for each mass, and ``[sentence, kind]`` the number of
    rows to divide by, of the kinds that are means over rows."""
    rows, words = units.word_rows[:, :, None], units.is_word[:, None]  # [sentence, unit, 1], [sentence, 1, unit]
    offset = units.position[:, None] - units.position[:, :, None]
    same = (units.form[:, None] == units.form[:, :, None]) & (units.word[:, None] != units.word[:, :, None])
    kinds = [units.is_cls[:, None], units.is_sep[:, None], units.is_punctuation[:, None]]
    kinds += [words & (offset == 0), words & (offset == -1), words & (offset == 1), words & same]
    cells = torch.stack([kind & rows for kind in kinds], dim=1)
    n_rows = cells.any(-1).sum(-1)
    n_rows[:, 2] = units.word_rows.sum(-1)
    between = rows & words
    distance = torch.where(between, offset.abs(), 0)
    return torch.cat([cells.float(), distance[:, None].float(), between[:, None].float()], dim=1), n_rows
