"""Windows over long sentences, against a search of all windows for all words."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.encoders.alignment import windows_of

quick = settings(derandomize=True, max_examples=150, deadline=None, database=None)


def context(start: int, first: int, last: int, capacity: int, n_pieces: int) -> float:
    """Pieces on the poorer side of a word; the sentence's own ends limit nothing; −1 where the word is cut."""
    if first < start or last > start + capacity:
        return -1
    left = np.inf if start == 0 else first - start
    right = np.inf if start + capacity == n_pieces else start + capacity - last
    return float(min(left, right))


@quick
@given(capacity=st.integers(1, 12), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_each_word_gets_its_best_window(capacity: int, lengths: list[int]) -> None:
    ends = np.cumsum(lengths)
    first, last = ends - lengths, ends
    n_pieces = int(ends[-1])
    starts, chosen = windows_of(n_pieces, first, last, capacity=capacity)
    size = min(capacity, n_pieces)
    assert starts.min() == 0
    assert starts.max() + size == n_pieces
    covered = {piece for start in starts.tolist() for piece in range(start, start + size)}
    assert covered == set(range(n_pieces))
    for word, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if end - begin > capacity:
            assert chosen[word] == -1
            continue
        contexts = [context(int(start), begin, end, size, n_pieces) for start in starts]
        assert contexts[chosen[word]] == max(contexts) >= 0


def test_windows_overlap_by_half() -> None:
    first = np.arange(100)
    starts, chosen = windows_of(100, first, first + 1, capacity=20)
    assert starts.tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    contexts = np.minimum(first - starts[chosen], starts[chosen] + 20 - first - 1)
    assert contexts[10:-10].min() >= 4


def test_a_book_of_one_sentence_is_cut_in_no_time() -> None:
    first = np.arange(1_000_000)
    starts, chosen = windows_of(1_000_000, first, first + 1, capacity=510)
    assert len(starts) == 3921
    assert (chosen >= 0).all()
