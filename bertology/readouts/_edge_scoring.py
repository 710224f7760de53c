"""From scores of edge probes to predictions, probabilities and the number they are chosen by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.readouts._base import Predictions, Targets, item_weights
from bertology.readouts._edge_model import Batch, Group, Parameters
from bertology.readouts._edge_training import log_probs
from bertology.readouts._edge_windows import scoring_windows
from bertology.readouts._scoring import IMPOSSIBLE
from bertology.readouts._spans import SpanSource

Scored = Iterator[tuple[Tensor, Tensor]]
"""Item numbers ``[m]`` and scores ``[fit, m, class]``, on the processor, classes that cannot be left out."""


@dataclass(frozen=True)
class Scorer:
    """Probes as they are now, in groups that are computed side by side."""

    parts: Sequence[tuple[Group, Parameters]]
    absent: Tensor | None
    """``[problem, 1, class]`` added to scores."""
    workers: Workers
    device: torch.device

    @property
    def problems(self) -> list[int]:
        """``[fit]`` the problem of each."""
        return [problem for group, _ in self.parts for problem in group.problems]

    def __call__(self, source: SpanSource) -> Scored:
        """Score every item of a source."""
        which = torch.tensor(self.problems)
        absent = None if self.absent is None else self.absent.cpu()[which]
        for window in scoring_windows(source):
            window = window.to(self.device)
            for batch in window.batches:
                scores = torch.cat(self.workers.map(self._job(window.words, batch), len(self.parts))).cpu()
                yield batch.items.cpu(), scores if absent is None else scores + absent

    def _job(self, words: Tensor, batch: Batch) -> Callable[[int], Tensor]:
        def job(number: int) -> Tensor:
            group, parameters = self.parts[number]
            with torch.inference_mode():
                return group.scores(parameters, words, batch)

        return job


def dev_scores(
    scored: Scored, problems: Sequence[int], targets: Targets, *, is_sigmoid: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``[fit]`` weighted accuracy, or micro F1 (Tenney et al. 2019a, section 3) where items have several labels; and
    ``[fit]`` the loss per item in nats.

    Args:
        scored: every item.
        problems: ``[fit]`` the problem of each.
        targets: the right classes.
        is_sigmoid: whether each class is judged on its own.
    """
    which = torch.tensor(problems)
    labels, weights = torch.from_numpy(targets.labels), torch.from_numpy(item_weights(targets)).double()
    right, found, there, loss = torch.zeros(4, len(which), dtype=torch.float64)
    for items, scores in scored:
        truth, weight = labels[:, items][which], weights[:, items][which]
        asked = truth if targets.is_multi_label else truth.clamp(min=0)
        loss -= (log_probs(scores, asked, is_sigmoid=is_sigmoid) * weight).sum(1)
        if targets.is_multi_label:
            positive = scores > 0
            right += ((positive & truth).sum(2) * weight).sum(1)
            found += (positive.sum(2) * weight).sum(1)
            there += (truth.sum(2) * weight).sum(1)
        else:
            right += ((scores.argmax(2) == truth) * weight).sum(1)
            found += weight.sum(1)
            there += weight.sum(1)
    return (2 * right / (found + there)).numpy(), (loss / weights[which].sum(1)).numpy()


def predicted(
    scored: Scored, shape: tuple[int, int, int], *, n_classes: int, is_sigmoid: bool, is_multi: bool
) -> Predictions:
    """What each fit says of every item.

    Args:
        scored: every item.
        shape: numbers of problems, columns and items.
        n_classes: how many classes there are.
        is_sigmoid: whether each class is judged on its own.
        is_multi: whether items may have several labels.
    """
    n_fits, n_items = shape[0] * shape[1], shape[2]
    labels = np.empty((n_fits, n_items, n_classes), bool) if is_multi else np.empty((n_fits, n_items), np.int64)
    log_prob = np.empty((n_fits, n_items), dtype=np.float32)
    for items, scores in scored:
        best = scores > 0 if is_multi else scores.argmax(2)
        labels[:, items.numpy()] = best.numpy()
        log_prob[:, items.numpy()] = log_probs(scores, best, is_sigmoid=is_sigmoid).numpy()
    return Predictions(labels.reshape(*shape, *labels.shape[2:]), log_prob.reshape(shape))


def given(
    scored: Scored, shape: tuple[int, int, int], labels: NDArray[np.int64] | NDArray[np.bool_], *, is_sigmoid: bool
) -> NDArray[np.float64]:
    """``[problem, column, item]`` natural logarithm of the probability of given ``labels``.

    NaN for −1; −∞ where a class was asked for that the training data do not have.
    """
    which = torch.arange(shape[0]).repeat_interleave(shape[1])
    truth = torch.from_numpy(labels)
    found = np.empty((len(which), shape[2]))
    for items, scores in scored:
        wanted = truth[:, items][which]
        known = log_probs(scores, wanted.clamp(min=0) if wanted.ndim == 2 else wanted, is_sigmoid=is_sigmoid).double()
        known = known.masked_fill(known < IMPOSSIBLE / 2, -torch.inf)
        if wanted.ndim == 2:
            known = known.masked_fill(wanted < 0, torch.nan)
        found[:, items.numpy()] = known.numpy()
    return found.reshape(shape)
