"""Clusters of labels: planted ones are found, random labels have none, and moved ones show as moved."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC

from bertology import BertologyError
from bertology.activations.layers import LayerVectors
from bertology.comparison import label_clusters
from bertology.comparison.models import hull_distance

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


def scores(*given: Any, **settings: Any) -> dict[str, Any]:
    """Values by layer of each statistic."""
    return {one.metric: one.values for one in label_clusters(*given, SENTENCES, **settings)}


def test_planted_clusters_are_found_and_the_same_model_is_the_same() -> None:
    planted = PLACES[LABELS] + NOISE
    found = scores(vectors(planted), vectors(planted), names(LABELS))
    assert found["separable_model"] == found["separable_reference"] == 1
    assert found["separable_shuffled"] == 0
    assert "hulls_model" not in found  # shuffled labels are not separable
    assert (found["layout"], found["layout_hulls"]) == (pytest.approx(1), pytest.approx(1))
    assert found["centroids_change"] == 0
    means = np.stack([planted[label == LABELS].mean(axis=0) for label in range(4)])
    distances = [np.linalg.norm(one - other) for one, other in itertools.combinations(means, 2)]
    spread = np.sqrt(((planted - means[LABELS]) ** 2).sum() / (N - 4))
    assert found["centroids_model"] == pytest.approx(np.mean(distances) / spread, rel=1e-3)


def test_hulls_are_those_of_scikit_learn() -> None:
    planted, here = PLACES[LABELS] + NOISE, LABELS < 2
    fitted = SVC(kernel="linear", C=1e6).fit(planted[here], LABELS[here])
    found = hull_distance(planted[here] @ planted[here].T, LABELS[here])
    assert found == pytest.approx(2 / np.linalg.norm(fitted.coef_), rel=1e-3)


def test_random_labels_have_no_clusters() -> None:
    planted = PLACES[LABELS] + NOISE
    found = scores(vectors(planted), vectors(planted), names(DICE.permutation(LABELS)))
    assert found["separable_model"] == 0
    assert found["centroids_model"] < 0.3


def test_larger_clusters_and_another_layout_show() -> None:
    """Layer 0 is twice as spread out between labels as in the reference, in layer 1 labels have changed places."""
    planted, doubled = PLACES[LABELS] + NOISE, 2 * PLACES[LABELS] + NOISE
    other = PLACES[[3, 2, 0, 1]][LABELS] + NOISE
    given = vectors(doubled, other), vectors(planted, planted), names(LABELS)
    found = scores(*given)
    assert found["centroids_model"][0] == pytest.approx(2 * found["centroids_reference"][0], rel=0.01)
    assert found["layout"][0] == pytest.approx(1, abs=1e-3)
    assert found["layout"][1] < 0.5
    (change,) = (one for one in label_clusters(*given, SENTENCES) if one.metric == "centroids_change")
    assert change.over.shape == (2, 48)


def test_labels_need_words() -> None:
    with pytest.raises(BertologyError, match="three or more"):
        label_clusters(vectors(NOISE), vectors(NOISE), ["a"] * 120 + ["b"] * 115 + [None] * 5, SENTENCES)


def test_in_many_dimensions_anything_is_separable() -> None:
    """Clusters show as hulls farther apart than with shuffled labels."""
    noise = DICE.normal(size=(N, 300))
    planted = noise.copy()
    planted[:, :DIM] += PLACES[LABELS]
    found = scores(vectors(planted), vectors(noise), names(LABELS), per_label=40)
    assert found["separable_shuffled"] == 1
    assert found["hulls_model"] > 1.5
    assert found["hulls_reference"] == pytest.approx(1, abs=0.1)
