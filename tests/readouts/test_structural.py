"""Structural probes find the trees in vectors, as single probes written as in the paper do; files; windows."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from bertology._files import FORMAT
from bertology.activations import SpanChunk
from bertology.errors import BertologyError, FitError
from bertology.families.trees import TreeProbe
from bertology.measures import tree_distances
from bertology.measures.trees import tree_depths
from bertology.readouts import StructuralReadout, TreeTargets, _sources, fit_ranks
from bertology.readouts.structural import FittedStructural
from bertology.results.predictions import FitOrigin, write_probes
from tests.readouts.trees import DIM, Trees, fit, fit_one, parsed, planted, root_accuracy, uuas

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


# What cannot be fitted


def test_data_that_do_not_fit(splits: tuple[Trees, Trees, Trees]) -> None:
    train, dev, _ = splits
    targets, dev_targets = train.targets("distances"), dev.targets("distances")
    chosen: Any = {"dev": dev.source, "dev_targets": dev_targets}

    def refused(message: str, source: Any, wanted: TreeTargets, **other: Any) -> None:
        with pytest.raises(FitError, match=message):
            fit_one(BRIEF, source, wanted, **{**chosen, **other})

    with pytest.raises(FitError, match="rank 17 of vectors that are 16 wide: give 1 to 16"):
        fit(replace(BRIEF, rank=17), train, dev, "distances")
    other_way = replace(targets, values=targets.values[::-1])
    refused(
        r"sentence \d+ has \d words and distances of \d: give one tree over all of its words", train.source, other_way
    )
    none = np.ones((2, 400), dtype=np.float32)
    none[1] = 0
    refused("a problem has no training sentence", train.source, train.targets("distances", none))
    for value, split in ((np.nan, "train"), (np.inf, "dev")):
        words = {"train": train.words, "dev": dev.words}[split].copy()
        words[2, 5, 1] = value
        sources = {"train": train, "dev": dev, split: Trees(words, {"train": train, "dev": dev}[split].heads)}
        message = r"layer 2 has vectors that are not finite \(NaN or infinite\)"
        refused(message, sources["train"].source, targets, dev=sources["dev"].source)


ORIGIN = FitOrigin(
    model="tiny",
    model_fingerprint="f" * 64,
    layer=2,
    pooling="mean",
    task="structural_parse.v1",
    corpus="planted",
    train_fingerprint="0" * 64,
    readout="structural.v1",
    relations=("nsubj", "obj", "Ünïcode"),
    settings={"rank": 5},
)


@pytest.fixture
def probe() -> TreeProbe:
    random = torch.Generator().manual_seed(0)
    shapes = {"distance": (DIM, 5), "depth": (DIM, 3), "relation": (DIM + 1, 3)}
    return TreeProbe(ORIGIN, {name: torch.randn(*shape, generator=random) for name, shape in shapes.items()})


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.randn(6, DIM, generator=torch.Generator().manual_seed(1))


def test_what_is_read_again_says_the_same(probe: TreeProbe, vectors: torch.Tensor, tmp_path: Path) -> None:
    path, other = tmp_path / "some" / "probe.v2", replace(ORIGIN, layer=3)
    write_probes(path, {"a": probe, "b": TreeProbe(other, {"depth": -probe.tensors["depth"]})})
    assert list(path.parent.iterdir()) == [path]
    every = TreeProbe.read(path)
    assert {cell: one.origin for cell, one in every.items()} == {"a": ORIGIN, "b": other}
    assert list(TreeProbe.read(path, "b", "c")) == ["b"]
    assert set(every["b"].tensors) == {"depth"}
    for name in ("distances", "depths", "relations"):
        np.testing.assert_array_equal(getattr(every["a"], name)(vectors), getattr(probe, name)(vectors))


def write(path: Path, probe: TreeProbe, origin: dict[str, object], version: int = FORMAT) -> None:
    """A file of one probe whose metadata say what they are given."""
    about = json.dumps({"format": version, "probes": {"a": origin}})
    save_file({f"a/{name}": tensor for name, tensor in probe.tensors.items()}, path, {"bertology": about})


def test_a_probe_of_an_earlier_version_is_read(probe: TreeProbe, tmp_path: Path) -> None:
    about, own = asdict(ORIGIN), ("settings", "relations", "readout", "corpus")
    own += "model", "model_fingerprint", "layer", "pooling", "task", "train_fingerprint"
    write(tmp_path / "p", probe, {name: about[name] for name in own} | {"dim": DIM})
    assert TreeProbe.read(tmp_path / "p")["a"].origin == ORIGIN


def test_what_it_says_by_hand(probe: TreeProbe, vectors: torch.Tensor) -> None:
    by, of_depth, of_relation = (probe.tensors[name].double().numpy() for name in TreeProbe.parts)
    plain = vectors.double().numpy()
    expected = [[((one @ by - other @ by) ** 2).sum() for other in plain] for one in plain]
    np.testing.assert_allclose(probe.distances(vectors), expected, atol=1e-3, rtol=1e-4)
    np.testing.assert_allclose(probe.depths(vectors), [((one @ of_depth) ** 2).sum() for one in plain], rtol=1e-4)
    scores = plain @ of_relation[:-1] + of_relation[-1]
    assert probe.relations(vectors) == tuple(ORIGIN.relations[place] for place in scores.argmax(1))
    assert probe.distances(vectors.half()) is not None


# Asked of something else


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"model_fingerprint": "e" * 64}, "fitted on tiny: it cannot read another encoder's vectors"),
        ({"layer": 3}, "fitted on layer 2: it cannot read layer 3"),
        ({"pooling": "first"}, "fitted on the mean of a word's pieces: it cannot read their first"),
    ],
)
def test_another_encoder_layer_or_pooling(probe: TreeProbe, other: dict[str, object], message: str) -> None:
    own = {"model_fingerprint": "f" * 64, "layer": 2, "pooling": "mean"}
    probe.check(**own)  # type: ignore[arg-type]
    with pytest.raises(FitError, match=message) as caught:
        probe.check(**{**own, **other})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


# Files that are broken


def test_files_that_are_missing_or_broken(probe: TreeProbe, tmp_path: Path) -> None:
    path, plain = tmp_path / "p", asdict(ORIGIN)

    def refused(message: str) -> None:
        with pytest.raises(BertologyError, match=message) as caught:
            TreeProbe.read(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)

    refused("no such file; fit the probe anew")
    write(path, probe, plain)
    path.write_bytes(path.read_bytes()[:-10])
    refused("not complete probes")
    save_file({"a/distance": torch.zeros(2, 2)}, path)
    refused("not complete probes")
    write(path, probe, plain, version=99)
    refused(r"probes of format 99, and not \d+; fit them anew")
    write(path, probe, {**plain, "relations": None})
    refused("not readable as a probe")
    write(path, replace(probe, tensors={**probe.tensors, "more": torch.zeros(2, 2)}), plain)
    refused("not complete probes")


ASKS = ["distances", "depths"]


def loss_of(vectors: Tensor, gold: NDArray[Any], by: Tensor, asks: str) -> Tensor:
    """One sentence ``[word, dim]`` under one map ``[dim, rank]``: its mean absolute difference (sections 2.2, 2.3)."""
    mapped = vectors @ by
    found = (mapped[:, None] - mapped[None]).square().sum(-1) if asks == "distances" else mapped.square().sum(-1)
    return (torch.from_numpy(gold) - found).abs().mean()


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

    drawn = torch.rand(DIM, readout.rank or DIM, generator=torch.Generator().manual_seed(seed * 1_000_003))
    by = torch.nn.Parameter(0.05 * (2 * drawn - 1))
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


CHUNK_SENTENCES = 15


class Reader:
    """Sentences read anew in each pass, and how many chunks there are whenever one is read."""

    n_spans = 1

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self.n_layers, _, self.dim = trees.words.shape
        self.n_items, self.layers = len(trees.heads), tuple(range(self.n_layers))
        self._alive: list[weakref.ref[torch.Tensor]] = []
        self.alive: list[int] = []

    def chunks(self) -> Iterator[SpanChunk]:
        spans = self._trees.spans
        for first in range(0, self.n_items, CHUNK_SENTENCES):
            self.alive.append(sum(one() is not None for one in self._alive))
            yield self._read(spans, np.arange(first, min(first + CHUNK_SENTENCES, self.n_items)))

    def _read(self, spans: Any, items: Any) -> SpanChunk:
        low, high = spans[items[0], 0], spans[items[-1], 1]
        words = torch.from_numpy(self._trees.words[:, low:high].copy())
        self._alive.append(weakref.ref(words))
        return SpanChunk(torch.from_numpy(items), words, torch.from_numpy(spans[items] - low)[:, None])


def test_a_structural_fit_holds_no_chunk_while_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    monkeypatch.setattr(_sources, "_SPAN_WINDOW_BYTES", 20_000)
    train, dev = planted(150, 1), planted(60, 2)
    source, dev_source = Reader(train), Reader(dev)
    targets, dev_targets = train.targets("distances"), dev.targets("distances")
    readout = StructuralReadout(rank=4, max_epochs=2)
    found = fit_one(readout, source, targets, dev=dev_source, dev_targets=dev_targets)
    assert len(source.alive) == 20
    assert len(dev_source.alive) == 8
    assert {*source.alive, *dev_source.alive} == {0}
    whole = fit_one(readout, train.source, targets, dev=dev.source, dev_targets=dev_targets)
    np.testing.assert_allclose(found.dev_loss, whole.dev_loss, rtol=0.05)
