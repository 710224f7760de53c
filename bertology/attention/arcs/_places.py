"""Where words stand in the maps of a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertology.attention._batch import Scope, Units

Integers = NDArray[np.int64]
_MOST_WORDS = 1 << 40
"""More than a text has: keys of a window and a word do not run into one another."""


class Places:
    """The words of a batch, by window, and the rows of maps that are theirs."""

    def __init__(self, units: Units) -> None:
        words = units.word.cpu().numpy()
        self.windows, self.units = np.nonzero(words >= 0)
        """``[place]`` of each word that a window shows, in order of windows and words."""
        self.words: Integers = words[self.windows, self.units]
        self.counts: NDArray[np.bool_] = units.counts.cpu().numpy()[self.windows, self.units]
        """``[place]`` whether this is the window that the word is read from."""
        self._keys = self.windows * _MOST_WORDS + self.words

    def find(self, windows: Integers, words: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """The unit of each word in a window, and whether the window shows it."""
        keys = windows * _MOST_WORDS + words
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        shown = self._keys[at] == keys if len(self._keys) else np.zeros(len(keys), dtype=bool)
        return self.units[at], shown


def expanded(first: Integers, last: Integers) -> tuple[Integers, Integers]:
    """All numbers from each ``first`` up to, not including, ``last``, and of each the place of the range it is in."""
    lengths = last - first
    of_range = np.repeat(np.arange(len(first)), lengths)
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - starts[of_range] + first[of_range], of_range


def check_level(scope: Scope) -> None:
    """Refuse maps of pieces.

    Raises:
        ValueError: the pass is over pieces.
    """
    if scope.level != "word":
        raise ValueError('arcs join words: stream_maps(…, level="word")')
