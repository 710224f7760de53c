"""What can be had without looking at any vector: the most frequent label, overall and of a word form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Labels = NDArray[np.int64]


def majority(train_labels: ArrayLike) -> int:
    """The most frequent label in ``train_labels [item]``; of equally frequent ones the lowest. −1 is no label.

    Raises:
        ValueError: there is no label.
    """
    labels = _labelled(np.asarray(train_labels))
    if not labels.size:
        raise ValueError("there are no training labels")
    return int(np.bincount(labels).argmax())


def word_majority(
    train_words: ArrayLike, train_labels: ArrayLike, test_words: ArrayLike, *, n_words: int
) -> NDArray[np.int64]:
    """Give each word the label that its form most often has in training; a form never seen there the majority label.

    Forms are compared exactly, case included. Of a form's equally frequent labels, the one more frequent overall is
    taken, then the lowest.

    Args:
        train_words: ``int [item]`` number of the word form, 0 … ``n_words`` − 1.
        train_labels: ``int [item]``; −1 is no label.
        test_words: ``int [item]`` in the same numbering; −1 is a form that training does not have.
        n_words: how many forms there are.

    Returns:
        ``int64 [item]`` predicted labels of the test items.
    """
    words, labels = np.asarray(train_words, dtype=np.int64), np.asarray(train_labels, dtype=np.int64)
    test = np.asarray(test_words, dtype=np.int64)
    if words.shape != labels.shape:
        raise ValueError(f"shapes do not fit: train_words {words.shape}, train_labels {labels.shape}")
    if test.size and not (test.min() >= -1 and test.max() < n_words):
        raise ValueError(f"test_words has numbers outside -1…{n_words - 1}")
    kept = labels >= 0
    n_labels = int(labels.max(initial=0)) + 1
    overall = np.bincount(labels[kept], minlength=n_labels)
    pairs, times = np.unique(words[kept] * n_labels + labels[kept], return_counts=True)
    word, label = np.divmod(pairs, n_labels)
    # The last of each word in this order is its most frequent label.
    order = np.lexsort((-label, overall[label], times, word))
    answers = np.full(n_words, majority(labels), dtype=np.int64)
    answers[word[order]] = label[order]
    return np.where(test >= 0, answers[test], majority(labels)).astype(np.int64)


def majority_labels(train_labels: ArrayLike) -> NDArray[np.bool_]:
    """``[label]`` the labels that more than half of the training items have, of ``train_labels [item, label]``.

    Raises:
        ValueError: there is no item.
    """
    labels = np.asarray(train_labels, dtype=np.bool_)
    if not len(labels):
        raise ValueError("there are no training labels")
    return np.asarray(2 * labels.sum(axis=0) > len(labels))


def word_majority_labels(
    train_words: ArrayLike, train_labels: ArrayLike, test_words: ArrayLike, *, n_words: int
) -> NDArray[np.bool_]:
    """As :func:`word_majority` where an item may have any number of labels: those that most items of its form have.

    Args:
        train_words: ``int [item]`` number of the word form, 0 … ``n_words`` − 1.
        train_labels: ``bool [item, label]``
        test_words: ``int [item]`` in the same numbering; −1 is a form that training does not have.
        n_words: how many forms there are.

    Returns:
        ``bool [item, label]`` predicted labels of the test items.
    """
    words, labels = np.asarray(train_words, dtype=np.int64), np.asarray(train_labels, dtype=np.bool_)
    test = np.asarray(test_words, dtype=np.int64)
    if len(words) != len(labels):
        raise ValueError(f"shapes do not fit: train_words {words.shape}, train_labels {labels.shape}")
    if test.size and not (test.min() >= -1 and test.max() < n_words):
        raise ValueError(f"test_words has numbers outside -1…{n_words - 1}")
    times = np.zeros((n_words, labels.shape[1]), dtype=np.int64)
    np.add.at(times, words, labels)
    often = np.bincount(words, minlength=n_words)
    answers = np.where(often[:, None] > 0, 2 * times > often[:, None], majority_labels(labels))
    return np.where(test[:, None] >= 0, answers[test], majority_labels(labels))


def _labelled(labels: NDArray[np.integer]) -> NDArray[np.integer]:
    return labels[labels >= 0]
