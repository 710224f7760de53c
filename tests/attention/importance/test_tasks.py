"""Scored tasks, each against the same scores had in another way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertology.attention.importance import (
    MaskedWords,
    ScoredTask,
    SequenceClassifier,
    Without,
    head_importance,
    leave_one_out,
    scores_without,
)
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_classifier, masked_lm_loss
from bertology.errors import CorpusError, ModelError

TEXTS = ["the dog sees the cat .", "a bird sleeps .", "the old woman reads a book in the garden .", "dogs bark ."] * 3


def whole(task: ScoredTask) -> Any:
    return scores_without(task, [Without()])


def test_masked_words_are_those_of_the_masked_loss(own: Encoder, sentences: Sentences, task: MaskedWords) -> None:
    scores, expected = whole(task), masked_lm_loss(own, sentences, share=0.3, seed=2)
    np.testing.assert_allclose(scores.bits[0], expected.sentence_bits, rtol=1e-6)
    np.testing.assert_array_equal(scores.right[0], expected.sentence_right)
    np.testing.assert_array_equal(scores.items, expected.sentence_words)


@pytest.fixture(scope="module")
def classifier_folder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with random weights, its tokenizer that of the tiny BERT."""
    from transformers import BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("classifiers") / "tiny"
    config = BertConfig.from_pretrained(tiny_bert, num_labels=3)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        BertForSequenceClassification(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tiny_bert / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def classifier(classifier_folder: Path) -> Encoder:
    return load_classifier(str(classifier_folder), device="cpu")


def reference(folder: Path, texts: list[str], seconds: list[str] | None, off: tuple[int, int] | None = None) -> Any:
    """``[text, class]`` logits of Hugging Face's own model, a head's part of the projection zeroed."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    if off is not None:
        weight = model.bert.encoder.layer[off[0] - 1].attention.output.dense.weight
        weight.data[:, 8 * (off[1] - 1) : 8 * off[1]] = 0
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return model(**tokenizer(texts, seconds, padding=True, return_tensors="pt")).logits.double()


@pytest.mark.parametrize("pairs", [False, True])
def test_a_classifier_sorts_as_hugging_face_has_it(classifier: Encoder, classifier_folder: Path, pairs: bool) -> None:
    labels = [0, 1, 2, 1] * 3
    seconds = TEXTS[1:] + TEXTS[:1] if pairs else None
    task = SequenceClassifier(classifier, TEXTS, labels, pairs=seconds)
    scores = whole(task)
    gold = torch.tensor(labels)[:, None]
    before = reference(classifier_folder, TEXTS, seconds)
    bits = -before.log_softmax(1).gather(1, gold)[:, 0].numpy() / np.log(2)
    np.testing.assert_allclose(scores.bits[0], bits, rtol=1e-5)
    np.testing.assert_array_equal(scores.right[0], (before.argmax(1) == gold[:, 0]).numpy())
    loss, _ = leave_one_out(task)
    after = reference(classifier_folder, TEXTS, seconds, off=(2, 3))
    lost = -after.log_softmax(1).gather(1, gold)[:, 0].numpy() / np.log(2) - bits
    np.testing.assert_allclose(loss.over[0, 1, 2], lost, rtol=1e-3, atol=1e-5)
    assert (head_importance(task).of("gradient_bits") > 0).all()


def test_classifiers_that_cannot_be_asked(
    own: Encoder, classifier: Encoder, classifier_folder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="load one with load_classifier"):
        SequenceClassifier(own, TEXTS, [0] * 12)
    with pytest.raises(CorpusError, match="12 texts have 3 labels"):
        SequenceClassifier(classifier, TEXTS, [0, 1, 2])
    with pytest.raises(CorpusError, match="text 1 has label 3: the model's classes are 0…2"):
        SequenceClassifier(classifier, TEXTS, [0, 3] * 6)
    with pytest.raises(CorpusError, match="no text to sort"):
        SequenceClassifier(classifier, [], [])
    with pytest.raises(ModelError, match=r"text 0 has .* pieces: model .* takes 64"):
        SequenceClassifier(classifier, ["the dog sees the cat " * 40], [0])
    with pytest.raises(ModelError, match=r"no classifier in its weights \(.* is missing\)"):
        load_classifier(str(tiny_bert), device="cpu")
