"""Losses on the same masked words: none between a model and itself, and a damaged one loses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from bertology import BertologyError, load_encoder
from bertology.comparison import masked_losses
from bertology.corpora import Sentences
from bertology.pocket import load_corpus
from tests.comparison.conftest import add_noise


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    return load_corpus()["test"][:60]


def test_a_model_equals_itself_and_noise_costs_bits(
    changed_copy: Callable[[Callable[..., object]], Path], sentences: Sentences
) -> None:
    same = masked_losses("pocket", "pocket", sentences).table("upos")
    assert (same["difference"] == 0).all()
    assert (same["p_raw"] == 1).all()
    assert (same["bits_reference"] == same["bits_model"]).all()

    random = changed_copy(lambda model: add_noise(model, 2, 0.1))
    found = masked_losses("pocket", random, sentences)
    table = found.table("upos").set_index("words")
    assert table.loc["all", "ci_low"] > 1
    assert table.loc["all", "accuracy_reference"] > table.loc["all", "accuracy_model"]
    of_labels = table.drop(index="all")
    assert of_labels["n_words"].sum() == table.loc["all", "n_words"]
    weighted = np.average(of_labels["bits_model"], weights=of_labels["n_words"])
    assert table.loc["all", "bits_model"] == pytest.approx(weighted)


def test_models_with_other_pieces_are_asked_about_the_same_words(tiny_bert: Path, sentences: Sentences) -> None:
    pocket, tiny = load_encoder("pocket", device="cpu"), load_encoder(str(tiny_bert), device="cpu")
    one, other = masked_losses(pocket, tiny, sentences, seed=5).losses
    np.testing.assert_array_equal(one.words, other.words)
    assert len(pocket.tokenize(sentences).ids) != len(tiny.tokenize(sentences).ids)
    lengths = np.diff(sentences.starts)
    np.testing.assert_array_equal(one.sentence_words, np.maximum(1, np.rint(0.15 * lengths)))


def test_mistakes_are_one_line_and_unknown_words_are_counted(tiny_bert: Path, tmp_path: Path) -> None:
    found = masked_losses("pocket", "pocket", ["The dogs chased 猫 ."], share=1.0)
    assert (found.n_skipped, found.losses[0].n_words) == (1, 4)
    with pytest.raises(BertologyError, match="no word to mask"):
        masked_losses("pocket", "pocket", ["猫"])
    with pytest.raises(BertologyError, match="layer of labels"):
        found.table("upos")
    AutoModel.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    with pytest.raises(BertologyError, match="no masked-LM head"):
        masked_losses(tiny_bert, tmp_path, ["The dogs chased a cat ."])
