from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bertology import probe
from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError, FitError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("word_label:tag")
LABELS = ("one", "two", "three")


def test_every_word_with_a_label_is_asked_about(sentences_of: Callable[..., Sentences]) -> None:
    found = PROBE.examples(sentences_of("the dogs , see", tag=["a", "b", None, "a"]))
    assert [found.values[code] for code in found.codes] == ["a", "b", "a"]
    assert found.words.tolist() == [0, 1, 3]
    assert found.skipped == {"no tag label": 1}


def test_any_layer_of_a_corpus_has_the_items_of_the_task_that_asks_for_it(
    sentences_of: Callable[..., Sentences],
) -> None:
    sentences = sentences_of("the dogs", upos=["DET", "NOUN"])
    one, other = (get_probe(task).examples(sentences) for task in ("word_label:upos", "pos"))
    assert (one.values, one.codes.tolist()) == (other.values, other.codes.tolist())


def test_an_unknown_column_is_answered_with_the_nearest(sentences_of: Callable[..., Sentences]) -> None:
    sentences = sentences_of("the dog", tags=["a", "b"], lemma=["the", "dog"])
    with pytest.raises(CorpusError, match=r"^no word has a label in column 'tag': did you mean tags\?$"):
        PROBE.examples(sentences)
    with pytest.raises(CorpusError, match=r"in column 'sense': the columns of labels of that kind are lemma, tags$"):
        get_probe("word_label:sense").examples(sentences)


@pytest.mark.parametrize(
    ("values", "what"),
    [(["0.5", "1"], "'0.5' among them"), (["1", "1e3"], "'1e3' among them"), (["nan", "2"], "'nan' among them")],
)
def test_numbers_are_no_classes(sentences_of: Callable[..., Sentences], values: list[str], what: str) -> None:
    with pytest.raises(
        CorpusError, match=rf"^column 'tag' holds numbers \({what}\), not classes: take word_number:tag$"
    ):
        PROBE.examples(sentences_of("the dog", tag=values))


def test_floats_of_whole_numbers_are_classes(sentences_of: Callable[..., Sentences]) -> None:
    assert PROBE.examples(sentences_of("the dog", tag=["1.0", None])).values == ("1.0",)


def test_a_few_whole_numbers_are_classes(sentences_of: Callable[..., Sentences]) -> None:
    words = " ".join(["dog"] * 21)
    ratings = [str(number % 20 - 3) for number in range(21)]
    assert len(PROBE.examples(sentences_of(words, tag=ratings)).values) == 20
    with pytest.raises(CorpusError, match=r"holds numbers \(21 distinct ones\)"):
        PROBE.examples(sentences_of(words, tag=[str(number) for number in range(21)]))
    assert len(PROBE.examples(sentences_of(words, tag=[f"w{number}" for number in range(21)])).values) == 21


def test_one_label_is_no_question(planted: Callable[..., Corpus], tiny_bert: Path) -> None:
    with pytest.raises(FitError, match=r"^task word_label:tag: train has the one label 'one'; give data with two"):
        probe("word_label:tag", model=tiny_bert, corpus=planted("tag", LABELS[:1], signal=True))


def test_a_planted_label_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    scores = ask("word_label:tag", planted("tag", LABELS, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0
    assert scores["accuracy"].task == "word_label:tag"


def test_labels_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("word_label:tag", planted("tag", LABELS, signal=False))["accuracy"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 3 < found.ci_high
