"""``lowrank.v1`` sees as many directions as it is given."""

from typing import Any

import numpy as np
import pytest
import torch

from bertology.errors import FitError
from bertology.readouts import LinearReadout
from bertology.readouts._fitting import FittedScores
from bertology.readouts._neural import LowRankReadout
from tests.readouts.conftest import Split, chance_interval

SMALL = LowRankReadout(rank=4, learning_rate=3e-2, batch_items=128, max_epochs=40, patience=8)


def fit(train: Split, dev: Split, readout: LowRankReadout = SMALL, **settings: Any) -> FittedScores:
    return readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, **settings)


def accuracy(fitted: Any, test: Split) -> Any:
    return (fitted.predict(test.source).labels == test.labels[:, None]).mean(2)


def test_at_full_rank_it_is_a_linear_readout(train: Split, dev: Split, test: Split) -> None:
    linear = LinearReadout(strengths=(0.1, 1.0), extensions=0)
    fitted = linear.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
    found = accuracy(fit(train, dev), test)
    # features as ill-conditioned as these take Adam longer than L-BFGS
    assert (np.abs(found - accuracy(fitted, test))[:, 1:] < 0.06).all()
    low, high = chance_interval(test.labels[0], 4)
    assert ((low <= found[0, 0]) & (found[0, 0] <= high)).all()


def compass(n_items: int, seed: int) -> Split:
    """Four classes told apart by the signs of two features."""
    vectors = np.random.default_rng(seed).normal(size=(1, n_items, 8)).astype(np.float32)
    labels = 2 * (vectors[0, :, 2] > 0) + (vectors[0, :, 5] > 0)
    return Split(vectors, labels[None].astype(np.int64), 4)


def test_rank_bounds_what_is_found() -> None:
    train, dev, test = (compass(n, seed) for n, seed in ((1500, 1), (400, 2), (800, 3)))
    scores = {}
    for rank in (1, 2, 4):
        fitted = fit(train, dev, LowRankReadout(rank=rank, learning_rate=3e-2, batch_items=128, max_epochs=15))
        weights = fitted.model.second[0, 0] @ fitted.model.first[0, 0]
        assert int(torch.linalg.matrix_rank(weights)) == rank
        scores[rank] = float(accuracy(fitted, test)[0, 0])
    # along a single direction, four such classes overlap
    assert scores[1] < 0.75
    assert scores[2] > 0.93
    assert abs(scores[4] - scores[2]) < 0.03


def test_a_rank_above_the_width_is_refused(train: Split, dev: Split) -> None:
    with pytest.raises(FitError, match="so give 1 to 12"):
        fit(train, dev, LowRankReadout(rank=13))
