"""From scores of classes to predictions and accuracies, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts._base import Predictions, Targets, check_agreement, item_weights
from bertology.readouts._features import FeatureSource

Scores = Iterable[tuple[Tensor, int, Tensor]]
"""Item numbers ``[m]``, the place of a layer, and scores ``[problem, option, class, m]`` under each of some options."""
IMPOSSIBLE = -1e9
"""Added to the score of a class that the training data of a problem do not have, so that it is never predicted."""


def accuracies(scores: Scores, shape: tuple[int, int, int], targets: Targets) -> NDArray[np.float64]:
    """Part of the labelled items whose class has the highest score.

    Args:
        scores: of every item in every layer.
        shape: numbers of problems, layers and options.
        targets: the right classes.

    Returns:
        ``[problem, layer, option]``
    """
    labels, weights = torch.from_numpy(targets.labels), torch.from_numpy(item_weights(targets))
    correct = torch.zeros(shape, dtype=torch.float64)
    for items, layer, found in scores:
        right = found.argmax(2).cpu() == labels[:, None, items]  # [problem, option, m]
        correct[:, layer] += (right * weights[:, None, items]).sum(2, dtype=torch.float64)
    accuracy: NDArray[np.float64] = (correct / weights.sum(1, dtype=torch.float64)[:, None, None]).numpy()
    return accuracy


def predictions(scores: Scores, shape: tuple[int, int, int], *, are_logits: bool) -> Predictions:
    """The class with the highest score of every item under the only option.

    Args:
        scores: of every item in every layer.
        shape: numbers of problems, layers and items.
        are_logits: whether their softmax is a probability; ``log_prob`` is NaN otherwise.
    """
    labels = np.empty(shape, dtype=np.int64)
    log_prob = np.full(shape, np.nan, dtype=np.float32)
    for items, layer, found in scores:
        best, label = found.squeeze(1).max(1)  # [problem, m]
        labels[:, layer, items.numpy()] = label.cpu().numpy()
        if are_logits:
            log_prob[:, layer, items.numpy()] = (best - found.squeeze(1).logsumexp(1)).cpu().numpy()
    return Predictions(labels, log_prob)


def label_log_probs(scores: Scores, shape: tuple[int, int, int], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Natural logarithm of the probability of one class of every item under the only option.

    Args:
        scores: logits of every item in every layer.
        shape: numbers of problems, layers and items.
        labels: ``[problem, item]``, −1 where none is asked about.

    Returns:
        ``[problem, layer, item]``: NaN where none is asked about, −∞ for a class that cannot be.
    """
    asked = torch.from_numpy(labels)
    found = np.full(shape, np.nan)
    for items, layer, logits in scores:
        mine = asked[:, items].to(logits.device)  # [problem, m]
        by_class = logits.squeeze(1).double()
        log_prob = by_class.gather(1, mine.clamp(min=0)[:, None]).squeeze(1) - by_class.logsumexp(1)
        log_prob = log_prob.where(log_prob > IMPOSSIBLE / 2, -torch.inf).where(mine >= 0, torch.nan)
        found[:, layer, items.numpy()] = log_prob.cpu().numpy()
    return found


def check_asked(source: FeatureSource, labels: NDArray[np.int64], *, n_problems: int, n_classes: int) -> None:
    """Raise :class:`FitError` unless ``labels`` are classes of the items of ``source`` in every problem."""
    check_agreement(source, Targets(labels, n_classes), "the source")
    if len(labels) != n_problems:
        raise FitError(f"labels are of {len(labels)} problems: the readout was fitted to {n_problems}, give a row each")
