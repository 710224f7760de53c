"""Masked logits against the model's own, and the logit lens through the same head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertology.encoders import Encoder, load_encoder
from bertology.errors import ModelError

Encoders = Callable[[str], Encoder]
PLACES = torch.tensor([[0, 3], [1, 1], [1, 5], [0, 3]])


def padded(encoder: Encoder) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(6, len(encoder.tokenizer), (2, 11), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    ids[1, 8:] = encoder.pad_id
    ids[PLACES[:, 0], PLACES[:, 1]] = encoder.mask_id
    return ids, mask


def test_last_layer_equals_the_model(masked_family: str, tiny: Callable[[str], Path], device: str) -> None:
    own = load_encoder(str(tiny(masked_family)), device=device)
    ids, mask = padded(own)
    model = transformers.AutoModelForMaskedLM.from_pretrained(tiny(masked_family), dtype=torch.float32).eval()
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).logits[PLACES[:, 0], PLACES[:, 1]]
    logits = own.masked_logits(ids, PLACES, attention_mask=mask)
    assert list(logits) == [own.n_layers]
    torch.testing.assert_close(logits[own.n_layers].cpu(), expected, rtol=1e-5, atol=1e-5)
    candidates = torch.tensor([9, 6, 30])
    some = own.masked_logits(ids, PLACES, attention_mask=mask, candidates=candidates)
    torch.testing.assert_close(some[own.n_layers].cpu(), expected[:, candidates], rtol=1e-5, atol=1e-5)


def cut_after(encoder: Encoder, layer: int) -> Callable[[], None]:
    """Make every block after ``layer`` hand on what it is given; the function returned undoes it."""
    ran = [0]

    def skip(module: torch.nn.Module, args: tuple[torch.Tensor, ...], output: object) -> object:
        ran[0] += 1
        if ran[0] <= layer:
            return None
        return (args[0], *output[1:]) if isinstance(output, tuple) else args[0]

    handles = [block.register_forward_hook(skip) for block in dict.fromkeys(encoder.model.blocks)]

    def undo() -> None:
        for handle in handles:
            handle.remove()

    return undo


@pytest.mark.parametrize("layer", [0, 1])
def test_earlier_layers_pass_the_same_head(masked_family: str, encoder: Encoders, layer: int) -> None:
    """The lens at a layer is the last layer of a model cut off after it."""
    own = encoder(masked_family)
    ids, _ = padded(own)
    lens = own.masked_logits(ids, PLACES, layers=[layer, 3])
    assert list(lens) == [layer, 3]
    whole: Any = own.model.with_head
    if masked_family == "deberta-v2":
        # Its convolution runs after the first block, outside of it, and would not be cut off with it.
        assert whole.deberta.encoder.conv is not None
        whole.deberta.encoder.conv, convolution = None, whole.deberta.encoder.conv
        lens = own.masked_logits(ids, PLACES, layers=[layer])
    undo = cut_after(own, layer)
    try:
        with torch.no_grad():
            expected = whole(ids).logits[PLACES[:, 0], PLACES[:, 1]]
    finally:
        undo()
        if masked_family == "deberta-v2":
            whole.deberta.encoder.conv = convolution
    torch.testing.assert_close(lens[layer], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", ["t5", "bart", "gpt2"])
def test_a_model_without_the_head_says_so(encoder: Encoders, other: str) -> None:
    own = encoder(other)
    assert not own.has_masked_lm_head
    with pytest.raises(ModelError, match="no masked-LM head"):
        own.masked_logits(torch.tensor([[6, 7]]), torch.tensor([[0, 1]]))


def test_weights_without_the_head_do_not_get_a_random_one(tmp_path: Path, save_model: Callable[..., Path]) -> None:
    folder = save_model(tmp_path / "bert", "bert")
    body = transformers.AutoModelForMaskedLM.from_pretrained(folder).bert
    body.config.architectures = ["BertForMaskedLM"]
    state = {f"bert.{name}": value for name, value in body.state_dict().items()}
    config = (folder / "config.json").read_text()
    body.save_pretrained(folder, state_dict=state)
    (folder / "config.json").write_text(config)
    own = load_encoder(str(folder), device="cpu")
    with pytest.raises(ModelError, match="no masked-LM head in its weights"):
        own.masked_logits(torch.tensor([[6, 7]]), torch.tensor([[0, 1]]))


def test_electra_discriminator_has_no_masked_lm_head(tmp_path: Path, save_model: Callable[..., Path]) -> None:
    folder = save_model(tmp_path / "electra", "electra")
    generator = transformers.ElectraForMaskedLM.from_pretrained(folder)
    discriminator = transformers.ElectraForPreTraining(generator.config)
    discriminator.electra = generator.electra
    discriminator.save_pretrained(folder)
    own = load_encoder(str(folder), device="cpu")
    assert not own.has_masked_lm_head
    assert own.hidden_states(torch.tensor([[6, 7]]), layers=[3])[3].shape == (1, 2, own.dim)


def test_lens_of_an_unknown_family(encoder: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    own = encoder("bert")
    monkeypatch.setattr(own, "family", "newbert")
    ids = torch.tensor([[6, 7]])
    assert own.masked_logits(ids, torch.tensor([[0, 1]]))[3].shape[0] == 1
    with pytest.raises(ModelError, match="layer 1: the logit lens is not known for newbert"):
        own.masked_logits(ids, torch.tensor([[0, 1]]), layers=[1])
