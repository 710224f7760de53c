"""Scores of words: against captum, plain hooks and masks by hand, and what the grammar of the pocket world says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bertology.causal import PatchPair, agreement_pairs, attribute
from bertology.encoders import Encoder
from bertology.errors import ClozeError, ModelError, NameNotFoundError

QUESTION = PatchPair("The guards near the dog [MASK] open.", "", "are", "is")


def _plain(encoder: Encoder) -> tuple[Any, torch.Tensor, int, list[int]]:
    model, tokenizer = encoder.model.with_head, encoder.tokenizer
    ids = tokenizer(QUESTION.text, return_tensors="pt")["input_ids"]
    mask = int((ids[0] == tokenizer.mask_token_id).nonzero()[0, 0])
    return model, ids, mask, [tokenizer.convert_tokens_to_ids(word) for word in ("are", "is")]


def _difference(encoder: Encoder, **inputs: Any) -> torch.Tensor:
    model, _, mask, (good, bad) = _plain(encoder)
    logits = model(**inputs).logits
    return logits[:, mask, good] - logits[:, mask, bad]


def test_leave_one_out_is_a_mask_in_place_of_each_word(encoder: Encoder) -> None:
    _, ids, mask, _ = _plain(encoder)
    found = attribute(encoder, [QUESTION], methods=["leave_one_out"]).found[0]
    with torch.inference_mode():
        whole = _difference(encoder, input_ids=ids)
        expected = []
        for place in range(1, ids.shape[1] - 1):
            without = ids.clone()
            without[0, place] = encoder.mask_id
            expected.append(float(whole - _difference(encoder, input_ids=without)))
    assert found.difference == pytest.approx(float(whole), abs=1e-4)
    assert found.scores["leave_one_out", 0] == pytest.approx(expected, abs=1e-4)
    assert found.mask == mask - 1


def test_gradients_are_those_of_plain_backward_passes(encoder: Encoder) -> None:
    _, ids, mask, (good, bad) = _plain(encoder)
    found = attribute(encoder, [QUESTION], methods=["gradient_times_input"], layers=[0, 2]).found[0]
    model: Any = encoder.model.with_head
    vectors = model.get_input_embeddings()(ids).detach().requires_grad_(True)
    output = model(inputs_embeds=vectors, output_hidden_states=True)
    difference = output.logits[0, mask, good] - output.logits[0, mask, bad]
    for layer in (0, 2):
        state = output.hidden_states[layer]
        (gradient,) = torch.autograd.grad(difference, state, retain_graph=True)
        expected = (gradient * state).sum(-1)[0, 1:-1].detach().numpy()
        assert found.scores["gradient_times_input", layer] == pytest.approx(expected, abs=1e-4)


def test_value_zeroing_is_a_hook_that_zeroes_values(encoder: Encoder) -> None:
    _, ids, mask, _ = _plain(encoder)
    found = attribute(encoder, [QUESTION], methods=["value_zeroing"], layers=[3]).found[0]
    model: Any = encoder.model.with_head
    value = model.bert.encoder.layer[2].attention.self.value
    with torch.inference_mode():
        plain = model(ids, output_hidden_states=True).hidden_states[3][0, mask]
        expected = []
        for place in range(1, ids.shape[1] - 1):

            def zero(module: Any, args: Any, output: torch.Tensor, place: int = place) -> torch.Tensor:
                output[:, place] = 0
                return output

            handle = value.register_forward_hook(zero)
            changed = model(ids, output_hidden_states=True).hidden_states[3][0, mask]
            handle.remove()
            expected.append(1 - float(torch.cosine_similarity(changed, plain, dim=0)))
    assert found.scores["value_zeroing", 3] == pytest.approx(expected, abs=1e-5)


def test_attention_is_that_of_the_mask(encoder: Encoder) -> None:
    _, ids, mask, _ = _plain(encoder)
    found = attribute(encoder, [QUESTION], methods=["attention", "attention_norms", "rollout"], layers=[1]).found[0]
    weights = encoder.attentions(ids, layers=[1])[1][0]
    expected = weights.mean(0)[mask, 1:-1].numpy()
    assert found.scores["attention", 1] == pytest.approx(expected, abs=1e-6)
    model: Any = encoder.model.with_head
    attention = model.bert.encoder.layer[0].attention
    with torch.inference_mode():
        state = model(ids, output_hidden_states=True).hidden_states[0]
        values = attention.self.value(state)[0].unflatten(-1, (encoder.n_heads, -1))
        output = attention.output.dense.weight.unflatten(-1, (encoder.n_heads, -1))
        norms = torch.einsum("phv,dhv->hpd", values, output).norm(dim=-1)
    of_mask = (weights[:, mask] * norms).mean(0)[1:-1].numpy()
    assert found.scores["attention_norms", 1] == pytest.approx(of_mask, abs=1e-4)
    # One layer of rollout mixes half of the weights with the unit itself.
    of_rollout = 0.5 * expected + 0.5 * (np.arange(1, ids.shape[1] - 1) == mask)
    assert found.scores["rollout", 1] == pytest.approx(of_rollout, abs=1e-6)


def test_faithfulness_by_hand(encoder: Encoder) -> None:
    _, ids, _, _ = _plain(encoder)
    found = attribute(encoder, [QUESTION], methods=["leave_one_out", "random"])
    of_method = found.faithfulness(most=1)["leave_one_out", 0]
    assert of_method.rank_correlation.tolist() == pytest.approx([1.0])
    one = found.found[0]
    first = one.ranked("leave_one_out", 0)[0]
    only, without = ids.clone(), ids.clone()
    without[0, first + 1] = encoder.mask_id
    only[0, [place for place in range(1, ids.shape[1] - 1) if place != first + 1]] = encoder.mask_id
    with torch.inference_mode():
        p, p_without, p_only = (float(torch.sigmoid(_difference(encoder, input_ids=x))) for x in (ids, without, only))
    assert of_method.comprehensiveness[0] == pytest.approx(p - p_without, abs=1e-4)
    assert of_method.sufficiency[0] == pytest.approx(p - p_only, abs=1e-4)


def test_the_subject_is_found_and_by_chance_it_is_not(encoder: Encoder) -> None:
    pairs = agreement_pairs(most=40)
    found = attribute(encoder, pairs, methods=["leave_one_out", "integrated_gradients", "random"])
    causes = [[n for n, name in enumerate(pairs[one.number].places) if name == "subject"] for one in found.found]
    firsts = {key[0]: [one.ranked(*key)[0] for one in found.found] for key in found.methods}
    share = {
        method: np.mean([first in cause for first, cause in zip(of_method, causes, strict=True)])
        for method, of_method in firsts.items()
    }
    assert share["leave_one_out"] > 0.6
    assert share["integrated_gradients"] > 0.5
    assert share["random"] < 0.35


def test_mistakes_are_named(encoder: Encoder) -> None:
    with pytest.raises(NameNotFoundError, match="method of attribution 'atention'"):
        attribute(encoder, [QUESTION], methods=["atention"])
    with pytest.raises(NameNotFoundError, match="baseline"):
        attribute(encoder, [QUESTION], baseline="zero")
    with pytest.raises(ModelError, match="layer 9"):
        attribute(encoder, [QUESTION], layers=[9])
    with pytest.raises(ClozeError, match="no question"):
        attribute(encoder, [])
    with pytest.raises(ClozeError, match="0 masks"):
        attribute(encoder, [PatchPair("No mask here.", "", "are", "is")])


def test_scores_of_contracted_words_sum_to_those_of_the_text(encoder: Encoder) -> None:
    """The subword of a contraction belongs to both words, and counts once."""
    text = "The guards don't [MASK] open."
    question = PatchPair(text, text, "are", "is", language="en")
    found = attribute(encoder, [question], steps=200, layers=[0, 3]).found[0]
    assert found.words[2:4] == ("do", "n't")
    shared = found.subwords([2])
    assert np.intersect1d(shared, found.subwords([3])).size > 0
    ids = torch.from_numpy(found.aligned.ids[0])[None]
    model: Any = encoder.model.with_head
    vectors = model.get_input_embeddings()(ids).detach().requires_grad_(True)
    output = model(inputs_embeds=vectors, output_hidden_states=True)
    good, bad = found.aligned.candidates
    logits = output.logits[0, found.aligned.mask]
    state = output.hidden_states[0]
    (gradient,) = torch.autograd.grad(logits[good] - logits[bad], state)
    whole = float((gradient * state)[0, 1:-1].sum().detach())
    assert found.scores["gradient_times_input", 0].sum() == pytest.approx(whole, abs=1e-4)
    maps = encoder.attentions(ids, layers=[3])[3][0].double().mean(0)
    of_text = float(maps[found.aligned.mask, 1:-1].sum())
    assert found.scores["attention", 3].sum() == pytest.approx(of_text, abs=1e-5)
    with torch.inference_mode():
        empty = ids.clone()
        empty[0, 1:-1] = encoder.mask_id
        full, start = (model(one).logits[0, found.aligned.mask] for one in (ids, empty))
    difference = float((full[good] - full[bad]) - (start[good] - start[bad]))
    assert found.scores["integrated_gradients", 0].sum() == pytest.approx(difference, abs=0.02 * abs(difference))


def test_a_word_that_is_kept_keeps_the_subwords_that_it_shares(encoder: Encoder) -> None:
    text = "The guards don't [MASK] open."
    question = PatchPair(text, text, "are", "is", language="en")
    found = attribute(encoder, [question], methods=["random"])
    (one,) = found.found
    # The highest of all words shares its subword with the next: all others masked, its own is there.
    one.scores["random", 0][:] = [0, 0, 1, 0.9, 0, 0, 0]
    with torch.inference_mode():
        ids = torch.from_numpy(one.aligned.ids[0]).clone()
        masked = torch.ones_like(ids, dtype=torch.bool)
        masked[[0, -1]] = False
        masked[one.subwords([2])] = False
        ids[masked] = encoder.mask_id
        good, bad = one.aligned.candidates
        model: Any = encoder.model.with_head
        logits = model(ids[None]).logits[0, one.aligned.mask]
    left = 1 / (1 + np.exp(-float(logits[good] - logits[bad])))
    whole = 1 / (1 + np.exp(-one.difference))
    assert found.faithfulness(most=1)["random", 0].sufficiency[0] == pytest.approx(whole - left, abs=1e-5)
