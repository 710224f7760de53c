"""Sizes are told in a unit in which they are not nothing."""

from __future__ import annotations

import pytest

from bertology._units import size_in_words


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (48_700_000, "48.7 MB"),
        (99_990_000, "100 MB"),
        (999_600_000, "1000 MB"),
        (1_061_000_000, "1.06 GB"),
        (860e9, "860 GB"),
        (5e15, "5000 TB"),
    ],
)
def test_sizes(n_bytes: float, words: str) -> None:
    assert size_in_words(n_bytes) == words
