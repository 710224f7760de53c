"""Labels of words and spans: predicted from vectors by a fitted readout, or encoded with them."""

import contextlib
import itertools
import math
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from bertology import activations, readouts
from bertology._files import temporary_folder
from bertology._lazy import torch
from bertology._names import by_key
from bertology.activations.store import open_entry
from bertology.corpora import Sentence, Sentences, Shard, ShardedSentences
from bertology.errors import BertologyError, CorpusError, FitError
from bertology.families import vectors as task_vectors
from bertology.families.contract import CellGrid, Counts, FitCells, Problem, Resources, Scoring
from bertology.families.model_corpus import Alignment, ModelCorpus, Splits
from bertology.families.request import RANDOM, Init, ReadoutConfig
from bertology.families.rows import NO_INTERVALS, ByControl, Column, Columns, cell_rows, records_of, run_rows
from bertology.families.vectors import TaskData, VectorFamily, items_of, targets_of, task_data
from bertology.measures import Metric, bootstrap_ratio, count_labels, find_metric, majority, sum_metric
from bertology.measures.baselines import SpanWords, control_labels, lexical_labels, word_majority
from bertology.measures.intervals import expected_layer, over_layers
from bertology.measures.sums import cluster_sums
from bertology.probing import ControlNote, Examples, Probe, RepresentationProbe, get_probe
from bertology.probing.probes import SentenceProbe, is_installed
from bertology.readouts import ReadoutKind, get_readout, readout_kind
from bertology.results import Predictions, ResultRow, predictions
from bertology.results.predictions import Kept, Stopwatch

if TYPE_CHECKING:
    from bertology.readouts.codelength import Codelength
    from bertology.readouts.erasure import Erasure
    from bertology.readouts.information import Information


_MAJORITY = ControlNote("majority", "majority", "the label most frequent in training")
_BY_FORM = ControlNote(
    "word_majority",
    "word majority",
    "the label most frequent in training for the same word form, else majority",
)
_LENGTH = ControlNote("length", "length alone", "the label most frequent in training, of texts with as many words")
_LEXICAL = ControlNote(
    "lexical",
    "lexical baseline",
    "a logistic regression on the words and their places: no vector, no context; layer 0 reads subwords, so it knows "
    "more of words new to it",
)
_BASELINES = {
    "words": (_MAJORITY, _BY_FORM),
    "spans": (_MAJORITY, _BY_FORM, _LEXICAL),
    "sentences": (_MAJORITY, _LENGTH, _LEXICAL),
}
_FORMS = {
    "words": "each word form",
    "spans": "each span's wording",
    "sentences": "each text, however often it occurs,",
}
"""The unit that has one label in the control task, by kind of items."""
_PACKAGES = ("torch", "transformers", "numpy", "scikit-learn")
_COMPRESSION = sum_metric("compression", "uniform codelength of the training labels over their codelength")
_BITS = sum_metric("codelength_bits", "codelength of the training labels", higher_is_better=False)
_INFORMATION = sum_metric(
    "usable_information_bits",
    "bits by which the vector shortens the label's code, items with labels new to train left out",
)
_GIVEN = {"nothing": "the shares of labels in train", "embeddings": "the vector of layer 0", "form": "the item's form"}
"""The knowledge that usable information comes on top of."""
_ACCURACY = find_metric("accuracy")


class _Labels(VectorFamily):
    """Can a label of a word or span be read off its vectors, and in which layer?"""

    about, readouts, count_kinds = "labels", ("words", "spans"), ("labels",)

    def config_problem(self, kind: ReadoutKind, config: ReadoutConfig) -> str:
        if config.codelength == "variational" and not kind.has_posterior:
            return f"{kind.name} has no variational code: choose readout bayes, or the online code"
        if config.pool != "mean" and kind.reads == "spans":
            return f"{kind.name} reads all words of a span: leave pool out, or take readout linear or mlp"
        if config.given is not None:
            if kind.columns != "layer" or (kind.reads == "spans" and config.given != "nothing"):
                return f"{kind.name} has no single vector in one layer to join with what is given: take linear or mlp"
            if config.codelength is not None or config.erase is not None:
                return "usable information is of whole vectors and of test: leave codelength and erase out, or given"
            if config.fraction != 1 and config.given == "form":
                return "what a form tells is counted in all of train: leave fraction out"
        if config.pool == "cls" and config.erase is not None:
            return "what is erased is found in vectors of words, not in cls: pool mean, max or last"
        return ""

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        if isinstance(pair.splits.train, ShardedSentences):
            _check_shards(pair, probe, configs)
            return
        super().check(pair, probe, configs)
        for config in configs:
            if config.erase is not None:
                _erased_data(config.erase, pair.splits)

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """The cells of the task; comparisons of pairs and erased tasks are part of their identity."""
        grid, identity = super().cells(pair, probe, config, init), dict[str, str | int]()
        with contextlib.suppress(BertologyError):  # of a task that cannot be computed its cells report why
            if task_data(probe, pair.splits).are_compared:
                identity["pairs"] = "compared"
        if config.erase is not None:
            erased = get_probe(config.erase)
            if not is_installed(erased):
                problem = f"{config.erase} is known to this process alone"
                raise BertologyError(f"task {probe.task}: {problem}; only an installed task can be erased")
            identity["erased_version"] = erased.version
        if config.given is not None:
            # The labels of a control task follow from the form: they are no property that vectors could inform about.
            grid = replace(grid, controls=("none",))
            if config.given == "embeddings" and 0 not in grid.layers_read:
                if 0 not in pair.layers:
                    problem = "is to read layer 0, which is not among the layers asked about: name it in layers too"
                    raise BertologyError(f"readout {config.title} {problem}")
                grid = replace(grid, layers_read=(0, *grid.layers_read))
        return replace(grid, identity={**grid.identity, **identity})

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        return _BASELINES[_items_of(probe)]

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        what = "has a random label (Hewitt & Liang 2019); selectivity: score less control score"
        return (ControlNote("control_task", "control", f"{_FORMS[_items_of(probe)]} {what}"),)

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        fit(cells, job)

    def baseline_data(self, baselines: FitCells, job: Resources) -> TaskData:
        if isinstance(job.pair.splits.train, ShardedSentences):
            return _sharded_data(baselines, job, None)[0]
        return super().baseline_data(baselines, job)

    def baseline(self, data: TaskData, control: str) -> task_vectors.Baseline:
        """The label most frequent in training: of all items (``majority``), of those of the same form
        (``word_majority``) or of as many words (``length``); or what a regression on words and places predicts."""
        watch, facts, provenance = Stopwatch(), dict[str, Any](), dict[str, Any]()
        predicted: Any
        train, test = data.train, data.test
        if control == "lexical":
            words = {
                split: SpanWords([text.values[code] for code in text.codes.tolist()], starts, data.items[split].spans)
                for split, text, starts in ((name, of.written, of.starts) for name, of in data.splits.by_name.items())
            }
            splits = [data.items[split] for split in ("train", "dev")]
            labels = [of.codes for of in splits] if train.is_multi_label else list(map(data.targets, ("train", "dev")))
            found = lexical_labels(
                words["train"], labels[0], dev=words["dev"], dev_labels=labels[1], test=words["test"]
            )
            predicted = found.labels
            facts["params"] = {"strength": found.strength, "dev_score": round(found.dev_score, 6)}
            provenance = watch.provenance("numpy", "scikit-learn", device="cpu")
        elif control == "majority":
            predicted = np.repeat(majority(train.codes, data.times)[None], len(test), axis=0)
        elif control == "length":
            n_words, of_test = (np.diff(part.spans).sum(axis=(1, 2)) for part in (train, test))
            known = np.where(np.isin(of_test, n_words), of_test, -1)
            predicted = word_majority(n_words, train.codes, known, n_words=int(n_words.max()) + 1)
        else:
            train_words, test_words, n_forms = data.word_forms()
            predicted = word_majority(train_words, train.codes, test_words, n_words=n_forms, times=data.times)
        return data.predictions(test.codes, predicted, np.full(len(test), np.nan)), facts, provenance

    def main_metric(self, cells: FitCells, control: str) -> str:
        """Accuracy for control tasks, unless it is how short their code is."""
        own = control != "control_task" or cells.config.codelength
        return self.scored_by(cells)[0].name if own else "accuracy"

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        kept = predictions.read_labels(run, ids)
        labels, members = predictions.split_sets(kept.labels) if kept.label_sets else (kept.labels, None)
        counts = count_labels(
            kept.gold, kept.pred, kept.cluster, n_labels=len(labels), n_clusters=kept.n_clusters, members=members
        )
        if tuple(metrics) == (_ACCURACY,):
            # It asks how many were right, and not of which label.
            return counts.sum(axis=2, keepdims=True), ()
        return counts, labels

    def metrics(self, probe: Probe) -> Mapping[str, Sequence[Metric]]:
        """The metrics of a probe, and accuracy among them: the labels of a control task mean nothing, so that it has
        no other."""
        kinds, names = map(attrgetter("count_kind"), probe.scores), map(attrgetter("name"), probe.scores)
        known = _ACCURACY.name in names or bool({*kinds} - {"labels"})
        return {"none": probe.scores if known else (*probe.scores, _ACCURACY), "control_task": (_ACCURACY,)}

    def scored_by(self, cells: FitCells) -> Sequence[Metric]:
        if cells.config.codelength:
            return _COMPRESSION, _BITS
        return (_INFORMATION, *cells.probe.scores) if cells.config.given else cells.probe.scores

    def scores(self, cells: FitCells, scoring: Scoring) -> Columns:
        if not cells.config.codelength:
            scored = super().scores(cells, scoring)
            if cells.config.given is None:
                return scored
            return {problem: _with_information(column, scoring) for problem, column in scored.items()}
        columns: dict[Problem, Column] = {}
        for problem in cells.problems:  # predictions are kept by training sentence
            of_problem = cells.cells_of(problem)
            log_probs, n_items = predictions.read_scores(scoring.run, [cell.id for cell in of_problem])
            records = records_of(scoring.run, of_problem)
            bits = -log_probs / math.log(2)
            uniform = np.array(n_items, dtype=np.float64) * records[0].facts["params"]["details"]["item_bits"]
            chosen: dict[str, Any] = {"n_resamples": scoring.n_resamples, "seed": scoring.seed}
            per_sentence = np.full(bits.shape[1], 1 / bits.shape[1])
            scores = {
                _COMPRESSION.name: bootstrap_ratio(uniform, bits, metric=_COMPRESSION.name, **chosen),
                _BITS.name: bootstrap_ratio(bits, per_sentence, metric=_BITS.name, **chosen),
            }
            columns[problem] = Column(of_problem, cells.layers, records, scores)
        return columns

    def more_rows(
        self, cells: FitCells, control: str, by_control: ByControl, shared: Sequence[Mapping[str, Any]]
    ) -> Iterator[ResultRow]:
        """Selectivity; and the depth at which a task is solved, from mixtures of layers, kept with the deepest cell."""
        if control != "none":
            yield from super().more_rows(cells, control, by_control, shared)
            return
        columns, main, mixes = by_control[control], self.scored_by(cells)[0], readout_kind(cells.readout).columns
        if mixes == "below" and len(cells.layers) > 1:

            def depth(column: Column) -> Column:
                """The layer at which mixtures of layers gain, from their scores."""
                by_layer: Any = partial(expected_layer, layers=cells.layers_read)
                found = over_layers(column.scores[main.name], by_layer, metric="expected_layer")
                return Column(column.cells[-1:], (None,), column.records[-1:], {"expected_layer": found})

            deepest = [{seed: depth(column) for seed, column in of_draw.items()} for of_draw in columns]
            yield from run_rows(deepest, shared, control)
        elif mixes == "all":
            for of_draw, about in zip(columns, shared, strict=True):
                for seed, column in of_draw.items():
                    details = column.records[0].facts["params"].get("details", {})
                    where = {**about, "control": control, "seed": seed, "layer": None}
                    first = cell_rows(column, 0, where, metrics=(main,))[0]
                    for name in ("center_of_gravity", "kl_from_uniform_bits"):
                        if name in details:
                            yield replace(first, metric=name, value=details[name], main_metric=False, **NO_INTERVALS)


def _with_information(column: Column, scoring: Scoring) -> Column:
    """The scores of cells with their usable information before them, a mean over items with a label that train has."""
    ids = list(map(attrgetter("id"), column.cells))
    bits, kept = predictions.read_information(scoring.run, ids), predictions.read_labels(scoring.run, ids[:1])
    is_known = ~np.isnan(bits[0])
    sums = [
        cluster_sums(values[:, is_known], kept.cluster[is_known], kept.n_clusters) for values in (bits, bits * 0 + 1)
    ]
    about: dict[str, Any] = {"n_resamples": scoring.n_resamples, "seed": scoring.seed}
    information = bootstrap_ratio(*sums, metric=_INFORMATION.name, **about)
    return replace(column, scores={_INFORMATION.name: information, **column.scores})


def _items_of(probe: Probe) -> str:
    assert isinstance(probe, RepresentationProbe)
    return "sentences" if isinstance(probe, SentenceProbe) else readout_kind(probe.readout).reads


def fit(cells: FitCells, job: Resources) -> None:
    """Fit a readout to all layers, controls and seeds of a configuration at once, and write the cells."""
    watch, problems = Stopwatch(), cells.problems
    erasure = _erasure(cells, job) if cells.config.erase is not None else None
    with _training_data(cells, job, erasure) as (data, train, targets):
        dev, test = (task_vectors.vectors_of(cells, data, job, split, erasure=erasure) for split in ("dev", "test"))
        if cells.config.codelength is not None:
            _write_codes(cells, data, {"train": train, "dev": dev}, job)
            return
        readout, dev_targets = get_readout(cells.readout, **cells.config.settings), targets_of(data, problems, "dev")
        how: dict[str, Any] = {"device": job.device, "progress": job.progress.say, "n_threads": job.n_threads}
        how["is_control"] = cells.weights.init == RANDOM
        information: Information | None = None
        if cells.config.given is None:
            fitted = readout.fit(train, targets, dev=dev, dev_targets=dev_targets, **how)
            predicted = fitted.predict(test)
        else:
            of_split = {"train": targets, "dev": dev_targets, "test": targets_of(data, problems, "test")}
            sources, given = _given(cells, data, {"train": train, "dev": dev, "test": test})
            information = readouts.usable_information(readout, sources, of_split, given=given, **how)
            fitted, predicted = information.fitted, information.predictions
    job.progress.finish()
    report = fitted.report
    provenance = watch.provenance(*_PACKAGES, device=job.device, n_cells=len(cells.cells))
    writer = task_vectors.CellWriter(cells, data, job, provenance)
    for number, problem in enumerate(problems):
        gold = data.test.codes if problem.control == "none" else data.control("test", seed=problem.seed)
        for place, cell in enumerate(cells.cells_of(problem)):
            at = number, place
            if erasure is None and cells.config.given in (None, "nothing"):
                writer.keep_fit(fitted, *at)
            # The parameters of one fit: strengths that were tried, and how it converged.
            chosen = int(np.abs(np.array(report.strengths) - report.chosen[at]).argmin())
            gradient_norm = float(report.gradient_norm[at][chosen])
            tried = np.flatnonzero(~np.isnan(report.dev_accuracy[at]))
            params: dict[str, Any] = {
                "strength": float(report.chosen[at]),
                "strengths": np.array(report.strengths)[tried].tolist(),
                "dev_accuracy": list(map(round, report.dev_accuracy[at][tried].tolist(), itertools.repeat(6))),
                "iterations": int(report.iterations[at][chosen]),
                "converged": bool(report.converged[at][chosen]),
                # JSON knows no NaN, which is what a readout without iterations has to say.
                "gradient_norm": gradient_norm if math.isfinite(gradient_norm) else None,
            }
            if end := report.end(*at):
                params["path_end"] = end
            if details := fitted.details(*at):
                params["details"] = dict(details)
            kept = data.predictions(gold, predicted.labels[at], predicted.log_prob[at])
            if information is not None:
                kept = replace(kept, extra={predictions.INFORMATION: information.bits[at]})
                beyond = f"{_INFORMATION.description}; beyond {_GIVEN[str(cells.config.given)]}"
                params["measures"] = {_INFORMATION.name: beyond}
                params["given_bits"] = round(float(np.nanmean(information.given_bits[number])), 6)
                params["left_to_given"] = float(information.left_to_given[at])
            writer.add(cell, kept, problem.seed, params, n_params=fitted.n_params)
    writer.finish()


def _given(cells: FitCells, data: TaskData, sources: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """The vectors of each split in the layers of the cells; and those that are given, None where nothing is."""
    layers, given = cells.layers_read, cells.config.given
    if given == "nothing":
        return sources, None
    chosen = [layers.index(cast(int, layer)) for layer in cells.layers]
    of_cells = {split: source.at(chosen) for split, source in sources.items()}
    if given == "embeddings":
        return of_cells, {split: source.at([layers.index(0)]) for split, source in sources.items()}
    labels = cast("NDArray[np.int64]", data.train.codes)
    features = readouts.form_features(data.forms_as_in_train(), labels, data.n_train_labels)
    return of_cells, {split: readouts.features_of(source.at([0]), features[split]) for split, source in sources.items()}


def _check_shards(pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
    """Raise a CorpusError unless a task can be computed on a corpus in shards with these configurations."""
    dev = items_of(cast(RepresentationProbe, probe), "dev", pair.splits) if is_installed(probe) else None
    others = [one.title for one in configs if one.readout != "linear.v1" or one.changes.keys() - one.settings.keys()]
    others += ["several seeds"] if max(one.seeds or pair.request.seeds for one in configs) > 1 else []
    if others or dev is None or dev.is_multi_label or not dev.are_words:
        problem = "train is in shards, of which installed tasks read one label a word by linear on all of it"
        problem += f", and not {others[0]}" if others else ""
        raise CorpusError(f"task {probe.task}: {problem}; for anything else give one file a split")


@dataclass(frozen=True)
class _FitShard:
    """The items of a shard, kept in a file once they are found, and its vectors in the store."""

    shard: Shard
    file: Path
    entry: Path | None  # folder of the vectors; None for baselines, which read none and whose items are not kept

    def open(self, layers: Sequence[int], chosen: Any = slice(None)) -> tuple[Any, readouts.Targets]:
        """The vectors in some layers of all items, or of some ``chosen [item]``, and their labels in every problem."""
        words, labels, n_classes = pickle.loads(self.file.read_bytes())
        entry: Any = open_entry(cast(Path, self.entry))
        vectors = activations.WordVectors(entry, words[chosen], layers=layers, memory=0)
        return vectors, readouts.Targets(labels[:, chosen], n_classes)


def _find_items(shard: _FitShard, probe: RepresentationProbe, shared: str, forms: frozenset[str]) -> tuple[Any]:
    """Find the items of a shard, without those that have no vector; returns the number of items with each label and
    form (a counter), which is empty where it is none of ``forms``."""
    sentences = shard.shard.load()
    examples, written = items_of(probe, "train", Splits(train=sentences)), sentences.written
    if shard.entry is not None and (entry := open_entry(shard.entry)) is not None:
        left_out = np.array([*Alignment.of_entry(entry).left_out(shared)], dtype=np.int64)
        examples = examples.subset(~np.isin(examples.words, left_out), reason="")
    words, values, codes = examples.words, examples.values, examples.codes
    used, form = np.unique(written.packed[words], return_inverse=True)
    names = [written.values[one] for one in used.tolist()]
    if shard.entry is not None:
        shard.file.write_bytes(pickle.dumps((words, codes, values, form, names)))
    pairs, at, times = np.unique(form * len(values) + codes, return_index=True, return_counts=True)
    found = Counter[tuple[str, str]]()
    for place in at.argsort().tolist():  # in order of first appearance
        name, code = divmod(int(pairs[place]), len(values))
        found[values[code], names[name] if names[name] in forms else ""] += int(times[place])
    return (found,)


def _number_items(
    shard: _FitShard, labels: Sequence[str], times: NDArray[np.int64], problems: Sequence[Problem]
) -> tuple[NDArray[np.float64]]:
    """Put the labels of every problem into the file of a shard; returns the ``[problem, class]`` number of items."""
    words, codes, values, form, names = pickle.loads(shard.file.read_bytes())
    own = np.array([labels.index(value) if value in labels else -1 for value in values])[codes]
    control = [control_labels(form, names, times, seed=0) for problem in problems if problem.control != "none"]
    targets = readouts.Targets(np.stack([own, *control]), len(labels))
    shard.file.write_bytes(pickle.dumps((words, targets.labels.astype(np.int32), len(labels))))
    return (targets.class_weights(),)


def _sharded_data(cells: FitCells, job: Resources, folder: Path | None) -> tuple[TaskData, list[_FitShard]]:
    """The items of a task whose training words are in shards, and the shards, whose items are kept in the ``folder`` of
    a fit. Of train the data have one item for each label and form of test, with the number that it stands for."""
    probe, splits, shards = cast(RepresentationProbe, cells.probe), job.pair.splits, list[_FitShard]()
    for place, shard in enumerate(cast(ShardedSentences, splits.train).shards):
        entry = None if folder is None else job.stored["words"][f"train {place}"].folder
        shards.append(_FitShard(shard, (folder or Path()) / str(place), entry))
    how = job.pair.request.shared_subwords, frozenset(splits.test.written.values)
    (found,) = job.over(_find_items, shards, probe, *how)
    values, words = tuple(dict.fromkeys(label for label, _ in found)), np.arange(len(found))
    codes = np.array([values.index(label) for label, _ in found])
    items = Examples(np.stack([words, words + 1], axis=1)[:, None], codes, values, words * 0)
    splits = replace(splits, train=Sentences([Sentence.from_words(form for _, form in found)]), _prepared={})
    return replace(TaskData.of(probe, splits, items), times=np.array([*found.values()])), shards


@contextlib.contextmanager
def _training_data(cells: FitCells, job: Resources, erasure: "Erasure | None") -> Iterator[tuple[TaskData, Any, Any]]:
    """The items of a fit, the source of its training items, and their targets: of shards by class."""
    if not isinstance(job.pair.splits.train, ShardedSentences):
        data = task_vectors.readable(cells, job)
        train = task_vectors.vectors_of(cells, data, job, "train", memory=job.memory, erasure=erasure)
        yield data, train, targets_of(data, cells.problems, "train", fraction=cells.config.fraction)
        return
    with temporary_folder(job.run, "shards") as folder:
        data, shards = _sharded_data(cells, job, folder.absolute())
        labels, manifest = data.labels[: data.n_train_labels], job.stored["words"]["train 0"].manifest
        times = np.bincount(data.train.codes, data.times, len(labels)).astype(np.int64)
        (by_class,) = job.over(_number_items, shards, labels, times, cells.problems)
        one_each, dtype = np.tile(np.arange(len(labels)), (len(by_class), 1)), manifest.recipe.stored_dtype
        targets = replace(targets_of(data, cells.problems, "dev"), labels=one_each, weights=by_class.astype(np.float32))
        about = int(times.sum()), len(labels), manifest.dim, getattr(torch, dtype), tuple(cells.layers_read)
        data = data.without(job.pair.unreadable, job.pair.joined)
        yield data, readouts.ShardedSource(shards, job.over, *about), targets


def _erased_data(task: str, splits: Splits) -> TaskData:
    """The items of a task that is to be erased, which have to be words of one label each."""
    erased = task_data(get_probe(task), splits)
    if not erased.train.are_words or erased.train.is_multi_label:
        raise FitError(f"task {task} cannot be erased: its items are not words of one label each")
    return erased


def _erasure(cells: FitCells, job: Resources) -> "Erasure":
    """The directions of another task in each layer, or as many random ones."""
    from bertology.readouts.erasure import random_erasure

    erased = _erased_data(str(cells.config.erase), job.pair.splits).without(job.pair.unreadable, job.pair.joined)
    stored, wanted = job.stored["words"]["train"], cast("NDArray[np.int64]", erased.targets("train"))
    vectors = activations.WordVectors(stored, erased.train.words, layers=cells.layers_read, memory=0)
    erasure = readouts.fit_erasure(vectors, wanted, erased.n_train_labels, device=job.device)
    return erasure if cells.config.eraser == "leace" else random_erasure(erasure)


def _write_codes(cells: FitCells, data: TaskData, sources: Mapping[str, Any], job: Resources) -> None:
    """Measure the codelength of all layers, controls and seeds, from the vectors of each split, and write the cells.

    The predictions of a cell are kept by training sentence: the number of its labels, and the natural logarithm of the
    probability that the code gives to all of them.
    """
    watch, fraction = Stopwatch(), cells.config.fraction
    is_online = cells.config.codelength == "online"
    encode: Any = readouts.online_codelength if is_online else readouts.variational_codelength
    clusters, of_item = np.unique(data.train.clusters, return_inverse=True)
    # A code holds each label once: a seed changes only their order.
    by_seed = by_key((problem.seed, problem) for problem in cells.problems)
    codes: dict[Problem, tuple[Codelength, int]] = {}
    for seed, of_seed in by_seed.items():
        code = encode(
            get_readout(cells.readout, **cells.config.settings),
            sources["train"],
            targets_of(data, of_seed, "train", fraction=fraction, resampled=False),
            dev=sources["dev"],
            dev_targets=targets_of(data, of_seed, "dev"),
            clusters=of_item,
            seed=seed,
            device=job.device,
            progress=job.progress.say,
        )
        codes |= {problem: (code, place) for place, problem in enumerate(of_seed)}
    job.progress.finish()
    provenance = watch.provenance(*_PACKAGES, device=job.device, n_cells=len(cells.cells))
    writer = task_vectors.CellWriter(cells, data, job, provenance)
    names = task_vectors.sentence_names(data.splits.train, clusters.tolist())
    for problem in cells.problems:
        code, place = codes[problem]
        n_items, skipped = code.cluster_items[place], data.train.skipped
        used = np.flatnonzero(n_items)
        ids, (numbers, labels) = [names[one] for one in used.tolist()], np.unique(n_items[used], return_inverse=True)
        facts = {
            "n_items": int(n_items.sum()),
            "n_clusters": len(used),
            "n_skipped": sum(skipped.values()),
            "skip_reasons": dict(skipped),
            "n_unseen_label": 0,
            "n_params": 0,
            **job.pair.alignment_counts("train"),
        }
        for column, cell in enumerate(cells.cells_of(problem)):
            score = -code.cluster_bits[place, column][used] * math.log(2)
            kept = Predictions(ids, np.arange(len(used)), ids, labels, labels, score, tuple(map(str, numbers.tolist())))
            details = {
                "method": code.method,
                "bits": round(float(code.bits[place, column]), 3),
                "item_bits": code.item_bits,
                "uniform_bits": round(float(code.uniform_bits[place]), 3),
                "model_bits": round(float(code.model_bits[place, column]), 3),
                "block_bits": [round(float(bits), 3) for bits in code.block_bits[place, column]],
                "block_items": [int(number) for number in code.block_items[place]],
            }
            writer.add(cell, kept, problem.seed, {"converged": True, "details": details}, **facts)
    writer.finish()


FAMILY = _Labels()
