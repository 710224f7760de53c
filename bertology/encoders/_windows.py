"""Sentences longer than a model takes, read in overlapping windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

UNLIMITED = np.iinfo(np.int64).max


def windows_of(n_pieces: int, first: Integers, last: Integers, *, capacity: int) -> tuple[Integers, Integers]:
    """Cut one sentence into windows that overlap by half, and choose a window for each word.

    A word is read from the window in which the shorter of its two contexts is longest; the beginning and the end of
    the sentence cut no context off. A word that no regular window holds whole gets one of its own, centred on it.

    Args:
        n_pieces: pieces in the sentence, without special tokens.
        first: ``[word]`` first piece of each word.
        last: ``[word]`` end of its pieces, exclusive.
        capacity: pieces that a window holds, without special tokens.

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
    own = np.clip((first[homeless] + last[homeless] - capacity) // 2, 0, n_pieces - capacity)
    chosen[homeless] = len(starts) + np.arange(len(homeless))
    return np.concatenate([starts, own]), chosen


def _shorter_context(starts: Integers, first: Integers, last: Integers, *, capacity: int, n_pieces: int) -> Integers:
    """Pieces of context on the poorer side of each word in windows at ``starts``; −1 where a window cuts the word."""
    left, right = first - starts, starts + capacity - last
    whole = (left >= 0) & (right >= 0)
    left = np.where(starts == 0, UNLIMITED, left)
    right = np.where(starts + capacity == n_pieces, UNLIMITED, right)
    return np.where(whole, np.minimum(left, right), -1)
