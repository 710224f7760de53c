from __future__ import annotations

import numpy as np
import pytest

from bertology.corpora import Sentence, Sentences
from bertology.errors import CorpusError
from bertology.probing import Examples, layer_examples, mapped_examples, word_examples


def sentence(name: str, words: str, tags: list[str | None]) -> Sentence:
    forms = tuple(words.split())
    starts = np.cumsum([0, *(len(form) + 1 for form in forms[:-1])]).tolist()
    spans = tuple((start, start + len(form)) for start, form in zip(starts, forms, strict=True))
    return Sentence(name, words, forms, spans, layers={"tag": tuple(tags)})


@pytest.fixture
def sentences() -> Sentences:
    return Sentences(
        [
            sentence("a", "dogs bark", ["N", "V"]),
            sentence("b", "so what", [None, None]),
            sentence("c", "um cats sleep", [None, "N", "V"]),
        ]
    )


def test_every_word_with_a_label_is_an_item(sentences: Sentences) -> None:
    found = layer_examples(sentences, "tag")
    assert found.words.tolist() == [0, 1, 5, 6]
    assert found.spans[:, 0].tolist() == [[0, 1], [1, 2], [5, 6], [6, 7]]
    assert [found.values[code] for code in found.codes] == ["N", "V", "N", "V"]
    assert found.clusters.tolist() == [0, 0, 2, 2]
    assert found.skipped == {"no tag label": 3}
    assert len(found) == 4


def test_an_absent_layer_names_those_there_are(sentences: Sentences) -> None:
    with pytest.raises(CorpusError, match="no word has a label in layer 'upos': the annotation layers are tag"):
        layer_examples(sentences, "upos")
    with pytest.raises(CorpusError, match="the annotation layers are none"):
        layer_examples(Sentences([]), "upos")


def test_labels_can_be_given_word_by_word_or_as_codes(sentences: Sentences) -> None:
    labels = ["x", None, "y", "x", None, None, "y"]
    by_name = word_examples(sentences, labels)
    by_code = word_examples(sentences, np.array([0, -1, 1, 0, -1, -1, 1], dtype=np.int32), ("x", "y"))
    for found in (by_name, by_code):
        assert found.words.tolist() == [0, 2, 3, 6]
        assert [found.values[code] for code in found.codes] == ["x", "y", "x", "y"]
        assert found.clusters.tolist() == [0, 1, 1, 2]


def test_a_mapping_merges_and_leaves_out(sentences: Sentences) -> None:
    merged = mapped_examples(sentences, "tag", {"N": "word", "V": "word"})
    assert merged.values == ("word",)
    assert merged.words.tolist() == [0, 1, 5, 6]
    some = mapped_examples(sentences, "tag", {"V": "verb", "N": None})
    assert some.values == ("verb",)
    assert some.words.tolist() == [1, 6]
    assert some.skipped == {}


def test_what_is_left_out_is_counted(sentences: Sentences) -> None:
    found = layer_examples(sentences, "tag")
    fewer = found.subset(found.codes == 0, reason="a verb")
    assert fewer.words.tolist() == [0, 5]
    assert fewer.skipped == {"no tag label": 3, "a verb": 2}
    assert found.skipped == {"no tag label": 3}
    assert fewer.subset(np.array([True, True]), reason="nothing").skipped == fewer.skipped


def test_columns_that_do_not_fit_together_are_refused() -> None:
    spans, codes, clusters = np.array([[[0, 1]], [[1, 2]]]), np.array([0, 1]), np.array([0, 0])
    assert len(Examples(spans, codes, ("a", "b"), clusters)) == 2
    with pytest.raises(ValueError, match=r"\[2, 2\]; it should be \[item, span, 2\]"):
        Examples(spans[:, 0], codes, ("a", "b"), clusters)
    with pytest.raises(ValueError, match="different lengths"):
        Examples(spans, codes[:1], ("a", "b"), clusters)
    with pytest.raises(ValueError, match="codes from 0 to 1 for 1 values"):
        Examples(spans, codes, ("a",), clusters)


@pytest.mark.parametrize("spans", [[[[0, 2]]], [[[0, 1], [3, 4]]]])
def test_items_of_more_than_one_word_have_no_one_word(spans: list[list[list[int]]]) -> None:
    found = Examples(np.array(spans), np.array([0]), ("a",), np.array([0]))
    with pytest.raises(ValueError, match="more than one word"):
        _ = found.words
