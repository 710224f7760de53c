"""Cross-validation: cells are computed in each fold by itself, then put together to those of all items."""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertology.families.cells import Cell, CellRecord, all_finished, read_cell, write_cell
from bertology.families.contract import BaselineCells, Family, FitCells, FitGroup, Resources
from bertology.results import Predictions
from bertology.results.predictions import read_predictions

_FOLDER = "folds"
"""In a run's folder what cells have come to in single folds, until all of them are finished."""
_SUMS = ("n_items", "n_skipped", "n_unseen_label")


def compute_groups(
    family: Family, groups: Sequence[FitGroup], job: Resources
) -> Iterator[tuple[FitGroup, Exception | None]]:
    """:meth:`Family.compute`, in each fold where there are any; what is finished of a fold is not computed again."""
    if not job.pair.splits.folds:
        yield from family.compute(groups, job)
        return
    failures: dict[int, Exception] = {}
    for of_fold in _in_folds(job):

        def is_finished(cells: FitCells, run: Path = of_fold.run) -> bool:
            return all_finished(run, cells.cells.values())

        pending = [(group, group.without(is_finished)) for group in groups if id(group) not in failures]
        owners = {id(left): group for group, left in pending}
        if parts := [left for _, left in pending if left is not None]:
            for part, error in family.compute(parts, of_fold):
                failures |= {} if error is None else {id(owners[id(part)]): error}
    for group in groups:
        if id(group) not in failures:
            _put_together(job, group.cells)
        yield group, failures.get(id(group))


def compute_baselines(family: Family, baselines: BaselineCells, job: Resources) -> None:
    """:meth:`Family.compute_baselines`, in each fold where there are any."""
    if not job.pair.splits.folds:
        family.compute_baselines(baselines, job)
        return
    for of_fold in _in_folds(job):
        if not all_finished(of_fold.run, baselines.cells.values()):
            family.compute_baselines(baselines, of_fold)
    _put_together(job, baselines.cells.values())


def _in_folds(job: Resources) -> Iterator[Resources]:
    """The same in each fold, which has a folder of its own."""
    for fold in job.pair.splits.folds:
        yield replace(job, run=_folder_of(job, fold.fold), pair=replace(job.pair, splits=fold))


def _folder_of(job: Resources, fold: int | None) -> Path:
    return job.run / _FOLDER / str(fold)


def _put_together(job: Resources, cells: Iterable[Cell]) -> None:
    """Write cells of all items, made of those of the folds, which are then deleted."""
    runs = [_folder_of(job, fold.fold) for fold in job.pair.splits.folds]
    for cell in cells:
        records = [_record_of(run, cell) for run in runs]
        kept = _joined([read_predictions(run, cell.id) for run in runs])
        facts = [record.facts for record in records]
        n_clusters = len(kept.cluster_ids)
        write_cell(
            job.run,
            cell,
            kept,
            facts={**_facts_of(facts), "n_clusters": n_clusters},
            provenance={**records[0].provenance, "wall_s": sum(record.provenance["wall_s"] for record in records)},
            notes=job.pair.splits.notes,
        )
        for path in (path for run in runs for path in run.glob(f"*/{cell.id}*")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for folder in [*(path for run in runs for path in run.glob("*")), *runs, job.run / _FOLDER]:
        with contextlib.suppress(OSError):  # others have cells in it
            folder.rmdir()


def _joined(parts: Sequence[Predictions]) -> Predictions:
    """Predictions of the folds, one after the other; no item and no cluster is in two of them."""
    numbers: dict[str, int] = {}
    places = [
        np.array([numbers.setdefault(label, len(numbers)) for label in part.labels], dtype=np.int64) for part in parts
    ]
    of_folds = list(zip(parts, places, strict=True))
    before = np.cumsum([0, *(len(part.cluster_ids) for part in parts)]).tolist()
    return Predictions(
        item_ids=[item for part in parts for item in part.item_ids],
        cluster=np.concatenate([part.cluster + first for part, first in zip(parts, before, strict=False)]),
        cluster_ids=[name for part in parts for name in part.cluster_ids],
        gold=np.concatenate([place[part.gold] for part, place in of_folds]),
        pred=np.concatenate([place[part.pred] for part, place in of_folds]),
        score=np.concatenate([part.score for part in parts]),
        labels=tuple(numbers),
        label_sets=parts[0].label_sets,
        fold=np.repeat(np.arange(1, len(parts) + 1), [len(part.item_ids) for part in parts]),
    )


def _record_of(run: Path, cell: Cell) -> CellRecord:
    record = read_cell(run, cell)
    if record is None:
        raise RuntimeError(f"cell {cell.id} is not finished in {run}")
    return record


def _facts_of(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of all items; of training items, and of what was fitted, what a fold has on average."""
    sums = {name: sum(of_fold[name] for of_fold in facts) for name in _SUMS}
    skipped = sum((Counter(of_fold["skip_reasons"]) for of_fold in facts), Counter[str]())
    params = _averaged([of_fold.get("params", {}) for of_fold in facts]) | {"folds": len(facts)}
    averaged = {name: _averaged([of_fold[name] for of_fold in facts]) for name in ("n_train", "n_classes")}
    return {**facts[0], **averaged, **sums, "skip_reasons": dict(skipped), "params": params}


def _averaged(values: Sequence[Any]) -> Any:
    """One value for those of the folds: mappings and lists of one length item by item, numbers the middle one, whether
    something holds in all of them; of anything else the most frequent."""
    first = values[0]
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        found = {name: _averaged([value.get(name) for value in values]) for name in names}
        return {name: value for name, value in found.items() if value is not None}
    if all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1:
        return [_averaged(items) for items in zip(*values, strict=True)]
    if all(isinstance(value, bool) for value in values):
        return all(values)
    if all(isinstance(value, int | float) for value in values):
        return statistics.median_low(values)
    plain = [value for value in values if not isinstance(value, dict | list)]
    return Counter(plain).most_common(1)[0][0] if len(plain) == len(values) else first
