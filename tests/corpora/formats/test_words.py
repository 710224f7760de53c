"""Where spaces stand between words."""

from __future__ import annotations

import pytest

from bertology.corpora import Sentence
from bertology.corpora._words import penn_words, spacing_in


def _text(tokens: str, tags: str = "") -> str:
    written = tokens.split()
    known: list[str | None] = [*tags.split()] if tags else [None] * len(written)
    words, spaced = penn_words(written, known)
    return Sentence.from_words(words, space_after=spaced).text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("He did n't pay .", "He didn't pay."),
        ("`` Yes , '' she said .", '"Yes," she said.'),
        ("the firm 's $ 3 1\\/2 bonds", "the firm's $3 1/2 bonds"),
        ("a -LRB- b -RRB- -LCB- c -RCB- d", "a (b) {c} d"),
        ("5.5 % of it ; more : all", "5.5% of it; more: all"),
        ("one -- or two", "one -- or two"),
        ("is it ? /. /?", "is it?.?"),
        ("AC\\/DC 's 7\\*8", "AC/DC's 7*8"),
        ("word", "word"),
    ],
)
def test_penn_tokens_as_people_write_them(tokens, text):
    assert _text(tokens) == text


def test_tags_tell_what_a_token_is():
    assert _text("the '40s ' songs", "DT CD POS NNS") == "the '40s' songs"
    assert _text("wi - fi", "NN HYPH NN") == "wi-fi"
    assert _text("wi - fi", "NN : NN") == "wi - fi"


def test_spacing_in_a_text():
    assert spacing_in("It's  here", ["It", "'s", "here"]) == [False, True, False]
    assert spacing_in("It's here", ["It", "is", "here"]) is None
    assert spacing_in("It's here now", ["It", "'s", "here"]) is None
