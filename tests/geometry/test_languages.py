"""Languages: alignment by definition and against SimAlign, retrieval by brute force, a planted shift of languages."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bertology.activations.layers import LayerVectors
from bertology.corpora import Links, ParallelText, Sentence, Sentences, translations
from bertology.geometry.alignment import AlignedPair, align_words, aligned_pairs, scores_of_links, word_similarity
from bertology.geometry.languages import (
    LabelledWords,
    LanguageItems,
    TransferItems,
    language_centroids,
    language_identity,
    retrieval,
    retrieved,
    transfer,
)
from bertology.measures.sums import LayerSums

N, DIM = 60, 16


def simalign_by_definition(similar: np.ndarray, method: str) -> set[tuple[int, int]]:
    """Cell by cell, as the paper states it, with its factor 0.9 where one of two words is linked."""
    m, n = similar.shape
    if method == "match":
        import networkx as nx

        graph = nx.Graph()
        graph.add_weighted_edges_from((("a", i), ("b", j), similar[i, j]) for i in range(m) for j in range(n))
        found = nx.max_weight_matching(graph, maxcardinality=True)
        return {(dict(edge)["a"], dict(edge)["b"]) for edge in found}

    def mutual(cells: np.ndarray) -> set[tuple[int, int]]:
        return {(i, j) for i in range(m) for j in range(n) if cells[i].argmax() == j and cells[:, j].argmax() == i}

    first = mutual(similar)
    rows, columns = {i for i, _ in first}, {j for _, j in first}
    if method == "argmax" or min(m, n) <= 2 or len(rows) == m or len(columns) == n:
        return first
    factor = np.array([[(1.0, 0.9, 0.0)[(i in rows) + (j in columns)] for j in range(n)] for i in range(m)])
    return first | {(i, j) for i, j in mutual(similar * factor) if factor[i, j] > 0}


@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
def test_methods_are_their_definition(method: str) -> None:
    dice = np.random.default_rng(0)
    for _ in range(30):
        similar = dice.random(dice.integers(1, 8, size=2))
        found = set(zip(*(some.tolist() for some in np.nonzero(align_words(similar, method))), strict=True))
        assert found == simalign_by_definition(similar, method)


def test_similarity_and_distortion_by_hand() -> None:
    similar = word_similarity(np.eye(2, dtype=np.float32), np.array([[1, 0], [-1, 0]], dtype=np.float32))
    assert similar == pytest.approx(np.array([[1, 0], [0.5, 0.5]]))
    bent = word_similarity(np.eye(2, dtype=np.float32), np.array([[1, 0], [1, 0]], dtype=np.float32), distortion=0.5)
    assert bent == pytest.approx(np.array([[1, 0.5], [0.25, 0.5]]))


def test_error_rate_by_hand() -> None:
    # A = {00, 11, 22}, S = {00, 12}, P = S and {11}: |A ∩ S| = 1, |A ∩ P| = 2
    gold = Links(frozenset({(0, 0), (1, 2)}), frozenset({(1, 1)}))
    three = (np.arange(3), np.arange(3))
    counts = AlignedPair(three, three, gold).counts(np.eye(3, dtype=bool))
    assert counts == (3, 1, 2, 2)
    scores = {one.metric: one.values[0] for one in scores_of_links("a", [counts, (1, 1, 1, 1)])}
    precision, recall = 3 / 4, 2 / 3
    assert scores["a_precision"] == pytest.approx(precision)
    assert scores["a_recall"] == pytest.approx(recall)
    assert scores["a_f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert scores["a_error"] == pytest.approx(1 - (2 + 3) / (4 + 3))


def items(n: int = N) -> LanguageItems:
    """One vector a sentence: of two languages, one after the other."""
    return LanguageItems(("en", "xx"), np.tile([0, 1], n), np.repeat(np.arange(n), 2), np.arange(2 * n + 1))


def by_name(sums: object) -> dict[str, float]:
    return {one.metric: float(one.values[0]) for one in sums if not one.group}  # type: ignore[attr-defined]


def shifted(*, noise: float = 0.0) -> LayerVectors:
    """The same vectors in both languages, those of the second moved far away."""
    dice = np.random.default_rng(3)
    meaning = np.repeat(dice.normal(size=(N, DIM)), 2, axis=0)
    meaning[1::2] += 20 * np.eye(DIM)[0] + noise * dice.normal(size=(N, DIM))
    return LayerVectors.of_arrays(meaning[None])


def test_a_shift_of_a_language_is_found_and_removed() -> None:
    found = by_name(language_identity(shifted(), items()))
    assert found["identity"] == 1
    assert found["same_language"] > 0.95
    assert found["identity_centred"] == pytest.approx(0.5, abs=0.15)
    assert found["identity_erased"] == pytest.approx(0.5, abs=0.15)
    scores = by_name(retrieval(shifted(), items()))
    assert scores["retrieval"] < 0.9
    assert scores["retrieval_centred"] == scores["retrieval_projected"] == 1


def test_retrieval_by_brute_force() -> None:
    read = shifted(noise=1.0)
    vectors = read.of(0).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right = 0
    for own, other in ((0, 1), (1, 0)):
        for number in range(N):
            cosines = [unit[2 * number + own] @ unit[2 * place + other] for place in range(N)]
            right += int(np.argmax(cosines)) == number
    assert by_name(retrieval(read, items()))["retrieval"] == pytest.approx(right / (2 * N))
    assert retrieved(np.array([[1.0, 1.0], [0.0, 1.0]], dtype=np.float32)).tolist() == [0.5, 1]


def test_languages_of_one_family_cluster() -> None:
    dice, names = np.random.default_rng(5), ("de", "nl", "fr", "es")
    language = np.tile(np.arange(4), N)
    places = np.array([[0, 0], [1, 0], [9, 0], [10, 0]])
    vectors = np.pad(places[language], ((0, 0), (0, 6))) + 0.1 * dice.normal(size=(4 * N, 8))
    four = LanguageItems(names, language, np.repeat(np.arange(N), 4), np.arange(4 * N + 1))
    families = {"de": "Germanic", "nl": "Germanic", "fr": "Romance", "es": "Romance"}
    sums: list[LayerSums] = list(language_centroids(LayerVectors.of_arrays(vectors[None]), four, families=families))
    scores = {(one.metric, one.group): float(one.values[0]) for one in sums}
    assert scores["family_v_measure", ""] == pytest.approx(1)
    assert scores["between_languages", ""] > 0.98
    assert scores["merged_at", "de – nl"] < 0.2 < scores["merged_at", "de – fr"] == pytest.approx(1)


def test_words_without_a_vector_miss_their_links() -> None:
    unit = [{name: Sentence.from_words(text.split()) for name, text in (("en", "a b"), ("de", "x y"))} for _ in "12"]
    links = {("en", "de"): Links(frozenset({(0, 0), (1, 1)}))}
    marked = [one for n, both in enumerate(unit) for one in translations(both, unit=str(n), links=links)]
    text = ParallelText.of(Sentences(marked))
    pair, _ = aligned_pairs(text, np.array([1, 2, 3, 4, 5, 6, 7]))  # the first word of the first sentence is missing
    assert pair.counts(np.array([[False, True]])) == (1, 1, 1, 2)


N_WORDS, WIDTH, LABELS = 400, 12, 4
DICE = np.random.default_rng(3)
CENTRES = DICE.standard_normal((LABELS, WIDTH)) * 1.5
Map = Callable[[np.ndarray], np.ndarray]


def planted(moved: Map) -> tuple[dict[str, LayerVectors], TransferItems]:
    """Words of four labels in two languages, those of the second moved."""
    dice, vectors, splits = np.random.default_rng(0), {}, {}
    for split in ("train", "dev", "test"):
        codes, language = dice.integers(0, LABELS, N_WORDS), np.arange(N_WORDS) % 2
        values = CENTRES[codes] + dice.standard_normal((N_WORDS, WIDTH))
        values[language == 1] = moved(values[language == 1])
        vectors[split] = LayerVectors.of_arrays(values[None].astype(np.float32))
        splits[split] = LabelledWords(np.arange(N_WORDS), language, codes)
    return vectors, TransferItems(("en", "xx"), LABELS, splits, np.arange(N_WORDS) // 4)


def scores(moved: Map) -> dict[tuple[str, str], float]:
    found = transfer(*planted(moved))
    return {(one.metric, one.group): float(one.over[0].sum() / one.under[0].sum()) for one in found}


def test_a_shift_is_undone_by_means() -> None:
    found = scores(lambda values: values + 8 * CENTRES[0])
    assert found["transfer", ""] < 0.5
    assert found["transfer_centred", ""] == pytest.approx(found["own", ""], abs=0.03)
    assert found["transfer_standardised", ""] == pytest.approx(found["own", ""], abs=0.03)


def test_a_rotation_is_undone_by_neither() -> None:
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((WIDTH, WIDTH)))[0]
    found = scores(lambda values: values @ rotation)
    assert found["own", "xx"] > 0.9
    assert max(found[f"transfer{way}", "en → xx"] for way in ("", "_centred", "_standardised")) < 0.6


def test_it_is_the_fit_to_standardised_vectors_of_scikit_learn() -> None:
    vectors, items = planted(lambda values: 3 * values + 5)
    train, test = items.splits["train"], items.splits["test"]
    arrays = {split: vectors[split].of(0) for split in vectors}
    spaces = {}
    for language in (0, 1):
        own = arrays["train"][train.language == language]
        spaces[language] = own.mean(axis=0), own.std(axis=0)

    def standard(split: str, language: int) -> np.ndarray:
        return (arrays[split][items.splits[split].language == language] - spaces[language][0]) / spaces[language][1]

    model = LogisticRegression(max_iter=5000, C=1.0).fit(standard("train", 0), train.codes[train.language == 0])
    expected = (model.predict(standard("test", 1)) == test.codes[test.language == 1]).mean()
    found = {(one.metric, one.group): one.over[0].sum() / one.under[0].sum() for one in transfer(vectors, items)}
    assert found["transfer_standardised", "en → xx"] == pytest.approx(expected, abs=0.015)
