"""Heads disabled one by one, against whole passes with the same heads off by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertology.attention.importance import (
    MaskedWords,
    Without,
    head_importance,
    leave_one_layer_out,
    leave_one_out,
    scores_without,
    uniform_heads,
)
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, masked_lm_loss
from bertology.encoders.interventions import head_projection, value_projection
from bertology.errors import ModelError

# T5, BART and GPT-2 restore no masked words.
MASKED = ("albert", "deberta-v2", "deberta-v3", "distilbert", "electra", "modernbert", "mpnet", "roberta")


def by_hand(own: Encoder, sentences: Sentences, gates: dict[tuple[int, int], float], **settings: Any) -> Any:
    with own.gated_heads(gates):
        return masked_lm_loss(own, sentences, **settings)


def test_equals_whole_passes_with_gates(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    loss, score = leave_one_out(task)
    whole = masked_lm_loss(own, sentences, share=0.3, seed=2)
    for layer, head in itertools.product((1, 2, 3), (1, 2, 3, 4)):
        without = by_hand(own, sentences, {(layer, head): 0.0}, share=0.3, seed=2)
        np.testing.assert_allclose(
            loss.over[0, layer - 1, head - 1], without.sentence_bits - whole.sentence_bits, rtol=1e-4, atol=1e-4
        )
        np.testing.assert_array_equal(score.over[0, layer - 1, head - 1], without.sentence_right - whole.sentence_right)
        assert loss.of("off")[layer - 1, head - 1] == pytest.approx(without.bits - whole.bits, abs=1e-5)
    np.testing.assert_array_equal(loss.under[0, 0, 0], whole.sentence_words)
    assert (loss.metric, score.metric) == ("delta_loss_bits", "delta_accuracy")


@pytest.mark.parametrize("family", MASKED)
def test_in_every_family_that_restores_words(
    family: str, encoder: Callable[..., Encoder], sentences: Sentences
) -> None:
    own = encoder(family)
    few = sentences[:5]
    loss, _ = leave_one_out(MaskedWords(own, few))
    whole = masked_lm_loss(own, few).sentence_bits
    for layer, head in ((1, 2), (2, 4), (3, 1)):
        without = by_hand(own, few, {(layer, head): 0.0}).sentence_bits
        np.testing.assert_allclose(loss.over[0, layer - 1, head - 1], without - whole, rtol=1e-4, atol=1e-4)


def test_sentences_over_the_limit_and_of_one_word(own: Encoder) -> None:
    """One is read in windows, and all of them belong to its cluster."""
    texts = [["dog"], ["the", "dog", "sees", "a", "cat", ","] * 15, ["cats", "sleep"]]
    long = Sentences(Sentence.from_words(words, id=f"s{i}") for i, words in enumerate(texts))
    loss, _ = leave_one_out(MaskedWords(own, long))
    whole, without = masked_lm_loss(own, long), by_hand(own, long, {(2, 2): 0.0})
    assert own.tokenize(long).n_windows > 3
    assert loss.under[0, 0, 0].tolist() == whole.sentence_words.tolist() == [1, 14, 1]
    np.testing.assert_allclose(loss.over[0, 1, 1], without.sentence_bits - whole.sentence_bits, rtol=1e-4, atol=1e-4)
    assert (head_importance(MaskedWords(own, long)).of("importance") > 0).all()


def test_some_layers_alone(task: MaskedWords) -> None:
    loss, _ = leave_one_out(task)
    some, _ = leave_one_out(task, layers=[3, 2])
    assert some.layers == (2, 3)
    np.testing.assert_array_equal(some.of("off"), loss.of("off")[1:])


def test_a_useless_head_is_not_missed(task: MaskedWords, useless: tuple[int, int]) -> None:
    layer, head = useless
    for found in leave_one_out(task, ways=("off", "uniform")):
        for way in found.names:
            assert found.of(way)[layer - 1, head - 1] == pytest.approx(0, abs=1e-6)
            if found.metric == "delta_loss_bits":
                assert np.count_nonzero(np.abs(found.of(way)) > 1e-6) == found.of(way).size - 1


def test_uniform_attention_equals_other_maps(own: Encoder, task: MaskedWords, changed_maps: Callable[..., Any]) -> None:
    """Padding gets no attention; everything else gets the same."""

    def flatten(layer: int, maps: Tensor, mask: Tensor | None) -> Tensor:
        if layer == 2:
            maps = maps.clone()
            maps[:, 1] = torch.zeros_like(maps[:, 1]) if mask is None else mask[:, 0].expand_as(maps[:, 1])
            maps[:, 1] = maps[:, 1].softmax(-1)
        return maps

    assert any(batch.mask is not None for batch in task.batches)
    loss, _ = leave_one_out(task, ways=("uniform",))
    expected = np.zeros(task.n_clusters)
    with changed_maps(own, flatten):
        for batch in task.batches:
            answers = batch.ask(own)
            np.add.at(expected, batch.clusters[answers.rows], answers.nats.double().numpy() / np.log(2))
    whole = scores_without(task, [Without()]).bits[0]
    np.testing.assert_allclose(loss.over[0, 1, 1], expected - whole, rtol=1e-4, atol=1e-4)
    assert np.abs(expected - whole).max() > 1e-2


@pytest.mark.parametrize("family", ["albert", "bart", "deberta-v2", "distilbert", "mpnet", "roberta", "electra", "t5"])
def test_uniform_heads_give_the_mean_of_values(family: str, encoder: Callable[..., Encoder]) -> None:
    """All pieces then get the same from all heads, so that they differ by what comes in alone."""
    own = encoder(family)
    ids = torch.randint(6, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    given: list[Tensor] = []
    values: list[Tensor] = []
    all_heads = frozenset((layer, head) for layer in (1, 2, 3) for head in (1, 2, 3, 4))
    with uniform_heads(own, all_heads):
        projection = head_projection(own.model.blocks[0], family)
        handle = projection.register_forward_pre_hook(lambda module, args: given.append(args[0]))
        source = value_projection(own.model.blocks[0], family)
        other = source.register_forward_hook(lambda module, args, output: values.append(output))
        found = own.hidden_states(ids, mask, layers=[3])[3]
        handle.remove()
        other.remove()
        short = own.hidden_states(ids[1:, :6], layers=[3])[3]
    for row, length in enumerate((9, 6)):
        mean = values[0][row, :length].mean(0).expand_as(given[0][row])
        torch.testing.assert_close(given[0][row], mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[1, :6], short[0], rtol=1e-5, atol=1e-5)


def test_uniform_attention_where_values_are_not_known(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    task = MaskedWords(encoder("modernbert"), sentences[:3])
    with pytest.raises(
        ModelError, match=r"heads of modernbert models cannot be made .* known for albert, .*; gate them instead"
    ):
        leave_one_out(task, ways=("uniform",))


def test_whole_layers_and_layers_of_one_head(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    importance = head_importance(task).of("importance")
    loss, score = leave_one_layer_out(task, importance)
    assert loss.unit == "layer"
    assert loss.over.shape == (2, 3, 1, 24)
    whole = masked_lm_loss(own, sentences, share=0.3, seed=2)
    for layer in (1, 2, 3):
        best = int(importance[layer - 1].argmax()) + 1
        for name, kept in (("all off", 0), ("all but one off", best)):
            off = {(layer, head): 0.0 for head in (1, 2, 3, 4) if head != kept}
            without = by_hand(own, sentences, off, share=0.3, seed=2)
            assert loss.of(name)[layer - 1, 0] == pytest.approx(without.bits - whole.bits, abs=1e-5)
            assert score.of(name)[layer - 1, 0] == pytest.approx(without.accuracy - whole.accuracy, abs=1e-9)


def test_what_is_measured_leaves_no_trace(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    before = masked_lm_loss(own, sentences).sentence_bits
    leave_one_out(task, ways=("off", "uniform"))
    np.testing.assert_array_equal(masked_lm_loss(own, sentences).sentence_bits, before)


def test_several_threads_find_the_same(task: MaskedWords) -> None:
    one = leave_one_out(task, ways=("off", "uniform"))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = leave_one_out(task, ways=("off", "uniform"))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(two[0].over, one[0].over, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_asked(task: MaskedWords) -> None:
    with pytest.raises(ModelError, match=r"heads of .* are in layers 1…3"):
        leave_one_out(task, layers=[0])
    with pytest.raises(ModelError, match="give off or uniform"):
        leave_one_out(task, ways=("zero",))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"\[layer, head\], \[3, 4\]"):
        leave_one_layer_out(task, np.ones((2, 4)))
    with pytest.raises(ModelError, match="head L4H1"):
        scores_without(task, [Without(frozenset({(4, 1)}))])
