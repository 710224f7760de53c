"""Clusters of labels: planted ones are found, random labels have none, and moved ones show as moved."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC

from bertology import BertologyError
from bertology.activations.layers import LayerVectors
from bertology.comparison import label_clusters

N, DIM = 240, 6
DICE = np.random.default_rng(2)
LABELS = DICE.integers(4, size=N)
SENTENCES = np.arange(N) // 5
PLACES = DICE.normal(size=(4, DIM)) * np.array([1.0, 3.0, 6.0, 12.0])[:, None]
NOISE = DICE.normal(size=(N, DIM)) * 0.1


def vectors(*layers: NDArray[np.float64]) -> LayerVectors:
    return LayerVectors.of_arrays(np.stack(layers))


def names(codes: NDArray[np.int64]) -> list[str | None]:
    return [f"label {code}" for code in codes]


def test_planted_clusters_are_found_and_the_same_model_is_the_same() -> None:
    planted = PLACES[LABELS] + NOISE
    found = label_clusters(vectors(planted), vectors(planted), names(LABELS), SENTENCES)
    row = found.table().iloc[0]
    assert row["separable_model"] == row["separable_reference"] == 1
    assert row["separable_shuffled"] == 0
    assert np.isnan(row["hulls_model"])
    assert row["layout"] == pytest.approx(1)
    assert row["layout_hulls"] == pytest.approx(1)
    one, other = (int(label[-1]) for label in found.pairs[0])
    expected = np.linalg.norm(planted[one == LABELS].mean(0) - planted[other == LABELS].mean(0))
    assert found.model["centroids"][0, 0, 0] == pytest.approx(expected, rel=1e-3)
    sums = {statistic.metric: statistic for statistic in found.statistics()}
    assert sums["layout"].values == pytest.approx([1])
    assert sums["centroids_change"].values == pytest.approx([0])


def test_hulls_are_those_of_scikit_learn() -> None:
    planted = PLACES[LABELS] + NOISE
    found = label_clusters(vectors(planted), vectors(planted), names(LABELS), SENTENCES, per_label=N)
    here = np.isin(LABELS, chosen := [int(label[-1]) for label in found.pairs[2]])
    fitted = SVC(kernel="linear", C=1e6).fit(planted[here], LABELS[here] == chosen[0])
    assert found.model["hulls"][0, 2] == pytest.approx(2 / np.linalg.norm(fitted.coef_), rel=1e-3)


def test_random_labels_have_no_clusters() -> None:
    random = DICE.permutation(LABELS)
    planted = PLACES[LABELS] + NOISE
    found = label_clusters(vectors(planted), vectors(planted), names(random), SENTENCES)
    assert (found.model["hulls"] == 0).all()
    row = found.table().iloc[0]
    assert row["separable_model"] == 0
    assert row["centroids_model"] < 0.3


def test_larger_clusters_and_another_layout_show() -> None:
    """Layer 0 is twice as spread out between labels as in the reference, in layer 1 labels have changed places."""
    planted, doubled = PLACES[LABELS] + NOISE, 2 * PLACES[LABELS] + NOISE
    other = PLACES[[3, 2, 0, 1]][LABELS] + NOISE
    found = label_clusters(vectors(doubled, other), vectors(planted, planted), names(LABELS), SENTENCES)
    table = found.table()
    assert table["centroids_model"][0] == pytest.approx(2 * table["centroids_reference"][0], rel=0.01)
    assert table["layout"][0] == pytest.approx(1, abs=1e-3)
    assert table["layout"][1] < 0.5
    sums = {statistic.metric: statistic for statistic in found.statistics()}
    assert sums["centroids_change"].over.shape == (2, 48)
    assert found.pair_table().shape == (12, 7)


def test_labels_need_words() -> None:
    with pytest.raises(BertologyError, match="three or more"):
        label_clusters(vectors(NOISE), vectors(NOISE), ["a"] * 120 + ["b"] * 115 + [None] * 5, SENTENCES)


def test_in_many_dimensions_anything_is_separable() -> None:
    """Clusters show as hulls farther apart than with shuffled labels."""
    noise = DICE.normal(size=(N, 300))
    planted = noise.copy()
    planted[:, :DIM] += PLACES[LABELS]
    table = label_clusters(vectors(planted), vectors(noise), names(LABELS), SENTENCES, per_label=40).table()
    assert table["separable_shuffled"][0] == 1
    assert table["hulls_model"][0] > 1.5
    assert table["hulls_reference"][0] == pytest.approx(1, abs=0.1)
