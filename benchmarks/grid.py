"""A grid of very many cells whose fits are stubs: planned, computed in two parts, merged and reported.

    python -m benchmarks.grid [--cells 100000]

Models are a tiny encoder with fresh weights of many seeds; four tasks are put to its five layers, with control tasks
and five seeds: units of fifty cells, and the baselines. In place of a fit each unit writes predictions drawn at random,
so that vectors, files, records, intervals and tables are all there is to do. Each step runs in a process of its own, as
one after the other would on a cluster: its time is given in seconds and in milliseconds a cell, with its peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
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
from bertology.runner.experiment import Experiment
from bertology.runner.plan import Shard, resolve_work

_PER_MODEL = 4 * 5 * 2 * 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=100_000)
    show(run(parser.parse_args().cells))


def run(n_cells: int) -> list[Line]:
    """The lines of the table."""
    lines = list[Line]()

    def timed(what: str, step: Callable[..., int], *args: Any) -> int:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            found, wall, peak = alone.apply(_measured, (step, *args))
        each = 1000 * wall / n_cells
        lines.append(Line(f"{what}, ms a cell", each, (each, each), "", f"{wall:.1f} s; peak memory {peak:.2f} GB"))
        print(lines[-1].what, lines[-1].detail, flush=True)
        return found

    with own_cache(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load_corpus("pocket")  # made once, and kept in the cache
        experiment = trivial(folder, seeds=5, n_models=max(2, n_cells // _PER_MODEL))
        n_cells = timed("planned", _plan, experiment)
        parts = [folder / str(number) for number in (1, 2)]
        for number, part in enumerate(parts, 1):
            timed(f"part {number} of 2 computed", _compute, experiment, part, number)
        timed("merged", _merge, parts, folder / "whole")
        timed("reported", _report, folder / "whole")
    return lines


def _measured(step: Callable[..., int], *args: Any) -> tuple[int, float, float]:
    """What a step returns, its seconds, and the peak memory of its process in GB, imports included."""
    begun = time.perf_counter()
    found = step(*args)
    return found, time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def _plan(experiment: Experiment) -> int:
    return resolve_work(experiment).n_cells


def _compute(experiment: Experiment, part: Path, number: int) -> int:
    options = RunOptions(engine="serial", shard=Shard(number, of=2))
    with patch("bertology.families.labels.fit", _stub):
        return run_experiment(experiment, part, options=options).n_cells


def _merge(parts: list[Path], whole: Path) -> int:
    merge_runs(parts, whole)
    return 0


def _report(folder: Path) -> int:
    from bertology.results.report import write_report

    write_report([folder], folder / "report.html")
    return 0


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
