from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("edge_winograd")
LABELS = ("0", "1")


def test_items_are_the_labelled_spans(sentences_of: Callable[..., Sentences]) -> None:
    targets = (
        Target((3, 4), "1", (0, 3)),
        Target((3, 4), "0", (4, 6)),
    )
    (sentence,) = sentences_of("the old dog saw her run")
    found = PROBE.examples(Sentences([replace(sentence, targets={"winograd": targets})]))
    assert found.spans.tolist() == [[[3, 4], [0, 3]], [[3, 4], [4, 6]]]
    assert [found.values[code] for code in found.codes] == ["1", "0"]
    assert found.skipped == {}


def test_a_corpus_without_such_spans_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no span has a label in layer 'winograd'"):
        PROBE.examples(sentences_of("the dog"))


def test_what_is_planted_is_found_and_nothing_else(check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    check_spans("edge_winograd", "winograd", LABELS, pairs=True, chance=0.55)
