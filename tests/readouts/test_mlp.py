"""``mlp.v1`` finds what no linear readout can, and nothing where nothing is."""

from typing import Any

import numpy as np
import pytest

from bertology.readouts import LinearReadout
from bertology.readouts._fitting import FittedScores
from bertology.readouts._neural import MlpReadout
from tests.readouts.conftest import Split, chance_interval

SMALL = MlpReadout(hidden=16, learning_rate=1e-2, batch_items=64, max_epochs=12, patience=4)


def exclusive_or(n_items: int, seed: int) -> Split:
    """Layer 0 is noise; in layer 1 the label is whether two features agree in sign, which is in no single one."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(2, n_items, 6)).astype(np.float32)
    agree = (vectors[1, :, 1] > 0) == (vectors[1, :, 4] > 0)
    return Split(5 + 3 * vectors, np.stack([agree, ~agree]).astype(np.int64), 2)


@pytest.fixture(scope="module")
def splits() -> tuple[Split, Split, Split]:
    return exclusive_or(1500, 1), exclusive_or(400, 2), exclusive_or(600, 3)


def fit(train: Split, dev: Split, readout: MlpReadout = SMALL, **settings: Any) -> FittedScores:
    return readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, **settings)


def test_finds_what_a_linear_readout_cannot(splits: tuple[Split, Split, Split]) -> None:
    train, dev, test = splits
    found = (fit(train, dev).predict(test.source).labels == test.labels[:, None]).mean(2)
    linear = LinearReadout().fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
    straight = (linear.predict(test.source).labels == test.labels[:, None]).mean(2)
    low, high = chance_interval(test.labels[0], 2)
    assert (found[:, 1] > 0.9).all()
    for chance in (straight, found[:, 0]):
        assert ((low <= chance) & (chance <= high)).all()


def test_ends_are_reported_as_they_are(splits: tuple[Split, Split, Split]) -> None:
    train, dev, _ = splits
    cut_short = fit(train, dev, MlpReadout(hidden=4, max_epochs=1)).report
    assert not cut_short.converged.any()
    assert (cut_short.iterations == 1).all()
    report = fit(train, dev, MlpReadout(hidden=4, learning_rate=1e-2, max_epochs=40, patience=2)).report
    assert report.all_converged
    assert (report.iterations < 40).all()
