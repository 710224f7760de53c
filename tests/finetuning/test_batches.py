"""Batches in parts of about one length: the parts that take least time, and the gradient of the whole batch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from bertology import _training, load_encoder
from bertology._training import of_one_length
from bertology.activations.progress import silent
from bertology.finetuning import _items
from bertology.finetuning._run import _Data
from bertology.finetuning._settings import settings_of
from bertology.finetuning._training import build
from tests.finetuning.conftest import numbered


def cost(parts: Sequence[Sequence[Any]]) -> int:
    return sum(_training._PASS + len(part) * max(map(len, part)) for part in parts)


def test_parts_hold_every_row_once_and_cost_least() -> None:
    random = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        rows = [range(length) for length in random.lognormal(3.5, 1, size=n).astype(int) + 1]
        parts = of_one_length(rows)
        assert sorted(map(len, itertools.chain(*parts))) == sorted(map(len, rows))
        ordered = sorted(rows, key=len)
        every = (
            [ordered[start:stop] for start, stop in itertools.pairwise((0, *cuts, n))]
            for k in range(n)
            for cuts in itertools.combinations(range(1, n), k)
        )
        assert cost(parts) == min(map(cost, every))


def test_equal_rows_are_one_part_and_very_different_ones_are_not() -> None:
    assert len(of_one_length([range(20)] * 32)) == 1
    assert [len(part) for part in of_one_length([range(5)] * 16 + [range(200)] * 2)] == [2, 16]


@pytest.mark.parametrize("task", ["sentence_label:number", "pos"])
def test_training_in_parts_makes_the_updates_of_whole_batches(task: str, tmp_path: Path) -> None:
    """Without dropout all weights are the same after several steps, up to rounding; so are the losses.

    So they are by PyTorch's own products and tables of embeddings.
    """
    encoder = load_encoder("pocket", device="cpu")
    made = _items.tuning_task(task, numbered({"train": 50, "dev": 10, "test": 10}))
    inputs = {name: _items.encode(made, made.splits[name], encoder, max_pieces=None, stride=0) for name in made.splits}
    data = _Data(made, inputs, _items.Collator(made, pad_id=encoder.pad_id, states=None))
    # the last batch has two rows
    settings, found = settings_of(None, {"epochs": 2, "batch_size": 16, "lr": 1e-3, "bias_correction": True}), {}
    for which, fixed_cost in (("parts", 1), ("whole", 10**9), ("plain", 10**9)):
        trained = build(encoder, made, settings, seed=1)
        for module in trained.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        sizes = list[int]()
        trained.model.register_forward_pre_hook(
            lambda module, _, kwargs, sizes=sizes: sizes.append(len(kwargs["input_ids"])) if module.training else None,
            with_kwargs=True,
        )
        plain = (lambda *_, **__: nullcontext()) if which == "plain" else _training._fast_on_processor
        with patch.object(_training, "_PASS", fixed_cost), patch.object(_training, "_fast_on_processor", plain):
            history = data.fit(trained, 1, silent, folder=tmp_path / which)
        assert sum(sizes) == 2 * len(inputs["train"].rows)
        assert (len(sizes) > 8) == (which == "parts")  # of four batches in each epoch
        weights = torch.cat([one.detach().flatten() for one in trained.model.parameters()])
        found[which] = weights, [epoch["train_loss"] for epoch in history]
    for which in ("whole", "plain"):
        torch.testing.assert_close(found["parts"][0], found[which][0], rtol=1e-3, atol=2e-5)
        assert found["parts"][1] == pytest.approx(found[which][1], rel=1e-4)


def test_gradients_of_tied_embeddings_are_those_of_transformers() -> None:
    model = load_encoder("pocket", device="cpu").model.with_head.requires_grad_(True)
    ids, found = torch.tensor([[2, 7, 9, 3], [2, 7, 3, 0]]), []
    for context in (nullcontext(), _training._fast_on_processor(model, torch.device("cpu"), in_half=False)):
        model.zero_grad()
        with context:
            for part in ids.split(1):  # gradients add up
                model(input_ids=part, attention_mask=(part > 0).long(), labels=part).loss.backward()
        found.append({name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None})
    torch.testing.assert_close(*found, rtol=1e-4, atol=2e-5)
    assert not any("forward" in vars(module) for module in model.modules())
