"""Edge probes find what stands in spans, in the layer it stands in, and are single probes fitted side by side."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from torch import Tensor, nn

from bertology._machine import Workers
from bertology.errors import FitError
from bertology.measures.intervals import expected_layer
from bertology.readouts import ArrayFeatures, ArraySpans, EdgeReadout, LinearReadout, Targets, pooled
from bertology.readouts._edge import (
    Design,
    EdgeCatReadout,
    EdgeCumulativeReadout,
    EdgeMixReadout,
    SpanBatch,
    cut_batches,
)
from bertology.readouts._neural import MlpReadout
from bertology.readouts._sources import JoinedChunks, PlainPooling, as_spans
from bertology.readouts.linear import RidgeReadout
from tests.readouts.conftest import chance_interval, standardised
from tests.readouts.spans import Spans, accuracy, edge_loop, fit, planted

SMALL = EdgeReadout(projection=12, hidden=24, learning_rate=1e-2, batch_items=64, max_epochs=14, round_steps=25)


@pytest.fixture(scope="module")
def splits() -> tuple[Spans, Spans, Spans]:
    return planted(1600, 1), planted(400, 2), planted(800, 3)


def test_finds_the_marked_words_in_their_layer_only(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    found = accuracy(fit(SMALL, train, dev), test)
    low, high = chance_interval(np.asarray(test.labels), 3)
    assert found[1] > 0.85
    assert ((low <= found[[0, 2]]) & (found[[0, 2]] <= high)).all()


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_one_span(loss: Any) -> None:
    train, dev, test = (planted(n, seed, n_spans=1) for seed, n in ((1, 1200), (2, 300), (3, 500)))
    assert accuracy(fit(replace(SMALL, loss=loss), train, dev), test)[1] > 0.85


def test_several_labels(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = (planted(n, seed, multi=True) for seed, n in ((1, 1600), (2, 400), (3, 600)))
    fitted = fit(SMALL, train, dev)
    found = fitted.predict(test.source)
    assert found.labels.shape == (1, 3, 600, 3)
    assert found.labels.dtype == np.bool_
    scores = [f1_score(test.labels, found.labels[0, layer], average="micro") for layer in range(3)]
    assert scores[1] > 0.85 > 0.7 > max(scores[0], scores[2])
    on_dev = fitted.predict(dev.source).labels[0, 1]
    assert fitted.report.dev_accuracy[0, 1, 0] == pytest.approx(f1_score(dev.labels, on_dev, average="micro"))
    np.testing.assert_allclose(fitted.log_probs(test.source, found.labels[:, 1])[0, 1], found.log_prob[0, 1], atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "first", "last", "endpoints"])
def test_the_linear_corner_is_scikit_learns_logistic_regression(pooling: Any) -> None:
    def split(n: int, seed: int) -> Spans:
        part = planted(n, seed, n_layers=2)
        rule = np.random.default_rng(9).normal(size=(2, 8, 3))
        ends = [part.words[1, part.spans[:, s, 0]] + part.words[1, part.spans[:, s, 1] - 1] for s in range(2)]
        noise = np.random.default_rng(seed).gumbel(size=(n, 3))
        return replace(part, labels=(sum(e @ r for e, r in zip(ends, rule, strict=True)) + noise).argmax(1))

    train, dev, test = split(1500, 1), split(400, 2), split(4000, 3)
    readout = EdgeReadout(pooling=pooling, projection=0, classifier="linear")
    fitted = readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
    assert fitted.pooling == pooling
    assert fitted.name == "edge.v1"
    assert fitted.details(0, 1) == {"layers": [1]}
    found = (fitted.predict(test.source).labels[0] == test.labels).mean(1)
    for layer in range(2):
        like = by_hand(train, layer, pooling)
        peer = LogisticRegression(C=fitted.report.chosen[0, layer], tol=1e-9, max_iter=5000)
        peer.fit(standardised(like, like), train.labels)
        assert abs(found[layer] - peer.score(standardised(by_hand(test, layer, pooling), like), test.labels)) <= 0.003


def by_hand(part: Spans, layer: int, pooling: str) -> np.ndarray:
    """Pooled vectors of both spans, in a loop."""
    rows = []
    for spans in part.spans:
        row: list[np.ndarray] = []
        for low, high in spans:
            words = part.words[layer, low:high]
            ends = {"mean": [words.mean(0)], "first": [words[0]], "last": [words[-1]]}
            row += ends.get(pooling, [words[0], words[-1]])
        rows.append(np.concatenate(row))
    return np.stack(rows)


@pytest.mark.parametrize("pooling", ["mean", "endpoints"])
def test_two_spans_are_compared(splits: tuple[Spans, Spans, Spans], pooling: PlainPooling) -> None:
    source = splits[2].source
    chunks = pooled(source, pooling=pooling).chunks(), pooled(source, pooling=pooling, compare=True).chunks()
    for (items, plain), (same, compared) in zip(*chunks, strict=True):
        assert torch.equal(items, same)
        u, v = plain.chunk(2, dim=2)
        assert torch.equal(compared, torch.cat([u, v, (u - v).abs(), u * v], dim=2))
        assert compared.shape[2] == pooled(source, pooling=pooling, compare=True).dim


def test_items_of_single_words_are_spans_of_one_word() -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 300, 5)).astype(np.float32)
    targets = Targets((vectors[1, :, 0] > 0).astype(np.int64)[None], 2)
    places = np.arange(300)
    brief = replace(SMALL, max_epochs=3)
    features, spans = ArrayFeatures(vectors), ArraySpans(vectors, np.stack([places, places + 1], 1)[:, None])
    assert as_spans(features).n_spans == 1
    one = brief.fit(features, targets, dev=features, dev_targets=targets).predict(spans)
    other = brief.fit(spans, targets, dev=spans, dev_targets=targets).predict(features)
    np.testing.assert_array_equal(one.log_prob, other.log_prob)


@pytest.mark.parametrize("readout", [LinearReadout(), MlpReadout(), RidgeReadout()])
def test_readouts_of_one_class_refuse_several(readout: LinearReadout | MlpReadout | RidgeReadout) -> None:
    source = ArrayFeatures(np.zeros((1, 4, 2)))
    targets = Targets(np.ones((1, 4, 3), dtype=bool), 3)
    with pytest.raises(FitError, match=rf"{readout.name} gives each item one class: use an edge readout"):
        readout.fit(source, targets, dev=source, dev_targets=targets)


def test_sources_that_do_not_fit(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    one_span = replace(dev, spans=dev.spans[:, :1])
    with pytest.raises(FitError, match="train has 2 spans an item and dev 1"):
        fit(SMALL, train, one_span)
    fitted = fit(replace(SMALL, max_epochs=1), train, dev)
    with pytest.raises(FitError, match="fitted on 3 layers of width 8: it cannot read 2 layers"):
        fitted.predict(test.layers(0, 1).source)
    with pytest.raises(FitError, match=r"item 2: span 1 is \[5, 5\): give a start below its end, between 0 and 9"):
        ArraySpans(np.zeros((1, 9, 2)), np.array([[[0, 1]], [[3, 9]], [[5, 5]]]))
    multi = planted(50, 1, multi=True)
    with pytest.raises(FitError, match="loss is 'softmax' and items have several labels"):
        fit(replace(SMALL, loss="softmax"), multi, multi)
    broken = replace(train, words=np.where(np.arange(3)[:, None, None] == 2, np.nan, train.words).astype(np.float32))
    with pytest.raises(FitError, match="layer 2 has vectors that are not finite"):
        fit(SMALL, broken, dev)


def test_a_plan_counts_the_rounds_of_a_fit() -> None:
    size = 1000, 384, 10
    assert EdgeReadout().training_flops(*size) > 20 * LinearReadout().training_flops(*size)
    assert EdgeReadout().training_flops(*size) == 20 * EdgeReadout(max_epochs=1).training_flops(*size)
    assert EdgeReadout(max_steps=500).training_flops(*size) == EdgeReadout().training_flops(*size) / 4


SETTINGS = {
    "projection": 12,
    "hidden": 24,
    "learning_rate": 1e-2,
    "batch_items": 64,
    "max_epochs": 14,
    "round_steps": 25,
}
MIX = EdgeMixReadout(**SETTINGS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def four_layers() -> tuple[Spans, Spans, Spans]:
    return tuple(planted(n, seed, n_layers=4, layer=2) for seed, n in ((1, 1600), (2, 400), (3, 800)))  # type: ignore[return-value]


def test_weight_goes_to_the_planted_layer(four_layers: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = four_layers
    fitted = fit(MIX, train, dev)
    assert fitted.columns == ((0, 1, 2, 3),)
    details = fitted.details(0, 0)
    weights = np.array(details["mix_weights"])
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert weights.argmax() == 2
    assert weights[2] > 0.6
    assert details["center_of_gravity"] == pytest.approx(weights @ np.arange(4), abs=1e-4)
    assert details["kl_from_uniform_bits"] == pytest.approx(2 + (weights * np.log2(weights)).sum(), abs=1e-3)
    assert accuracy(fitted, test)[0] > 0.8


def test_cumulative_mixes_gain_in_the_planted_layer(four_layers: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = four_layers
    fitted = fit(EdgeCumulativeReadout(**SETTINGS, layer_dropout=0.1), train, dev)  # type: ignore[arg-type]
    assert fitted.columns == ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))
    scores = accuracy(fitted, test)
    low, high = chance_interval(np.asarray(test.labels), 3)
    assert ((low <= scores[:2]) & (scores[:2] <= high)).all()
    assert np.diff(scores).argmax() + 1 == 2
    assert expected_layer(scores, range(4)) == pytest.approx(2, abs=0.25)
    assert fitted.details(0, 0)["mix_weights"] == [1.0]
    assert fitted.details(0, 1)["layers"] == [0, 1]


def test_cat_reads_the_first_and_the_last_layer(four_layers: tuple[Spans, Spans, Spans]) -> None:
    cat = EdgeCatReadout(**SETTINGS)  # type: ignore[arg-type]
    train, dev, test = (part.layers(0, 1, 2) for part in four_layers)
    fitted = fit(cat, train, dev)
    assert fitted.columns == ((0, 2),)
    assert fitted.details(0, 0) == {"layers": [0, 2]}
    assert accuracy(fitted, test)[0] > 0.8
    train, dev, test = four_layers  # what is planted is in neither end
    low, high = chance_interval(np.asarray(test.labels), 3)
    assert low <= accuracy(fit(replace(cat, max_epochs=3), train, dev), test)[0] <= high
    with pytest.raises(FitError, match=r"edge_cat\.v1 joins the first and the last layer, and only 1 is there"):
        fit(cat, train.layers(0), dev.layers(0))


def test_columns_are_named_by_the_layers_of_the_model(four_layers: tuple[Spans, Spans, Spans]) -> None:
    train = four_layers[0]
    source = ArraySpans(torch.from_numpy(train.words[:3]), train.spans, layers=(0, 4, 8))
    fitted = replace(MIX, max_epochs=1).fit(source, train.targets, dev=source, dev_targets=train.targets)
    details = fitted.details(0, 0)
    assert details["layers"] == [0, 4, 8]
    assert details["center_of_gravity"] == pytest.approx(np.dot(details["mix_weights"], [0, 4, 8]), abs=1e-4)


N_STEPS = 12


class PlainProbe(nn.Module):
    """One layer, two spans, one item at a time."""

    def __init__(self, start: dict[str, Tensor]) -> None:
        super().__init__()
        width, projected = start["project_0"].shape
        self.projections = [nn.Linear(width, projected) for _ in range(2)]
        self.attentions = [nn.Linear(projected, 1, bias=False) for _ in range(2)]
        self.spans = nn.ModuleList([*self.projections, *self.attentions])
        hidden = start["hidden"].shape[1]
        self.first = nn.Linear(2 * projected, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, start["out"].shape[1])
        with torch.no_grad():
            for span in range(2):
                self.projections[span].weight.copy_(start[f"project_{span}"].T)
                self.projections[span].bias.copy_(start[f"project_{span}_bias"][0])
                self.attentions[span].weight.copy_(start[f"attend_{span}"].T)
            for module, name in ((self.first, "hidden"), (self.out, "out")):
                module.weight.copy_(start[name].T)
                module.bias.copy_(start[f"{name}_bias"][0])

    def forward(self, words: Tensor, spans: Tensor, mask: Tensor) -> Tensor:
        rows = []
        for item in spans:
            pooled = []
            for span, (low, high) in enumerate(item.tolist()):
                projected = self.projections[span](words[low:high])
                pooled.append(self.attentions[span](projected).softmax(0).T @ projected)
            rows.append(torch.cat(pooled, dim=1)[0])
        scores: Tensor = self.out(self.norm(self.first(torch.stack(rows)).tanh()) * mask)
        return scores


@pytest.mark.parametrize("is_sigmoid", [False, True])
def test_side_by_side_is_one_by_one(is_sigmoid: bool) -> None:
    train = planted(300, 5, multi=is_sigmoid)
    design = Design(((0,), (1,), (2,)), "one", 8, (0, 1), 3, "attention", projection=6, hidden=10)
    start, (words, batches) = design.start(1, seed=3), first_window(train)
    with Workers(torch.device("cpu")) as workers:
        loop = edge_loop(train, design, workers, is_sigmoid=is_sigmoid)
        loop.learn_window(words, batches)
        loop.keep(np.ones((1, 3), dtype=bool))
    found = loop.best
    for layer in range(3):
        probe = one_probe(train, layer, batches, {name: value[0, layer] for name, value in start.items()}, is_sigmoid)
        for mine, theirs in (
            (found["project_1"][0, layer], probe.projections[1].weight.T),
            (found["attend_0"][0, layer], probe.attentions[0].weight.T),
            (found["norm"][0, layer, 0], probe.norm.weight),
            (found["out"][0, layer], probe.out.weight.T),
        ):
            torch.testing.assert_close(mine, theirs.detach(), atol=2e-4, rtol=1e-3)
        assert (found["out"][0, layer] - start["out"][0, layer]).abs().max() > 0.01


def first_window(train: Spans) -> tuple[Tensor, list[SpanBatch]]:
    (chunk,) = JoinedChunks(train.source, torch.ones(300, dtype=torch.bool))
    batches = cut_batches(chunk, 25, torch.Generator().manual_seed(0), hidden=10, dropout=0.2)
    assert len(batches) == N_STEPS
    return chunk.words, batches


def one_probe(
    train: Spans, layer: int, batches: list[SpanBatch], start: dict[str, Tensor], is_sigmoid: bool
) -> PlainProbe:
    probe = PlainProbe(start)
    optimiser = torch.optim.Adam(probe.parameters(), lr=1e-2)
    words, labels = torch.from_numpy(train.words[layer]), torch.from_numpy(train.labels)
    for batch in batches:
        optimiser.zero_grad()
        assert batch.dropout is not None
        scores = probe(words, torch.from_numpy(train.spans)[batch.items], batch.dropout)
        if is_sigmoid:
            truth = labels[batch.items].float()
            loss = nn.functional.binary_cross_entropy_with_logits(scores, truth, reduction="none").sum(1).mean()
        else:
            loss = nn.functional.cross_entropy(scores, labels[batch.items])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return probe


def test_how_many_workers_there_are_does_not_matter() -> None:
    train, dev = planted(400, 1, n_layers=5), planted(200, 2, n_layers=5)
    readout = EdgeReadout(projection=6, hidden=8, max_epochs=2, learning_rate=1e-2)
    before = torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            fitted = readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
            found.append(fitted.predict(dev.source).log_prob)
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-4)
