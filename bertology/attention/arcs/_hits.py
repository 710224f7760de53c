"""Shares of questions that the maximum of a head answers: arcs between any words, and candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._ratios import Integers, Scope
from bertology.attention._statistic import ClusterSums, MapBatch, PerBatch, SumsStatistic
from bertology.attention._units import Units
from bertology.attention.arcs._arcs import Arcs, Candidates

_APART = 4.0
"""Subtracted from weights, none of which is above 1, where a word may not be the answer. Words of several pieces that
are shared with another may sum to a little more than 1, never to this."""
_MOST_WORDS = 1 << 40
"""More than a text has: keys of a window and a word do not run into one another."""


def check_level(scope: Scope) -> None:
    """Refuse maps of pieces.

    Raises:
        ValueError: the pass is over pieces.
    """
    if scope.level != "word":
        raise ValueError('arcs join words: stream_maps(…, level="word")')


class Places:
    """Where the words of a batch stand in its maps, in order of windows and words."""

    def __init__(self, units: Units) -> None:
        words = units.word.cpu().numpy()
        self.windows, self.units = np.nonzero(words >= 0)
        """``[place]`` of each word that a window shows, the window and the unit."""
        self.words: Integers = words[self.windows, self.units]
        self.counts: NDArray[np.bool_] = units.counts.cpu().numpy()[self.windows, self.units]
        """``[place]`` whether this is the window that the word is read from."""
        self._keys = self.windows * _MOST_WORDS + self.words

    def find(self, windows: Integers, words: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """The unit of each word in a window, and whether the window shows it."""
        keys = windows * _MOST_WORDS + words
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        shown = self._keys[at] == keys if len(self._keys) else np.zeros(len(keys), dtype=bool)
        return self.units[at], shown

    def asked_here(self, asked: Integers, by_word: Integers) -> tuple[Integers, Integers, Integers]:
        """The questions about words that are read from a window of this batch.

        Args:
            asked: ``[question]`` the word that each is about.
            by_word: ``[question]`` places of questions in the order of these words.

        Returns:
            ``[question of the batch]`` its number among all, the window, and the unit of its word.
        """
        counted = np.flatnonzero(self.counts)
        first, last = (np.searchsorted(asked[by_word], self.words[counted], side=side) for side in ("left", "right"))
        numbers, of_word = expanded(first.astype(np.int64), last.astype(np.int64))
        at = counted[of_word]
        return by_word[numbers], self.windows[at], self.units[at]


def expanded(first: Integers, last: Integers) -> tuple[Integers, Integers]:
    """All numbers from each ``first`` up to, not including, ``last``, and of each the place of the range it is in."""
    lengths = last - first
    of_range = np.repeat(np.arange(len(first)), lengths)
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - starts[of_range] + first[of_range], of_range


def _to(device: torch.device) -> Callable[[NDArray[np.generic]], Tensor]:
    return lambda values: torch.from_numpy(values).to(device)


class ArcHits(SumsStatistic):
    """Shares of words whose maximum lies on a correct answer (Clark et al. 2019, section 4.2; Voita et al. 2019, 5.2).

    Either the word that the asked one attends to most (row), or the word that attends to it most (column): see
    :class:`Arcs`. Special tokens do not compete, nor does the word itself unless ``self_competes``. Where a sentence is
    read in windows a word is asked about in the window that it is read from: the words which that window shows compete,
    and an answer which it does not show counts as a miss.

    Args:
        scope: what the pass reads; words.
        arcs: the questions.
        metric: of the ratios; their names are the groups of arcs.
        self_competes: whether the maximum may lie on the word itself.
    """

    def __init__(self, scope: Scope, arcs: Arcs, *, metric: str, self_competes: bool = False) -> None:
        check_level(scope)
        super().__init__(ClusterSums(scope, arcs.names, shared=True, metric=metric))
        self._arcs = arcs
        self._apart = PerBatch(lambda units: _kept_apart(units, self_competes=self_competes))
        self._questions = PerBatch(self._asked_here)

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units, n_groups = batch.units, len(self._arcs.names)
        by_row, by_column, n_questions = self._questions(units)
        over = torch.zeros(len(units) * n_groups, batch.maps.shape[1], device=batch.maps.device)
        weights = batch.maps - self._apart(units)[:, None]
        if by_row.shape[1]:
            _count(over, weights, by_row)
        if by_column.shape[1]:
            _count(over, weights.transpose(2, 3).contiguous(), by_column)
        hits = over.view(len(units), n_groups, -1).transpose(1, 2)
        self._sums[0].add(batch.layer, units, hits, n_questions)

    def _asked_here(self, units: Units) -> tuple[Tensor, Tensor, Tensor]:
        """The arcs whose two ends a window shows, answered by rows and by columns: ``[4, arc]`` window, unit of the
        asked word, unit of the answer, and slot, which is window and group as one number; and the number of questions,
        ``[window, group]``."""
        arcs, places = self._arcs, Places(units)
        numbers, windows, asked = places.asked_here(arcs.asked, arcs.by_word)
        slots = windows * len(arcs.names) + arcs.groups[numbers]
        opened = np.bincount(slots[arcs.opens[numbers]], minlength=len(units) * len(arcs.names))
        answers, shown = places.find(windows, arcs.answers[numbers])
        column = arcs.in_columns[arcs.groups[numbers]]
        questions, tensor = np.stack([windows, asked, answers, slots]), _to(units.word.device)
        by_row, by_column = (tensor(questions[:, shown & way]) for way in (~column, column))
        return by_row, by_column, tensor(opened.reshape(len(units), -1))


def _kept_apart(units: Units, *, self_competes: bool) -> Tensor:
    """``[sentence, unit, unit]`` subtracted from weights so that no maximum lies where there is no other word."""
    apart = ~(units.is_word[:, None] & units.is_word[:, :, None])
    if not self_competes:
        apart |= torch.eye(apart.shape[1], dtype=torch.bool, device=apart.device)
    return apart.float() * _APART


def _count(over: Tensor, weights: Tensor, questions: Tensor) -> None:
    """Add to ``[window and group, head]`` how often the largest of ``[sentence, head, asked, answer]`` is correct."""
    windows, asked, answers, slots = questions
    best = weights.max(-1).indices[windows, :, asked]  # [arc, head]
    over.index_add_(0, slots, (best == answers[:, None]).float())


class CandidateHits(SumsStatistic):
    """Shares of words that attend more to a correct candidate than to any wrong one (Clark et al. 2019, section 4.3).

    Only the candidates compete; a tie is a miss. Where a sentence is read in windows a word is asked about in the
    window that it is read from, and a candidate which that window does not show is not chosen.

    Args:
        scope: what the pass reads; words.
        candidates: the questions.
        metric: of the ratios; their names are the groups of questions.
    """

    def __init__(self, scope: Scope, candidates: Candidates, *, metric: str) -> None:
        check_level(scope)
        super().__init__(ClusterSums(scope, candidates.names, shared=True, metric=metric))
        self._candidates = candidates
        self._questions = PerBatch(self._asked_here)

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units, n_heads = batch.units, batch.maps.shape[1]
        (windows, rows, columns, questions), is_right, of_window, is_in = self._questions(units)
        weights = batch.maps[windows, :, rows, columns]  # [candidate, head]
        best = torch.full((2, len(of_window), n_heads), -1.0, device=weights.device)
        for right, largest in zip((False, True), best, strict=True):
            which = is_right == right
            places = questions[which][:, None].expand(-1, n_heads)
            largest.scatter_reduce_(0, places, weights[which], "amax")
        hits = (best[1] > best[0]).float()  # [question, head]
        over = torch.zeros(len(units), n_heads, is_in.shape[1], device=weights.device)
        over.index_add_(0, of_window, hits[:, :, None] * is_in[:, None])
        under = torch.zeros(len(units), is_in.shape[1], device=weights.device)
        under.index_add_(0, of_window, is_in)
        self._sums[0].add(batch.layer, units, over, under)

    def _asked_here(self, units: Units) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The candidates that their question's window shows: ``[4, candidate]`` window, unit of the asked word, unit of
        the candidate, and place of the question in the batch; ``[candidate]`` whether it is correct; ``[question]`` the
        window; ``[question, group]`` whether it is in a group, as floats."""
        candidates, places = self._candidates, Places(units)
        numbers, windows, rows = places.asked_here(candidates.asked, candidates.by_word)
        of_candidate, questions = expanded(candidates.starts[numbers], candidates.starts[numbers + 1])
        columns, shown = places.find(windows[questions], candidates.words[of_candidate])
        found = np.stack([windows[questions], rows[questions], columns, questions])[:, shown]
        tensor = _to(units.word.device)
        is_right = tensor(candidates.is_right[of_candidate][shown])
        return tensor(found), is_right, tensor(windows), tensor(candidates.is_in[numbers].astype(np.float32))
