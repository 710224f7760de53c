"""Words that share subwords, vectors and attention of words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertology.activations import read_words
from bertology.corpora import MultiwordToken, Sentence, Sentences, sentence_of_text
from bertology.encoders import Encoder, Pieces

Encoders = Callable[[str], Encoder]
FAMILIES = (
    "bert bert-cased roberta xlm-roberta distilbert albert electra deberta-v2 deberta-v3 mpnet modernbert t5 bart gpt2"
)


@pytest.fixture(params=FAMILIES.split())
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def number_with(space: str) -> Sentence:
    """A sentence whose third word is a number with white space in it."""
    words = ("It", "cost", f"5{space}000", "francs", ".")
    return Sentence("s", f"It cost 5{space}000 francs .", words, ((0, 2), (3, 7), (8, 13), (14, 20), (21, 22)))


SENTENCES = Sentences(
    [
        sentence_of_text("They don't  know\u00a0why   it's 30\u20ac\tgo.", language="en"),
        sentence_of_text("They don't  know\u00a0why   it's 30\u20ac\tgo."),
        sentence_of_text("L'été 🙂🙂 👩\u200d👩\u200d👧 🇩🇪🇫🇷 1\ufe0f\u20e3"),
        sentence_of_text("“Überraschung!” nai\u0308ve ´ l´été"),
        sentence_of_text("你好 世界 ，今天 天气 很 。 ქარ", split_at_spaces=True),
        Sentence.from_words(["今天", "天气", "很", "好", "。"], space_after=[False] * 5),
        sentence_of_text("Ελλ русский, עברית"),
        sentence_of_text("العر हिन्दी 한국어."),
        Sentence.from_words(["aller", "à", "le", "café", "!"], multiword=[MultiwordToken(1, 2, "au")]),
        Sentence("spaces", "  the \u3000 dogs\n\n ", ("the", "dogs"), ((2, 5), (8, 12))),
        number_with("\u00a0"),
        number_with(" "),
    ]
)


def owners(encoder: Encoder, pieces: Pieces, number: int) -> list[set[int]]:
    """The words that own each piece of a window, special tokens left out."""
    found: list[set[int]] = [set() for _ in range(int(pieces.window_lengths[number]))]
    for word in np.flatnonzero(pieces.word_window == number).tolist():
        for piece in range(int(pieces.word_first[word]), int(pieces.word_last[word])):
            found[piece].add(word)
    inside = slice(encoder.n_prefix, len(found) - encoder.n_suffix)
    assert not any(found[: inside.start] + found[inside.stop :])
    return found[inside]


def test_every_piece_belongs_to_a_word(family: str, encoder: Encoders) -> None:
    own = encoder(family)
    pieces = own.tokenize(SENTENCES)
    assert pieces.n_windows == len(SENTENCES)
    for number in range(pieces.n_windows):
        assert all(owners(own, pieces, number))


def test_vectors_of_words_are_means_of_hugging_faces_states(
    family: str, encoder: Encoders, tiny: Callable[[str], Path]
) -> None:
    own = encoder(family)
    model: Any = transformers.AutoModel.from_pretrained(tiny(family), attn_implementation="eager").eval()
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    pieces = own.tokenize(SENTENCES)
    readable = Sentences(
        one
        for number, one in enumerate(SENTENCES)
        if number not in set(SENTENCES.sentence_of_word[pieces.word_window < 0].tolist())
    )
    assert len(readable) > 4
    layers = range(own.n_layers + 1)
    vectors = {how: read_words(own, readable, layers=layers, pooling=how) for how in ("mean", "first", "last")}
    place = 0
    for sentence in readable:
        encoded = own.tokenizer(sentence.text, return_tensors="pt")
        with torch.no_grad():
            states = torch.stack(model(**encoded, output_hidden_states=True).hidden_states)[:, 0]
        of_words = own.tokenize([sentence])
        for first, last in zip(of_words.word_first.tolist(), of_words.word_last.tolist(), strict=True):
            expected = {"mean": states[:, first:last].mean(1), "first": states[:, first], "last": states[:, last - 1]}
            for how, value in expected.items():
                torch.testing.assert_close(vectors[how][:, place], value, rtol=1e-4, atol=1e-4)
            place += 1


@pytest.mark.parametrize("name", ["xlm-roberta", "t5", "albert", "deberta-v3"])
def test_a_lone_mark_is_read_with_its_word_as_by_word_ids(name: str, encoder: Encoders) -> None:
    """As transformers assigns it where words are given: the reference of token classification."""
    own = encoder(name)
    words = ["ქართული", "好", "why", "🙂"]
    pieces = own.tokenize([Sentence.from_words(words)])
    of_piece = own.tokenizer(words, is_split_into_words=True).word_ids()
    assert "▁" in own.tokenizer.convert_ids_to_tokens(pieces.window(0).tolist())
    ranges = [(of_piece.index(word), len(of_piece) - of_piece[::-1].index(word)) for word in range(len(words))]
    assert list(zip(pieces.word_first.tolist(), pieces.word_last.tolist(), strict=True)) == ranges
