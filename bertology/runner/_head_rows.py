"""From finished cells about attention heads to tidy rows: every ratio with its interval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertology.measures import Bootstrap, bootstrap_ratio
from bertology.probing import Probe
from bertology.results import HeadSums, ResultRow, read_head_sums, score_of
from bertology.runner._cells import Cell, CellRecord, read_cell


@dataclass(frozen=True)
class HeadRows:
    """Makes the rows of cells about heads in folder ``run``."""

    run: Path
    n_resamples: int
    """Of the bootstrap over clusters of sentences."""
    seed: int
    """Of the resampling."""

    def of(
        self, cells: Sequence[tuple[int | None, Cell]], probe: Probe, shared: Mapping[str, Any]
    ) -> Iterator[ResultRow]:
        """The rows of cells of one group, or of one baseline.

        Args:
            cells: with the layer of each; None for one that belongs to no layer.
            probe: the question, for what its metrics are.
            shared: columns that all rows have in common; ``split`` is that of ``test``.
        """
        better = {metric.name: metric.higher_is_better for metric in probe.scores}
        main = probe.scores[0].name
        for layer, cell in cells:
            record = read_cell(self.run, cell)
            if record is None:
                raise RuntimeError(f"cell {cell.id} is not finished")
            of_cell = {**shared, **_columns(record), "layer": layer}
            for sums in read_head_sums(self.run, cell.id):
                of_sums = {
                    "split": shared["split"] if sums.split == "test" else sums.split,
                    "group": sums.group or None,
                    "higher_is_better": better.get(sums.metric, True),
                    "main_metric": sums.metric == main,
                }
                scores = self._scores(sums)
                for place in range(len(sums.over)):
                    head = f"L{layer}H{place + 1}" if sums.unit == "head" else None
                    counted = _counted(sums, place, of_cell)
                    yield ResultRow(**{**of_cell, **of_sums, **counted, "head": head, **score_of(scores, place)})

    def _scores(self, sums: HeadSums) -> Bootstrap:
        return bootstrap_ratio(sums.over, sums.under, metric=sums.metric, n_resamples=self.n_resamples, seed=self.seed)


def _columns(record: CellRecord) -> dict[str, Any]:
    facts, provenance = dict(record.facts), record.provenance
    return {
        "cell_id": record.cell_id,
        "skip_reasons": json.dumps(facts.pop("skip_reasons"), sort_keys=True),
        "params_json": json.dumps(facts.pop("params", {}), sort_keys=True),
        **facts,
        "versions": json.dumps(provenance["versions"], sort_keys=True),
        "device": provenance.get("device"),
        "wall_s": provenance["wall_s"],
        "started_utc": provenance.get("fit_started_utc"),
        "predictions_sha256": record.predictions_sha256,
    }


def _counted(sums: HeadSums, place: int, of_cell: Mapping[str, Any]) -> dict[str, int]:
    """Items and clusters of one ratio, where what it divides by is a number of items; else those of the whole."""
    under = sums.under[place]
    if not np.array_equal(under, np.round(under)):
        return {name: of_cell[name] for name in ("n_items", "n_clusters")}
    return {"n_items": int(under.sum()), "n_clusters": int(np.count_nonzero(under))}
