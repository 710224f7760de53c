"""Importance by gradients: of the loss with each head's gate, and with each attention weight."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology.activations import Progress, silent
from bertology.attention._pass import taking_maps
from bertology.attention._ratios import Floats, HeadRatios
from bertology.attention.importance._tasks import Answers, ScoredTask, TaskBatch, summed
from bertology.encoders import Encoder
from bertology.encoders.interventions import changing
from bertology.errors import ModelError

TARGETS = ("[CLS]", "[SEP]", "[MASK]", "punctuation", "other")
STATISTICS = ("attention_gradient_bits", "attention_effect_bits")


def head_importance(task: ScoredTask, *, progress: Progress = silent) -> HeadRatios:
    """The expected sensitivity of the loss to each head: I_h = E_x |∂L(x)/∂ξ_h| (Michel et al. 2019, equation 2).

    ξ_h is a gate of 1 on the head, x a text and L(x) the mean loss of its items. Every row of a batch has its own
    gates, so that one backward pass gives the gradients of all heads in each text, and their magnitudes are averaged
    over texts, not over batches.

    Args:
        task: of the model.
        progress: counts passes.

    Returns:
        Two statistics: ``importance``, where the importances of each layer are divided by their ℓ2 norm, as the paper
        does before it ranks heads of all layers; and ``gradient_bits``, as they come. The norms are taken as given in
        intervals.

    Raises:
        ModelError: heads are gated already, cannot be gated in the model's family, or none affects the loss.
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
    both, under = np.stack([normalised, over]), np.broadcast_to(under, (2, 1, 1, task.n_clusters))
    return HeadRatios(("importance", "gradient_bits"), task.layers, both, under)


def _gate_gradients(encoder: Encoder, batch: TaskBatch) -> tuple[Floats, NDArray[np.bool_]]:
    """``[layer, row, head]`` in bits, and ``[row]`` which rows have items."""
    n_rows = len(batch.ids)
    gates = torch.ones(encoder.n_layers, n_rows, encoder.n_heads, device=encoder.device, requires_grad=True)
    heads = np.ndindex(encoder.n_layers, encoder.n_heads)
    with encoder.gated_heads({(layer + 1, head + 1): gates[layer, :, head] for layer, head in heads}):
        answers = batch.ask(encoder)
    with torch.enable_grad():
        losses, counted = _row_loss(answers, n_rows)
        if not losses.requires_grad:
            raise ModelError("no head has a say in the loss: the task reads the model below its first block")
        losses.sum().backward()  # type: ignore[no-untyped-call]
    assert gates.grad is not None, "the loss depends on some gate"
    return gates.grad.cpu().double().numpy() / math.log(2), counted.cpu().numpy()


def attention_gradients(task: ScoredTask, *, progress: Progress = silent) -> tuple[HeadRatios, HeadRatios]:
    """How much attention to ``[SEP]``, and to other kinds of pieces, matters for the loss (Clark et al. 2019, §3.3).

    With α the weight that a head gives from one piece to another, and L the mean loss of a text's items,
    ``attention_gradient_bits`` is the mean of |∂L/∂α| over all pairs whose target is of a kind: the paper's figure 4.
    It measures how much the loss would change with more attention there, not how much attention there is. For that,
    ``attention_effect_bits`` is the mean over texts of |Σ α · ∂L/∂α|, summed over all pairs of a kind: what the loss
    would change by, to first order, with a gate on the head's attention to that kind. Signed, these sums add up to the
    gradient at the gate of the whole head, whose mean magnitude :func:`head_importance` finds.

    Args:
        task: of the model.
        progress: counts passes.

    Returns:
        ``attention_gradient_bits`` and ``attention_effect_bits``, a statistic a kind of target: ``[CLS]``, ``[SEP]``,
        ``[MASK]``, ``punctuation``, ``other``.

    Raises:
        ModelError: heads are gated already, or the model gives no maps that the loss is computed from.
    """
    encoder = task.encoder
    kinds = _kinds(encoder)

    def add(reader: Encoder, batch: TaskBatch, sums: Sequence[Floats]) -> None:
        _add_batch(reader, batch, kinds, *sums)
        progress.advance(1)

    both, n = (len(STATISTICS), len(TARGETS)), task.n_clusters
    shapes = [(*both, encoder.n_layers, encoder.n_heads, n), (*both, n)]
    over, under = summed(task, shapes, add, passes=1, progress=progress)
    gradient, effect = (
        HeadRatios(TARGETS, task.layers, above, below[:, None, None], metric=metric)
        for metric, above, below in zip(STATISTICS, over, under, strict=True)
    )
    return gradient, effect


def _add_batch(encoder: Encoder, batch: TaskBatch, kinds: Tensor, over: Floats, under: Floats) -> None:
    real = (torch.ones_like(batch.ids) if batch.mask is None else batch.mask).bool().to(encoder.device)
    kind = torch.where(real, kinds[batch.ids].to(encoder.device), len(TARGETS))
    member = torch.nn.functional.one_hot(kind, len(TARGETS) + 1)[..., :-1].float()  # [row, piece, target]
    maps, counted = _maps_with_gradients(encoder, batch)
    rows = (real & counted[:, None]).float()  # pieces that attend, in texts with items
    n_targets, n_rows = member.sum(1), rows.sum(1)  # [row, target], [row]
    present = (n_targets > 0) * counted[:, None]
    n_pairs = torch.stack([n_targets * n_rows[:, None], present], dim=1)
    np.add.at(under.transpose(2, 0, 1), batch.clusters, _numpy(n_pairs))
    for layer, weights in maps.items():
        if weights.grad is None:
            raise ModelError(f"model {encoder.name}: its maps in layer {layer} are not what the loss is computed from")
        slope, weights = weights.grad.float(), weights.detach().float()
        pairs, effect = (
            torch.einsum("bhij,bi,bjt->bth", each, rows, member) for each in (slope.abs(), slope * weights)
        )
        sums = torch.stack([pairs, effect.abs()], dim=1)  # [row, statistic, target, head]
        np.add.at(over[:, :, layer - 1].transpose(3, 0, 1, 2), batch.clusters, _numpy(sums) / math.log(2))


def _maps_with_gradients(encoder: Encoder, batch: TaskBatch) -> tuple[dict[int, Tensor], Tensor]:
    """Maps ``[row, head, piece, piece]`` by layer after a backward pass, and ``[row]`` bool which rows have items."""
    maps: dict[int, Tensor] = {}

    def ask_for_maps(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "output_attentions": True}

    def keep(layer: int, output: tuple[Any, ...], place: int) -> None:
        maps[layer] = output[place]
        maps[layer].retain_grad()

    body, blocks = encoder.model.body, encoder.model.blocks
    # Passes are recorded from the embeddings on: no map of the first layer comes after a gate.
    neutral = torch.ones((), requires_grad=True)
    asking = body.register_forward_pre_hook(ask_for_maps, with_kwargs=True)
    try:
        with (
            torch.enable_grad(),
            encoder.gated_heads({(1, 1): neutral}),
            changing(body, blocks, 0, lambda state: state.detach().requires_grad_()),
            taking_maps(encoder, keep),
        ):
            losses, counted = _row_loss(batch.ask(encoder), len(batch.ids))
            if not maps:
                raise ModelError(f"model {encoder.name}: {type(body).__name__} gives no attention maps")
            losses.sum().backward()  # type: ignore[no-untyped-call]
    finally:
        asking.remove()
    return maps, counted


def _kinds(encoder: Encoder) -> Tensor:
    """``[vocabulary]`` the kind of each piece, by its place in ``TARGETS``."""
    tokenizer = encoder.tokenizer
    body: Any = encoder.model.body
    n_entries = max(len(tokenizer), int(body.get_input_embeddings().num_embeddings))
    kinds = torch.full((n_entries,), TARGETS.index("other"))
    for form, number in tokenizer.get_vocab().items():
        bare = form.removeprefix("##").lstrip("▁Ġ")
        if bare and all(unicodedata.category(letter).startswith("P") for letter in bare):
            kinds[number] = TARGETS.index("punctuation")
    for place, number in enumerate((tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)):
        if number is not None:
            kinds[number] = place
    return kinds


def _numpy(values: Tensor) -> Floats:
    return np.asarray(values.detach().cpu().double().numpy())


def _row_loss(answers: Answers, n_rows: int) -> tuple[Tensor, Tensor]:
    """``[row]`` the loss of each text, the mean over its items in nats, 0 where it has none; and whether it has any."""
    n_items = torch.bincount(answers.rows, minlength=n_rows)
    sums = answers.nats.new_zeros(n_rows).index_add(0, answers.rows, answers.nats)
    return sums / n_items.clamp_min(1), n_items > 0
