from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("edge_relations")
LABELS = ("Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other")


def test_items_are_the_labelled_spans(sentences_of: Callable[..., Sentences]) -> None:
    targets = (
        Target((3, 4), "Cause-Effect(e2,e1)", (0, 3)),
        Target((3, 4), "Other", (4, 6)),
    )
    (sentence,) = sentences_of("the old dog saw her run")
    found = PROBE.examples(Sentences([replace(sentence, targets={"relations": targets})]))
    assert found.spans.tolist() == [[[3, 4], [0, 3]], [[3, 4], [4, 6]]]
    assert [found.values[code] for code in found.codes] == ["Cause-Effect(e2,e1)", "Other"]
    assert found.skipped == {}


def test_a_corpus_without_such_spans_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no span has a label in layer 'relations'"):
        PROBE.examples(sentences_of("the dog"))


def test_what_is_planted_is_found_and_nothing_else(check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    found = check_spans("edge_relations", "relations", LABELS, pairs=True, chance=0.5)
    assert found["macro_f1"].main_metric
    assert set(found) == {"macro_f1", "micro_f1", "accuracy"}
