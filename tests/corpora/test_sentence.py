"""Words and where they stand in the natural text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.corpora import MultiwordToken, Sentence

words = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=12)


@settings(deadline=None, derandomize=True)
@given(words=words, data=st.data())
def test_spans_slice_the_words_out_of_the_text(words, data):
    spaced = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    sentence = Sentence.from_words(words, space_after=spaced)
    assert [sentence.text[first:last] for first, last in sentence.spans] == words
    between = [sentence.text[a[1] : b[0]] for a, b in zip(sentence.spans, sentence.spans[1:], strict=False)]
    assert between == [" " if space else "" for space in spaced[:-1]]
    assert sentence.spans[-1][1] == len(sentence.text)


@settings(deadline=None, derandomize=True)
@given(words=words, data=st.data())
def test_words_of_a_multiword_token_share_what_they_do_not_spell(words, data):
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    form = data.draw(st.one_of(st.just("".join(words[first : last + 1])), st.text(min_size=1, max_size=8)))
    sentence = Sentence.from_words(words, multiword=[MultiwordToken(first, last, form)])
    place = 0
    for index, (start, end) in enumerate(sentence.spans):
        if first <= index <= last:
            assert sentence.text[start:end] in (form, form[place : place + len(words[index])])
            place += len(words[index])
        else:
            assert sentence.text[start:end] == words[index]
    assert sentence.text[sentence.spans[first][0] : sentence.spans[last][1]] == form
    assert " ".join([*words[:first], form, *words[last + 1 :]]) == sentence.text


def test_words_that_spell_their_token_have_their_own_part_of_it():
    sentence = Sentence.from_words(["Do", "n't", "go"], multiword=[MultiwordToken(0, 1, "Don't")])
    assert sentence.text == "Don't go"
    assert sentence.spans == ((0, 2), (2, 5), (6, 8))


def test_words_that_do_not_spell_their_token_share_its_place():
    sentence = Sentence.from_words(
        ["près", "de", "le", "port"], multiword=[MultiwordToken(1, 2, "du")], space_after=[True, True, False, True]
    )
    assert sentence.text == "près duport"
    assert sentence.spans == ((0, 4), (5, 7), (5, 7), (7, 11))


def test_spacing_of_another_length_than_the_words_is_refused():
    with pytest.raises(ValueError, match="2 words but 1 values of space_after"):
        Sentence.from_words(["a", "b"], space_after=[True])


def test_no_words():
    assert Sentence.from_words([]).text == ""
