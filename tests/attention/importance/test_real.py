"""Importance in a real encoder on real text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from bertology.attention.importance import MaskedWords, Without, attention_gradients, head_importance, scores_without
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder


def test_heads_that_matter_are_found(real_model: Path, real_data: Callable[[str], Path]) -> None:
    """A tenth of the heads: without the most important ones far more is lost than without the least important ones."""
    own = load_encoder(str(real_model), device="cpu")
    corpus = load_corpus(real_data("ud_english_ewt/en_ewt-ud-test.conllu"))["test"]
    ranked = head_importance(MaskedWords(own, corpus[:25])).of("importance")
    order = [(int(k) // own.n_heads + 1, int(k) % own.n_heads + 1) for k in np.argsort(ranked, axis=None)]
    tenth = len(order) // 10
    task = MaskedWords(own, corpus[25:55])
    states = [Without(), Without(frozenset(order[:tenth])), Without(frozenset(order[-tenth:]))]
    scores = scores_without(task, states)
    whole, least, most = scores.bits.sum(1) / scores.items.sum()
    assert least - whole < 0.3
    assert most - whole > 0.4
    gradient, _ = attention_gradients(task)
    # in this model heads that have nothing to do look at [CLS], and from there on it hardly matters how much
    assert (gradient.of("[CLS]")[2:].mean(1) < 0.5 * gradient.of("other")[2:].mean(1)).all()
