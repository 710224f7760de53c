"""Distances between heads, heads on a plane and in clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._ratios import Floats, Scope
from bertology.attention._statistic import HeadStatistic, MapBatch, PerBatch
from bertology.attention._texts import Units
from bertology.errors import ResultsError

_CHUNK_VALUES = 1 << 16
"""Number of attention weights that are compared together: as many as stay in the processor's caches."""
_TINY = 1e-30
"""Keeps the logarithm of 0 finite."""


@dataclass(frozen=True, eq=False)
class HeadDistances:
    """Jensen–Shannon divergences between heads, averaged over words."""

    matrix: Floats
    """``[head, head]`` in nats, 0 (the same attention) to ln 2 (no unit in common); heads of the first layer first."""
    layers: tuple[int, ...]
    n_heads: int
    n_rows: int
    """Number of words whose attention was compared."""

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
        numbers = fcluster(tree, n_clusters, criterion="maxclust")
        order = {cluster: number for number, cluster in enumerate(dict.fromkeys(numbers.tolist()), start=1)}
        return np.array([order[cluster] for cluster in numbers.tolist()])


class Divergences(HeadStatistic):
    """Jensen–Shannon divergence of the attention of every two heads, averaged over words (Clark et al. 2019, §6).

    All pairs of 144 heads make 10,296 distributions a word, so words are drawn: up to ``rows`` of each sentence (or
    window), the same ones whatever it is batched with; each is weighted for the words that were not drawn.

    Args:
        scope: what the pass reads.
        rows: number of words of a sentence that are compared; None for all.
        seed: of the drawing.
    """

    def __init__(self, scope: Scope, *, rows: int | None = 8, seed: int = 0) -> None:
        self._scope, self._rows, self._seed = scope, rows, seed
        n = len(scope.layers) * scope.n_heads
        self._sums = torch.zeros(n, n, dtype=torch.float64)
        self._weight, self._n_rows = 0.0, 0
        self._held: list[Tensor] = []
        self._drawn = PerBatch(self._draw)

    def update(self, batch: MapBatch) -> None:
        """Hold the drawn rows of one layer; with the last layer, compare them."""
        sentences, rows, weights = self._drawn(batch.units)
        self._held.append(batch.maps.transpose(0, 1)[:, sentences, rows])  # [head, row, unit]
        if batch.layer == self._scope.layers[-1]:
            self._sums += divergences(torch.cat(self._held), weights)
            self._weight += float(weights.sum())
            self._n_rows += len(rows)
            self._held = []

    def merge(self, other: Divergences) -> None:
        self._sums += other._sums
        self._weight += other._weight
        self._n_rows += other._n_rows

    def finish(self) -> HeadDistances:
        mean = self._sums.numpy() / self._weight
        # Rounding must not make a divergence of nothing negative.
        return HeadDistances(np.maximum(mean, 0), self._scope.layers, self._scope.n_heads, self._n_rows)

    def _draw(self, units: Units) -> tuple[Tensor, Tensor, Tensor]:
        """``[row]`` the sentence and unit of each word that is compared, and how much it counts."""
        sentences, rows, weights = [], [], []
        for place, is_row in enumerate(units.word_rows.cpu().numpy()):
            chosen = np.flatnonzero(is_row)
            n = len(chosen)
            if self._rows is not None and n > self._rows:
                generator = np.random.default_rng([self._seed, int(units.windows[place])])
                chosen = np.sort(generator.choice(chosen, self._rows, replace=False))
            sentences.append(np.full(len(chosen), place))
            rows.append(chosen)
            weights.append(np.full(len(chosen), n / max(1, len(chosen)), dtype=np.float32))
        parts = (torch.from_numpy(np.concatenate(part)) for part in (sentences, rows, weights))
        places, drawn, shares = (part.to(units.word.device) for part in parts)
        return places, drawn, shares


def divergences(rows: Tensor, weights: Tensor) -> Tensor:
    """``[head, head]`` Jensen–Shannon divergences in nats of ``[head, row, unit]`` attention, whatever its sum, summed
    over rows, each of which counts ``[row]`` its weight; on the processor."""
    n_heads, n_rows, n_units = rows.shape
    far = n_heads // 2
    alone = torch.zeros(n_heads, dtype=torch.float64)
    # Of head h and the one d after it, the last being followed by the first: so every step is of equal size.
    both = torch.zeros(far, n_heads, dtype=torch.float64)
    step = max(1, _CHUNK_VALUES // (n_heads * n_units))
    for start in range(0, n_rows, step):
        part = rows[:, start : start + step]
        # Half of each distribution, so that two add up to their mean, times the row's weight, so that one sum serves
        # all rows: Σ w·m·ln(w·m) differs from w·Σ m·ln m by w·ln w, which is the same for all heads and cancels.
        shares = (weights[start : start + step].to(part) / 2)[:, None] / part.sum(-1, keepdim=True).clamp_min(_TINY)
        # Cells that no head attends to, such as padding, are left out.
        halves = (part * shares).add_(_TINY).flatten(1)[:, part.any(0).flatten()]
        whole = 2 * halves
        alone += whole.log().mul_(whole).sum(-1).cpu()
        both += _pairs_plogp(halves, far).cpu()
    first = torch.arange(n_heads).expand(far, -1)
    second = (first + torch.arange(1, far + 1)[:, None]) % n_heads
    sums = torch.zeros(n_heads, n_heads, dtype=torch.float64)
    sums[first, second] = sums[second, first] = (alone[first] + alone[second]) / 2 - both
    return sums


def _pairs_plogp(halves: Tensor, far: int) -> Tensor:
    """``[distance, head]`` Σ m·ln m of each head's halves added to those of the head that is so far behind it."""
    n_heads = len(halves)
    twice = torch.cat([halves, halves[:far]])
    mean, logs = torch.empty_like(halves), torch.empty_like(halves)
    totals = halves.new_empty(far, n_heads)
    for number, sums in enumerate(totals.unbind(), start=1):
        torch.add(halves, twice[number : number + n_heads], out=mean)
        torch.log(mean, out=logs)
        torch.sum(logs.mul_(mean), dim=-1, out=sums)
    return totals
