from __future__ import annotations

from collections.abc import Callable

import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("xpos")
LABELS = ("NN", "NNS", "VBD", "VBZ")


def test_every_word_with_a_tag_is_asked_about(sentences_of: Callable[..., Sentences]) -> None:
    found = PROBE.examples(sentences_of("the dogs , see", xpos=["DT", "NNS", ",", None], upos=["X"] * 4))
    assert [found.values[code] for code in found.codes] == ["DT", "NNS", ","]
    assert found.skipped == {"no xpos label": 1}


def test_a_corpus_without_tags_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="layer 'xpos'"):
        PROBE.examples(sentences_of("the dog", upos=["DET", "NOUN"]))


def test_a_planted_tag_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    scores = ask("xpos", planted("xpos", LABELS, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0


def test_tags_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("xpos", planted("xpos", LABELS, signal=False))["accuracy"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 4 < found.ci_high
