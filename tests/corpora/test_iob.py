"""IOB1 and IOB2, against definitions by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.corpora import Sentence, Sentences
from bertology.corpora._iob import NotIob, to_iob2

# spans of a sentence as pieces: (type or None, length); neighbouring pieces are different spans
sentence_pieces = st.lists(st.tuples(st.sampled_from([None, "PER", "LOC"]), st.integers(1, 3)), min_size=1, max_size=6)


def _iob2(pieces) -> list[str]:
    tags: list[str] = []
    for kind, length in pieces:
        tags += ["O"] * length if kind is None else [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
    return tags


def _iob1(pieces) -> list[str]:
    tags: list[str] = []
    before = None
    for kind, length in pieces:
        begin = "B" if kind == before else "I"
        tags += ["O"] * length if kind is None else [f"{begin}-{kind}"] + [f"I-{kind}"] * (length - 1)
        before = kind
    return tags


def _read(tagged: list[list[str]]) -> tuple[list[str], int]:
    held = Sentences(Sentence.from_words(["w"] * len(tags), layers={"ner": tuple(tags)}) for tags in tagged)
    layer, changed = to_iob2(held.layers["ner"], held.starts)
    return [layer.values[code] for code in layer.codes], len(changed)


@settings(deadline=None, derandomize=True)
@given(st.lists(sentence_pieces, min_size=1, max_size=5))
def test_iob2_stays_as_it_is(text):
    tagged = [_iob2(pieces) for pieces in text]
    assert _read(tagged) == ([tag for tags in tagged for tag in tags], 0)


@settings(deadline=None, derandomize=True)
@given(st.lists(sentence_pieces, min_size=1, max_size=5))
def test_iob1_becomes_iob2(text):
    wanted = [tag for pieces in text for tag in _iob2(pieces)]
    given_tags = [tag for pieces in text for tag in _iob1(pieces)]
    tags, changed = _read([_iob1(pieces) for pieces in text])
    assert tags == wanted
    assert changed == sum(a != b for a, b in zip(given_tags, wanted, strict=True))


@pytest.mark.parametrize(
    ("tagged", "word", "tag"),
    [
        ([["B-PER", "O", "I-PER"]], 2, "I-PER"),
        ([["B-PER", "I-LOC"]], 1, "I-LOC"),
        ([["O", "B-PER"], ["I-PER"]], 2, "I-PER"),
    ],
)
def test_a_span_that_begins_with_i_in_iob2_is_an_error(tagged, word, tag):
    with pytest.raises(
        NotIob, match=f"tag {tag} begins a span in a file that is IOB2 elsewhere; write B-{tag[2:]}"
    ) as e:
        _read(tagged)
    assert e.value.word == word


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("PER", "tag 'PER' is not O, B-TYPE or I-TYPE$"),
        ("S-PER", r"tag 'S-PER' is not O, B-TYPE or I-TYPE \(IOBES or BILOU: convert them\)"),
        ("B-", "tag 'B-' is not"),
        ("o", "tag 'o' is not"),
    ],
)
def test_a_tag_of_no_such_form_is_an_error(tag, message):
    with pytest.raises(NotIob, match=message) as caught:
        _read([["O", "B-X"], ["O", tag]])
    assert caught.value.word == 3


def test_a_word_without_a_tag_is_outside():
    held = Sentences([Sentence.from_words(["a", "b", "c"], layers={"ner": ("B-X", None, "B-X")})])
    layer, changed = to_iob2(held.layers["ner"], held.starts)
    assert layer.codes.tolist() == [0, -1, 0]
    assert not len(changed)
    assert layer.codes.dtype == np.int32
