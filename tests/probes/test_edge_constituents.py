from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("edge_constituents")
LABELS = ("NP", "VP", "PP")


def test_items_are_the_labelled_spans(sentences_of: Callable[..., Sentences]) -> None:
    targets = (
        Target((0, 3), "NP"),
        Target((4, 5), "NP"),
    )
    (sentence,) = sentences_of("the old dog saw her run")
    found = PROBE.examples(Sentences([replace(sentence, targets={"constituents": targets})]))
    assert found.spans.tolist() == [[[0, 3]], [[4, 5]]]
    assert [found.values[code] for code in found.codes] == ["NP", "NP"]
    assert found.skipped == {}


def test_a_corpus_without_such_spans_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no span has a label in layer 'constituents'"):
        PROBE.examples(sentences_of("the dog"))


def test_what_is_planted_is_found_and_nothing_else(check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    check_spans("edge_constituents", "constituents", LABELS, pairs=False, chance=0.5)
