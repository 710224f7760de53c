"""The last block at a few places against the same block at all pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from bertology.encoders import Encoder, _faster
from bertology.encoders._faster import states_at
from bertology.encoders._modules import LoadedModel, find_blocks, run_to_layers
from bertology.encoders.interventions import changing

Encoders = Callable[[str], Encoder]

FAMILIES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
POSITIONS = torch.tensor([[0, 3], [0, 9], [2, 1], [0, 11], [2, 1], [3, 4]])
"""Three places in a row, none, one twice, one."""


def build(family: str, **changes: Any) -> tuple[nn.Module, list[nn.Module]]:
    """A body of random weights and its blocks."""
    names = {"distilbert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37}}
    plain = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 37}
    config = transformers.AutoConfig.for_model(
        family, vocab_size=50, pad_token_id=1, max_position_embeddings=20, **names.get(family, plain) | changes
    )
    torch.manual_seed(3)
    kind: Any = transformers.AutoModel
    body: nn.Module = kind.from_config(config).eval()
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    return body, find_blocks(body, n_layers=3, family=family)


def given(*, padded: bool) -> dict[str, Tensor]:
    inputs = {"input_ids": torch.randint(5, 50, (4, 12), generator=torch.Generator().manual_seed(5))}
    if padded:
        lengths = torch.tensor([12, 5, 7, 6])
        inputs["attention_mask"] = (torch.arange(12) < lengths[:, None]).long()
        inputs["input_ids"][inputs["attention_mask"] == 0] = 1
    return inputs


def both(
    family: str, body: nn.Module, blocks: list[nn.Module], layers: set[int], *, padded: bool, positions: Tensor
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """States at some places, and those of the whole computation there."""
    inputs, wanted = given(padded=padded), frozenset(layers)
    with torch.inference_mode():
        at = states_at(LoadedModel(body, blocks, None), inputs, wanted, positions, family=family, n_heads=4)
        whole = run_to_layers(body, blocks, inputs, wanted)
    return at, {layer: state[positions[:, 0], positions[:, 1]] for layer, state in whole.items()}


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets one more entry, how many places, whenever a block is computed at places alone."""
    taken: list[int] = []
    real = _faster._block_at

    def block_at(parts: Any, hidden: Tensor, mask: Any, positions: Tensor, n_heads: int) -> Tensor:
        taken.append(len(positions))
        return real(parts, hidden, mask, positions, n_heads)

    monkeypatch.setattr(_faster, "_block_at", block_at)
    return taken


@pytest.mark.parametrize("layers", [{3}, {2}, {1}, {0, 1, 2, 3}, {0, 2}])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_whole_block(family: str, padded: bool, layers: set[int], narrow: list[int]) -> None:
    at, whole = both(family, *build(family), layers, padded=padded, positions=POSITIONS)
    assert list(at) == sorted(layers)
    for layer in layers:
        torch.testing.assert_close(at[layer], whole[layer], rtol=1e-5, atol=1e-5)
        assert torch.equal(at[layer], whole[layer]) or layer == max(layers)
    assert narrow == [6]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_whatever_computes_the_attention(family: str, attention: str, narrow: list[int]) -> None:
    body, blocks = build(family, attn_implementation=attention)
    at, whole = both(family, body, blocks, {3}, padded=True, positions=POSITIONS)
    torch.testing.assert_close(at[3], whole[3], rtol=1e-5, atol=1e-5)
    assert narrow == [6]


@pytest.mark.parametrize(
    ("family", "changes"), [("bert", {"is_decoder": True}), ("roberta", {"is_decoder": True}), ("albert", {})]
)
def test_what_is_built_otherwise_is_run_whole(family: str, changes: dict[str, Any], narrow: list[int]) -> None:
    at, whole = both(family, *build(family, **changes), {1, 3}, padded=True, positions=POSITIONS)
    for layer in (1, 3):
        assert torch.equal(at[layer], whole[layer])
    assert not narrow


def test_relative_positions_are_run_whole(narrow: list[int]) -> None:
    body: Any
    body, blocks = build("bert")
    body.config.position_embedding_type = "relative_key"
    at, whole = both("bert", body, blocks, {3}, padded=True, positions=POSITIONS)
    assert torch.equal(at[3], whole[3])
    assert not narrow


def test_half_precision_is_run_whole(narrow: list[int]) -> None:
    body, blocks = build("bert")
    at, whole = both("bert", body.to(torch.bfloat16), blocks, {3}, padded=True, positions=POSITIONS)
    assert torch.equal(at[3], whole[3])
    assert not narrow


def test_a_projection_of_another_kind_is_run_whole(narrow: list[int]) -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    block: Any
    body, blocks = build("bert")
    block = blocks[2]
    own = block.attention.self.value
    block.attention.self.value = Doubled(32, 32)
    block.attention.self.value.load_state_dict(own.state_dict())
    at, whole = both("bert", body, blocks, {3}, padded=True, positions=POSITIONS)
    assert torch.equal(at[3], whole[3])
    assert not narrow


@pytest.mark.parametrize(("n_places", "taken"), [(12, [12]), (13, [])])
def test_many_places_are_run_whole(n_places: int, taken: list[int], narrow: list[int]) -> None:
    """Of 48 pieces in 4 rows."""
    places = torch.cartesian_prod(torch.arange(4), torch.arange(12))[:n_places]
    at, whole = both("bert", *build("bert"), {3}, padded=False, positions=places)
    torch.testing.assert_close(at[3], whole[3], rtol=1e-5, atol=1e-5)
    assert narrow == taken


def test_the_embeddings_have_no_block(narrow: list[int]) -> None:
    at, whole = both("bert", *build("bert"), {0}, padded=True, positions=POSITIONS)
    assert torch.equal(at[0], whole[0])
    assert not narrow


def test_gates_of_heads_are_heeded(encoder: Encoders, narrow: list[int]) -> None:
    own, ids, places = encoder("bert"), torch.arange(6, 18).view(1, 12), torch.tensor([[0, 3]])
    open_ = own.masked_features(ids, places)[3]
    assert narrow == [1]
    with own.gated_heads({(3, 2): 0.0}):
        gated = own.masked_features(ids, places)[3]
        expected = own.hidden_states(ids, layers=[3])[3][0, 3][None]
        with torch.inference_mode():
            expected = own.masked_head.features(expected)
    torch.testing.assert_close(gated, expected, rtol=1e-6, atol=1e-6)
    assert (gated - open_).abs().max() > 1e-3
    assert narrow == [1]


@pytest.mark.parametrize(("layer", "taken"), [(2, [1]), (3, [])])
def test_changed_states_are_heeded(layer: int, taken: list[int], encoder: Encoders, narrow: list[int]) -> None:
    own, ids, places = encoder("bert"), torch.arange(6, 18).view(1, 12), torch.tensor([[0, 3]])
    with changing(own.model.body, own.model.blocks, layer, lambda state: state.flip(-1)):
        found = own.masked_features(ids, places)[3]
        expected = own.hidden_states(ids, layers=[3])[3][0, 3][None]
    with torch.inference_mode():
        expected = own.masked_head.features(expected)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert narrow == taken


def test_maps_read_before_do_not_make_it_slow(encoder: Encoders, narrow: list[int]) -> None:
    """transformers leaves hooks behind that record what blocks make, for its own passes."""
    own, ids, places = encoder("bert").twin(), torch.arange(6, 18).view(1, 12), torch.tensor([[0, 3]])
    before = own.masked_features(ids, places)[3]
    own.attentions(ids, layers=[1])
    assert torch.equal(own.masked_features(ids, places)[3], before)
    assert narrow == [1, 1]
