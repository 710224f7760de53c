"""Structural probes, on trees that can be read off word vectors, or cannot."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.corpora import Corpus, Sentence, Sentences
from bertology.errors import CorpusError
from bertology.families.request import ReadoutConfig
from bertology.probing import get_probe
from bertology.probing.items import TreeExamples
from bertology.results import ResultRow
from bertology.runner import ProbeRequest, run_probes
from tests.probes.conftest import make_sentence, vocabulary_of

SETTINGS: dict[str, Any] = {"rank": 16, "learning_rate": 0.02, "batch_sentences": 10, "max_epochs": 25}
SIZES = {"train": 120, "dev": 20, "test": 40}
# A tree over seven words: which of them each hangs from, and how.
ABOVE = (-1, 0, 0, 1, 1, 2, 3)
RELATIONS = ("root", "nsubj", "obj", "det", "amod", "case", "advmod")


def planted_trees(model: Path, *, signal: bool) -> Corpus:
    """The same seven words in any order; what hangs from what follows from the words, or is drawn anew each time."""
    words, draw = vocabulary_of(model, len(ABOVE)), np.random.default_rng(3)
    splits = {}
    for split, size in SIZES.items():
        sentences = []
        for number in range(size):
            order = draw.permutation(len(ABOVE))
            part = draw.permutation(len(ABOVE)) if not signal else np.arange(len(ABOVE))
            sentences.append(_sentence(f"{split}-{number}", [words[place] for place in order], part[order].tolist()))
        splits[split] = Sentences(sentences)
    return Corpus("planted", splits)


def _sentence(name: str, words: list[str], parts: list[int]) -> Sentence:
    """A sentence in which each word plays the part of one of the tree's nodes."""
    heads = tuple(parts.index(ABOVE[part]) + 1 if part else 0 for part in parts)
    plain = make_sentence(name, words, deprel=[RELATIONS[part] for part in parts], upos=["X"] * len(words))
    return replace(plain, heads=heads)


def ask_trees(task: str, model: Path, corpus: Corpus) -> dict[str, ResultRow]:
    """The scores of a task read off the embeddings, by metric."""
    reading = ReadoutConfig("structural", SETTINGS)
    request = ProbeRequest(tasks=(task,), model=str(model), layers="0", controls=(), configs={task: (reading,)})
    return {row.metric: row for row in run_probes(request, corpus=corpus).rows}


WORDS, UPOS = "the dog , asleep", ["DET", "NOUN", "PUNCT", "ADJ"]
RELATED = ["det", "nsubj:pass", "punct", "root"]


@pytest.mark.parametrize(
    ("task", "asks", "heads", "expected"),
    [
        ("structural_depth", "depths", (2, 0, 4, 2), "1 0 _ 1"),
        ("structural_distance", "distances", (2, 0, 4, 2), "2 0 _ 2"),
        ("structural_parse", "arcs", (2, 4, 4, 0), "2:det 4:nsubj _ 0:root"),
    ],
)
def test_trees_of_all_words_but_punctuation(
    task: str, asks: str, heads: tuple[int, ...], expected: str, sentences_of: Callable[..., Sentences]
) -> None:
    (plain,) = sentences_of(WORDS, upos=UPOS, deprel=RELATED)
    found = get_probe(task).examples(Sentences([replace(plain, heads=heads)]))
    assert isinstance(found, TreeExamples)
    assert found.asks == asks
    assert found.values == (expected,)
    with pytest.raises(CorpusError, match="no word has a head: give a treebank"):
        get_probe(task).examples(Sentences([plain]))


def test_a_parse_needs_relations(sentences_of: Callable[..., Sentences]) -> None:
    (plain,) = sentences_of("a dog barks", upos=["DET", "NOUN", "VERB"])
    with pytest.raises(CorpusError, match="sentence s1: word 1 has no relation to its head"):
        get_probe("structural_parse").examples(Sentences([replace(plain, heads=(2, 3, 0))]))


# Of distances that are alike, those found are in some order: a correlation of 1 is out of reach.
@pytest.mark.parametrize(
    ("task", "least"),
    [
        ("structural_depth", {"root_accuracy": 1.0, "nspr": 0.9}),
        ("structural_distance", {"uuas": 1.0, "dspr": 0.85}),
        ("structural_parse", {"uas": 1.0, "las": 1.0}),
    ],
)
def test_planted_trees_are_found(task: str, least: dict[str, float], tiny_bert: Path) -> None:
    found = ask_trees(task, tiny_bert, planted_trees(tiny_bert, signal=True))
    assert found[next(iter(least))].main_metric
    for metric, value in least.items():
        row = found[metric]
        assert row.value is not None
        assert row.value >= value
        assert row.n_classes == 0 or task == "structural_parse"


# The root is the right one once in seven times; other words have one of six heads and one of six relations. Of
# distances a word is nearest to itself whatever the vectors are, and that is all there is to find.
@pytest.mark.parametrize(
    ("task", "chance"),
    [
        ("structural_depth", {"root_accuracy": 1 / len(ABOVE), "nspr": 0.0}),
        ("structural_distance", {"uuas": 2 / len(ABOVE)}),
        ("structural_parse", {"uas": (1 + 6) / len(ABOVE) ** 2, "las": (1 + 6 / 6) / len(ABOVE) ** 2}),
    ],
)
def test_trees_drawn_at_random_stay_at_chance(task: str, chance: dict[str, float], tiny_bert: Path) -> None:
    found = ask_trees(task, tiny_bert, planted_trees(tiny_bert, signal=False))
    for metric, value in chance.items():
        row = found[metric]
        assert row.value is not None
        assert row.stderr is not None
        assert abs(row.value - value) < 4 * row.stderr
    if task == "structural_distance":
        assert found["dspr"].value is not None
        assert found["dspr"].value < 0.5
