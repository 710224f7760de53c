"""Packed linear maps: the hidden states of the encoder itself, in every family, and the encoder left as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from bertology.encoders import Encoder
from bertology.encoders._faster import can_pack, pack

Encoders = Callable[[str], Encoder]


def test_hidden_states_of_a_fast_twin_are_those_of_the_encoder(family: str, encoder: Encoders) -> None:
    own = encoder(family)
    ids = torch.randint(6, len(own.tokenizer), (4, 23), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1:, 15:] = 0
    layers = range(own.n_layers + 1)
    expected = own.hidden_states(ids, mask, layers=layers)
    fast = own.fast_twin()
    for twin in (fast, fast.twin()):
        for layer, state in twin.hidden_states(ids, mask, layers=layers).items():
            torch.testing.assert_close(state[mask.bool()], expected[layer][mask.bool()], rtol=1e-5, atol=1e-5)
    assert not any("forward" in module.__dict__ for module in own.model.body.modules())


class _Inner(nn.Module):
    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.dense, self.intermediate_act_fn = nn.Linear(16, 48), activation

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.intermediate_act_fn(self.dense(values))
        return result


@pytest.mark.parametrize("activation", [nn.GELU(), nn.GELU("tanh"), nn.ReLU()])
def test_only_the_exact_gelu_is_joined_to_its_product(activation: nn.Module) -> None:
    if not can_pack(torch.device("cpu"), torch.float32):
        pytest.skip("this processor, or this PyTorch, has no packed products")
    module = _Inner(activation).eval()
    values = 3 * torch.randn(7, 16)
    with torch.inference_mode():
        expected = module(values)
        pack(module)
        assert "forward" in module.dense.__dict__
        assert isinstance(module.intermediate_act_fn, nn.Identity) == (
            isinstance(activation, nn.GELU) and activation.approximate == "none"
        )
        torch.testing.assert_close(module(values), expected, rtol=1e-5, atol=1e-5)


def test_other_types_and_devices_are_not_packed() -> None:
    assert not can_pack(torch.device("cpu"), torch.bfloat16)
    assert not can_pack(torch.device("meta"), torch.float32)
