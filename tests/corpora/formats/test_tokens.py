"""Words of English text."""

from __future__ import annotations

import pytest
import spacy

from bertology.corpora.formats._words import english_words, words_within

TEXT = "Dr. Smith's U.K.-based firm (est. 1999) can't sell \u201cwi-fi\u201d for $9.99/mo., see http://a.b/c  !"


def test_words_are_those_of_spacy():
    tokens = spacy.blank("en")(TEXT)
    assert english_words(TEXT) == [(t.idx, t.idx + len(t)) for t in tokens if not t.is_space]


@pytest.mark.parametrize("text", ["[MASK] ran.", "he saw [MASK].", "([MASK])", '"[MASK]", he said'])
def test_a_masked_place_is_one_word(text):
    assert "[MASK]" in [text[start:end] for start, end in english_words(text)]


def test_words_within_a_stretch():
    words = [(0, 2), (3, 6), (6, 7)]
    assert words_within(words, 0, 7) == (0, 3)
    assert words_within(words, 4, 6) == (1, 2)
    assert words_within(words, 2, 3) == (0, 0)
