"""Of which share of arcs a head's maximum lies on the right word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology.attention._batch import MapBatch, Scope, Units
from bertology.attention._statistic import ClusterSums, SumsStatistic
from bertology.attention.arcs._arcs import Arcs
from bertology.attention.arcs._places import Places, check_level, expanded

_APART = 4.0
"""Taken from weights, none of which is above 1, where a word may not be the answer. Words of several pieces that are
shared with another may sum to a little more than 1, never to this."""


class ArcHits(SumsStatistic):
    """Shares of words whose maximum lies on a right answer (Clark et al. 2019, section 4.2; Voita et al. 2019, 5.2).

    At which word does the asked one look most (row), or which word looks at it most (column): see :class:`Arcs`.
    Special tokens do not compete, nor does the word itself unless asked for. Where a sentence is read in windows a
    word is asked in the window that it is read from: the words which that window shows compete, and an answer which it
    does not show counts as a miss.

    Args:
        scope: what the pass reads; words.
        arcs: what is asked.
        metric: what the ratios are called; their names are the groups of arcs.
        self_competes: whether the maximum may lie on the word itself.
    """

    def __init__(self, scope: Scope, arcs: Arcs, *, metric: str, self_competes: bool = False) -> None:
        check_level(scope)
        self._arcs, self._self_competes = arcs, self_competes
        super().__init__(ClusterSums(scope, arcs.names, shared=True, metric=metric))
        self._units: Units | None = None

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units = batch.units
        if self._units is not units:
            self._asked, self._units = _ask(units, self._arcs), units
            self._apart = _kept_apart(units, self_competes=self._self_competes)
        asked, n_groups = self._asked, len(self._arcs.names)
        over = torch.zeros(len(units) * n_groups, batch.maps.shape[1], device=batch.maps.device)
        weights = batch.maps - self._apart[:, None]
        if len(asked.rows.slots):
            _count(over, weights, asked.rows)
        if len(asked.columns.slots):
            _count(over, weights.transpose(2, 3).contiguous(), asked.columns)
        hits = over.view(len(units), n_groups, -1).transpose(1, 2)
        self._sums[0].add(batch.layer, units, hits, asked.n_questions)


@dataclass(frozen=True, eq=False)
class _Questions:
    """Arcs whose two ends a window shows."""

    windows: Tensor
    """``[arc]``"""
    asked: Tensor
    """``[arc]`` unit of the asked word."""
    answers: Tensor
    """``[arc]`` unit of the answer."""
    slots: Tensor
    """``[arc]`` window and group as one number."""


@dataclass(frozen=True, eq=False)
class _Asked:
    rows: _Questions
    columns: _Questions
    n_questions: Tensor
    """``[sentence, group]``"""


def _ask(units: Units, arcs: Arcs) -> _Asked:
    """What is asked of the words of a batch."""
    places = Places(units)
    counted = np.flatnonzero(places.counts)
    own = arcs.asked[arcs.by_word]
    first, last = (np.searchsorted(own, places.words[counted], side=side) for side in ("left", "right"))
    numbers, of_word = expanded(first.astype(np.int64), last.astype(np.int64))
    numbers, at = arcs.by_word[numbers], counted[of_word]
    windows, asked = places.windows[at], places.units[at]
    slots = windows * len(arcs.names) + arcs.groups[numbers]
    opened = np.bincount(slots[arcs.opens[numbers]], minlength=len(units) * len(arcs.names))
    answers, shown = places.find(windows, arcs.answers[numbers])
    column = arcs.in_columns[arcs.groups[numbers]]
    device = units.word.device

    def taken(which: np.ndarray) -> _Questions:
        return _Questions(*(torch.from_numpy(part[which]).to(device) for part in (windows, asked, answers, slots)))

    n_questions = torch.from_numpy(opened.reshape(len(units), -1)).to(device)
    return _Asked(taken(shown & ~column), taken(shown & column), n_questions)


def _kept_apart(units: Units, *, self_competes: bool) -> Tensor:
    """``[sentence, unit, unit]`` what is taken from weights so that no maximum lies where there is no other word."""
    apart = ~(units.is_word[:, None] & units.is_word[:, :, None])
    if not self_competes:
        apart |= torch.eye(apart.shape[1], dtype=torch.bool, device=apart.device)
    return apart.float() * _APART


def _count(over: Tensor, weights: Tensor, questions: _Questions) -> None:
    """Add to ``[window and group, head]`` how often the largest of ``[sentence, head, asked, answer]`` is right."""
    best = weights.max(-1).indices[questions.windows, :, questions.asked]  # [arc, head]
    over.index_add_(0, questions.slots, (best == questions.answers[:, None]).float())
