from __future__ import annotations

from collections.abc import Callable

import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

LABELS = ("Number=Sing|Person=3", "Number=Plur|Person=3")
WORDS = "dogs bark , she barked"
FEATS = ["Number=Plur", "Number=Plur|Tense=Pres", None, "Case=Nom|Number=Sing", "Tense=Past"]


def test_words_that_have_the_feature_are_asked_about(sentences_of: Callable[..., Sentences]) -> None:
    sentences = sentences_of(WORDS, feats=FEATS)
    number = get_probe("feats:Number").examples(sentences)
    assert [number.values[code] for code in number.codes] == ["Plur", "Plur", "Sing"]
    assert number.words.tolist() == [0, 1, 3]
    tense = get_probe("feats:Tense").examples(sentences)
    assert [tense.values[code] for code in tense.codes] == ["Pres", "Past"]
    assert tense.words.tolist() == [1, 4]


def test_words_without_the_feature_are_no_skipped_items(sentences_of: Callable[..., Sentences]) -> None:
    assert get_probe("feats:Case").examples(sentences_of(WORDS, feats=FEATS)).skipped == {}


def test_an_unknown_feature_is_answered_with_those_there_are(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no word has the feature 'Nummer': the features are Case, Number, Tense"):
        get_probe("feats:Nummer").examples(sentences_of(WORDS, feats=FEATS))
    with pytest.raises(CorpusError, match="layer 'feats'"):
        get_probe("feats:Number").examples(sentences_of("a dog", upos=["DET", "NOUN"]))


def test_a_planted_feature_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    scores = ask("feats:Number", planted("feats", LABELS, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0
    assert scores["accuracy"].task == "feats:Number"


def test_a_feature_drawn_at_random_stays_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("feats:Number", planted("feats", LABELS, signal=False))["accuracy"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 2 < found.ci_high
