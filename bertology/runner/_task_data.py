"""One task on one corpus: items of every split under one numbering of labels and word forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found
from bertology.corpora import Corpus, Sentences
from bertology.errors import BertologyError, CorpusError, FitError
from bertology.measures import control_labels
from bertology.probing import Examples, RepresentationProbe

Integers = NDArray[np.int64]
_HELD_OUT_EVERY = 10


@dataclass(frozen=True)
class Splits:
    """The sentences a probe is fitted on, chosen by, and scored on."""

    train: Sentences
    dev: Sentences
    test: Sentences
    notes: tuple[str, ...]

    @property
    def by_name(self) -> Mapping[str, Sentences]:
        """``train``, ``dev`` and ``test``, whatever the corpus calls them."""
        return {"train": self.train, "dev": self.dev, "test": self.test}


def choose_splits(corpus: Corpus, *, train: str, test: str) -> Splits:
    """The three splits of ``corpus``; without a dev split every tenth training sentence is held out in its place.

    Raises:
        NameNotFoundError: there is no train or test split of that name.
        CorpusError: one split would do two jobs, or is too small.
    """
    for role, name in (("train", train), ("test", test)):
        if name not in corpus:
            remedy = f"choose one to {role} on by --{role}-split, or give a corpus that has it"
            raise name_not_found(f"split of corpus {corpus.name}", name, corpus.splits, remedy=remedy)
    if train == test:
        raise CorpusError(
            f"split {train!r} cannot both train and test: choose another by --train-split or --test-split"
        )
    if "dev" in corpus and "dev" not in (train, test):
        return Splits(corpus[train], corpus["dev"], corpus[test], ())
    whole = corpus[train]
    held_out = set(range(_HELD_OUT_EVERY - 1, len(whole), _HELD_OUT_EVERY))
    if not held_out:
        raise CorpusError(f"split {train!r} of {corpus.name} has {len(whole)} sentences: too few to hold some out")
    kept = Sentences(whole[i] for i in range(len(whole)) if i not in held_out)
    note = f"no dev split: every {_HELD_OUT_EVERY}th sentence of {train} is held out to choose the strength by"
    return Splits(kept, Sentences(whole[i] for i in sorted(held_out)), corpus[test], (note,))


@dataclass(frozen=True)
class TaskData:
    """The items of one probe in all splits."""

    probe: RepresentationProbe
    splits: Splits
    items: Mapping[str, Examples]
    """By split: ``train``, ``dev`` and ``test``."""
    labels: tuple[str, ...]
    """Labels of train in order of first appearance, then those only seen elsewhere."""
    n_train_labels: int

    @classmethod
    def of(cls, probe: RepresentationProbe, splits: Splits) -> TaskData:
        """Ask the probe about every split.

        Raises:
            CorpusError: a split has no such labels.
            FitError: train has fewer than two labels.
        """
        found = {name: _ask(probe, name, sentences) for name, sentences in splits.by_name.items()}
        # Only labels that occur count: a vocabulary may list more.
        seen = dict.fromkeys(found["train"].values[code] for code in _by_first_use(found["train"].codes))
        if len(seen) < 2:
            raise FitError(
                f"task {probe.task}: train has the one label {next(iter(seen))!r}; give data with two or more"
            )
        every = dict(seen)
        for name in ("dev", "test"):
            every.update(dict.fromkeys(found[name].values[code] for code in _by_first_use(found[name].codes)))
        labels = tuple(every)
        return cls(probe, splits, {name: _renumbered(e, labels) for name, e in found.items()}, labels, len(seen))

    @property
    def train(self) -> Examples:
        """Items to fit on, labels numbered as in ``labels``."""
        return self.items["train"]

    @property
    def test(self) -> Examples:
        """Items to score on, labels numbered as in ``labels``."""
        return self.items["test"]

    def without(self, skipped: Mapping[str, Mapping[int, str]]) -> TaskData:
        """The same task without the items of some words, which are counted as skipped.

        Args:
            skipped: for each split, words and the reason why each is left out.

        Raises:
            CorpusError: a split has no item left.
        """
        items = {}
        for name, examples in self.items.items():
            reason_of = skipped[name]
            reasons = np.array([reason_of.get(word, "") for word in examples.words.tolist()], dtype=object)
            for reason in sorted(set(reasons) - {""}):
                keep = reasons != reason
                examples, reasons = examples.subset(keep, reason=reason), reasons[keep]
            if not len(examples):
                reason = next(iter(examples.skipped))
                raise CorpusError(f"task {self.probe.task}: no word of the {name} split has a vector ({reason})")
            items[name] = examples
        return replace(self, items=items)

    @cached_property
    def n_unseen_label(self) -> int:
        """Test items whose label train does not have."""
        return int((self.test.codes >= self.n_train_labels).sum())

    def targets(self, split: str) -> Integers:
        """``[item]`` labels to fit on or choose by: −1 for a label that train does not have."""
        codes = self.items[split].codes
        return np.where(codes < self.n_train_labels, codes, -1)

    def control(self, split: str, *, seed: int) -> Integers:
        """``[item]`` labels of the control task (Hewitt & Liang 2019), drawn as often as train's own."""
        shares = np.bincount(self.train.codes, minlength=self.n_train_labels)
        forms = self.splits.by_name[split].forms
        words = forms.codes[self.items[split].words]
        return control_labels(words, forms.values, shares, seed=seed)

    def word_forms(self) -> tuple[Integers, Integers, int]:
        """Word forms of train and test items under train's numbering (−1 for forms it lacks), and their number."""
        train, test = self.splits.train.forms, self.splits.test.forms
        number = {form: place for place, form in enumerate(train.values)}
        to_train = np.array([number.get(form, -1) for form in test.values], dtype=np.int64)
        return train.codes[self.train.words].astype(np.int64), to_train[test.codes[self.test.words]], len(number)


def _ask(probe: RepresentationProbe, split: str, sentences: Sentences) -> Examples:
    try:
        examples = probe.examples(sentences)
    except CorpusError as error:
        raise CorpusError(f"task {probe.task}, {split} split: {error}") from error
    if not len(examples):
        raise CorpusError(f"task {probe.task}: the {split} split has no item; give a corpus that has some")
    try:
        _ = examples.words
    except ValueError as error:
        raise BertologyError(f"task {probe.task}: {error}") from error
    return examples


def _by_first_use(codes: Integers) -> list[int]:
    distinct, first = np.unique(codes, return_index=True)
    return [int(code) for code in distinct[np.argsort(first)]]


def _renumbered(examples: Examples, labels: tuple[str, ...]) -> Examples:
    number = {label: place for place, label in enumerate(labels)}
    table = np.array([number.get(value, -1) for value in examples.values], dtype=np.int64)
    return Examples(examples.spans, table[examples.codes], labels, examples.clusters, examples.skipped)
