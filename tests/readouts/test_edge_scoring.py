from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss

from bertology.readouts import Targets
from bertology.readouts._edge import dev_scores

RANDOM = np.random.default_rng(0)
SCORES = torch.from_numpy(RANDOM.normal(size=(2, 30, 4))).float()
"""Of two fits."""
WEIGHTS = RANDOM.integers(0, 3, size=30).astype(np.float64)


def _in_batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    parts = torch.randperm(30, generator=torch.Generator().manual_seed(0)).split(8)
    return [(items, SCORES[:, items]) for items in parts]


def test_one_class_an_item() -> None:
    labels = RANDOM.integers(0, 4, size=30)
    score, loss = dev_scores(iter(_in_batches()), [0, 0], Targets(labels[None], 4, WEIGHTS[None]), is_sigmoid=False)
    for fit in range(2):
        expected = accuracy_score(labels, SCORES[fit].argmax(1), sample_weight=WEIGHTS)
        assert score[fit] == pytest.approx(expected)
        probs = SCORES[fit].double().softmax(1).numpy()
        assert loss[fit] == pytest.approx(log_loss(labels, probs, sample_weight=WEIGHTS, labels=range(4)), rel=1e-6)


def test_sets_of_classes() -> None:
    labels = RANDOM.random((30, 4)) < 0.4
    score, loss = dev_scores(iter(_in_batches()), [0, 0], Targets(labels[None], 4, WEIGHTS[None]), is_sigmoid=True)
    for fit in range(2):
        repeated = np.repeat(WEIGHTS, 4)
        found = (SCORES[fit] > 0).numpy().ravel()
        assert score[fit] == pytest.approx(f1_score(labels.ravel(), found, sample_weight=repeated))
        probs = SCORES[fit].double().sigmoid().numpy().ravel()
        each = log_loss(labels.ravel(), probs, sample_weight=repeated)
        assert loss[fit] == pytest.approx(4 * each, rel=1e-6)
