"""Curves of heads taken out, against sets of heads counted out by hand."""

import numpy as np
import pytest

from bertology.attention.importance import (
    Choice,
    MaskedWords,
    Without,
    harmful_heads,
    head_importance,
    scores_without,
    single_heads,
    without_heads,
)
from bertology.corpora import Sentences
from bertology.encoders import Encoder, masked_lm_loss
from bertology.measures.sums import HeadRatios
from bertology.pocket import load_corpus

HEADS = [(layer, head) for layer in (1, 2, 3) for head in (1, 2, 3, 4)]


def test_ends_are_the_whole_model_and_none_of_its_heads(
    own: Encoder, sentences: Sentences, task: MaskedWords, by: Choice
) -> None:
    loss, score, more_loss, more_right = without_heads(task, by)[2:]
    whole = masked_lm_loss(own, sentences, share=0.3, seed=2)
    with own.gated_heads(dict.fromkeys(HEADS, 0.0)):
        nothing = masked_lm_loss(own, sentences, share=0.3, seed=2)
    for order in ("least important", "most important", "least missed", "most missed", "random"):
        assert loss.of(f"{order} 0 %").item() == pytest.approx(whole.bits, rel=1e-5)
        assert loss.of(f"{order} 100 %").item() == pytest.approx(nothing.bits, rel=1e-5)
        assert score.of(f"{order} 0 %").item() == pytest.approx(whole.accuracy)
        assert more_loss.of(f"{order} 100 %").item() == pytest.approx(nothing.bits - whole.bits, abs=1e-4)
        assert more_right.of(f"{order} 100 %").item() == pytest.approx(nothing.accuracy - whole.accuracy)
    for curve, change in ((loss, more_loss), (score, more_right)):
        first = curve.over[curve.names.index("random 0 %")]
        np.testing.assert_allclose(change.over, curve.over - first, atol=1e-9)
    assert len(loss.names) == 56
    assert (loss.layers, loss.unit, loss.metric) == ((), "model", "loss_bits")


@pytest.mark.parametrize("is_other", [False, True], ids=["halves", "dev"])
def test_heads_are_taken_out_by_what_other_texts_show(own: Encoder, task: MaskedWords, *, is_other: bool) -> None:
    """Each half of the texts by the other, or all of them by dev."""
    dev = MaskedWords(own, load_corpus()["dev"][:20], share=0.3) if is_other else task
    by = Choice(head_importance(dev), single_heads(dev)[0], is_other=is_other)
    loss = without_heads(task, by, n_steps=4)[2]
    fold = np.arange(task.n_clusters) % 2
    for order, found in (("important", by.importance), ("missed", by.missed)):
        for most, sign in (("least", 1), ("most", -1)):
            expected = np.zeros(task.n_clusters)
            for mine in (0, 1):
                others = np.ones(dev.n_clusters, dtype=bool) if is_other else fold != mine
                ranks = found.over[0][..., others].sum(-1).ravel()
                chosen = sorted(range(12), key=lambda place: sign * ranks[place])[:3]
                state = Without(frozenset(HEADS[place] for place in chosen))
                expected += np.where(fold == mine, scores_without(task, [state]).loss[0], 0)
            place = loss.names.index(f"{most} {order} 25 %")
            np.testing.assert_allclose(loss.over[place, 0, 0], expected, rtol=1e-6)


def test_random_orders_are_averaged(task: MaskedWords, by: Choice) -> None:
    both = without_heads(task, by, n_steps=2, seeds=(4, 9))[2]
    each = [without_heads(task, by, n_steps=2, seeds=(seed,))[2] for seed in (4, 9)]
    for step in ("0 %", "50 %", "100 %"):
        mean = np.mean([one.of(f"random {step}") for one in each])
        assert both.of(f"random {step}").item() == pytest.approx(mean, rel=1e-6)
    assert each[0].of("random 50 %") != each[1].of("random 50 %")


def test_heads_that_harm_are_found_and_no_others() -> None:
    """Of 60 heads without an effect none, and two that raise the loss by half of its spread over texts."""
    dice = np.random.default_rng(1)
    over = dice.normal(size=(1, 6, 10, 300))
    under = np.ones((1, 1, 1, 300))
    assert harmful_heads(HeadRatios(("off",), tuple(range(1, 7)), over, under, "delta_loss_bits")) == ()
    over[0, 1, 4] -= 0.5
    over[0, 5, 0] -= 0.5
    over[0, 3, 3] += 1
    missed = HeadRatios(("off",), tuple(range(1, 7)), over, under, "delta_loss_bits")
    assert harmful_heads(missed) == ((2, 5), (6, 1))
    assert [found for _, found in Choice(missed, missed).folds] == [((2, 5), (6, 1))] * 2
