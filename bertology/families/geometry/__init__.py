"""Statistics of stored vectors by layer, to which nothing is fitted (``bertology.geometry`` computes them)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bertology.corpora import Sentences
from bertology.encoders import Encoding, ModelShape
from bertology.families.alignment import Reasons, skipped_in
from bertology.families.cells import Stopwatch, versions, write_cell
from bertology.families.contract import Family, SplitName
from bertology.families.layer_sums import baseline_tables, kept_sums, layer_tables
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
    Scoring,
    Signal,
    Tables,
    Unreadable,
)
from bertology.families.unfitted import named_task, own_readout, own_source
from bertology.families.vectors import vector_identity
from bertology.geometry import LayerVectors
from bertology.probing import ControlNote, EncodingProbe, GeometryCounts, GeometryProbe, Probe


class _Geometry(Family):
    """What shape do the vectors of a text have, and how does it change from layer to layer?"""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, GeometryProbe)

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Vectors of words, in the encodings of the probe too, and of special tokens that are vectors of sentences."""
        others = (encoding for config in configs for encoding in _encodings(configured(probe, config)).values())
        pools: tuple[Signal, ...] = ("cls",) if any(config.pool == "cls" for config in configs) else ()
        return ("words", *dict.fromkeys(others), *pools)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """Those that the probe reads; test alone where nothing is told from examples."""
        assert isinstance(probe, GeometryProbe)
        return probe.reads

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        assert isinstance(probe, GeometryProbe)
        return own_readout(probe, asked, "vectors.v1", about="the vectors themselves", pools=probe.pools)

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The text has what is asked about."""
        for config in configs:
            with named_task(probe):
                configured(probe, config).words(_texts(pair, probe))
        if any(config.pool == "cls" for config in configs):
            pair.check_cls()

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return {f"{name}_fingerprint": text.fingerprint for name, text in _texts(pair, probe).items()} | own_source(
            probe
        )

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; where layers are compared, what a cell holds depends on which others are read."""
        layers, identity = pair.layers_of(config), vector_identity(pair)
        if configured(probe, config).compares_layers:
            identity["layers"] = list(layers)
        return CellGrid(("none",), 1, layers, layers, identity)

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """Those of the probe; of others, what words at random show is part of the statistics."""
        assert isinstance(probe, GeometryProbe)
        return probe.baselines

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        """What the task itself fits, if anything."""
        assert isinstance(probe, GeometryProbe)
        return (ControlNote("none", "readout", probe.fits),) if probe.fits else ()

    def baseline_identity(self, config: ReadoutConfig) -> dict[str, Any]:
        return {"reading": config.changes} if config.changes else {}

    def unreadable(self, pair: Pair, probe: Probe) -> Unreadable:
        """Words without a vector, of the splits that the probe reads."""
        texts = _texts(pair, probe)
        return {name: reasons for name, reasons in pair.unreadable.items() if name in texts}, {}

    def compute_group(self, group: FitGroup, job: Job) -> None:
        _measure(group, job)

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        _write_baselines(baselines, job)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return corpus_columns(pair)

    def fit_columns(self, pair: Pair, cells: FitCells) -> dict[str, Any]:
        """How vectors are pooled."""
        return {"pooling": pair.request.pooling}

    def main_metric(self, cells: FitCells, control: str) -> str:
        """That of the probe with its settings."""
        return configured(cells.probe, cells.config).scores[0].name

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Every statistic of every layer."""
        return layer_tables(self, draws, scoring)

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        """Every statistic of every baseline."""
        return baseline_tables(self, baselines, scoring)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Some products of all vectors with one another's dimensions, for each layer or pair of layers."""
        n_words, n_layers, dim = _n_words(pair, groups[0].probe), len(pair.layers), pair.shape.dim
        compared = any(configured(one.probe, one.config).compares_layers for group in groups for one in group.members)
        times = n_layers**2 if compared else 4 * n_layers
        return Cost(2.0 * n_words * dim**2 * times, 4.0 * dim**2 * times, 0)


def configured(probe: Probe, config: ReadoutConfig) -> GeometryProbe:
    """The question with the settings of a configuration, on which its metrics may depend."""
    chosen = probe.with_settings(config.settings)
    assert isinstance(chosen, GeometryProbe)
    return chosen


def _encodings(probe: GeometryProbe) -> Mapping[str, Encoding]:
    """By name the encodings besides the plain one that a probe reads."""
    return probe.encodings if isinstance(probe, EncodingProbe) else {}


def _texts(pair: Pair, probe: Probe) -> dict[str, Sentences]:
    """The splits that a probe reads."""
    assert isinstance(probe, GeometryProbe)
    return {name: pair.splits.by_name[name] for name in probe.reads}


def _n_words(pair: Pair, probe: Probe) -> int:
    return sum(text.n_words for text in _texts(pair, probe).values())


def _measure(group: FitGroup, job: Job) -> None:
    """Compute the statistics of each member and write its cells."""
    for cells in group.members:
        watch, probe, layers = Stopwatch(), configured(cells.probe, cells.config), cells.layers_read
        texts = _texts(job.pair, probe)
        with named_task(probe):
            asked = probe.words(texts)
            others = {name: job.stored[encoding]["test"] for name, encoding in _encodings(probe).items()}
            left_out = {name: dict(job.pair.unreadable.get(name, {})) for name in texts}
            for entry in others.values():
                left_out["test"] = {**skipped_in(entry), **left_out["test"]}
            read = {name: asked[name][~np.isin(asked[name], list(left_out[name]))] for name in texts}
            stored = partial(LayerVectors.stored, layers=layers, n_threads=job.n_threads)
            vectors = {name: stored(job.entries[name], read[name]) for name in texts}
            vectors |= {name: stored(entry, read["test"]) for name, entry in others.items()}
            if cells.config.pool == "cls":
                for name, text in texts.items():
                    numbers = np.arange(len(text))
                    vectors[f"cls:{name}"] = stored(job.stored["cls"][name], numbers)
            # Decompositions of small matrices on two threads that share a core with another job take 150 times as long;
            # and on one thread every engine computes the same bits.
            with threadpool_limits(1):
                found = list(probe.statistics(vectors, texts))
        facts = _facts(probe, texts, asked, read, left_out.get("test", {}), cells.config) | job.pair.alignment_counts()
        provenance = watch.provenance("torch", "transformers", "numpy", device="cpu", n_cells=len(cells.cells))
        for (_, _, layer), cell in cells.cells.items():
            sums = [kept_sums(one, layer) for one in found if layer in one.layers]
            write_cell(job.run, cell, sums, facts=facts, provenance=provenance, notes=job.pair.splits.notes)


def _write_baselines(baselines: BaselineCells, job: Job) -> None:
    """Compute what needs no vector on the words that the model can read, and write the cells."""
    probe = configured(baselines.probe, baselines.config)
    texts = _texts(job.pair, probe)
    with named_task(probe):
        asked = probe.words(texts)
    read = {name: np.setdiff1d(asked[name], list(baselines.unreadable.get(name, ()))) for name in texts}
    facts = _facts(probe, texts, asked, read, baselines.unreadable.get("test", {}), baselines.config)
    for control, cell in baselines.cells.items():
        with named_task(probe):
            found = list(probe.baseline(control, texts, read))  # type: ignore[arg-type]
        provenance = {"versions": versions("numpy", "scikit-learn"), "wall_s": 0.0}
        write_cell(job.run, cell, [kept_sums(one, None) for one in found], facts=facts, provenance=provenance)


_Words = Mapping[str, NDArray[np.int64]]


def _facts(
    probe: GeometryProbe,
    texts: Mapping[str, Sentences],
    asked: _Words,
    read: _Words,
    why: Reasons,
    config: ReadoutConfig,
) -> dict[str, Any]:
    """What is kept of cells besides their sums: counts of items, and what was left out."""
    counts: GeometryCounts = probe.counts(texts, read)
    skipped = Counter(counts.skipped) + Counter(
        why[word] for word in np.setdiff1d(asked["test"], read["test"]).tolist()
    )
    return {
        "n_train": counts.n_train,
        "n_items": counts.n_items,
        "n_clusters": len(np.unique(texts["test"].sentence_of_word[read["test"]])),
        "n_classes": counts.n_classes,
        "n_skipped": skipped.total(),
        "skip_reasons": dict(sorted(skipped.items())),
        "n_unseen_label": counts.n_unseen_label,
        "params": {"settings": config.changes} if config.changes else {},
    }


FAMILY = _Geometry()
