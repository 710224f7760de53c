"""The online code of labels of spans: one class an item, or any number of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertology.readouts import ArraySpans, EdgeReadout, Targets, online_codelength

FEW = (0.1, 0.4, 1.0)
EDGE = EdgeReadout(
    pooling="mean",
    projection=0,
    classifier="linear",
    dropout=0.0,
    learning_rate=3e-2,
    batch_items=64,
    max_epochs=15,
    round_steps=25,
)


def spans_of(n_items: int, seed: int) -> tuple[ArraySpans, np.ndarray]:
    """Two spans an item; in layer 1 the signs of the means of each say something of their own, in layer 0 nothing."""
    random = np.random.default_rng(seed)
    words = random.normal(size=(2, 3 * n_items, 5)).astype(np.float32)
    starts = 3 * np.arange(n_items)
    spans = np.stack([np.stack([starts, starts + 2], 1), np.stack([starts + 2, starts + 3], 1)], 1)
    first = words[1, :, 0].reshape(-1, 3)[:, :2].mean(1) > 0
    second = words[1, :, 3].reshape(-1, 3)[:, 2] > 0
    return ArraySpans(words, spans, chunk_items=97), np.stack([first, second], axis=1)


@pytest.fixture(scope="module")
def train() -> tuple[ArraySpans, np.ndarray]:
    return spans_of(900, 1)


@pytest.fixture(scope="module")
def dev() -> tuple[ArraySpans, np.ndarray]:
    return spans_of(300, 2)


Data = tuple[ArraySpans, np.ndarray]


def test_any_number_of_classes(train: Data, dev: Data) -> None:
    targets, dev_targets = (Targets(signs[None], 2) for _, signs in (train, dev))
    found = online_codelength(EDGE, train[0], targets, dev=dev[0], dev_targets=dev_targets, fractions=FEW)
    assert found.uniform_bits[0] == 1800  # yes or no, twice
    assert abs(found.compression[0, 0] - 1) < 0.03
    assert found.compression[0, 1] > 1.5
    unused = replace(targets, weights=(np.arange(900) % 3 > 0).astype(np.float32)[None])
    some = online_codelength(EDGE, train[0], unused, dev=dev[0], dev_targets=dev_targets, fractions=FEW)
    assert some.uniform_bits[0] == 1200
