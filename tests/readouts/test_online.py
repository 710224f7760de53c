"""The online code: short where there is something to find, never better than chance where there is nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.measures.baselines import fraction_mask
from bertology.readouts import (
    ArrayFeatures,
    FeatureSource,
    FitReport,
    FittedReadout,
    LinearReadout,
    Predictions,
    Readout,
    Targets,
    get_readout,
    online_codelength,
)
from bertology.readouts._base import TrainingData
from bertology.readouts._neural import MlpReadout
from bertology.readouts.codelength import FRACTIONS, SMOOTHING, Codelength, choose_smoothing
from bertology.readouts.linear import RidgeReadout
from tests.readouts.conftest import Split
from tests.readouts.spans import planted

LINEAR = LinearReadout(strengths=(1e-3, 1e-1))
MLP = MlpReadout(hidden=16, learning_rate=1e-2, batch_items=32, max_epochs=12)
FEW = (0.05, 0.3, 1.0)


@dataclass(frozen=True)
class Fixed(FittedReadout):
    """Gives every class of an item the same probability."""

    n_classes: int
    n_layers: int

    name = "fixed.v1"
    n_params = 0

    @property
    def report(self) -> FitReport:
        raise NotImplementedError

    def details(self, problem: int, layer: int) -> Mapping[str, Any]:
        return {}

    def predict(self, source: FeatureSource) -> Predictions:
        raise NotImplementedError

    def log_probs(self, source: FeatureSource, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        even = np.where(labels >= 0, -np.log(self.n_classes), np.nan)
        return np.repeat(even[:, None], self.n_layers, axis=1)


@dataclass(frozen=True)
class FixedReadout(Readout):
    name = "fixed.v1"

    def fit_to(self, data: TrainingData) -> Fixed:
        return Fixed(data.targets.n_classes, data.train.n_layers)


def code(train: Split, dev: Split, readout: Readout = LINEAR, **settings: Any) -> Codelength:
    settings = {"fractions": FEW, **settings}
    return online_codelength(readout, train.source, train.targets, dev=dev.source, dev_targets=dev.targets, **settings)


def blocks_of(clusters: NDArray[np.int64], ends: tuple[float, ...], *, seed: int) -> NDArray[np.int64]:
    """``[item]`` the block of each item."""
    return np.unique(np.sum([~fraction_mask(clusters, end, seed=seed) for end in ends], axis=0), return_inverse=True)[1]


def shuffled(split: Split, seed: int) -> Split:
    """The same vectors with labels that have nothing to do with them, all classes about as frequent."""
    labels = np.random.default_rng(seed).integers(0, split.n_classes, split.labels.shape)
    return Split(split.vectors, labels, split.n_classes)


def test_a_uniform_predictor_takes_n_log_k(train: Split, dev: Split) -> None:
    labels = train.labels.copy()
    labels[1, :400] = -1
    found = code(Split(train.vectors, labels, 4), dev, FixedReadout(), fractions=FRACTIONS)
    np.testing.assert_allclose(found.bits, [[900 * 2.0] * 3, [500 * 2.0] * 3], rtol=1e-13)
    np.testing.assert_array_equal(found.uniform_bits, [1800, 1000])
    np.testing.assert_allclose(found.compression, 1, rtol=1e-13)


@pytest.mark.parametrize("readout", [LINEAR, MLP], ids=["linear", "mlp"])
def test_what_is_there_is_coded_in_fewer_bits(readout: Readout, train: Split, dev: Split) -> None:
    found = code(train, dev, readout)
    assert (found.compression[:, 1:] > 1.2).all()  # the labels themselves are noisy
    assert (np.abs(found.compression[:, 0] - 1) < 0.04).all()


def test_shuffled_labels_take_as_many_bits_as_the_uniform_code(train: Split, dev: Split) -> None:
    found = code(shuffled(train, 1), shuffled(dev, 2), fractions=FRACTIONS)
    assert (np.abs(found.compression - 1) < 0.03).all()


def test_parts_add_up(train: Split, dev: Split) -> None:
    clusters = np.repeat(np.arange(90), 10)
    labels = np.where(np.arange(900) % 7 == 0, -1, train.labels)
    found = code(Split(train.vectors, labels, 4), dev, clusters=clusters)
    np.testing.assert_allclose(found.cluster_bits.sum(2), found.bits, rtol=1e-12)
    np.testing.assert_allclose(found.cluster_items.sum(1) * found.item_bits, found.uniform_bits)
    expected = [np.bincount(clusters[row >= 0], minlength=90) for row in labels]
    np.testing.assert_array_equal(found.cluster_items, expected)
    assert (found.block_items.sum(1) == (labels >= 0).sum(1)).all()
    np.testing.assert_allclose(found.block_bits[:, :, 0], 2.0 * found.block_items[:, :1].repeat(3, 1))
    assert (found.model_bits == 0).all()


def test_each_item_is_coded_by_a_fit_to_what_came_before_it(train: Split, dev: Split) -> None:
    """One later block by hand, from the blocks that the code itself reports."""
    clusters = np.repeat(np.arange(90), 10)
    blocks = blocks_of(clusters, (0.1, 0.5, 1.0), seed=3)
    np.testing.assert_array_equal(np.bincount(blocks), [90, 360, 450])
    assert all(len(np.unique(blocks[clusters == one])) == 1 for one in range(90))
    seen, now = blocks < 2, blocks == 2
    fitted = LINEAR.fit(
        ArrayFeatures(train.vectors[:, seen]),
        Targets(train.labels[:, seen], 4),
        dev=dev.source,
        dev_targets=dev.targets,
        seed=3,
    )
    probability = np.exp(fitted.log_probs(ArrayFeatures(train.vectors[:, now]), train.labels[:, now]))
    on_dev = np.exp(fitted.log_probs(dev.source, dev.labels))
    found = code(train, dev, clusters=clusters, fractions=(0.1, 0.5, 1.0), seed=3)
    for place in np.ndindex(2, 3):
        epsilon = min(SMOOTHING, key=lambda one: -np.log2((1 - one) * on_dev[place] + one / 4).sum())
        expected = -np.log2((1 - epsilon) * probability[place] + epsilon / 4).sum()
        assert found.block_bits[(*place, 2)] == pytest.approx(expected, rel=1e-5)


def test_doubt_is_what_serves_dev_best() -> None:
    sure, wrong = np.log(0.999), -np.inf
    log_probs = np.array([[[sure] * 100, [wrong] * 60 + [sure] * 40, [wrong, *[sure] * 99]]])
    doubt = choose_smoothing(log_probs, np.ones((1, 100), dtype=bool), 2.0)
    assert doubt[0, 0] == min(SMOOTHING)
    assert doubt[0, 1] == 1  # 0.4 (1 − ε) + ε / 4 right at best: more often wrong than chance allows
    assert doubt[0, 2] == 1e-2


def test_a_problem_that_has_shown_one_class_is_coded_uniformly(train: Split, dev: Split) -> None:
    labels = train.labels.copy()
    blocks = blocks_of(np.arange(900), (0.2, 0.5, 1.0), seed=0)
    labels[1, blocks == 0] = 2
    found = code(Split(train.vectors, labels, 4), dev, fractions=(0.2, 0.5, 1.0))
    np.testing.assert_array_equal(found.block_bits[1, :, 1], 2.0 * found.block_items[1, 1])
    assert (found.block_bits[0, 1:, 1] < 2.0 * found.block_items[0, 1]).all()
    assert (found.block_bits[1, 1:, 2] < 2.0 * found.block_items[1, 2]).all()


def test_what_cannot_be_coded(train: Split, dev: Split) -> None:
    with pytest.raises(FitError, match=r"ridge\.v1 gives no probabilities"):
        code(train, dev, RidgeReadout())
    weighted = Targets(train.labels, 4, np.full(train.labels.shape, 2.0, dtype=np.float32))
    with pytest.raises(FitError, match="tells each item once"):
        online_codelength(LINEAR, train.source, weighted, dev=dev.source, dev_targets=dev.targets)


def test_a_class_that_comes_late_has_a_finite_code(dev: Split, train: Split) -> None:
    labels = train.labels.copy()
    clusters = np.arange(900)
    blocks = blocks_of(clusters, FEW, seed=0)
    labels[:, blocks < blocks.max()] %= 3
    found = code(Split(train.vectors, labels, 4), dev)
    assert np.isfinite(found.cluster_bits).all()


def test_any_number_of_classes_of_spans() -> None:
    train, dev = (planted(n, seed, n_layers=2, multi=True) for seed, n in ((1, 900), (2, 300)))
    few = {"projection": 8, "hidden": 16, "learning_rate": 1e-2, "batch_items": 64, "max_epochs": 10, "round_steps": 25}
    given: Any = {"dev": dev.source, "dev_targets": dev.targets, "fractions": (0.1, 0.4, 1.0)}
    edge = get_readout("edge", **few)
    found = online_codelength(edge, train.source, train.targets, **given)
    assert found.uniform_bits[0] == 2700  # yes or no, three times
    assert abs(found.compression[0, 0] - 1) < 0.03
    assert found.compression[0, 1] > 1.5
    unused = Targets(train.labels[None], 3, (np.arange(900) % 3 > 0).astype(np.float32)[None])
    assert online_codelength(edge, train.source, unused, **given).uniform_bits[0] == 1800
