from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bertology.errors import CorpusError, ModelError
from bertology.geometry import (
    LayerVectors,
    WordSample,
    anisotropy,
    contextuality,
    intra_sentence_similarity,
    spectrum,
    text_statistics,
    variance_shares,
)
from bertology.geometry._clusters import cluster_means
from bertology.geometry._layers import OneLayer
from bertology.measures import bootstrap_ratio

RNG = np.random.default_rng


def by_metric(sums):
    return {(one.metric, one.group): one.values for one in sums}


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def world(n_types: int = 12, n_sentences: int = 40, dim: int = 16, layers: int = 2):
    """Words of sentences of 8, with vectors of type and noise."""
    rng = RNG(0)
    types = rng.integers(0, n_types, n_sentences * 8)
    sentences = np.repeat(np.arange(n_sentences), 8)
    means = rng.normal(size=(layers, n_types, dim))
    vectors = means[:, types] + 0.5 * rng.normal(size=(layers, len(types), dim)) + 1.0
    return types, sentences, vectors.astype(np.float32)


def test_self_similarity_is_the_mean_of_all_pairs() -> None:
    types, sentences, vectors = world()
    sample, kept = WordSample.of(types, sentences, least=5)
    found = by_metric(contextuality(LayerVectors.of_arrays(vectors), sample))
    for layer in range(2):
        means = []
        for kind in kept:
            first = {s: i for i, s in reversed(list(enumerate(sentences))) if types[i] == kind}
            places = list(first.values())
            pairs = [cosine(vectors[layer, i], vectors[layer, j]) for i, j in itertools.combinations(places, 2)]
            means.append(np.mean(pairs))
        assert found["self_similarity", ""][layer] == pytest.approx(np.mean(means), abs=1e-5)
    difference = found["self_similarity", ""] - found["self_similarity_baseline", ""]
    assert found["self_similarity_adjusted", ""] == pytest.approx(difference, abs=1e-9)


def test_explainable_variance_is_that_of_a_principal_component() -> None:
    types, sentences, vectors = world()
    sample, _ = WordSample.of(types, sentences)
    found = by_metric(contextuality(LayerVectors.of_arrays(vectors), sample))
    shares = [
        PCA(1).fit(vectors[1, sample.places[first:last]]).explained_variance_ratio_[0]
        for first, last in itertools.pairwise(sample.starts)
    ]
    assert found["explainable_variance", ""][1] == pytest.approx(np.mean(shares), abs=1e-5)


def test_occurrences_are_one_a_sentence_and_groups_those_that_are_named() -> None:
    types = np.array([0, 0, 1, 0, 1, -1, 0, 1, 2])
    sentences = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    sample, kept = WordSample.of(types, sentences, least=3)
    assert kept.tolist() == [0, 1]
    assert sample.places.tolist() == [0, 3, 6, 2, 4, 7]
    assert sorted(sample.shuffled.tolist()) == sorted(sample.places.tolist())
    assert WordSample.of(types, sentences, least=2, most=2)[0].counts.tolist() == [2, 2]


def test_a_constant_vector_makes_the_cosine_that_follows_and_standardising_removes_it() -> None:
    """Independent words of variance 1 a dimension around c: E cos ≈ ‖c‖² / (‖c‖² + d)."""
    rng, dim, n = RNG(1), 64, 4000
    constant = np.full(dim, 0.75)
    vectors = rng.normal(size=(1, n, dim)) + constant
    types, sentences = np.arange(n) % 400, np.repeat(np.arange(n // 8), 8)
    sample, _ = WordSample.of(types, sentences)
    found = by_metric(contextuality(LayerVectors.of_arrays(vectors), sample))
    expected = constant @ constant / (constant @ constant + dim)
    assert found["self_similarity_baseline", ""][0] == pytest.approx(expected, abs=0.01)
    assert found["self_similarity_adjusted", ""][0] == pytest.approx(0, abs=0.01)
    assert found["self_similarity_standardised", ""][0] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("n_clusters", [1, 4])
def test_centring_clusters_removes_what_their_means_share(n_clusters: int) -> None:
    """Around the mean of their own cluster independent words have cosine 0, be it one of several or the only one."""
    rng, dim, n = RNG(1), 32, 3000
    means = 6 * rng.normal(size=(n_clusters, dim))
    labels = rng.integers(0, n_clusters, n)
    vectors = (rng.normal(size=(n, dim)) + means[labels]).astype(np.float32)
    own = np.stack([vectors[labels == label].mean(axis=0) for label in range(n_clusters)])
    found_means, found_labels = cluster_means(OneLayer(0, vectors))
    assert found_means[found_labels] + vectors.mean(axis=0) == pytest.approx(own[labels], abs=1e-4)
    sample, _ = WordSample.of(np.arange(n) % 300, np.repeat(np.arange(n // 6), 6))
    found = by_metric(contextuality(LayerVectors.of_arrays(vectors[None]), sample))
    assert found["self_similarity_baseline", ""][0] > 0.1
    assert found["self_similarity_cluster_centred_baseline", ""][0] == pytest.approx(0, abs=0.01)
    assert found["self_similarity_cluster_centred", ""][0] == pytest.approx(0, abs=0.01)


def test_one_reading_gives_what_each_gives_alone_on_any_number_of_threads() -> None:
    types, sentences, vectors = world(n_sentences=60, layers=5)
    sample, _ = WordSample.of(types, sentences)
    every = np.arange(len(types))

    def of_threads(n_threads: int) -> LayerVectors:
        def take(layers: tuple[int, ...], items: np.ndarray) -> np.ndarray:
            return vectors[np.ix_(layers, items)]

        return LayerVectors(range(5), every, vectors.shape[2], take, n_threads=n_threads)

    tags = types % 3
    one, three = (list(text_statistics(of_threads(n), sentences, sample, tags)) for n in (1, 3))
    for first, second in zip(one, three, strict=True):
        assert first.metric == second.metric
        assert first.over.tobytes() == second.over.tobytes()
    stored, of_item = of_threads(1), (types[sample.places], tags[sample.places], sentences[sample.places])
    alone = [
        *contextuality(stored, sample),
        *anisotropy(stored, sentences),
        *intra_sentence_similarity(stored, sentences),
        *variance_shares(stored, sample.places, *of_item),
        *spectrum(stored, sentences),
    ]
    assert {one.metric: one.values for one in alone} == {one.metric: pytest.approx(one.values, abs=1e-5) for one in one}


def test_words_without_context_are_the_same_everywhere() -> None:
    types, sentences, vectors = world()
    static = vectors[:, : types.max() + 1][:, types]
    found = by_metric(contextuality(LayerVectors.of_arrays(static), WordSample.of(types, sentences)[0]))
    assert found["self_similarity", ""] == pytest.approx(1, abs=1e-6)
    assert found["explainable_variance", ""] == pytest.approx(1)


def test_words_of_a_sentence_and_their_mean() -> None:
    _, sentences, vectors = world()
    found = by_metric(intra_sentence_similarity(LayerVectors.of_arrays(vectors), sentences))
    of_sentences = []
    for sentence in range(40):
        words = vectors[0, sentences == sentence]
        of_sentences.append(np.mean([cosine(words.mean(axis=0), word) for word in words]))
    assert found["intra_sentence_similarity", ""][0] == pytest.approx(np.mean(of_sentences), abs=1e-5)
    assert found["intra_sentence_similarity_adjusted", ""] == pytest.approx(0, abs=0.02)


def test_variance_is_shared_out_as_it_was_planted() -> None:
    rng, n_types, n = RNG(2), 500, 20
    types = np.repeat(np.arange(n_types), n)
    tags = np.tile(np.repeat([0, 1], n // 2), n_types)
    of_type, of_tag = rng.normal(size=(n_types, 8)), rng.normal(size=(n_types, 2, 8))
    vectors = 2 * of_type[types] + of_tag[types, tags] + 0.5 * rng.normal(size=(len(types), 8))
    sums = variance_shares(
        LayerVectors.of_arrays(vectors[None]), np.arange(len(types)), types, tags, np.arange(len(types)) % 100
    )
    found = by_metric(sums)
    # The variance inside a type that two tags make is E(a − b)² / 4 · n / (n − 1), with E(a − b)² = 2.
    between_tags = n / 2 / (n - 1)
    total = 4 + 1 / 2 + between_tags + 0.25
    shares = [found[f"variance_{which}", ""][0] for which in ("between_types", "between_tags", "within")]
    assert sum(shares) == pytest.approx(1)
    assert shares[1] == pytest.approx(between_tags / total, abs=0.02)
    assert shares[2] == pytest.approx(0.25 / total, abs=0.01)


def test_random_tags_explain_nothing() -> None:
    types, sentences, vectors = world(n_sentences=200)
    tags = RNG(3).integers(0, 3, len(types))
    every = np.arange(len(types))
    found = by_metric(variance_shares(LayerVectors.of_arrays(vectors), every, types, tags, sentences))
    assert found["variance_between_tags", ""] == pytest.approx(0, abs=0.005)
    assert "variance_between_tags" not in {
        one.metric for one in variance_shares(LayerVectors.of_arrays(vectors), every, types, None, sentences)
    }


def test_what_cannot_be_computed_is_refused() -> None:
    types, sentences, vectors = world()
    with pytest.raises(CorpusError, match="no word occurs in 99 sentences or more"):
        WordSample.of(types, sentences, least=99)
    with pytest.raises(CorpusError, match="no word occurs in 2 sentences or more"):
        WordSample.of(types, np.zeros_like(sentences), least=1)
    sample, _ = WordSample.of(types, sentences)
    with pytest.raises(ModelError, match="layer 1: vectors of 1 words are not finite"):
        list(
            contextuality(
                LayerVectors.of_arrays(np.where(np.arange(320)[:, None] == 5, [[[1.0]], [[np.nan]]], 1)), sample
            )
        )
    with pytest.raises(ModelError, match="layer 0: vectors of 320 words are zero"):
        list(contextuality(LayerVectors.of_arrays(vectors * 0), sample))
    with pytest.raises(CorpusError, match="single word"):
        list(intra_sentence_similarity(LayerVectors.of_arrays(vectors[:, :3]), np.arange(3)))
    with pytest.raises(CorpusError, match="twice with the same tag"):
        list(variance_shares(LayerVectors.of_arrays(vectors), np.arange(3), np.arange(3), None, np.arange(3)))
    with pytest.raises(ValueError, match=r"\[layer, word, dim\]"):
        LayerVectors.of_arrays(vectors[0])


def test_anisotropy_is_of_all_pairs_of_words() -> None:
    """Of types that are rare as well: half of the words occur once, and share a direction."""
    types, sentences, vectors = world(n_types=200)
    sample, kept = WordSample.of(types, sentences, least=3)
    vectors[:, ~np.isin(types, kept)] += 3
    text = LayerVectors.of_arrays(vectors)
    found = by_metric(text_statistics(text, sentences, sample))
    unit = vectors[1] / np.linalg.norm(vectors[1], axis=1, keepdims=True)
    above = np.triu_indices(len(unit), 1)
    assert found["anisotropy", ""][1] == pytest.approx((unit @ unit.T)[above].mean(), abs=1e-5)
    assert found["anisotropy", ""][1] > found["self_similarity_baseline", ""][1] + 0.05
    (sums,) = anisotropy(text, sentences)
    rest = unit[sentences != 5]
    influence = (sums.over[1] - sums.values[1]) / 40
    others = unit[sentences != 6]
    difference = (others @ others.T)[np.triu_indices(len(others), 1)].mean() - (rest @ rest.T)[
        np.triu_indices(len(rest), 1)
    ].mean()
    assert influence[5] - influence[6] == pytest.approx(difference, abs=1e-5)


def test_intervals_over_documents_are_those_of_leaving_documents_out() -> None:
    """Statistics over types, computed anew without a block of documents, by the same code and by hand."""
    types, sentences, vectors = world(n_types=30, n_sentences=80)
    documents = sentences // 4
    sample, _ = WordSample.of(types, sentences)
    text = LayerVectors.of_arrays(vectors)
    by_document = {
        (one.metric, one.group): one for one in text_statistics(text, sentences, sample, documents=documents)
    }
    over_types = {(one.metric, one.group): one for one in text_statistics(text, sentences, sample)}
    for key, one in by_document.items():
        assert one.values == pytest.approx(over_types[key].values, abs=1e-5)
        assert one.clusters == ("types" if "explainable" in one.metric else "documents")
    found = by_document["self_similarity", ""]
    assert found.over.shape == (2, 20)

    def without(block: int) -> float:
        means = []
        for first, last in itertools.pairwise(sample.starts):
            places = sample.places[first:last]
            of_type = vectors[1, places[documents[places] != block]]
            if len(of_type) > 1:
                means.append(np.mean([cosine(a, b) for a, b in itertools.combinations(of_type, 2)]))
        return float(np.mean(means))

    influence = (found.over[1] - found.values[1]) / 20
    assert influence[3] - influence[8] == pytest.approx(without(8) - without(3), abs=1e-5)


def test_documents_that_differ_widen_intervals_over_types() -> None:
    """Words move with their document: over types alone the interval covers what other documents show too rarely."""
    dice, n_types, n_documents = RNG(0), 300, 20
    words = np.tile(np.arange(n_types), n_documents)
    documents = np.repeat(np.arange(n_documents), n_types)
    sentences = documents * 30 + np.tile(np.arange(n_types) // 10, n_documents)
    scale = np.exp(dice.normal(size=n_documents) / 2)
    vectors = dice.normal(size=(n_types, 16))[words] + scale[documents, None] * dice.normal(size=(len(words), 16))
    sample, _ = WordSample.of(words, sentences)
    text = LayerVectors.of_arrays(vectors[None])
    reach = {}
    for kind, of in (("types", None), ("documents", documents)):
        found = {one.metric: one for one in text_statistics(text, sentences, sample, documents=of) if not one.group}
        drawn = bootstrap_ratio(found["self_similarity"].over, found["self_similarity"].under, metric="m")
        reach[kind] = float(drawn.ci_high[0] - drawn.ci_low[0])
    assert reach["documents"] > 2 * reach["types"]


def test_few_documents_are_refused() -> None:
    types, sentences, vectors = world()
    sample, _ = WordSample.of(types, sentences)
    with pytest.raises(CorpusError, match="4 documents are too few for blocks to leave out: give 20 or more"):
        list(text_statistics(LayerVectors.of_arrays(vectors), sentences, sample, documents=sentences // 10))
