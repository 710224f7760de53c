"""Prompts and answers in pieces."""

from collections.abc import Callable

import pytest

from bertology.cloze import Prompt
from bertology.cloze.prompts import AnswerReader
from bertology.encoders import Encoder
from tests.cloze.conftest import FAMILIES


@pytest.mark.parametrize("mask", ["{mask}", "[MASK]", "<mask>"])
def test_every_spelling_is_the_models_own_mask(mask: str) -> None:
    prompt = Prompt(f"Paris is the {mask} of {{mask}}.")
    assert prompt.segments == ("Paris is the ", " of ", ".")
    assert prompt.n_masks == 2
    assert prompt.written("<m>") == "Paris is the <m> of <m>."


Encoders = Callable[[str], Encoder]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("before", ["", "the ", "She said: “", "The quick brown fox ("])
@pytest.mark.parametrize("word", ["day", "lazy dogs", "cafés"])
def test_pieces_are_those_of_the_filled_text(encoder: Encoders, family: str, before: str, word: str) -> None:
    own = encoder(family)
    cut = own.tokenizer.backend_tokenizer.encode
    head = cut(before.rstrip(), add_special_tokens=False).ids
    (answer,) = AnswerReader(own).read(before, [word])
    assert head + list(answer.pieces) == cut(before + word, add_special_tokens=False).ids
    assert len(answer.words) == len(answer.pieces)
    assert len(set(answer.words)) == len(word.split())


@pytest.mark.parametrize(
    ("before", "word", "reason"),
    [
        ("a ", "", "it is empty"),
        ("a ", "  ", "it is empty"),
        ("a ", "ʘ", "not in the vocabulary: it has characters that the tokenizer does not know"),
        ("a ", "[SEP]", "it spells a special token"),
        ("a ", "\u200b", "the tokenizer maps it to nothing"),
        ("the la", "zy", "it runs together with 'la' before it"),
    ],
)
def test_answers_that_cannot_be_scored(encoder: Encoders, before: str, word: str, reason: str) -> None:
    (answer,) = AnswerReader(encoder("bert")).read(before, [word])
    assert answer.reason == reason
    assert answer.pieces == ()
