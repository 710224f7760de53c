"""Importance by gradients, against moving each gate by hand."""

from typing import Any

import numpy as np

from bertology.attention.importance import MaskedWords, head_importance
from bertology.encoders import Encoder
from bertology.encoders.masked_loss import MaskedBatch

STEP = 0.01


def test_equals_finite_differences_text_by_text(own: Encoder, task: MaskedWords) -> None:
    """|L(1 + ε) − L(1 − ε)| / 2ε of every text, one head at a time; then the mean."""
    found = head_importance(task)
    expected = np.zeros((own.n_layers, own.n_heads, task.n_clusters))
    for layer in range(1, own.n_layers + 1):
        for head in range(1, own.n_heads + 1):
            for batch in task.batches:
                up, down = (text_losses(own, task, batch, layer, head, gate) for gate in (1 + STEP, 1 - STEP))
                slopes = np.abs(up - down)
                np.add.at(expected[layer - 1, head - 1], task.clusters(batch), slopes / (2 * STEP))
    np.testing.assert_allclose(found.over[1], expected, rtol=0.02, atol=2e-3)
    np.testing.assert_allclose(found.of("gradient_bits"), expected.sum(-1) / task.n_clusters, rtol=0.02, atol=2e-4)
    assert found.layers == (1, 2, 3)
    assert found.unit == "head"


def text_losses(own: Encoder, task: MaskedWords, batch: MaskedBatch, layer: int, head: int, gate: float) -> Any:
    with own.gated_heads({(layer, head): gate}):
        answers = task.ask(own, batch)
    nats, rows = answers.loss.double().numpy(), answers.texts.numpy()
    return np.array([nats[rows == row].mean() for row in range(len(batch.ids))]) / np.log(2)
