"""Words and pieces as intervals: which pieces share characters with a word, and which window a word is read from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_UNLIMITED = np.iinfo(np.int64).max


def code_points(text: str) -> NDArray[np.uint32]:
    """``[character]`` the code points of a text; a UnicodeEncodeError where it has half of a surrogate pair in it."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def trim_spaces(starts: Integers, ends: Integers, text: NDArray[np.uint32]) -> tuple[Integers, Integers]:
    """Intervals in ``text`` without white space at their ends; one of white space alone becomes empty."""
    if not len(text):
        return starts, ends
    places = np.arange(len(text))
    visible = ~_space_table()[np.minimum(text, _TABLE_END)]
    # [character + 1]: the next visible place from here on, and the end of the last visible one before here.
    following = np.append(np.minimum.accumulate(np.where(visible, places, len(text))[::-1])[::-1], len(text))
    preceding = np.append(0, np.maximum.accumulate(np.where(visible, places + 1, 0)))
    starts = np.minimum(following[starts], ends)
    return starts, np.maximum(preceding[ends], starts)


_TABLE_END = 0x3001


@cache
def _space_table() -> Flags:
    # No character from U+3001 on is white space, so one entry stands for all of them.
    return np.array([chr(code).isspace() for code in range(_TABLE_END + 1)])


def words_to_pieces(
    words: tuple[Integers, Integers], pieces: tuple[Integers, Integers], owns: Flags
) -> tuple[Integers, Integers]:
    """The range of pieces that share characters with each word.

    A piece that straddles two words is in the range of both. Where offsets run backwards (a normaliser that reorders
    combining characters), the range is the smallest that holds all pieces of the word. Words and pieces are given by
    their starts and ends in one numbering of characters; ``owns [piece]`` is false for marks of word boundaries.

    Returns:
        ``[word]`` first piece and end (exclusive), both 0 for a word without pieces.
    """
    owns = owns & (pieces[1] > pieces[0])
    index = np.flatnonzero(owns)
    starts, ends = pieces[0][index], pieces[1][index]
    # Sorted bounds that enclose the true ones: equal to them wherever offsets run forward.
    running_ends = np.maximum.accumulate(ends) if len(ends) else ends
    running_starts = np.minimum.accumulate(starts[::-1])[::-1] if len(starts) else starts
    low = np.searchsorted(running_ends, words[0], side="right")
    high = np.searchsorted(running_starts, words[1], side="left")
    has_pieces = (high > low) & (words[1] > words[0])
    if not (np.array_equal(running_ends, ends) and np.array_equal(running_starts, starts)):
        disorder = np.append(0, np.cumsum((running_ends != ends) | (running_starts != starts)))
        backwards = disorder[np.maximum(high, low)] > disorder[low]
        for word in np.flatnonzero(has_pieces & backwards):
            between = np.arange(low[word], high[word])
            shared = between[(starts[between] < words[1][word]) & (ends[between] > words[0][word])]
            has_pieces[word] = len(shared) > 0
            if len(shared):
                low[word], high[word] = shared[0], shared[-1] + 1
    first, last = np.zeros_like(words[0]), np.zeros_like(words[0])
    first[has_pieces] = index[low[has_pieces]]
    last[has_pieces] = index[high[has_pieces] - 1] + 1
    return first, last


def with_unowned(first: Integers, last: Integers, n_pieces: Integers) -> tuple[Integers, Integers]:
    """Ranges of words grown by the pieces in none, such as a lone ``▁`` or white space: each belongs to the word that
    follows in its sentence, at the end of the sentence to the word before.

    Args:
        first: ``[word]`` first piece, counted through all sentences.
        last: ``[word]`` end, exclusive; equal to ``first`` where a word has none, and then left as it is.
        n_pieces: ``[sentence]``
    """
    ends = np.cumsum(n_pieces)
    places = np.arange(n_pieces.sum())
    sentence_start, sentence_end = np.repeat(ends - n_pieces, n_pieces), np.repeat(ends, n_pieces)
    steps = np.zeros(len(places) + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, last, -1)
    owned = np.cumsum(steps[:-1]) > 0
    # Before each piece the end of the nearest owned one, and from each piece on the next owned one.
    before = np.append(0, np.maximum.accumulate(np.where(owned, places + 1, 0)))
    after = np.append(np.minimum.accumulate(np.where(owned, places, len(places))[::-1])[::-1], len(places))
    first, last = first.copy(), last.copy()
    words = np.flatnonzero(last > first)
    first[words] = np.maximum(before[first[words]], sentence_start[first[words]])
    end = sentence_end[last[words] - 1]
    last[words] = np.where(after[last[words]] >= end, end, last[words])
    return first, last


def text_bases(texts: Sequence[str]) -> Integers:
    """``[text + 1]`` where each text begins when all are joined by one character."""
    return np.append(0, np.cumsum([len(text) + 1 for text in texts])).astype(np.int64)


def windows_of(n_pieces: int, first: Integers, last: Integers, *, capacity: int) -> tuple[Integers, Integers]:
    """Cut one sentence of ``n_pieces`` into windows that overlap by half, and choose a window for each word.

    A word is read from the window in which the shorter of its two contexts is longest; at the beginning and the end of
    the sentence, context counts as unlimited. A word that no regular window holds whole gets a further window, centred
    on it.

    Returns:
        ``[window]`` where each window begins (all hold ``min(capacity, n_pieces)`` pieces), and ``[word]`` the
        window of each word, −1 for a word longer than a whole window.
    """
    if n_pieces <= capacity:
        return np.zeros(1, dtype=np.int64), np.where(last - first <= capacity, 0, -1)
    step = max(1, capacity // 2)
    starts = np.append(np.arange(0, n_pieces - capacity, step), n_pieces - capacity)
    nearest = np.rint((first + last - capacity) / 2 / step).astype(np.int64)
    # Contexts shrink to either side of the nearest window, so the best one is a neighbour of it, or lies at an edge.
    edges = np.broadcast_to(np.array([[0], [len(starts) - 2], [len(starts) - 1]]), (3, len(first)))
    candidates = np.concatenate([nearest + np.array([[-1], [0], [1]]), edges]).clip(0, len(starts) - 1)
    contexts = _shorter_context(starts[candidates], first, last, capacity=capacity, n_pieces=n_pieces)
    best = np.argmax(contexts, axis=0)
    words = np.arange(len(first))
    chosen = np.where(contexts[best, words] >= 0, candidates[best, words], -1)
    homeless = np.flatnonzero((chosen < 0) & (last - first <= capacity))
    centred = np.clip((first[homeless] + last[homeless] - capacity) // 2, 0, n_pieces - capacity)
    chosen[homeless] = len(starts) + np.arange(len(homeless))
    return np.concatenate([starts, centred]), chosen


def _shorter_context(starts: Integers, first: Integers, last: Integers, *, capacity: int, n_pieces: int) -> Integers:
    """Pieces of context on the shorter side of each word in windows at ``starts``; −1 where a window cuts the word."""
    left, right = first - starts, starts + capacity - last
    whole = (left >= 0) & (right >= 0)
    left = np.where(starts == 0, _UNLIMITED, left)
    right = np.where(starts + capacity == n_pieces, _UNLIMITED, right)
    return np.where(whole, np.minimum(left, right), -1)
