"""Families that fit readouts to the stored vectors of items: the items of a task, their vectors, and the base class."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from bertology import activations, readouts
from bertology._files import canonical_json, digest
from bertology.corpora import Sentences, ShardedSentences
from bertology.encoders import ModelShape
from bertology.encoders.batching import SHARED
from bertology.errors import BertologyError, CorpusError, FitError, cut, listed, quoted
from bertology.families import rows
from bertology.families.contract import CellGrid, Family, FitCells, Problem, Resources, Scoring, TaskRows
from bertology.families.model_corpus import DIVIDED, ModelCorpus, Reasons, Signal, Splits
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import ByControl, Columns
from bertology.measures import Metric
from bertology.measures.baselines import Labels, control_labels, fraction_mask
from bertology.measures.metrics import METRICS, CountKind
from bertology.probing import Examples, Probe, RepresentationProbe
from bertology.probing.items import Integers, TreeExamples, coded
from bertology.probing.probes import SentenceProbe, is_installed, settings_of
from bertology.readouts import ReadoutKind, make_readout, readout_kind
from bertology.results import Predictions, ResultRow, predictions
from bertology.results.cells import Cell
from bertology.results.rows import ComparisonRow

if TYPE_CHECKING:
    from bertology.readouts.erasure import Erasure


_NONE: Mapping[str, Any] = MappingProxyType({})
_MOST_DRAWS = 100  # draws of a control task until it has two labels
_APART = 1_000_000  # between the seeds of these draws


@dataclass(frozen=True)
class TaskData:
    """The items of one probe in all splits."""

    probe: RepresentationProbe
    splits: Splits
    items: Mapping[str, Examples]  # items of `train`, `dev` and `test`, their labels numbered as in `labels`
    labels: tuple[str, ...]  # labels of train in order of first appearance, then those only seen elsewhere
    n_train_labels: int
    times: Integers | None = None  # [train item] number of items that each stands for, where train is in shards

    @classmethod
    def of(cls, probe: RepresentationProbe, splits: Splits, of_train: Examples | None = None) -> "TaskData":
        """Items of every split, of train those given; a CorpusError if those of two splits differ in kind."""
        items, occurring = dict[str, Examples](), dict[str, list[str]]()
        for split in splits.by_name:
            examples = items[split] = (split == "train" and of_train) or items_of(probe, split, splits)
            train = items["train"]
            if (examples.n_spans, examples.is_multi_label) != (train.n_spans, train.is_multi_label):
                raise CorpusError(f"task {probe.task}: the items of the {split} split are not of the kind of train's")
            # Only labels that occur count: a vocabulary may list more.
            codes: Any
            if examples.is_multi_label:
                codes = np.flatnonzero(examples.codes.any(axis=0))
            else:
                distinct, first = np.unique(examples.codes, return_index=True)
                codes = distinct[np.argsort(first)]
            occurring[split] = list(map(examples.values.__getitem__, codes.tolist()))
        if len(seen := occurring["train"]) < 2:
            raise FitError(f"task {probe.task}: train has the one label {quoted(seen[0])}; give data with two or more")
        labels = tuple(dict.fromkeys([*seen, *occurring["dev"], *occurring["test"]]))
        number = dict(zip(labels, itertools.count(), strict=False))
        for split, examples in items.items():
            table = np.array(list(map(number.get, examples.values, itertools.repeat(-1))), dtype=np.int64)
            if examples.is_multi_label:
                numbered: Labels = np.zeros((len(examples), len(labels)), dtype=np.bool_)
                numbered[:, table[table >= 0]] = examples.codes[:, table >= 0]
            else:
                numbered = table[examples.codes]
            items[split] = replace(examples, codes=numbered, values=labels)
        return cls(probe, splits, items, labels, len(seen))

    @cached_property
    def trees(self) -> Mapping[str, TreeExamples] | None:
        """The items by split where they are whole sentences with trees; None where they are not."""
        items: Any = self.items
        return items if isinstance(self.train, TreeExamples) else None

    @property
    def train(self) -> Examples:
        """Items to fit on."""
        return self.items["train"]

    @property
    def test(self) -> Examples:
        """Items to score on."""
        return self.items["test"]

    @cached_property
    def kind(self) -> predictions.Items:
        """Whether items are words (or trees of them), whole sentences, halves of sentences, or other spans."""
        if self.trees is not None or self.train.are_words:
            return "words"
        if not fill_sentences(self.train, self.splits.train):
            return "spans"
        return "pairs" if self.train.n_spans == 2 else "sentences"

    @property
    def are_compared(self) -> bool:
        """Whether the items are pairs of texts, of whose vectors also difference and product are read."""
        return isinstance(self.probe, SentenceProbe) and self.train.n_spans == 2

    def without(self, skipped: Mapping[str, Reasons], joined: Mapping[str, frozenset[int]] = _NONE) -> "TaskData":
        """The same task without the items that need some words, given by split with the reason why each is left out.

        Such items are counted as skipped; of trees the other words stay, see :meth:`TreeExamples.without_words`. Words
        that share all their subwords with another are read nonetheless: a span is left out if it has some of such words
        but not all of them, as its vectors are then those of another span.
        """
        items = dict[str, Examples](self.items)
        for split, examples in self.items.items():
            words = skipped.get(split, {})
            if isinstance(examples, TreeExamples):
                items[split] = examples.without_words(words)
            else:  # the others are counted by the reason of their first such word
                is_missing = np.array(list(words.values()), dtype=object) != SHARED
                missing = np.sort(np.array(list(words), dtype=np.int64)[is_missing])
                is_inside = np.isin(examples.spans, np.array(list(joined.get(split, ())), dtype=np.int64))
                reason = SHARED if examples.are_words else DIVIDED
                reasons = np.where(is_inside.any(axis=(1, 2)), reason, "").astype(object)
                for span in range(examples.n_spans - 1, -1, -1):
                    first = np.searchsorted(missing, examples.spans[:, span, 0])
                    inside = first < np.searchsorted(missing, examples.spans[:, span, 1])
                    for item in np.flatnonzero(inside).tolist():
                        reasons[item] = words[int(missing[first[item]])]
                for reason in sorted(set(reasons) - {""}):
                    keep = reasons != reason
                    items[split], reasons = items[split].subset(keep, reason=reason), reasons[keep]
            if not len(items[split]):
                reason = next(iter(items[split].skipped))
                raise CorpusError(f"task {self.probe.task}: no word of the {split} split has a vector ({reason})")
        return replace(self, items=items)

    def targets(self, split: str) -> Labels:
        """``[item]`` the labels to fit on, −1 for one that train lacks; or ``[item, label]`` which each item has."""
        codes = self.items[split].codes
        if codes.ndim == 2:
            return codes[:, : self.n_train_labels]
        return np.where(codes < self.n_train_labels, codes, -1)

    def control(self, split: str, *, seed: int) -> Labels:
        """Labels of the control task, as :meth:`targets` (Hewitt & Liang 2019): drawn as often as train's own.

        Every written form has one label wherever it stands; of items of several words, or two spans, the form is all
        of them. Where an item may have several labels, whole sets of them are drawn. Where all forms of train get one
        label, as happens to few of them, they are drawn again.
        """
        forms, vocabulary = self._forms[split]
        labels = self.targets("train")
        if labels.ndim == 1:
            shares = np.bincount(labels, self.times, self.n_train_labels)
            seeds = (seed + draw * _APART for draw in range(_MOST_DRAWS))
            of_train = ((one, control_labels(*self._forms["train"], shares, seed=one)) for one in seeds)
            chosen = next((one for one, drawn in of_train if (drawn != drawn[0]).any()), seed)
            return control_labels(forms, vocabulary, shares, seed=chosen)
        sets, times = np.unique(labels, axis=0, return_counts=True)
        return np.asarray(sets[control_labels(forms, vocabulary, times, seed=seed)], dtype=np.bool_)

    def word_forms(self) -> tuple[Integers, Integers, int]:
        """Written forms of train and test items under train's numbering (−1 for forms it lacks), and their number."""
        forms = self.forms_as_in_train()
        return forms["train"], forms["test"], len(self._forms["train"][1])

    def forms_as_in_train(self) -> dict[str, Integers]:
        """``[item]`` written form of the items of each split under train's numbering, −1 for forms that it lacks."""
        number = {form: place for place, form in enumerate(self._forms["train"][1])}
        to_train = {
            split: np.array([number.get(form, -1) for form in forms], dtype=np.int64)
            for split, (_, forms) in self._forms.items()
        }
        return {split: to_train[split][codes] for split, (codes, _) in self._forms.items()}

    @cached_property
    def _forms(self) -> Mapping[str, tuple[Integers, Sequence[str]]]:
        """``[item]`` by split: the place of each item's written form in the split's vocabulary of forms."""
        found: dict[str, tuple[Integers, Sequence[str]]] = {}
        for split, examples in self.items.items():
            forms = self.splits.by_name[split].written
            if examples.are_words:
                found[split] = forms.codes[examples.words].astype(np.int64), forms.values
            else:  # no word has a line break in it, which parts the spans
                words = [forms.values[code] for code in forms.codes.tolist()]
                items = examples.spans.tolist()
                found[split] = coded(["\n".join(" ".join(words[a:b]) for a, b in spans) for spans in items])
        return found

    def counts(self, *, seed: int = 0, fraction: float = 1.0) -> dict[str, Any]:
        """Counts of items, sentences, classes and what is left out; the seed draws a fraction of train's sentences."""
        if self.trees is not None:
            n_unseen = 0  # trees are no labels to have been seen
        elif self.test.is_multi_label:
            n_unseen = int(self.test.codes[:, self.n_train_labels :].any(axis=1).sum())
        else:
            n_unseen = int((self.test.codes >= self.n_train_labels).sum())
        times = fraction_mask(self.train.clusters, fraction, seed=seed) if self.times is None else self.times
        return {
            "n_train": int(times.sum()),
            "n_items": len(self.test),
            "n_clusters": len(np.unique(self.test.clusters)),
            # Trees are built, not chosen from a list.
            "n_classes": 0 if self.trees is not None else self.n_train_labels,
            "n_skipped": sum(self.test.skipped.values()),
            "skip_reasons": dict(self.test.skipped),
            "n_unseen_label": n_unseen,
        }

    def weights(self, seed: int, fraction: float, *, resampled: bool = True) -> NDArray[np.float32]:
        """The weight of each training item: 1 under seed 0, else the number of times that its sentence is drawn.

        Of a share of the sentences the others count nothing; a smaller share is part of every larger one.
        """
        n_sentences, of_item = len(self.splits.train), self.train.clusters
        weights = np.ones(len(self.train), dtype=np.float32)
        if seed and resampled:
            within = self.splits.within.get("train")
            sentences = np.arange(n_sentences) if within is None else np.flatnonzero(within)
            drawn = sentences[np.random.default_rng(seed).integers(0, len(sentences), len(sentences))]
            weights = np.bincount(drawn, minlength=n_sentences)[of_item].astype(np.float32)
        return weights * fraction_mask(of_item, fraction, seed=seed)

    @cached_property
    def _item_columns(self) -> tuple[tuple[str, ...], Integers, tuple[str, ...]]:
        """The names of the test items, the place of the sentence of each, and the names of the sentences.

        Names are tuples, so that what all cells of a task share is made ready for writing once.
        """
        sentences, examples = self.splits.test, self.test
        clusters, cluster = np.unique(examples.clusters, return_inverse=True)
        ids = tuple(sentence_names(sentences, clusters.tolist()))
        # Words are counted from 1 in their sentence: ``3``; ``3-5`` for several; ``3-5,7`` for two spans.
        inside = (examples.spans - sentences.starts[examples.clusters][:, None, None]).tolist()
        items = list[str]()
        for place, spans in zip(cluster.tolist(), inside, strict=True):
            items.append(f"{ids[place]}:{predictions.written_place(spans)}")
        return tuple(items), cluster, ids

    def predictions(self, gold: NDArray[Any], pred: NDArray[Any], score: NDArray[Any]) -> Predictions:
        """Predictions for the test items as they are kept.

        Args:
            gold: ``[item]`` labels, or ``[item, label]`` which of the labels each item has; of fewer labels than the
                task has, the first ones are meant.
            pred: as ``gold``.
            score: ``[item]`` natural logarithm of the probability of what is predicted.
        """
        if gold.ndim == 1:
            return Predictions(*self._item_columns, gold, pred, score, self.labels)
        if marked := [label for label in self.labels if predictions.SET_MARK in label]:
            problem = f"label {quoted(marked[0])} has a {predictions.SET_MARK}, which parts labels"
            raise BertologyError(f"task {self.probe.task}: {problem}: rename it")
        whole = [np.pad(labels, ((0, 0), (0, len(self.labels) - labels.shape[1]))) for labels in (gold, pred)]
        sets, codes = np.unique(np.concatenate(whole), axis=0, return_inverse=True)
        names = [
            predictions.SET_MARK.join(label for label, has in zip(self.labels, row, strict=True) if has) for row in sets
        ]
        both = codes.reshape(2, -1)
        return Predictions(*self._item_columns, both[0], both[1], score, tuple(names), label_sets=True)

    def texts(self, gold: Sequence[str], pred: Sequence[str], score: NDArray[Any]) -> Predictions:
        """Predictions ``[item]`` that are texts of their own, such as trees, with how well the two agree, or NaN."""
        labels = {text: code for code, text in enumerate(dict.fromkeys((*gold, *pred)))}
        true, predicted = (np.array([labels[text] for text in texts], dtype=np.int64) for texts in (gold, pred))
        return Predictions(*self._item_columns, true, predicted, score, tuple(labels))


def task_data(probe: Probe, splits: Splits) -> TaskData:
    """The items of a probe of words, spans or sentences, made once for these splits."""
    if not isinstance(probe, RepresentationProbe):
        raise FitError(f"task {probe.task} puts texts to the model: its items have no vectors that could be read")
    data: TaskData = splits.prepared(("task data", *_key(probe)), partial(TaskData.of, probe, splits))
    if (data.trees is not None) != (readout_kind(probe.readout).reads == "trees"):
        items, remedy = ("labels", "linear") if data.trees is None else ("trees", "structural")
        problem = f"readout {probe.readout} does not read its items, which are {items}: take {remedy}"
        raise FitError(f"task {probe.task}: {problem}")
    return data


def _key(probe: Probe) -> tuple[object, ...]:
    """Distinguishes the items of a probe: a process of a cluster keeps splits longer than a notebook its class."""
    return type(probe), probe.task, probe.version, settings_of(probe)


def items_of(probe: RepresentationProbe, split: str, splits: Splits) -> Examples:
    """The checked items of a split; of a fold those whose sentences are in it."""
    sentences, where = splits.by_name[split], f"task {probe.task}, {split} split"
    try:
        examples = probe.split_examples(sentences, split)
    except CorpusError as error:
        raise CorpusError(f"{where}: {error}") from error
    except Exception as error:
        if is_installed(probe):
            raise
        kind = type(error).__name__
        raise FitError(f"{where}: {type(probe).__name__}.examples() failed ({kind}: {cut(str(error))})") from error
    if not isinstance(examples, Examples):
        problem = f"{type(probe).__name__}.examples() returned {quoted(examples)}"
        raise FitError(f"{where}: {problem}; it should return Examples, such as those of word_examples")
    if readout_kind(probe.readout).reads != "numbers":
        examples = examples.without_ignored()
    if not len(examples):
        raise CorpusError(f"task {probe.task}: the {split} split has no item; give a corpus that has some")
    starts, ends, clusters = examples.spans[..., 0], examples.spans[..., 1], examples.clusters
    if starts.min() < 0 or (starts >= ends).any() or ends.max() > sentences.n_words:
        raise FitError(f"{where}: spans should be of one word or more, from 0 to {sentences.n_words}, end exclusive")
    if clusters.min() < 0 or clusters.max() >= len(sentences):
        raise FitError(f"{where}: clusters should be numbers of sentences, 0 to {len(sentences) - 1}")
    if splits.fold is None:
        return examples
    kept = examples.subset(splits.within[split][examples.clusters], reason="in another part")
    if not len(kept):
        problem = f"no item in the {split} part of fold {splits.fold + 1}"
        raise CorpusError(f"task {probe.task}: {problem}; ask for other folds, or give more sentences")
    # What is skipped in all of the sentences is counted in one of the folds.
    return replace(kept, skipped={} if splits.fold else examples.skipped)


def fill_sentences(examples: Examples, sentences: Sentences) -> bool:
    """Whether each item is all of its sentence, as one span or as two in a row."""
    starts, spans = sentences.starts, examples.spans
    ends = np.stack([starts[:-1], starts[1:]], axis=1)[examples.clusters]  # [item, 2]
    are_in_a_row = (spans[:, 1:, 0] == spans[:, :-1, 1]).all()
    return bool((spans[:, [0, -1], [0, 1]] == ends).all() and are_in_a_row)


def sentence_names(sentences: Sentences, numbers: Sequence[int]) -> list[str]:
    """Names of some of the sentences, by which items are grouped again when they are read: no two of all alike."""
    names = list(map(sentences.id, range(len(sentences))))
    times = Counter(names)
    found = list[str]()
    for number in numbers:
        name = names[number]
        found.append(name if name and times[name] == 1 else f"{name}#{number + 1}")
    return found


def targets_of(
    data: TaskData, problems: Sequence[Problem], split: str, *, fraction: float = 1.0, resampled: bool = True
) -> "readouts.Targets":
    """The targets of each problem for the items of a split.

    Of train only a fraction of the sentences is used, and each item counts as often as the seed draws its sentence;
    once, whatever the seed, unless they are ``resampled``.
    """
    own, labels, weights, names, sources = data.targets(split), list[Any](), list[Any](), list[str](), list[int]()
    weighted = split == "train" and (fraction < 1 or (resampled and any(map(attrgetter("seed"), problems))))
    for one in problems:
        labels.append(own if one.control == "none" else data.control(split, seed=one.seed))
        weights += [data.weights(one.seed, fraction, resampled=resampled)] if weighted else []
        names.append(f"task {data.probe.task}: {one}")
        sources.append(problems.index(Problem("none", one.seed)))
    weighed = np.stack(weights) if weighted else None
    return readouts.Targets(np.stack(labels), data.n_train_labels, weighed, tuple(names), tuple(sources))


def check_pools(pair: ModelCorpus, data: TaskData, configs: Iterable[ReadoutConfig]) -> None:
    """Raise unless the items of a task can be pooled as readout configurations have it."""
    pools = set(map(attrgetter("pool"), configs)) - {"mean"}
    if pools and all(examples.are_words for examples in data.items.values()):
        raise CorpusError(f"task {data.probe.task}: its items are single words, which are not pooled: leave pool out")
    if "cls" in pools:
        for split, examples in data.items.items():
            if not fill_sentences(examples, data.splits.by_name[split]):
                problem = "are not whole sentences, of which alone there is a cls: pool mean, max or last"
                raise CorpusError(f"task {data.probe.task}: items of the {split} split {problem}")
        pair.check_cls()


def readable(cells: FitCells, job: Resources) -> TaskData:
    """The items of a task that a readout can be fitted to; the others are counted as skipped.

    Whatever is pooled, they are those of which every word has a vector, so that scores are on the same items, and that
    are told apart by their subwords.
    """
    data = task_data(cells.probe, job.pair.splits)
    check_pools(job.pair, data, [cells.config])
    return data.without(job.pair.unreadable, job.pair.joined)


def vectors_of(
    cells: FitCells, data: TaskData, job: Resources, split: str, *, memory: int = 0, erasure: "Erasure | None" = None
) -> Any:
    """The stored vectors of a split's items as the readout reads them: one an item, or of all words in their spans."""
    from bertology.readouts.erasure import erased

    examples, layers, pooling = data.items[split], cells.layers_read, cells.config.pool
    if pooling == "cls":
        return activations.WordVectors(job.stored["cls"][split], examples.clusters, layers=layers, memory=memory)
    entry, reads_spans = job.stored["words"][split], readout_kind(cells.readout).reads == "spans"
    if examples.are_words and not reads_spans:
        words = activations.WordVectors(entry, examples.words, layers=layers, memory=memory)
        return words if erasure is None else erased(words, erasure)
    # Where one vector is made of a span, it is what is kept.
    of_words = memory if reads_spans else 0
    spans: Any = activations.SpanVectors(entry, examples.spans, layers=layers, memory=of_words)
    if erasure is not None:
        spans = erased(spans, erasure)
    # A readout of single vectors takes one of a span, and of two spans one after the other.
    pool = cast(Any, pooling)
    return spans if reads_spans else readouts.pooled(spans, pooling=pool, compare=data.are_compared, memory=memory)


@dataclass
class CellWriter:
    """The cells of a readout configuration for their files: predictions, counts of items, parameters and provenance."""

    cells: FitCells
    data: TaskData
    job: Resources
    provenance: Mapping[str, Any]
    reference: ModelCorpus | None = None  # the model that a task of comparison compares with
    _unconverged: dict[Problem, list[Any]] = field(default_factory=lambda: defaultdict(list))  # their layers

    @cached_property
    def files(self) -> predictions.CellFiles:
        """The files that the cells are added to."""
        return predictions.CellFiles(self.job.run)

    def add(self, cell: Cell, kept: Predictions, seed: int, params: Mapping[str, Any], **facts: Any) -> None:
        """Add one cell to those that are written."""
        if params.get("converged") is False:
            of: Any = cell.identity
            self._unconverged[Problem(of["control"], of["seed"])].append(of["layer"])
        config, data = self.cells.config, self.data
        settings = {"settings": config.changes} if config.changes else {}
        items = {} if data.kind == "words" else {"items": data.kind}
        aligned = self.job.pair.alignment_counts(beside=self.reference)
        counts = {**data.counts(seed=seed, fraction=config.fraction), **aligned, **facts}
        facts = {**counts, "params": {**params, **settings, **items}}
        self.files.add(cell, kept, facts=facts, provenance=self.provenance, notes=data.splits.notes)

    def finish(self) -> None:
        """Write the cells, and note the fits that did not converge."""
        self.files.write()
        cells, fits = self.cells, []
        for problem, layers in self._unconverged.items():
            where = "all layers" if layers == [None] else f"layers {', '.join(map(str, layers))}"
            fits.append(f"{where} of {problem}")
        if fits:
            about = f"{cells.probe.task}, {cells.config.title}, {self.job.pair.called(cells.weights)}"
            self.job.progress.note(f"{about}: fits that did not converge: {'; '.join(fits)}")

    def keep_fit(self, fitted: Any, number: int, place: int) -> None:
        """Keep the fit of a problem and column next to its cell, so that new text can be put to it.

        Nothing is kept of controls, and where the readout cannot be kept.
        """
        from bertology.readouts.kept import KeptFit

        cells, data = self.cells, self.data
        problem = cells.problems[number]
        is_control = problem.control != "none" or cells.weights.init != self.job.pair.request.init
        if is_control or (fit := KeptFit.of(fitted, number, place)) is None:
            return
        cell = cells.cells_of(problem)[place]
        origin = self.origin(
            cell,
            labels=() if fit.kind == "number" else data.labels[: data.n_train_labels],
            kind=fit.kind,
            layers=tuple(cast("list[int]", cell.identity.get("mixed_layers") or [cell.identity["layer"]])),
            design=fit.design,
            are_compared=data.are_compared,
        )
        self.files.keep(cell, predictions.FittedProbe(origin, fit.tensors), folder=predictions.FITS)

    def origin(self, cell: Cell, **more: Any) -> predictions.FitOrigin:
        """The data and vectors that a cell was fitted to, and ``more`` of its probe."""
        cells, pair, request = self.cells, self.job.pair, self.job.pair.request
        return predictions.FitOrigin(
            task=f"{cells.probe.task}.v{cells.probe.version}",
            corpus=pair.corpus.name,
            train_fingerprint=pair.splits.train.fingerprint,
            model=str(pair.source.folder.absolute()) if Path(request.model) == pair.source.folder else request.model,
            revision=pair.source.revision,
            init=cells.weights.init,
            init_seed=cells.weights.seed,
            model_fingerprint=pair.fingerprints[cells.weights],
            layer=cast("int | None", cell.identity["layer"]),
            pooling=request.pooling,
            dtype=request.dtype,
            stored_dtype=request.stored_dtype,
            max_pieces=request.max_pieces,
            readout=cells.readout,
            items=self.data.kind,
            settings=dict(cells.config.changes),
            **more,
        )


Baseline = tuple[Predictions, Mapping[str, Any], Mapping[str, Any]]
"""The predictions of a baseline, facts besides the counts of items, and the provenance of one that is fitted."""


class VectorFamily(Family):
    """A family that fits readouts to stored vectors, and keeps predictions of single items."""

    keeps_items: ClassVar[bool] = True
    about: ClassVar[str]  # the kind of items, for messages: `labels`
    readouts: ClassVar[tuple[str, ...]]  # the kinds of readouts of the family: `words`, `spans`, `trees`, `numbers`
    count_kinds: ClassVar[tuple[CountKind, ...]]  # the kinds of counts that metrics of the family are made of
    baseline_packages: ClassVar[tuple[str, ...]] = ("numpy",)  # the packages that baselines are computed with
    has_control_task: ClassVar[bool] = True  # whether what is asked could be memorised by the form of words

    def metrics(self, probe: Probe) -> Mapping[str, Sequence[Metric]]:
        """The metrics that are counted for each control, those of ``none`` for the task and its baselines."""
        return {"none": probe.scores}

    def baseline(self, data: TaskData, control: str) -> Baseline:
        """A baseline from the items of the training split."""
        raise BertologyError(f"task {data.probe.task} has no baseline {control}")

    def config_problem(self, kind: ReadoutKind, config: ReadoutConfig) -> str:
        """The reason why the family cannot compute a configuration; empty where it can."""
        return ""

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Configurations with their registered readouts, the probe's own where none is named."""
        assert isinstance(probe, RepresentationProbe)
        for metric in probe.scores:
            if metric.count_kind not in self.count_kinds:
                fitting = listed(name for name, one in METRICS.items() if one.count_kind in self.count_kinds)
                raise BertologyError(f"task {probe.task}: {metric.name} is no metric of {self.about}: take {fitting}")
        configs = []
        for config in asked:
            kind = readout_kind(config.readout or probe.readout)
            if kind.reads not in self.readouts:
                problem = f"is about {self.about}, which {kind.name} cannot read"
                raise BertologyError(f"task {probe.task} {problem}; leave the readout out, or take {probe.readout}")
            if problem := kind.settings_problem(config.settings, shape.dim) or self.config_problem(kind, config):
                raise BertologyError(f"task {probe.task}: {problem}")
            configs.append(replace(config, readout=kind.name))
        return tuple(configs)

    def is_cross_validated(self, probe: Probe) -> bool:
        """Every task."""
        return True

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """Check that the corpus has such items, that they can be pooled, and are read at once where they have to be."""
        data = task_data(probe, pair.splits)
        check_pools(pair, data, configs)
        for split, alignment in pair.alignments.items() if data.probe.whole_texts else ():
            if alignment.n_long and pair.request.on_long != "skip":
                problem = f"{alignment.n_long:,} words of {split} are in texts longer than the model takes at once"
                remedy = f"{data.probe.whole_texts}, or leave these out (--on-long skip)"
                raise CorpusError(f"task {probe.task}: {problem}: {remedy}")

    def configured(self, probe: Probe, config: ReadoutConfig) -> Probe:
        """The probe unchanged, since the settings of a configuration are those of its readout."""
        return probe

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Vectors of words, but where the special token before the text is read."""
        signals: list[Signal] = ["cls" if config.pool == "cls" else "words" for config in configs]
        return tuple(dict.fromkeys(signals))

    def check_settings(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """Check that readouts have such settings."""
        for config in configs:
            make_readout(str(config.readout), **config.settings)

    def identity(self, pair: ModelCorpus, probe: Probe) -> dict[str, Any]:
        """Fingerprints of all splits, and whether forms are written ones."""
        identity = super().identity(pair, probe)
        for split in pair.splits.by_name.values():
            if not isinstance(split, ShardedSentences) and split.written is not split.forms:
                identity["forms"] = "written"
        return identity

    def own_identity(self, pair: ModelCorpus, probe: Probe) -> dict[str, Any]:
        """A hash of the items of every split."""
        splits = pair.splits

        def parts() -> Iterator[bytes]:
            for split, examples in task_data(probe, splits).items.items():
                for name, value in sorted(vars(examples).items()):
                    yield f"{split} {name}".encode()
                    plain = dict(value) if isinstance(value, Mapping) else value
                    yield plain.tobytes() if isinstance(plain, np.ndarray) else canonical_json(plain)

        key = ("items fingerprint", *_key(probe))
        return {"items_fingerprint": splits.prepared(key, lambda: digest(parts()))}

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer, or with mixtures what they mix, with the control task where the model is no control itself."""
        kind, layers = readout_kind(str(config.readout)), pair.layers_of(config)
        columns: tuple[int | None, ...] = (None,) if kind.columns == "all" else layers
        mixed: dict[int | None, Mapping[str, Any]] = {}
        for layer in columns if kind.columns != "layer" else ():
            mixed[layer] = {"mixed_layers": [below for below in layers if layer is None or below <= layer]}
        is_asked = "control_task" in pair.request.controls and init == pair.request.init
        controls = ("none", "control_task") if is_asked and self.has_control_task else ("none",)
        n_seeds = config.seeds or pair.request.seeds
        return CellGrid(columns, layers, pair.reading_identity, controls, n_seeds, mixed)

    def columns(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig | None = None) -> dict[str, Any]:
        """Columns of the corpus and the pooling; for a codelength, those of the training split."""
        split = {"split": pair.request.train_split} if config is not None and config.codelength else {}
        return {**super().columns(pair, probe, config), **split}

    def baseline_data(self, baselines: FitCells, job: Resources) -> TaskData:
        """The items that baselines are computed from."""
        return task_data(baselines.probe, job.pair.splits)

    def compute_baselines(self, baselines: FitCells, job: Resources) -> None:
        """Predict from the items of the training split, on what the model can read."""
        data = self.baseline_data(baselines, job)
        data = data.without(baselines.unreadable, job.pair.joined if baselines.unreadable else {})
        with predictions.CellFiles(job.run) as file:
            for (control, *_), cell in baselines.cells.items():
                kept, facts, provenance = self.baseline(data, control)
                provenance = provenance or {"versions": predictions.versions(*self.baseline_packages), "wall_s": 0.0}
                file.add(cell, kept, facts={**data.counts(), **facts}, provenance=provenance, notes=data.splits.notes)

    def scores(self, cells: FitCells, scoring: Scoring) -> Columns:
        """The scored columns of a readout configuration."""
        return rows.score_cells(self, cells, scoring, self.metrics(cells.probe))

    def scored_by(self, cells: FitCells) -> Sequence[Metric]:
        """The metrics of the rows of a readout configuration, the main one first."""
        return cells.probe.scores

    def more_rows(
        self, cells: FitCells, control: str, by_control: ByControl, shared: Sequence[Mapping[str, Any]]
    ) -> Iterable[ResultRow]:
        """Further rows of a control, such as selectivity."""
        if control != "control_task":
            return ()
        return rows.selectivity_rows(by_control, shared, metric=self.metrics(cells.probe)[control][0].name)

    def more_comparisons(self, cells: FitCells, columns: Columns, scoring: Scoring) -> Iterable[ComparisonRow]:
        """Comparisons besides those of layers."""
        return ()

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> TaskRows:
        """Scores of each layer, further rows, and comparisons of layers."""
        columns = list(map(self.scores, draws, itertools.repeat(scoring)))
        more, metrics = partial(self.more_rows, draws[0]), self.scored_by(draws[0])
        found = rows.scored_rows(self, draws, columns, scoring, metrics=metrics, more=more)
        return replace(found, comparisons=(*found.comparisons, *self.more_comparisons(draws[0], columns[0], scoring)))

    def baseline_rows(self, baselines: FitCells, scoring: Scoring) -> TaskRows:
        """Scores by the task's metrics."""
        metrics = dict.fromkeys((control for control, _ in baselines.problems), self.metrics(baselines.probe)["none"])
        columns = rows.score_cells(self, baselines, scoring, metrics)
        return rows.scored_baselines(self, baselines, columns, scoring, metrics=baselines.probe.scores)
