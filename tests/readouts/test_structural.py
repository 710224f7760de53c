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
from safetensors.torch import load_file, save_file
from scipy.stats import spearmanr
from torch import Tensor

from bertology._spans import SpanChunk
from bertology.errors import FitError, ResultsError
from bertology.measures import tree_depths, tree_distances
from bertology.readouts import (
    ArraySpans,
    FittedStructural,
    ProbeOrigin,
    StructuralReadout,
    TreeProbe,
    TreeTargets,
    _items,
    fit_ranks,
    make_readout,
)
from bertology.readouts import _structural as _batches
from bertology.readouts._fitting import EarlyStopping
from bertology.readouts._items import JoinedChunks
from bertology.readouts._structural import Block, Maps, TreeWindow, TreeWindows, held_out, learn, losses
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


ORIGIN = ProbeOrigin(
    model="tiny",
    model_fingerprint="f" * 64,
    layer=2,
    dim=DIM,
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
    return TreeProbe(ORIGIN, **{name: torch.randn(*shape, generator=random) for name, shape in shapes.items()})


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.randn(6, DIM, generator=torch.Generator().manual_seed(1))


def test_what_is_read_again_says_the_same(probe: TreeProbe, vectors: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "some" / "probe.v2"
    probe.save(path)
    assert sorted(file.name for file in path.parent.iterdir()) == ["probe.v2.json", "probe.v2.safetensors"]
    again = TreeProbe.load(path)
    assert again.origin == ORIGIN
    for name in ("distances", "depths", "relations"):
        np.testing.assert_array_equal(getattr(again, name)(vectors), getattr(probe, name)(vectors))


def test_what_it_says_by_hand(probe: TreeProbe, vectors: torch.Tensor) -> None:
    assert probe.distance is not None
    assert probe.depth is not None
    assert probe.relation is not None
    by, of_depth, of_relation = (value.double().numpy() for value in (probe.distance, probe.depth, probe.relation))
    plain = vectors.double().numpy()
    expected = [[((one @ by - other @ by) ** 2).sum() for other in plain] for one in plain]
    np.testing.assert_allclose(probe.distances(vectors), expected, atol=1e-3, rtol=1e-4)
    np.testing.assert_allclose(probe.depths(vectors), [((one @ of_depth) ** 2).sum() for one in plain], rtol=1e-4)
    scores = plain @ of_relation[:-1] + of_relation[-1]
    assert probe.relations(vectors) == tuple(ORIGIN.relations[place] for place in scores.argmax(1))
    assert probe.distances(vectors.half()) is not None


@pytest.mark.parametrize("kept", ["distance", "depth"])
def test_a_probe_of_one_kind(probe: TreeProbe, vectors: torch.Tensor, kept: str, tmp_path: Path) -> None:
    one = TreeProbe(ORIGIN, **{kept: getattr(probe, kept)})
    one.save(tmp_path / "one")
    found = TreeProbe.load(tmp_path / "one")
    assert (found.distances(vectors) is None) == (kept == "depth")
    assert (found.depths(vectors) is None) == (kept == "distance")
    assert found.relations(vectors) is None


def test_a_fitted_map_says_in_a_file_what_it_said_before(tmp_path: Path) -> None:
    train, dev, test = (planted(n, seed) for n, seed in ((80, 1), (20, 2), (20, 3)))
    fitted = fit(StructuralReadout(rank=6, learning_rate=1e-2, max_epochs=3), train, dev, "depths")
    TreeProbe(ORIGIN, depth=fitted.maps[0, 2]).save(tmp_path / "depth")
    kept = TreeProbe.load(tmp_path / "depth")
    spans = test.spans
    for item, found in fitted.read(test.source):
        words = torch.from_numpy(test.words[2, slice(*spans[item])])
        np.testing.assert_allclose(kept.depths(words), found[0, 2], atol=1e-5, rtol=1e-5)
        assert len(found[0, 2]) == len(tree_depths(test.heads[item]))


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


def test_another_width(probe: TreeProbe, vectors: torch.Tensor) -> None:
    for ask in (probe.distances, probe.depths, probe.relations):
        for wrong in (vectors[:, 1:], vectors[0]):
            with pytest.raises(FitError, match=r"vectors 16 wide: it cannot read \["):
                ask(wrong)
    with pytest.raises(FitError, match=r"the map of depth has shape \[16, 3\]: give \[15, …\]"):
        TreeProbe(replace(ORIGIN, dim=15), depth=probe.depth)
    with pytest.raises(FitError, match=r"the map of relation has shape \[16, 3\]: give \[17, …\]"):
        TreeProbe(ORIGIN, relation=torch.zeros(16, 3))


# Files that are broken


def test_files_that_are_missing_or_broken(probe: TreeProbe, tmp_path: Path) -> None:
    path, about, weights = (tmp_path / name for name in ("p", "p.json", "p.safetensors"))

    def refused(message: str) -> None:
        with pytest.raises(ResultsError, match=message) as caught:
            TreeProbe.load(path)
        assert "\n" not in str(caught.value)
        assert str(about) in str(caught.value)
        probe.save(path)
        TreeProbe.load(path)

    refused("no whole probe there")
    about.unlink()
    refused("no whole probe there")
    weights.unlink()
    refused("no whole probe there")
    about.write_bytes(about.read_bytes()[:50])
    refused("no whole probe there")
    weights.write_bytes(weights.read_bytes()[:-10])
    refused("no whole probe there")
    about.write_text("[]")
    refused("no whole probe there")
    plain = json.loads(about.read_text())
    about.write_text(json.dumps({**plain, "format": 99}))
    refused(r"a probe of format 99, this version reads \d+; fit it anew")
    for name in ("layer", "relations", "format"):
        about.write_text(json.dumps({key: value for key, value in plain.items() if key != name}))
        refused("no whole probe there")
    about.write_text(json.dumps({**plain, "relations": None}))
    refused("no whole probe there")
    save_file({**load_file(weights), "more": torch.zeros(2, 2)}, weights)
    refused("no whole probe there")


def test_a_file_of_another_width_says_so(probe: TreeProbe, tmp_path: Path) -> None:
    probe.save(tmp_path / "p")
    about = tmp_path / "p.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "dim": 12}))
    with pytest.raises(ResultsError, match=r"p\.json: no whole probe there \(the map of distance has shape"):
        TreeProbe.load(tmp_path / "p")


def test_a_file_with_fewer_names_than_relations_says_so(probe: TreeProbe, tmp_path: Path) -> None:
    with pytest.raises(FitError, match="is of 3 relations, of which 2 have names"):
        TreeProbe(replace(ORIGIN, relations=("nsubj", "obj")), relation=probe.relation)


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


@pytest.mark.parametrize("window_bytes", [20_000, 1 << 30])
def test_chunks_are_copied_to_one_place(window_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_items, "_SPAN_WINDOW_BYTES", window_bytes)
    trees = planted(150, 6)
    source = Reader(trees)
    used = torch.arange(150) % 7 > 0
    places, seen = set(), []
    for joined in JoinedChunks(source, used):
        places.add(joined.words.data_ptr())
        assert joined.words.nbytes <= window_bytes
        for item, (low, high) in zip(joined.items.tolist(), joined.spans[:, 0].tolist(), strict=True):
            first, last = trees.spans[item]
            np.testing.assert_array_equal(joined.words[:, low:high], trees.words[:, first:last])
            seen.append(item)
    assert seen == used.nonzero().squeeze(1).tolist()
    assert len(places) == 1
    assert set(source.alive) == {0}


def test_a_structural_fit_holds_no_chunk_while_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    monkeypatch.setattr(_items, "_SPAN_WINDOW_BYTES", 20_000)
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


def test_sentences_that_are_held_out_come_once() -> None:
    trees = planted(200, 3)
    windows = list(held_out(trees.source, trees.targets("depths")))
    assert sum(batch.n_sentences for window in windows for batch in window.batches) == 200
    words = [block.words for window in windows for batch in window.batches for block in batch.blocks]
    assert max(part.stop - part.start for part in words) <= 2048
