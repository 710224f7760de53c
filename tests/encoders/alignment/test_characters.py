"""Ranges of pieces by character overlap, against a brute-force search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.encoders.alignment import code_points, trim_spaces, words_to_pieces

quick = settings(derandomize=True, max_examples=150, deadline=None, database=None)
intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=12)


def arrays(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in found], dtype=np.int64)
    return starts, starts + np.array([length for _, length in found], dtype=np.int64)


def brute_force(words: list[tuple[int, int]], pieces: list[tuple[int, int]], owns: list[bool]) -> list[tuple[int, int]]:
    ranges = []
    for start, length in words:
        own = [
            i
            for i, (begin, size) in enumerate(pieces)
            if owns[i] and size and length and begin < start + length and start < begin + size
        ]
        ranges.append((own[0], own[-1] + 1) if own else (0, 0))
    return ranges


@quick
@given(words=intervals, pieces=intervals, data=st.data(), ordered=st.booleans())
def test_ranges_equal_brute_force(
    words: list[tuple[int, int]], pieces: list[tuple[int, int]], data: st.DataObject, ordered: bool
) -> None:
    """In whatever order pieces come: sorted, as almost always, or running backwards."""
    if ordered:
        pieces = sorted(pieces)
    owns = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    first, last = words_to_pieces(arrays(words), arrays(pieces), np.array(owns, dtype=bool))
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == brute_force(words, pieces, owns)


@quick
@given(text=st.text(alphabet="ab \t\u3000\xa0é\U0001f642", max_size=12), data=st.data())
def test_trimming_equals_strip(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    (begin,), (stop,) = trim_spaces(np.array([start]), np.array([end]), code_points(text))
    assert text[begin:stop] == text[start:end].strip()
    assert start <= begin <= stop <= end


def test_every_white_space_character_is_trimmed() -> None:
    spaces = "".join(chr(code) for code in range(0x110000) if chr(code).isspace())
    text = f"{spaces}x{spaces}"
    (begin,), (stop,) = trim_spaces(np.array([0]), np.array([len(text)]), code_points(text))
    assert text[begin:stop] == "x"


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        code_points("a\ud83d")
