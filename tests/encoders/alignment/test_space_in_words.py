"""White space inside a word: whatever pieces stand for it belong to no word, in vectors, maps and masks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from bertology.activations import read_words
from bertology.attention import MapBatch, Scope, read_attention, stream_maps
from bertology.attention._statistic import HeadStatistic
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder
from bertology.encoders.masked_loss import MaskedText

Encoders = Callable[[str], Encoder]
FAMILIES = ("roberta", "gpt2", "modernbert", "bart", "xlm-roberta", "t5", "albert", "deberta-v3")
"""Byte-level and SentencePiece vocabularies: all make pieces of some white space."""
NO_BREAK, PLAIN = "\u00a0", " "


def number_with(space: str) -> Sentence:
    """A sentence whose third word is a number with white space in it."""
    words = ("It", "cost", f"5{space}000", "francs", ".")
    return Sentence("s", f"It cost 5{space}000 francs .", words, ((0, 2), (3, 7), (8, 13), (14, 20), (21, 22)))


def own_pieces(own: Encoder, sentence: Sentence, word: int = 2) -> list[int]:
    """The pieces of a word that show any visible character of it, by brute force."""
    encoded = own.tokenizer(sentence.text, return_special_tokens_mask=True)
    tokens = own.tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    pieces = own.tokenize([sentence])
    places = range(int(pieces.word_first[word]), int(pieces.word_last[word]))
    return [place for place in places if tokens[place].strip("▁Ġ") in ("5", "0", "00", "000")]


@pytest.mark.parametrize("space", [NO_BREAK, PLAIN])
@pytest.mark.parametrize("name", FAMILIES)
def test_vectors_are_means_of_the_words_own_pieces(name: str, space: str, encoder: Encoders) -> None:
    own, sentence = encoder(name), number_with(space)
    places = own_pieces(own, sentence)
    pieces = own.tokenize([sentence])
    assert len(places) < pieces.word_last[2] - pieces.word_first[2], "the tokenizer should make a piece of the space"
    vectors = read_words(own, Sentences([sentence, sentence]), layers=[0, 3])
    hidden = own.hidden_states(torch.from_numpy(pieces.window(0).astype(np.int64))[None], layers=[0, 3])
    for row, layer in enumerate((0, 3)):
        torch.testing.assert_close(vectors[row, 2], hidden[layer][0, places].float().mean(0))
        torch.testing.assert_close(vectors[row, 7], hidden[layer][0, places].float().mean(0))
    for pooling, place in (("first", places[0]), ("last", places[-1])):
        single = read_words(own, Sentences([sentence]), layers=[3], pooling=pooling)
        torch.testing.assert_close(single[0, 2], hidden[3][0, place].float())


class Kept(HeadStatistic):
    """The maps themselves."""

    def __init__(self, scope: Scope) -> None:
        self.batches: list[MapBatch] = []

    def update(self, batch: MapBatch) -> None:
        self.batches.append(MapBatch(batch.layer, batch.maps.clone(), None, batch.units))

    def merge(self, other: Kept) -> None:
        self.batches += other.batches

    def finish(self) -> list[MapBatch]:
        return self.batches


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta"])
def test_maps_leave_it_out(name: str, encoder: Encoders) -> None:
    own, sentence = encoder(name), number_with(NO_BREAK)
    places = own_pieces(own, sentence)
    ids = torch.from_numpy(own.tokenize([sentence]).window(0).astype(np.int64))[None]
    maps = own.attentions(ids, layers=[1])[1][0]
    to_number = maps[..., places].sum(-1)  # [head, piece]
    expected = to_number[:, places].mean(-1)
    (whole,) = stream_maps(own, [sentence], [Kept], layers=[1]).results
    unit = whole[0].units.word[0].tolist().index(2)
    torch.testing.assert_close(whole[0].maps[0, :, unit, unit], expected)
    (cut,) = stream_maps(own, [sentence], [Kept], layers=[1], level="piece").results
    assert np.flatnonzero(cut[0].units.word[0].numpy() == 2).tolist() == places
    shown = read_attention(own, [sentence], layers=[1])
    unit = shown.units("word").word.index(2)
    np.testing.assert_allclose(shown.maps(1)[:, unit, unit], expected.numpy(), rtol=1e-5)
    assert [place for place, word in enumerate(shown.units("piece").word) if word == 2] == places


def test_maps_of_a_pair_leave_it_out(encoder: Encoders) -> None:
    own, sentence = encoder("roberta"), number_with(NO_BREAK)
    (kept,) = stream_maps(own, [sentence, sentence], [Kept], layers=[1], pairs=True).results
    words = kept[0].units.word[0].tolist()
    assert words.count(2) == words.count(7) == 1
    shown = read_attention(own, [sentence, sentence], layers=[1])
    for word in (2, 7):
        unit, row = words.index(word), shown.units("word").word.index(word)
        np.testing.assert_allclose(kept[0].maps[0, :, unit, unit], shown.maps(1)[:, row, row], rtol=1e-5)


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta"])
def test_masks_leave_it_alone(name: str, encoder: Encoders) -> None:
    own, sentence = encoder(name), number_with(NO_BREAK)
    text = MaskedText(own, Sentences([sentence]), share=1.0, seed=0, on_long="error")
    assert text.places.piece[text.places.word == 2].tolist() == own_pieces(own, sentence)


def test_windows_keep_it(encoder: Encoders) -> None:
    own = encoder("roberta")
    sentence = number_with(NO_BREAK)
    words = sentence.words * 6
    long = Sentence.from_words(words, id="long")
    pieces = own.tokenize([long], max_pieces=24)
    assert pieces.n_windows > 1
    for word in range(2, len(words), 5):
        window = int(pieces.word_window[word])
        inside = slice(int(pieces.word_first[word]), int(pieces.word_last[word]))
        assert pieces.window_gaps(window)[inside].tolist() == [False, True, True, False, False, False]
        assert own.tokenizer.convert_ids_to_tokens(pieces.window(window)[inside].tolist())[1:3] == ["Â", "ł"]


def test_a_free_accent_is_a_piece_of_its_word(encoder: Encoders) -> None:
    """NFKC makes a space and a combining accent of it: that mark stands for a visible character."""
    own, sentence = encoder("t5"), Sentence.from_words(["l´été", "."])
    pieces = own.tokenize([sentence])
    assert "▁" in own.tokenizer.convert_ids_to_tokens(pieces.window(0)[pieces.word_first[0] + 1 :].tolist())
    assert not pieces.gaps.any()


def test_only_texts_with_such_words_have_another_fingerprint() -> None:
    """What was computed of other texts stays valid: these hashes were made when it was part of the mean."""
    plain = Sentence.from_words(["It", "cost", "5000", "francs", "."])
    beside = Sentence("s", "It\u00a0cost", ("It", "cost"), ((0, 2), (3, 7)))
    before = [
        (plain, "f9d2a18d6f90ee06af7929548e9990b4"),
        (beside, "1b581ae88c520d7d508533d8e83c5306"),
        (number_with(NO_BREAK), "6ba177e00f2bf2bb92f0f3d50bf0e605"),
        (number_with(PLAIN), "684bbd8a4a4b1e8654eb798250bb2776"),
    ]
    stays = [Sentences([sentence]).text_fingerprint == old for sentence, old in before]
    assert stays == [True, True, False, False]
