"""What is predicted of one sentence as text, and how well it agrees with what is true of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import RELATION, UNSCORED, rooted
from bertology.probing import TreeExamples

ROOT = "root"
"""The relation of a root, which needs no reading."""


def marks_of_tree(
    heads: NDArray[np.int64],
    scored: NDArray[np.bool_],
    edges: Sequence[tuple[int, int]] | None,
    depths: NDArray[Any] | None,
    relations: Sequence[str] | None,
) -> str:
    """What is predicted of one sentence, as text: depths where there are no edges.

    A tree of distances has no direction; where no depth gives one, it is hung up at the root that gold has.
    """
    if edges is None:
        assert depths is not None
        # As many digits as tell a number from its neighbours: what is read back is the number itself.
        plain = [np.format_float_positional(depth, trim="0") for depth in depths]
        return " ".join(mark if counts else UNSCORED for mark, counts in zip(plain, scored.tolist(), strict=True))
    at = depths if depths is not None else np.abs(heads)  # of heads the root's is 0
    root = int(np.argmin(np.where(scored, at, np.inf)))
    tree = rooted(edges, root, n_words=len(heads))
    if relations is None:
        return " ".join(UNSCORED if head < 0 else str(head) for head in tree)
    return " ".join(
        UNSCORED if head < 0 else f"{head}{RELATION}{name if head else ROOT}"
        for head, name in zip(tree, relations, strict=True)
    )


def row_correlations(predicted: NDArray[Any], gold: NDArray[np.int64]) -> NDArray[np.float64]:
    """``[…]`` Spearman's correlation of each row of ``[…, row, word]`` with gold's, their mean over rows.

    Of a row that is all alike nothing can be said, which is no correlation: 0.
    """
    from scipy.stats import rankdata

    ranks, true = (rankdata(values, axis=-1) for values in (predicted, gold))
    ranks, true = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (ranks, true))
    over = (ranks * true).sum(axis=-1)
    under = np.sqrt((ranks**2).sum(axis=-1) * (true**2).sum(axis=-1))
    rows = np.divide(over, under, out=np.zeros(over.shape), where=under > 0)
    return np.asarray(rows.mean(axis=-1))


def relations_in(marks: str) -> list[str]:
    """``[word]`` relations in a tree written as text, empty for words that do not count."""
    return ["" if mark == UNSCORED else mark.partition(RELATION)[2] for mark in marks.split(" ")]


def most_frequent_relation(trees: TreeExamples) -> str:
    names = [name for code in trees.codes.tolist() for name in relations_in(trees.values[code])]
    distinct, times = np.unique([name for name in names if name not in ("", ROOT)], return_counts=True)
    return str(distinct[times.argmax()])


def put_at(values: Any, words: NDArray[np.int64], filled: Any) -> Any:
    """``filled`` with the values of some words at their places."""
    for word, value in zip(words.tolist(), values, strict=True):
        filled[word] = value
    return filled


def words_left_out(trees: TreeExamples) -> dict[str, int]:
    """How many words of the sentences asked about have no vector and are in no tree; nothing where all have one."""
    n = sum(int((~trees.read[first:last]).sum()) for first, last in trees.spans[:, 0].tolist())
    return {"words_left_out": n} if n else {}


def words_of(trees: TreeExamples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``[word]`` all words of the sentences, one sentence after the other, and the place of each's sentence."""
    first, last = trees.spans[:, 0].T
    words = np.concatenate([np.arange(start, end) for start, end in zip(first.tolist(), last.tolist(), strict=True)])
    return words, np.repeat(np.arange(len(trees)), last - first)
