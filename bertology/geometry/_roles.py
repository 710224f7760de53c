"""Roles of the words of a sentence: their places by several schemes (McCoy et al. 2019; Jawahar et al. 2019, §6).

A place in a tree is a path from its root, in letters: ``L`` and ``R`` for a dependent before and after its head, or for
the first part and the rest of a phrase.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy import sparse

from bertology.errors import CorpusError
from bertology.geometry._sums import Integers
from bertology.geometry._vectors import Floats32

Paths = Sequence[Sequence[str]]
"""``[sentence][word]`` paths from the root of a tree."""


def position_roles(lengths: Iterable[int], n_roles: int) -> dict[str, Integers]:
    """Roles ``[word]`` by position in the sentence, of ``n_roles`` or fewer.

    ``left_to_right`` and ``right_to_left`` are numbers from either end, the last of them that of all further words.
    ``bidirectional`` is both, each with √``n_roles`` numbers: with a role for every pair of numbers, as in the paper,
    most roles of a test would have no example.

    Args:
        lengths: ``[sentence]`` numbers of words.
        n_roles: how many there are at most.
    """
    pairs = [(np.arange(n), np.arange(n)[::-1]) for n in lengths]
    left, right = (np.concatenate([np.zeros(0, np.int64), *of_side]) for of_side in zip(*pairs, strict=True))
    each = max(1, int(np.sqrt(n_roles)))
    return {
        "left_to_right": np.minimum(left, n_roles - 1),
        "right_to_left": np.minimum(right, n_roles - 1),
        "bidirectional": np.minimum(left, each - 1) * each + np.minimum(right, each - 1),
    }


def dependency_paths(heads: Sequence[int]) -> list[str]:
    """Paths ``[word]`` in a dependency tree.

    Args:
        heads: ``[word]`` the head of each, counted from 1; 0 for the root.

    Raises:
        CorpusError: a word is its own head, or a head of its heads.
    """
    paths: dict[int, str] = {0: ""}
    for word in range(1, len(heads) + 1):
        chain = []
        while word not in paths:
            chain.append(word)
            if len(chain) > len(heads):
                raise CorpusError("heads that form a circle: give a tree")
            word = heads[word - 1]
        for below in reversed(chain):
            head = heads[below - 1]
            paths[below] = paths[head] + (("L" if below < head else "R") if head else "")
    return [paths[word] for word in range(1, len(heads) + 1)]


def constituent_paths(n_words: int, phrases: Iterable[tuple[int, int]]) -> list[str]:
    """Paths ``[word]`` in a tree of phrases with two parts each: the first part of a phrase, and the rest of it.

    Args:
        n_words: length of the sentence.
        phrases: first word of each phrase and the one after its last, of which none crosses another.
    """
    paths = [""] * n_words
    spans = sorted({(0, n_words), *phrases}, key=lambda span: (span[0], -span[1]))
    below: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    above: list[tuple[int, int]] = []
    for span in spans:
        while above and above[-1][1] <= span[0]:
            above.pop()
        if above:
            below[above[-1]].append(span)
        above.append(span)
    for span in spans:
        inside = {word: child for child in below[span] for word in range(*child)}
        parts = list(dict.fromkeys(inside.get(word, (word, word + 1)) for word in range(*span)))
        for place, part in enumerate(parts if len(parts) > 1 else ()):
            letters = "R" * place + ("L" if place < len(parts) - 1 else "")
            for word in range(*part):
                paths[word] += letters
    return paths


def random_dependency_paths(n_words: int, dice: np.random.Generator) -> list[str]:
    """Paths ``[word]`` in a random tree: a word at random is the root, and so on of the words on either side."""
    paths, waiting = [""] * n_words, [(0, n_words, "")]
    while waiting:
        first, last, path = waiting.pop()
        if first < last:
            root = int(dice.integers(first, last))
            paths[root] = path
            waiting += [(first, root, path + "L"), (root + 1, last, path + "R")]
    return paths


def random_constituent_paths(n_words: int, dice: np.random.Generator) -> list[str]:
    """Paths ``[word]`` in a random tree: the words are cut in two at random, and so on both parts."""
    paths, waiting = [""] * n_words, [(0, n_words, "")]
    while waiting:
        first, last, path = waiting.pop()
        if last - first == 1:
            paths[first] = path
        elif last > first:
            cut = int(dice.integers(first + 1, last))
            waiting += [(first, cut, path + "L"), (cut, last, path + "R")]
    return paths


def shuffled_paths(paths: Paths, dice: np.random.Generator) -> list[list[str]]:
    """Trees of other sentences of the same length, in turn; a sentence of a length of its own has its paths shuffled.

    Length, depth and the distribution of paths over positions stay as they are: what is lost is which words the tree
    is of.
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for number in dice.permutation(len(paths)).tolist():
        by_length[len(paths[number])].append(number)
    found: list[list[str]] = [[] for _ in paths]
    for numbers in by_length.values():
        for number, other in zip(numbers, [*numbers[1:], numbers[0]], strict=True):
            found[number] = list(paths[other])
            if other == number:
                found[number] = [paths[number][place] for place in dice.permutation(len(paths[number]))]
    return found


def path_roles(paths: Mapping[str, Paths], n_roles: int) -> dict[str, Integers]:
    """By split ``[word]`` numbers of roles: the ``n_roles`` beginnings of paths that most words of train have.

    A longer path has the role of its longest beginning among them: that of the word above it in the tree, as far as it
    is told apart.
    """
    of_train = itertools.chain.from_iterable(paths["train"])
    counts = Counter(path[:end] for path in of_train for end in range(len(path) + 1))
    kept = sorted(counts, key=lambda path: (-counts[path], len(path), path))[:n_roles]
    number = {path: place for place, path in enumerate(kept)}
    known: dict[str, int] = dict(number)

    def role(path: str) -> int:
        if path not in known:
            known[path] = next(number[path[:end]] for end in range(len(path), -1, -1) if path[:end] in number)
        return known[path]

    return {
        split: np.array([role(path) for of_sentence in some for path in of_sentence], dtype=np.int64)
        for split, some in paths.items()
    }


def tree_roles(
    paths: Mapping[str, Paths], n_roles: int, *, has_heads: bool = True, seed: int = 0
) -> dict[str, Integers]:
    """Roles ``[word]`` by place in the tree, in that of another sentence, and in a random one.

    Args:
        paths: by split ``[sentence][word]`` paths from the root; roles are those of all splits, one after the other.
        n_roles: how many there are at most, in each scheme the most frequent in train.
        has_heads: whether words are nodes of the trees, as those of dependencies, or their leaves.
        seed: of what is drawn.
    """
    dice = np.random.default_rng(seed)
    random = random_dependency_paths if has_heads else random_constituent_paths
    schemes: dict[str, Mapping[str, Paths]] = {
        "tree": paths,
        "shuffled_tree": {split: shuffled_paths(some, dice) for split, some in paths.items()},
        "random_tree": {split: [random(len(one), dice) for one in some] for split, some in paths.items()},
    }
    return {name: np.concatenate(list(path_roles(some, n_roles).values())) for name, some in schemes.items()}


def filler_embeddings(vectors: Floats32, fillers: Integers, positions: Integers) -> Floats32:
    """``[filler, dim]`` mean vectors of fillers, less the means of the positions that they stand at.

    Layer 0 knows the position of a word, so that the mean of a rare word would be of its role as well.

    Args:
        vectors: ``[word, dim]``, of layer 0.
        fillers: ``[word]``.
        positions: ``[word]`` from 0.
    """
    centred = vectors - _means(vectors, positions)[positions]
    return np.asarray(_means(centred, fillers), dtype=np.float32)


def _means(vectors: Floats32, groups: Integers) -> Floats32:
    counts = np.bincount(groups)
    rows = sparse.csr_array((np.ones(len(groups), np.float32), (groups, np.arange(len(groups)))))
    return np.asarray((rows @ vectors) / np.maximum(counts, 1)[:, None], dtype=np.float32)
