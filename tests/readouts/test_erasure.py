"""What an erasure takes out of vectors, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, ArraySpans, FeatureSource, LinearReadout, Targets, fit_erasure, pooled
from bertology.readouts._sources import SpanSource
from bertology.readouts.erasure import Erasure, erased, random_erasure
from tests.readouts.conftest import Floats, Split, standardised


def projections_of(erasure: Erasure) -> torch.Tensor:
    """``[layer, dim, dim]`` the projection P in ``bias + P (x − bias)``."""
    return torch.eye(erasure.bias.shape[1], dtype=erasure.left.dtype) - erasure.left @ erasure.right


def all_of(source: FeatureSource) -> Floats:
    return np.concatenate([vectors.numpy() for _, vectors in source.chunks()], axis=1)


@pytest.fixture(scope="module")
def erasure(train: Split) -> Erasure:
    return fit_erasure(train.source, train.labels[0], 4)


def test_class_means_are_one(train: Split, erasure: Erasure) -> None:
    vectors_after = all_of(erased(train.source, erasure))
    labels = train.labels[0]
    means = np.stack([vectors_after[:, labels == label].mean(1) for label in range(4)])
    before = np.stack([train.vectors[:, labels == label].mean(1) for label in range(4)])
    assert np.ptp(before, axis=0).max() > 0.5
    assert np.ptp(means, axis=0).max() < 1e-5
    np.testing.assert_allclose(vectors_after.mean(1), train.vectors.mean(1), atol=1e-5)


def test_a_linear_readout_is_left_with_the_majority(train: Split, erasure: Erasure) -> None:
    vectors_after = all_of(erased(train.source, erasure))
    labels = train.labels[0]
    majority = np.bincount(labels).max() / len(labels)
    for layer in range(3):
        vectors = standardised(vectors_after[layer], vectors_after[layer])
        probe = LogisticRegression(C=100, max_iter=500).fit(vectors, labels)
        assert abs(probe.score(vectors, labels) - majority) < 0.005
    # the second problem, of which nothing was erased, is still there, as is a non-linear trace of the first
    targets = Targets(train.labels, 4)
    readout = LinearReadout(strengths=(1.0,))
    source = erased(train.source, erasure)
    fitted = readout.fit(source, targets, dev=source, dev_targets=targets)
    accuracy = (fitted.predict(source).labels == train.labels[:, None]).mean(2)
    assert (np.abs(accuracy[0] - majority) < 0.005).all()
    assert (accuracy[1, 1:] > 0.5).all()


def test_no_other_map_moves_the_vectors_less(train: Split, erasure: Erasure) -> None:
    """Belrose et al. 2023, section 4: of all P with P Σxz = 0, the one that minimises E ‖P x − x‖²."""
    random = np.random.default_rng(0)
    known = np.eye(4)[train.labels[0]]
    for layer in range(3):
        vectors = train.vectors[layer].astype(np.float64)
        vectors -= vectors.mean(0)
        cross = vectors.T @ (known - known.mean(0)) / len(vectors)
        best = projections_of(erasure)[layer].numpy()
        assert np.abs(best @ cross).max() < 1e-9
        moved = np.square(vectors @ best.T - vectors).mean()
        free = np.linalg.svd(cross)[0][:, 3:]  # directions that tell nothing: any change through them is allowed
        for size in (1e-3, 1e-1):
            for _ in range(20):
                other = best + size * random.normal(size=(12, 9)) @ free.T
                assert np.abs(other @ cross).max() < 1e-9
                assert np.square(vectors @ other.T - vectors).mean() > moved
        orthogonal = free @ free.T
        assert np.square(vectors @ orthogonal.T - vectors).mean() > moved


def test_directions_without_variance_and_classes_without_items(train: Split) -> None:
    wide = np.concatenate([train.vectors, train.vectors[:, :, :5], np.ones((3, 900, 1), np.float32)], axis=2)
    found = fit_erasure(ArrayFeatures(wide), train.labels[0], 7)
    np.testing.assert_array_equal(found.ranks, 3)
    vectors_after = all_of(erased(ArrayFeatures(wide), found))
    means = np.stack([vectors_after[:, train.labels[0] == label].mean(1) for label in range(4)])
    assert np.ptp(means, axis=0).max() < 1e-5


def test_random_directions(erasure: Erasure) -> None:
    one, again, other = (random_erasure(erasure, seed=seed) for seed in (1, 1, 2))
    torch.testing.assert_close(projections_of(one), projections_of(again), rtol=0, atol=0)
    assert not torch.allclose(projections_of(one), projections_of(other))
    np.testing.assert_array_equal(one.ranks, erasure.ranks)
    torch.testing.assert_close(projections_of(one), projections_of(one).mT)
    torch.testing.assert_close(projections_of(one) @ projections_of(one), projections_of(one))
    assert one.bias is erasure.bias


def test_a_layer_on_its_own(train: Split) -> None:
    source = ArrayFeatures(train.vectors, layers=(0, 4, 8))
    erasure = fit_erasure(source, train.labels[0], 4)
    vectors = torch.from_numpy(train.vectors)
    one = erasure.layer(4)
    torch.testing.assert_close(one(vectors[1, :6].view(2, 3, 12)).view(6, 12), erasure.erase(vectors)[1, :6])
    assert one(vectors[1].half()).dtype == torch.float16
    with pytest.raises(FitError, match="fitted to layers 0, 4, 8"):
        erasure.layer(1)


def test_what_cannot_be_erased(train: Split, erasure: Erasure) -> None:
    labels = train.labels[0]
    with pytest.raises(FitError, match="at least two classes"):
        fit_erasure(train.source, np.where(labels == 2, 2, -1), 4)
    with pytest.raises(FitError, match="labels run from"):
        fit_erasure(train.source, labels, 3)
    with pytest.raises(FitError, match="one label for each item"):
        fit_erasure(train.source, labels[:7], 4)
    broken = train.vectors.copy()
    broken[1, 5, 0] = np.inf
    with pytest.raises(FitError, match="layer 7 has vectors that are not finite"):
        fit_erasure(ArrayFeatures(broken, layers=(3, 7, 9)), labels, 4)
    with pytest.raises(FitError, match="fitted on 3 layers"):
        erased(train.layers(0).source, erasure)
    with pytest.raises(FitError, match="give"):
        erasure.erase(torch.zeros(2, 5, 12))


# Spans


@pytest.fixture
def pairs() -> tuple[Floats, np.ndarray]:
    """Words ``[layer, word, dim]`` and pairs of spans of one to four of them."""
    random = np.random.default_rng(8)
    starts = random.integers(0, 236, size=(70, 2))
    spans = np.stack([starts, starts + random.integers(1, 5, size=starts.shape)], axis=2)
    return random.normal(size=(3, 240, 12)).astype(np.float32), spans


def words_in(source: SpanSource) -> list[Floats]:
    """Of each item in turn the vectors of its words, one span after the other."""
    return [
        np.concatenate([chunk.words[:, first:last].numpy() for first, last in spans], axis=1)
        for chunk in source.chunks()
        for spans in chunk.spans.tolist()
    ]


def test_spans_are_erased_as_all_words_are(pairs: tuple[Floats, np.ndarray]) -> None:
    words, spans = pairs
    labels = (words[1, :, 0] > 0).astype(np.int64)
    erasure = fit_erasure(ArrayFeatures(words), labels, 2)
    # Word by word, in double precision: x − P (x − mean).
    left, right, mean = (part.double().numpy() for part in (erasure.left, erasure.right, erasure.bias))
    moved = words - np.einsum("lwd,lrd,ler->lwe", words - mean[:, None], right, left)
    assert np.abs(moved - words).max() > 0.5
    source = erased(ArraySpans(words, spans, chunk_items=16), erasure)
    whole = ArraySpans(moved, spans, chunk_items=16)
    assert (source.n_layers, source.n_items, source.n_spans, source.dim) == (3, 70, 2, 12)
    assert tuple(source.layers) == (0, 1, 2)
    for found, expected in zip(words_in(source), words_in(whole), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(all_of(pooled(source)), all_of(pooled(whole)), atol=1e-5)
