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

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology import geometry
from bertology.corpora import Sentences
from bertology.errors import CorpusError, NameNotFoundError, quoted
from bertology.measures import share_metric
from bertology.probing import ControlNote, GeometryBaseline, GeometryCounts, GeometryProbe, Probe, ProbeFamily

from ._subject_attention import SubjectAttention

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

_QUESTION = "Is a word found by its place in the sentence, or by its place in the tree?"
_REFERENCE = "Lin et al. 2019"
_KINDS = {"main_auxiliary": "auxiliary", "subject_noun": "noun"}
_SHARE = 1e-9
"""Scores that differ by less are equal."""


@dataclass(frozen=True)
class WordOrder(GeometryProbe):
    """Which word of a sentence is the main auxiliary, the subject noun, or the n-th?"""

    task: str = "word_order:main_auxiliary"
    version = 1
    subject = "syntax"
    question = _QUESTION
    reference = _REFERENCE
    metrics = (share_metric("accuracy", "share of sentences whose word is found, where order and structure part"),)
    reads = ("train", "dev", "test")

    fits = "a logistic regression on vectors of words"

    @property
    def baselines(self) -> tuple[ControlNote, ...]:
        """Of the n-th word none: its place is all there is to find."""
        if self._place:
            return ()
        kind = _KINDS[self._name]
        return (
            ControlNote("majority", "majority", "the word at the place that is most frequent in train"),
            ControlNote("first", "first", f"the first {kind} of the sentence"),
            ControlNote("last", "last", f"the last {kind} of the sentence"),
            ControlNote("lexical", "words alone", "a logistic regression on word forms and their places"),
        )

    @property
    def _name(self) -> str:
        return self.task.partition(":")[2]

    @property
    def _place(self) -> int:
        """The n-th word, or 0."""
        return 0 if self._name in _KINDS else int(self._name)

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words of the sentences that are trained or tested on."""
        return {split: items.words for split, items in self._items(sentences).items()}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Sentences."""
        items = self._items(sentences, words)
        skipped = {}
        if self._place:
            skipped[f"sentence of fewer than {self._place} words"] = len(sentences["test"]) - len(items["test"].gold)
        return GeometryCounts(int(items["test"].asked.sum()), len(items["train"].gold), skipped=skipped)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """By a logistic regression of the vectors of each layer."""
        items = self._items(sentences, {split: of_split.words for split, of_split in vectors.items()})
        layers, right = vectors["test"].layers, []
        for layer in layers:
            of_layer = {
                split: read.of(layer)[np.searchsorted(read.words, items[split].words)]
                for split, read in vectors.items()
            }
            right.append(items["test"].right(_scores(of_layer, items)))
        return self._sums(layers, np.stack(right), items, sentences)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The first or last word of the kind, the most frequent place, or word forms with their places."""
        items = self._items(sentences, words)
        test = items["test"]
        if name == "lexical":
            right = _by_forms_and_places(items, sentences)
        elif name == "majority":
            train = items["train"]
            right = test.gold - test.starts == Counter((train.gold - train.starts).tolist()).most_common(1)[0][0]
        else:
            right = getattr(test, name) == test.gold
        return self._sums((None,), right[None].astype(np.float64), items, sentences)

    def _items(
        self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]] | None = None
    ) -> dict[str, _Items]:
        """By split the sentences that are used: of train and dev those in which order and structure agree."""
        found = {}
        for split, text in sentences.items():
            items = _nth_words(text, self._place) if self._place else _marked_words(text, self._name)
            self._check(items, split)
            if words is not None:
                items = items.readable(words[split])
            found[split] = items if split == "test" else items.of(items.gold == items.first)
        return found

    def _check(self, items: _Items, split: str) -> None:
        if self._place and not len(items.gold):
            raise CorpusError(f"no sentence of {split} has {self._place} words: give a smaller number, or longer ones")
        kind, asked = _KINDS.get(self._name), self._name.replace("_", " ")
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
        self,
        layers: tuple[int | None, ...],
        right: NDArray[np.float64],
        items: Mapping[str, _Items],
        sentences: Mapping[str, Sentences],
    ) -> Iterator[LayerSums]:
        def sums(which: NDArray[np.bool_], group: str = "") -> LayerSums:
            under = which[None].astype(np.float64)
            return geometry.LayerSums("accuracy", layers, right * under, under, "sentences", group)

        test = items["test"]
        yield sums(test.asked)
        if not self._place:
            groups = {
                "order and structure agree": ~test.asked,
                "last is wrong too": test.asked & (test.gold != test.last),
                "words alone are wrong": test.asked & (_by_forms_and_places(items, sentences) < 1),
            }
            yield from (sums(which, name) for name, which in groups.items() if which.any())


@dataclass(frozen=True, eq=False)
class _Items:
    """Sentences with the word that is asked for; words are numbered in the split."""

    gold: NDArray[np.int64]
    """``[item]``, as the following."""
    first: NDArray[np.int64]
    """The first word of the kind; that one, where place is all that is asked about."""
    last: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    """One after its last word."""
    asked: NDArray[np.bool_]
    """Whether the score is of it: order and structure part."""

    def of(self, chosen: NDArray[np.bool_]) -> _Items:
        ends, asked = self.ends[chosen], self.asked[chosen]
        return _Items(self.gold[chosen], self.first[chosen], self.last[chosen], self.starts[chosen], ends, asked)

    def readable(self, words: NDArray[np.int64]) -> _Items:
        """Those of which every word is among ``words``, ascending."""
        inside = np.searchsorted(words, self.ends) - np.searchsorted(words, self.starts)
        return self.of(inside == self.ends - self.starts)

    @property
    def words(self) -> NDArray[np.int64]:
        """Numbers of all words, sentence by sentence."""
        lengths = self.ends - self.starts
        return np.repeat(self.ends - lengths.cumsum(), lengths) + np.arange(lengths.sum())

    @property
    def is_gold(self) -> NDArray[np.int64]:
        """``[1, word]`` whether each of :attr:`words` is the one."""
        return np.isin(self.words, self.gold).astype(np.int64)[None]

    def right(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """``[item]`` whether the word of the highest score ``[word]`` is the one; of equals its share."""
        lengths = self.ends - self.starts
        bounds = np.append(0, lengths.cumsum()[:-1])
        highest = scores >= np.repeat(np.maximum.reduceat(scores, bounds), lengths) - _SHARE
        return np.add.reduceat(highest * self.is_gold[0], bounds) / np.add.reduceat(highest, bounds, dtype=np.int64)


def _nth_words(sentences: Sentences, n: int) -> _Items:
    starts, ends = sentences.starts[:-1], sentences.starts[1:]
    gold = starts + n - 1
    return _Items(gold, gold, gold, starts, ends, np.ones(len(gold), bool)).of(gold < ends)


def _marked_words(sentences: Sentences, name: str) -> _Items:
    rows = []
    for number, targets in sentences.targets(name):
        start, end = sentences.starts[number : number + 2]
        places = [start + target.span1[0] for target in targets]
        asked = [place for place, target in zip(places, targets, strict=True) if target.label == "yes"]
        if len(asked) != 1 or any(target.label not in ("yes", "no") for target in targets):
            what = f"{len(asked)} words with the label 'yes' in column {quoted(name)}"
            raise CorpusError(f"sentence {sentences.id(number)} has {what}: give one, and 'no' for others of its kind")
        rows.append((asked[0], min(places), max(places), start, end))
    gold, first, last, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return _Items(gold, first, last, starts, ends, gold != first)


def _scores(vectors: Mapping[str, Any], items: Mapping[str, _Items]) -> NDArray[np.float64]:
    """``[word]`` logits of the words of test, by a logistic regression whose strength does best on dev."""
    from bertology.readouts import ArrayFeatures, Targets, get_readout  # imports torch

    source = {split: ArrayFeatures(of_split[None]) for split, of_split in vectors.items()}
    train, dev = (Targets(items[split].is_gold, 2) for split in ("train", "dev"))
    fitted = get_readout("linear").fit(source["train"], train, dev=source["dev"], dev_targets=dev)
    yes, no = (
        fitted.log_probs(source["test"], np.full((1, len(vectors["test"])), label, dtype=np.int64)) for label in (1, 0)
    )
    return np.asarray((yes - no)[0, 0])


def _by_forms_and_places(items: Mapping[str, _Items], sentences: Mapping[str, Sentences]) -> NDArray[np.float64]:
    """``[item]`` whether a logistic regression on word forms and places finds the word of a sentence of test."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    def facts(split: str) -> list[dict[str, float]]:
        forms, some = sentences[split].forms, items[split]
        places = some.words - np.repeat(some.starts, some.ends - some.starts)
        return [
            {f"word {forms.values[code]}": 1.0, f"place {place}": 1.0}
            for code, place in zip(forms.codes[some.words].tolist(), places.tolist(), strict=True)
        ]

    features = DictVectorizer()
    model = LogisticRegression(max_iter=1000).fit(features.fit_transform(facts("train")), items["train"].is_gold[0])
    return items["test"].right(np.asarray(model.decision_function(features.transform(facts("test"))), dtype=np.float64))


def _probe(name: str) -> Probe:
    name = name.lower().replace("-", "_")
    if name == "attention":
        return SubjectAttention()
    if name not in _KINDS and not (name.isascii() and name.isdecimal() and 0 < int(name[:9]) == int(name)):
        known = "give main_auxiliary, subject_noun, attention, or a number such as 2"
        raise NameNotFoundError(f"unknown question about word order {quoted(name)}: {known}")
    return WordOrder(f"word_order:{name}")


PROBE = ProbeFamily(
    argument="kind of word, or its number",
    instances=("main_auxiliary", "subject_noun", "2", "attention"),
    question=_QUESTION,
    reference=_REFERENCE,
    make=_probe,
)
