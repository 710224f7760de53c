"""From ratios of attention heads to cells and tidy rows with intervals: what cells keep of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bertology.attention import HeadRatios
from bertology.families.cells import Cell, columns_of
from bertology.families.scoring import records_of
from bertology.families.tasks import Scoring
from bertology.measures import ratio_intervals
from bertology.probing import Probe
from bertology.results import ResultRow
from bertology.results.predictions import HeadSums, read_head_sums


def kept_ratios(ratios: HeadRatios, split: str, layer: int | None) -> Iterator[HeadSums]:
    """What of some ratios is kept with a layer; with None what belongs to no layer."""
    if (layer is None) != (ratios.unit == "model") or (layer is not None and layer not in ratios.layers):
        return
    place = 0 if layer is None else ratios.layers.index(layer)
    for number, name in enumerate(ratios.names):
        over = ratios.over[number, place]
        under = ratios.under[number, min(place, ratios.under.shape[1] - 1)]
        over, under = np.broadcast_arrays(over, under)
        used = np.flatnonzero(under.any(axis=0))
        yield HeadSums(
            split=split,
            metric=ratios.metric or name,
            group=name if ratios.metric else "",
            unit=ratios.unit,
            clusters=used,
            over=over[:, used],
            under=under[:, used],
        )


def head_rows(
    cells: Iterable[tuple[int | None, Cell]], probe: Probe, shared: Mapping[str, Any], scoring: Scoring
) -> Iterator[ResultRow]:
    """The rows of cells of a task, or of one of its baselines, each with its layer; None for that of no layer."""
    better = {metric.name: metric.higher_is_better for metric in probe.scores}
    shares = {metric.name for metric in probe.scores if metric.bounds == "share"}
    main = probe.scores[0].name
    for layer, cell in cells:
        (record,) = records_of(scoring.run, (cell,))
        of_cell = {**shared, **columns_of(record), "layer": layer}
        kept = read_head_sums(scoring.run, cell.id)
        for split in dict.fromkeys(sums.split for sums in kept):
            where = {"split": shared["split"] if split == "test" else split}
            some = [sums for sums in kept if sums.split == split]
            for row in _ratio_rows(some, shares, {**of_cell, **where}, scoring):
                metric = row["metric"]
                yield ResultRow(**row, higher_is_better=better.get(metric, True), main_metric=metric == main)


def _ratio_rows(
    kept: Sequence[HeadSums], shares: Collection[str], shared: Mapping[str, Any], scoring: Scoring
) -> Iterator[dict[str, Any]]:
    """The columns of each ratio of one split of one cell; all of them are drawn from the same clusters."""
    n_clusters = 1 + max((int(sums.clusters[-1]) for sums in kept if len(sums.clusters)), default=0)
    ratios = [(sums, number) for sums in kept for number in range(len(sums.over))]
    over, under = np.zeros((len(ratios), n_clusters)), np.zeros((len(ratios), n_clusters))
    for place, (sums, number) in enumerate(ratios):
        over[place, sums.clusters], under[place, sums.clusters] = sums.over[number], sums.under[number]
    are_shares = [sums.metric in shares for sums, _ in ratios]
    intervals = ratio_intervals(over, under, are_shares=are_shares, n_resamples=scoring.n_resamples, seed=scoring.seed)
    for place, (sums, number) in enumerate(ratios):
        yield {
            **shared,
            **_counted(sums, number, shared),
            "group": sums.group or None,
            "head": f"L{shared['layer']}H{number + 1}" if sums.unit == "head" else None,
            "metric": sums.metric,
            "value": float(intervals.values[place]),
            "stderr": float(intervals.stderr[place]),
            "ci_low": float(intervals.ci_low[place]),
            "ci_high": float(intervals.ci_high[place]),
            "ci_method": intervals.ci_methods[place],
        }


def _counted(sums: HeadSums, place: int, of_cell: Mapping[str, Any]) -> dict[str, int]:
    """Items and clusters of one ratio, where what it divides by is a number of items; else those of the whole."""
    under = sums.under[place]
    if not np.array_equal(under, np.round(under)):
        return {name: of_cell[name] for name in ("n_items", "n_clusters")}
    return {"n_items": int(under.sum()), "n_clusters": int(np.count_nonzero(under))}
