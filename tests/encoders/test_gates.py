"""Head gates, against the same heads silenced by hand in the projection's weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertology.encoders import Encoder, load_encoder
from bertology.encoders._modules import find_blocks
from bertology.encoders.interventions import gating, head_projection
from bertology.errors import ModelError

Encoders = Callable[[str], Encoder]
# All families but ALBERT, whose layers share one block: it has a test of its own.
UNSHARED = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "deberta-v2", "deberta-v3", "mpnet")
UNSHARED += ("modernbert", "t5", "bart", "gpt2")


def ids_for(encoder: Encoder) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(6, len(encoder.tokenizer), (2, 13), generator=generator)


def silence(encoder: Encoder, layer: int, head: int) -> Callable[[], None]:
    """Zero a head's columns of the projection's weight; the function returned puts them back."""
    projection: Any = head_projection(encoder.model.blocks[layer - 1], encoder.family)
    weight = projection.weight
    saved = copy.deepcopy(weight.data)
    width = encoder.dim // encoder.n_heads
    own = slice((head - 1) * width, head * width)
    if type(projection).__name__ == "Conv1D":  # GPT-2 keeps weights as [in, out]
        weight.data[own] = 0
    else:
        weight.data[:, own] = 0

    def restore() -> None:
        weight.data = saved

    return restore


def test_gate_of_one_changes_nothing(family: str, encoder: Encoders) -> None:
    own = encoder(family)
    ids = ids_for(own)
    before = own.hidden_states(ids, layers=[3])[3]
    with own.gated_heads({(1, 1): 1.0, (3, 4): 1.0}):
        gated = own.hidden_states(ids, layers=[3])[3]
    torch.testing.assert_close(gated, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", UNSHARED)
def test_gate_of_zero_silences_the_head(family: str, tiny: Callable[[str], Path], device: str) -> None:
    own = load_encoder(str(tiny(family)), device=device)
    ids = ids_for(own)
    before = own.hidden_states(ids, layers=[1, 2, 3])
    for layer in (1, 2, 3):
        for head in (1, 2, 3, 4):
            with own.gated_heads({(layer, head): 0.0}):
                found = own.hidden_states(ids, layers=[3])[3]
            restore = silence(own, layer, head)
            try:
                by_hand = own.hidden_states(ids, layers=[3])[3]
            finally:
                restore()
            torch.testing.assert_close(found, by_hand, rtol=1e-5, atol=1e-6)
    with own.gated_heads({(2, 3): 0.0}):
        gated = own.hidden_states(ids, layers=[1, 2, 3])
    restore = silence(own, 2, 3)
    try:
        expected = own.hidden_states(ids, layers=[1, 2, 3])
    finally:
        restore()
    torch.testing.assert_close(gated[1], before[1], rtol=0, atol=0)
    assert (gated[2] - before[2]).abs().max() > 1e-3
    for layer in (2, 3):
        torch.testing.assert_close(gated[layer], expected[layer], rtol=1e-5, atol=1e-6)
    after = own.hidden_states(ids, layers=[3])[3]
    torch.testing.assert_close(after, before[3], rtol=0, atol=0)


def kin(family: str) -> torch.nn.Module:
    """The body of a model built as another family is, of random weights; its name is all that a gate goes by."""
    common = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 37}
    plain = {**common, "num_hidden_layers": 3, "num_attention_heads": 4}
    mbart = {"vocab_size": 60, "d_model": 32, "encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_dim": 37}
    mt5 = {"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 3, "num_heads": 4}
    configs = {
        "camembert": lambda: transformers.CamembertConfig(**plain),
        "deberta": lambda: transformers.DebertaConfig(
            **plain, relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=16
        ),
        "mbart": lambda: transformers.MBartConfig(**mbart, decoder_layers=1, decoder_attention_heads=2),
        "mt5": lambda: transformers.MT5Config(**mt5, num_decoder_layers=1),
    }
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model: Any = transformers.AutoModel.from_config(configs[family]()).eval()
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    body: torch.nn.Module = model.get_encoder() if model.config.is_encoder_decoder else model
    return body


@pytest.mark.parametrize("family", ["camembert", "deberta", "mbart", "mt5"])
def test_families_built_as_others_are(family: str) -> None:
    body = kin(family)
    blocks = find_blocks(body, n_layers=3, family=family)
    ids = torch.randint(6, 60, (2, 9), generator=torch.Generator().manual_seed(5))

    def read(gates: dict[tuple[int, int], float]) -> torch.Tensor:
        with torch.no_grad(), gating(body, blocks, gates, n_heads=4, family=family):
            state: torch.Tensor = body(input_ids=ids, return_dict=True).last_hidden_state
        return state

    heads = [(layer, head) for layer in (1, 2, 3) for head in (1, 2, 3, 4)]
    whole = read({})
    torch.testing.assert_close(read(dict.fromkeys(heads, 1.0)), whole, rtol=1e-6, atol=1e-6)
    for layer, head in heads:
        gated = read({(layer, head): 0.0})
        weight: Any = head_projection(blocks[layer - 1], family).weight
        saved = weight.data.clone()
        weight.data[:, 8 * (head - 1) : 8 * head] = 0
        torch.testing.assert_close(gated, read({}), rtol=1e-5, atol=1e-6)
        weight.data = saved
        assert (gated - whole).abs().max() > 1e-3


def test_albert_gates_one_layer_of_a_shared_block(encoder: Encoders) -> None:
    own = encoder("albert")
    ids = ids_for(own)
    before = own.hidden_states(ids, layers=[1, 2, 3])
    restore = silence(own, 1, 3)
    try:
        everywhere = own.hidden_states(ids, layers=[1, 2, 3])
    finally:
        restore()
    with own.gated_heads({(layer, 3): 0.0 for layer in (1, 2, 3)}):
        all_gated = own.hidden_states(ids, layers=[1, 2, 3])
    with own.gated_heads({(2, 3): 0.0}):
        second = own.hidden_states(ids, layers=[1, 2, 3])
        again = own.hidden_states(ids, layers=[1, 2, 3])
    for layer in (1, 2, 3):
        torch.testing.assert_close(all_gated[layer], everywhere[layer], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(second[layer], again[layer], rtol=0, atol=0)
    torch.testing.assert_close(second[1], before[1], rtol=0, atol=0)
    assert (second[2] - before[2]).abs().max() > 1e-3


def test_gradients_reach_the_gates(family: str, encoder: Encoders) -> None:
    """The gradient at a gate equals the slope measured by moving the gate."""
    own = encoder(family)
    ids = ids_for(own)

    def total(gate: float | torch.Tensor) -> torch.Tensor:
        with own.gated_heads({(2, 1): gate}):
            state = own.hidden_states(ids, layers=[3])[3]
        return (state.double() * torch.linspace(-1, 1, own.dim).double()).sum()

    gate = torch.tensor(1.0, requires_grad=True)
    total(gate).backward()  # type: ignore[no-untyped-call]
    assert gate.grad is not None
    slope = float(total(1.01) - total(0.99)) / 0.02
    assert float(gate.grad) == pytest.approx(slope, rel=0.02, abs=2e-3)
    assert all(parameter.grad is None for parameter in own.model.body.parameters())


def test_gates_act_on_logits_and_attentions(encoder: Encoders) -> None:
    own = encoder("bert")
    ids, places = ids_for(own), torch.tensor([[0, 4], [1, 2]])
    before = own.masked_logits(ids, places)[3]
    maps = own.attentions(ids, layers=[1, 2])
    with own.gated_heads({(1, 2): 0.0}):
        assert (own.masked_logits(ids, places)[3] - before).abs().max() > 1e-3
        gated = own.attentions(ids, layers=[1, 2])
    torch.testing.assert_close(gated[1], maps[1], rtol=0, atol=0)
    assert (gated[2] - maps[2]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ((4, 1), "head L4H1: the model has 3 layers, so gates are of layers 1…3"),
        ((0, 1), "head L0H1"),
        ((1, 5), "head L1H5: each layer has 4 heads, so heads are 1…4"),
    ],
)
def test_heads_out_of_range(encoder: Encoders, head: tuple[int, int], message: str) -> None:
    with pytest.raises(ModelError, match=message), encoder("bert").gated_heads({head: 0.0}):
        raise AssertionError("the gate should have been refused")


def test_a_gate_is_one_number_or_one_a_row(encoder: Encoders) -> None:
    own = encoder("bert")
    with pytest.raises(ModelError, match="one number"), own.gated_heads({(1, 1): torch.ones(2, 2)}):
        raise AssertionError("the gate should have been refused")
    with own.gated_heads({(1, 1): torch.ones(3)}), pytest.raises(ModelError, match="layer 1: gates of 3 rows"):
        own.hidden_states(ids_for(own), layers=[1])


def test_each_row_has_its_gate(family: str, encoder: Encoders) -> None:
    """Rows with gates of their own come out as each does in a batch with one gate, and so do their gradients."""
    own = encoder(family)
    ids = ids_for(own)
    expected = []
    for row, value in enumerate((0.5, 0.0)):
        with own.gated_heads({(2, 3): value, (2, 4): 0.25}):
            expected.append(own.hidden_states(ids, layers=[3])[3][row])
    gates = torch.tensor([0.5, 0.0], requires_grad=True)
    with own.gated_heads({(2, 3): gates, (2, 4): 0.25}):
        found = own.hidden_states(ids, layers=[3])[3]
    torch.testing.assert_close(found.detach(), torch.stack(expected), rtol=1e-6, atol=1e-6)
    weights = torch.linspace(-1, 1, own.dim)
    (found * weights).sum().backward()  # type: ignore[no-untyped-call]
    for row, value in enumerate((0.5, 0.0)):
        gate = torch.tensor(value, requires_grad=True)
        with own.gated_heads({(2, 3): gate, (2, 4): 0.25}):
            (own.hidden_states(ids, layers=[3])[3][row] * weights).sum().backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(gates.grad[row], gate.grad, rtol=1e-4, atol=1e-4)  # type: ignore[index]


def test_gates_of_one_change_nothing_in_any_layer(family: str, encoder: Encoders) -> None:
    """All heads of all layers at 1, as numbers and as rows."""
    own = encoder(family)
    ids = ids_for(own)
    before = own.hidden_states(ids, layers=[1, 2, 3])
    for gate in (1.0, torch.ones(2)):
        with own.gated_heads({(layer, head): gate for layer in (1, 2, 3) for head in (1, 2, 3, 4)}):
            gated = own.hidden_states(ids, layers=[1, 2, 3])
        for layer in (1, 2, 3):
            torch.testing.assert_close(gated[layer], before[layer], rtol=1e-6, atol=1e-6)


def test_gated_encoders_have_no_twins(encoder: Encoders) -> None:
    """What gates a model counts the blocks of one pass: two threads would gate each other's layers."""
    own = encoder("bert")
    assert not own.is_gated
    with own.gated_heads({(1, 1): 0.0}), pytest.raises(ModelError, match="make twins before gated_heads"):
        own.twin()
    assert not own.twin().is_gated


def test_gates_do_not_nest(encoder: Encoders) -> None:
    own = encoder("bert")
    with own.gated_heads({(1, 1): 0.0}), pytest.raises(ModelError, match="gated already"), own.gated_heads({}):
        raise AssertionError("the second gating should have been refused")
