"""Fits on every device that there is: the planted signal is found, and predictions are those of the processor."""

from typing import Any

import numpy as np
import pytest

from bertology.readouts import get_readout, make_readout
from tests.readouts.conftest import Split
from tests.readouts.spans import planted as planted_spans
from tests.readouts.trees import fit as fit_trees
from tests.readouts.trees import planted as planted_trees

VECTORS: dict[str, dict[str, Any]] = {
    "linear": {"strengths": (1e-2, 1e-1)},
    "ridge": {"strengths": (1e2, 1e1)},
    "mlp": {"hidden": 16, "max_epochs": 5, "learning_rate": 1e-2},
    "lowrank": {"rank": 4, "max_epochs": 5, "learning_rate": 1e-2},
    "bayes": {"steps": 200},
}
SPANS: dict[str, dict[str, Any]] = {
    "edge": {"projection": 8, "hidden": 16, "max_epochs": 3, "learning_rate": 1e-2},
    "edge_mix": {"projection": 8, "hidden": 16, "max_epochs": 3, "learning_rate": 1e-2},
}


def agree(name: str, settings: dict[str, Any], device: str, train: Any, dev: Any, test: Any) -> np.ndarray:
    """Part of the test items with the same class as on the processor, ``[problem, layer]``."""
    readout = get_readout(name, **settings)
    fits = [
        readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, device=place)
        for place in dict.fromkeys(("cpu", device))
    ]
    for fitted in fits:
        assert fitted.details(0, 0) is not None
    here, there = fits[0].predict(test.source).labels, fits[-1].predict(test.source).labels
    assert (here == test.targets.labels[:, None]).mean(-1).max() > 0.5
    return np.asarray((here == there).mean(-1))


@pytest.mark.parametrize("name", list(VECTORS))
def test_readouts_of_vectors(name: str, device: str, train: Split, dev: Split, test: Split) -> None:
    assert agree(name, VECTORS[name], device, train, dev, test).min() > 0.97


@pytest.mark.parametrize("name", list(SPANS))
def test_readouts_of_spans(name: str, device: str) -> None:
    train, dev, test = (planted_spans(n, seed) for n, seed in ((600, 1), (200, 2), (300, 3)))
    assert agree(name, SPANS[name], device, train, dev, test).min() > 0.9


@pytest.mark.parametrize("asks", ["distances", "depths"])
def test_structural_probes(asks: str, device: str) -> None:
    train, dev = planted_trees(80, 1), planted_trees(40, 2)
    readout = make_readout("structural", rank=6, max_epochs=3)
    here, there = (fit_trees(readout, train, dev, asks, device=place) for place in ("cpu", device))
    np.testing.assert_allclose(there.dev_loss, here.dev_loss, rtol=1e-3)
    np.testing.assert_allclose(there.maps.numpy(), here.maps.numpy(), atol=1e-2)
