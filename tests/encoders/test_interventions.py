"""Interventions: gates, changed states, and runs of texts with them, against blocks run by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from bertology.encoders import Encoder, Intervention, load_encoder
from bertology.encoders._modules import find_blocks
from bertology.encoders.encoder import EncoderRun
from bertology.encoders.interventions import Site, changing, find_part, gating, intervening
from bertology.errors import BertologyError, CorpusError, ModelError

Encoders = Callable[[str], Encoder]
# All families but ALBERT, whose layers share one block: it has a test of its own.
UNSHARED = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "deberta-v2", "deberta-v3", "mpnet")
UNSHARED += ("modernbert", "t5", "bart", "gpt2")


def ids_for(encoder: Encoder) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(6, len(encoder.tokenizer), (2, 13), generator=generator)


def silence(encoder: Encoder, layer: int, head: int) -> Callable[[], None]:
    """Zero a head's columns of the projection's weight; the function returned puts them back."""
    projection: Any = find_part(encoder.model.blocks[layer - 1], encoder.family, "head")
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
        gated = own.hidden_states(ids, layers=[1, 2])
    torch.testing.assert_close(gated[1], before[1], rtol=0, atol=0)
    assert (gated[2] - before[2]).abs().max() > 1e-3
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
        weight: Any = find_part(blocks[layer - 1], family, "head").weight
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


@pytest.mark.parametrize(
    ("head", "gate", "message"),
    [
        ((4, 1), 0.0, "head L4H1: the model has 3 layers of 4 heads"),
        ((1, 5), 0.0, "head L1H5: the model has 3 layers of 4 heads"),
        ((1, 1), torch.ones(2, 2), "one number"),
        ((1, 1), torch.ones(3), "layer 1: gates of 3 rows"),
    ],
)
def test_gates_that_do_not_fit(encoder: Encoders, head: tuple[int, int], gate: Any, message: str) -> None:
    own = encoder("bert")
    with pytest.raises(ModelError, match=message), own.gated_heads({head: gate}):
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


def test_gated_encoders_have_no_twins(encoder: Encoders) -> None:
    """What gates a model counts the blocks of one pass: two threads would gate each other's layers."""
    own = encoder("bert")
    assert not own.is_gated
    with own.gated_heads({(1, 1): 0.0}), pytest.raises(ModelError, match="make twins before gated_heads"):
        own.twin()
    assert not own.twin().is_gated


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


TEXTS = ["The guards near the dog [MASK] open.", "The cook and the guards [MASK] the dog."]
PIECES = {0: [2], 1: [5]}
"""Of *guards* in both texts, special pieces counted."""


@pytest.fixture(scope="module")
def pocket() -> Encoder:
    return load_encoder("pocket", device="cpu")


def plain(pocket: Encoder, text: str, register: Callable[[Any], Any] | None = None) -> tuple[Tensor, Tensor]:
    """``[layer, piece, dim]`` hidden states and ``[entry]`` logits at the mask; a function registers a hook."""
    model, tokenizer = pocket.model.with_head, pocket.tokenizer
    assert model is not None
    inputs = tokenizer(text, return_tensors="pt")
    states: list[Tensor] = []
    body = model.base_model
    handles = [] if register is None else [register(body)]
    for module in (body.embeddings, *body.encoder.layer):  # after the hook that changes them
        handles.append(module.register_forward_hook(lambda _, args, output: states.append(output.clone())))
    with torch.inference_mode():
        logits = model(**inputs).logits
    for handle in handles:
        handle.remove()
    mask = int((inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0])
    return torch.cat(states), logits[0, mask]


def changed_at(site: Site, change: Callable[[Tensor], Tensor], pieces: Any, layer: int, head: int, width: int) -> Any:
    """What registers a plain hook that changes some pieces at a site."""
    dims = slice((head - 1) * width, head * width) if site in ("head", "values") else slice(None)

    def exchange(values: Tensor) -> Tensor:
        values = values.clone()
        values[:, pieces, dims] = change(values[:, pieces, dims])
        return values

    def register(body: Any) -> Any:
        block = body.encoder.layer[layer - 1]
        if site == "head":
            return block.attention.output.dense.register_forward_pre_hook(lambda _, args: (exchange(args[0]),))
        if site == "neurons":
            return block.intermediate.register_forward_hook(lambda _, args, output: exchange(output))
        part = {
            "hidden_state": block,
            "attention_output": block.attention.output.dense,
            "feed_forward_output": block.output.dense,
            "values": block.attention.self.value,
        }[site]
        return part.register_forward_hook(lambda _, args, output: exchange(output))

    return register


def close(run: EncoderRun, text: int, states: Tensor, logits: Tensor) -> None:
    """Within 2e-4, where states are of size 20; words of these texts are single pieces."""
    places = [place for place, label in enumerate(run.vectors.labels["word"]) if label[0] == text]
    np.testing.assert_allclose(run.vectors.to_numpy()[:, places], states[:, 1:-1].numpy(), atol=2e-4, rtol=1e-5)
    assert run.logits is not None
    np.testing.assert_allclose(run.logits.to_numpy()[text - 1], logits.numpy(), atol=2e-4, rtol=1e-5)


def test_nothing_intervened_is_the_plain_model_bit_for_bit(pocket: Encoder) -> None:
    run = pocket.run(TEXTS)
    np.testing.assert_array_equal(run.vectors.to_numpy(), pocket.vectors(TEXTS).to_numpy())
    untouched = [Intervention(2, lambda state: state, site=site) for site in get_args(Site)]
    again = pocket.run(TEXTS, interventions=[*untouched, Intervention(1, lambda state: state, words="guards")])
    np.testing.assert_array_equal(again.vectors.to_numpy(), run.vectors.to_numpy())
    assert run.logits is not None
    assert again.logits is not None
    np.testing.assert_array_equal(again.logits.to_numpy(), run.logits.to_numpy())
    alone = pocket.run(TEXTS[0])
    close(alone, 1, *plain(pocket, TEXTS[0]))
    states, _ = plain(pocket, TEXTS[0])
    np.testing.assert_array_equal(alone.vectors.to_numpy(), states[:, 1:-1].numpy())


@pytest.mark.parametrize("site", get_args(Site))
def test_words_are_changed_as_by_plain_hooks(pocket: Encoder, site: Site) -> None:
    width = pocket.dim // pocket.n_heads
    dim, head = (width, 2) if site in ("head", "values") else (pocket.dim, None)
    dim = pocket.model.body.config.intermediate_size if site == "neurons" else dim
    generator = torch.Generator().manual_seed(1)
    vector, matrix = torch.randn(dim, generator=generator), torch.randn(dim, dim, generator=generator)
    usual: list[tuple[Callable[..., Intervention], Tensor, Callable[[Tensor], Tensor]]] = [
        (Intervention.replacing, vector, lambda state: vector.expand_as(state)),
        (Intervention.adding, vector, lambda state: state + vector),
        (Intervention.projecting, matrix, lambda state: state @ matrix.T),
    ]
    for make, values, change in usual:
        run = pocket.run(TEXTS, interventions=[make(2, values, site=site, head=head, words="Guards")])
        for number, text in enumerate(TEXTS):
            close(run, number + 1, *plain(pocket, text, changed_at(site, change, PIECES[number], 2, 2, width)))


def test_several_are_made_one_after_the_other_at_numbered_words(pocket: Encoder) -> None:
    vector = torch.linspace(-1, 1, pocket.dim)
    both = [Intervention.adding(1, vector, words=[2, 5]), Intervention.replacing(1, vector, words=2)]
    run = pocket.run(TEXTS[0], interventions=both)

    def change(state: Tensor) -> Tensor:
        return torch.stack([vector, state[0, 1] + vector])[None]

    close(run, 1, *plain(pocket, TEXTS[0], changed_at("hidden_state", change, [2, 5], 1, 1, 0)))


@pytest.mark.parametrize("site", get_args(Site))
def test_patched_states_are_those_of_the_other_text(pocket: Encoder, site: Site) -> None:
    other = TEXTS[0].replace("guards", "guard")
    every = pocket.run(TEXTS[0], interventions=[Intervention.patching(2, pocket, other, site=site)])
    if site == "hidden_state":  # all of a layer is the other text from there on
        states, logits = plain(pocket, other)
        np.testing.assert_allclose(every.vectors.to_numpy()[2:], states[2:, 1:-1].numpy(), atol=5e-5)
        assert every.logits is not None
        np.testing.assert_allclose(every.logits.to_numpy()[0], logits.numpy(), atol=5e-5, rtol=1e-6)
    kept: list[Tensor] = []
    head = 1 if site in ("head", "values") else None

    def keep(state: Tensor) -> Tensor:
        kept.append(state.clone())
        return state

    width = pocket.dim // pocket.n_heads
    plain(pocket, other, changed_at(site, keep, [2], 2, 1, width))
    patched = Intervention.patching(2, pocket, other, of="guard", site=site, head=head, words=2)
    run = pocket.run(TEXTS[0], interventions=[patched])
    close(run, 1, *plain(pocket, TEXTS[0], changed_at(site, lambda _: kept[0], [2], 2, 1, width)))


def test_masks_and_probabilities(pocket: Encoder) -> None:
    run = pocket.run(["The {mask} [MASK] open.", "No mask here.", "The dog <mask> open."], layers=-1)
    assert run.probabilities is not None
    assert list(run.probabilities.labels["mask"]) == [(1, 2, "[MASK]"), (1, 3, "[MASK]"), (3, 3, "[MASK]")]
    assert run.probabilities.to_numpy().sum(axis=1) == pytest.approx([1] * 3, abs=1e-5)
    assert float(run.probabilities.at(mask=(3, 3, "[MASK]"), entry="is").to_numpy()) > 0.1
    assert list(run.vectors.labels["layer"]) == [pocket.n_layers]
    without = pocket.run("No mask here.")
    assert without.logits is None
    assert without.probabilities is None


@pytest.mark.parametrize(
    ("make", "error", "problem"),
    [
        (lambda e: Intervention.adding(1, torch.ones(e.dim), words="gards"), CorpusError, "'gards'"),
        (lambda e: Intervention.adding(1, torch.ones(e.dim), words=[2, 9]), CorpusError, "word 9"),
        (lambda e: Intervention.adding(9, torch.ones(e.dim)), ModelError, "layer 9"),
        (lambda e: Intervention.adding(1, torch.ones(7)), ModelError, r"values of shape \[7\]"),
        (lambda e: Intervention.projecting(1, torch.ones(7, 7)), ModelError, r"matrix of shape \[7, 7\]"),
        (lambda e: Intervention.patching(1, e, TEXTS[1], words=[2, 3], of=2), ModelError, "one for each piece"),
        (lambda e: Intervention(1, lambda state: state[:, :0], words=2), ModelError, "keeps shape and type"),
        (lambda e: Intervention.adding(1, torch.ones(e.dim), site="heads"), BertologyError, "heads"),
    ],
)
def test_what_does_not_fit_is_said(
    pocket: Encoder, make: Callable[[Encoder], Intervention], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        pocket.run(TEXTS[0], interventions=[make(pocket)])


def test_texts_and_words_that_do_not_fit(pocket: Encoder) -> None:
    with pytest.raises(ModelError, match="longer than the"):
        pocket.run("dog " * 600)
    body, blocks = pocket.model.body, pocket.model.blocks
    named = [Intervention(1, lambda state: state, words=2)]
    with (
        pytest.raises(ModelError, match=r"found by Encoder\.run"),
        intervening(body, blocks, named, n_heads=pocket.n_heads, family=pocket.family),
    ):
        pass


def test_every_family_with_a_head(masked_family: str, tiny: Callable[[str], Path]) -> None:
    """All states of another text put in are the other text; a masked word is found whatever its pieces."""
    own = load_encoder(str(tiny(masked_family)), device="cpu")
    text, other = "The brown dogs jump over the quick fox [MASK].", "The quick fox jump over the brown dogs [MASK]."
    patched = own.run(text, interventions=[Intervention.patching(1, own, other)])
    plainly = own.run(other)
    assert patched.logits is not None
    assert plainly.logits is not None
    assert len(plainly.logits.labels["mask"]) == 1
    model: Any = transformers.AutoModelForMaskedLM.from_pretrained(tiny(masked_family)).eval()
    inputs = own.tokenizer(other.replace("[MASK]", own.mask_token), return_tensors="pt")
    with torch.inference_mode():
        expected = model(**inputs).logits[0][inputs["input_ids"][0] == own.mask_id]
    np.testing.assert_allclose(plainly.logits.to_numpy().reshape(1, -1), expected.numpy(), atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(patched.logits.to_numpy(), plainly.logits.to_numpy(), atol=1e-5, rtol=1e-6)
    changed = own.run(text, interventions=[Intervention.adding(1, torch.ones(own.dim), words="dogs")]).vectors
    moved = changed.to_numpy()[1] - own.run(text).vectors.to_numpy()[1]
    is_dogs = [form == "dogs" for _, _, form in changed.labels["word"]]
    assert moved[is_dogs] == pytest.approx(1, abs=1e-5)
    assert not moved[np.logical_not(is_dogs)].any()
