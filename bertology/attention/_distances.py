"""How far heads are from each other, on a plane and in clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._batch import MapBatch, Scope, Units
from bertology.attention._ratios import Floats
from bertology.attention._statistic import HeadStatistic
from bertology.errors import ResultsError

_CHUNK_VALUES = 1 << 17
"""Of attention weights that are compared together: as many as stay in the processor's caches."""
_TINY = 1e-30
"""Keeps the logarithm of nothing finite."""


@dataclass(frozen=True, eq=False)
class HeadDistances:
    """Jensen–Shannon divergences between heads, averaged over words."""

    matrix: Floats
    """``[head, head]`` in nats, 0 (the same attention) to ln 2 (no unit in common); heads of the first layer first."""
    layers: tuple[int, ...]
    n_heads: int
    n_rows: int
    """How many words' attention was compared."""

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads, ``L1H1`` and so on, in the order of the matrix."""
        return tuple(f"L{layer}H{head}" for layer in self.layers for head in range(1, self.n_heads + 1))

    def mds(self, *, seed: int = 0) -> Floats:
        """``[head, 2]`` places on a plane, as far from each other as the heads are (Clark et al. 2019, section 6).

        Metric multidimensional scaling from the best of four starts.
        """
        from sklearn.manifold import smacof

        places, _ = smacof(self.matrix, n_components=2, n_init=4, random_state=seed, eps=1e-6, normalized_stress=False)
        return np.asarray(places, dtype=np.float64)

    def clusters(self, n_clusters: int) -> NDArray[np.int64]:
        """``[head]`` cluster of each, from 1 in order of their first heads, by average linkage.

        Raises:
            ResultsError: fewer than one cluster is asked for, or more than there are heads.
        """
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform

        if not 1 <= n_clusters <= len(self.matrix):
            raise ResultsError(f"{n_clusters} clusters of {len(self.matrix)} heads: ask for 1 to {len(self.matrix)}")
        tree = linkage(squareform(self.matrix, checks=False), method="average")
        found = fcluster(tree, n_clusters, criterion="maxclust")
        order = {cluster: number for number, cluster in enumerate(dict.fromkeys(found.tolist()), start=1)}
        return np.array([order[cluster] for cluster in found.tolist()])


class Divergences(HeadStatistic):
    """Jensen–Shannon divergence of the attention of every two heads, averaged over words (Clark et al. 2019, §6).

    All pairs of 144 heads make 10,296 distributions a word, so words are drawn: up to ``rows`` of each sentence (or
    window), the same ones whatever it is batched with; each stands for its share of the words that were not drawn.

    Args:
        scope: what the pass reads.
        rows: how many words of a sentence are looked at; None for all.
        seed: of the drawing.
    """

    def __init__(self, scope: Scope, *, rows: int | None = 8, seed: int = 0) -> None:
        self._scope, self._rows, self._seed = scope, rows, seed
        n = len(scope.layers) * scope.n_heads
        self._sums = torch.zeros(n, n, dtype=torch.float64)
        self._weight = 0.0
        self._n_rows = 0
        self._held: list[Tensor] = []
        self._of: Units | None = None
        self._drawn = (torch.empty(0), torch.empty(0), torch.empty(0))

    def update(self, batch: MapBatch) -> None:
        """Hold the drawn rows of one layer; with the last layer, compare them."""
        if self._of is not batch.units:
            self._held, self._of = [], batch.units
            self._drawn = self._draw(batch.units)
        sentences, rows, weights = self._drawn
        self._held.append(batch.maps[sentences, :, rows])  # [row, head, unit]
        if batch.layer == self._scope.layers[-1]:
            self._sums += divergences(torch.cat(self._held, dim=1), weights)
            self._weight += float(weights.sum())
            self._n_rows += len(rows)
            self._held, self._of = [], None

    def merge(self, other: Divergences) -> None:
        """Add the sums of another thread."""
        self._sums += other._sums
        self._weight += other._weight
        self._n_rows += other._n_rows

    def finish(self) -> HeadDistances:
        """The mean divergences."""
        mean = self._sums.numpy() / self._weight
        # Rounding must not make a divergence of nothing negative.
        return HeadDistances(np.maximum(mean, 0), self._scope.layers, self._scope.n_heads, self._n_rows)

    def _draw(self, units: Units) -> tuple[Tensor, Tensor, Tensor]:
        sentences, rows, weights = [], [], []
        for place, candidates in enumerate(units.word_rows.cpu().numpy()):
            chosen = np.flatnonzero(candidates)
            n = len(chosen)
            if self._rows is not None and n > self._rows:
                generator = np.random.default_rng([self._seed, int(units.windows[place])])
                chosen = np.sort(generator.choice(chosen, self._rows, replace=False))
            sentences.append(np.full(len(chosen), place))
            rows.append(chosen)
            weights.append(np.full(len(chosen), n / max(1, len(chosen)), dtype=np.float32))
        device = units.word.device
        places, drawn, shares = (torch.from_numpy(np.concatenate(part)) for part in (sentences, rows, weights))
        return places.to(device), drawn.to(device), shares.to(device)


def divergences(rows: Tensor, weights: Tensor) -> Tensor:
    """Jensen–Shannon divergences of heads, summed over rows: ``[head, head]`` in nats, on the processor.

    Args:
        rows: ``[row, head, unit]`` attention of one word by every head, whatever its sum.
        weights: ``[row]`` how much each counts.
    """
    n_rows, n_heads, n_units = rows.shape
    sums = torch.zeros(n_heads, n_heads, dtype=torch.float64)
    step = max(1, _CHUNK_VALUES // (n_heads * n_units))
    for start in range(0, n_rows, step):
        part, weight = rows[start : start + step], weights[start : start + step].to(rows)
        # Half of each distribution, so that two add up to their mean, times the row's weight w, so that one sum serves
        # all rows: Σ w·m·ln(w·m) differs from w·Σ m·ln m by w·ln w, which is the same for all and cancels.
        halves = part / part.sum(-1, keepdim=True).clamp_min(_TINY) * (weight / 2)[:, None, None] + _TINY
        halves = halves.transpose(0, 1).reshape(n_heads, -1)  # [head, row · unit]
        own = _plogp(2 * halves)
        found = rows.new_zeros(n_heads, n_heads)
        for head in range(n_heads - 1):
            found[head, head + 1 :] = (own[head + 1 :] + own[head]) / 2 - _plogp(halves[head + 1 :] + halves[head])
        sums += found.cpu().double()
    return sums + sums.T


def _plogp(shares: Tensor) -> Tensor:
    return shares.log().mul_(shares).sum(-1)
