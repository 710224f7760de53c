"""The embedded models of two languages are what their names say: measured by plain arrays, not by the tasks."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import load_encoder
from bertology.activations import read_words
from bertology.corpora import Corpus, Links, ParallelText, Sentences, load_corpus
from bertology.pocket import load_settings, model_folder
from bertology.pocket._bilingual import Language, bilingual_corpus
from bertology.pocket._recipe import PretrainSettings

NAMES = ("bilingual", "bilingual-apart")
EXPERIMENTS = Path(__file__).parents[3] / "experiments"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus("bilingual")


def parts(corpus: Corpus) -> tuple[Any, list[Links | None]]:
    text = ParallelText.of(corpus["test"])
    return text.pairs("en", "qpo"), text.links("en", "qpo")


@pytest.fixture(scope="module")
def texts() -> Corpus:
    """Texts of three sentences: in single ones a third of the words of the control are linked, most by their kind."""
    return bilingual_corpus(Language(), sizes={"test": 300}, joined=3)


def vectors_of(name: str, sentences: Sentences, **loading: Any) -> list[Any]:
    """By sentence ``[layer, word, dim]``."""
    encoder = load_encoder(name, **loading)
    read = read_words(encoder, sentences, layers=range(encoder.n_layers + 1)).numpy()
    return [read[:, start:end] for start, end in pairwise(sentences.starts)]


@pytest.fixture(scope="module")
def vectors(corpus: Corpus) -> dict[str, list[Any]]:
    """Of each model."""
    return {name: vectors_of(name, corpus["test"]) for name in NAMES}


def unit(values: Any) -> Any:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_small_and_made_by_the_shipped_recipes(name: str) -> None:
    folder = model_folder(name)
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert PretrainSettings(**record["settings"]) == load_settings(EXPERIMENTS / f"pretrain-{name}.yaml")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    n_weights = sum(parameter.numel() for parameter in load_encoder(name).model.outermost.parameters())
    assert n_weights <= 1_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"{record['evaluation']['second_masked_accuracy']:.1%}" in card


def best_retrieval(vectors: list[Any], pairs: Any, *, centred: bool) -> float:
    """The best layer's P@1 of both directions, by cosines of means of words."""
    best = 0.0
    for layer in range(len(vectors[0])):
        own, other = (np.stack([vectors[n][layer].mean(axis=0) for n in pairs[:, side]]) for side in (0, 1))
        if centred:
            own, other = own - own.mean(axis=0), other - other.mean(axis=0)
        similar, gold = unit(own) @ unit(other).T, np.arange(len(pairs))
        hits = [(similar.argmax(axis=axis) == gold).mean() for axis in (0, 1)]
        best = max(best, float(np.mean(hits)))
    return best


def alignment(vectors: list[Any], pairs: Any, links: list[Links | None]) -> list[float]:
    """By layer the F1 of words that are each other's nearest."""
    by_layer = []
    for layer in range(len(vectors[0])):
        right = found = gold = 0
        for (first, second), known in zip(pairs, links, strict=True):
            assert known is not None
            similar = unit(vectors[first][layer]) @ unit(vectors[second][layer]).T
            nearest, back = similar.argmax(axis=1), similar.argmax(axis=0)
            linked = {(i, int(j)) for i, j in enumerate(nearest) if back[j] == i}
            right += len(linked & known.sure)
            found += len(linked)
            gold += len(known.sure)
        by_layer.append(2 * right / (found + gold))
    return by_layer


def test_one_has_a_space_in_common(corpus: Corpus, vectors: dict[str, list[Any]]) -> None:
    pairs, links = parts(corpus)
    assert len(pairs) == 1000
    assert best_retrieval(vectors["bilingual"], pairs, centred=True) >= 0.85
    assert min(alignment(vectors["bilingual"], pairs, links)) >= 0.85


def test_its_control_has_none(corpus: Corpus, vectors: dict[str, list[Any]]) -> None:
    pairs, links = parts(corpus)
    assert best_retrieval(vectors["bilingual-apart"], pairs, centred=True) <= 0.05
    assert max(alignment(vectors["bilingual-apart"], pairs, links)) <= 0.4  # full stops and words of one kind


@pytest.mark.parametrize(
    "loading", [{}, {"max_pieces": 32}], ids=["whole", "as long as what the control was trained on"]
)
def test_words_of_texts_are_linked_by_one_in_all_layers_and_not_by_its_control(
    texts: Corpus, loading: dict[str, Any]
) -> None:
    pairs, links = parts(texts)
    assert len(pairs) == 300
    assert min(alignment(vectors_of("bilingual", texts["test"], **loading), pairs, links)) >= 0.8
    assert max(alignment(vectors_of("bilingual-apart", texts["test"], **loading), pairs, links)) <= 0.15
