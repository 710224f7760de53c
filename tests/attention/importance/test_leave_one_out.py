"""Heads disabled one by one, against whole passes with the same heads off by hand."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertology.attention.importance import Choice, MaskedWords, Without, scores_without, single_heads, without_heads
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder, masked_lm_loss
from bertology.errors import ModelError


def by_hand(own: Encoder, sentences: Sentences, gates: dict[tuple[int, int], float], **settings: Any) -> Any:
    with own.gated_heads(gates):
        return masked_lm_loss(own, sentences, **settings)


def test_equals_whole_passes_with_gates(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    loss, score = single_heads(task)
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


def test_uniform_attention_equals_other_maps(own: Encoder, task: MaskedWords, changed_maps: Callable[..., Any]) -> None:
    """Padding gets no attention; everything else gets the same."""

    def flatten(layer: int, maps: Tensor, mask: Tensor | None) -> Tensor:
        if layer == 2:
            maps = maps.clone()
            maps[:, 1] = torch.zeros_like(maps[:, 1]) if mask is None else mask[:, 0].expand_as(maps[:, 1])
            maps[:, 1] = maps[:, 1].softmax(-1)
        return maps

    assert any(batch.mask is not None for batch in task.batches)
    loss, _ = single_heads(task, ways=("uniform",))
    expected = np.zeros(task.n_clusters)
    with changed_maps(own, flatten):
        for batch in task.batches:
            answers = task.ask(own, batch)
            np.add.at(expected, task.clusters(batch)[answers.texts], answers.loss.double().numpy() / np.log(2))
    whole = scores_without(task, [Without()]).loss[0]
    np.testing.assert_allclose(loss.over[0, 1, 1], expected - whole, rtol=1e-4, atol=1e-4)
    assert np.abs(expected - whole).max() > 1e-2


def test_uniform_attention_where_values_are_not_known(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    task = MaskedWords(encoder("modernbert"), sentences[:3])
    with pytest.raises(ModelError, match="site values: not known of modernbert models, only of albert"):
        single_heads(task, ways=("uniform",))


def test_whole_layers_and_layers_of_one_head(own: Encoder, sentences: Sentences, task: MaskedWords, by: Choice) -> None:
    importance, (loss, score) = by.importance.of("importance"), without_heads(task, by, n_steps=1, seeds=(0,))[:2]
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


def test_what_cannot_be_asked(task: MaskedWords, by: Choice) -> None:
    with pytest.raises(ModelError, match=r"layers are 1…3"):
        without_heads(task, by, layers=[0])
    with pytest.raises(ModelError, match="0 random orders: give at least"):
        without_heads(task, by, seeds=())


def test_a_model_without_a_head_for_a_task_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(ModelError, match="no head for a task: give a model that was fine-tuned"):
        load_encoder(str(tiny_bert), device="cpu").task_output(torch.zeros(1, 4, dtype=torch.long))
