"""Hidden states and attention maps against Hugging Face, as arrays, packed, and finite."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from bertology.attention import stream_maps
from bertology.attention.measured import Sharpness
from bertology.cloze import Prompt, ask, next_sentence
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder, masked_lm_loss
from bertology.errors import CorpusError, ModelError, NameNotFoundError, SignalError
from bertology.pocket import load_corpus

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


TEXTS = ["The dogs chased a cat.", "A cat saw the birds near a Cat."]


@pytest.fixture(scope="module")
def pocket(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert))


def reference_labelled(folder: Path, text: str) -> tuple[np.ndarray, np.ndarray, list[str], list[tuple[int, int]]]:
    """Hidden states, maps, pieces and their offsets, as transformers gives them."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    offsets = [(a, b) for a, b in encoded.pop("offset_mapping")[0].tolist()]
    with torch.inference_mode():
        out = model(**encoded, output_hidden_states=True, output_attentions=True)
    states, maps = (torch.cat(parts).numpy() for parts in (out.hidden_states, out.attentions))
    return states, maps, tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist()), offsets


def test_vectors_are_the_means_of_hidden_states(pocket: Encoder, tiny_bert: Path) -> None:
    found = pocket.vectors(TEXTS)
    assert found.shape == (4, 6 + 9, 32)
    frame = found.to_pandas()
    assert frame.index.names == ["layer", "text", "place", "word"]
    for number, text in enumerate(TEXTS, start=1):
        states, _, _, offsets = reference_labelled(tiny_bert, text)
        end = 0
        for _, of_number, place, word in frame.loc[[2]].index:
            if of_number == number:
                start = text.index(word, end)
                end = start + len(word)
                pieces = [k for k, (a, b) in enumerate(offsets) if start <= a < b <= end]
                expected = states[2][pieces].mean(0)
                np.testing.assert_allclose(frame.loc[(2, number, place, word)].to_numpy(), expected, atol=1e-5)


def test_one_word_in_several_texts(pocket: Encoder) -> None:
    every, found = pocket.vectors(TEXTS), pocket.vectors(TEXTS, layers=[-1, 0], word="cat", pooling="first")
    assert list(found.labels["word"]) == [(1, 5, "cat"), (2, 2, "cat"), (2, 8, "Cat")]
    assert list(found.labels["layer"]) == [3, 0]
    places = [list(every.labels["word"]).index(label) for label in found.labels["word"]]
    np.testing.assert_allclose(
        found.at(layer=0).to_numpy(), np.asarray(pocket.vectors(TEXTS, pooling="first"))[0, places]
    )
    for wrong, error, message in (
        ({"layers": []}, ModelError, "no layer"),
        ({"word": "horse"}, CorpusError, "word 'horse' stands in none of the texts"),
    ):
        with pytest.raises(error, match=message):
            pocket.vectors(TEXTS, **wrong)  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match="row 1: column"):
        pocket.vectors(["a", ""])


def test_attention_between_words(pocket: Encoder) -> None:
    found = pocket.attention(TEXTS[0], layers=-1)
    assert list(found.labels["from"]) == ["[CLS]", "The", "dogs", "chased", "a", "cat", ".", "[SEP]"]
    np.testing.assert_allclose(np.asarray(found).sum(-1), 1, atol=1e-5)
    assert found.shape == (1, 4, 8, 8)
    pair = pocket.attention(*TEXTS, layers=[1])
    assert pair.shape[-1] == 6 + 9 + 3
    with pytest.raises(NameNotFoundError, match="unknown head '9'"):
        found.at(head=9)
    with pytest.raises(ModelError, match="layer 0: the model has 3, so layers are 1…3"):
        pocket.attention(TEXTS[0], layers=0)


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


QUERY = "bert.encoder.layer.1.attention.self.query.weight"
VALUE = "bert.encoder.layer.0.attention.self.value.bias"
BIAS = "cls.predictions.bias"
TEXT = "The farmer sees the [MASK]."


def damaged(folder: Path, into: Path, name: str, place: tuple[int, ...] | slice, value: float) -> Path:
    """A copy of a model's folder with one weight replaced."""
    shutil.copytree(folder, into)
    weights = load_file(into / "model.safetensors")
    weights[name][place] = value
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    return into


DAMAGE: dict[str, tuple[tuple[int, ...], float]] = {
    QUERY: ((2 * 8 + 5, 0), math.nan),  # of L2H3
    VALUE: ((1 * 8 + 3,), math.inf),  # of L1H2
    BIAS: ((40,), math.inf),
}


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    return load_corpus()["test"][:12]


PROMPTS = (Prompt(TEXT, candidates=("dog", "cat")),)
# What reads a damaged model, where the damage first shows and which weights are named.
READERS: dict[str, tuple[Callable[[Encoder, Sentences], object], str, str]] = {
    "maps": (lambda own, text: stream_maps(own, text, [Sharpness]), "attention maps of L2H3", QUERY),
    "loss": (lambda own, text: masked_lm_loss(own, text), "hidden states of layer 3", QUERY),
    "norms": (
        lambda own, text: stream_maps(own, text, [Sharpness], norms=True),
        "norms of transformed values of L1H2",
        VALUE,
    ),
    "ask": (lambda own, text: ask(own, PROMPTS), "masked-LM logits of layer 3", BIAS),
    "lens": (lambda own, text: ask(own, PROMPTS, layers=[1, 2]), "hidden states of layer 2", QUERY),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_not_finite(name: str, tiny_bert: Path, sentences: Sentences) -> None:
    read, where, weight = READERS[name]
    own = load_encoder(str(tiny_bert), device="cpu", attention="eager")
    place, value = DAMAGE[weight]
    own.model.outermost.get_parameter(weight)[place] = value
    with pytest.raises(SignalError) as refused:
        read(own, sentences)
    message = str(refused.value)
    assert f"{tiny_bert}: the {where} are not finite" in message
    assert weight in message
    assert "--store-dtype" not in message


def test_sentences_that_follow(tiny_bert: Path) -> None:
    own = load_encoder(str(tiny_bert), init="random", device="cpu")
    own.next_sentence_head.modules["classifier"].seq_relationship.bias.data[1] = math.nan
    with pytest.raises(SignalError, match="next-sentence logits of layer 3 are not finite"):
        next_sentence(own, [("The dog sleeps.", "The cat sees it.")])


def test_too_large_for_half_precision(tiny_bert: Path, tmp_path: Path) -> None:
    """Weights that are finite, and an output that half precision cannot hold: the remedy is another type."""
    name = "bert.encoder.layer.0.output.LayerNorm.weight"
    folder = damaged(tiny_bert, tmp_path / "large", name, slice(None), 60_000.0)
    ids = torch.tensor([[2, 9, 10, 3]])
    assert load_encoder(str(folder), device="cpu").hidden_states(ids, layers=[1])[1].max() > 60_000
    with pytest.raises(
        SignalError, match=r"layer \d are not finite; its weights are, so .* float16: .*--dtype float32"
    ):
        load_encoder(str(folder), device="cpu", dtype="float16").hidden_states(ids, layers=[0, 1, 2, 3])


def test_large_values_that_cancel_or_add_up_are_finite(tiny_bert: Path) -> None:
    own = load_encoder(str(tiny_bert), device="cpu")
    own.check_finite("hidden states", {1: torch.full((2, 3, 4), 3e38)})
    own.check_finite("hidden states", {1: torch.full((2, 3, 4), 60_000.0, dtype=torch.float16)})
    with pytest.raises(SignalError, match="layer 2"):
        own.check_finite("hidden states", {1: torch.zeros(2, 3, 4), 2: torch.tensor([[[math.inf, -math.inf]]])})
