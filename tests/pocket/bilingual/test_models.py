"""The embedded models of two languages are what their names say: measured by plain arrays, not by the tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import load_encoder
from bertology.activations import read_words
from bertology.corpora import Corpus, Links, ParallelText, load_corpus
from bertology.pocket import load_settings, model_folder
from bertology.pocket.training._model import PretrainSettings

NAMES = ("bilingual", "bilingual-apart")
EXPERIMENTS = Path(__file__).parents[3] / "experiments"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus("bilingual")


def parts(corpus: Corpus) -> tuple[Any, list[Links | None]]:
    text = ParallelText.of(corpus["test"])
    return text.pairs("en", "qpo"), text.links("en", "qpo")


@pytest.fixture(scope="module")
def vectors(corpus: Corpus) -> dict[str, list[Any]]:
    """Of each model, by sentence ``[layer, word, dim]``."""
    test, found = corpus["test"], {}
    for name in NAMES:
        encoder = load_encoder(name)
        read = read_words(encoder, test, layers=range(encoder.n_layers + 1)).numpy()
        found[name] = [read[:, test.starts[n] : test.starts[n + 1]] for n in range(len(test))]
    return found


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


def best_alignment(vectors: list[Any], pairs: Any, links: list[Links | None]) -> float:
    """The best layer's F1 of words that are each other's nearest."""
    best = 0.0
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
        best = max(best, 2 * right / (found + gold))
    return best


def test_one_has_a_space_in_common(corpus: Corpus, vectors: dict[str, list[Any]]) -> None:
    pairs, links = parts(corpus)
    assert len(pairs) == 1000
    assert best_retrieval(vectors["bilingual"], pairs, centred=True) >= 0.85
    assert best_alignment(vectors["bilingual"], pairs, links) >= 0.9


def test_its_control_has_none(corpus: Corpus, vectors: dict[str, list[Any]]) -> None:
    pairs, links = parts(corpus)
    assert best_retrieval(vectors["bilingual-apart"], pairs, centred=True) <= 0.05
    assert best_alignment(vectors["bilingual-apart"], pairs, links) <= 0.4  # by parts of speech, see its page
