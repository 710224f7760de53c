"""One task on one corpus: items of every split under one numbering of labels and word forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest
from bertology.corpora import Sentences
from bertology.encoders.alignment import SHARED
from bertology.errors import CorpusError, FitError, cut, quoted
from bertology.families.alignment import DIVIDED, Reasons
from bertology.families.splits import Splits
from bertology.measures.baselines import control_labels
from bertology.probing import Examples, Probe, RepresentationProbe, TreeExamples, is_installed, settings_of
from bertology.readouts import readout_kind

Integers = NDArray[np.int64]
Labels = NDArray[np.int64] | NDArray[np.bool_]
# Between the spans of an item's form: no word has a line break in it.
_SPAN = "\n"


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
        """The items of every split; raises as :func:`task_data`."""
        by_split = {
            name: _within(probe, name, splits, _ask(probe, name, sentences))
            for name, sentences in splits.by_name.items()
        }
        train = by_split["train"]
        for name, examples in by_split.items():
            if (examples.n_spans, examples.is_multi_label) != (train.n_spans, train.is_multi_label):
                raise CorpusError(f"task {probe.task}: the items of the {name} split are not of the kind of train's")
        # Only labels that occur count: a vocabulary may list more.
        seen = _occurring(train)
        if len(seen) < 2:
            raise FitError(f"task {probe.task}: train has the one label {quoted(seen[0])}; give data with two or more")
        labels = tuple(dict.fromkeys([*seen, *_occurring(by_split["dev"]), *_occurring(by_split["test"])]))
        return cls(probe, splits, {name: _renumbered(e, labels) for name, e in by_split.items()}, labels, len(seen))

    @property
    def trees(self) -> Mapping[str, TreeExamples] | None:
        """The items by split where they are whole sentences with trees; None where they are not."""
        trees = {name: examples for name, examples in self.items.items() if isinstance(examples, TreeExamples)}
        return trees or None

    @property
    def train(self) -> Examples:
        """Items to fit on, labels numbered as in ``labels``."""
        return self.items["train"]

    @property
    def test(self) -> Examples:
        """Items to score on, labels numbered as in ``labels``."""
        return self.items["test"]

    def without(
        self, skipped: Mapping[str, Reasons], joined: Mapping[str, frozenset[int]] = MappingProxyType({})
    ) -> TaskData:
        """The same task without the items that need some words, given by split with the reason why each is left out.

        Such items are counted as skipped; of trees the other words stay, see :meth:`TreeExamples.without_words`. Words
        that share all their subwords with another are read nonetheless: a span is left out if it has some of such words
        but not all of them, as its vectors are then those of another span.

        Args:
            skipped: words of each split, and why they are left out.
            joined: words of each split whose subwords are those of the word before them.
        """
        items: dict[str, Examples] = {}
        for name, examples in self.items.items():
            words = skipped.get(name, {})
            if isinstance(examples, TreeExamples):
                items[name] = examples.without_words(words)
            else:
                items[name] = _without_words(examples, words, joined.get(name, frozenset()))
            if not len(items[name]):
                reason = next(iter(items[name].skipped))
                raise CorpusError(f"task {self.probe.task}: no word of the {name} split has a vector ({reason})")
        return replace(self, items=items)

    @cached_property
    def n_unseen_label(self) -> int:
        """Test items with a label that train does not have; trees are no labels to have been seen."""
        if self.trees is not None:
            return 0
        if self.test.is_multi_label:
            return int(self.test.codes[:, self.n_train_labels :].any(axis=1).sum())
        return int((self.test.codes >= self.n_train_labels).sum())

    def targets(self, split: str) -> Labels:
        """What to fit on or choose by.

        Returns:
            ``[item]`` labels, −1 for one that train does not have; or ``[item, label]`` which of train's labels each
            item has.
        """
        codes = self.items[split].codes
        if codes.ndim == 2:
            return codes[:, : self.n_train_labels]
        return np.where(codes < self.n_train_labels, codes, -1)

    def control(self, split: str, *, seed: int) -> Labels:
        """Labels of the control task, as :meth:`targets` (Hewitt & Liang 2019): drawn as often as train's own.

        Every written form has one label wherever it stands; of items of several words, or two spans, the form is all
        of them.
        Where an item may have several labels, whole sets of them are drawn.
        """
        forms, vocabulary = self._forms[split]
        labels = self.targets("train")
        if labels.ndim == 1:
            return control_labels(forms, vocabulary, np.bincount(labels, minlength=self.n_train_labels), seed=seed)
        sets, times = np.unique(labels, axis=0, return_counts=True)
        return np.asarray(sets[control_labels(forms, vocabulary, times, seed=seed)], dtype=np.bool_)

    def word_forms(self) -> tuple[Integers, Integers, int]:
        """Written forms of train and test items under train's numbering (−1 for forms it lacks), and their number."""
        train, known = self._forms["train"]
        test, forms = self._forms["test"]
        number = {form: place for place, form in enumerate(known)}
        to_train = np.array([number.get(form, -1) for form in forms], dtype=np.int64)
        return train, to_train[test], len(number)

    @cached_property
    def _forms(self) -> Mapping[str, tuple[Integers, Sequence[str]]]:
        """For each split ``[item]`` the place of each item's written form in the split's vocabulary of forms."""
        return {name: _forms_of(examples, self.splits.by_name[name]) for name, examples in self.items.items()}


def task_data(probe: Probe, splits: Splits) -> TaskData:
    """The items of a probe of words, spans or sentences, made once for these splits.

    Raises:
        CorpusError: a split has no such labels.
        FitError: train has fewer than two labels, the probe is not about sentences of a corpus, or its readout does not
            read what its items are.
    """
    if not isinstance(probe, RepresentationProbe):
        raise FitError(f"task {probe.task} puts texts to the model: its items have no vectors that could be read")
    data: TaskData = splits.prepared(("task data", *_key(probe)), lambda: TaskData.of(probe, splits))
    if (data.trees is not None) != (readout_kind(probe.readout).reads == "trees"):
        items, remedy = ("labels", "linear") if data.trees is None else ("trees", "structural")
        problem = f"readout {probe.readout} does not read its items, which are {items}: take {remedy}"
        raise FitError(f"task {probe.task}: {problem}")
    return data


def items_fingerprint(probe: Probe, splits: Splits) -> str:
    """Hash of the items of a probe in every split, and of what it leaves out; raises as :func:`task_data`."""

    def parts() -> Iterator[bytes]:
        for split, examples in task_data(probe, splits).items.items():
            for name, value in sorted(vars(examples).items()):
                yield f"{split} {name}".encode()
                plain = dict(value) if isinstance(value, Mapping) else value
                yield plain.tobytes() if isinstance(plain, np.ndarray) else canonical_json(plain)

    return splits.prepared(("items fingerprint", *_key(probe)), lambda: digest(parts()))


def _key(probe: Probe) -> tuple[object, ...]:
    """Distinguishes the items of a probe: a process of a cluster keeps splits longer than a notebook its class."""
    return type(probe), probe.task, probe.version, settings_of(probe)


def _forms_of(examples: Examples, sentences: Sentences) -> tuple[Integers, Sequence[str]]:
    forms = sentences.written
    if examples.are_words:
        return forms.codes[examples.words].astype(np.int64), forms.values
    code_of: dict[tuple[tuple[int, ...], ...], int] = {}
    words = forms.codes.tolist()
    codes = [
        code_of.setdefault(tuple(tuple(words[first:last]) for first, last in spans), len(code_of))
        for spans in examples.spans.tolist()
    ]
    vocabulary = [_SPAN.join(" ".join(forms.values[w] for w in span) for span in spans) for spans in code_of]
    return np.array(codes, dtype=np.int64), vocabulary


def _without_words(examples: Examples, skipped: Reasons, joined: frozenset[int]) -> Examples:
    """The items that need none of some words; the others are counted by the reason of their first such word."""
    missing = np.array(sorted(word for word, reason in skipped.items() if reason != SHARED), dtype=np.int64)
    is_divided = np.isin(examples.spans, np.array(sorted(joined), dtype=np.int64)).any(axis=(1, 2))
    reasons = np.where(is_divided, SHARED if examples.are_words else DIVIDED, "").astype(object)
    for span in range(examples.n_spans - 1, -1, -1):
        first = np.searchsorted(missing, examples.spans[:, span, 0])
        inside = first < np.searchsorted(missing, examples.spans[:, span, 1])
        for item in np.flatnonzero(inside).tolist():
            reasons[item] = skipped[int(missing[first[item]])]
    for reason in sorted(set(reasons) - {""}):
        keep = reasons != reason
        examples, reasons = examples.subset(keep, reason=reason), reasons[keep]
    return examples


def _ask(probe: RepresentationProbe, split: str, sentences: Sentences) -> Examples:
    where = f"task {probe.task}, {split} split"
    try:
        examples = probe.examples(sentences)
    except CorpusError as error:
        raise CorpusError(f"{where}: {error}") from error
    except Exception as error:
        if is_installed(probe):
            raise
        kind = type(error).__name__
        raise FitError(f"{where}: {type(probe).__name__}.examples() failed ({kind}: {cut(str(error))})") from error
    if isinstance(examples, Examples) and readout_kind(probe.readout).reads != "numbers":
        examples = examples.without_ignored()
    if not isinstance(examples, Examples):
        problem = f"{type(probe).__name__}.examples() returned {quoted(examples)}"
        raise FitError(f"{where}: {problem}; it should return Examples, such as those of word_examples")
    if not len(examples):
        raise CorpusError(f"task {probe.task}: the {split} split has no item; give a corpus that has some")
    starts, ends, clusters = examples.spans[..., 0], examples.spans[..., 1], examples.clusters
    if starts.min() < 0 or (starts >= ends).any() or ends.max() > sentences.n_words:
        raise FitError(f"{where}: spans should be of one word or more, from 0 to {sentences.n_words}, end exclusive")
    if clusters.min() < 0 or clusters.max() >= len(sentences):
        raise FitError(f"{where}: clusters should be numbers of sentences, 0 to {len(sentences) - 1}")
    return examples


def _within(probe: RepresentationProbe, split: str, splits: Splits, examples: Examples) -> Examples:
    """The items of a split: of a fold those whose sentences are in it, all of them elsewhere."""
    if splits.fold is None:
        return examples
    kept = examples.subset(splits.within[split][examples.clusters], reason="in another part")
    if not len(kept):
        problem = f"no item in the {split} part of fold {splits.fold + 1}"
        raise CorpusError(f"task {probe.task}: {problem}; ask for other folds, or give more sentences")
    # What is skipped in all of the sentences is counted in one of the folds.
    return replace(kept, skipped={} if splits.fold else examples.skipped)


def _occurring(examples: Examples) -> list[str]:
    """The labels that items have, in order of first use."""
    if examples.is_multi_label:
        return [examples.values[code] for code in np.flatnonzero(examples.codes.any(axis=0)).tolist()]
    distinct, first = np.unique(examples.codes, return_index=True)
    return [examples.values[code] for code in distinct[np.argsort(first)].tolist()]


def _renumbered(examples: Examples, labels: tuple[str, ...]) -> Examples:
    number = {label: place for place, label in enumerate(labels)}
    table = np.array([number.get(value, -1) for value in examples.values], dtype=np.int64)
    if not examples.is_multi_label:
        return replace(examples, codes=table[examples.codes], values=labels)
    codes = np.zeros((len(examples), len(labels)), dtype=np.bool_)
    codes[:, table[table >= 0]] = examples.codes[:, table >= 0]
    return replace(examples, codes=codes, values=labels)
