"""From scores of classes to predictions and accuracies, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.readouts._base import Predictions, Targets, item_weights

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
