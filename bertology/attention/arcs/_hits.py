"""Shares of questions that a head answers: arcs between any words, candidates, and edges of trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._ratios import Integers, Scope
from bertology.attention._statistic import ClusterSums, MapBatch, PerBatch, SumsStatistic
from bertology.attention._texts import Units
from bertology.attention.arcs._questions import WAYS, Arcs, Candidates, TextTrees
from bertology.encoders.batching import padded
from bertology.measures.trees import spanning_arborescences

_APART = 4.0
"""Subtracted from weights, none of which is above 1, where a word may not be the answer. Words of several pieces that
are shared with another may sum to a little more than 1, never to this."""
_MOST_WORDS = 1 << 40
"""More than a text has: keys of a window and a word do not run into one another."""
_MOST_SCORES = 1 << 19
"""In one call that makes trees: what it works on stays in the cache."""


def check_level(scope: Scope) -> None:
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
        """The questions about words that are read from a window of this batch: of each its number among all, the
        window, and the unit of its word. ``[question]`` the word that each is about, and places in the order of words.
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
    :class:`Arcs`, whose groups are the names of the ratios. Special tokens do not compete, nor does the word itself
    unless ``self_competes``. Where a sentence is read in windows a word is asked about in the window that it is read
    from: the words which that window shows compete, and an answer which it does not show counts as a miss.
    """

    def __init__(self, scope: Scope, arcs: Arcs, *, metric: str, self_competes: bool = False) -> None:
        check_level(scope)
        super().__init__(ClusterSums(scope, arcs.names, shared=True, metric=metric))
        self._arcs = arcs
        self._apart = PerBatch(lambda units: _kept_apart(units, self_competes=self_competes))
        self._questions = PerBatch(self._asked_here)

    def update(self, batch: MapBatch) -> None:
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
        arcs, places = self._arcs.told_apart(units.left_out), Places(units)
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
    window that it is read from, and a candidate which that window does not show is not chosen. The names of the ratios
    are the groups of questions.
    """

    def __init__(self, scope: Scope, candidates: Candidates, *, metric: str) -> None:
        check_level(scope)
        super().__init__(ClusterSums(scope, candidates.names, shared=True, metric=metric))
        self._questions = PerBatch(partial(candidates_here, candidates))

    def update(self, batch: MapBatch) -> None:
        units, n_heads = batch.units, batch.maps.shape[1]
        (windows, rows, columns, questions), is_right, of_window, is_in = self._questions(units)
        weights = batch.maps[windows, :, rows, columns]  # [candidate, head]
        best = torch.full((2, len(of_window), n_heads), -1.0, device=weights.device)
        for largest, which in zip(best, (~is_right, is_right), strict=True):
            largest.scatter_reduce_(0, questions[which][:, None].expand(-1, n_heads), weights[which], "amax")
        hits = (best[1] > best[0]).float()  # [question, head]
        over = torch.zeros(len(units), n_heads, is_in.shape[1], device=weights.device)
        over.index_add_(0, of_window, hits[:, :, None] * is_in[:, None])
        under = torch.zeros(len(units), is_in.shape[1], device=weights.device)
        under.index_add_(0, of_window, is_in)
        self._sums[0].add(batch.layer, units, over, under)


def candidates_here(candidates: Candidates, units: Units) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The candidates that their question's window shows: ``[4, candidate]`` window, unit of the asked word, unit of
    the candidate, and place of the question in the batch; ``[candidate]`` whether it is correct; ``[question]`` the
    window; ``[question, group]`` whether it is in a group, as floats."""
    candidates, places = candidates.told_apart(units.left_out), Places(units)
    numbers, windows, rows = places.asked_here(candidates.asked, candidates.by_word)
    of_candidate, questions = expanded(candidates.starts[numbers], candidates.starts[numbers + 1])
    columns, shown = places.find(windows[questions], candidates.words[of_candidate])
    places_shown = np.stack([windows[questions], rows[questions], columns, questions])[:, shown]
    tensor = _to(units.word.device)
    is_right = tensor(candidates.is_right[of_candidate][shown])
    return tensor(places_shown), is_right, tensor(windows), tensor(candidates.is_in[numbers].astype(np.float32))


class TreeHits(SumsStatistic):
    """Shares of undirected edges of trees that heads find, UUAS (Htut et al. 2019, sections 3.1 and 3.2).

    - ``maximum attention``: an edge is found if the maximum of either of its words lies on the other.
    - ``spanning tree``: it is found if it is in the tree of highest total weight that leads from the true root to all
      words, an edge weighing what the upper word gives to the lower.

    Words that do not count, such as punctuation, do not compete, nor do special tokens or the word itself. A sentence
    that is read in windows is left out, for no map shows the whole of it.
    """

    def __init__(self, scope: Scope, trees: TextTrees, *, metric: str) -> None:
        check_level(scope)
        super().__init__(ClusterSums(scope, WAYS, shared=True, metric=metric))
        self._shown = PerBatch(lambda units: _trees_shown(units, trees))

    def update(self, batch: MapBatch) -> None:
        units = batch.units
        shown = self._shown(units)
        over = torch.zeros(len(units), batch.maps.shape[1], 2)
        under = torch.zeros(len(units), 2)
        if len(shown.windows):
            weights = _between(batch.maps, shown)  # [tree, head, word, word]
            edges = [_joined(heads, shown) for heads in (weights.argmax(-1), _heads_of_trees(weights, shown))]
            over[shown.windows] = torch.from_numpy(np.stack(edges, axis=-1)).float()
            under[shown.windows] = torch.from_numpy((shown.parents >= 0).sum(1)[:, None].repeat(2, 1)).float()
        self._sums[0].add(batch.layer, units, over, under)


@dataclass(frozen=True, eq=False)
class _Trees:
    """The trees of a batch; words are numbered among those that count, padded to the largest tree."""

    windows: Tensor  # [tree]
    units: Tensor  # [tree, word]; 0 in padding
    parents: Integers  # [tree, word] −1 where a word has none, and in padding
    roots: Integers  # [tree]
    is_real: NDArray[np.bool_]  # [tree, word] all but padding


def _trees_shown(units: Units, trees: TextTrees) -> _Trees:
    trees, places = trees.told_apart(units.left_out), Places(units)
    is_read = places.counts | np.isin(places.words, units.left_out)
    firsts = np.searchsorted(places.windows, np.arange(len(units) + 1))
    shown = []
    for window, sentence in enumerate(units.sentences.tolist()):
        of_window = slice(firsts[window], firsts[window + 1])
        words = trees.words(sentence) + trees.starts[sentence] if trees.is_asked[sentence] else np.zeros(0, np.int64)
        at, is_shown = places.find(np.full(len(words), window), words)
        if len(words) and is_shown.all() and is_read[of_window].all():
            shown.append((window, at, *trees.parents(sentence)))
    n_words = max((len(at) for _, at, _, _ in shown), default=0)
    windows, roots = (torch.tensor([tree[part] for tree in shown], dtype=torch.long) for part in (0, 3))
    columns = torch.from_numpy(padded([at for _, at, _, _ in shown], n_words, 0))
    parents = padded([of_tree for _, _, of_tree, _ in shown], n_words, -1)
    return _Trees(windows, columns, parents, roots.numpy(), padded([at >= 0 for _, at, _, _ in shown], n_words, False))


def _between(maps: Tensor, trees: _Trees) -> NDArray[np.float32]:
    """``[tree, head, word, word]`` weights between the words that count, −∞ where there are none."""
    windows, units = trees.windows.to(maps.device), trees.units.to(maps.device)
    weights = maps[windows[:, None, None], :, units[:, :, None], units[:, None]].permute(0, 3, 1, 2).cpu().numpy()
    apart = ~(trees.is_real[:, :, None] & trees.is_real[:, None]) | np.eye(units.shape[1], dtype=bool)
    return np.where(apart[:, None], np.float32(-np.inf), weights)


def _joined(heads: Integers, trees: _Trees) -> Integers:
    """``[tree, head]`` how many edges are among those from each word to the one in ``[tree, head, word]``."""
    parents = np.broadcast_to(trees.parents[:, None], heads.shape)
    back = np.take_along_axis(heads, np.maximum(parents, 0), -1)
    is_edge = (heads == parents) | (back == np.arange(heads.shape[-1]))
    return np.asarray(((parents >= 0) & is_edge).sum(-1))


def _heads_of_trees(weights: NDArray[np.float32], trees: _Trees) -> Integers:
    """``[tree, head, word]`` the head of each word in the tree of highest weight from the true root."""
    n_trees, n_heads, n_words = weights.shape[:3]
    scores = weights.astype(np.float64)
    # Padding hangs from the root, where it takes part in nothing.
    tree, word = np.nonzero(~trees.is_real)
    scores[tree, :, trees.roots[tree], word] = 0.0
    flat, roots = scores.reshape(-1, n_words, n_words), np.repeat(trees.roots, n_heads)
    step = max(1, _MOST_SCORES // n_words**2)
    parts = [spanning_arborescences(flat[i : i + step], roots[i : i + step]) for i in range(0, len(flat), step)]
    return np.concatenate(parts).reshape(n_trees, n_heads, n_words)
