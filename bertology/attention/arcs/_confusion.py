"""How much of the attention to candidates misses the correct ones, in bits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from bertology.attention._ratios import HeadRatios, Scope
from bertology.attention._statistic import ClusterSums, MapBatch, PerBatch, SumsStatistic
from bertology.attention.arcs._hits import candidates_here, check_level
from bertology.attention.arcs._questions import Candidates

_LEAST = 1e-9
"""Added to attention, so that a word which attends to no candidate is as confused as chance."""


class CandidateConfusion(SumsStatistic):
    """Mean confusion of attention about candidates, in bits, and how far it is above chance (Lin, Tan & Frank 2019).

    Of the attention from a word to all candidates of its question a share p goes to the correct ones; confusion is
    −log₂ p, and by chance −log₂ of the share that the correct ones are of all candidates. Ratios of every head, and of
    every layer with the attention of its heads averaged first, as in the paper. The names of the ratios are the groups
    of questions. Where a sentence is read in windows, candidates that the asked word's window does not show are left
    out, and so are questions of which it shows no correct one.

    Args:
        scope: what is read.
        candidates: the questions.
        metrics: names of the confusion, and of the same less that of chance.
    """

    def __init__(self, scope: Scope, candidates: Candidates, *, metrics: tuple[str, str]) -> None:
        check_level(scope)
        both = scope, replace(scope, n_heads=1)
        super().__init__(
            *(ClusterSums(one, candidates.names, shared=True, metric=metric) for one in both for metric in metrics)
        )
        self._questions = PerBatch(partial(candidates_here, candidates))

    def update(self, batch: MapBatch) -> None:
        (windows, rows, columns, questions), is_right, of_window, is_in = self._questions(batch.units)
        by_head = batch.maps[windows, :, rows, columns] + _LEAST  # [candidate, head]
        n_groups, counted = is_in.shape[1], torch.zeros(len(of_window), 2, device=by_head.device)
        counted.index_add_(0, questions, torch.stack([torch.ones_like(is_right), is_right], dim=1).float())
        is_shown = counted[:, 1] > 0
        in_group = is_in * is_shown[:, None]  # [question, group]
        chance = torch.where(is_shown, torch.log2(counted[:, 0] / counted[:, 1].clamp(min=1)), 0.0)

        def by_window(values: Tensor) -> Tensor:
            """``[window, head, group]`` sums of values ``[question, head]``."""
            sums = torch.zeros(len(batch.units), values.shape[1], n_groups, device=values.device)
            return sums.index_add_(0, of_window, values[:, :, None] * in_group[:, None])

        ones = by_window(torch.ones_like(chance)[:, None])[:, 0]
        for place, weights in enumerate((by_head, by_head.mean(1, keepdim=True))):
            sums = torch.zeros(2, len(of_window), weights.shape[1], device=weights.device)
            sums[0].index_add_(0, questions, weights)
            sums[1].index_add_(0, questions[is_right], weights[is_right])
            bits = torch.where(is_shown[:, None], torch.log2(sums[0] / sums[1].clamp(min=_LEAST)), 0.0)
            for number, values in enumerate((bits, bits - chance[:, None])):
                self._sums[2 * place + number].add(batch.layer, batch.units, by_window(values), ones)

    def finish(self) -> tuple[HeadRatios, ...]:
        """Confusion of heads and by how much it is above chance, and both of layers."""
        heads, layers = self._sums[:2], self._sums[2:]
        return (
            *(sums.finish() for sums in heads),
            *(replace(sums.finish(), unit="layer") for sums in layers),
        )
