from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from bertology import Corpus, load_corpus, probe
from bertology.activations.layers import LayerVectors
from bertology.corpora import Sentence, Sentences
from bertology.errors import BertologyError
from bertology.geometry.senses import SpanItems, span_clusters
from bertology.probing import get_probe

PROBE = get_probe("chunk_clusters")


def tagged(*tags: str) -> Sentence:
    sentence = Sentence.from_words([f"w{number}" for number in range(len(tags))])
    return replace(sentence, layers={"chunk": tags})


def test_chunks_reach_to_the_word_before_the_next_that_is_not_inside() -> None:
    text = Sentences([tagged("B-NP", "I-NP", "B-VP", "O", "B-NP"), tagged("B-PP", "B-NP", "I-NP", "I-NP")])
    found = PROBE.items({"train": text, "test": text})
    items = found.data["test"]
    assert items.spans[..., 0].tolist() == [[0, 1], [2, 2], [4, 4], [5, 5], [6, 8]]
    assert items.labels.tolist() == [0, 1, 0, 2, 0]
    assert items.clusters.tolist() == [0, 0, 0, 1, 1]
    assert found.words["test"].tolist() == [0, 1, 2, 4, 5, 6, 8]


def drawn(n: int, *, signal: bool, seed: int) -> tuple[LayerVectors, SpanItems]:
    """Spans of one word or two, whose vectors know the label or do not."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    means = 4 * np.random.default_rng(0).normal(size=(3, 8)) * signal
    vectors = means[np.repeat(labels, 2)] + rng.normal(size=(2 * n, 8))
    first = np.arange(n) * 2
    ends = np.stack([first, first + rng.integers(0, 2, n)], axis=1)
    items = SpanItems(np.stack([ends, ends + 1], axis=2), labels, np.arange(n) // 4)
    return LayerVectors.of_arrays(vectors[None].astype(np.float32)), items


def features(items: SpanItems, vectors: LayerVectors) -> np.ndarray:
    first, last = (vectors.of(0)[items.spans[:, place, 0]] for place in (0, 1))
    return np.concatenate([first, last, first * last, first - last], axis=1)


def test_planted_and_drawn_labels_and_the_scores_of_scikit_learn() -> None:
    from sklearn.cluster import KMeans

    for signal, least, most in ((True, 0.9, 1.0), (False, -0.05, 0.05)):
        (train, of_train), (test, of_test) = drawn(300, signal=signal, seed=1), drawn(200, signal=signal, seed=2)
        sums = span_clusters({"train": train, "test": test}, {"train": of_train, "test": of_test})
        found = {one.metric: one for one in sums}
        assert least <= found["adjusted_rand"].values[0] <= most
        fitted = KMeans(3, n_init=10, random_state=0).fit(features(of_train, train))
        labels = fitted.predict(features(of_test, test))
        expected = normalized_mutual_info_score(of_test.labels, labels)
        assert found["v_measure"].values[0] == pytest.approx(expected, abs=1e-9)
        expected = adjusted_rand_score(of_test.labels, labels)
        assert found["adjusted_rand"].values[0] == pytest.approx(expected, abs=1e-9)
        assert found["v_measure"].over.shape == (1, 50)


def test_it_runs_on_the_pocket_corpus() -> None:
    whole = load_corpus("pocket")
    corpus = replace(whole, splits={name: whole[name][:60] for name in ("train", "dev", "test")})
    results = probe("chunk_clusters", corpus=corpus, layers="0,3", controls="none", progress=False)
    scores = results.scores().set_index(["metric", "layer"])
    assert scores.loc[("adjusted_rand", 3), "value"] > 0.1
    assert scores.n_items.min() > 100


def test_text_without_chunks_is_refused() -> None:
    plain = Sentences([Sentence.from_words(["a", "b"])] * 30)
    one_kind = Sentences([tagged("B-NP", "O")] * 30)
    for text, message in (
        (plain, "no word has a label in layer 'chunk'"),
        (one_kind, "no chunks of two kinds in train"),
    ):
        with pytest.raises(BertologyError, match=f"task chunk_clusters: {message}"):
            probe(
                "chunk_clusters", corpus=Corpus("none", {"train": text, "test": text}), controls="none", progress=False
            )
