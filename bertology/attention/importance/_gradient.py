"""How much the loss would change with a head's gate: importance by gradients (Michel et al. 2019, section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.attention import HeadRatios
from bertology.attention.importance._share import summed
from bertology.attention.importance._task import ScoredTask, TaskBatch, row_loss
from bertology.encoders import Encoder
from bertology.errors import ModelError

Floats = NDArray[np.float64]


def head_importance(task: ScoredTask, *, progress: Progress = silent) -> HeadRatios:
    """The expected sensitivity of the loss to each head: I_h = E_x |∂L(x)/∂ξ_h| (Michel et al. 2019, equation 2).

    ξ_h is a gate of 1 on the head, x a text and L(x) the mean loss of its items. Every row of a batch has gates of its
    own, so that one backward pass gives the gradients of all heads in each text, and their magnitudes are averaged
    over texts, not over batches.

    Args:
        task: what the model does.
        progress: told how many passes are done.

    Returns:
        Two statistics: ``importance``, where the importances of each layer are divided by their ℓ2 norm, as the paper
        does before it ranks heads of all layers; and ``gradient_bits``, as they come. The norms are taken as given in
        intervals.

    Raises:
        ModelError: heads are gated already, cannot be gated in the model's family, or none has a say in the loss.
    """
    encoder = task.encoder

    def add(reader: Encoder, batch: TaskBatch, sums: Sequence[Floats]) -> None:
        over, under = sums
        gradients, counted = _gate_gradients(reader, batch)
        clusters = batch.clusters[counted]
        np.add.at(over.transpose(2, 0, 1), clusters, np.abs(gradients[:, counted]).transpose(1, 0, 2))
        np.add.at(under, clusters, 1)
        progress.advance(1)

    shapes: list[tuple[int, ...]] = [(encoder.n_layers, encoder.n_heads, task.n_clusters), (task.n_clusters,)]
    over, under = summed(task, shapes, add, passes=1, progress=progress)
    norms = np.sqrt(((over.sum(-1) / under.sum()) ** 2).sum(-1))[:, None, None]  # [layer, 1, 1]
    normalised = np.divide(over, norms, out=np.zeros_like(over), where=norms != 0)
    return HeadRatios(
        names=("importance", "gradient_bits"),
        layers=tuple(range(1, encoder.n_layers + 1)),
        over=np.stack([normalised, over]),
        under=np.broadcast_to(under, (2, 1, 1, task.n_clusters)),
    )


def _gate_gradients(encoder: Encoder, batch: TaskBatch) -> tuple[Floats, NDArray[np.bool_]]:
    """``[layer, row, head]`` in bits, and ``[row]`` which rows have items."""
    n_rows, heads = len(batch.ids), range(1, encoder.n_heads + 1)
    gates = torch.ones(encoder.n_layers, n_rows, encoder.n_heads, device=encoder.device, requires_grad=True)
    by_head = {
        (layer, head): gates[layer - 1, :, head - 1] for layer in range(1, encoder.n_layers + 1) for head in heads
    }
    with encoder.gated_heads(by_head):
        answers = batch.ask(encoder)
    with torch.enable_grad():
        losses, counted = row_loss(answers, n_rows)
        if not losses.requires_grad:
            raise ModelError("no head has a say in the loss: the task reads the model below its first block")
        losses.sum().backward()  # type: ignore[no-untyped-call]
    assert gates.grad is not None, "the loss depends on some gate"
    return gates.grad.cpu().double().numpy() / math.log(2), counted.cpu().numpy()
