from __future__ import annotations

from collections.abc import Callable

import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("deprel")
LABELS = ("nsubj", "obj", "nmod:poss")


def test_relations_are_the_universal_ones(sentences_of: Callable[..., Sentences]) -> None:
    relations = ["nmod:poss", "nsubj:pass", "aux:pass", "root", None]
    found = PROBE.examples(sentences_of("her dog was seen .", deprel=relations))
    assert [found.values[code] for code in found.codes] == ["nmod", "nsubj", "aux", "root"]
    assert found.skipped == {"no deprel label": 1}


def test_subtypes_of_one_relation_are_one_label(sentences_of: Callable[..., Sentences]) -> None:
    found = PROBE.examples(sentences_of("Ann 's dog", deprel=["nmod:poss", "nmod", "nmod:tmod"]))
    assert found.values == ("nmod",)
    assert found.codes.tolist() == [0, 0, 0]


def test_a_corpus_without_relations_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="layer 'deprel'"):
        PROBE.examples(sentences_of("the dog", upos=["DET", "NOUN"]))


def test_a_planted_relation_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    scores = ask("deprel", planted("deprel", LABELS, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0


def test_relations_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("deprel", planted("deprel", LABELS, signal=False))["accuracy"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 3 < found.ci_high
