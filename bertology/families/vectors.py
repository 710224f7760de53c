"""Families that fit readouts to the stored vectors of the sentences of a corpus."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from bertology._memory import memory_for_vectors
from bertology.errors import BertologyError, listed
from bertology.families.contract import BaselineCells, CellGrid, Family, Scoring, TaskRows
from bertology.families.model_corpus import ModelCorpus, Signal, Unreadable
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import Counts, score_cells, scored_baselines
from bertology.families.task_data import items_fingerprint
from bertology.measures import METRICS, Metric
from bertology.probing import ControlNote, Probe, RepresentationProbe, is_installed
from bertology.readouts import readout_kind
from bertology.results.tables.predictions import Kept

_COUNTED = {"trees": ("edges", "roots", "arcs"), "numbers": ("numbers",)}
"""The kinds of counts that metrics are made of, by what items are about."""


def checked_configs(
    probe: RepresentationProbe, asked: Sequence[ReadoutConfig], *, about: str, reads: Sequence[str], width: int
) -> tuple[ReadoutConfig, ...]:
    """Configurations with their registered readouts, the probe's own where none is named.

    Readouts have to be of one of the kinds in ``reads``; the items are ``about`` labels or trees, for messages.

    Raises:
        NameNotFoundError: there is no such readout.
        BertologyError: a readout is of another kind, has a setting that does not fit the model, or does not predict
            what the metrics of the probe are made of.
    """
    known = _COUNTED.get(about, ("labels",))
    if other := next((metric for metric in probe.scores if metric.count_kind not in known), None):
        fitting = listed(name for name, metric in METRICS.items() if metric.count_kind in known)
        raise BertologyError(f"task {probe.task}: {other.name} is no metric of {about}: take {fitting}")
    configs = []
    for config in asked:
        kind = readout_kind(config.readout or probe.readout)
        if kind.reads not in reads:
            remedy = f"leave the readout out, or take {probe.readout}"
            raise BertologyError(f"task {probe.task} is about {about}, which {kind.name} cannot read; {remedy}")
        if (problem := kind.settings_problem(config.settings, width)) is not None:
            raise BertologyError(f"task {probe.task}: {problem}")
        configs.append(replace(config, readout=kind.name))
    return tuple(configs)


class VectorFamily(Family):
    """A family that fits readouts to stored vectors, and keeps predictions of single items."""

    is_cross_validated: ClassVar[bool] = True
    has_control_task: ClassVar[bool] = True
    """Whether what is asked could be memorised by the form of words."""

    @abstractmethod
    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Counts that metrics are made of, in the predictions of cells in a run's folder that share their items."""

    def task_metrics(self, probe: Probe) -> tuple[Metric, ...]:
        """The metrics that the task and its baselines are counted for."""
        return probe.scores

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

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> TaskRows:
        """Scores by the task's metrics."""
        metrics = dict.fromkeys(baselines.cells, self.task_metrics(baselines.probe))
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
