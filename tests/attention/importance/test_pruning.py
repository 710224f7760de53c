"""Curves of heads taken out, against sets of heads counted out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bertology.attention.importance import MaskedWords, Without, head_importance, scores_without, without_heads
from bertology.corpora import Sentences
from bertology.encoders import Encoder, masked_lm_loss

HEADS = [(layer, head) for layer in (1, 2, 3) for head in (1, 2, 3, 4)]


def test_ends_are_the_whole_model_and_none_of_its_heads(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    loss, score, more_loss, more_right = without_heads(task, head_importance(task))[4:]
    whole = masked_lm_loss(own, sentences, share=0.3, seed=2)
    with own.gated_heads(dict.fromkeys(HEADS, 0.0)):
        nothing = masked_lm_loss(own, sentences, share=0.3, seed=2)
    for order in ("least important", "most important", "random"):
        assert loss.of(f"{order} 0 %").item() == pytest.approx(whole.bits, rel=1e-5)
        assert loss.of(f"{order} 100 %").item() == pytest.approx(nothing.bits, rel=1e-5)
        assert score.of(f"{order} 0 %").item() == pytest.approx(whole.accuracy)
        assert more_loss.of(f"{order} 100 %").item() == pytest.approx(nothing.bits - whole.bits, abs=1e-4)
        assert more_right.of(f"{order} 100 %").item() == pytest.approx(nothing.accuracy - whole.accuracy)
    for curve, change in ((loss, more_loss), (score, more_right)):
        first = curve.over[curve.names.index("random 0 %")]
        np.testing.assert_allclose(change.over, curve.over - first, atol=1e-9)
    assert len(loss.names) == 33
    assert (loss.layers, loss.unit, loss.metric) == ((), "model", "loss_bits")


def test_each_fold_is_pruned_by_what_the_other_shows(task: MaskedWords) -> None:
    importance = head_importance(task)
    loss = without_heads(task, importance, n_steps=4)[4]
    fold = np.arange(task.n_clusters) % 2
    for name, sign in (("least important 25 %", 1), ("most important 25 %", -1)):
        expected = np.zeros(task.n_clusters)
        for mine in (0, 1):
            ranks = importance.over[0][..., fold != mine].sum(-1).ravel()
            chosen = sorted(range(12), key=lambda place: sign * ranks[place])[:3]
            state = Without(frozenset(HEADS[place] for place in chosen))
            expected += np.where(fold == mine, scores_without(task, [state]).bits[0], 0)
        np.testing.assert_allclose(loss.over[loss.names.index(name), 0, 0], expected, rtol=1e-6)


def test_random_orders_are_averaged(task: MaskedWords) -> None:
    importance = head_importance(task)
    both = without_heads(task, importance, n_steps=2, seeds=(4, 9))[4]
    each = [without_heads(task, importance, n_steps=2, seeds=(seed,))[4] for seed in (4, 9)]
    for step in ("0 %", "50 %", "100 %"):
        mean = np.mean([one.of(f"random {step}") for one in each])
        assert both.of(f"random {step}").item() == pytest.approx(mean, rel=1e-6)
    assert each[0].of("random 50 %") != each[1].of("random 50 %")
