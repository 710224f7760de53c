from __future__ import annotations

from collections.abc import Callable

import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("ner")
LABELS = ("O", "B-PER", "I-PER")


def test_every_word_is_asked_about_those_outside_too(sentences_of: Callable[..., Sentences]) -> None:
    labels = ["B-PER", "I-PER", "O", "B-LOC"]
    found = PROBE.examples(sentences_of("Ann Smith saw Rome", ner=labels))
    assert [found.values[code] for code in found.codes] == labels
    assert found.skipped == {}


def test_a_corpus_without_such_labels_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="layer 'ner'"):
        PROBE.examples(sentences_of("the dog", upos=["DET", "NOUN"]))


def test_what_is_planted_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    scores = ask("ner", planted("ner", LABELS, signal=True))
    assert scores["micro_f1"].value == scores["accuracy"].value == 1.0
    assert scores["micro_f1"].main_metric


def test_labels_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("ner", planted("ner", LABELS, signal=False))["accuracy"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 3 < found.ci_high


def test_nothing_is_earned_by_calling_every_word_outside(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    # Nearly all words are outside and nothing tells the others: accuracy is high, the main metric is not.
    scores = ask("ner", planted("ner", ("O",) * 19 + ("B-X",), signal=False))
    accuracy, f1 = scores["accuracy"].value, scores["micro_f1"].value
    assert accuracy is not None
    assert accuracy > 0.85
    assert f1 is not None
    assert f1 < 0.2
