"""Spans whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology._machine import Workers
from bertology.readouts import ArraySpans, Targets
from bertology.readouts._base import TrainingData
from bertology.readouts._edge import Design, EdgeLoop, EdgeReadout, FittedEdge, SpanReadout


@dataclass(frozen=True)
class Spans:
    """Words ``[layer, word, dim]``, spans ``[item, span, 2]`` and labels of one problem."""

    words: NDArray[np.float32]
    spans: NDArray[np.int64]
    labels: NDArray[np.int64] | NDArray[np.bool_]
    n_classes: int

    @property
    def source(self) -> ArraySpans:
        return ArraySpans(self.words, self.spans, chunk_items=150)

    @property
    def targets(self) -> Targets:
        return Targets(self.labels[None], self.n_classes)

    def layers(self, *places: int) -> Spans:
        return Spans(self.words[list(places)], self.spans, self.labels, self.n_classes)


def planted(
    n_items: int, seed: int, *, n_spans: int = 2, n_layers: int = 3, layer: int = 1, multi: bool = False
) -> Spans:
    """In one layer a mark says which word of each span counts, and that word's first features add up to the label.

    No other layer says anything, and no fixed place in the span does: only attention can find the word.
    """
    random = np.random.default_rng(seed)
    n_words = 6 * n_items * n_spans
    words = random.normal(size=(n_layers, n_words, 8)).astype(np.float32)
    starts = 6 * np.arange(n_items * n_spans)
    lengths = random.integers(1, 5, size=starts.shape)
    marked = starts + random.integers(0, lengths)
    words[layer, :, 7] = -2
    words[layer, marked, 7] = 2
    causes = words[layer, marked].reshape(n_items, n_spans, 8)[:, :, :3]
    signs = np.array([[1, 1, -1], [1, -1, 1]])[:n_spans]
    scores = (causes * signs).sum(axis=1)  # [item, 3]
    labels = scores > 0.3 if multi else scores.argmax(axis=1)
    spans = np.stack([starts, starts + lengths], axis=1).reshape(n_items, n_spans, 2)
    return Spans(words, spans, labels, 3)


def edge_loop(
    train: Spans, design: Design, workers: Workers, *, batch_items: int = 25, is_sigmoid: bool = False
) -> EdgeLoop:
    """The training of probes, before its first step."""
    few = {"batch_items": batch_items, "least_batch": batch_items, "round_steps": 1}
    readout = EdgeReadout(learning_rate=1e-2, max_epochs=9, patience=9, cool_down=1, **few)
    split = train.source, train.targets
    data = TrainingData(*split, *split, seed=3)
    return EdgeLoop(readout, design, data, workers, is_sigmoid=is_sigmoid)


def fit(readout: SpanReadout, train: Spans, dev: Spans, **settings: object) -> FittedEdge:
    found = readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, **settings)  # type: ignore[arg-type]
    assert isinstance(found, FittedEdge)
    return found


def accuracy(fitted: FittedEdge, test: Spans) -> NDArray[np.float64]:
    """``[column]`` of the one problem."""
    found: NDArray[np.float64] = (fitted.predict(test.source).labels[0] == test.labels).mean(axis=1)
    return found
