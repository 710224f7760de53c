"""Next-sentence prediction against Hugging Face's own model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForNextSentencePrediction, AutoTokenizer

from bertology.cloze import next_sentence
from bertology.encoders import load_encoder
from bertology.errors import ClozeError, ModelError
from bertology.pocket import model_folder

PAIRS = [
    ("The dog sees the king.", "It runs to the house."),
    ("The king works.", "The old women near the river dance slowly, and the dog sleeps."),
    ("A cat is small.", "The town is old."),
]


def test_the_last_layer_says_what_the_models_own_head_says() -> None:
    model = AutoModelForNextSentencePrediction.from_pretrained(model_folder()).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    encoder = load_encoder("pocket")
    found = next_sentence(encoder, PAIRS, layers=(0, encoder.n_layers))
    assert found.layers == (0, encoder.n_layers)
    assert found.log_probs.shape == (2, 3, 2)
    for number, (first, second) in enumerate(PAIRS):
        with torch.inference_mode():
            own = model(**tokenizer(first, second, return_tensors="pt")).logits.log_softmax(-1)[0]
        np.testing.assert_allclose(found.log_probs[-1, number], own.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.exp(found.log_probs).sum(-1), 1, atol=1e-6)


def test_a_pair_that_is_too_long_is_excluded_and_told() -> None:
    encoder = load_encoder("pocket")
    found = next_sentence(encoder, [PAIRS[0], ("the dog " * 60, "the cat")])
    assert np.isnan(found.log_probs[:, 1]).all()
    assert not np.isnan(found.log_probs[:, 0]).any()
    assert [(one.item, one.reason[:8]) for one in found.excluded] == [(1, "too long")]


def test_fresh_weights_have_a_fresh_head_that_a_seed_decides() -> None:
    found = [next_sentence(load_encoder("pocket", init="random", seed=seed), PAIRS).log_probs for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_models_without_the_head_are_told(real_model: Path) -> None:
    encoder = load_encoder(str(real_model))
    with pytest.raises(ModelError, match="no next-sentence head in its weights"):
        next_sentence(encoder, PAIRS)


def test_no_pair() -> None:
    with pytest.raises(ClozeError, match="no pair"):
        next_sentence(load_encoder("pocket"), [])
