"""Of which share of questions a head looks most at a right one of the candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology.attention._batch import MapBatch, Scope, Units
from bertology.attention._statistic import ClusterSums, SumsStatistic
from bertology.attention.arcs._candidates import Candidates
from bertology.attention.arcs._places import Places, check_level, expanded


class CandidateHits(SumsStatistic):
    """Shares of words that look more at a right candidate than at any wrong one (Clark et al. 2019, section 4.3).

    Nothing but the candidates competes; a tie is a miss. Where a sentence is read in windows a word is asked in the
    window that it is read from, and a candidate which that window does not show is not chosen.

    Args:
        scope: what the pass reads; words.
        candidates: what is asked.
        metric: what the ratios are called; their names are the groups of questions.
    """

    def __init__(self, scope: Scope, candidates: Candidates, *, metric: str) -> None:
        check_level(scope)
        self._candidates = candidates
        super().__init__(ClusterSums(scope, candidates.names, shared=True, metric=metric))
        self._units: Units | None = None

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units = batch.units
        if self._units is not units:
            self._asked, self._units = _ask(units, self._candidates), units
        asked, n_heads = self._asked, batch.maps.shape[1]
        weights = batch.maps[asked.windows, :, asked.rows, asked.columns]  # [candidate, head]
        best = torch.full((2, len(asked.of_window), n_heads), -1.0, device=weights.device)
        for right, largest in zip((False, True), best, strict=True):
            which = asked.is_right == right
            places = asked.questions[which][:, None].expand(-1, n_heads)
            largest.scatter_reduce_(0, places, weights[which], "amax")
        hits = (best[1] > best[0]).float()  # [question, head]
        over = torch.zeros(len(units), n_heads, asked.is_in.shape[1], device=weights.device)
        over.index_add_(0, asked.of_window, hits[:, :, None] * asked.is_in[:, None])
        under = torch.zeros(len(units), asked.is_in.shape[1], device=weights.device)
        under.index_add_(0, asked.of_window, asked.is_in)
        self._sums[0].add(batch.layer, units, over, under)


@dataclass(frozen=True, eq=False)
class _Asked:
    windows: Tensor
    """``[candidate]`` of those that their question's window shows."""
    rows: Tensor
    """``[candidate]`` unit of the asked word."""
    columns: Tensor
    """``[candidate]`` its own unit."""
    questions: Tensor
    """``[candidate]`` place of its question among those of the batch."""
    is_right: Tensor
    """``[candidate]``"""
    of_window: Tensor
    """``[question]``"""
    is_in: Tensor
    """``[question, group]`` as floats."""


def _ask(units: Units, candidates: Candidates) -> _Asked:
    """What is asked of the words of a batch."""
    places = Places(units)
    counted = np.flatnonzero(places.counts)
    own = candidates.asked[candidates.by_word]
    first, last = (np.searchsorted(own, places.words[counted], side=side) for side in ("left", "right"))
    numbers, of_word = expanded(first.astype(np.int64), last.astype(np.int64))
    asked, at = candidates.by_word[numbers], counted[of_word]
    own_candidates, questions = expanded(candidates.starts[asked], candidates.starts[asked + 1])
    windows, rows = places.windows[at], places.units[at]
    columns, shown = places.find(windows[questions], candidates.words[own_candidates])
    device = units.word.device

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(device)

    return _Asked(
        windows=tensor(windows[questions][shown]),
        rows=tensor(rows[questions][shown]),
        columns=tensor(columns[shown]),
        questions=tensor(questions[shown]),
        is_right=tensor(candidates.is_right[own_candidates][shown]),
        of_window=tensor(windows),
        is_in=tensor(candidates.is_in[asked].astype(np.float32)),
    )
