"""Every measure of two models whose tokenizers, and so whose stores, order the words differently."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertology import load_corpus
from bertology.activations import Recipe, extract, read_words
from bertology.activations.layers import LayerVectors
from bertology.comparison import label_clusters
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import CorpusError
from bertology.geometry.similarity import compare_layers, likeness, model_similarity, most_alike, moves_from_reference
from bertology.measures.sums import LayerSums

Floats = NDArray[np.float64]
LAYERS = (1, 3)
PAIRS = [(1, 3), (3, 1)]
PAIRED = ("rsa", "mutual_neighbours", "rbf")
"""Of the first 1,000 words."""
MEASURES = ("cka", "procrustes", "rsa", "mutual_neighbours", "svcca", "pwcca", "rbf", "neuron_matching")


def mean_cosine(x: Floats) -> float:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return float((unit @ unit.T)[np.triu_indices(len(x), 1)].mean())


class Model:
    """The vectors of a text as they are stored, and as they are computed sentence by sentence in float64."""

    def __init__(self, encoder: Encoder, text: Sentences, layers: tuple[int, ...]) -> None:
        recipe = Recipe(encoder.fingerprint, text.text_fingerprint, stored_dtype="float32")
        self.entry = extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))
        self.stored = LayerVectors.stored(self.entry, np.arange(text.n_words), layers)
        one_by_one = [read_words(encoder, text[at : at + 1], layers=layers).numpy() for at in range(len(text))]
        self.by_word = dict(zip(layers, np.concatenate(one_by_one, axis=1).astype(np.float64), strict=True))


@pytest.fixture(scope="module")
def text() -> Sentences:
    return load_corpus("pocket")["train"][:160]


@pytest.fixture(scope="module")
def models(tiny_bert: Path, text: Sentences, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The pocket model and a tiny one, which cut words into other subwords."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("stored")))
        yield [Model(load_encoder(str(name)), text, LAYERS) for name in ("pocket", tiny_bert)]


def by_name(sums: Any) -> dict[str, LayerSums]:
    return {one.metric: one for one in sums if not one.group}


@pytest.mark.parametrize("measure", MEASURES)
def test_each_measure_of_two_models_is_that_of_their_arrays(models: Any, text: Sentences, measure: str) -> None:
    a, b = models
    found = by_name(model_similarity(a.stored, b.stored, text.sentence_of_word, layers=PAIRS, measures=[measure]))
    n = min(text.n_words, 1000) if measure in PAIRED else text.n_words
    expected = {(i, j): likeness(a.by_word[i][:n], b.by_word[j][:n], measure=measure) for i in LAYERS for j in LAYERS}
    matched = np.array([expected[pair] for pair in PAIRS])
    if measure == "procrustes":
        assert found["procrustes_distance"].values == pytest.approx(1 - matched, abs=1e-4)
    else:
        assert found[measure].values == pytest.approx(matched, abs=1e-4)
    best = {own: max(LAYERS, key=lambda other: expected[own, other]) for own in LAYERS}
    assert dict(most_alike(a.stored, b.stored, measure=measure)) == best
    single = [LayerVectors.stored(one.entry, one.stored.words, (layer,)) for one, layer in ((a, 1), (b, 3))]
    matrix = compare_layers(*single, text.sentence_of_word, measure=measure)
    assert matrix.values.item() == pytest.approx(expected[1, 3], abs=1e-4)


def test_movement_and_anisotropy_of_two_models_are_those_of_numpy(models: Any, text: Sentences) -> None:
    a, b = models
    found = by_name(moves_from_reference(a.stored, b.stored, text.sentence_of_word, layers=PAIRS))
    change = [mean_cosine(a.by_word[own]) - mean_cosine(b.by_word[other]) for own, other in PAIRS]
    assert found["anisotropy_change"].values == pytest.approx(change, abs=1e-5)
    narrow = b.stored.dim
    wide = LayerVectors.of_arrays(np.stack([a.stored.of(layer)[:, :narrow] for layer in LAYERS]), layers=LAYERS)
    moved = by_name(moves_from_reference(wide, b.stored, text.sentence_of_word, layers=PAIRS))
    for place, (own, other) in enumerate(PAIRS):
        x, y = a.by_word[own][:, :narrow], b.by_word[other]
        lengths = np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1)
        assert moved["cosine_reference"].values[place] == pytest.approx(
            ((x * y).sum(axis=1) / lengths[0] / lengths[1]).mean(), abs=1e-5
        )
        distance = np.linalg.norm(x - y, axis=1) / lengths[1]
        assert moved["moved_reference"].values[place] == pytest.approx(distance.mean(), rel=1e-4)


def test_other_words_are_refused_by_every_measure_of_two_models(models: Any, text: Sentences) -> None:
    a, b = models
    words, sentences = np.arange(1, text.n_words), text.sentence_of_word
    shifted = LayerVectors.stored(b.entry, words, LAYERS)
    moved = LayerVectors.of_arrays(np.stack([b.stored.of(layer) for layer in LAYERS]), layers=LAYERS)
    moved.words = moved.words + 1
    other_text = LayerVectors(b.stored.layers, b.stored.words, b.stored.dim, b.stored._take, text="of another corpus")
    labels = ["A", "B", "C"] * text.n_words
    for other in (shifted, moved, other_text):
        for ask in (
            lambda other=other: list(model_similarity(a.stored, other, sentences, layers=PAIRS)),
            lambda other=other: list(moves_from_reference(a.stored, other, sentences, layers=PAIRS)),
            lambda other=other: most_alike(a.stored, other),
            lambda other=other: label_clusters(a.stored, other, labels[: text.n_words], sentences, layers=PAIRS),
        ):
            with pytest.raises(CorpusError, match="vectors of other words"):
                ask()
        with pytest.raises(CorpusError, match="cannot be compared"):
            compare_layers(a.stored, other, sentences)
