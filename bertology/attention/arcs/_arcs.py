"""Arcs between the words of a text, and the best that a fixed offset does on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertology.attention._ratios import HeadRatios
from bertology.attention.arcs._sums import text_ratios
from bertology.corpora import Sentences
from bertology.errors import CorpusError

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arcs:
    """Words that are asked about, and the words that are right answers. Words are numbered through all sentences.

    A word that has several answers in one group is one question, answered right by any of them. Arcs are held in the
    order of group and asked word, however they are given.
    """

    asked: Integers
    """``[arc]``"""
    answers: Integers
    """``[arc]`` in the same sentence."""
    groups: Integers
    """``[arc]`` place in ``names``."""
    names: tuple[str, ...]
    """Of the groups."""
    looked_at: frozenset[str] = frozenset()
    """Groups whose question is which word looks at the asked one most; of the others it is at which word the asked one
    looks most."""

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
        """Those that ask about words which a model reads, in the same groups. Answers that it cannot read remain.

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
        """``[arc]`` places of the arcs in the order of the words that are asked."""
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
    """Answer with the word at a fixed offset, of each group the offset that is best elsewhere (Clark et al. 2019,
    section 4.2).

    Args:
        arcs: what is asked.
        sentences: the text that they are arcs of.
        chosen_on: arcs of the text on which offsets are chosen; a group of which it has none takes the offset that is
            best over all of it.
        metric: what the ratios are called.
        farthest: offsets from ``-farthest`` to ``farthest`` are tried, 0 left out; of equally good ones the nearest,
            then the one before.

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
