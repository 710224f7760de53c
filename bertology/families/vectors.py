"""Families that fit readouts to the stored vectors of the sentences of a corpus."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from bertology._memory import memory_for_vectors
from bertology.encoders import ModelShape
from bertology.errors import BertologyError, listed
from bertology.families.cells import versions, write_cell
from bertology.families.contract import BaselineCells, CellGrid, Family, FitCells, Resources, Scoring, TaskRows
from bertology.families.model_corpus import ModelCorpus, Signal, Unreadable
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import (
    ByControl,
    Columns,
    Counts,
    Scored,
    score_cells,
    scored_baselines,
    scored_rows,
    selectivity_rows,
)
from bertology.families.task_data import ItemColumns, TaskData, check_pools, counts_of, items_fingerprint, task_data
from bertology.measures import METRICS, CountKind, Metric
from bertology.probing import ControlNote, Probe, RepresentationProbe, is_installed
from bertology.readouts import ReadoutKind, readout_kind
from bertology.results import ComparisonRow, Predictions, ResultRow
from bertology.results.tables.predictions import Kept

Baseline = tuple[Predictions, Mapping[str, Any], Mapping[str, Any]]
"""The predictions of a baseline, facts besides the counts of items, and the provenance of one that is fitted."""


class VectorFamily(Family):
    """A family that fits readouts to stored vectors, and keeps predictions of single items."""

    is_cross_validated: ClassVar[bool] = True
    about: ClassVar[str]
    """What items are about, for messages: ``labels``."""
    readouts: ClassVar[tuple[str, ...]]
    """What readouts of the family read: ``words``, ``spans``, ``trees``, ``numbers``."""
    count_kinds: ClassVar[tuple[CountKind, ...]]
    """The kinds of counts that metrics of the family are made of."""
    baseline_packages: ClassVar[tuple[str, ...]] = ("numpy",)
    """The packages that baselines are computed with."""
    has_control_task: ClassVar[bool] = True
    """Whether what is asked could be memorised by the form of words."""

    @abstractmethod
    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Counts that metrics are made of, in the predictions of cells in a run's folder that share their items."""

    def metrics(self, probe: Probe) -> Mapping[str, Sequence[Metric]]:
        """By control the metrics that are counted, those of ``none`` for the task and its baselines."""
        return {"none": probe.scores}

    def baseline(self, data: TaskData, columns: ItemColumns, control: str) -> Baseline:
        """A baseline from the items of the training split."""
        raise BertologyError(f"task {data.probe.task} has no baseline {control}")

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Configurations with their registered readouts, the probe's own where none is named.

        Raises:
            NameNotFoundError: there is no such readout.
            BertologyError: a readout is of another kind, has a setting that does not fit the model, or does not predict
                what the metrics of the probe are made of.
        """
        assert isinstance(probe, RepresentationProbe)
        if other := next((metric for metric in probe.scores if metric.count_kind not in self.count_kinds), None):
            fitting = listed(name for name, metric in METRICS.items() if metric.count_kind in self.count_kinds)
            raise BertologyError(f"task {probe.task}: {other.name} is no metric of {self.about}: take {fitting}")
        configs = []
        for config in asked:
            kind = readout_kind(config.readout or probe.readout)
            if kind.reads not in self.readouts:
                remedy = f"leave the readout out, or take {probe.readout}"
                raise BertologyError(
                    f"task {probe.task} is about {self.about}, which {kind.name} cannot read; {remedy}"
                )
            problem = kind.settings_problem(config.settings, shape.dim)
            if problem is not None or (problem := self.config_problem(kind, config)):
                raise BertologyError(f"task {probe.task}: {problem}")
            configs.append(replace(config, readout=kind.name))
        return tuple(configs)

    def config_problem(self, kind: ReadoutKind, config: ReadoutConfig) -> str:
        """What the family cannot compute of a configuration, with a remedy; empty where nothing is wrong."""
        return ""

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The corpus has such items, and they can be pooled."""
        check_pools(pair, task_data(probe, pair.splits), configs)

    def configured(self, probe: Probe, config: ReadoutConfig) -> Probe:
        """The question itself: settings are those of the readout."""
        return probe

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Vectors of words, but where the special token before the text is read."""
        return tuple(dict.fromkeys("cls" if config.pool == "cls" else "words" for config in configs))

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """Those that differ in nothing but the setting that their readout declares as ``fitted_together``."""
        assert isinstance(probe, RepresentationProbe)
        groups: dict[str, list[ReadoutConfig]] = {}
        for place, config in enumerate(configs):
            kind = readout_kind(config.readout or probe.readout)
            others = {name: value for name, value in config.settings.items() if name != kind.fitted_together}
            shared = replace(config, readout=kind.name, settings=others)
            key = str(place) if kind.fitted_together is None else f"{shared.key} {shared.layers}"
            groups.setdefault(key, []).append(config)
        return tuple(map(tuple, groups.values()))

    def check_settings(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """Readouts have such settings."""
        from bertology.readouts import make_readout

        for config in configs:
            make_readout(str(config.readout), **config.settings)

    def identity(self, pair: ModelCorpus, probe: Probe) -> dict[str, Any]:
        """Fingerprints of all splits; of a probe that is not installed, whose version guards nothing, of its items."""
        splits = pair.splits.by_name
        identity = {f"{name}_fingerprint": split.fingerprint for name, split in splits.items()}
        if any(split.written is not split.forms for split in splits.values()):
            identity["forms"] = "written"
        own = {} if is_installed(probe) else {"items_fingerprint": items_fingerprint(probe, pair.splits)}
        return {**identity, **own}

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer, or with mixtures what they mix, with the control task where the model is no control itself."""
        kind, layers = readout_kind(str(config.readout)), pair.layers_of(config)
        columns: tuple[int | None, ...] = (None,) if kind.columns == "all" else layers
        mixed: dict[int | None, Mapping[str, Any]] = {}
        for layer in columns if kind.columns != "layer" else ():
            mixed[layer] = {"mixed_layers": [below for below in layers if layer is None or below <= layer]}
        is_asked = "control_task" in pair.request.controls and init == pair.request.init
        controls = ("none", "control_task") if is_asked and self.has_control_task else ("none",)
        return CellGrid(columns, layers, pair.reading_identity, controls, pair.request.seeds, mixed)

    def fewest_columns(self, probe: Probe, config: ReadoutConfig | None, *, layers: int, seeds: int) -> int:
        """A score for each layer and seed; one for each seed with mixtures of all layers."""
        is_mixed = config is not None and readout_kind(str(config.readout)).columns == "all"
        return (1 if is_mixed else layers) * seeds

    def unreadable(self, pair: ModelCorpus, probe: Probe) -> Unreadable:
        """Words that are left out."""
        return pair.unreadable, {}

    def columns(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig | None = None) -> dict[str, Any]:
        """Those of the corpus, and how vectors are pooled; a code is of the training split."""
        split = {"split": pair.request.train_split} if config is not None and config.codelength else {}
        return {**super().columns(pair, probe, config), **split}

    def compute_baselines(self, baselines: BaselineCells, job: Resources) -> None:
        """Predict from the items of the training split, on what the model can read."""
        data = task_data(baselines.probe, job.pair.splits)
        data = data.without(baselines.unreadable, job.pair.joined if baselines.unreadable else {})
        columns = ItemColumns(data)
        for control, cell in baselines.cells.items():
            kept, facts, provenance = self.baseline(data, columns, control)
            provenance = provenance or {"versions": versions(*self.baseline_packages), "wall_s": 0.0}
            facts = {**counts_of(data), **facts}
            write_cell(job.run, cell, kept, facts=facts, provenance=provenance, notes=data.splits.notes)

    def scores(self, cells: FitCells, scoring: Scoring) -> Columns:
        """The scored columns of a readout configuration."""
        return score_cells(cells, scoring, count=self.count, metrics=self.metrics(cells.probe))

    def scored_by(self, cells: FitCells) -> Sequence[Scored]:
        """The metrics of the rows of a readout configuration, the main one first."""
        return cells.probe.scores

    def more_rows(
        self, cells: FitCells, control: str, by_control: ByControl, shared: Sequence[Mapping[str, Any]]
    ) -> Iterable[ResultRow]:
        """Further rows of a control, such as selectivity."""
        if control != "control_task":
            return ()
        return selectivity_rows(by_control, shared, metric=self.metrics(cells.probe)[control][0].name)

    def more_comparisons(self, cells: FitCells, columns: Columns, scoring: Scoring) -> Iterable[ComparisonRow]:
        """Comparisons besides those of layers."""
        return ()

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> TaskRows:
        """Scores of each layer, further rows, and comparisons of layers."""
        columns = [self.scores(one, scoring) for one in draws]
        more, metrics = partial(self.more_rows, draws[0]), self.scored_by(draws[0])
        rows = scored_rows(self, draws, columns, scoring, metrics=metrics, more=more)
        return replace(rows, comparisons=(*rows.comparisons, *self.more_comparisons(draws[0], columns[0], scoring)))

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> TaskRows:
        """Scores by the task's metrics."""
        metrics = dict.fromkeys(baselines.cells, self.metrics(baselines.probe)["none"])
        columns = score_cells(baselines, scoring, count=self.count, metrics=metrics)
        return scored_baselines(self, baselines, columns, scoring, metrics=baselines.probe.scores)


def control_task_notes(form: str, label: str) -> tuple[ControlNote, ...]:
    """The note on the control task of items that have one label by ``form``."""
    text = f"{form} has {label} (Hewitt & Liang 2019); selectivity: less that"
    return (ControlNote("control_task", "control", text),)


def training_memory(pair: ModelCorpus, n_items: int) -> float:
    """Bytes of vectors that a fit keeps between its passes over the training items."""
    width = 2 if pair.request.stored_dtype == "float16" else 4
    return min(memory_for_vectors(), n_items * len(pair.layers) * pair.shape.dim * width)
