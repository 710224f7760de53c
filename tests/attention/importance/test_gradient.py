"""Importance by gradients, against moving each gate by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from bertology.attention.importance import MaskedWords, TaskBatch, head_importance
from bertology.encoders import Encoder

STEP = 0.01


def test_equals_finite_differences_text_by_text(own: Encoder, task: MaskedWords) -> None:
    """|L(1 + ε) − L(1 − ε)| / 2ε of every text, one head at a time; then the mean."""
    found = head_importance(task)
    expected = np.zeros((own.n_layers, own.n_heads, task.n_clusters))
    for layer in range(1, own.n_layers + 1):
        for head in range(1, own.n_heads + 1):
            for batch in task.batches:
                slopes = np.abs(
                    text_losses(own, batch, layer, head, 1 + STEP) - text_losses(own, batch, layer, head, 1 - STEP)
                )
                np.add.at(expected[layer - 1, head - 1], batch.clusters, slopes / (2 * STEP))
    np.testing.assert_allclose(found.over[1], expected, rtol=0.02, atol=2e-3)
    np.testing.assert_allclose(found.of("gradient_bits"), expected.sum(-1) / task.n_clusters, rtol=0.02, atol=2e-4)
    assert found.layers == (1, 2, 3)
    assert found.unit == "head"


def text_losses(own: Encoder, batch: TaskBatch, layer: int, head: int, gate: float) -> Any:
    with own.gated_heads({(layer, head): gate}):
        answers = batch.ask(own)
    nats, rows = answers.nats.double().numpy(), answers.rows.numpy()
    return np.array([nats[rows == row].mean() for row in range(len(batch.ids))]) / np.log(2)


def test_a_useless_head_has_none(task: MaskedWords, useless: tuple[int, int]) -> None:
    layer, head = useless
    found = head_importance(task).of("importance")
    assert found[layer - 1, head - 1] == 0
    assert np.count_nonzero(found) == found.size - 1
