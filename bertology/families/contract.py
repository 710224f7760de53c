"""The contract of a task family: how one kind of question is planned, computed, scored and estimated.

A family is one object, registered under a name in the entry-point group ``bertology.families``; the probes that it
computes name it in :attr:`bertology.probing.Probe.family`. Planning, engines, resuming and tables are the same for all
families (:mod:`bertology.runner`) and know none by name. Most families derive from one of two bases:
:class:`bertology.families.sums.SumsFamily`, whose cells keep sums by cluster, and
:class:`bertology.families.vectors.VectorFamily`, which fits readouts to stored vectors.
"""

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertology import encoders
from bertology._names import Registry, name_not_found
from bertology.activations import Entry
from bertology.activations.layers import LayerVectors
from bertology.activations.progress import Progress
from bertology.encoders import ModelShape
from bertology.errors import BertologyError, CorpusError, FitError, ModelError, NameNotFoundError
from bertology.families.model_corpus import ModelCorpus, Reasons, Signal, Unreadable, Weights, Windows
from bertology.families.request import RANDOM, Controls, Init, ReadoutConfig
from bertology.measures import Metric
from bertology.measures.intervals import N_RESAMPLES
from bertology.measures.metrics import CONTROLS
from bertology.probing import ControlNote, Probe, get_probe, registered_probes
from bertology.probing.probes import is_installed, source_fingerprint
from bertology.readouts import sum_over
from bertology.results import ResultRow
from bertology.results.cells import Cell
from bertology.results.predictions import Kept
from bertology.results.rows import ComparisonRow

T = TypeVar("T")
CellKey = tuple[str, int, int | None]
"""Control, seed and layer; the layer is None for a score that belongs to no single layer."""

Counts = tuple[NDArray[Any], tuple[str, ...]]  # `[layer, cluster, label, kind]` counts, and the labels


class Problem(NamedTuple):
    """The control and the seed of cells that differ in nothing but their layer."""

    control: str
    seed: int

    def __str__(self) -> str:
        return f"{'the control task' if self.control == 'control_task' else 'the task itself'}, seed {self.seed}"


@dataclass(frozen=True)
class CellGrid:
    """The cells of one readout configuration of a task on one set of weights, before they are named."""

    columns: tuple[int | None, ...]
    """The layers that have a score; None stands for a score that belongs to no single layer."""
    layers_read: tuple[int, ...]  # the layers whose signal is read
    identity: Mapping[str, Any] = field(default_factory=dict)
    """Values that decide the numbers besides task, weights, readout, dtype, control, seed and layer."""
    controls: tuple[str, ...] = ("none",)  # `none` for the task itself, and the controls that are computed with it
    n_seeds: int = 1
    column_identity: Mapping[int | None, Mapping[str, Any]] = field(default_factory=dict)
    """Values that decide the numbers of single layers besides ``identity``."""


@dataclass(frozen=True)
class FitCells:
    """The cells of one readout configuration of a task on one set of weights: all layers, controls and seeds.

    Those of the baselines of a task have the name of a baseline as control, and read no signal of the model.
    """

    probe: Probe
    config: ReadoutConfig
    """The configuration, with the readout's registered name; of baselines the first one of the task, whose settings
    they may need."""
    weights: Weights  # the weights of the model; of baselines its own, which they do not read
    cells: Mapping[CellKey, Cell]
    layers_read: tuple[int, ...] = ()
    is_baseline: bool = False
    unreadable: Mapping[str, Reasons] = field(default_factory=dict)
    """Words of each split that the model cannot read, which are left out of the baselines as well. Empty where the
    model reads every word: then the cells are those of any model."""
    windows: Windows = field(default_factory=dict, compare=False)
    """Windows of each split in which the model reads its words, for baselines that depend on them."""

    @cached_property
    def layers(self) -> tuple[int | None, ...]:
        """The layers that have a score; None stands for a score that belongs to no single layer."""
        return tuple(dict.fromkeys(map(itemgetter(2), self.cells)))

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The control and seed of each fit, in the order of the cells."""
        return tuple(dict.fromkeys(map(Problem._make, map(itemgetter(0, 1), self.cells))))

    def cells_of(self, problem: Problem) -> tuple[Cell, ...]:
        """The cells of one control and seed, by layer."""
        return tuple(map(self.cells.__getitem__, itertools.product([problem.control], [problem.seed], self.layers)))

    @property
    def readout(self) -> str:
        """Registered name of the readout."""
        return str(self.config.readout)


FitGroup = tuple[FitCells, ...]
"""Cells fitted together: readout configurations of one task on the same weights that share their passes over the
data."""


@dataclass(frozen=True)
class Resources:
    """The resources that computing needs besides the cells: run directory, model, vectors, threads."""

    run: Path  # run directory
    pair: ModelCorpus
    device: str
    progress: Progress
    get_encoder: "Callable[[], encoders.Encoder]"
    """Returns the model with the weights of the groups, which is loaded when it is first needed."""
    stored: Mapping[Signal, Mapping[str, Entry]] = field(default_factory=dict)
    """The stored vectors that the family reads, by signal and split."""
    memory: int = 0  # bytes of vectors that fits may keep between passes over them
    n_threads: int = 1  # threads that may compute layers next to each other, where results do not depend on it
    over: Callable[..., tuple[Any, ...]] = sum_over  # adds up what a function returns for each shard of a corpus
    reference: "Resources | None" = None
    """The resources of the reference model, for families that compare with it; its ``get_encoder`` leaves the first
    model open."""

    def vectors(
        self, split: str, layers: Sequence[int], words: NDArray[np.int64] | None = None, *, signal: Signal = "words"
    ) -> LayerVectors:
        """The stored vectors of some words of a split, or of all that have one, read layer by layer."""
        chosen = np.arange(self.pair.splits.by_name[split].n_words) if words is None else words
        return LayerVectors.stored(self.stored[signal][split], chosen, layers, n_threads=self.n_threads)


@dataclass(frozen=True)
class Scoring:
    """The settings with which finished cells are scored."""

    run: Path  # run directory
    pair: ModelCorpus
    experiment: str  # the column `experiment` of the rows
    n_resamples: int = N_RESAMPLES  # number of resamples of the bootstrap over sentences
    seed: int = 0  # seed of the resampling
    compare_layers: bool = True


@dataclass(frozen=True)
class TaskRows:
    """Rows of one part of a run."""

    rows: tuple[ResultRow, ...] = ()
    comparisons: tuple[ComparisonRow, ...] = ()

    @classmethod
    def of(cls, rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow] = ()) -> "TaskRows":
        """All rows of some cells; the time of a cell is shared among its rows."""
        times, shared = Counter(map(attrgetter("cell_id"), rows)), []
        for row in rows:
            shared.append(row if row.wall_s is None else replace(row, wall_s=row.wall_s / times[row.cell_id]))
        return cls(tuple(shared), tuple(comparisons))


class Family(ABC):
    """The computation of one kind of question, for every probe of that kind.

    A family has no state. What has to be written is :meth:`configs`, :meth:`cells`, :meth:`compute_cells` and
    :meth:`rows`; the other methods do what suits most kinds. What a probe or a corpus lacks is raised as a
    :class:`bertology.BertologyError` by the method that finds it, in one line that names the task.
    """

    keeps_items: ClassVar[bool] = False  # whether cells keep predictions of single items, which :meth:`count` counts
    has_settings_in_baselines: ClassVar[bool] = False
    """Whether the settings of a task decide the numbers of its baselines too."""

    # Items.

    def is_cross_validated(self, probe: Probe) -> bool:
        """Whether the task can be computed in folds: what is fitted depends on the items of train and dev alone."""
        return False

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> Any:
        """Items of the probe's own, which are not sentences of a corpus, with a ``fingerprint``; None without any.

        They come from a ``source``, by name or path, a table with certain ``columns``; of each group ``most`` are kept.
        """
        return None

    @abstractmethod
    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """The readout configurations that are asked for, each with its registered readout and checked."""

    def configured(self, probe: Probe, config: ReadoutConfig) -> Probe:
        """The question with the settings of a configuration, where these are the probe's and not a readout's."""
        return probe.with_settings(config.settings)

    def check_settings(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:  # noqa: B027
        """Raise what is wrong with settings, as far as :meth:`configs` does not find it without torch."""

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:  # noqa: B027
        """Raise what would keep the task from being computed, as far as it can be known without the model's weights."""

    # Cells.

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Kinds of stored vectors that configurations need, of model and reference; extracted first."""
        return ()

    def identity(self, pair: ModelCorpus, probe: Probe) -> dict[str, Any]:
        """Fingerprints of the data that decide the numbers of a task and of its baselines."""
        identity = {}
        for name in probe.reads:
            identity[f"{name}_fingerprint"] = pair.splits.by_name[name].fingerprint
        if (items := pair.splits.items.get(probe.task)) is not None:
            identity["items_fingerprint"] = items.fingerprint
        return identity if is_installed(probe) else identity | self.own_identity(pair, probe)

    def own_identity(self, pair: ModelCorpus, probe: Probe) -> dict[str, Any]:
        """The identity of a probe that is not installed, whose version guards nothing: a hash of its source."""
        return {"source_fingerprint": source_fingerprint(probe)}

    @abstractmethod
    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """The cells of a readout configuration on weights of one initialisation."""

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """The configurations, checked or not, in their order, grouped by those that share passes over the data."""
        return tuple(zip(configs, strict=True))

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The baselines of a task, which read no layer, with what tables show of each."""
        return probe.baselines

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The controls that are computed by layer, and as ``none`` a note on the task itself."""
        return probe.controls

    def unreadable(self, pair: ModelCorpus, probe: Probe) -> Unreadable:
        """The words of a task's splits that the model cannot read, which baselines are not scored on either."""
        reads = probe.reads  # what is left out is looked up for tasks that read text alone
        return {name: pair.unreadable[name] for name in reads if name in pair.unreadable}, {}

    # Computing.

    def pass_key(self, group: FitGroup) -> Hashable | None:
        """A key that groups on the same weights share if they are computed in one pass; None: each by itself."""
        return None

    def compute(self, groups: Sequence[FitGroup], job: Resources) -> Iterator[tuple[FitGroup, Exception | None]]:
        """Compute groups of one :meth:`pass_key` and write their cells, each as it is finished.

        Yields:
            Each group when its cells are written, or with what went wrong, which does not stop the others.
        """
        return one_by_one(groups, lambda group: self.compute_group(group, job))

    def compute_group(self, group: FitGroup, job: Resources) -> None:
        """Compute and write the cells of a group."""
        for cells in group:
            (self.compute_baselines if cells.is_baseline else self.compute_cells)(cells, job)

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Compute and write the cells of one configuration, where nothing in its group is computed with it."""
        raise BertologyError(f"task {cells.probe.task} needs compute_cells or compute, of which its family has none")

    def compute_baselines(self, baselines: FitCells, job: Resources) -> None:
        """Compute baselines and write their cells."""
        raise BertologyError(f"task {baselines.probe.task} has no baselines")

    # Rows.

    def columns(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig | None = None) -> dict[str, Any]:
        """Columns that all rows of a task, or of one configuration, have in common, such as ``split``."""
        if (items := pair.splits.items.get(probe.task)) is None:
            columns = pair.columns
        else:
            columns = {"corpus_fingerprint": items.fingerprint, "split": "all", "language": pair.corpus.language}
        if config is not None:
            columns["pooling"] = pair.request.pooling if self.signals(probe, [config]) else None
        return columns

    def main_metric(self, cells: FitCells, control: str) -> str:
        """The metric by which cells of a control are named where they could not be computed."""
        return self.configured(cells.probe, cells.config).scores[0].name

    @abstractmethod
    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> TaskRows:
        """The rows and comparisons of a readout configuration, on each draw of its weights."""

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Counts that metrics of one kind are made of, in the predictions of cells that share their items.

        Cells are given by id, predictions by the run directory or as tables by cell.
        """
        raise BertologyError("cells of this kind of task keep no predictions of single items")

    def baseline_rows(self, baselines: FitCells, scoring: Scoring) -> TaskRows:
        """The rows of baselines."""
        return TaskRows()


def one_by_one(groups: Sequence[T], compute: Callable[[T], None]) -> Iterator[tuple[T, Exception | None]]:
    """Compute one after the other: each of them, and what went wrong with it, if anything."""
    for group in groups:
        try:
            compute(group)
        except Exception as error:
            yield group, error
        else:
            yield group, None


@contextmanager
def named_task(probe: Probe) -> Iterator[None]:
    """Name the task in errors about what its text or its model lacks."""
    try:
        yield
    except (CorpusError, FitError, ModelError) as error:
        raise type(error)(f"task {probe.task}: {error}") from error


_REGISTRY = Registry[Family]("family", "bertology.families", "labels.v1", Family, "a Family")


def family_of(probe: Probe) -> Family:
    """The installed family that a probe names."""
    try:
        return _REGISTRY.get(probe.family)
    except NameNotFoundError as error:
        raise NameNotFoundError(f"task {probe.task}: {error}") from error


def check_controls(controls: Controls, tasks: Iterable[str]) -> None:
    """Raise where a control is asked for that neither these tasks have nor any other that is installed."""

    def names(probe: Probe) -> set[str]:
        family = family_of(probe)
        return {note.name for note in (*family.baselines(probe), *family.controls(probe))} - {"none"}

    unknown = {*controls} - {"all", RANDOM, *CONTROLS}
    for task in tasks if unknown else ():
        with suppress(BertologyError):  # a task that there is not is reported where it is computed
            unknown -= names(get_probe(task))
    if unknown:
        loaded = [entry.load() for entry in registered_probes().values()]
        every = {"all", "none", RANDOM}.union(*(names(p if isinstance(p, Probe) else p.example) for p in loaded))
        for name in sorted(unknown - every):
            raise name_not_found("control", name, every)
