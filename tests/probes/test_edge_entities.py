from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("edge_entities")
LABELS = ("PER", "LOC")


def test_items_are_the_labelled_spans(sentences_of: Callable[..., Sentences]) -> None:
    targets = (
        Target((0, 3), "PER"),
        Target((4, 5), "PER"),
    )
    (sentence,) = sentences_of("the old dog saw her run")
    found = PROBE.examples(Sentences([replace(sentence, targets={"entities": targets})]))
    assert found.spans.tolist() == [[[0, 3]], [[4, 5]]]
    assert [found.values[code] for code in found.codes] == ["PER", "PER"]
    assert found.skipped == {}


def test_a_corpus_without_such_spans_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no span has a label in layer 'entities'"):
        PROBE.examples(sentences_of("the dog"))


def test_what_is_planted_is_found_and_nothing_else(check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    check_spans("edge_entities", "entities", LABELS, pairs=False, chance=0.6)
