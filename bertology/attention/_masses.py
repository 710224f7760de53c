"""How much attention goes where: special tokens, punctuation, the word itself and its neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from bertology.attention._batch import MapBatch, Scope, Units
from bertology.attention._statistic import ClusterSums, SumsStatistic


class Masses(SumsStatistic):
    """Mean attention of words to kinds of units (Clark et al. 2019, sections 3.1 and 3.2), and its mean distance.

    Rows are words (at piece level, pieces of words); special tokens are columns only, for what they look at is a
    matter of its own. Each is a mean over the rows that have such a unit: ``previous`` leaves out the first word,
    ``same_word`` words that occur once in their sentence; ``punctuation`` is over all rows, for punctuation there may
    be none.

    - ``cls``, ``sep``: to the special tokens that open and close the text; NaN for a model without them.
    - ``punctuation``: to words of nothing but punctuation, the row's own word among them.
    - ``self``, ``previous``, ``next``: to the unit itself and the words (pieces of words) beside it.
    - ``same_word``: to other words of the same form, whatever their case.
    - ``distance``: Σ α·|offset| ÷ Σ α over attention to words, in words (pieces) (Vig & Belinkov 2019, section 4.3).
    """

    names = ("cls", "sep", "punctuation", "self", "previous", "next", "same_word", "distance")

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            ClusterSums(scope, self.names[:-1], shared=True, metric="attention_mass"),
            ClusterSums(scope, self.names[-1:], shared=False),
        )
        self._weights = _Weights()

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        self._weights.prepare(batch.units)
        over = weighted_sums(batch.maps, self._weights.table)
        means, distance = self._sums
        means.add(batch.layer, batch.units, over[..., :-2], self._weights.n_rows)
        distance.add(batch.layer, batch.units, over[..., -2:-1], over[..., -1:])


class NormShares(SumsStatistic):
    """Which share of what heads add to words comes from where, by ‖αf(x)‖ (Kobayashi et al. 2020, section 4).

    A large weight on a vector that a head maps to nearly nothing has no effect; Σ ‖αf(x)‖ over units of a kind, divided
    by that over all units, tells it apart. Rows are words. ``norm_cls``, ``norm_sep``, ``norm_punctuation`` and
    ``norm_self`` stand beside ``cls``, ``sep``, ``punctuation`` and ``self`` of :class:`Masses`. Norms of a word's
    pieces are summed as its weights are.
    """

    names = ("norm_cls", "norm_sep", "norm_punctuation", "norm_self")

    def __init__(self, scope: Scope) -> None:
        super().__init__(ClusterSums(scope, self.names, shared=False, metric="norm_share"))

    def update(self, batch: MapBatch) -> None:
        """Add the norms of one layer."""
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


def weighted_sums(maps: Tensor, weights: Tensor) -> Tensor:
    """``Σ_ij maps_ij · weights_ij``: ``[sentence, head, kind]`` of ``[sentence, kind, unit, unit]`` weights.

    One matrix product reads the maps once, however many kinds there are.
    """
    return torch.bmm(maps.flatten(2), weights.flatten(2).transpose(1, 2))


class _Weights:
    """Which cells of a batch's maps each kind counts; the same for all its layers, so made once."""

    def __init__(self) -> None:
        self._of: Units | None = None
        self.table = torch.empty(0)
        """``[sentence, kind, unit, unit]``"""
        self.n_rows = torch.empty(0)
        """``[sentence, kind]`` rows to divide by, of the kinds that are means over rows."""

    def prepare(self, units: Units) -> None:
        """Make the tables of a batch, unless they are there."""
        if self._of is units:
            return
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
        self.table = torch.cat([cells.float(), distance[:, None].float(), between[:, None].float()], dim=1)
        self.n_rows, self._of = n_rows, units
