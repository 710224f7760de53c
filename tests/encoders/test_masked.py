"""The masked-LM head: logits, features, the last block at few places, and losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from bertology.corpora import Sentences
from bertology.encoders import Encoder, _modules, load_encoder, masked_lm_loss, masked_loss
from bertology.encoders._modules import LoadedModel, find_blocks, run_to_layers, states_at
from bertology.encoders.heads import LanguageHead, head_logits
from bertology.errors import ModelError
from bertology.pocket import load_corpus as load_pocket

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


class Added(nn.Module):
    """A model whose logits are more than its output embedding's."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.base_model, self.config = model, model.base_model, model.config

    def get_output_embeddings(self) -> Any:
        return self.model.get_output_embeddings()

    def forward(self, **inputs: Any) -> Any:
        output = self.model(**inputs)
        output.logits = output.logits * 2
        return output


def test_a_head_that_does_not_come_apart_stays_whole(encoder: Encoders) -> None:
    own = encoder("bert")
    model = Added(own.model.with_head)
    hidden = torch.randn(4, own.dim, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        head = LanguageHead(model)
        features = head.features(hidden)
        torch.testing.assert_close(features, hidden)
        whole = head_logits(own.model.with_head, hidden) * 2
        torch.testing.assert_close(head.logits(features), whole)
        torch.testing.assert_close(head.logits(features, torch.tensor([7, 8])), whole[:, 7:9])
    assert head.n_entries == whole.shape[1]


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
    real = _modules._block_at

    def block_at(parts: Any, hidden: Tensor, mask: Any, positions: Tensor, n_heads: int) -> Tensor:
        taken.append(len(positions))
        return real(parts, hidden, mask, positions, n_heads)

    monkeypatch.setattr(_modules, "_block_at", block_at)
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


def relative(body: Any) -> Any:
    body.config.position_embedding_type = "relative_key"
    return body


@pytest.mark.parametrize(
    ("family", "changes", "changed", "layers"),
    [
        ("bert", {"is_decoder": True}, lambda body: body, {1, 3}),
        ("roberta", {"is_decoder": True}, lambda body: body, {1, 3}),
        ("albert", {}, lambda body: body, {1, 3}),
        ("bert", {}, relative, {3}),
        ("bert", {}, lambda body: body.to(torch.bfloat16), {3}),
        ("bert", {}, lambda body: body, {0}),
    ],
)
def test_what_is_built_otherwise_is_run_whole(
    family: str, changes: dict[str, Any], changed: Any, layers: set[int], narrow: list[int]
) -> None:
    body, blocks = build(family, **changes)
    at, whole = both(family, changed(body), blocks, layers, padded=True, positions=POSITIONS)
    assert all(torch.equal(at[layer], whole[layer]) for layer in layers)
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


@pytest.fixture(scope="module")
def own(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert), device="cpu")


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    return load_pocket()["test"][:40]


def places_of(encoder: Encoder, sentences: Sentences, seed: int) -> masked_loss.Places:
    return masked_loss.MaskedText(encoder, sentences, share=0.15, seed=seed, on_long="window").places


def test_equals_a_pass_by_hand(own: Encoder, sentences: Sentences) -> None:
    """Each sentence on its own, its masked words found through their text."""
    found = masked_lm_loss(own, sentences, seed=3)
    pieces = own.tokenize(sentences)
    places = places_of(own, sentences, 3)
    for number in (0, 7, 39):
        ids = torch.from_numpy(pieces.window(number).astype(np.int64))[None]
        here = places.piece[places.window == number]
        words = places.word[places.window == number]
        masked = ids.clone()
        masked[0, here] = own.mask_id
        with torch.no_grad():
            logits = own.model.with_head(input_ids=masked).logits[0, here].double()
        log_prob = logits.log_softmax(1).gather(1, ids[0, here][:, None])[:, 0]
        assert found.sentence_bits[number] == pytest.approx(float(-log_prob.sum() / np.log(2)), rel=1e-4)
        right = (logits.argmax(1) == ids[0, here]).numpy()
        assert found.sentence_right[number] == sum(right[words == word].all() for word in set(words.tolist()))
        assert found.sentence_words[number] == len(set(words.tolist()))


def test_whole_words_of_every_sentence_are_masked(own: Encoder, sentences: Sentences) -> None:
    pieces = own.tokenize(sentences)
    places = places_of(own, sentences, 0)
    for word in set(places.word.tolist()):
        expected = list(range(pieces.word_first[word], pieces.word_last[word]))
        assert places.piece[places.word == word].tolist() == expected
    lengths = np.diff(sentences.starts)
    counted = np.bincount(np.searchsorted(sentences.starts, np.unique(places.word), "right") - 1, minlength=40)
    np.testing.assert_array_equal(counted, np.maximum(1, np.rint(0.15 * lengths)))
    other = places_of(own, sentences, 1)
    assert set(places.word.tolist()) != set(other.word.tolist())
    # what is drawn in a sentence does not depend on those after it
    fewer = places_of(own, sentences[:9], 0)
    assert set(fewer.word.tolist()) == {word for word in places.word.tolist() if word < sentences.starts[9]}


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_change_of_nothing_changes_nothing(own: Encoder, sentences: Sentences, layer: int) -> None:
    from bertology.readouts.erasure import Erasure

    nothing = Erasure(torch.zeros(1, 32, 2), torch.zeros(1, 2, 32), torch.ones(1, 32), (0,)).layer(0)
    before = masked_lm_loss(own, sentences)
    after = masked_lm_loss(own, sentences, layer=layer, change=nothing)
    # Where the last layer is changed its block is run whole, in an order of products that rounds otherwise.
    np.testing.assert_allclose(before.sentence_bits, after.sentence_bits, rtol=1e-5 if layer == 3 else 0)
    np.testing.assert_array_equal(before.sentence_right, after.sentence_right)
    everything = masked_lm_loss(own, sentences, layer=layer, change=torch.zeros_like)
    assert (everything.sentence_bits != before.sentence_bits).all()


def test_what_cannot_be_asked(own: Encoder, sentences: Sentences, encoder: Callable[[str], Encoder]) -> None:
    with pytest.raises(ModelError, match="no masked-LM head"):
        masked_lm_loss(encoder("t5"), sentences)
    with pytest.raises(ModelError, match="layers are 0…3"):
        masked_lm_loss(own, sentences, layer=4, change=torch.zeros_like)
    with pytest.raises(ModelError, match="belong together"):
        masked_lm_loss(own, sentences, layer=2)
    with pytest.raises(ModelError, match="at most 1"):
        masked_lm_loss(own, sentences, share=0.0)
    with pytest.raises(ModelError, match="no word to mask"):
        masked_lm_loss(own, sentences[:0])


def test_words_can_be_chosen(own: Encoder, sentences: Sentences) -> None:
    drawn = masked_lm_loss(own, sentences, seed=3)
    again = masked_lm_loss(own, sentences, words=drawn.words)
    np.testing.assert_array_equal(again.word_bits, drawn.word_bits)
    assert drawn.word_bits.sum() == pytest.approx(drawn.sentence_bits.sum())
    other = masked_lm_loss(own, sentences, words=np.array([2, 5]))
    assert (other.words.tolist(), other.n_words) == ([2, 5], 2)
