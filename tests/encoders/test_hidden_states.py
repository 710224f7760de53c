"""Hidden states, attention maps and early stopping, against Hugging Face's own outputs in every family."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertology.encoders import Encoder, load_encoder
from bertology.errors import ModelError

Encoders = Callable[[str], Encoder]


@cache
def reference(folder: Path) -> Any:
    """The encoder as transformers loads it, with plain attention."""
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model.get_encoder() if model.config.is_encoder_decoder else model


def batch(encoder: Encoder) -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows of different lengths and their mask; special numbers stay out of the middle."""
    generator = torch.Generator().manual_seed(3)
    rows = len(encoder.tokenizer)
    ids = torch.randint(min(6, rows - 1), rows, (3, 21), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate((21, 17, 6)):
        mask[row, length:] = 0
        ids[row, length:] = encoder.pad_id
    return ids, mask


def test_all_layers_equal_hugging_face(family: str, tiny: Callable[[str], Path], device: str) -> None:
    own = load_encoder(str(tiny(family)), device=device)
    ids, mask = batch(own)
    with torch.no_grad():
        expected = reference(tiny(family))(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    states = own.hidden_states(ids, mask, layers=range(own.n_layers + 1))
    assert len(expected) == own.n_layers + 1 == len(states)
    for layer, state in states.items():
        assert state.shape == (3, 21, own.dim)
        assert not state.requires_grad
        assert state.device.type == device
        torch.testing.assert_close(state.cpu()[mask.bool()], expected[layer][mask.bool()], rtol=1e-5, atol=1e-5)


def test_without_a_mask_full_rows_are_the_same(family: str, encoder: Encoders) -> None:
    own = encoder(family)
    ids, mask = batch(own)
    with_mask = own.hidden_states(ids[:1], mask[:1], layers=[own.n_layers])
    without = own.hidden_states(ids[:1], layers=[own.n_layers])
    torch.testing.assert_close(without[own.n_layers], with_mask[own.n_layers], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layers", [[0], [2], [1, 0], [3]])
def test_blocks_beyond_the_deepest_layer_do_not_run(family: str, encoder: Encoders, layers: list[int]) -> None:
    own = encoder(family)
    ids, mask = batch(own)
    everything = own.hidden_states(ids, mask, layers=range(own.n_layers + 1))
    ran: list[int] = []
    blocks = own.model.blocks
    handles = [block.register_forward_hook(lambda *_: ran.append(1)) for block in dict.fromkeys(blocks)]
    try:
        states = own.hidden_states(ids, mask, layers=layers)
    finally:
        for handle in handles:
            handle.remove()
    assert len(ran) == max(layers)
    assert sorted(states) == sorted(layers)
    for layer in layers:
        torch.testing.assert_close(states[layer], everything[layer], rtol=0, atol=0)


def test_attention_maps_equal_hugging_face(family: str, tiny: Callable[[str], Path], device: str) -> None:
    own = load_encoder(str(tiny(family)), device=device)
    ids, mask = batch(own)
    with torch.no_grad():
        expected = reference(tiny(family))(ids, attention_mask=mask, output_attentions=True).attentions
    before = own.hidden_states(ids, mask, layers=[2])[2]
    maps = own.attentions(ids, mask, layers=[1, own.n_layers])
    assert sorted(maps) == [1, own.n_layers]
    keep = mask.bool()
    for layer, found in maps.items():
        assert found.shape == (3, HEADS, 21, 21)
        rows = found.cpu().transpose(1, 2)[keep]  # [piece, head, piece]
        torch.testing.assert_close(rows, expected[layer - 1].transpose(1, 2)[keep], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:2]))
    # The fast attention is back in place afterwards.
    torch.testing.assert_close(own.hidden_states(ids, mask, layers=[2])[2], before, rtol=0, atol=0)


def test_eager_encoder_gives_the_same(tiny: Callable[[str], Path], encoder: Encoders) -> None:
    eager = load_encoder(str(tiny("bert")), device="cpu", attention="eager")
    assert eager.model.body.config._attn_implementation == "eager"
    ids, mask = batch(eager)
    fast = encoder("bert")
    torch.testing.assert_close(
        eager.attentions(ids, mask, layers=[2])[2], fast.attentions(ids, mask, layers=[2])[2], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([4], "layer 4: the model has 3, so layers are 0…3"),
        ([-5], "layer -5: the model has 3, so layers are 0…3"),
        ([], "no layers asked for: the model has 0…3"),
    ],
)
def test_layers_out_of_range(encoder: Encoders, layers: list[int], message: str) -> None:
    own = encoder("bert")
    with pytest.raises(ModelError, match=message):
        own.hidden_states(torch.tensor([[5, 6]]), layers=layers)


def test_maps_have_no_layer_zero(encoder: Encoders) -> None:
    with pytest.raises(ModelError, match="layer 0: the model has 3, so layers are 1…3"):
        encoder("bert").attentions(torch.tensor([[5, 6]]), layers=[0])


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (3, 1), (2, 2)])
def test_albert_groups(tmp_path: Path, save_model: Callable[..., Path], groups: int, inner: int) -> None:
    folder = save_model(tmp_path / "albert", "albert", num_hidden_groups=groups, inner_group_num=inner)
    own = load_encoder(str(folder), device="cpu")
    assert own.n_layers == 3 * inner
    ids, mask = batch(own)
    with torch.no_grad():
        expected = reference(folder)(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    states = own.hidden_states(ids, mask, layers=range(own.n_layers + 1))
    assert len(expected) == len(states)
    for layer, state in states.items():
        torch.testing.assert_close(state, expected[layer], rtol=1e-5, atol=1e-5)


def test_token_types_are_passed_on(encoder: Encoders, tiny: Callable[[str], Path]) -> None:
    own = encoder("bert")
    ids, _ = batch(own)
    types = (torch.arange(21) > 9).long().expand(3, -1)
    with torch.no_grad():
        expected = reference(tiny("bert"))(ids, token_type_ids=types, output_hidden_states=True).hidden_states
    states = own.hidden_states(ids, layers=[0, 3], token_type_ids=types)
    for layer, state in states.items():
        torch.testing.assert_close(state, expected[layer], rtol=1e-5, atol=1e-5)


HEADS = 4


def test_twins_run_side_by_side_on_the_same_weights(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    twins = [encoder, encoder.twin(), encoder.twin()]
    for mine, other in zip(encoder.model.body.parameters(), twins[1].model.body.parameters(), strict=True):
        assert mine is other
    ids = [torch.randint(5, 30, (40, 8 + number)) for number in range(30)]
    alone = [encoder.hidden_states(one, layers=range(encoder.n_layers + 1)) for one in ids]
    with ThreadPoolExecutor(3) as pool:
        jobs = [
            pool.submit(lambda twin, part: [twin.hidden_states(one, layers=range(3)) for one in part], twin, ids[i::3])
            for i, twin in enumerate(twins)
        ]
        together = [job.result() for job in jobs]
    for i, states in enumerate(together):
        for expected, found in zip(alone[i::3], states, strict=True):
            for layer, state in found.items():
                torch.testing.assert_close(state, expected[layer], atol=1e-6, rtol=1e-5)
