"""One run of several: the parts that jobs of an array computed apart, put together without computing anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology._files import explained_system_errors, write_atomically
from bertology.errors import BertologyError
from bertology.results import ComparisonRow, ResultRow, Results, read_results
from bertology.results.predictions import PredictionFolder
from bertology.results.rows import put_row, training_of
from bertology.runner._folder import OF_CELLS, RunFolder
from bertology.runner._work import in_order, same_but_for_names
from bertology.runner.experiment._settings import Experiment

_REMEDY = "name another folder with --out"


@explained_system_errors()
def merge_runs(runs: Sequence[Path], out: Path) -> Results:
    """Put the parts of one experiment together into folder ``out``.

    Args:
        runs: folders of runs of the same experiment, on the same data and models, such as its shards.
        out: a folder that is not there yet, or empty.

    Raises:
        BertologyError: the runs are not of one experiment, contradict each other, or ``out`` is taken.
    """
    folders = [RunFolder(run) for run in runs]
    records = [folder.record() for folder in folders]
    content = _merged_content(folders, records)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BertologyError(f"{out} is not empty: {_REMEDY}")
    rows: dict[Any, ResultRow] = {}
    comparisons: dict[Any, ComparisonRow] = {}
    for folder in folders:
        results = read_results(folder.path)
        for row in results.rows:
            if (known := put_row(rows, row)) is not None:
                values = f"{row.metric} of cell {row.cell_id} is {known.value} in one and {row.value} in {folder.path}"
                remedy = "`bertology verify` says which was altered"
                raise BertologyError(f"the runs contradict each other: {values}; {remedy}")
        comparisons.update({(row.family, row.cell_a, row.cell_b): row for row in results.comparisons})
        _copy_files(folder.path, out)
    experiment, merged = folders[0].experiment(), RunFolder(out)
    _check_names(experiment, rows.values())
    ordered = in_order(experiment, rows.values())
    results = Results(ordered, tuple(comparisons.values()), PredictionFolder(out))
    outputs = experiment.outputs
    shown = any(row.layer is not None for row in results.rows)
    results.save(out, tables=outputs.tables if shown else (), plots=outputs.plots if shown else ())
    sessions = [session for record in records for session in record["sessions"]]
    about = {"content": content, "sessions": sessions, "tables": None, "parts": {}}
    merged.adopt({**records[0], **about}, asked_in=folders[0].path)
    merged.seal()
    return results


def _merged_content(folders: Sequence[RunFolder], records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Fingerprints of all models and corpora of the parts of one experiment; raises where they are not."""
    first, one = folders[0], folders[0].experiment().plain()
    content: dict[str, dict[str, str]] = {kind: {} for record in records for kind in record["content"]}
    owners: dict[tuple[str, str], RunFolder] = {}
    for folder, record in zip(folders, records, strict=True):
        other = folder.experiment().plain()
        differing = ", ".join(sorted(key for key in one if one[key] != other[key]))
        if differing:
            where = f"{first.path} and {folder.path}"
            raise BertologyError(f"{where} are not of one experiment: they differ in {differing}")
        if record["bertology"] != records[0]["bertology"]:
            raise _made_of_different("versions of bertology", first, folder)
        for kind, fingerprints in content.items():
            for name, fingerprint in record["content"].get(kind, {}).items():
                owner = owners.setdefault((kind, name), folder)
                if fingerprints.setdefault(name, fingerprint) != fingerprint:
                    raise _made_of_different("models or corpora", owner, folder)
    return content


def _made_of_different(what: str, one: RunFolder, other: RunFolder) -> BertologyError:
    return BertologyError(f"{one.path} and {other.path} were made of different {what}: run one again")


def _check_names(experiment: Experiment, rows: Iterable[ResultRow]) -> None:
    """That no two models are the same but for their names, which no part can know of the others."""
    fresh = {model.title for model in experiment.models if model.init != "pretrained"}
    owners: dict[str, ResultRow] = {}
    # Baselines are of no model, though models that cannot read all of a text have rows of them of their own.
    for row in (row for row in rows if row.init is not None):
        known = owners.setdefault(row.cell_id, row)
        controls = all(one.init == "random" and one.model not in fresh for one in (known, row))
        checkpoints = None not in (known.step, row.step) and _training(known) == _training(row)
        if known.model != row.model and not (controls or checkpoints):
            raise same_but_for_names(*(f"{one.task} on {one.corpus}, {one.model}" for one in (known, row)))


def _training(row: ResultRow) -> tuple[str, int | None]:
    return training_of(row), row.pretraining_seed


def _copy_files(run: Path, out: Path) -> None:
    for folder in OF_CELLS:
        for path in sorted((run / folder).glob("[!.]*")):
            target = out / folder / path.name
            if not target.exists():
                write_atomically(target, path.read_bytes(), remedy=_REMEDY)
    for failed in (out / "cells").glob("*.failed.json"):
        if (out / "cells" / failed.name.replace(".failed", "")).exists():
            failed.unlink()
