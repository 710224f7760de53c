"""Trees over the words of a text, against which heads are scored, and scores that need no head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertology.attention._ratios import HeadRatios, Integers, text_ratios
from bertology.corpora import Sentences

WAYS = ("maximum attention", "spanning tree")
"""How edges are made of a head's weights."""


@dataclass(frozen=True, eq=False)
class TextTrees:
    """The trees of some sentences, between the words that count."""

    starts: Integers
    """``[sentence + 1]`` number of the first word of each sentence of the text, and the number of words."""
    heads: Integers
    """``[word]`` heads as CoNLL-U numbers them."""
    scored: NDArray[np.bool_]
    """``[word]`` which words count; the others are in no tree."""
    sentences: Integers
    """``[tree]`` numbers of the sentences whose trees are scored, ascending."""

    def some(self, n: int, *, seed: int = 0) -> TextTrees:
        """At most ``n`` of the trees, drawn at random: the same ones every time."""
        if len(self.sentences) <= n:
            return self
        drawn = np.random.default_rng(seed).choice(self.sentences, n, replace=False)
        return TextTrees(self.starts, self.heads, self.scored, np.sort(drawn))

    def read_from(self, windows: Integers | None, *, every_word: bool = False) -> TextTrees:
        """The trees whose words a model reads from one window.

        Args:
            windows: ``[word]`` the window that each is read from, −1 for words that are not read; None if each
                sentence is read from one.
            every_word: whether words that do not count must be read, too.
        """
        if windows is None:
            return self
        kept = []
        for sentence in self.sentences.tolist():
            own = slice(self.starts[sentence], self.starts[sentence + 1])
            needed = windows[own] if every_word else windows[own][self.scored[own]]
            read = windows[own][windows[own] >= 0]
            kept.append(len(needed) > 0 and needed.min() >= 0 and read.min() == read.max())
        return replace(self, sentences=self.sentences[np.array(kept, dtype=bool)])

    @cached_property
    def is_asked(self) -> NDArray[np.bool_]:
        """``[sentence]`` whether its tree is scored."""
        asked = np.zeros(len(self.starts) - 1, dtype=bool)
        asked[self.sentences] = True
        return asked

    def words(self, sentence: int) -> Integers:
        """Places in the sentence of the words that count."""
        return np.flatnonzero(self.scored[self.starts[sentence] : self.starts[sentence + 1]])

    def parents(self, sentence: int) -> tuple[Integers, int]:
        """The head of each word that counts, among these words, −1 where it has none; and which word is the root.

        Where the root itself does not count, the first word without a head stands in for it.
        """
        heads = self.heads[self.starts[sentence] : self.starts[sentence + 1]]
        words = self.words(sentence)
        number = np.full(len(heads) + 1, -1)
        number[words + 1] = np.arange(len(words))
        parents = number[heads[words]]
        roots = np.flatnonzero(heads[words] == 0)
        return parents, int(roots[0] if len(roots) else np.flatnonzero(parents < 0)[0])


def chain_baseline(
    trees: TextTrees, sentences: Sentences, *, chosen_on: TextTrees, metric: str
) -> tuple[HeadRatios, int]:
    """The score of joining each word that counts to the one at a fixed distance: 1, a chain, or what is better on
    another text.

    Args:
        trees: of the text.
        sentences: the text.
        chosen_on: trees of the text on which the distance is chosen, from 1 to 3.
        metric: of the ratios.

    Returns:
        Ratios of the whole text, the same for both ways of making edges; and the distance.
    """
    distance = 1 + int(np.argmax([sum(over for over, _ in _counts(chosen_on, d)) for d in (1, 2, 3)]))
    over, under = np.array(list(_counts(trees, distance)), dtype=np.float64).reshape(-1, 2).T
    groups = np.repeat(np.arange(len(WAYS)), len(over))
    of_sentence = np.tile(trees.sentences, len(WAYS))
    shares = [np.tile(values, len(WAYS)) for values in (over, under)]
    return text_ratios(WAYS, sentences, of_sentence, groups, *shares, metric=metric), distance


def next_word_baseline(trees: TextTrees, sentences: Sentences, *, metric: str) -> HeadRatios:
    """The share of words whose head is the next word, of words that count and have a head, whether that counts or not.

    Args:
        trees: of the text.
        sentences: the text.
        metric: of the ratio; its name is ``next word``.
    """
    asked = trees.scored & (trees.heads > 0) & trees.is_asked[sentences.sentence_of_word]
    places = np.arange(len(trees.heads)) - trees.starts[sentences.sentence_of_word]
    right = asked & (trees.heads == places + 2)
    groups, of_sentence = np.zeros(len(asked), dtype=np.int64), sentences.sentence_of_word.astype(np.int64)
    shares = right.astype(float), asked.astype(float)
    return text_ratios(("next word",), sentences, of_sentence, groups, *shares, metric=metric)


def _counts(trees: TextTrees, distance: int) -> list[tuple[int, int]]:
    """Edges of each tree that join words at a distance, and all of its edges."""
    found = []
    for sentence in trees.sentences.tolist():
        parents, _ = trees.parents(sentence)
        gaps = np.abs(parents - np.arange(len(parents)))[parents >= 0]
        found.append((int((gaps == distance).sum()), len(gaps)))
    return found
