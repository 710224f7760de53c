from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertology.encoders.batching import Batch, join_batches, padded, padded_inputs, pieces_in_batch, plan_batches


@given(st.lists(st.integers(3, 600), min_size=1, max_size=300), st.integers(16, 4096))
def test_each_window_is_read_once_and_padding_stays_small(lengths: list[int], pieces: int) -> None:
    batches = plan_batches(np.array(lengths), pieces=pieces)
    assert sorted(window for batch in batches for window in batch.windows.tolist()) == list(range(len(lengths)))
    for batch in batches:
        own = np.array(lengths)[batch.windows]
        assert batch.length == own.max()
        assert batch.is_padded == (own.min() < own.max())
        assert own.min() >= 0.87 * own.max()
        assert batch.length * len(own) <= max(pieces, batch.length)


def test_longest_come_first_so_that_lack_of_memory_shows_at_once() -> None:
    lengths = np.array([5, 50, 9, 50, 7])
    batches = plan_batches(lengths, pieces=100)
    assert [batch.length for batch in batches] == sorted((batch.length for batch in batches), reverse=True)
    assert sorted(batches[0].windows.tolist()) == [1, 3]


def test_a_treebank_comes_in_few_shapes_that_repeat() -> None:
    lengths = np.clip(np.random.default_rng(0).gamma(2.0, 10.0, 12_000).astype(int) + 3, 3, 200)
    batches = plan_batches(lengths, pieces=2048)
    read = sum(batch.length * len(batch.windows) for batch in batches)
    assert read / lengths.sum() == pytest.approx(1.0, abs=0.01)
    exact = [batch for batch in batches if not batch.is_padded]
    assert len(exact) / len(batches) > 0.7


@given(st.lists(st.integers(3, 600), min_size=1, max_size=300), st.integers(64, 8192))
def test_joined_batches_keep_the_order_of_windows(lengths: list[int], pieces: int) -> None:
    planned = plan_batches(np.array(lengths), pieces=64)
    joined = join_batches(planned, pieces=pieces)
    assert len(joined) <= len(planned)
    np.testing.assert_array_equal(*(np.concatenate([batch.windows for batch in each]) for each in (planned, joined)))
    for batch in joined:
        own = np.array(lengths)[batch.windows]
        assert batch.length == own.max()
        assert batch.is_padded == (own.min() < own.max())
        assert own.min() >= 0.75 * own.max()
        assert batch.length * len(own) <= max(pieces, 64, batch.length)


def test_batches_are_larger_on_an_accelerator() -> None:
    assert pieces_in_batch("cpu") == pieces_in_batch(torch.device("cpu")) == 1024
    assert pieces_in_batch("cuda:0") == pieces_in_batch(torch.device("cuda")) > 1024


def test_rows_are_padded_and_masked() -> None:
    rows = [[4, 5, 6], [7]]
    ids, mask = padded_inputs(rows, Batch(np.arange(2), 3, True), 9)
    assert mask is not None
    assert (ids.tolist(), mask.tolist()) == ([[4, 5, 6], [7, 9, 9]], [[1, 1, 1], [1, 0, 0]])
    _, nothing = padded_inputs(rows[:1], Batch(np.arange(1), 3, False), 9)
    assert nothing is None
    table = padded([np.array([True]), np.zeros(0, dtype=bool)], 2, False)
    assert (table.dtype, table.tolist()) == (np.bool_, [[True, False], [False, False]])
