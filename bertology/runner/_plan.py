"""From a request to cells: what is to be computed, known before anything is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from bertology._files import canonical_json, digest
from bertology._names import name_not_found
from bertology.corpora import Corpus, Sentences, annotate_text, load_corpus
from bertology.encoders import ModelShape, ModelSource, model_fingerprint, model_shape, resolve_model
from bertology.errors import BertologyError, CorpusError
from bertology.measures import METRICS
from bertology.probing import RepresentationProbe, get_probe
from bertology.readouts import ReadoutKind, readout_kind
from bertology.runner._cells import Cell
from bertology.runner._reading import Reading, fitted_together
from bertology.runner._request import ProbeRequest, parse_layers
from bertology.runner._task_data import Splits, choose_splits

Init = Literal["pretrained", "random", "random_blocks"]
# Of what was left out of a corpus so many places are told; all are in Corpus.skipped.
_LISTED = 5
RowControl = Literal["none", "control_task"]
Baseline = Literal["majority", "word_majority", "linear_chain"]
# By what a task's readout reads.
_BASELINES: Mapping[str, tuple[Baseline, ...]] = {"labels": ("majority", "word_majority"), "trees": ("linear_chain",)}


@dataclass(frozen=True)
class Group:
    """Cells fitted together: one reading of a task on one initialisation of the model, all layers, controls, seeds."""

    probe: RepresentationProbe
    reading: Reading
    """With the readout's registered name."""
    init: Init
    cells: Mapping[tuple[RowControl, int, int | None], Cell]
    """By control, seed and layer; of a readout that mixes all layers the layer is None."""
    reads: tuple[int, ...]
    """The layers whose vectors are read."""
    others: tuple[Group, ...] = ()
    """Other readings of the task that are fitted in the same passes over the data."""

    @property
    def family(self) -> tuple[Group, ...]:
        """The group and all that is fitted with it."""
        return (self, *self.others)

    @property
    def readout(self) -> ReadoutKind:
        """What the readout is."""
        return readout_kind(str(self.reading.readout))

    @property
    def layers(self) -> tuple[int | None, ...]:
        """What there is a score for: each layer, or None for all of them together."""
        return tuple(dict.fromkeys(layer for _, _, layer in self.cells))


@dataclass(frozen=True)
class BaselineCells:
    """The cells of one task that look at no vector."""

    probe: RepresentationProbe
    cells: Mapping[Baseline, Cell]


@dataclass(frozen=True)
class Plan:
    """Everything that a request comes to, resolved."""

    request: ProbeRequest
    source: ModelSource
    shape: ModelShape
    corpus: Corpus
    splits: Splits
    layers: tuple[int, ...]
    probes: tuple[RepresentationProbe, ...]
    fingerprints: Mapping[Init, str]
    """The model's, by initialisation."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """One for each way in which a task is read, in the order they are computed: the pretrained model first."""
        return tuple(group for found in self._groups.values() for first in found for group in first.family)

    @property
    def families(self) -> tuple[Group, ...]:
        """What is fitted, each with those that are fitted with it."""
        return tuple(group for found in self._groups.values() for group in found)

    def groups_of(self, probe: RepresentationProbe, init: Init) -> tuple[Group, ...]:
        """The groups of one task on one initialisation, each with those that are fitted with it."""
        return self._groups[init, probe.task]

    @cached_property
    def _groups(self) -> Mapping[tuple[Init, str], tuple[Group, ...]]:
        return {
            (init, probe.task): tuple(self._family(probe, found, init) for found in self.ways_of(probe))
            for init in self.fingerprints
            for probe in self.probes
        }

    @cached_property
    def baselines(self) -> tuple[BaselineCells, ...]:
        """The baselines asked for, by task."""
        return tuple(
            BaselineCells(
                probe,
                {
                    control: Cell({**self._task_identity(probe), "control": control})
                    for control in baselines_of(probe, self.request.controls)
                },
            )
            for probe in self.probes
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the corpus: how it was split, and what was left out of it."""
        left_out = (
            f"left out of {self.corpus.name}: {kind}, {len(places)}: {', '.join(places[:_LISTED])}"
            f"{' …' if len(places) > _LISTED else ''}"
            for kind, places in self.corpus.skipped.items()
        )
        return (*self.splits.notes, *left_out)

    def init_seed(self, init: Init) -> int:
        """The seed of the model's fresh weights."""
        return self.request.init_seed if init == self.request.init else 0

    @cached_property
    def run_id(self) -> str:
        """Hash of all cells: where a run is kept that names no folder."""
        cells = [cell.id for group in self.groups for cell in group.cells.values()]
        cells += [cell.id for found in self.baselines for cell in found.cells.values()]
        return digest([canonical_json(sorted(cells))])

    def readings_of(self, probe: RepresentationProbe) -> tuple[Reading, ...]:
        """How a task is read, each readout by its registered name.

        Raises:
            NameNotFoundError: there is no such readout.
            BertologyError: one way is asked for twice, or a variational code of a readout that has none.
        """
        asked = self.request.readings_of(probe.task)
        found = tuple(replace(one, readout=readout_kind(one.readout or probe.readout).name) for one in asked)
        for one in found:
            if one.codelength == "variational" and not readout_kind(str(one.readout)).has_posterior:
                raise BertologyError(
                    f"task {probe.task}: {one.readout} has no variational code: take readout bayes, or online"
                )
            _check_trees(probe, one, width=self.shape.dim)
        keys = [one.key for one in found]
        doubled = next((one for one in found if keys.count(one.key) > 1), None)
        if doubled is not None:
            settings = "".join(f" {name}={value}" for name, value in doubled.changes.items())
            raise BertologyError(f"task {probe.task} is read twice by {doubled.readout}{settings}: name each way once")
        return found

    def ways_of(self, probe: RepresentationProbe) -> tuple[tuple[Reading, ...], ...]:
        """How a task is read, in the groups in which it is fitted."""
        return fitted_together(self.readings_of(probe), own=probe.readout)

    def _task_identity(self, probe: RepresentationProbe) -> dict[str, Any]:
        return {
            "task": probe.task,
            "task_version": probe.version,
            **{f"{name}_fingerprint": split.fingerprint for name, split in self.splits.by_name.items()},
        }

    def _family(self, probe: RepresentationProbe, readings: Sequence[Reading], init: Init) -> Group:
        first, *others = (self._group(probe, reading, init) for reading in readings)
        return replace(first, others=tuple(others))

    def _group(self, probe: RepresentationProbe, reading: Reading, init: Init) -> Group:
        request = self.request
        shared = {
            **self._task_identity(probe),
            "model_fingerprint": self.fingerprints[init],
            "readout": reading.readout,
            "pooling": request.pooling,
            "dtype": request.dtype,
            "stored_dtype": request.stored_dtype,
            "on_long": request.on_long,
            "max_pieces": request.max_pieces,
        }
        if reading.changes:
            shared["reading"] = reading.changes
        if reading.erase is not None:
            shared["erased_version"] = get_probe(reading.erase).version
        cells = {
            (control, seed, layer): Cell(
                {**shared, **self._mixed(reading, layer), "control": control, "seed": seed, "layer": layer}
            )
            for control in self.controls_of(probe, init)
            for seed in range(request.seeds)
            for layer in self.columns_of(reading)
        }
        return Group(probe, reading, init, cells, self.layers_of(reading))

    def controls_of(self, probe: RepresentationProbe, init: Init) -> tuple[RowControl, ...]:
        """What is fitted of a task on one initialisation."""
        # The control task asks what the model's vectors allow by heart; of those of a control nothing is claimed, and
        # trees are no labels that could be learnt by heart.
        with_control = init == self.request.init and "control_task" in self.request.controls
        return ("none", "control_task") if with_control and not _finds_trees(probe) else ("none",)

    def columns_of(self, reading: Reading) -> tuple[int | None, ...]:
        """What a reading scores: each layer, or None for all of them together."""
        return (None,) if readout_kind(str(reading.readout)).columns == "all" else self.layers_of(reading)

    def layers_of(self, reading: Reading) -> tuple[int, ...]:
        """The layers that a reading reads.

        Raises:
            NameNotFoundError: the model has no such layer.
            BertologyError: it is not among the layers that are asked about.
        """
        if reading.layers is None:
            return self.layers
        found = parse_layers(reading.layers, self.shape.n_layers)
        others = [layer for layer in found if layer not in self.layers]
        if others:
            raise BertologyError(
                f"readout {reading.title} is to read layer {others[0]}, which is not among the layers asked about: "
                "name it in layers too"
            )
        return found

    def _mixed(self, reading: Reading, layer: int | None) -> dict[str, Any]:
        """Which layers a score is of, where they are several: part of what it means."""
        if readout_kind(str(reading.readout)).columns == "layer":
            return {}
        return {"mixed_layers": [below for below in self.layers_of(reading) if layer is None or below <= layer]}


def baselines_of(probe: RepresentationProbe, controls: Collection[str]) -> tuple[Baseline, ...]:
    """The baselines that a task has among the ``controls``."""
    return tuple(name for name in _BASELINES["trees" if _finds_trees(probe) else "labels"] if name in controls)


def _finds_trees(probe: RepresentationProbe) -> bool:
    return readout_kind(probe.readout).reads == "trees"


def _check_trees(probe: RepresentationProbe, reading: Reading, *, width: int) -> None:
    """Raise where a readout of labels is asked for trees, one of trees for labels, or for more than vectors have."""
    reads_trees = readout_kind(str(reading.readout)).reads == "trees"
    if reads_trees != _finds_trees(probe):
        what = "labels" if reads_trees else "trees"
        raise BertologyError(
            f"task {probe.task} is about {what}, which {reading.readout} cannot read; "
            f"leave the readout out, or take {probe.readout}"
        )
    if reads_trees and (reading.codelength is not None or reading.erase is not None):
        raise BertologyError(f"task {probe.task}: trees have no codelength here, and nothing is erased before them")
    rank = reading.settings.get("rank")
    if reads_trees and isinstance(rank, int) and rank > width:
        raise BertologyError(f"task {probe.task}: rank {rank} of vectors that are {width} wide: give 1 to {width}")


class Finder:
    """Finds what names stand for, each once however often it is asked for."""

    def __init__(self) -> None:
        self._probes: dict[str, RepresentationProbe] = {}
        self._models: dict[tuple[str, str | None], tuple[ModelSource, ModelShape]] = {}
        self._fingerprints: dict[tuple[Path, Init, int], str] = {}
        self._splits: dict[tuple[int, str, str], tuple[Corpus, Splits]] = {}

    def probe(self, task: str) -> RepresentationProbe:
        """The probe of a task: :func:`bertology.probing.get_probe`."""
        if task not in self._probes:
            self._probes[task] = get_probe(task)
        return self._probes[task]

    def model(self, name: str, revision: str | None) -> tuple[ModelSource, ModelShape]:
        """A model's files, and its shape."""
        key = (name, revision)
        if key not in self._models:
            source = resolve_model(name, revision=revision)
            self._models[key] = (source, model_shape(source))
        return self._models[key]

    def fingerprint(self, source: ModelSource, init: Init, seed: int) -> str:
        """Of a model's content: :func:`bertology.encoders.model_fingerprint`."""
        key = (source.folder, init, seed)
        if key not in self._fingerprints:
            self._fingerprints[key] = model_fingerprint(source, init=init, seed=seed)
        return self._fingerprints[key]

    def splits(self, corpus: Corpus, *, train: str, test: str) -> Splits:
        """What a corpus is fitted on, chosen by and scored on."""
        key = (id(corpus), train, test)
        if key not in self._splits:
            # The corpus is kept as well, so that no other can come to have its id.
            self._splits[key] = (corpus, choose_splits(corpus, train=train, test=test))
        return self._splits[key][1]


def make_plan(request: ProbeRequest, *, corpus: Corpus | None = None, finder: Finder | None = None) -> Plan:
    """Resolve every name in a request; imports no torch for a model that is on this machine.

    Args:
        request: what is asked.
        corpus: the corpus itself, instead of the one the request names.
        finder: what has been found already, of several plans.

    Raises:
        BertologyError: a task, model, layer, corpus or split that there is not.
    """
    finder = finder or Finder()
    probes = _find_probes(request.tasks, finder)
    source, shape = finder.model(request.model, request.revision)
    layers = parse_layers(request.layers, shape.n_layers)
    if corpus is None:
        corpus = find_corpus(request.corpus, annotate=request.annotate)
    elif request.annotate:
        raise BertologyError("annotate labels a raw text file: name the file as the corpus, or leave annotate out")
    splits = finder.splits(corpus, train=request.train_split, test=request.test_split)
    own = request.init
    seed = request.init_seed if own != "pretrained" else 0
    fingerprints: dict[Init, str] = {own: finder.fingerprint(source, own, seed)}
    if "random" in request.controls and own == "pretrained":
        fingerprints["random"] = finder.fingerprint(source, "random", 0)
    source = replace(source, name=request.model_id or source.name)
    return Plan(request, source, shape, corpus, splits, layers, probes, fingerprints)


def _find_probes(tasks: Sequence[str], finder: Finder) -> tuple[RepresentationProbe, ...]:
    probes = tuple(finder.probe(task) for task in dict.fromkeys(tasks))
    names = [probe.task for probe in probes]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled:
        raise BertologyError(f"task {doubled!r} is asked for twice: name each once")
    for probe in probes:
        for metric in probe.metrics:
            if isinstance(metric, str) and metric not in METRICS:
                raise name_not_found(f"metric of task {probe.task}", metric, METRICS)
    return probes


def find_corpus(name: str, *, annotate: str | None = None) -> Corpus:
    """A corpus by name or path; with ``annotate`` a raw text labelled by that spaCy pipeline.

    Of ten sentences in a row of such a text one is for dev and one for test.
    """
    if not annotate:
        return load_corpus(name)
    path = Path(name).expanduser()
    if not path.is_file():
        raise CorpusError(f"--annotate labels a raw text file: there is no file {path}")
    whole = annotate_text(path, annotate)
    sentences = next(iter(whole.splits.values()))
    if len(sentences) < 10:
        raise CorpusError(f"{path}: {len(sentences)} sentences, of which train, dev and test are made; give 10 or more")
    parts = {"train": range(8), "dev": (8,), "test": (9,)}
    splits = {
        name: Sentences(sentences[i] for i in range(len(sentences)) if i % 10 in places)
        for name, places in parts.items()
    }
    return replace(whole, splits=splits)
