"""``mlp.v1`` finds what no linear readout can, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bertology.readouts import ArrayFeatures, LinearReadout, Targets, _items
from bertology.readouts._fitting import FittedScores
from bertology.readouts._items import Items
from bertology.readouts._neural import MlpReadout, Perceptrons
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


def fit(train: Split, dev: Split, readout: MlpReadout = SMALL, **settings: Any) -> FittedScores[Perceptrons]:
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


def test_seed_decides(splits: tuple[Split, Split, Split]) -> None:
    train, dev, test = splits
    once, again, other = (fit(train, dev, seed=seed).predict(test.source).log_prob for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_layers_together_are_layers_apart(splits: tuple[Split, Split, Split]) -> None:
    train, dev, test = splits
    together = fit(train, dev)
    for layer in range(2):
        alone = fit(train.layers(layer), dev.layers(layer))
        np.testing.assert_array_equal(together.report.iterations[:, layer], alone.report.iterations[:, 0])
        np.testing.assert_allclose(
            together.predict(test.source).log_prob[:, layer],
            alone.predict(test.layers(layer).source).log_prob[:, 0],
            atol=1e-3,
        )


def test_problems_together_are_problems_apart(splits: tuple[Split, Split, Split]) -> None:
    train, dev, test = splits
    together, alone = fit(train, dev), fit(train.problems(0), dev.problems(0))
    np.testing.assert_allclose(
        together.predict(test.source).log_prob[0], alone.predict(test.source).log_prob[0], atol=1e-3
    )


def test_best_epoch_is_kept(splits: tuple[Split, Split, Split]) -> None:
    train, dev, _ = splits
    fitted = fit(train, dev)
    accuracy = (fitted.predict(dev.source).labels == dev.labels[:, None]).mean(2)
    np.testing.assert_allclose(accuracy, fitted.report.dev_accuracy[..., 0])


def test_ends_are_reported_as_they_are(splits: tuple[Split, Split, Split]) -> None:
    train, dev, _ = splits
    cut_short = fit(train, dev, MlpReadout(hidden=4, max_epochs=1)).report
    assert not cut_short.converged.any()
    assert (cut_short.iterations == 1).all()
    report = fit(train, dev, MlpReadout(hidden=4, learning_rate=1e-2, max_epochs=40, patience=2)).report
    assert report.all_converged
    assert (report.iterations < 40).all()


def test_unused_items_do_not_enter(splits: tuple[Split, Split, Split]) -> None:
    train, dev, test = splits
    used = np.random.default_rng(0).random(1500) < 0.5
    broken = train.vectors.copy()
    broken[:, ~used] = np.nan
    labels = np.where(used, train.labels, -1)
    one, other = (
        fit(Split(vectors, labels, 2), dev).predict(test.source).log_prob for vectors in (train.vectors, broken)
    )
    np.testing.assert_array_equal(one, other)


def test_weights_weigh() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(1, 2000, 3)).astype(np.float32)
    labels = random.integers(0, 2, size=(1, 2000))  # nothing to learn but the prior
    weights = np.where(labels == 1, 3.0, 1.0).astype(np.float32)
    source = ArrayFeatures(vectors)
    fitted = MlpReadout(hidden=4, learning_rate=1e-2, max_epochs=8).fit(
        source, Targets(labels, 2, weights), dev=source, dev_targets=Targets(labels, 2, weights)
    )
    found = fitted.predict(source)
    assert (found.labels == 1).mean() > 0.97
    assert 0.65 < np.exp(found.log_prob).mean() < 0.8


def test_every_used_item_is_in_one_batch_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_items, "_WINDOW_BYTES", 4 * 2 * 3 * 100)  # a hundred items
    vectors = np.arange(2 * 1003 * 3, dtype=np.float32).reshape(2, 1003, 3)
    labels = np.where(np.arange(1003) % 7 == 0, -1, np.arange(1003) % 2)[None]
    items = Items.of(Targets(labels, 2), torch.device("cpu"))
    source = ArrayFeatures(vectors, chunk_items=64)
    first, second = (
        list(_items.shuffled_batches(source, items, 32, torch.Generator().manual_seed(seed))) for seed in (0, 1)
    )
    seen = torch.cat([numbers for numbers, _ in first])
    assert sorted(seen.tolist()) == np.flatnonzero(labels[0] >= 0).tolist()
    assert not torch.equal(seen, torch.cat([numbers for numbers, _ in second]))
    assert {len(numbers) for numbers, _ in first[:-1]} == {32}
    for numbers, batch in first:
        torch.testing.assert_close(batch, torch.from_numpy(vectors)[:, numbers])


def test_number_of_parameters(splits: tuple[Split, Split, Split]) -> None:
    train, dev, _ = splits
    assert fit(train, dev, MlpReadout(hidden=7, max_epochs=1)).n_params == 6 * 7 + 7 + 7 * 2 + 2
