from dataclasses import replace

import numpy as np
import pytest

from bertology.corpora import Sentence, Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import Examples, pair_examples, target_examples, word_examples
from bertology.probing.items import layer_examples


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


def test_labels_are_one_for_each_word_and_text(sentences: Sentences) -> None:
    with pytest.raises(CorpusError, match="6 labels for 7 words: give one for each word"):
        word_examples(sentences, ["N"] * 6)
    with pytest.raises(CorpusError, match="label True is no text: give str, or None"):
        word_examples(sentences, ["N", None, True, "N", "V", None, "N"])  # type: ignore[list-item]


def test_an_absent_layer_names_those_there_are(sentences: Sentences) -> None:
    with pytest.raises(CorpusError, match="no word has a label in layer 'upos': the annotation layers are tag"):
        layer_examples(sentences, "upos")
    with pytest.raises(CorpusError, match="the annotation layers are none"):
        layer_examples(Sentences([]), "upos")


def test_columns_that_do_not_fit_together_are_refused() -> None:
    spans, codes, clusters = np.array([[[0, 1]], [[1, 2]]]), np.array([0, 1]), np.array([0, 0])
    assert len(Examples(spans, codes, ("a", "b"), clusters)) == 2
    with pytest.raises(ValueError, match=r"\[2, 2\]; it should be \[item, span, 2\]"):
        Examples(spans[:, 0], codes, ("a", "b"), clusters)
    with pytest.raises(ValueError, match="different lengths"):
        Examples(spans, codes[:1], ("a", "b"), clusters)
    with pytest.raises(ValueError, match="codes from 0 to 1 for 1 values"):
        Examples(spans, codes, ("a",), clusters)


# Pairs of words, and labelled spans


def test_pairs_of_words_are_two_spans_each(sentences: Sentences) -> None:
    first, second = np.array([0, 6, 5]), np.array([1, 5, 4])
    found = pair_examples(sentences, first, second, ["subj", "root", "subj"], skipped={"no head": 2})
    assert found.spans.tolist() == [[[0, 1], [1, 2]], [[6, 7], [5, 6]], [[5, 6], [4, 5]]]
    assert found.values == ("subj", "root")
    assert found.codes.tolist() == [0, 1, 0]
    assert found.clusters.tolist() == [0, 2, 2]
    assert found.skipped == {"no head": 2}
    assert (found.n_spans, found.are_words, found.is_multi_label) == (2, False, False)
    assert pair_examples(sentences, first, second, ["a", "b", "c"]).skipped == {}


def with_targets(*targets: tuple[Target, ...]) -> Sentences:
    """A sentence of three words for each group of targets."""
    return Sentences(
        replace(sentence(f"s{number}", "um cats sleep", [None] * 3), targets={"srl": group} if group else {})
        for number, group in enumerate(targets)
    )


def test_targets_are_numbered_through_the_split() -> None:
    found = target_examples(with_targets((Target((0, 2), "A"),), (), (Target((1, 3), "B"), Target((0, 1), "A"))), "srl")
    assert found.spans.tolist() == [[[0, 2]], [[7, 9]], [[6, 7]]]
    assert [found.values[code] for code in found.codes] == ["A", "B", "A"]
    assert found.clusters.tolist() == [0, 2, 2]
    assert found.skipped == {}
    assert not found.are_words
    assert target_examples(with_targets((Target((0, 1), "A"), Target((2, 3), "B"))), "srl").are_words


def test_targets_with_several_labels_make_a_table_of_them() -> None:
    targets = (Target((0, 1), ("x", "y"), (1, 2)), Target((0, 1), (), (2, 3)), Target((0, 1), ("y",), (1, 3)))
    found = target_examples(with_targets(targets), "srl")
    assert found.is_multi_label
    assert found.values == ("x", "y")
    assert found.codes.tolist() == [[True, True], [False, False], [False, True]]
    assert found.spans[:, 1].tolist() == [[1, 2], [2, 3], [1, 3]]


def test_labels_are_renamed_or_left_out() -> None:
    rename = {"A": "a", "B": "a", "C": None}.get
    single = with_targets((Target((0, 1), "A"), Target((1, 2), "C"), Target((2, 3), "B")))
    found = target_examples(single, "srl", label=rename)
    assert found.values == ("a",)
    assert found.spans[:, 0].tolist() == [[0, 1], [2, 3]]
    assert found.skipped == {"label not asked about": 1}
    # Of several labels each is renamed, two may become one, and an item that loses all is still an item.
    several = with_targets((Target((0, 1), ("A", "B")), Target((1, 2), ("C",)), Target((2, 3), ("C", "A"))))
    found = target_examples(several, "srl", label=rename)
    assert found.values == ("a",)
    assert found.codes.tolist() == [[True], [False], [True]]
    assert found.skipped == {}


@pytest.mark.parametrize(
    "targets",
    [
        (Target((0, 1), "A"), Target((1, 2), "A", (2, 3))),
        (Target((0, 1), "A"), Target((1, 2), ("A",))),
        (Target((0, 1), "A"), Target((1, 2), ("A",), (2, 3))),
    ],
    ids=["one span and two", "one label and several", "both"],
)
def test_kinds_of_targets_are_not_mixed(targets: tuple[Target, ...]) -> None:
    message = "^layer 'srl' mixes one label with several, or one span with two: give one kind of target$"
    for found in (with_targets(targets), with_targets(*((one,) for one in targets))):
        with pytest.raises(CorpusError, match=message):
            target_examples(found, "srl")


@pytest.mark.parametrize(("pairs", "given", "asked"), [(True, "two spans", "one is"), (False, "one span", "two are")])
def test_targets_have_as_many_spans_as_are_asked_about(pairs: bool, given: str, asked: str) -> None:
    sentences = with_targets((Target((0, 1), "A", (1, 2) if pairs else None),))
    assert len(target_examples(sentences, "srl", spans=2 if pairs else 1)) == 1
    message = f"^layer 'srl' has {given} a target where {asked} asked about: give targets with span1"
    with pytest.raises(CorpusError, match=message):
        target_examples(sentences, "srl", spans=1 if pairs else 2)
