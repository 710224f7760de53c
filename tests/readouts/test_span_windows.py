"""Neighbouring chunks are joined in one place, and none of them outlives its being copied there."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from bertology._spans import SpanChunk
from bertology.readouts import StructuralReadout, _items
from bertology.readouts._items import JoinedChunks
from bertology.readouts._structural import held_out
from tests.readouts.trees import Trees, fit_one, planted

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


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Others may let go of a chunk a moment after they are done with it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
