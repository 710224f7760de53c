"""Questions with candidates: one of a few words is looked at most; and what can be had without a head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.attention._ratios import HeadRatios
from bertology.attention.arcs._sums import text_ratios
from bertology.corpora import Sentences

Integers = NDArray[np.int64]
Pick = Literal["nearest", "same_form", "rule"]
"""The nearest candidate; or the nearest of the same form as the asked word, whatever its case, and where there is none
the nearest of all; or the nearest of those of the lowest rank."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Words that are asked about, each with the words that are candidates. Words are numbered through all sentences."""

    asked: Integers
    """``[question]`` the word."""
    is_in: NDArray[np.bool_]
    """``[question, group]``"""
    names: tuple[str, ...]
    """Of the groups."""
    questions: Integers
    """``[candidate]`` number of the question, ascending."""
    words: Integers
    """``[candidate]`` the word, in the sentence of the asked one and another than that."""
    is_right: NDArray[np.bool_]
    """``[candidate]``"""
    ranks: Integers | None = None
    """``[candidate]`` which ones a rule would take, from 0; None where there is no rule."""

    def read_from(self, windows: Integers | None) -> Candidates:
        """The same, with the questions about words that a model does not read in no group.

        Args:
            windows: ``[word]`` the window that each is read from, −1 for words that are not read; None if all are.
        """
        return self if windows is None else replace(self, is_in=self.is_in & (windows[self.asked] >= 0)[:, None])

    @cached_property
    def starts(self) -> Integers:
        """``[question + 1]`` the first candidate of each question, and how many there are."""
        return np.searchsorted(self.questions, np.arange(len(self.asked) + 1)).astype(np.int64)

    @cached_property
    def by_word(self) -> Integers:
        """``[question]`` places of the questions in the order of the words that are asked."""
        return np.argsort(self.asked, kind="stable").astype(np.int64)

    def __len__(self) -> int:
        return len(self.asked)


def pick_baseline(candidates: Candidates, sentences: Sentences, *, pick: Pick, metric: str) -> HeadRatios:
    """Choose by place, form or rule alone (Clark et al. 2019, section 4.3).

    Args:
        candidates: what is asked.
        sentences: the text.
        pick: which candidate is chosen; of two that are as near the one before.
        metric: what the ratios are called.

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
