from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Sentences, Target
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("edge_srl")
LABELS = ("A0", "A1", "AM-TMP")


def test_items_are_the_labelled_spans(sentences_of: Callable[..., Sentences]) -> None:
    targets = (
        Target((3, 4), "A0", (0, 3)),
        Target((3, 4), "R-A0", (4, 6)),
    )
    (sentence,) = sentences_of("the old dog saw her run")
    found = PROBE.examples(Sentences([replace(sentence, targets={"srl": targets})]))
    assert found.spans.tolist() == [[[3, 4], [0, 3]]]
    assert [found.values[code] for code in found.codes] == ["A0"]
    assert found.skipped == {"label not asked about": 1}


def test_references_and_continuations_are_there_when_asked_for(sentences_of: Callable[..., Sentences]) -> None:
    (sentence,) = sentences_of("the old dog saw her run")
    targets = (Target((3, 4), "A0", (0, 3)), Target((3, 4), "C-A1", (4, 6)))
    found = get_probe("edge_srl:all").examples(Sentences([replace(sentence, targets={"srl": targets})]))
    assert found.values == ("A0", "C-A1")
    assert get_probe("edge_srl:all").task == "edge_srl:all"
    with pytest.raises(BertologyError, match="edge_srl:some: write edge_srl, or edge_srl:all"):
        get_probe("edge_srl:some")


def test_a_corpus_without_such_spans_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no span has a label in layer 'srl'"):
        PROBE.examples(sentences_of("the dog"))


def test_what_is_planted_is_found_and_nothing_else(check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    check_spans("edge_srl", "srl", LABELS, pairs=True, chance=0.4)
