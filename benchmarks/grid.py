"""A grid of very many cells whose fits are stubs: planned, computed in two parts, merged and reported.

    python -m benchmarks.grid [--cells 100000]

Models are a tiny encoder with fresh weights of many seeds; four tasks are put to its five layers, with control tasks
and five seeds: units of fifty cells, and the baselines. In place of a fit each unit writes predictions drawn at random,
so that vectors, files, records, intervals and tables are all there is to do. The time of each step is given in seconds
and in milliseconds a cell, and the peak memory of the process at the end of it.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import numpy as np

from benchmarks._common import Line, show
from benchmarks.extraction import own_cache
from benchmarks.overhead import trivial
from bertology import load_corpus
from bertology.families.contract import FitCells, Resources
from bertology.families.vectors import CellWriter, task_data
from bertology.results import predictions
from bertology.runner import RunOptions, merge_runs, run_experiment
from bertology.runner.plan import Shard, resolve_work

_PER_MODEL = 4 * 5 * 2 * 5
Found = TypeVar("Found")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=100_000)
    show(run(parser.parse_args().cells))


def run(n_cells: int) -> list[Line]:
    """The lines of the table."""
    lines = list[Line]()

    def timed(what: str, step: Callable[[], Found]) -> Found:
        begun = time.perf_counter()
        found = step()
        wall, peak = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        each = 1000 * wall / n_cells
        lines.append(Line(f"{what}, ms a cell", each, (each, each), "", f"{wall:.1f} s; peak memory {peak:.2f} GB"))
        return found

    with own_cache(), tempfile.TemporaryDirectory() as name, patch("bertology.families.labels.fit", _stub):
        folder = Path(name)
        load_corpus("pocket")  # made once, and kept in the cache
        experiment = trivial(folder, seeds=5, n_models=max(2, n_cells // _PER_MODEL))
        n_cells = timed("planned", lambda: resolve_work(experiment)).n_cells
        parts = [folder / str(number) for number in (1, 2)]
        for number, part in enumerate(parts, 1):
            options = RunOptions(engine="serial", shard=Shard(number, of=2))
            timed(f"part {number} of 2 computed", lambda: run_experiment(experiment, part, options=options))  # noqa: B023
        timed("merged", lambda: merge_runs(parts, folder / "whole"))
        timed("reported", lambda: _report(folder / "whole"))
    return lines


def _report(folder: Path) -> None:
    from bertology.results.report import write_report

    write_report([folder], folder / "report.html")


def _stub(cells: FitCells, job: Resources) -> None:
    """Predictions drawn at random in the place of fits."""
    data, random = task_data(cells.probe, job.pair.splits), np.random.default_rng(0)
    writer = CellWriter(cells, data, job, predictions.Stopwatch().provenance("torch", device="cpu"))
    for problem in cells.problems:
        gold = data.test.codes if problem.control == "none" else data.control("test", seed=problem.seed)
        for cell in cells.cells_of(problem):
            labels = np.where(random.random(len(gold)) < 0.8, gold, random.integers(0, data.n_train_labels, len(gold)))
            kept = data.predictions(gold, labels, np.log(random.random(len(gold))))
            writer.add(cell, kept, problem.seed, {"strength": 1.0, "converged": True}, n_params=1)
    writer.finish()


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
