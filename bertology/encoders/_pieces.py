"""Sentences as a model reads them: pieces in windows, and where each word is in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

OnLong = Literal["window", "error", "skip"]
"""Treatment of a sentence longer than the model takes: overlapping windows, an error, or its words are skipped."""
Pooling = Literal["mean", "first", "last"]
"""Which of a word's pieces make its vector: the mean of all, the first or the last."""


@dataclass(frozen=True)
class SkippedWord:
    """A word that has no vector, and why."""

    word: int
    """Its number through all sentences."""
    sentence_id: str
    form: str
    reason: str


@dataclass(frozen=True, eq=False)
class Pieces:
    """Many tokenised sentences, by column. A window is one input to the model, special tokens included."""

    ids: Ids
    """``[piece]`` vocabulary numbers of all windows, one after the other."""
    window_starts: Places
    """``[window + 1]`` where each window begins in ``ids``, and their end."""
    window_sentence: Ids
    """``[window]`` number of the sentence it shows; a sentence that fits has one window, one without pieces none."""
    word_window: Ids
    """``[word]`` the window each word is read from, −1 where it is skipped."""
    word_first: Ids
    """``[word]`` first piece of the word, counted inside its window, special tokens included."""
    word_last: Ids
    """``[word]`` end of its pieces, exclusive; those in between that are ``gaps`` are none of them."""
    gaps: Flags
    """``[piece]`` white space between pieces of one word (a no-break space in a number), which belongs to no word."""
    skipped: tuple[SkippedWord, ...]
    pad_id: int
    """The vocabulary number to fill shorter windows of a batch with."""
    n_unknown: int = 0
    """How many words have the unknown piece among theirs; they are read all the same."""

    @property
    def n_windows(self) -> int:
        """How many inputs to the model there are."""
        return len(self.window_sentence)

    @property
    def n_words(self) -> int:
        """How many words there are, skipped ones included."""
        return len(self.word_window)

    @cached_property
    def window_lengths(self) -> Places:
        """``[window]`` pieces in each window, special tokens included."""
        return np.diff(self.window_starts)

    def window(self, number: int) -> Ids:
        """``[piece]`` the vocabulary numbers of one window."""
        return self.ids[self.window_starts[number] : self.window_starts[number + 1]]

    def window_gaps(self, number: int) -> Flags:
        """``[piece]`` which pieces of one window are ``gaps``."""
        return self.gaps[self.window_starts[number] : self.window_starts[number + 1]]
