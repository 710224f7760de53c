from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import BRIEF

PROBE = get_probe("edge_dependencies")
LABELS = ("nsubj", "obj", "nmod:poss")


def test_a_dependent_and_its_head_without_the_root(sentences_of: Callable[..., Sentences]) -> None:
    (sentence,) = sentences_of("her dog saw us", deprel=["nmod:poss", "nsubj", "root", None])
    found = PROBE.examples(Sentences([sentence, replace(sentence, heads=(2, 3, 0, 3))]))
    # Of the first sentence no heads are known; the last word of the second has no relation.
    assert found.spans.tolist() == [[[4, 5], [5, 6]], [[5, 6], [6, 7]]]
    assert [found.values[code] for code in found.codes] == ["nmod:poss", "nsubj"]
    assert found.clusters.tolist() == [1, 1]
    assert found.skipped == {"no head or no deprel label": 5}


def test_a_corpus_without_heads_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no word has a head and a relation to it: the annotation layers are deprel"):
        PROBE.examples(sentences_of("a dog", deprel=["det", "root"]))


@pytest.fixture
def trees(planted: Callable[..., Corpus]) -> Callable[..., Corpus]:
    """Every word depends on the next one, its relation its own or drawn."""

    def make(*, signal: bool) -> Corpus:
        whole = planted("deprel", LABELS, signal=signal)
        splits = {
            name: Sentences(replace(s, heads=(*range(2, len(s) + 1), 0)) for s in sentences)
            for name, sentences in whole.splits.items()
        }
        return Corpus("trees", splits)

    return make


def test_what_is_planted_is_found(trees: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    value = ask("edge_dependencies", trees(signal=True), **BRIEF)["micro_f1"].value
    assert value is not None
    assert value > 0.98


def test_labels_drawn_at_random_stay_at_chance(
    trees: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("edge_dependencies", trees(signal=False))["micro_f1"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 3 < found.ci_high
