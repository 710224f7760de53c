"""Statistics of stored vectors by layer, to which nothing is fitted (``bertology.geometry`` computes them)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from bertology.encoders import ModelShape
from bertology.errors import BertologyError, CorpusError, ModelError
from bertology.families.cells import Stopwatch, write_cell
from bertology.families.contract import SplitName, one_by_one
from bertology.families.geometry._rows import geometry_tables
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import corpus_columns
from bertology.families.tasks import (
    BaselineCells,
    CellGrid,
    Cost,
    FitCells,
    FitGroup,
    Job,
    Pair,
    Reasons,
    Scoring,
    Signal,
    Tables,
    Windows,
    n_draws,
    skipped_words,
)
from bertology.families.unfitted import UnfittedFamily, own_readout, own_source
from bertology.families.vectors import vector_identity
from bertology.geometry import LayerSums, LayerVectors
from bertology.probing import GeometryProbe, Probe
from bertology.results import HeadSums


class _Geometry(UnfittedFamily):
    """What shape do the vectors of a text have, and how does it change from layer to layer?"""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, GeometryProbe)

    def signals(self, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Vectors of words."""
        return ("words",)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """Test alone: nothing is trained or chosen."""
        return ("test",)

    def items(self, probe: Probe, source: str, *, most: int | None) -> None:
        return None

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        return own_readout(probe, asked, "vectors.v1", about="the vectors themselves")

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The text has what is asked about."""
        for config in configs:
            _configured(probe, config).words(pair.splits.test)

    def asks_random_weights(self, probe: Probe) -> bool:
        """Always."""
        return True

    def n_draws(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> int:
        """Three where the text is small for the model."""
        return n_draws(pair, float(pair.splits.test.n_words), is_quick=True)

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return {"test_fingerprint": pair.splits.test.fingerprint} | own_source(probe)

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; where layers are compared, what a cell holds depends on which others are read."""
        layers, identity = pair.layers_of(config), vector_identity(pair)
        if _configured(probe, config).compares_layers:
            identity["layers"] = list(layers)
        return CellGrid(("none",), 1, layers, layers, identity)

    def baselines(self, probe: Probe, controls: Collection[str]) -> tuple[str, ...]:
        """None: what words at random show is part of the statistics."""
        return ()

    def baseline_identity(self, config: ReadoutConfig) -> dict[str, Any]:
        return {}

    def unreadable(self, pair: Pair, probe: Probe) -> tuple[dict[str, Reasons], Windows]:
        return {}, {}

    def pass_key(self, group: FitGroup) -> None:
        """Each by itself."""

    def compute(self, groups: Sequence[FitGroup], job: Job) -> Iterator[tuple[FitGroup, Exception | None]]:
        return one_by_one(groups, lambda group: _measure(group, job))

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        raise BertologyError(f"task {baselines.probe.task} has no baselines")

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return corpus_columns(pair)

    def fit_columns(self, pair: Pair, cells: FitCells) -> dict[str, Any]:
        """How vectors are pooled."""
        return {"pooling": pair.request.pooling}

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Every statistic of every layer."""
        return geometry_tables(self, draws, scoring)

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        return Tables(())

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Some products of all vectors with one another's dimensions, for each layer or pair of layers."""
        n_words, n_layers, dim = pair.splits.test.n_words, len(pair.layers), pair.shape.dim
        compared = any(_configured(one.probe, one.config).compares_layers for group in groups for one in group.members)
        times = n_layers**2 if compared else 4 * n_layers
        return Cost(2.0 * n_words * dim**2 * times, 4.0 * dim**2 * times, 0)


def _configured(probe: Probe, config: ReadoutConfig) -> GeometryProbe:
    """The question with the settings of a configuration."""
    chosen = probe.with_settings(config.settings)
    assert isinstance(chosen, GeometryProbe)
    return chosen


def _measure(group: FitGroup, job: Job) -> None:
    """Compute the statistics of each member and write its cells."""
    for cells in group.members:
        watch, text, entry = Stopwatch(), job.pair.splits.test, job.entries["test"]
        probe, layers = _configured(cells.probe, cells.config), cells.layers_read
        asked = probe.words(text)
        vectors = LayerVectors.stored(entry, asked, layers)
        skipped = skipped_words(entry)
        reasons = [skipped[word] for word in np.setdiff1d(asked, vectors.words).tolist()]
        try:
            found = list(probe.statistics(vectors, text))
        except (CorpusError, ModelError) as error:
            raise type(error)(f"task {probe.task}: {error}") from error
        facts = {
            "n_train": 0,
            "n_items": len(vectors),
            "n_clusters": len(np.unique(text.sentence_of_word[vectors.words])),
            "n_classes": 0,
            "n_skipped": len(reasons),
            "skip_reasons": {reason: reasons.count(reason) for reason in sorted(set(reasons))},
            "n_unseen_label": 0,
            "params": {"settings": cells.config.changes} if cells.config.changes else {},
        }
        provenance = watch.provenance("torch", "transformers", "numpy", device="cpu", n_cells=len(cells.cells))
        for (_, _, layer), cell in cells.cells.items():
            sums = [_kept(one, layer) for one in found if layer in one.layers]
            write_cell(job.run, cell, sums, facts=facts, provenance=provenance, notes=job.pair.splits.notes)


def _kept(sums: LayerSums, layer: int | None) -> HeadSums:
    """What of a statistic belongs to one layer."""
    place = sums.layers.index(layer)
    over, under = sums.over[[place]], sums.under[[min(place, len(sums.under) - 1)]]
    used = np.flatnonzero((under != 0).any(axis=0))
    return HeadSums("test", sums.metric, sums.group, sums.clusters, used, over[:, used], under[:, used])


FAMILY = _Geometry()
