"""Statistics of the vectors of a text, by brute force, against scikit-learn and with planted signals."""

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from bertology.activations.layers import LayerVectors
from bertology.errors import CorpusError, ModelError
from bertology.geometry.text import OneLayer, TextStatistics, WordSample, cluster_means, explainable_variance, k_means

RNG = np.random.default_rng


def statistics(vectors, types, sentences, *, tags=None, documents=None):
    """All statistics of vectors ``[layer, word, dim]`` by metric and group."""
    sample, _ = WordSample.of(types, sentences)
    read = vectors if isinstance(vectors, LayerVectors) else LayerVectors.of_arrays(vectors)
    found = TextStatistics(sentences, sample, tags, documents).measure(read)
    return {(one.metric, one.group): one for one in found}


def values_of(*given, **settings):
    return {key: one.values for key, one in statistics(*given, **settings).items()}


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
    _, kept = WordSample.of(types, sentences, least=5)
    found = values_of(vectors, types, sentences)
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
    found = values_of(vectors, types, sentences)
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
    assert sorted(sample.order.tolist()) == list(range(6))
    assert WordSample.of(types, sentences, least=2, most=2)[0].counts.tolist() == [2, 2]


def test_a_constant_vector_makes_the_cosine_that_follows_and_standardising_removes_it() -> None:
    """Independent words of variance 1 a dimension around c: E cos ≈ ‖c‖² / (‖c‖² + d)."""
    rng, dim, n = RNG(1), 64, 4000
    constant = np.full(dim, 0.75)
    vectors = rng.normal(size=(1, n, dim)) + constant
    types, sentences = np.arange(n) % 400, np.repeat(np.arange(n // 8), 8)
    found = values_of(vectors, types, sentences)
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
    found = values_of(vectors[None], np.arange(n) % 300, np.repeat(np.arange(n // 6), 6))
    assert found["self_similarity_baseline", ""][0] > 0.1
    assert found["self_similarity_cluster_centred_baseline", ""][0] == pytest.approx(0, abs=0.01)
    assert found["self_similarity_cluster_centred", ""][0] == pytest.approx(0, abs=0.01)


def test_threads_change_nothing() -> None:
    types, sentences, vectors = world(n_sentences=60, layers=5)

    def take(layers: tuple[int, ...], items: np.ndarray) -> np.ndarray:
        return vectors[np.ix_(layers, items)]

    one, three = (
        statistics(
            LayerVectors(range(5), np.arange(len(types)), vectors.shape[2], take, n_threads=n),
            types, sentences, tags=types % 3,
        )
        for n in (1, 3)
    )  # fmt: skip
    assert one.keys() == three.keys()
    assert all(one[key].over.tobytes() == three[key].over.tobytes() for key in one)


def test_words_of_a_sentence_and_their_mean() -> None:
    types, sentences, vectors = world()
    found = values_of(vectors, types, sentences)
    of_sentences = []
    for sentence in range(40):
        words = vectors[0, sentences == sentence]
        of_sentences.append(np.mean([cosine(words.mean(axis=0), word) for word in words]))
    assert found["intra_sentence_similarity", ""][0] == pytest.approx(np.mean(of_sentences), abs=1e-5)
    assert found["intra_sentence_similarity_adjusted", ""] == pytest.approx(0, abs=0.02)


def test_variance_is_shared_out_as_it_was_planted() -> None:
    rng, n_types, n = RNG(2), 500, 20
    types = np.tile(np.arange(n_types), n)
    tags = np.repeat([0, 1], n_types * n // 2)
    of_type, of_tag = rng.normal(size=(n_types, 8)), rng.normal(size=(n_types, 2, 8))
    vectors = 2 * of_type[types] + of_tag[types, tags] + 0.5 * rng.normal(size=(len(types), 8))
    found = values_of(vectors[None], types, np.repeat(np.arange(n), n_types), tags=tags)
    # The variance inside a type that two tags make is E(a − b)² / 4 · n / (n − 1), with E(a − b)² = 2.
    between_tags = n / 2 / (n - 1)
    total = 4 + 1 / 2 + between_tags + 0.25
    shares = [found[f"variance_{which}", ""][0] for which in ("between_types", "between_tags", "within")]
    assert sum(shares) == pytest.approx(1)
    assert shares[1] == pytest.approx(between_tags / total, abs=0.02)
    assert shares[2] == pytest.approx(0.25 / total, abs=0.01)


def test_what_cannot_be_computed_is_refused() -> None:
    types, sentences, vectors = world()
    with pytest.raises(CorpusError, match="no word occurs in 99 sentences or more"):
        WordSample.of(types, sentences, least=99)
    with pytest.raises(CorpusError, match="no word occurs in 2 sentences or more"):
        WordSample.of(types, np.zeros_like(sentences), least=1)
    broken = vectors.copy()
    broken[1, 5] = np.nan
    with pytest.raises(ModelError, match="layer 1: vectors of 1 words are not finite"):
        statistics(broken, types, sentences)
    with pytest.raises(ModelError, match="layer 0: vectors of 320 words are zero"):
        statistics(vectors * 0, types, sentences)
    alone = np.arange(30)
    with pytest.raises(CorpusError, match="single word"):
        statistics(vectors[:, :30], np.zeros(30, dtype=int), alone)
    with pytest.raises(CorpusError, match="twice with the same tag"):
        statistics(vectors[:, :60], np.tile([0, -1], 30), np.repeat(alone, 2), tags=np.arange(60))
    with pytest.raises(ValueError, match=r"\[layer, word, dim\]"):
        LayerVectors.of_arrays(vectors[0])
    with pytest.raises(CorpusError, match="give 20 or more"):
        statistics(vectors[:, :30], np.tile([0, 1, 2], 10), np.repeat(np.arange(10), 3))
    with pytest.raises(CorpusError, match="4 documents are too few for blocks to leave out: give 20 or more"):
        statistics(vectors, types, sentences, documents=sentences // 10)
    with pytest.raises(ModelError, match="layer 0: all words have the same vector"):
        statistics(np.ones((1, 60, 4)), np.tile([0, 1], 30), np.repeat(alone, 2))


def test_intervals_over_documents_are_those_of_leaving_documents_out() -> None:
    """Statistics over types, computed anew without a block of documents, by the same code and by hand."""
    types, sentences, vectors = world(n_types=30, n_sentences=80)
    documents = sentences // 4
    sample, _ = WordSample.of(types, sentences)
    by_document = statistics(vectors, types, sentences, documents=documents)
    over_types = statistics(vectors, types, sentences)
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


def test_spectrum_is_that_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 600, 12)) * np.arange(1, 13) + 3
    found = values_of(vectors, np.tile(np.arange(10), 60), np.repeat(np.arange(60), 10))
    for layer in range(2):
        variances = np.linalg.eigvalsh(np.cov(vectors[layer], rowvar=False))
        shares = variances / variances.sum()
        rank = 1 / (shares**2).sum()
        # The steps of the algorithm of IsoScore: variances of length √dim, their distance from ones, scaled.
        distance = np.linalg.norm(variances / np.linalg.norm(variances) * np.sqrt(12) - 1)
        defect = distance / np.sqrt(2 * (12 - np.sqrt(12)))
        iso_score = ((12 - defect**2 * (12 - np.sqrt(12))) ** 2 / 12 - 1) / 11
        assert found["iso_score", ""][layer] == pytest.approx(iso_score, rel=1e-4)
        assert found["effective_rank_dimensions", ""][layer] == pytest.approx(rank, rel=1e-4)
        assert found["matrix_entropy_bits", ""][layer] == pytest.approx(-(shares * np.log2(shares)).sum(), rel=1e-4)
    unit = vectors[0] / np.linalg.norm(vectors[0], axis=1, keepdims=True)
    products = np.array([(unit[i] * unit[j]) for i in range(0, 600, 7) for j in range(600) if i != j]).mean(axis=0)
    assert found["rogue_share", ""][0] == pytest.approx(np.sort(products)[-3:].sum() / products.sum(), abs=0.02)


def test_a_rogue_dimension_is_seen() -> None:
    vectors = np.random.default_rng(1).normal(size=(1, 400, 32))
    vectors[:, :, 7] += 20
    found = values_of(vectors, np.tile(np.arange(10), 40), np.repeat(np.arange(40), 10))
    assert found["rogue_share", ""][0] > 0.99


def test_clusters_are_those_of_scikit_learn() -> None:
    rng = RNG(0)
    vectors = (rng.normal(size=(600, 6)) + 3 * rng.normal(size=(5, 6))[rng.integers(0, 5, 600)]).astype(np.float32)
    first = vectors[rng.permutation(600)[:5]]
    other = KMeans(5, init=first, n_init=1).fit(vectors)
    assert k_means(vectors, first) == pytest.approx(other.cluster_centers_, abs=0.05)


@pytest.mark.parametrize("rank", [1, 3, 60])
def test_shares_are_those_of_principal_components_whatever_the_size(rank: int) -> None:
    """In order and shuffled."""
    rng, sizes = RNG(0), (2, 5, 33, 33, 65, 200)
    starts = np.cumsum([0, *sizes])
    vectors = (rng.normal(size=(starts[-1], rank)) @ rng.normal(size=(rank, 80)) + 3).astype(np.float32)
    expected = [
        PCA(1, svd_solver="full").fit(vectors[first:last].astype(np.float64)).explained_variance_ratio_[0]
        for first, last in itertools.pairwise(starts)
    ]
    assert explainable_variance(vectors, starts) == pytest.approx(np.array(expected), abs=1e-5)
    order = rng.permutation(len(vectors))
    assert explainable_variance(vectors[np.argsort(order)], starts, order) == pytest.approx(
        np.array(expected), abs=1e-5
    )
