"""Questions about the words of a text, and what can be answered without a head: arcs, and words with candidates."""

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
        found = [(name, asked, answers) for name, asked, answers in groups if len(asked)]
        if not found:
            raise CorpusError("no arc between words to ask about")
        return cls(
            asked=np.concatenate([asked for _, asked, _ in found]),
            answers=np.concatenate([answers for _, _, answers in found]),
            groups=np.repeat(np.arange(len(found)), [len(asked) for _, asked, _ in found]),
            names=tuple(name for name, *_ in found),
            looked_at=looked_at & {name for name, *_ in found},
        )

    def read_from(self, windows: Integers | None) -> Arcs:
        """The arcs whose asked word a model reads, in the same groups. Answers that it cannot read remain.

        Args:
            windows: ``[word]`` the window that each is read from, −1 for words that are not read; None if all are.
        """
        if windows is None:
            return self
        kept = windows[self.asked] >= 0
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

    def __len__(self) -> int:
        return len(self.asked)


def offset_baseline(
    arcs: Arcs, sentences: Sentences, *, chosen_on: Arcs, metric: str, farthest: int = 3
) -> tuple[HeadRatios, dict[str, int]]:
    """The score of answering with the word at a fixed offset, for each group the best one on another text (Clark et al.
    2019, section 4.2).

    Args:
        arcs: the questions.
        sentences: the text that they are about.
        chosen_on: arcs of the text on which offsets are chosen; a group that has none there takes the offset that is
            best over all groups.
        metric: of the ratios.
        farthest: offsets from ``-farthest`` to ``farthest`` are tried, 0 left out; of equally good ones the nearest is
            taken, then the one before.

    Returns:
        Ratios of the whole text, by group; and the offsets.
    """
    offsets = sorted((d for d in range(-farthest, farthest + 1) if d), key=lambda d: (abs(d), d))
    gaps = chosen_on.answers - chosen_on.asked
    # A question has one answer at most at each offset, so arcs may be counted for questions.
    counts = np.stack([np.bincount(chosen_on.groups[gaps == d], minlength=len(chosen_on.names)) for d in offsets])
    overall = int(counts.sum(1).argmax())
    there = np.bincount(chosen_on.groups, minlength=len(chosen_on.names)) > 0
    best = {chosen_on.names[group]: int(counts[:, group].argmax()) for group in np.flatnonzero(there).tolist()}
    chosen = {name: offsets[best.get(name, overall)] for name in arcs.names}
    wanted = np.array([chosen[name] for name in arcs.names])[arcs.groups]
    right = (arcs.answers - arcs.asked) == wanted
    of_sentence = sentences.sentence_of_word[arcs.asked].astype(np.int64)
    ratios = text_ratios(
        arcs.names, sentences, of_sentence, arcs.groups, right.astype(float), arcs.opens.astype(float), metric=metric
    )
    return ratios, chosen


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
        """The same questions; those about words that a model does not read belong to no group.

        Args:
            windows: ``[word]`` the window that each is read from, −1 for words that are not read; None if all are.
        """
        return self if windows is None else replace(self, is_in=self.is_in & (windows[self.asked] >= 0)[:, None])

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
    """The score of choosing a candidate by place, form or rule alone (Clark et al. 2019, section 4.3).

    Args:
        candidates: the questions.
        sentences: the text.
        pick: which candidate is chosen; of two that are as near, the one before.
        metric: of the ratios.

    Returns:
        Ratios of the whole text, by group.

    Raises:
        ValueError: a rule is asked for where candidates have no ranks.
    """
    asked, ranks = candidates.asked[candidates.questions], np.zeros(len(candidates.words), dtype=np.int64)
    far = 2 * np.abs(asked - candidates.words) + (candidates.words > asked)
    if pick == "same_form":
        folded: dict[str, int] = {}
        codes = np.array([folded.setdefault(form.casefold(), len(folded)) for form in sentences.forms.values])
        codes = codes[sentences.forms.codes]
        ranks = (codes[asked] != codes[candidates.words]).astype(np.int64)
    elif pick == "rule":
        if candidates.ranks is None:
            raise ValueError("these candidates have no ranks to go by")
        ranks = candidates.ranks
    order = np.lexsort((far, ranks, candidates.questions))
    right = candidates.is_right[order][candidates.starts[:-1]]
    numbers, groups = np.nonzero(candidates.is_in)
    of_sentence = sentences.sentence_of_word[candidates.asked[numbers]].astype(np.int64)
    ones = np.ones(len(numbers))
    return text_ratios(
        candidates.names, sentences, of_sentence, groups, right[numbers].astype(float), ones, metric=metric
    )
