"""``edge`` finds what stands in spans, in the layer it stands in, and nothing where nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from bertology._spans import SpanChunk
from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, ArraySpans, EdgeReadout, LinearReadout, Targets, _edge, _items, pooled
from bertology.readouts._edge import FittedPooled
from bertology.readouts._linear import RidgeReadout
from bertology.readouts._neural import MlpReadout
from bertology.readouts._sources import PlainPooling, as_spans
from tests.readouts.conftest import chance_interval, standardised
from tests.readouts.spans import Spans, accuracy, fit, planted

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


def test_shuffled_labels_are_not_found(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    shuffled = replace(train, labels=np.random.default_rng(0).permutation(train.labels))
    low, high = chance_interval(np.asarray(test.labels), 3)
    found = accuracy(fit(replace(SMALL, max_epochs=4), shuffled, dev), test)
    assert ((low <= found) & (found <= high)).all()


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_one_span(loss: Any) -> None:
    train, dev, test = (planted(n, seed, n_spans=1) for seed, n in ((1, 1200), (2, 300), (3, 500)))
    assert accuracy(fit(replace(SMALL, loss=loss), train, dev), test)[1] > 0.85


def test_attention_finds_what_the_mean_does_not(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = (part.layers(1) for part in splits)
    by_mean = accuracy(fit(replace(SMALL, pooling="mean"), train, dev), test)[0]
    assert by_mean < accuracy(fit(SMALL, train, dev), test)[0] - 0.05


def test_endpoints_are_both_read() -> None:
    def split(n: int, seed: int) -> Spans:
        part = planted(n, seed, n_spans=1, n_layers=1, layer=0)
        first, last = part.words[0, part.spans[:, 0, 0], 0], part.words[0, part.spans[:, 0, 1] - 1, 1]
        return replace(part, labels=(first + last > 0).astype(np.int64), n_classes=2)

    train, dev, test = split(1000, 1), split(300, 2), split(500, 3)
    found = {
        pooling: accuracy(fit(replace(SMALL, pooling=pooling, max_epochs=6), train, dev), test)[0]
        for pooling in ("endpoints", "first", "last")
    }
    assert found["endpoints"] > 0.93
    assert max(found["first"], found["last"]) < 0.9


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


def test_best_epoch_is_kept_and_ends_are_reported(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, _ = splits
    fitted = fit(replace(SMALL, max_epochs=30, patience=2), train, dev)
    np.testing.assert_allclose(accuracy(fitted, dev), fitted.report.dev_accuracy[0, :, 0])
    assert fitted.report.all_converged
    assert (fitted.report.iterations < 30).all()
    cut_short = fit(replace(SMALL, max_epochs=1), train, dev).report
    assert not cut_short.converged.any()
    assert (cut_short.iterations == 1).all()


def test_of_few_dev_items_the_loss_says_whether_a_fit_still_learns(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, _ = splits
    few = replace(dev, labels=np.asarray(dev.labels)[:12], spans=dev.spans[:12])
    slow = replace(SMALL, learning_rate=3e-4, max_epochs=40, patience=2, cool_down=0)
    by_score, by_loss = (fit(replace(slow, watch=watch), train, few).report for watch in ("score", "loss"))
    # the layer that has the answer
    assert by_loss.iterations[0, 1, 0] > 2 * by_score.iterations[0, 1, 0]
    assert by_loss.dev_accuracy[0, 1, 0] > by_score.dev_accuracy[0, 1, 0] + 0.1


def test_windows_are_bounded_and_hold_every_used_item_once(
    splits: tuple[Spans, Spans, Spans], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = splits[0]
    most = 3 * 8 * 4 * 3000
    monkeypatch.setattr(_items, "_SPAN_WINDOW_BYTES", most)
    used = torch.arange(1600) % 7 > 0
    seen, sizes = [], []
    shuffle = _edge.Shuffle(32, torch.Generator().manual_seed(0), hidden=4, dropout=0.5)
    for window in _edge.TrainingWindows(train.source, used, shuffle):
        assert window.words.nbytes <= most
        for batch in window.batches:
            sizes.append(len(batch.items))
            seen += batch.items.tolist()
            assert batch.dropout is not None
            assert set(batch.dropout.unique().tolist()) <= {0.0, 2.0}  # type: ignore[no-untyped-call]
            for span, rows in enumerate(batch.rows):
                assert rows.items is not None
                for place, item in enumerate(batch.items.tolist()):
                    mine = window.words[:, rows.words[rows.items == place]]
                    low, high = train.spans[item, span]
                    np.testing.assert_array_equal(mine.numpy(), train.words[:, low:high])
    assert len(sizes) > 40
    assert max(sizes) - min(sizes) <= 8
    assert sorted(seen) == used.nonzero().squeeze(1).tolist()
    assert seen != sorted(seen)


@pytest.mark.parametrize(("most", "n_reads"), [(1 << 30, 1), (3 * 8 * 4 * 3000, 3)])
def test_what_fits_into_one_window_is_read_once_and_shuffled_each_time(
    splits: tuple[Spans, Spans, Spans], monkeypatch: pytest.MonkeyPatch, most: int, n_reads: int
) -> None:
    train = splits[0]
    monkeypatch.setattr(_items, "_SPAN_WINDOW_BYTES", most)
    source, reads = train.source, []

    def chunks() -> Iterator[SpanChunk]:
        reads.append(1)
        yield from train.source.chunks()

    monkeypatch.setattr(source, "chunks", chunks)
    shuffle = _edge.Shuffle(32, torch.Generator().manual_seed(0))
    windows = _edge.TrainingWindows(source, torch.ones(1600, dtype=torch.bool), shuffle)
    orders = [[item for window in windows for batch in window.batches for item in batch.items.tolist()] for _ in "123"]
    assert len(reads) == n_reads
    assert all(sorted(order) == list(range(1600)) for order in orders)
    assert orders[0] != orders[1] != orders[2]


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
    assert isinstance(fitted, FittedPooled)
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


def test_other_readouts_read_pooled_spans(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    sources = [pooled(part.source, pooling="endpoints") for part in (train, dev, test)]
    assert sources[0].dim == 32
    for readout in (LinearReadout(strengths=(0.1,)), RidgeReadout(), MlpReadout(hidden=4, max_epochs=1)):
        fitted = readout.fit(sources[0], train.targets, dev=sources[1], dev_targets=dev.targets)
        assert fitted.predict(sources[2]).labels.shape == (1, 3, 800)
        assert fitted.details(0, 1) == {}


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "max"}, "pooling is 'max': give attention, first, last, mean, endpoints"),
        ({"classifier": "deep"}, "classifier is 'deep': give mlp, linear"),
        ({"watch": "clock"}, "watch is 'clock': give score, loss"),
        ({"hidden": 0}, "hidden is 0: give 1 or more"),
        ({"max_steps": -1}, "max_steps is -1: give 0 or more"),
        ({"cool_down": -1}, "cool_down is -1: give 0 or more"),
        ({"dropout": 1.0}, "dropout and layer_dropout must be 0 or above and below 1"),
        ({"learning_rate": 0.0}, "learning_rate and temperature must be above 0"),
    ],
)
def test_settings_out_of_bounds(settings: dict[str, Any], message: str, splits: tuple[Spans, Spans, Spans]) -> None:
    with pytest.raises(FitError, match=message):
        fit(EdgeReadout(**settings), splits[0], splits[1])


def test_sources_that_do_not_fit(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, test = splits
    one_span = replace(dev, spans=dev.spans[:, :1])
    with pytest.raises(FitError, match="train has 2 spans an item and dev 1"):
        fit(SMALL, train, one_span)
    fitted = fit(replace(SMALL, max_epochs=1), train, dev)
    with pytest.raises(FitError, match="fitted on 2 spans an item: it cannot read 1"):
        fitted.predict(one_span.source)
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


def test_number_of_parameters(splits: tuple[Spans, Spans, Spans]) -> None:
    train, dev, _ = splits
    fitted = fit(EdgeReadout(projection=5, hidden=7, max_epochs=1), train, dev)
    assert fitted.n_params == 2 * (8 * 5 + 5 + 5) + (10 * 7 + 7) + 2 * 7 + (7 * 3 + 3)


def test_a_plan_counts_the_rounds_of_a_fit() -> None:
    size = 1000, 384, 10
    assert EdgeReadout().training_flops(*size) > 20 * LinearReadout().training_flops(*size)
    assert EdgeReadout().training_flops(*size) == 20 * EdgeReadout(max_epochs=1).training_flops(*size)
    assert EdgeReadout(max_steps=500).training_flops(*size) == EdgeReadout().training_flops(*size) / 4
