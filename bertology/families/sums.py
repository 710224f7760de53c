"""Families whose cells keep sums by cluster: statistics of layers and of attention heads, fitted to no label.

A statistic is a ratio of two sums over clusters of items, such as sentences (:mod:`bertology.measures.sums`). Cells
keep the numerators and denominators of their layer; values, intervals and comparisons are made from these.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bertology.encoders import ModelShape
from bertology.errors import BertologyError, listed
from bertology.families.contract import CellGrid, Family, FitCells, Problem, Resources, Scoring, TaskRows, named_task
from bertology.families.model_corpus import ModelCorpus
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import Column, Mean, cell_rows, records_of, scored_rows, task_columns
from bertology.measures import Metric, bootstrap_ratio
from bertology.measures.intervals import Bootstrap, ratio_intervals
from bertology.measures.sums import HeadRatios, LayerSums
from bertology.probing import GeometryCounts, Probe
from bertology.readouts import readout_kind
from bertology.results import ResultRow, predictions
from bertology.results.cells import Cell, columns_of
from bertology.results.rows import score_of

Asked = TypeVar("Asked", bound=Probe)
Statistics = Mapping[str, Sequence[LayerSums | HeadRatios]]
"""Statistics by name of the split that they were measured on."""
PACKAGES = ("torch", "transformers", "numpy")  # the packages that statistics are computed with
_CLUSTERS = {
    "sentences": "sentences",
    "types": "word types of these documents",
    "blocks": "blocks of neighbouring sentences",
    "documents": "blocks of whole documents",
    "frames": "frames of pairs",
    "ranges": "ranges of 100 numbers",
    "pairs": "pairs",
    "templates": "templates",
    "items": "items",
}
"""Display names of what is resampled."""


def own_readout(
    probe: Probe, asked: Sequence[ReadoutConfig], *readouts: str, about: str, pools: Sequence[str] = ("mean",)
) -> tuple[ReadoutConfig, ...]:
    """Configurations of a task whose readouts are not fitted to labels, with settings of the probe.

    The first of ``readouts`` is taken where none is named; another one, or what only fits have, is refused.
    """
    registered = {name: readout for readout in readouts for name in (readout, readout.rpartition(".")[0])}
    chosen = [(config.readout or readouts[0]).strip().lower().replace("-", "_") for config in asked]
    for named in chosen:
        if named not in registered:
            problem = f"is about {about}, which {readout_kind(named).name} cannot read"
            raise BertologyError(f"task {probe.task} {problem}; leave the readout out, or take {' or '.join(readouts)}")
    for config in asked:
        if config.of_labels or config.fraction != 1 or config.pool not in pools:
            pooled = "nothing to erase or pool" if len(pools) == 1 else f"nothing to erase, and pool is {listed(pools)}"
            consequence = f"there is no share of training data, no codelength, nothing given, and {pooled}"
            raise BertologyError(f"task {probe.task}: no readout is fitted, so that {consequence}")
        probe.with_settings(config.settings)
    return tuple(replace(config, readout=registered[named]) for config, named in zip(asked, chosen, strict=True))


class SumsFamily(Family, Generic[Asked]):
    """A family whose cells keep sums by cluster. :meth:`measure`, or else :meth:`compute_cells`, has to be written."""

    readout: ClassVar[str] = "vectors.v1"  # registered name of what stands in the column `readout`
    about: ClassVar[str] = "the vectors themselves"  # the subject of the task, for messages

    def configured(self, probe: Probe, config: ReadoutConfig) -> Asked:
        """The question with its settings, of the kind of probe that the family asks."""
        return cast(Asked, super().configured(probe, config))

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Settings of the probe; nothing that only fits have."""
        return own_readout(probe, asked, self.readout, about=self.about)

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer that is asked about."""
        layers = pair.layers_of(config)
        return CellGrid(layers, layers, pair.reading_identity)

    def measure(self, cells: FitCells, job: Resources) -> Mapping[str, tuple[NDArray[Any], NDArray[Any]]]:
        """``[layer, sentence]`` numerators and ``[sentence]`` denominators of each metric, of the sentences of test."""
        raise BertologyError(f"task {cells.probe.task} needs measure or compute_cells, of which its family has none")

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Measure all layers; the items are the words of test."""
        watch, test = predictions.Stopwatch(), job.pair.splits.test
        found = [
            LayerSums(metric, cells.layers, over, under[None], "sentences")
            for metric, (over, under) in self.measure(cells, job).items()
        ]
        counts, aligned = GeometryCounts(test.n_words), job.pair.alignment_counts()
        provenance = watch.provenance(*PACKAGES, device=job.device, n_cells=len(cells.cells))
        write_sums(cells, job, found, counts, n_clusters=len(test), provenance=provenance, aligned=aligned)

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> TaskRows:
        """Every statistic of every layer, and comparisons of layers, on each draw of the weights."""
        metrics = self.configured(draws[0].probe, draws[0].config).scores
        scored = [_column(list(one.cells.values()), one.layers, scoring, metrics) for one in draws]

        def by_group(control: str, of_control: Any, shared: Sequence[Mapping[str, Any]]) -> Iterator[ResultRow]:
            mean = Mean.of([[column] for column in scored])
            for column, of_draw in zip(scored, shared, strict=True):
                yield from _group_rows(column, {**of_draw, "control": "none", "seed": 0}, metrics, mean, len(scored))

        plain = [{Problem("none", 0): replace(column, by_group={})} for column in scored]
        # What no sampling decides has one cluster, and layers are not told apart by it; nor by a metric without values.
        has_clusters = any(scores.n_clusters > 1 for scores in scored[0].scores.values())
        is_ranked = has_clusters and metrics[0].name in scored[0].scores
        tables = scored_rows(self, draws, plain, scoring, metrics=metrics, more=by_group, is_ranked=is_ranked)
        every = [sums for cell in draws[0].cells.values() for sums in predictions.read_head_sums(scoring.run, cell.id)]
        return replace(tables, rows=_counted(tables.rows, scored[0], every))

    def baseline_rows(self, baselines: FitCells, scoring: Scoring) -> TaskRows:
        """Every statistic of every baseline, of no layer."""
        metrics, rows = self.configured(baselines.probe, baselines.config).scores, list[ResultRow]()
        for (control, *_), cell in baselines.cells.items():
            where = {**task_columns(self, baselines, scoring), "control": control}
            column = _column([cell], (None,), scoring, metrics)
            made = cell_rows(replace(column, by_group={}), 0, where, metrics=metrics)
            made += _group_rows(column, where, metrics)
            rows += _counted(made, column, predictions.read_head_sums(scoring.run, cell.id))
        return TaskRows.of(rows)


def layers_with_heads(pair: ModelCorpus, layers: Sequence[int], where: str = "") -> tuple[int, ...]:
    """The layers that have attention heads; an error where there is none among them."""
    with_heads = tuple(layer for layer in layers if layer > 0)
    if not with_heads:
        problem, n_layers = "layer 0 is the embeddings, which have no attention heads", pair.shape.n_layers
        remedy = f"ask for layers 1…{n_layers}" if n_layers else "this model has no other layer, so give another model"
        raise BertologyError(f"{where}{problem}: {remedy}")
    return with_heads


# What cells keep.


def write_sums(
    cells: FitCells,
    job: Resources,
    found: Statistics | Sequence[LayerSums],
    counts: GeometryCounts,
    *,
    n_clusters: int,
    provenance: Mapping[str, Any],
    params: Mapping[str, Any] = MappingProxyType({}),
    layer_params: Mapping[int | None, Mapping[str, Any]] = MappingProxyType({}),
    aligned: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write the cells of a configuration, each with the sums of its layer, measured on test unless splits are named.

    ``params`` are parameters of all cells, ``layer_params`` further ones of single layers, and ``aligned`` columns that
    count words by how the model reads them.
    """
    by_split = found if isinstance(found, Mapping) else {"test": found}
    of_groups = {
        f"{one.metric} {one.group}": (one.n_items or counts.n_items,)
        for every in by_split.values()
        for one in every
        if isinstance(one, LayerSums) and one.group and one.n_items is not None
    }
    with predictions.CellFiles(job.run) as file:
        for (_, _, layer), cell in cells.cells.items():
            facts = _facts(counts, n_clusters, cells.config, {**params, **layer_params.get(layer, {})})
            facts |= {"groups": of_groups} if of_groups else {}
            kept = [sums for split, every in by_split.items() for one in every for sums in kept_sums(one, layer, split)]
            file.add(cell, kept, facts={**facts, **aligned}, provenance=provenance, notes=job.pair.splits.notes)


def write_baseline_sums(
    baselines: FitCells,
    job: Resources,
    measure: Callable[[str], Iterable[LayerSums | HeadRatios]],
    counts: GeometryCounts,
    n_clusters: int,
    *packages: str,
) -> None:
    """Measure each baseline by its name, and write its cell."""
    facts = _facts(counts, n_clusters, baselines.config, {})
    provenance = {"versions": predictions.versions(*packages), "wall_s": 0.0}
    with predictions.CellFiles(job.run) as file:
        for (control, *_), cell in baselines.cells.items():
            with named_task(baselines.probe):
                kept = [sums for one in measure(control) for sums in kept_sums(one, None)]
            file.add(cell, kept, facts=facts, provenance=provenance)


def _facts(counts: GeometryCounts, n_clusters: int, config: ReadoutConfig, params: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a cell: counts of its items and, among its parameters, changes of settings."""
    return {
        "n_train": counts.n_train,
        "n_items": counts.n_items,
        "n_clusters": n_clusters,
        "n_classes": counts.n_classes,
        "n_skipped": sum(counts.skipped.values()),
        "skip_reasons": dict(counts.skipped),
        "n_unseen_label": counts.n_unseen_label,
        "params": {**({"settings": config.changes} if config.changes else {}), **params},
    }


def kept_sums(found: LayerSums | HeadRatios, layer: int | None, split: str = "test") -> Iterator[predictions.HeadSums]:
    """The sums of a statistic that belong to one layer, or with None to none."""
    if isinstance(found, LayerSums):
        if layer in found.layers:
            place = found.layers.index(layer)
            over, under = found.over[[place]], found.under[[min(place, len(found.under) - 1)]]
            used = _in_a_sum(over, under)
            yield predictions.HeadSums(
                split, found.metric, found.group, found.clusters, used, over[:, used], under[:, used]
            )
        return
    if (layer is None) != (found.unit == "model") or (layer is not None and layer not in found.layers):
        return
    place = 0 if layer is None else found.layers.index(layer)
    for number, name in enumerate(found.names):
        over, under = np.broadcast_arrays(
            found.over[number, place], found.under[number, min(place, found.under.shape[1] - 1)]
        )
        used = _in_a_sum(over, under)
        metric, group = (found.metric, name) if found.metric else (name, "")
        yield predictions.HeadSums(split, metric, group, found.unit, used, over[:, used], under[:, used])


def _in_a_sum(over: NDArray[np.float64], under: NDArray[np.float64]) -> NDArray[np.int64]:
    """Clusters that add to either sum: where denominators are differences, one may be 0 in a cluster that counts."""
    return np.flatnonzero(((under != 0) | (np.nan_to_num(over) != 0)).any(axis=0))


# Rows of layers.


def _group_rows(
    column: Column, where: Mapping[str, Any], metrics: Sequence[Metric], mean: Mean | None = None, n_runs: int = 1
) -> Iterator[ResultRow]:
    """The rows of the statistics of single groups."""
    better = {metric.name: metric.higher_is_better for metric in metrics}
    for (metric, group), scores in column.by_group.items():
        for place, (layer, record) in enumerate(zip(column.layers, column.records, strict=True)):
            score = score_of(scores, place, mean=mean.by_group[metric, group] if mean else None, n_runs=n_runs)
            yield ResultRow(
                **{**where, **columns_of(record), "layer": layer, "group": group, **score},
                higher_is_better=better.get(metric, True),
                main_metric=metric == metrics[0].name,
            )


def _counted(rows: Sequence[ResultRow], column: Column, every: Sequence[predictions.HeadSums]) -> tuple[ResultRow, ...]:
    """Rows with the clusters of their own statistic, which may be other ones than those of the next.

    Where clusters are types, they are the items; where a statistic divides by numbers of items, these are.
    One that is not defined for a layer, such as likeness with the layer before of the first, has no row.
    """
    n_clusters = {(name, ""): scores.n_clusters for name, scores in column.scores.items()}
    n_clusters |= {key: scores.n_clusters for key, scores in column.by_group.items()}
    kinds = {(sums.metric, sums.group): sums.unit for sums in every}
    of_items = [sums for sums in every if sums.unit in ("sentences", "ranges", "templates", "items")]
    stated = {name: n for one in column.records for name, n in one.facts.get("groups", {}).items()}
    n_items = {}
    for sums in of_items:
        under, of_group = sums.under, stated.get(f"{sums.metric} {sums.group}")
        # Denominators that are numbers of items; those that are all 1 weight clusters alike.
        if of_group is not None:
            n_items[sums.metric, sums.group] = of_group[0]
        elif sums.group or bool((under == np.round(under)).all() and (under != 1).any()):
            n_items[sums.metric, sums.group] = under.sum()
    counted = []
    for row in rows:
        if row.value is None or not np.isfinite(row.value):
            continue
        key = row.metric, row.group or ""
        params = json.dumps({**json.loads(row.params_json), "clusters": _CLUSTERS[kinds[key]]}, sort_keys=True)
        items = n_clusters[key] if kinds[key] == "types" else round(n_items.get(key, row.n_items))
        counted.append(replace(row, n_items=items, n_clusters=n_clusters[key], params_json=params))
    return tuple(counted)


def _column(
    cells: Sequence[Cell], layers: tuple[int | None, ...], scoring: Scoring, metrics: Sequence[Metric]
) -> Column:
    """All statistics of the cells of some layers of one model, each resampled over its own clusters."""
    bounds = {metric.name: metric.bounds for metric in metrics}
    kept: dict[tuple[str, str], dict[int, predictions.HeadSums]] = {}
    for place, cell in enumerate(cells):
        for sums in predictions.read_head_sums(scoring.run, cell.id):
            kept.setdefault((sums.metric, sums.group), {})[place] = sums
    scores: dict[tuple[str, str], Bootstrap] = {}
    for (metric, group), by_place in kept.items():
        clusters = np.unique(np.concatenate([sums.clusters for sums in by_place.values()]))
        over, under = np.zeros((2, len(cells), len(clusters)))
        for place, sums in by_place.items():
            columns = np.searchsorted(clusters, sums.clusters)
            over[place, columns], under[place, columns] = sums.over[0], sums.under[0]
        resampling: dict[str, Any] = {"n_resamples": scoring.n_resamples, "seed": scoring.seed}
        limits = bounds.get(metric, "none")
        scores[metric, group] = bootstrap_ratio(over, under, metric=metric, bounds=limits, **resampling)
    whole = {metric: values for (metric, group), values in scores.items() if not group}
    by_group = {key: values for key, values in scores.items() if key[1]}
    return Column(tuple(cells), layers, records_of(scoring.run, cells), whole, by_group)


# Rows of heads.


def head_rows(family: Family, cells: FitCells, scoring: Scoring) -> TaskRows:
    """The rows of the statistics of heads, or of their baselines, which have no comparisons of layers."""
    probe, shared = family.configured(cells.probe, cells.config), task_columns(family, cells, scoring)
    better = {metric.name: metric.higher_is_better for metric in probe.scores}
    shares = {metric.name for metric in probe.scores if metric.bounds == "share"}
    main = probe.scores[0].name
    rows = []
    for problem in cells.problems:
        control = {"control": problem.control} if cells.is_baseline else {}
        for layer, cell in zip(cells.layers, cells.cells_of(problem), strict=True):
            (record,) = records_of(scoring.run, (cell,))
            of_cell = {**shared, **control, **columns_of(record), "layer": layer}
            kept = predictions.read_head_sums(scoring.run, cell.id)
            for split in dict.fromkeys(sums.split for sums in kept):
                where = {**of_cell, "split": shared["split"] if split == "test" else split}
                for columns in _ratio_rows([sums for sums in kept if sums.split == split], shares, where, scoring):
                    metric = columns["metric"]
                    is_better = better.get(metric, True)
                    rows.append(ResultRow(**columns, higher_is_better=is_better, main_metric=metric == main))
    return TaskRows.of(rows)


def _ratio_rows(
    kept: Sequence[predictions.HeadSums], shares: set[str], shared: Mapping[str, Any], scoring: Scoring
) -> Iterator[dict[str, Any]]:
    """The columns of each ratio of one split of one cell; all of them are drawn from the same clusters."""
    n_clusters = 1 + max((int(sums.clusters[-1]) for sums in kept if len(sums.clusters)), default=0)
    ratios = [(sums, number) for sums in kept for number in range(len(sums.over))]
    over, under = np.zeros((2, len(ratios), n_clusters))
    for place, (sums, number) in enumerate(ratios):
        over[place, sums.clusters], under[place, sums.clusters] = sums.over[number], sums.under[number]
    are_shares = [sums.metric in shares for sums, _ in ratios]
    intervals = ratio_intervals(over, under, are_shares=are_shares, n_resamples=scoring.n_resamples, seed=scoring.seed)
    for place, (sums, number) in enumerate(ratios):
        # Where a ratio divides by a number of items, it has these items and their clusters.
        divisor, counts = sums.under[number], dict[str, int]()
        if np.array_equal(divisor, np.round(divisor)):
            counts = {"n_items": int(divisor.sum()), "n_clusters": int(np.count_nonzero(divisor))}
        yield {
            **shared,
            **counts,
            "group": sums.group or None,
            "head": f"L{shared['layer']}H{number + 1}" if sums.unit == "head" else None,
            **score_of(intervals, place),
            "metric": sums.metric,
        }
