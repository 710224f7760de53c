"""Which edges of trees a head finds: by its maxima one by one, and as the best tree that its weights make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._batch import MapBatch, Scope, Units
from bertology.attention._statistic import ClusterSums, SumsStatistic
from bertology.attention.arcs._places import Places, check_level
from bertology.attention.arcs._trees import WAYS, TextTrees
from bertology.measures import spanning_arborescences

Integers = NDArray[np.int64]
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
        trees: what is asked.
        metric: what the ratios are called.
    """

    def __init__(self, scope: Scope, trees: TextTrees, *, metric: str) -> None:
        check_level(scope)
        self._trees = trees
        super().__init__(ClusterSums(scope, WAYS, shared=True, metric=metric))
        self._units: Units | None = None

    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer."""
        units = batch.units
        if self._units is not units:
            self._asked, self._units = _ask(units, self._trees), units
        asked = self._asked
        over = torch.zeros(len(units), batch.maps.shape[1], 2)
        under = torch.zeros(len(units), 2)
        if len(asked.windows):
            weights = _between(batch.maps, asked)  # [tree, head, word, word]
            found = np.stack([_edges_of_maxima(weights, asked), _edges_of_trees(weights, asked)], axis=-1)
            over[asked.windows] = torch.from_numpy(found).float()
            under[asked.windows] = torch.from_numpy((asked.parents >= 0).sum(1)[:, None].repeat(2, 1)).float()
        self._sums[0].add(batch.layer, units, over, under)


@dataclass(frozen=True, eq=False)
class _Asked:
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


def _ask(units: Units, trees: TextTrees) -> _Asked:
    """The trees that the windows of a batch show whole."""
    places = Places(units)
    firsts = np.searchsorted(places.windows, np.arange(len(units) + 1))
    found = []
    for window, sentence in enumerate(units.sentences.tolist()):
        first, last = firsts[window], firsts[window + 1]
        own = trees.words(sentence) + trees.starts[sentence] if trees.is_asked[sentence] else np.zeros(0, np.int64)
        at, shown = places.find(np.full(len(own), window), own)
        if len(own) and shown.all() and places.counts[first:last].all():
            found.append((window, at, *trees.parents(sentence)))
    n_words = max((len(at) for _, at, _, _ in found), default=0)
    columns, parents = (np.full((len(found), n_words), fill, dtype=np.int64) for fill in (0, -1))
    is_real = np.zeros((len(found), n_words), dtype=bool)
    for row, (_, at, own_parents, _) in enumerate(found):
        columns[row, : len(at)], parents[row, : len(at)], is_real[row, : len(at)] = at, own_parents, True
    windows = torch.tensor([window for window, *_ in found], dtype=torch.long)
    roots = np.array([root for *_, root in found], dtype=np.int64)
    return _Asked(windows, torch.from_numpy(columns), parents, roots, is_real)


def _between(maps: Tensor, asked: _Asked) -> NDArray[np.float32]:
    """``[tree, head, word, word]`` weights between the words that count, −∞ where there are none."""
    windows, units = asked.windows.to(maps.device), asked.units.to(maps.device)
    weights = maps[windows[:, None, None], :, units[:, :, None], units[:, None]].permute(0, 3, 1, 2).cpu().numpy()
    apart = ~(asked.is_real[:, :, None] & asked.is_real[:, None]) | np.eye(units.shape[1], dtype=bool)
    return np.where(apart[:, None], np.float32(-np.inf), weights)


def _joined(heads: Integers, asked: _Asked) -> Integers:
    """``[tree, head]`` how many edges are among those from each word to the one in ``[tree, head, word]``."""
    parents = np.broadcast_to(asked.parents[:, None], heads.shape)
    places = np.arange(heads.shape[-1])
    back = np.take_along_axis(heads, np.maximum(parents, 0), -1)
    found: Integers = ((parents >= 0) & ((heads == parents) | (back == places))).sum(-1)
    return found


def _edges_of_maxima(weights: NDArray[np.float32], asked: _Asked) -> Integers:
    return _joined(weights.argmax(-1), asked)


def _edges_of_trees(weights: NDArray[np.float32], asked: _Asked) -> Integers:
    n_trees, n_heads, n_words = weights.shape[:3]
    scores = weights.astype(np.float64)
    # Padding hangs from the root, where it takes part in nothing.
    tree, word = np.nonzero(~asked.is_real)
    scores[tree, :, asked.roots[tree], word] = 0.0
    flat, roots = scores.reshape(-1, n_words, n_words), np.repeat(asked.roots, n_heads)
    step = max(1, _MOST_SCORES // n_words**2)
    parts = [spanning_arborescences(flat[i : i + step], roots[i : i + step]) for i in range(0, len(flat), step)]
    return _joined(np.concatenate(parts).reshape(n_trees, n_heads, n_words), asked)
