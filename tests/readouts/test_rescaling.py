"""Vectors brought to mean and spread of others: a shift and a stretch of dimensions are undone, a rotation is not."""

import numpy as np
import torch

from bertology.readouts import ArrayFeatures, ArraySpans
from bertology.readouts.erasure import moments, rescaled


def values(source: object) -> np.ndarray:
    return torch.cat([vectors for _, vectors in source.chunks()], dim=1).numpy()  # type: ignore[attr-defined]


def test_moments_are_those_of_numpy_and_undo_shift_and_stretch() -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(3, 2, size=(2, 500, 7)).astype(np.float32)
    plain[:, :, 2] = 5  # a constant dimension
    moved = plain * rng.uniform(0.1, 9, size=(2, 1, 7)).astype(np.float32) + 100
    one, other = ArrayFeatures(plain, chunk_items=64), ArrayFeatures(moved, chunk_items=64)
    found = moments(other)
    np.testing.assert_allclose(found[0], moved.astype(np.float64).mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found[1], moved.astype(np.float64).std(axis=1), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(values(rescaled(other, found, moments(one))), plain, atol=1e-3)
    # Its own mean and spread leave a source as it is; those of a rotation do not undo it.
    np.testing.assert_allclose(values(rescaled(other, found, found)), moved, rtol=1e-5, atol=1e-4)
    turn = np.linalg.qr(rng.normal(size=(7, 7)))[0].astype(np.float32)
    turned = ArrayFeatures(plain @ turn)
    assert np.abs(values(rescaled(turned, moments(turned), moments(one))) - plain).mean() > 0.5


def test_spans_are_rescaled_word_by_word() -> None:
    words = np.random.default_rng(1).normal(size=(1, 6, 3)).astype(np.float32)
    spans = np.array([[[0, 2]], [[2, 3]], [[3, 6]]])
    source, twice = ArraySpans(words, spans), ArraySpans(2 * words + 1, spans)
    (chunk,) = rescaled(twice, moments(twice), moments(source)).chunks()
    np.testing.assert_allclose(chunk.words.numpy(), words, atol=1e-5)
