"""Word order: does a layer find a word by where it stands, or by what it is in the tree?

Lin, Tan & Frank (2019), *Open Sesame: Getting Inside BERT's Linguistic Knowledge*: for every layer a logistic
regression of word vectors, whether a word is the main auxiliary (``main_auxiliary``) or the subject noun
(``subject_noun``); the answer of a sentence is the word with the highest score, of equals each by its share. It is
trained on sentences in which the first auxiliary, or the first noun, is the one, and tested on those in which it is
not: training does not decide between order and structure, so that the answer shows which of both the readout found in
the vectors. ``word_order:3`` is the third word of every sentence: order alone.

What to compare with: the first and the last word of the kind, the most frequent place (``majority``), a logistic
regression on word forms and places (``lexical``), layer 0, and random weights. The table by group has the sentences of
test in which order and structure agree, which show whether the readout learned its task, and those in which the last
word of the kind, or forms and places, are wrong as well: elsewhere a right answer need not come from structure. In the
authors' sentences the last auxiliary is right in 83 %, forms and places in 67 % (no main auxiliary of training is the
fourth word, where most auxiliaries of relative clauses are) and for subject nouns in all (the first nouns of compounds
are never seen in training). ``word_order:attention`` asks attention heads instead.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bertology import attention
from bertology.attention import AttentionProbe
from bertology.attention.arcs.questions import subject_candidates
from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.geometry import GeometryProbe
from bertology.geometry.probes import TextItems
from bertology.geometry.word_order import OrderItems, by_forms_and_places, marked_words, nth_words, order_scores
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums, by_layer, ratio_sums
from bertology.probing import ControlNote, GeometryCounts, ProbeFamily, Splits
from bertology.probing.items import SplitVectors, SplitWords

_KINDS = {"main_auxiliary": "auxiliary", "subject_noun": "noun"}


@dataclass(frozen=True)
class WordOrder(GeometryProbe):
    """Is a word found by its place in the sentence, or by its place in the tree?"""

    kind: str = "main_auxiliary"
    """``main_auxiliary``, ``subject_noun``, or the number of a word."""
    task_form = "word_order:{kind}"
    fixed_fields = ("kind",)
    subject = "syntax"
    reference = "Lin et al. 2019"
    metrics = (share_metric("accuracy", "share of sentences whose word is found where order and structure disagree"),)
    reads = ("train", "dev", "test")
    fits = "a logistic regression on vectors of words"

    @property
    def baselines(self) -> tuple[ControlNote, ...]:
        """The task of the n-th word has no baselines: its place is all there is to find."""
        if self._place:
            return ()
        kind = _KINDS[self.kind]
        return (
            ControlNote("majority", "majority", "the word at the place that is most frequent in train"),
            ControlNote("first", "first", f"the first {kind} of the sentence"),
            ControlNote("last", "last", f"the last {kind} of the sentence"),
            ControlNote("lexical", "lexical baseline", "a logistic regression on word forms and their places"),
        )

    @property
    def _place(self) -> int:
        """The n-th word, or 0."""
        return 0 if self.kind in _KINDS else int(self.kind)

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of the sentences that are trained or tested on."""
        found = {}
        for split, text in sentences.items():
            items = nth_words(text, self._place) if self._place else marked_words(text, self.kind)
            self._check(items, split)
            if words is not None:
                items = items.readable(words[split])
            found[split] = items if split == "test" else items.of(items.gold == items.first)
        skipped = {}
        if self._place:
            skipped[f"sentence of fewer than {self._place} words"] = len(sentences["test"]) - len(found["test"].gold)
        counts = GeometryCounts(int(found["test"].asked.sum()), len(found["train"].gold), skipped=skipped)
        return TextItems({split: some.words for split, some in found.items()}, counts, found)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Predictions of a logistic regression of the vectors of each layer."""
        found = items.data

        def measure(layer: int) -> Iterator[LayerSums]:
            of_layer = {
                split: read.of(layer)[np.searchsorted(read.words, found[split].words)]
                for split, read in vectors.items()
            }
            return self._sums(found["test"].right(order_scores(of_layer, found)), found, sentences)

        return by_layer((layer, measure(layer)) for layer in vectors["test"].layers)

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The first or last word of the kind, the most frequent place, or word forms with their places."""
        found, test = items.data, items.data["test"]
        if name == "lexical":
            right = by_forms_and_places(found, sentences)
        elif name == "majority":
            train = found["train"]
            right = test.gold - test.starts == Counter((train.gold - train.starts).tolist()).most_common(1)[0][0]
        else:
            right = getattr(test, name) == test.gold
        return self._sums(right, found, sentences)

    def _check(self, items: OrderItems, split: str) -> None:
        if self._place and not len(items.gold):
            raise CorpusError(f"no sentence of {split} has {self._place} words: give a smaller number, or longer ones")
        kind, asked = _KINDS.get(self.kind), self.kind.replace("_", " ")
        if not len(items.gold):
            remedy = "give a treebank as word_order:CORPUS, or the sentences of Lin et al. 2019"
            raise CorpusError(f"no sentence of {split} has its {asked} marked: {remedy}")
        agree = items.gold == items.first
        if kind and split == "test" and agree.all():
            problem = f"in every sentence of test the first {kind} is the {asked}, so that order and structure agree"
            raise CorpusError(f"{problem}: give a treebank as word_order:CORPUS")
        if split != "test" and not agree.any():
            raise CorpusError(f"in no sentence of {split} the first {kind} is the {asked}: give some to learn from")

    def _sums(
        self, right: NDArray[np.float64 | np.bool_], items: Mapping[str, OrderItems], sentences: Splits
    ) -> Iterator[LayerSums]:
        test = items["test"]
        groups = {"": test.asked}
        if not self._place:
            groups["order and structure agree"] = ~test.asked
            groups["last is wrong too"] = test.asked & (test.gold != test.last)
            groups["words alone are wrong"] = test.asked & (by_forms_and_places(items, sentences) < 1)
        for name, which in groups.items():
            if not name or which.any():
                yield ratio_sums("accuracy", right * which, which, group=name)


@dataclass(frozen=True)
class SubjectAttention(AttentionProbe):
    """How much of the main auxiliary's attention to nouns misses the subject?

    Lin, Tan & Frank (2019) put the question to sentences with agreement and with reflexives, made for it;
    here it is put to all sentences whose main auxiliary and subject noun are marked and that have another noun.
    """

    task = "word_order:attention"
    subject = "syntax"
    reference = "Lin et al. 2019"
    metrics = (
        sum_metric("confusion_bits", "mean −log₂ of the subject's share of attention to nouns", higher_is_better=False),
        sum_metric("confusion_above_chance_bits", "confusion minus that of uniform attention", higher_is_better=False),
    )

    def statistics(self, sentences: Sentences) -> "Sequence[attention.maps.MakeStatistic]":
        """Confusion of heads and of layers."""
        bits, above = (metric.name for metric in self.scores)
        confusion = attention.arcs.heads.CandidateConfusion
        return [partial(confusion, arcs=subject_candidates(sentences), metrics=(bits, above))]


def _nth(name: str) -> WordOrder | None:
    is_place = name.isascii() and name.isdecimal() and 0 < int(name[:9]) == int(name)
    return WordOrder(name) if is_place else None


PROBE = ProbeFamily.among(
    [*map(WordOrder, (*_KINDS, "2")), SubjectAttention()],
    argument="kind of word or a number",
    further=_nth,
)
