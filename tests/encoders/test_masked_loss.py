"""What the model makes of masked words, against one word at a time, and what it loses with a layer's contents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, batching, load_encoder, masked_lm_loss, masked_loss
from bertology.errors import ModelError
from bertology.pocket import load_corpus as load_pocket


@pytest.fixture(scope="module")
def own(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert), device="cpu")


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    return load_pocket()["test"][:40]


def places_of(encoder: Encoder, sentences: Sentences, seed: int) -> masked_loss.Places:
    return masked_loss.MaskedText(encoder, sentences, share=0.15, seed=seed, on_long="window").places


def test_equals_a_pass_by_hand(own: Encoder, sentences: Sentences) -> None:
    """Each sentence on its own, its masked words found through their text."""
    found = masked_lm_loss(own, sentences, seed=3)
    pieces = own.tokenize(sentences)
    places = places_of(own, sentences, 3)
    for number in (0, 7, 39):
        ids = torch.from_numpy(pieces.window(number).astype(np.int64))[None]
        here = places.piece[places.window == number]
        words = places.word[places.window == number]
        masked = ids.clone()
        masked[0, here] = own.mask_id
        with torch.no_grad():
            logits = own.model.with_head(input_ids=masked).logits[0, here].double()
        log_prob = logits.log_softmax(1).gather(1, ids[0, here][:, None])[:, 0]
        assert found.sentence_bits[number] == pytest.approx(float(-log_prob.sum() / np.log(2)), rel=1e-4)
        right = (logits.argmax(1) == ids[0, here]).numpy()
        assert found.sentence_right[number] == sum(right[words == word].all() for word in set(words.tolist()))
        assert found.sentence_words[number] == len(set(words.tolist()))


def test_whole_words_of_every_sentence_are_masked(own: Encoder, sentences: Sentences) -> None:
    pieces = own.tokenize(sentences)
    places = places_of(own, sentences, 0)
    for word in set(places.word.tolist()):
        expected = list(range(pieces.word_first[word], pieces.word_last[word]))
        assert places.piece[places.word == word].tolist() == expected
    lengths = np.diff(sentences.starts)
    counted = np.bincount(np.searchsorted(sentences.starts, np.unique(places.word), "right") - 1, minlength=40)
    np.testing.assert_array_equal(counted, np.maximum(1, np.rint(0.15 * lengths)))
    other = places_of(own, sentences, 1)
    assert set(places.word.tolist()) != set(other.word.tolist())
    # what is drawn in a sentence does not depend on those after it
    fewer = places_of(own, sentences[:9], 0)
    assert set(fewer.word.tolist()) == {word for word in places.word.tolist() if word < sentences.starts[9]}


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_change_of_nothing_changes_nothing(own: Encoder, sentences: Sentences, layer: int) -> None:
    from bertology.readouts._erasure import LayerErasure

    nothing = LayerErasure(torch.zeros(32, 2), torch.zeros(2, 32), torch.ones(32))
    before = masked_lm_loss(own, sentences)
    after = masked_lm_loss(own, sentences, layer=layer, change=nothing)
    # Where the last layer is changed its block is run whole, in an order of products that rounds otherwise.
    np.testing.assert_allclose(before.sentence_bits, after.sentence_bits, rtol=1e-5 if layer == 3 else 0)
    np.testing.assert_array_equal(before.sentence_right, after.sentence_right)
    everything = masked_lm_loss(own, sentences, layer=layer, change=torch.zeros_like)
    assert (everything.sentence_bits != before.sentence_bits).all()


def test_size_of_batches_does_not_matter(own: Encoder, sentences: Sentences, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = masked_lm_loss(own, sentences)
    monkeypatch.setattr(batching, "PIECES_IN_BATCH", 1)
    np.testing.assert_allclose(masked_lm_loss(own, sentences).sentence_bits, whole.sentence_bits, rtol=1e-4)


def test_sums_and_means(own: Encoder, sentences: Sentences) -> None:
    found = masked_lm_loss(own, sentences, share=1.0)
    assert found.n_words == sentences.n_words == found.sentence_words.sum()
    assert found.bits == pytest.approx(found.sentence_bits.sum() / found.n_words)
    assert 0 <= found.accuracy <= 1
    assert found.n_skipped == 0
    long = sentences[:3]
    monotone = masked_lm_loss(own, long, share=0.5)
    assert monotone.n_words < masked_lm_loss(own, long, share=1.0).n_words


def test_what_cannot_be_asked(own: Encoder, sentences: Sentences, encoder: Callable[[str], Encoder]) -> None:
    with pytest.raises(ModelError, match="no masked-LM head"):
        masked_lm_loss(encoder("t5"), sentences)
    with pytest.raises(ModelError, match="layers are 0…3"):
        masked_lm_loss(own, sentences, layer=4, change=torch.zeros_like)
    with pytest.raises(ModelError, match="belong together"):
        masked_lm_loss(own, sentences, layer=2)
    with pytest.raises(ModelError, match="at most 1"):
        masked_lm_loss(own, sentences, share=0.0)
    with pytest.raises(ModelError, match="no word to mask"):
        masked_lm_loss(own, sentences[:0])


def test_a_real_model_uses_parts_of_speech(real_model: Path, real_data: Callable[[str], Path]) -> None:
    """Without them it loses more than without as many random directions."""
    from bertology.activations import read_words
    from bertology.readouts import ArrayFeatures, fit_erasure, random_erasure

    layer = 4
    real = load_encoder(str(real_model), device="cpu")
    corpus = load_corpus(real_data("ud_english_ewt/en_ewt-ud-dev.conllu"))["dev"][:300]
    vectors = read_words(real, corpus, layers=[layer])
    _, labels = np.unique([tag for sentence in corpus for tag in sentence.layers["upos"]], return_inverse=True)
    erasure = fit_erasure(ArrayFeatures(vectors, layers=(layer,)), labels, int(labels.max()) + 1)
    held_out = load_corpus(real_data("ud_english_ewt/en_ewt-ud-test.conllu"))["test"][:150]
    whole = masked_lm_loss(real, held_out)
    changes = (erasure, random_erasure(erasure))
    without, at_random = (masked_lm_loss(real, held_out, layer=layer, change=one.layer(layer)) for one in changes)
    assert erasure.ranks[0] == random_erasure(erasure).ranks[0] >= 10
    assert without.bits > at_random.bits + 0.2
    assert without.accuracy < at_random.accuracy
    assert at_random.bits > whole.bits - 0.1


def test_words_can_be_chosen(own: Encoder, sentences: Sentences) -> None:
    drawn = masked_lm_loss(own, sentences, seed=3)
    again = masked_lm_loss(own, sentences, words=drawn.words)
    np.testing.assert_array_equal(again.word_bits, drawn.word_bits)
    assert drawn.word_bits.sum() == pytest.approx(drawn.sentence_bits.sum())
    other = masked_lm_loss(own, sentences, words=np.array([2, 5]))
    assert (other.words.tolist(), other.n_words) == ([2, 5], 2)
