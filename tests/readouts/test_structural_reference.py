"""Structural probes fitted side by side are single probes, written as the paper has them, on the same batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.readouts import ArraySpans, StructuralReadout, TreeTargets, _items
from bertology.readouts import _structural as _batches
from bertology.readouts._fitting import EarlyStopping
from bertology.readouts._structural import Block, Maps, TreeWindow, TreeWindows, learn, losses
from tests.readouts.trees import DIM, Trees, fit_one, planted

CPU = torch.device("cpu")
ASKS = ["distances", "depths"]


def loss_of(vectors: Tensor, gold: NDArray[Any], by: Tensor, asks: str) -> Tensor:
    """One sentence ``[word, dim]`` under one map ``[dim, rank]``: its mean absolute difference (sections 2.2, 2.3)."""
    mapped = vectors @ by
    found = (mapped[:, None] - mapped[None]).square().sum(-1) if asks == "distances" else mapped.square().sum(-1)
    return (torch.from_numpy(gold) - found).abs().mean()


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("block_words", [40, 2048])
def test_gradients_are_those_of_the_loss(
    asks: Any, weighted: bool, block_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences of three to nine words in one batch, two layers, two problems that draw them differently often."""
    monkeypatch.setattr(_batches, "_BLOCK_WORDS", block_words)
    train = planted(30, 4).layers(0, 2)
    weights = np.random.default_rng(0).integers(0, 3, size=(2, 30)).astype(np.float32) if weighted else None
    targets = train.targets(asks, weights)
    n_problems = 2 if weighted else 1
    (window,) = TreeWindows(train.source, targets, batch_sentences=30).all()
    (batch,) = window.batches
    assert (len(batch.blocks) > 1) == (block_words == 40)
    maps = Maps.start(5, n_layers=2, dim=DIM, n_problems=n_problems, seed=1, rate=1e-3, device=CPU)
    maps.values.mul_(5)
    seen: list[Tensor] = []
    monkeypatch.setattr(Maps, "step", lambda self, gradients: seen.append(gradients.clone()))
    words = window.gathered(batch, (0, 1))
    learn(maps, words, batch, asks)
    (found,) = seen
    own = found.new_ones(n_problems, 30) if weights is None else torch.from_numpy(weights)
    by_hand = torch.zeros(2, n_problems, dtype=torch.float64)
    counted = [number for number in range(30) if weights is None or (weights[:, number] > 0).any()]
    for layer in range(2):
        for problem in range(n_problems):
            by = maps.values[layer, problem].T.double().requires_grad_()
            each = [
                loss_of(torch.from_numpy(train.words[layer, first:last]).double(), targets.values[number], by, asks)
                for number, (first, last) in enumerate(train.spans.tolist())
            ]
            total = sum((own[problem, n] * each[n] for n in counted), torch.zeros(()))
            (total / len(counted)).backward()  # type: ignore[no-untyped-call]
            assert by.grad is not None
            torch.testing.assert_close(found[layer, problem].T.double(), by.grad, atol=1e-5, rtol=1e-4)
            by_hand[layer, problem] = sum(each[n].item() for n in counted)
    torch.testing.assert_close(losses(maps, words, batch, asks), by_hand, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("asks", "rate"), [("distances", 0.02), ("depths", 0.08)])
def test_a_whole_training_is_the_published_one(asks: Any, rate: float) -> None:
    """Adam that begins anew at a tenth of its rate after each epoch without a new minimum; the best map is kept."""
    readout = StructuralReadout(rank=4, learning_rate=rate, batch_sentences=16, max_epochs=12, patience=4)
    train, dev = planted(60, 1).noisy(0.3), planted(25, 2).noisy(0.3)
    train, dev = train.layers(1), dev.layers(1)
    found = fit_one(readout, train.source, train.targets(asks), dev=dev.source, dev_targets=dev.targets(asks), seed=5)
    by, loss, slowed, epochs = by_hand(readout, train, dev, asks, seed=5)
    assert slowed > 0
    assert found.epochs[0, 0] == epochs
    np.testing.assert_allclose(found.dev_loss[0, 0], loss, rtol=1e-4)
    torch.testing.assert_close(found.maps[0, 0], by, atol=1e-3, rtol=1e-3)


def by_hand(
    readout: StructuralReadout, train: Trees, dev: Trees, asks: str, *, seed: int
) -> tuple[Tensor, float, int, int]:
    """One map trained sentence by sentence: the best there was, its dev loss, how often it slowed down, its epochs."""

    def split(trees: Trees) -> list[tuple[Tensor, NDArray[Any]]]:
        words = torch.from_numpy(trees.words[0])
        values = trees.targets(asks).values  # type: ignore[arg-type]
        return [(words[first:last], value) for (first, last), value in zip(trees.spans.tolist(), values, strict=True)]

    start = Maps.start(readout.rank, n_layers=1, dim=DIM, n_problems=1, seed=seed, rate=1.0, device=CPU)
    by = torch.nn.Parameter(start.values[0, 0].T.clone())
    rate, best, least, at, slowed = readout.learning_rate, by.detach().clone(), float("inf"), 0, 0
    adam = torch.optim.Adam([by], lr=rate)
    learnt, held_out = split(train), split(dev)
    random = torch.Generator().manual_seed(seed)
    for epoch in range(1, readout.max_epochs + 1):
        order = torch.randperm(len(learnt), generator=random).tolist()
        for first in range(0, len(order), readout.batch_sentences):
            batch = order[first : first + readout.batch_sentences]
            adam.zero_grad()
            torch.stack([loss_of(*learnt[number], by, asks) for number in batch]).mean().backward()
            adam.step()
        with torch.no_grad():
            loss = float(np.mean([loss_of(*sentence, by, asks).item() for sentence in held_out]))
        if loss < least - 1e-4:
            best, least, at = by.detach().clone(), loss, epoch
            continue
        if epoch - at == readout.patience:
            break
        rate, slowed = rate * readout.slow_down, slowed + 1
        adam = torch.optim.Adam([by], lr=rate)
    return best, least, slowed, epoch


def test_each_layer_and_problem_stops_by_itself() -> None:
    """Losses of four epochs, judged as one would one by one."""
    stopping = EarlyStopping((1, 3), 2, least_gain=1e-4, floor=-np.inf)
    steps = []
    for epoch, loss in enumerate([[3.0, 3.0, 3.0], [2.0, 3.0, 2.99995], [1.0, 2.0, 4.0], [1.5, 5.0, 0.0]], start=1):
        better = stopping.judge(epoch, -np.array([loss]))
        steps.append((better[0].tolist(), stopping.running[0].tolist()))
    assert steps == [
        ([True, True, True], [True, True, True]),
        ([True, False, False], [True, True, True]),
        ([True, True, False], [True, True, False]),
        ([False, False, False], [True, True, False]),
    ]
    assert stopping.score.tolist() == [[-1.0, -2.0, -3.0]]
    assert stopping.epochs.tolist() == [[4, 4, 3]]


def test_slowing_down_begins_anew() -> None:
    maps = Maps.start(2, n_layers=1, dim=3, n_problems=2, seed=0, rate=0.1, device=CPU)
    maps.step(torch.ones_like(maps.values))
    maps.slow_down(np.array([[True, False]]), 0.5)
    assert maps.rates.tolist() == [[pytest.approx(0.05), pytest.approx(0.1)]]
    assert maps.state.steps.tolist() == [0, 1]
    assert not maps.state.averages["map"][0].any()
    assert maps.state.averages["map"][1].all()
    before = maps.values.clone()
    maps.step(torch.ones_like(maps.values))
    # A first step of Adam is as long as its rate, and so are further ones along the same gradient.
    moved = (before - maps.values)[0, :, 0, 0]
    torch.testing.assert_close(moved, torch.tensor([0.05, 0.1]), atol=1e-5, rtol=1e-4)


# Batches of whole sentences


def sentences_in(window: TreeWindow, targets: TreeTargets, first_word: dict[int, int]) -> list[int]:
    """The sentences of a window, whose words bear their number; each checked for its words, its tree and its share."""
    found: list[int] = []
    for batch in window.batches:
        names = window.gathered(batch, (0,))[0, :, 0].long()
        assert len(names) == batch.blocks[-1].words.stop
        before = len(found)
        for block in batch.blocks:
            own = names[block.words].view(block.gold.shape[:2])
            for row in range(len(own)):
                inside = sentences_of_row(block, row, own[row].tolist(), targets, first_word)
                # each sentence counts as one, and nothing else counts
                assert block.share[row].sum() == pytest.approx(len(inside), abs=1e-5)
                found += inside
        assert len(found) - before == batch.n_sentences
    return found


def sentences_of_row(
    block: Block, row: int, names: list[int], targets: TreeTargets, first_word: dict[int, int]
) -> list[int]:
    assert block.weights is not None
    assert targets.weights is not None
    found: list[int] = []
    at = 0
    while at < len(names) and block.share[(row, *[at] * (block.gold.ndim - 1))]:
        number = first_word[names[at]]
        gold = targets.values[number]
        words = slice(at, at + len(gold))
        assert names[words] == list(range(names[at], names[at] + len(gold)))
        inside: Any = (row, *[words] * gold.ndim)
        np.testing.assert_array_equal(block.gold[inside], gold)
        assert block.share[inside].min() == block.share[inside].max()
        assert (block.weights[:, row, words].numpy() == targets.weights[:, number, None]).all()
        found.append(number)
        at += len(gold)
    return found


@pytest.mark.parametrize("window_bytes", [1, 6_000, 1 << 30])
@pytest.mark.parametrize("asks", ASKS)
def test_windows_hold_every_sentence_once(window_bytes: int, asks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_items, "_SPAN_WINDOW_BYTES", window_bytes)
    trees = planted(150, 6).layers(0)
    trees.words[0, :, 0] = np.arange(trees.words.shape[1])
    source = ArraySpans(trees.words, trees.spans[:, None], chunk_items=12)
    chunk_bytes = max(chunk.words.nbytes for chunk in source.chunks())
    weights = np.ones((2, 150), dtype=np.float32)
    weights[:, ::7] = 0
    weights[0, 1::7] = 0
    targets = trees.targets(asks, weights)
    first_word = {int(first): number for number, first in enumerate(trees.spans[:, 0])}
    orders = []
    random = torch.Generator().manual_seed(0)
    every = TreeWindows(source, targets, batch_sentences=20)
    for shuffled in (None, random, random):
        found = []
        for window in every.all(shuffled):
            window = replace(window, batches=tuple(window.batches))
            assert window.words.nbytes <= max(window_bytes, chunk_bytes)
            assert all(batch.n_sentences <= 20 for batch in window.batches)
            found.append(sentences_in(window, targets, first_word))
        assert len(found) == {1: 13, 6_000: len(found), 1 << 30: 1}[window_bytes]
        orders.append([number for part in found for number in part])
        assert sorted(orders[-1]) == [number for number in range(150) if number % 7]
    assert orders[0] != orders[1] != orders[2]


def test_sentences_share_rows_where_they_fit() -> None:
    """The longest first, each where least room is left after it; rows are as long as the longest of all."""
    places, n_rows = _batches._rows([9, 7, 5, 3, 2, 2, 1], 9)
    assert places == [(0, 0), (1, 0), (2, 0), (2, 5), (1, 7), (3, 0), (2, 8)]
    assert n_rows == 4


def test_windows_of_any_size_fit_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    train, dev = planted(300, 1).layers(1), planted(50, 2).layers(1)
    readout = StructuralReadout(rank=DIM, learning_rate=1e-2, max_epochs=15)
    chosen: Any = {"dev": dev.source, "dev_targets": dev.targets("distances")}
    whole = fit_one(readout, train.source, train.targets("distances"), **chosen)
    monkeypatch.setattr(_items, "_SPAN_WINDOW_BYTES", 8_000)
    parts = fit_one(readout, train.source, train.targets("distances"), **chosen)
    for found in (whole, parts):
        assert found.dev_loss[0, 0] < 0.1
    assert not torch.equal(whole.maps, parts.maps)


def test_all_layers_begin_alike_and_all_problems_differently() -> None:
    shape: Any = {"n_layers": 2, "dim": DIM, "n_problems": 2, "rate": 1e-3, "device": CPU}
    maps = Maps.start(4, seed=0, **shape)
    assert torch.equal(maps.values[0], maps.values[1])
    assert not torch.equal(maps.values[0, 0], maps.values[0, 1])
    assert maps.values.abs().max() <= 0.05
    assert not torch.equal(Maps.start(4, seed=1, **shape).values, maps.values)
    one = Maps.start(4, seed=0, **{**shape, "n_problems": 1})
    assert torch.equal(one.values[:, 0], maps.values[:, 0])


def test_depths_of_a_problem_that_has_ended_are_kept() -> None:
    """A problem that ends early keeps its best map, whatever is learnt beside it in the same layer."""
    train, dev = planted(80, 1).noisy(0.2).layers(1), planted(30, 2).noisy(0.2).layers(1)
    weights = np.zeros((2, 80), dtype=np.float32)
    weights[0, :3] = 1  # soon known by heart, and no better on dev
    weights[1] = 1
    readout = StructuralReadout(rank=6, learning_rate=0.05, max_epochs=20, patience=2)
    data: Any = {"dev": dev.source, "dev_targets": dev.targets("depths")}
    found = fit_one(readout, train.source, train.targets("depths", weights), **data)
    assert found.epochs[0, 0] < found.epochs[1, 0]
    brief = replace(readout, max_epochs=int(found.epochs[0, 0]))
    alone = fit_one(brief, train.source, train.targets("depths", weights), **data)
    assert torch.equal(alone.maps[0], found.maps[0])
    assert alone.dev_loss[0] == found.dev_loss[0]
