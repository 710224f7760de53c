from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import probe
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("pair_label:same")


def pair(one: str, other: str, label: Any, **more: Any) -> Sentence:
    n, words = len(one.split()), f"{one} {other}".split()
    sentence = Sentence.from_words(words, id=one[:1], **more)
    return replace(sentence, targets={"same": (Target((0, n), label, (n, len(words))),)})


def test_every_pair_with_a_label_is_asked_about() -> None:
    sentences = Sentences([pair("a b", "c", "yes"), Sentence.from_words(["d"]), pair("e", "f g", "no")])
    found = PROBE.examples(sentences)
    assert found.spans.tolist() == [[[0, 2], [2, 3]], [[4, 5], [5, 7]]]
    assert [found.values[code] for code in found.codes] == ["yes", "no"]
    assert found.clusters.tolist() == [0, 2]
    assert found.skipped == {"no same label": 1}


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (replace(pair("a", "b", ""), targets={"same": (Target((0, 1), "a"),)}), "has one span a target where two are"),
        (replace(pair("a", "b", ""), targets={"some": (Target((0, 1), "a"),)}), r"'same': did you mean some\?$"),
        (pair("a", "b", ("yes", "no")), "column 'same' has several labels a pair: give one"),
        (pair("a", "b", "4.5"), "column 'same' holds numbers"),
    ],
)
def test_what_is_not_one_class_a_pair_is_refused(sentence: Sentence, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        PROBE.examples(Sentences([sentence]))


LABELS = ("yes", "no")


def test_planted_and_drawn_labels(
    planted_spans: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("pair_label:same", planted_spans("same", LABELS, signal=True, pairs=True))["accuracy"]
    assert found.value is not None
    assert found.value > 0.9
    drawn = ask("pair_label:same", planted_spans("same", LABELS, signal=False, pairs=True))["accuracy"]
    assert drawn.value is not None
    assert abs(drawn.value - 1 / 2) < 3 * (1 / 4 / drawn.n_items) ** 0.5  # three standard errors


def test_baselines_are_those_of_texts(planted_spans: Callable[..., Corpus], tiny_bert: Path) -> None:
    corpus = planted_spans("same", LABELS, signal=True, pairs=True)
    found = probe(
        "pair_label:same", model=tiny_bert, corpus=corpus, layers="0", controls="majority,word_majority,lexical"
    )
    assert {row.control for row in found.rows} == {"none", "majority", "lexical"}


def test_whether_two_texts_are_alike_is_read_off_their_vectors_and_off_new_texts(tiny_bert: Path) -> None:
    """Neither text alone says it, nor any sum of a score of the one and a score of the other."""
    dice = np.random.default_rng(2)
    nouns = ["dogs", "cats", "birds", "boys", "girls", "farmers"]

    def draw() -> Sentence:
        one = str(dice.choice(nouns))
        other = one if dice.random() < 0.5 else str(dice.choice([noun for noun in nouns if noun != one]))
        return pair(f"the {one} saw", f"the {other} saw", "yes" if one == other else "no")

    splits = {
        name: Sentences(draw() for _ in range(size)) for name, size in (("train", 300), ("dev", 60), ("test", 90))
    }
    table = probe("pair_label:same", model=tiny_bert, corpus=Corpus("alike", splits), layers="0", controls="none")
    assert next(row.value for row in table.rows if row.metric == "accuracy") > 0.95
    assert "90 items in 90 pairs" in str(table)
    assert "over test pairs" in str(table)
    found = table.fitted("pair_label:same", 0).predict(
        [("the dogs saw", "the dogs saw"), ("the boys saw", "the cats saw")]
    )
    assert list(found["label"]) == ["yes", "no"]
