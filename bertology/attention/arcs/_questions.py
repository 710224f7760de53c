"""Questions about the words of a text, arcs, words with candidates and trees, and what is answered without a head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.attention._ratios import HeadRatios, Integers, text_ratios
from bertology.corpora import Sentences
from bertology.errors import CorpusError

Pick = Literal["nearest", "same_form", "rule"]
"""Which candidate is chosen without a head: the nearest; the nearest of the same form as the asked word, whatever its
case, and where there is none the nearest of all; or the nearest of those of the lowest rank."""

NOT_APART = -2
"""In the place of the window of a word that shares all its subwords with another, and so is not asked about."""

WAYS = ("maximum attention", "spanning tree")
"""How edges are made of a head's weights."""


@dataclass(frozen=True, eq=False)
class Arcs:
    """Pairs of a word that is asked about and a word that is a correct answer, in groups such as relations.

    Words are numbered through all sentences. A word that has several answers in one group is one question, which any of
    them answers. Arcs are kept in the order of group and asked word, however they are given.
    """

    asked: Integers
    """``[arc]`` the word that is asked about."""
    answers: Integers
    """``[arc]`` the word that is the answer, in the same sentence."""
    groups: Integers
    """``[arc]`` place in ``names``."""
    names: tuple[str, ...]
    """Names of the groups."""
    looked_at: frozenset[str] = frozenset()
    """Groups whose question is which word attends to the asked one most; in the others it is which word the asked one
    attends to most."""

    def __post_init__(self) -> None:
        order = np.lexsort((self.answers, self.asked, self.groups))
        for name in ("asked", "answers", "groups"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64)[order])

    @classmethod
    def of(cls, groups: Iterable[tuple[str, Integers, Integers]], *, looked_at: frozenset[str] = frozenset()) -> Arcs:
        """Arcs from a name, asked words and answers of each group.

        Raises:
            CorpusError: there is no arc.
        """
        present = [group for group in groups if len(group[1])]
        if not present:
            raise CorpusError("no arc between words to ask about")
        names, asked, answers = zip(*present, strict=True)
        return cls(
            asked=np.concatenate(asked),
            answers=np.concatenate(answers),
            groups=np.repeat(np.arange(len(names)), [len(words) for words in asked]),
            names=names,
            looked_at=looked_at & set(names),
        )

    def read_from(self, windows: Integers | None) -> Arcs:
        """The arcs whose asked word a model reads, in the same groups. Answers that it cannot read remain.

        Args:
            windows: ``[word]`` the window that each is read from, −1 for words that are not read, ``NOT_APART`` for
                those of :meth:`told_apart`; None if all are read.
        """
        if windows is None:
            return self
        apart = self.told_apart(not_apart(windows))
        return apart._some(windows[apart.asked] >= 0)

    def told_apart(self, words: Integers) -> Arcs:
        """The arcs from and to none of some words, which a model cannot tell from others."""
        return self._some(~(np.isin(self.asked, words) | np.isin(self.answers, words))) if len(words) else self

    def _some(self, kept: NDArray[np.bool_]) -> Arcs:
        return replace(self, asked=self.asked[kept], answers=self.answers[kept], groups=self.groups[kept])

    @cached_property
    def opens(self) -> NDArray[np.bool_]:
        """``[arc]`` whether it is the first of its question."""
        same = (np.diff(self.asked) == 0) & (np.diff(self.groups) == 0)
        return np.concatenate([np.ones(min(len(self.asked), 1), dtype=bool), ~same])

    @cached_property
    def by_word(self) -> Integers:
        """``[arc]`` places of the arcs in the order of the asked words."""
        return np.argsort(self.asked, kind="stable").astype(np.int64)

    @cached_property
    def in_columns(self) -> NDArray[np.bool_]:
        """``[group]`` whether its questions are answered by columns of maps."""
        return np.array([name in self.looked_at for name in self.names], dtype=bool)


def not_apart(windows: Integers) -> Integers:
    """The words that are marked ``NOT_APART``."""
    return np.flatnonzero(windows == NOT_APART).astype(np.int64)


def offset_baseline(
    arcs: Arcs, sentences: Sentences, *, chosen_on: Arcs, metric: str, farthest: int = 3
) -> tuple[HeadRatios, dict[str, int]]:
    """The score of answering with the word at a fixed offset, for each group the best one on another text (Clark et al.
    2019, section 4.2): ratios of the whole text, by group; and the offsets.

    Args:
        arcs: the questions.
        sentences: the text that they are about.
        chosen_on: arcs of the text on which offsets are chosen; a group that has none there takes the offset that is
            best over all groups.
        metric: of the ratios.
        farthest: offsets from ``-farthest`` to ``farthest`` are tried, 0 left out; of equally good ones the nearest is
            taken, then the one before.
    """
    offsets = sorted((d for d in range(-farthest, farthest + 1) if d), key=lambda d: (abs(d), d))
    gaps = chosen_on.answers - chosen_on.asked
    # A question has one answer at most at each offset, so arcs may be counted for questions.
    counts = np.stack([np.bincount(chosen_on.groups[gaps == d], minlength=len(chosen_on.names)) for d in offsets])
    overall = int(counts.sum(1).argmax())
    best = {chosen_on.names[group]: int(counts[:, group].argmax()) for group in np.unique(chosen_on.groups).tolist()}
    chosen = {name: offsets[best.get(name, overall)] for name in arcs.names}
    right = (arcs.answers - arcs.asked) == np.array([chosen[name] for name in arcs.names])[arcs.groups]
    of_sentence = sentences.sentence_of_word[arcs.asked]
    return text_ratios(arcs.names, sentences, of_sentence, arcs.groups, right, arcs.opens, metric=metric), chosen


@dataclass(frozen=True, eq=False)
class Candidates:
    """Questions about words, each with words that are candidates. Words are numbered through all sentences."""

    asked: Integers
    """``[question]`` the word that is asked about."""
    is_in: NDArray[np.bool_]
    """``[question, group]`` whether a question belongs to a group."""
    names: tuple[str, ...]
    """Names of the groups."""
    questions: Integers
    """``[candidate]`` number of the question, ascending."""
    words: Integers
    """``[candidate]`` the word, in the sentence of the asked one and different from it."""
    is_right: NDArray[np.bool_]
    """``[candidate]`` whether it is a correct answer."""
    ranks: Integers | None = None
    """``[candidate]`` order in which a rule prefers them, from 0; None where there is no rule."""

    def read_from(self, windows: Integers | None) -> Candidates:
        """The same questions; those about words that a model does not read, by ``windows`` as in :class:`Arcs`, belong
        to no group."""
        if windows is None:
            return self
        apart = self.told_apart(not_apart(windows))
        return replace(apart, is_in=apart.is_in & (windows[self.asked] >= 0)[:, None])

    def told_apart(self, words: Integers) -> Candidates:
        """The same questions; those about some words, or whose correct answers are among them, belong to no group."""
        if not len(words):
            return self
        is_left_out = np.isin(self.asked, words)
        is_left_out[self.questions[self.is_right & np.isin(self.words, words)]] = True
        return replace(self, is_in=self.is_in & ~is_left_out[:, None])

    @cached_property
    def starts(self) -> Integers:
        """``[question + 1]`` the first candidate of each question, and the number of candidates."""
        return np.searchsorted(self.questions, np.arange(len(self.asked) + 1)).astype(np.int64)

    @cached_property
    def by_word(self) -> Integers:
        """``[question]`` places of the questions in the order of the asked words."""
        return np.argsort(self.asked, kind="stable").astype(np.int64)

    def __len__(self) -> int:
        return len(self.asked)


def pick_baseline(candidates: Candidates, sentences: Sentences, *, pick: Pick, metric: str) -> HeadRatios:
    """The score of choosing a candidate by place, form or rule alone (Clark et al. 2019, section 4.3), of two that are
    as near the one before: ratios of the whole text, by group.

    Raises:
        ValueError: a rule is asked for where candidates have no ranks.
    """
    asked, ranks = candidates.asked[candidates.questions], np.zeros(len(candidates.words), dtype=np.int64)
    far = 2 * np.abs(asked - candidates.words) + (candidates.words > asked)
    if pick == "same_form":
        folded: dict[str, int] = {}
        of_form = np.array([folded.setdefault(form.casefold(), len(folded)) for form in sentences.forms.values])
        codes = of_form[sentences.forms.codes]
        ranks = (codes[asked] != codes[candidates.words]).astype(np.int64)
    elif pick == "rule":
        if candidates.ranks is None:
            raise ValueError("these candidates have no ranks to go by")
        ranks = candidates.ranks
    order = np.lexsort((far, ranks, candidates.questions))
    right = candidates.is_right[order][candidates.starts[:-1]]
    numbers, groups = np.nonzero(candidates.is_in)
    of_sentence, shares = sentences.sentence_of_word[candidates.asked[numbers]], (right[numbers], np.ones(len(numbers)))
    return text_ratios(candidates.names, sentences, of_sentence, groups, *shares, metric=metric)


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
        return replace(self, sentences=np.sort(np.random.default_rng(seed).choice(self.sentences, n, replace=False)))

    def read_from(self, windows: Integers | None, *, every_word: bool = False) -> TextTrees:
        """The trees whose words a model reads from one window.

        Args:
            windows: ``[word]`` the window that each is read from, −1 for words that are not read, ``NOT_APART`` for
                those of :meth:`told_apart`; None if each sentence is read from one.
            every_word: whether words that do not count must be read, too.
        """
        if windows is None:
            return self
        apart, kept = self.told_apart(not_apart(windows)), []
        for sentence in apart.sentences.tolist():
            words = slice(self.starts[sentence], self.starts[sentence + 1])
            needed = windows[words] if every_word else windows[words][apart.scored[words]]
            read = windows[words][windows[words] >= 0]
            kept.append(len(needed) > 0 and needed.min() >= 0 and read.min() == read.max())
        return replace(apart, sentences=apart.sentences[np.array(kept, dtype=bool)])

    def told_apart(self, words: Integers) -> TextTrees:
        """The same trees, in which some words do not count; those of which fewer than two words count are left out."""
        if not len(words):
            return self
        scored = self.scored.copy()
        scored[words] = False
        n_scored = np.add.reduceat(np.append(scored, 0), self.starts[:-1])[self.sentences]
        return replace(self, scored=scored, sentences=self.sentences[n_scored > 1])

    @cached_property
    def is_asked(self) -> NDArray[np.bool_]:
        """``[sentence]`` whether its tree is scored."""
        return np.isin(np.arange(len(self.starts) - 1), self.sentences)

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
    """The score of joining each word that counts to the one at a fixed distance, from 1, a chain, to 3, whichever is
    best on another text: ratios of the whole text, the same for both ways of making edges; and the distance."""
    distance = 1 + int(np.argmax([sum(over for over, _ in _counts(chosen_on, d)) for d in (1, 2, 3)]))
    counts = np.array(_counts(trees, distance), dtype=np.float64).reshape(-1, 2).T
    groups = np.repeat(np.arange(len(WAYS)), counts.shape[1])
    of_sentence, shares = np.tile(trees.sentences, len(WAYS)), np.tile(counts, len(WAYS))
    return text_ratios(WAYS, sentences, of_sentence, groups, *shares, metric=metric), distance


def next_word_baseline(trees: TextTrees, sentences: Sentences, *, metric: str) -> HeadRatios:
    """The share of words whose head is the next word, of words that count and have a head, whether that counts or not:
    a ratio with the name ``next word``."""
    asked = trees.scored & (trees.heads > 0) & trees.is_asked[sentences.sentence_of_word]
    places = np.arange(len(trees.heads)) - trees.starts[sentences.sentence_of_word]
    right, groups = asked & (trees.heads == places + 2), np.zeros(len(asked), dtype=np.int64)
    return text_ratios(("next word",), sentences, sentences.sentence_of_word, groups, right, asked, metric=metric)


def _counts(trees: TextTrees, distance: int) -> list[tuple[int, int]]:
    """Edges of each tree that join words at a distance, and all of its edges."""
    counts = []
    for sentence in trees.sentences.tolist():
        parents, _ = trees.parents(sentence)
        gaps = np.abs(parents - np.arange(len(parents)))[parents >= 0]
        counts.append((int((gaps == distance).sum()), len(gaps)))
    return counts
