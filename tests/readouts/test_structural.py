"""``structural.v1`` finds the trees that are in vectors, in the layers they are in, and none where none are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from bertology.errors import FitError
from bertology.measures import tree_depths, tree_distances
from bertology.readouts import ArraySpans, FittedStructural, StructuralReadout, TreeTargets, fit_ranks, make_readout
from tests.readouts.trees import DIM, LONGEST, Trees, fit, fit_one, parsed, path_heads, planted, root_accuracy, uuas

QUICK = StructuralReadout(rank=DIM, learning_rate=1e-2, max_epochs=25)
N_TRAIN = 400
BRIEF = replace(QUICK, max_epochs=3)


@pytest.fixture(scope="module")
def splits() -> tuple[Trees, Trees, Trees]:
    return planted(N_TRAIN, 1), planted(60, 2), planted(120, 3)


@pytest.fixture(scope="module")
def distances(splits: tuple[Trees, Trees, Trees]) -> FittedStructural:
    return fit(QUICK, splits[0], splits[1], "distances")


@pytest.fixture(scope="module")
def depths(splits: tuple[Trees, Trees, Trees]) -> FittedStructural:
    return fit(QUICK, splits[0], splits[1], "depths")


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_planted_trees_are_found(splits: tuple[Trees, Trees, Trees], distances: FittedStructural) -> None:
    found = uuas(distances, splits[2])
    assert found.shape == (1, 3)
    assert (found[0, 1:] == 1.0).all()
    assert parsed(distances, splits[2]) == list(splits[2].heads)


def test_vectors_that_say_nothing_stay_at_chance(
    splits: tuple[Trees, Trees, Trees], distances: FittedStructural, depths: FittedStructural
) -> None:
    """Of n words any tree has n − 1 of n (n − 1) ÷ 2 pairs, and any word is the root once in n times."""
    lengths = np.array([len(heads) for heads in splits[2].heads])
    n_edges = (lengths - 1).sum()
    chance = 2 * ((lengths - 1) / lengths).sum() / n_edges
    assert abs(uuas(distances, splits[2])[0, 0] - chance) < 4 * np.sqrt(chance * (1 - chance) / n_edges)
    chance = (1 / lengths).mean()
    assert abs(root_accuracy(depths, splits[2])[0, 0] - chance) < 4 * np.sqrt(chance * (1 - chance) / len(lengths))


def test_planted_depths_are_found(splits: tuple[Trees, Trees, Trees], depths: FittedStructural) -> None:
    assert (root_accuracy(depths, splits[2])[0, 1:] == 1.0).all()
    off = [np.abs(found[0] - tree_depths(splits[2].heads[item])) for item, found in depths.read(splits[2].source)]
    by_layer = np.concatenate(off, axis=1).mean(axis=1)
    assert by_layer[0] > 0.5
    assert (by_layer[1:] < 0.05).all()


def test_order_of_distances_is_found_where_few_are_alike() -> None:
    """Where many pairs are as far apart, no correlation of real numbers with them can come to 1."""
    train, dev, test = (planted(n, seed, draw=path_heads).layers(1) for n, seed in ((400, 1), (60, 2), (100, 3)))
    rows: dict[int, list[float]] = {}
    for item, found in fit(QUICK, train, dev, "distances").read(test.source):
        gold = tree_distances(test.heads[item])
        for one, other in zip(found[0, 0], gold, strict=True):
            rows.setdefault(len(gold), []).append(spearmanr(one, other).statistic)
    assert np.mean([np.mean(rows[length]) for length in range(5, LONGEST + 1)]) > 0.96


def test_the_map_that_was_planted_says_exactly_what_is_true(splits: tuple[Trees, Trees, Trees]) -> None:
    """With the map that undoes the mixing, distances that are alike come out alike: a correlation of 1."""
    test = splits[2]
    mixing = np.random.default_rng(0)
    undo = [np.linalg.qr(mixing.normal(size=(DIM, DIM)))[0].T[:, :LONGEST] for _ in range(2)]
    maps = torch.from_numpy(np.stack(undo)[None].astype(np.float32))
    nothing: Any = np.zeros((1, 2))
    for asks in ("distances", "depths"):
        fitted = FittedStructural("structural.v1", asks, maps, (1, 2), nothing, nothing, nothing > 0)  # type: ignore[arg-type]
        for item, found in fitted.read(test.layers(1, 2).source):
            gold = tree_distances(test.heads[item]) if asks == "distances" else tree_depths(test.heads[item])
            np.testing.assert_allclose(found[0], np.stack([gold, gold]), atol=1e-4)
            assert (found >= 0).all()


def test_ranks_know_nothing_of_each_other(splits: tuple[Trees, Trees, Trees], one_thread: None) -> None:
    train, dev, _ = splits
    readouts = [replace(QUICK, rank=rank, max_epochs=6, patience=2) for rank in (4, 1, 9)]
    data: Any = (train.source, train.targets("distances"))
    chosen: Any = {"dev": dev.source, "dev_targets": dev.targets("distances"), "seed": 3}
    together = fit_ranks(readouts, *data, **chosen)
    assert [found.rank for found in together] == [4, 1, 9]
    assert [found.n_params for found in together] == [DIM * 4, DIM, DIM * 9]
    for readout, found in zip(readouts, together, strict=True):
        alone = fit_one(readout, *data, **chosen)
        assert torch.equal(found.maps, alone.maps)
        np.testing.assert_array_equal(found.dev_loss, alone.dev_loss)
        np.testing.assert_array_equal(found.epochs, alone.epochs)


def test_layers_know_nothing_of_each_other(splits: tuple[Trees, Trees, Trees]) -> None:
    train, dev, _ = splits
    readout = replace(QUICK, max_epochs=4)
    together = fit(readout, train, dev, "distances")
    for layer in range(3):
        alone = fit(readout, train.layers(layer), dev.layers(layer), "distances")
        torch.testing.assert_close(together.maps[:, layer], alone.maps[:, 0], atol=2e-3, rtol=1e-3)
        np.testing.assert_allclose(together.dev_loss[:, layer], alone.dev_loss[:, 0], rtol=1e-4)


def test_how_many_threads_there_are_does_not_matter(splits: tuple[Trees, Trees, Trees], one_thread: None) -> None:
    train, dev, _ = splits
    found = []
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        found.append(fit(replace(QUICK, max_epochs=4), train, dev, "depths").maps)
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, atol=2e-3, rtol=1e-3)


def test_seed_decides(splits: tuple[Trees, Trees, Trees], one_thread: None) -> None:
    train, dev, _ = splits
    once, again, other = (fit(BRIEF, train, dev, "distances", seed=seed).maps for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.allclose(once, other, atol=1e-2)


def test_sentences_without_weight_are_not_there(splits: tuple[Trees, Trees, Trees], one_thread: None) -> None:
    train, dev, _ = splits
    keep = np.arange(0, 400, 3)
    weights = np.zeros((1, 400), dtype=np.float32)
    weights[0, keep] = 1
    found = fit_one(
        BRIEF, train.source, train.targets("distances", weights), dev=dev.source, dev_targets=dev.targets("distances")
    )
    alone = fit(BRIEF, train.some(keep.tolist()), dev, "distances")
    torch.testing.assert_close(found.maps, alone.maps, atol=2e-3, rtol=1e-3)


def test_each_problem_has_sentences_of_its_own(splits: tuple[Trees, Trees, Trees]) -> None:
    """One problem learns from sentences whose trees are true, another from some whose trees are of other sentences."""
    train, dev, test = splits
    targets = train.targets("distances")
    n = 200
    wrong = list(targets.values)
    of_length: dict[int, list[int]] = {}
    for number in range(n, 400):
        of_length.setdefault(len(wrong[number]), []).append(number)
    for numbers in of_length.values():
        for number, other in zip(numbers, numbers[1:] + numbers[:1], strict=True):
            wrong[number] = targets.values[other]
    weights = np.zeros((2, 400), dtype=np.float32)
    weights[0, :n], weights[1, n:] = 1, 1
    found = fit_one(
        QUICK,
        train.source,
        TreeTargets("distances", wrong, weights),
        dev=dev.source,
        dev_targets=dev.targets("distances"),
    )
    assert found.maps.shape == (2, 3, DIM, DIM)
    share = uuas(found, test)
    assert (share[0, 1:] > 0.97).all()
    assert (share[1, 1:] < 0.8).all()


def test_what_a_fit_reports(splits: tuple[Trees, Trees, Trees], distances: FittedStructural) -> None:
    train, dev, _ = splits
    by_sentence = [
        np.abs(found - tree_distances(dev.heads[item])).mean((-2, -1)) for item, found in distances.read(dev.source)
    ]
    np.testing.assert_allclose(distances.dev_loss, np.mean(by_sentence, axis=0), rtol=1e-4, atol=1e-7)
    assert (distances.readout, distances.asks, distances.layers) == ("structural.v1", "distances", (0, 1, 2))
    assert distances.converged[0, 0]
    brief = fit(replace(BRIEF, patience=3), train, dev, "distances")
    assert not brief.converged[0, 1:].any()
    assert (brief.epochs == 3).all()
    messages: list[str] = []
    fit(BRIEF, train, dev, "depths", progress=messages.append)
    assert messages[-1].startswith("structural probes: epoch 3, ")


def test_names_and_settings() -> None:
    readout = make_readout("structural", rank=7, max_epochs=3)
    assert readout == StructuralReadout(rank=7, max_epochs=3)
    assert readout.name == "structural.v1"
    assert make_readout("structural.v1", **asdict(readout)) == readout


# What cannot be fitted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 17}, "rank 17 of vectors that are 16 wide: give 1 to 16"),
        ({"rank": 0}, "rank 0 of vectors that are 16 wide: give 1 to 16"),
        ({"batch_sentences": 0}, "batch_sentences is 0: give 1 or more"),
        ({"max_epochs": 0}, "max_epochs is 0: give 1 or more"),
        ({"patience": 0}, "patience is 0: give 1 or more"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0"),
        ({"slow_down": 1.5}, "slow_down above 0 and at most 1"),
    ],
)
def test_settings_out_of_bounds(splits: tuple[Trees, Trees, Trees], change: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        fit(replace(BRIEF, **change), splits[0], splits[1], "distances")


def test_data_that_do_not_fit(splits: tuple[Trees, Trees, Trees]) -> None:
    train, dev, _ = splits
    targets, dev_targets = train.targets("distances"), dev.targets("distances")
    chosen: Any = {"dev": dev.source, "dev_targets": dev_targets}

    def refused(message: str, source: Any, wanted: TreeTargets, **other: Any) -> None:
        with pytest.raises(FitError, match=message):
            fit_one(BRIEF, source, wanted, **{**chosen, **other})

    refused("train has 400 sentences and 399 trees", train.source, replace(targets, values=targets.values[1:]))
    other_way = replace(targets, values=targets.values[::-1])
    refused(
        r"sentence \d+ has \d words and distances of \d: give one tree over all of its words", train.source, other_way
    )
    refused("train and dev are of different layers", train.layers(0, 1).source, targets)
    refused("train and dev are of different", train.source, train.targets("depths"))
    none = np.ones((2, 400), dtype=np.float32)
    none[1] = 0
    refused("a problem has no training sentence", train.source, train.targets("distances", none))
    pairs = ArraySpans(train.words, np.repeat(train.spans[:, None], 2, axis=1))
    refused("train has items of 2 spans: give one, the whole sentence", pairs, targets)
    for value, split in ((np.nan, "train"), (np.inf, "dev")):
        words = {"train": train.words, "dev": dev.words}[split].copy()
        words[2, 5, 1] = value
        sources = {"train": train, "dev": dev, split: Trees(words, {"train": train, "dev": dev}[split].heads)}
        message = r"layer 2 has vectors that are not finite \(NaN or infinite\)"
        refused(message, sources["train"].source, targets, dev=sources["dev"].source)
    with pytest.raises(FitError, match="differ in more than their rank: fit them one by one"):
        fit_ranks([BRIEF, replace(BRIEF, patience=2)], train.source, targets, **chosen)


def test_another_source_than_was_fitted_on(splits: tuple[Trees, Trees, Trees], distances: FittedStructural) -> None:
    message = "fitted on 3 layers of width 16: it cannot read 1 layers of width 16"
    with pytest.raises(FitError, match=message):
        next(distances.read(splits[2].layers(1).source))
    narrow = Trees(splits[2].words[:, :, :9], splits[2].heads)
    with pytest.raises(FitError, match="it cannot read 3 layers of width 9"):
        next(distances.read(narrow.source))


def test_targets_of_another_shape() -> None:
    square, flat = np.zeros((3, 3), dtype=np.int64), np.zeros(3, dtype=np.int64)
    for asks, values, message in (
        ("distances", [square, flat], r"sentence 1: distances of shape \[3\]: give \[word, word\]"),
        ("depths", [square], r"sentence 0: depths of shape \[3, 3\]: give \[word\]"),
        ("depths", [flat, flat[:0]], r"sentence 1: depths of shape \[0\]"),
        ("heads", [flat], "asks is 'heads': give distances or depths"),
    ):
        with pytest.raises(FitError, match=message):
            TreeTargets(asks, values)  # type: ignore[arg-type]
    ones = np.ones((1, 2), dtype=np.float32)
    with pytest.raises(FitError, match=r"weights have shape \[1, 2\]: give \[problem, 1\]"):
        TreeTargets("depths", [flat], ones)
    for wrong in (-1, np.nan):
        with pytest.raises(FitError, match="some weights are negative or not finite"):
            TreeTargets("depths", [flat, flat], ones * np.float32(wrong))
