from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.probing import TreeExamples, get_probe
from tests.probes.trees import ABOVE, ask_trees, planted_trees

PROBE = get_probe("structural_parse")


def test_heads_and_universal_relations(sentences_of: Callable[..., Sentences]) -> None:
    relations = ["det", "nsubj:pass", "punct", "root"]
    (plain,) = sentences_of("the dog , asleep", upos=["DET", "NOUN", "PUNCT", "ADJ"], deprel=relations)
    found = PROBE.examples(Sentences([replace(plain, heads=(2, 4, 4, 0))]))
    assert isinstance(found, TreeExamples)
    assert found.asks == "arcs"
    assert found.values == ("2:det 4:nsubj _ 0:root",)


def test_a_corpus_without_heads_or_relations_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    (plain,) = sentences_of("a dog barks", upos=["DET", "NOUN", "VERB"])
    with pytest.raises(CorpusError, match="no word has a head: give a treebank"):
        PROBE.examples(Sentences([plain]))
    with pytest.raises(CorpusError, match="sentence s1: word 1 has no relation to its head"):
        PROBE.examples(Sentences([replace(plain, heads=(2, 3, 0))]))


def test_a_planted_parse_is_found(tiny_bert: Path) -> None:
    found = ask_trees("structural_parse", tiny_bert, planted_trees(tiny_bert, signal=True))
    assert found["uas"].main_metric
    assert found["uas"].value == found["las"].value == 1.0


def test_trees_drawn_at_random_stay_at_chance(tiny_bert: Path) -> None:
    """The root is the right one once in seven times; other words have one of six heads and one of six relations."""
    found = ask_trees("structural_parse", tiny_bert, planted_trees(tiny_bert, signal=False))
    uas, las = found["uas"], found["las"]
    assert uas.value is not None
    assert uas.stderr is not None
    assert las.value is not None
    assert las.stderr is not None
    n = len(ABOVE)
    assert abs(uas.value - (1 + 6) / n**2) < 4 * uas.stderr
    assert abs(las.value - (1 + 6 / 6) / n**2) < 4 * las.stderr
