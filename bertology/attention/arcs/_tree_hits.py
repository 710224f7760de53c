"""Shares of the edges of trees that a head finds: by its maxima one by one, and by the best tree of its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._ratios import Integers, Scope
from bertology.attention._statistic import ClusterSums, MapBatch, PerBatch, SumsStatistic
from bertology.attention._units import Units
from bertology.attention.arcs._hits import Places, check_level
from bertology.attention.arcs._trees import WAYS, TextTrees
from bertology.measures import spanning_arborescences

_MOST_SCORES = 1 << 19
"""In one call that makes trees: what it works on stays in the cache."""


class TreeHits(SumsStatistic):
    """Shares of undirected edges of trees that heads find, UUAS (Htut et al. 2019, sections 3.1 and 3.2).

    - ``maximum attention``: an edge is found if the maximum of either of its words lies on the other.
    - ``spanning tree``: it is found if it is in the tree of highest total weight that leads from the true root to all
      words, an edge weighing what the upper word gives to the lower.

    Words that do not count, such as punctuation, do not compete, nor do special tokens or the word itself. A sentence
    that is read in windows is left out, for no map shows the whole of it.

    Args:
        scope: what the pass reads; words.
        trees: of the text.
        metric: of the ratios.
    """

    def __init__(self, scope: Scope, trees: TextTrees, *, metric: str) -> None:
        check_level(scope)
        super().__init__(ClusterSums(scope, WAYS, shared=True, metric=metric))
        self._shown = PerBatch(lambda units: _trees_shown(units, trees))

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units = batch.units
        shown = self._shown(units)
        over = torch.zeros(len(units), batch.maps.shape[1], 2)
        under = torch.zeros(len(units), 2)
        if len(shown.windows):
            weights = _between(batch.maps, shown)  # [tree, head, word, word]
            found = np.stack([_edges_of_maxima(weights, shown), _edges_of_trees(weights, shown)], axis=-1)
            over[shown.windows] = torch.from_numpy(found).float()
            under[shown.windows] = torch.from_numpy((shown.parents >= 0).sum(1)[:, None].repeat(2, 1)).float()
        self._sums[0].add(batch.layer, units, over, under)


@dataclass(frozen=True, eq=False)
class _Trees:
    """The trees of a batch; words are numbered among those that count, padded to the largest tree."""

    windows: Tensor
    """``[tree]``"""
    units: Tensor
    """``[tree, word]``; 0 in padding."""
    parents: Integers
    """``[tree, word]`` −1 where a word has none, and in padding."""
    roots: Integers
    """``[tree]``"""
    is_real: NDArray[np.bool_]
    """``[tree, word]`` all but padding."""


def _trees_shown(units: Units, trees: TextTrees) -> _Trees:
    """The trees that the windows of a batch show whole."""
    places = Places(units)
    firsts = np.searchsorted(places.windows, np.arange(len(units) + 1))
    found = []
    for window, sentence in enumerate(units.sentences.tolist()):
        first, last = firsts[window], firsts[window + 1]
        words = trees.words(sentence) + trees.starts[sentence] if trees.is_asked[sentence] else np.zeros(0, np.int64)
        at, is_shown = places.find(np.full(len(words), window), words)
        if len(words) and is_shown.all() and places.counts[first:last].all():
            found.append((window, at, *trees.parents(sentence)))
    n_words = max((len(at) for _, at, _, _ in found), default=0)
    columns, parents = (np.full((len(found), n_words), fill, dtype=np.int64) for fill in (0, -1))
    is_real = np.zeros((len(found), n_words), dtype=bool)
    for row, (_, at, own_parents, _) in enumerate(found):
        columns[row, : len(at)], parents[row, : len(at)], is_real[row, : len(at)] = at, own_parents, True
    windows = torch.tensor([window for window, *_ in found], dtype=torch.long)
    roots = np.array([root for *_, root in found], dtype=np.int64)
    return _Trees(windows, torch.from_numpy(columns), parents, roots, is_real)


def _between(maps: Tensor, trees: _Trees) -> NDArray[np.float32]:
    """``[tree, head, word, word]`` weights between the words that count, −∞ where there are none."""
    windows, units = trees.windows.to(maps.device), trees.units.to(maps.device)
    weights = maps[windows[:, None, None], :, units[:, :, None], units[:, None]].permute(0, 3, 1, 2).cpu().numpy()
    apart = ~(trees.is_real[:, :, None] & trees.is_real[:, None]) | np.eye(units.shape[1], dtype=bool)
    return np.where(apart[:, None], np.float32(-np.inf), weights)


def _joined(heads: Integers, trees: _Trees) -> Integers:
    """``[tree, head]`` how many edges are among those from each word to the one in ``[tree, head, word]``."""
    parents = np.broadcast_to(trees.parents[:, None], heads.shape)
    places = np.arange(heads.shape[-1])
    back = np.take_along_axis(heads, np.maximum(parents, 0), -1)
    found: Integers = ((parents >= 0) & ((heads == parents) | (back == places))).sum(-1)
    return found


def _edges_of_maxima(weights: NDArray[np.float32], trees: _Trees) -> Integers:
    return _joined(weights.argmax(-1), trees)


def _edges_of_trees(weights: NDArray[np.float32], trees: _Trees) -> Integers:
    n_trees, n_heads, n_words = weights.shape[:3]
    scores = weights.astype(np.float64)
    # Padding hangs from the root, where it takes part in nothing.
    tree, word = np.nonzero(~trees.is_real)
    scores[tree, :, trees.roots[tree], word] = 0.0
    flat, roots = scores.reshape(-1, n_words, n_words), np.repeat(trees.roots, n_heads)
    step = max(1, _MOST_SCORES // n_words**2)
    parts = [spanning_arborescences(flat[i : i + step], roots[i : i + step]) for i in range(0, len(flat), step)]
    return _joined(np.concatenate(parts).reshape(n_trees, n_heads, n_words), trees)
