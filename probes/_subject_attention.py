"""Attention from the main auxiliary to nouns: does it tell the subject from the others?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bertology.attention import arcs
from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.measures import sum_metric
from bertology.probing import AttentionProbe, HeadBaseline, Windows

if TYPE_CHECKING:
    from bertology.attention import HeadRatios, MakeStatistic

_NAMES = ("all", "first noun is the subject", "first noun is not the subject", "noun in between")


@dataclass(frozen=True)
class SubjectAttention(AttentionProbe):
    """How much of the main auxiliary's attention to nouns misses the subject?

    Lin, Tan & Frank (2019) put the question to sentences with agreement and with reflexives, made for it;
    here it is put to all sentences whose main auxiliary and subject noun are marked and that have another noun.
    """

    task = "word_order:attention"
    version = 1
    question = "How much of the main auxiliary's attention to nouns misses the subject?"
    reference = "Lin et al. 2019"
    metrics = (
        sum_metric("confusion_bits", "mean of −log₂ of the subject's share of attention", higher_is_better=False),
        sum_metric("confusion_above_chance_bits", "the same, less that of equal shares", higher_is_better=False),
    )

    def statistics(self, sentences: Sentences) -> Sequence[MakeStatistic]:
        """Confusion of heads and of layers."""
        bits, above = (metric.name for metric in self.scores)
        return [partial(arcs.CandidateConfusion, candidates=subjects(sentences), metrics=(bits, above))]

    def baseline(
        self,
        name: HeadBaseline,
        *,
        chosen_on: Sentences,
        sentences: Sentences,
        chosen_windows: Windows = None,
        windows: Windows = None,
    ) -> Sequence[HeadRatios]:
        """None: chance is part of the statistics."""
        return []


def subjects(sentences: Sentences) -> arcs.Candidates:
    """Main auxiliaries, with the nouns of their sentences as candidates and the subject as the correct one.

    Raises:
        CorpusError: no sentence has both marked, and another noun.
    """
    nouns = dict(sentences.targets("subject_noun"))
    asked: list[int] = []
    questions: list[int] = []
    words: list[int] = []
    is_right: list[bool] = []
    is_in: list[tuple[bool, ...]] = []
    for number, auxiliaries in sentences.targets("main_auxiliary"):
        start, some = int(sentences.starts[number]), nouns.get(number, ())
        if len(some) > 1:
            places = [start + target.span1[0] for target in some]
            right = [target.label == "yes" for target in some]
            (word,) = (start + target.span1[0] for target in auxiliaries if target.label == "yes")
            subject = places[right.index(True)]
            low, high = sorted((subject, word))
            is_in.append((True, right[0], not right[0], any(low < place < high for place in places)))
            words += places
            is_right += right
            questions += [len(asked)] * len(places)
            asked.append(word)
    if not asked:
        remedy = "give a treebank as word_order:CORPUS"
        raise CorpusError(f"no sentence has its main auxiliary and its subject noun marked, and another noun: {remedy}")
    columns = (np.array(column, dtype=np.int64) for column in (asked, questions, words))
    of_word, of_candidate, nouns_asked = columns
    return arcs.Candidates(of_word, np.array(is_in), _NAMES, of_candidate, nouns_asked, np.array(is_right))
