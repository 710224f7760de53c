from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("edge_proto_roles")
LABELS = (("awareness", "volition"), ("moved",), ())


def test_items_have_any_number_of_labels(sentences_of: Callable[..., Sentences]) -> None:
    targets = (Target((3, 4), ("awareness", "volition"), (0, 3)), Target((3, 4), (), (4, 6)))
    (sentence,) = sentences_of("the old dog saw her run")
    found = PROBE.examples(Sentences([replace(sentence, targets={"proto_roles": targets})]))
    assert found.is_multi_label
    assert found.values == ("awareness", "volition")
    assert found.codes.tolist() == [[True, True], [False, False]]


def test_a_corpus_without_such_spans_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no span has a label in layer 'proto_roles'"):
        PROBE.examples(sentences_of("the dog"))


def test_what_is_planted_is_found_and_nothing_else(check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    check_spans("edge_proto_roles", "proto_roles", LABELS, pairs=True, chance=0.6)
