from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.probing import TreeExamples, get_probe
from tests.probes.trees import ABOVE, ask_trees, planted_trees

PROBE = get_probe("structural_distance")


def test_heads_of_all_words_but_punctuation(sentences_of: Callable[..., Sentences]) -> None:
    (plain,) = sentences_of("the dog , asleep", upos=["DET", "NOUN", "PUNCT", "ADJ"])
    found = PROBE.examples(Sentences([replace(plain, heads=(2, 0, 4, 2))]))
    assert isinstance(found, TreeExamples)
    assert found.asks == "distances"
    assert found.values == ("2 0 _ 2",)


def test_a_corpus_without_heads_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no word has a head: give a treebank"):
        PROBE.examples(sentences_of("a dog barks", upos=["DET", "NOUN", "VERB"]))


def test_a_planted_tree_is_found(tiny_bert: Path) -> None:
    found = ask_trees("structural_distance", tiny_bert, planted_trees(tiny_bert, signal=True))
    assert found["uuas"].main_metric
    assert found["uuas"].value == 1.0
    assert found["dspr"].value is not None
    # Of distances that are alike, those found are in some order: a correlation of 1 is out of reach.
    assert found["dspr"].value > 0.85
    assert found["uuas"].n_classes == 0


def test_trees_drawn_at_random_stay_at_chance(tiny_bert: Path) -> None:
    found = ask_trees("structural_distance", tiny_bert, planted_trees(tiny_bert, signal=False))
    for metric, chance in (("uuas", 2 / len(ABOVE)), ("dspr", None)):
        row = found[metric]
        assert row.value is not None
        assert row.stderr is not None
        # A word is nearest to itself whatever the vectors are, and that is all there is to find.
        if chance is None:
            assert row.value < 0.5
        else:
            assert abs(row.value - chance) < 4 * row.stderr
