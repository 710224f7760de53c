"""Hidden states changed on their way, against blocks run by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bertology.encoders import Encoder
from bertology.encoders.interventions import changing
from bertology.errors import ModelError

Encoders = Callable[[str], Encoder]


def ids_for(encoder: Encoder) -> Tensor:
    return torch.randint(6, len(encoder.tokenizer), (2, 13), generator=torch.Generator().manual_seed(5))


def halved(state: Tensor) -> Tensor:
    return state / 2


def states(encoder: Encoder, layer: int | None = None) -> dict[int, Tensor]:
    if layer is None:
        return encoder.hidden_states(ids_for(encoder), layers=[0, 1, 2, 3])
    with changing(encoder.model.body, encoder.model.blocks, layer, halved):
        return encoder.hidden_states(ids_for(encoder), layers=[0, 1, 2, 3])


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_one_layer_is_changed_and_what_follows_reads_it(layer: int, family: str, encoder: Encoders) -> None:
    own = encoder(family)
    before, after = states(own), states(own, layer)
    for earlier in range(layer):
        torch.testing.assert_close(after[earlier], before[earlier], rtol=0, atol=0)
    torch.testing.assert_close(after[layer], before[layer] / 2, rtol=0, atol=0)
    for later in range(layer + 1, 4):
        assert (after[later] - before[later]).abs().max() > 1e-3
    torch.testing.assert_close(states(own)[3], before[3], rtol=0, atol=0)


def test_the_next_block_reads_the_changed_state(encoder: Encoders) -> None:
    own = encoder("bert")
    before, after = states(own), states(own, 1)
    with torch.inference_mode():
        found = own.model.blocks[1](before[1] / 2)
    found = found[0] if isinstance(found, tuple) else found
    torch.testing.assert_close(after[2], found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_the_head_reads_the_changed_state_once(layer: int, masked_family: str, encoder: Encoders) -> None:
    own = encoder(masked_family)
    ids, places = ids_for(own), torch.tensor([[0, 3], [1, 5]])
    whole = own.masked_logits(ids, places)[3]
    with changing(own.model.body, own.model.blocks, layer, lambda state: state):
        # Where the last layer is changed its block is run whole, in an order of products that rounds otherwise.
        torch.testing.assert_close(own.masked_logits(ids, places)[3], whole, rtol=0, atol=2e-6 if layer == 3 else 0)
    calls: list[tuple[int, ...]] = []

    def count(state: Tensor) -> Tensor:
        calls.append(tuple(state.shape))
        return state / 2

    with changing(own.model.body, own.model.blocks, layer, count):
        changed = own.masked_logits(ids, places)[3]
    assert calls == [(2, 13, 32)]
    assert (changed - whole).abs().max() > 1e-3


def test_a_change_keeps_shape_and_type(encoder: Encoders) -> None:
    own = encoder("bert")
    for wrong in (lambda state: state[:, :1], lambda state: state.double()):
        with (
            changing(own.model.body, own.model.blocks, 1, wrong),
            pytest.raises(ModelError, match="keeps shape and type"),
        ):
            own.hidden_states(ids_for(own), layers=[3])
