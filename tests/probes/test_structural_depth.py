from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.probing import TreeExamples, get_probe
from tests.probes.trees import ABOVE, ask_trees, planted_trees

PROBE = get_probe("structural_depth")


def test_depths_of_all_words_but_punctuation(sentences_of: Callable[..., Sentences]) -> None:
    (plain,) = sentences_of("the dog , asleep", upos=["DET", "NOUN", "PUNCT", "ADJ"])
    found = PROBE.examples(Sentences([replace(plain, heads=(2, 0, 4, 2))]))
    assert isinstance(found, TreeExamples)
    assert found.asks == "depths"
    assert found.values == ("1 0 _ 1",)


def test_a_corpus_without_heads_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no word has a head: give a treebank"):
        PROBE.examples(sentences_of("a dog barks", upos=["DET", "NOUN", "VERB"]))


def test_planted_depths_are_found(tiny_bert: Path) -> None:
    found = ask_trees("structural_depth", tiny_bert, planted_trees(tiny_bert, signal=True))
    assert found["root_accuracy"].main_metric
    assert found["root_accuracy"].value == 1.0
    assert found["nspr"].value is not None
    assert found["nspr"].value > 0.9


def test_depths_drawn_at_random_stay_at_chance(tiny_bert: Path) -> None:
    found = ask_trees("structural_depth", tiny_bert, planted_trees(tiny_bert, signal=False))
    for metric, chance in (("root_accuracy", 1 / len(ABOVE)), ("nspr", 0.0)):
        row = found[metric]
        assert row.value is not None
        assert row.stderr is not None
        assert abs(row.value - chance) < 4 * row.stderr
