"""Masked words as a scored task, and models whose texts cannot be classified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertology.attention.importance import MaskedWords, Without, scores_without
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_classifier, masked_lm_loss
from bertology.errors import ModelError


def test_masked_words_are_those_of_the_masked_loss(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    scores, expected = scores_without(task, [Without()]), masked_lm_loss(own, sentences, share=0.3, seed=2)
    np.testing.assert_allclose(scores.bits[0], expected.sentence_bits, rtol=1e-6)
    np.testing.assert_array_equal(scores.right[0], expected.sentence_right)
    np.testing.assert_array_equal(scores.items, expected.sentence_words)


def test_a_model_without_a_classifier_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(ModelError, match=r"no classifier in its weights \(.* is missing\)"):
        load_classifier(str(tiny_bert), device="cpu")
