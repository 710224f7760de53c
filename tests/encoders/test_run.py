"""Texts run with interventions, against the model of transformers with plain hooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from bertology import Encoder, load_encoder
from bertology.encoders import EncoderRun, Intervention
from bertology.encoders.interventions import Site, intervening
from bertology.errors import BertologyError, CorpusError, ModelError

TEXTS = ["The guards near the dog [MASK] open.", "The cook and the guards [MASK] the dog."]
PIECES = {0: [2], 1: [5]}
"""Of *guards* in both texts, special pieces counted."""


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("pocket")


def plain(encoder: Encoder, text: str, register: Callable[[Any], Any] | None = None) -> tuple[Tensor, Tensor]:
    """``[layer, piece, dim]`` hidden states and ``[entry]`` logits at the mask; a function registers a hook."""
    model, tokenizer = encoder.model.with_head, encoder.tokenizer
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


def test_nothing_intervened_is_the_plain_model_bit_for_bit(encoder: Encoder) -> None:
    run = encoder.run(TEXTS)
    np.testing.assert_array_equal(run.vectors.to_numpy(), encoder.vectors(TEXTS).to_numpy())
    untouched = [Intervention(2, lambda state: state, site=site) for site in get_args(Site)]
    again = encoder.run(TEXTS, interventions=[*untouched, Intervention(1, lambda state: state, words="guards")])
    np.testing.assert_array_equal(again.vectors.to_numpy(), run.vectors.to_numpy())
    assert run.logits is not None
    assert again.logits is not None
    np.testing.assert_array_equal(again.logits.to_numpy(), run.logits.to_numpy())
    alone = encoder.run(TEXTS[0])
    close(alone, 1, *plain(encoder, TEXTS[0]))
    states, _ = plain(encoder, TEXTS[0])
    np.testing.assert_array_equal(alone.vectors.to_numpy(), states[:, 1:-1].numpy())


@pytest.mark.parametrize("site", get_args(Site))
def test_words_are_changed_as_by_plain_hooks(encoder: Encoder, site: Site) -> None:
    width = encoder.dim // encoder.n_heads
    dim, head = (width, 2) if site in ("head", "values") else (encoder.dim, None)
    generator = torch.Generator().manual_seed(1)
    vector, matrix = torch.randn(dim, generator=generator), torch.randn(dim, dim, generator=generator)
    usual: list[tuple[Callable[..., Intervention], Tensor, Callable[[Tensor], Tensor]]] = [
        (Intervention.replacing, vector, lambda state: vector.expand_as(state)),
        (Intervention.adding, vector, lambda state: state + vector),
        (Intervention.projecting, matrix, lambda state: state @ matrix.T),
    ]
    for make, values, change in usual:
        run = encoder.run(TEXTS, interventions=[make(2, values, site=site, head=head, words="Guards")])
        for number, text in enumerate(TEXTS):
            close(run, number + 1, *plain(encoder, text, changed_at(site, change, PIECES[number], 2, 2, width)))


def test_several_are_made_one_after_the_other_at_numbered_words(encoder: Encoder) -> None:
    vector = torch.linspace(-1, 1, encoder.dim)
    both = [Intervention.adding(1, vector, words=[2, 5]), Intervention.replacing(1, vector, words=2)]
    run = encoder.run(TEXTS[0], interventions=both)

    def change(state: Tensor) -> Tensor:
        return torch.stack([vector, state[0, 1] + vector])[None]

    close(run, 1, *plain(encoder, TEXTS[0], changed_at("hidden_state", change, [2, 5], 1, 1, 0)))


@pytest.mark.parametrize("site", get_args(Site))
def test_patched_states_are_those_of_the_other_text(encoder: Encoder, site: Site) -> None:
    other = TEXTS[0].replace("guards", "guard")
    every = encoder.run(TEXTS[0], interventions=[Intervention.patching(2, encoder, other, site=site)])
    if site == "hidden_state":  # all of a layer is the other text from there on
        states, logits = plain(encoder, other)
        np.testing.assert_allclose(every.vectors.to_numpy()[2:], states[2:, 1:-1].numpy(), atol=5e-5)
        assert every.logits is not None
        np.testing.assert_allclose(every.logits.to_numpy()[0], logits.numpy(), atol=5e-5, rtol=1e-6)
    kept: list[Tensor] = []
    head = 1 if site in ("head", "values") else None

    def keep(state: Tensor) -> Tensor:
        kept.append(state.clone())
        return state

    width = encoder.dim // encoder.n_heads
    plain(encoder, other, changed_at(site, keep, [2], 2, 1, width))
    patched = Intervention.patching(2, encoder, other, of="guard", site=site, head=head, words=2)
    run = encoder.run(TEXTS[0], interventions=[patched])
    close(run, 1, *plain(encoder, TEXTS[0], changed_at(site, lambda _: kept[0], [2], 2, 1, width)))


def test_masks_and_probabilities(encoder: Encoder) -> None:
    run = encoder.run(["The {mask} [MASK] open.", "No mask here.", "The dog <mask> open."], layers=-1)
    assert run.probabilities is not None
    assert list(run.probabilities.labels["mask"]) == [(1, 2, "[MASK]"), (1, 3, "[MASK]"), (3, 3, "[MASK]")]
    assert run.probabilities.to_numpy().sum(axis=1) == pytest.approx([1] * 3, abs=1e-5)
    assert float(run.probabilities.at(mask=(3, 3, "[MASK]"), entry="is").to_numpy()) > 0.1
    assert list(run.vectors.labels["layer"]) == [encoder.n_layers]
    without = encoder.run("No mask here.")
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
    encoder: Encoder, make: Callable[[Encoder], Intervention], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        encoder.run(TEXTS[0], interventions=[make(encoder)])


def test_texts_and_words_that_do_not_fit(encoder: Encoder) -> None:
    with pytest.raises(ModelError, match="longer than the"):
        encoder.run("dog " * 600)
    body, blocks = encoder.model.body, encoder.model.blocks
    named = [Intervention(1, lambda state: state, words=2)]
    with (
        pytest.raises(ModelError, match=r"found by Encoder\.run"),
        intervening(body, blocks, named, n_heads=encoder.n_heads, family=encoder.family),
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
