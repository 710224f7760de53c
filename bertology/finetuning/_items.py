"""What is learned: the texts, words or questions of each split with their labels, numbers or answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json
from bertology._names import name_not_found
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.encoders import HeadKind
from bertology.errors import BertologyError, CorpusError, FitError, quoted
from bertology.families.model_corpus import choose_splits
from bertology.probing import (
    Examples,
    Probe,
    RepresentationProbe,
    SentenceProbe,
    TreeExamples,
    get_probe,
    target_examples,
)

Integers = NDArray[np.int64]
Kind = Literal["labels", "numbers", "tags", "answers"]
"""One label of a text or a pair, one number, a label of each word, or a part of a text."""
PAIR_NUMBER = "pair_number"
_TEXTS = "texts"
_TAKEN = "is none to fine-tune for: take one label of each word, sentence or pair, a number of the latter, or span"


@dataclass(frozen=True)
class Items:
    """The items of one split."""

    sentences: Sentences
    ids: tuple[str, ...]
    """``[item]``"""
    cluster: Integers
    """``[item]`` what is resampled together: the sentence of a word, the text of a question, else the item."""
    place: Integers
    """``[item]`` number of the word, for labels of words, else of the sentence."""
    gold: tuple[str, ...]
    """``[item]`` label; a number as text; of questions all true answers as a list in JSON."""
    answers: tuple[tuple[Target, ...], ...] = ()
    """``[item]`` of questions, their answers, none for a question without."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of items that were left out, by reason."""

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, is_left_out: NDArray[np.bool_], reason: str) -> Items:
        """The items but for some ``[item]``, which are counted under a reason."""
        kept, n = np.flatnonzero(~is_left_out), int(is_left_out.sum())
        if not n:
            return self
        ids, gold = (tuple(column[item] for item in kept.tolist()) for column in (self.ids, self.gold))
        skipped = {**self.skipped, reason: self.skipped.get(reason, 0) + n}
        cluster, place = self.cluster[kept], self.place[kept]
        return replace(self, ids=ids, gold=gold, cluster=cluster, place=place, skipped=skipped)

    @property
    def are_pairs(self) -> bool:
        """Whether each item is two texts."""
        return bool(len(self)) and _parts(self.sentences[int(self.cluster[0])])[1] is not None

    def texts(self) -> tuple[list[str], list[str] | None]:
        """``[item]`` the text of each item, of pairs and questions the first, and the second if there is one."""
        pairs = [_parts(self.sentences[int(number)]) for number in self.place]
        seconds = [second for _, second in pairs if second is not None]
        return [first for first, _ in pairs], seconds or None


def _parts(sentence: Sentence) -> tuple[str, str | None]:
    spans = [target.span1 for target in sentence.targets.get(_TEXTS, ())]
    if len(spans) != 2:
        return sentence.text, None
    middle = sentence.spans[spans[1][0]][0]
    return sentence.text[:middle].rstrip(), sentence.text[middle:]


def second_start(sentence: Sentence) -> int:
    """Where in its text the second of two texts begins."""
    return sentence.spans[sentence.targets[_TEXTS][1].span1[0]][0]


@dataclass(frozen=True)
class TuningTask:
    """A task with its items of every split."""

    name: str
    version: int
    kind: Kind
    splits: Mapping[str, Items]
    """``train``, ``dev`` and, where it has labels, ``test``."""
    labels: tuple[str, ...]
    """Labels of train in alphabetical order; none of numbers and answers."""
    notes: tuple[str, ...] = ()
    """How splits were made, and which of them have no labels."""
    has_unanswered: bool = False
    """Whether some questions of train have no answer, so that none may be predicted."""
    n_repeated: int = 0
    """Number of texts of test that are in train as well."""

    @property
    def head(self) -> HeadKind:
        """The head of transformers that predicts this."""
        return "words" if self.kind == "tags" else "answers" if self.kind == "answers" else "sentence"

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, and how many items of each split were left out, and why."""
        skipped = ((name, *one) for name, items in self.splits.items() for one in items.skipped.items())
        return (*self.notes, *(f"{name}: {number:,} left out ({reason})" for name, reason, number in skipped))

    @property
    def train(self) -> Items:
        """Items to learn."""
        return self.splits["train"]


def tuning_task(
    task: str, corpus: Corpus, *, train: str = "train", test: str = "test", sentences: int | None = None
) -> TuningTask:
    """The items of a task in a corpus.

    Args:
        task: the name of a probe of words, sentences or pairs (``pos``, ``word_label:COLUMN``,
            ``sentence_label:COLUMN``, ``pair_label:COLUMN``, ``sentence_number:COLUMN``), ``pair_number:COLUMN``, or
            ``span``, answers to questions.
        corpus: one without splits is divided 8 : 1 : 1; without a split called dev, every tenth sentence of train is
            held out in its place.
        train: the split to learn.
        test: the split to score on besides dev, if there is one of that name with labels.
        sentences: at most so many of each split, the first ones.

    Raises:
        NameNotFoundError: there is no such task, or no split to train on.
        CorpusError: train or dev lacks the labels.
        FitError: the training items have one label only.
    """
    corpus = corpus.divided() if (train, test) == ("train", "test") and train not in corpus else corpus
    chosen = corpus if test in corpus else replace(corpus, splits={**corpus.splits, test: Sentences()})
    found = choose_splits(chosen, train=train, test=test)
    cut = {name: split[:sentences] if sentences else split for name, split in found.by_name.items()}
    read = _Reader(task)
    splits, notes = {}, [f"splits of {corpus.name}: {corpus.notes['splits']}"] if "splits" in corpus.notes else []
    notes += found.notes
    for name, split in cut.items():
        if name == "test" and not len(split):
            continue
        try:
            splits[name] = read.items(split)
        except CorpusError as error:
            if name != "test":
                raise CorpusError(f"task {read.name}, split {name} of {corpus.name}: {error}") from None
            notes.append(f"test is not scored: {error}")
            continue
    labels = tuple(sorted(set(splits["train"].gold))) if read.kind in ("labels", "tags") else ()
    if read.kind in ("labels", "tags") and len(labels) < 2:
        raise FitError(f"task {read.name}: train has the one label {quoted(labels[0])}; give data with two or more")
    has_unanswered = not all(splits["train"].answers)
    read_splits = replace(found, train=cut["train"], dev=cut["dev"], test=cut["test"], _prepared={})
    n_repeated = read_splits.n_repeated or 0
    return TuningTask(read.name, read.version, read.kind, splits, labels, tuple(notes), has_unanswered, n_repeated)


def items_of(task: str, sentences: Sentences) -> Items:
    """The items of a task in one split; arguments and errors are those of :func:`tuning_task`."""
    return _Reader(task).items(sentences)


def full_name(task: str) -> str:
    """The name of a task as records have it; errors are those of :func:`tuning_task` that need no data."""
    return _Reader(task).name


class _Reader:
    """Finds the items of a task in sentences."""

    def __init__(self, task: str) -> None:
        stem, _, column = task.strip().partition(":")
        stem = stem.lower().replace("-", "_")
        self.version = 1
        self._probe: Probe | None = None
        self._column = column
        if stem == "span":
            self._column = column or "answer"
            self.kind: Kind = "answers"
            self.name = task if column else stem
            return
        if stem == PAIR_NUMBER:
            if not column:
                raise BertologyError("task pair_number needs a column of numbers after a colon: pair_number:score")
            self.name, self.kind = f"{stem}:{column}", "numbers"
            return
        self._probe = probe = get_probe(task)
        self.name, self.version = probe.task, probe.version
        self.kind = "numbers" if stem == "sentence_number" else "labels" if isinstance(probe, SentenceProbe) else "tags"
        if not isinstance(probe, RepresentationProbe) or (self.kind == "tags" and "r2" in probe.metrics):
            raise BertologyError(f"task {self.name} {_TAKEN}")

    def items(self, sentences: Sentences) -> Items:
        if self.kind == "answers":
            return self._answers(sentences)
        examples = self._examples(sentences)
        gold = tuple(examples.values[code] for code in examples.codes.tolist())
        if self.kind == "numbers":
            _check_numbers(gold)
        place, clusters = examples.clusters, examples.clusters
        ids = [sentences.id(number) or str(number) for number in clusters.tolist()]
        if self.kind == "tags":
            place = examples.words
            inside = place - sentences.starts[clusters]
            ids = [f"{name}:{word}" for name, word in zip(ids, inside.tolist(), strict=True)]
        return Items(sentences, tuple(ids), clusters, place.astype(np.int64), gold, skipped=examples.skipped)

    def _examples(self, sentences: Sentences) -> Examples:
        if isinstance(self._probe, RepresentationProbe):
            examples = self._probe.examples(sentences)
        else:
            examples = target_examples(sentences, self._column, spans=2)
        whole = examples.are_words if self.kind == "tags" else _are_whole(examples, sentences)
        if not whole or examples.is_multi_label or isinstance(examples, TreeExamples):
            raise BertologyError(f"task {self.name} {_TAKEN}")
        return examples if self.kind == "numbers" else examples.without_ignored()

    def _answers(self, sentences: Sentences) -> Items:
        numbers, answers = [], []
        for number, targets in sentences.targets(self._column):
            numbers.append(number)
            answers.append(tuple(target for target in targets if target.span2 is not None))
        if not numbers:
            raise name_not_found("column of answers", self._column, sentences.target_layers)
        texts: dict[str, int] = {}
        clusters = [texts.setdefault(_parts(sentences[number])[1] or "", len(texts)) for number in numbers]
        ids = tuple(sentences.id(number) or str(number) for number in numbers)
        return Items(
            sentences,
            ids,
            np.array(clusters, dtype=np.int64),
            np.array(numbers, dtype=np.int64),
            tuple(canonical_json([target.label for target in of]).decode() for of in answers),
            tuple(answers),
        )


def _are_whole(examples: Examples, sentences: Sentences) -> bool:
    """Whether every item is all of a sentence, or both texts of a pair, and has one label."""
    starts, spans = sentences.starts, examples.spans
    first, last = starts[examples.clusters], starts[examples.clusters + 1]
    touch = spans[:, 0, 1] == spans[:, -1, 0] if examples.n_spans == 2 else True
    whole = (spans[:, 0, 0] == first) & (spans[:, -1, 1] == last) & touch
    return bool(np.all(whole)) and len(np.unique(examples.clusters)) == len(examples)


def _check_numbers(values: Sequence[str]) -> None:
    for value in values:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise CorpusError(f"{quoted(value)} is no number; take sentence_label or pair_label for classes")
