"""The sentences that a task is fitted on, chosen by and scored on, and the items that it brings itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertology._files import digest
from bertology.corpora import Corpus, Sentences
from bertology.errors import BertologyError, CorpusError, quoted

_HELD_OUT_EVERY = 10
T = TypeVar("T")


class TaskItems(Protocol):
    """Items of a task's own, such as the prompts of a cloze task."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything in them."""
        ...


@dataclass(frozen=True)
class Splits:
    """The sentences of each split, and the items that tasks bring themselves."""

    train: Sentences
    dev: Sentences
    test: Sentences
    notes: tuple[str, ...]
    items: Mapping[str, Any] = field(default_factory=dict)
    """By task, items of its own."""
    chosen_on: str = "dev"
    """What the corpus calls the split that is used to choose."""
    tested_on: str = "test"
    """What the corpus calls the split that is scored."""
    folds: tuple[Splits, ...] = ()
    """Of a cross-validation its folds, in each of which readouts are fitted apart; here all three splits are all of the
    sentences, and so they are in each fold, whose items are limited by ``within``."""
    fold: int | None = None
    """Which fold it is."""
    within: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Of a fold, by split the sentences that are in it."""
    _prepared: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def by_name(self) -> Mapping[str, Sentences]:
        """``train``, ``dev`` and ``test``, whatever the corpus calls them."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def prepared(self, key: Any, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for each key in this process and kept as long as the splits are.

        A :class:`bertology.BertologyError` is kept as well and raised again.
        """
        if key not in self._prepared:
            try:
                self._prepared[key] = make()
            except BertologyError as error:
                self._prepared[key] = error
        made: T = self._prepared[key]
        if isinstance(made, BertologyError):
            raise made
        return made

    @property
    def folds_fingerprint(self) -> str:
        """Hash of what is fitted on, chosen by and scored on in each fold."""
        return digest(fold.within[name].tobytes() for fold in self.folds for name in self.by_name)

    @property
    def n_repeated(self) -> int | None:
        """Number of texts of test that are in train as well, of folds in that of the same fold; None where nothing is
        fitted, and so no train is read."""

        def count() -> int | None:
            train, test = ([split.text(number) for number in range(len(split))] for split in (self.train, self.test))
            if not train:
                return None
            every = {name: np.ones(len(of), dtype=bool) for name, of in (("train", train), ("test", test))}
            repeated = 0
            for within in [fold.within for fold in self.folds] or [every]:
                known = set(itertools.compress(train, within["train"]))
                repeated += sum(text in known for text in itertools.compress(test, within["test"]))
            return repeated

        return self.prepared("texts of test in train", count)

    def __getstate__(self) -> dict[str, Any]:
        # What is made of the sentences is made again where they are sent to.
        return {**self.__dict__, "_prepared": {}}


def choose_folds(corpus: Corpus, n_folds: int, *, train: str, test: str) -> tuple[Corpus, Splits]:
    """The folds of a corpus without splits, or of train, dev and test together, and the corpus as their one split.

    Raises:
        CorpusError: there are too few groups, or sentences.
    """
    whole, folds = corpus.in_folds(n_folds, {train, "dev", test})
    ((name, sentences),) = whole.splits.items()
    sizes = [int(within["test"].sum()) for within in folds]
    note = f"{name} of {corpus.name}: {min(sizes):,} to {max(sizes):,} sentences in a fold"
    every = (sentences,) * 3
    parts = (Splits(*every, (note,), tested_on=name, fold=n, within=within) for n, within in enumerate(folds))
    return whole, Splits(*every, (note,), tested_on=name, folds=tuple(parts))


def choose_splits(corpus: Corpus, *, train: str, test: str) -> Splits:
    """The three splits of ``corpus``; without a dev split every tenth training sentence is held out in its place.

    Raises:
        NameNotFoundError: there is no train or test split of that name.
        CorpusError: one split would do two jobs, or is too small.
    """
    for role, name in (("train", train), ("test", test)):
        if name not in corpus:
            remedy = f"choose one to {role} on by --{role}-split, or give a corpus that has it"
            raise corpus.split_not_found(name, remedy=remedy)
    if train == test:
        remedy = "choose another by --train-split or --test-split"
        raise CorpusError(f"split {quoted(train)} cannot both train and test: {remedy}")
    if "dev" in corpus and "dev" not in (train, test):
        return Splits(corpus[train], corpus["dev"], corpus[test], (), tested_on=test)
    whole = corpus[train]
    held_out = set(range(_HELD_OUT_EVERY - 1, len(whole), _HELD_OUT_EVERY))
    if not held_out:
        n = len(whole)
        raise CorpusError(f"split {quoted(train)} of {corpus.name} has {n} sentences: too few to hold some out")
    kept = Sentences(whole[i] for i in range(len(whole)) if i not in held_out)
    none = "no dev split is left" if "dev" in corpus else "no dev split"
    note = f"{none}: every {_HELD_OUT_EVERY}th sentence of {train} is held out to choose by"
    return Splits(kept, Sentences(whole[i] for i in sorted(held_out)), corpus[test], (note,), tested_on=test)


def splits_to_read(corpus: Corpus, *, test: str, choose: bool) -> Splits:
    """The splits of ``corpus`` where nothing is fitted: what is scored and, to choose by, dev or else train.

    Raises:
        NameNotFoundError: there is no test split of that name.
    """
    if test not in corpus:
        remedy = "choose another by --test-split, or give a corpus that has it"
        raise corpus.split_not_found(test, remedy=remedy)
    nothing = Sentences()
    if not choose:
        return Splits(nothing, nothing, corpus[test], (), tested_on=test)
    to_choose = next((name for name in ("dev", "train") if name in corpus and name != test), None)
    if to_choose is None:
        note = f"{corpus.name} has no split to choose heads on: they are chosen on {test}, which flatters them"
        return Splits(nothing, nothing, corpus[test], (note,), tested_on=test)
    notes = () if to_choose == "dev" else (f"no dev split: heads are chosen on {to_choose}",)
    return Splits(nothing, corpus[to_choose], corpus[test], notes, chosen_on=to_choose, tested_on=test)
