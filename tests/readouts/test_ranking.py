"""Rankings of dimensions: beside NeuroX and scipy, planted labels, overlap by hand, bad input."""

import numpy as np
import pytest
import scipy.stats
import torch

from bertology.errors import FitError, NameNotFoundError
from bertology.readouts import ArrayFeatures, Targets
from bertology.readouts.ranking import (
    class_means,
    overlap,
    rank_by_gaussians,
    rank_by_means,
    rank_by_weights,
    rank_dimensions,
)

RANKINGS = ("linear", "probeless", "gaussian")
# neurox 1.0.9 on vectors and weights of small(): probeless.get_neuron_ordering, and linear_probe.get_neuron_ordering
# with search_stride=10_000, whose first three are in any order.
PROBELESS = [4, 9, 7, 3, 11, 10, 8, 1, 6, 2, 5, 0]
BY_WEIGHTS = [{10, 5, 7}, 3, 2, 4, 9, 1, 11, 6, 8, 0]


def small():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(60, 12)).round(3)
    labels = random.integers(0, 3, 60)
    vectors[:, 4] += labels
    vectors[:, 7] -= 2 * (labels == 1)
    vectors[:, 9] += 1.5 * (labels == 2)
    return vectors, labels, random.normal(size=(3, 12)).round(3)


def test_orders_are_those_of_neurox():
    vectors, labels, weights = small()
    assert rank_by_means(class_means(vectors, labels, 3)).tolist() == PROBELESS
    found = rank_by_weights(weights).tolist()
    assert [set(found[:3]), *found[3:]] == BY_WEIGHTS


def test_the_greedy_choice_is_that_of_plain_normal_densities():
    """With the covariances of the docstring, by scipy, computed anew for each candidate."""
    vectors, labels, _ = small()
    vectors[:, 5] = vectors[:, 4] + 0.1 * vectors[:, 5]  # tells as much as 4, and nothing besides it
    values = (vectors - vectors.mean(0)) / vectors.std(0)

    def log_probability(dims):
        of_class = []
        for one in range(3):
            own = values[labels == one]
            centred = own - own.mean(0)
            covariance = (centred.T @ centred + np.eye(12)) / (len(own) + 1)
            density = scipy.stats.multivariate_normal(own.mean(0)[dims], covariance[np.ix_(dims, dims)])
            of_class.append(np.log(len(own) / 60) + density.logpdf(values[:, dims]).reshape(-1))
        of_class = np.array(of_class)
        return (of_class[labels, np.arange(60)] - np.logaddexp.reduce(of_class)).mean()

    chosen = []
    for _ in range(5):
        chosen.append(max(set(range(12)) - {*chosen}, key=lambda dim: log_probability([*chosen, dim])))
    found = rank_by_gaussians(vectors, labels, k=5).tolist()
    assert found[:5] == chosen
    alone = [dim for dim in sorted(range(12), key=lambda dim: -log_probability([dim])) if dim not in chosen]
    assert found[5:] == alone


def planted(n=600, dim=20, seed=0):
    """Two layers: the label stands in dimensions 3 and 8 of the first, and in 15 of the second."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    vectors = random.normal(size=(2, n, dim))
    vectors[0, :, 3] += 3 * (labels == 1)
    vectors[0, :, 8] -= 3 * (labels == 2)
    vectors[1, :, 15] += 3 * labels
    return ArrayFeatures(vectors.astype(np.float32)), Targets(labels[None], 3)


@pytest.mark.parametrize("ranking", RANKINGS)
def test_planted_dimensions_come_first(ranking):
    (train, targets), (dev, of_dev) = planted(), planted(seed=1)
    order = rank_dimensions(train, targets, dev=dev, dev_targets=of_dev, ranking=ranking, k=2)
    assert set(order[0, :2]) == {3, 8}
    assert order[1, 0] == 15
    assert (np.sort(order, axis=1) == np.arange(20)).all()


def test_a_large_dimension_without_information_is_last_by_weights():
    """Weights are for dimensions of one standard deviation: a scale changes no rank."""
    (train, targets), (dev, of_dev) = planted(), planted(seed=1)
    scaled = [ArrayFeatures(torch.stack([one.held(0) * torch.logspace(-2, 2, 20)])) for one in (train, dev)]
    order = rank_dimensions(scaled[0], targets, dev=scaled[1], dev_targets=of_dev, ranking="linear", k=2)
    assert set(order[0, :2]) == {3, 8}


def test_overlap_by_hand():
    """Two sets of 2 of 4: 0, 1 or 2 are shared in 1, 4 and 1 of the 6 cases."""
    assert overlap(np.array([0, 1]), np.array([1, 2]), 4) == pytest.approx((1, 1.0, 5 / 6))
    assert overlap(np.array([0, 1]), np.array([1, 0]), 4) == pytest.approx((2, 1.0, 1 / 6))
    assert overlap(np.array([0]), np.array([1, 2, 3]), 4) == pytest.approx((0, 0.75, 1))


def test_bad_input():
    train, targets = planted(n=30)
    about = {"dev": train, "dev_targets": targets}
    for k in (0, 21):
        with pytest.raises(FitError, match="vectors have 20: give k from 1 to 20"):
            rank_dimensions(train, targets, ranking="probeless", k=k, **about)
    with pytest.raises(NameNotFoundError, match="probless"):
        rank_dimensions(train, targets, ranking="probless", k=2, **about)
    with pytest.raises(FitError, match="fewer than two"):
        rank_dimensions(train, Targets(np.zeros((1, 30), int), 3), ranking="gaussian", k=2, **about)
    with pytest.raises(FitError, match="all weights are 0"):
        rank_by_weights(np.zeros((2, 5)))
