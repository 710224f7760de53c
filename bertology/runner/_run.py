"""Running an experiment, or a request, to its tables; whatever is finished is not computed again."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from bertology._files import cache_folder, canonical_json, digest, explained_system_errors, explained_write_errors
from bertology._temporary import sweep
from bertology.activations.progress import Progress, silent
from bertology.corpora import Corpus
from bertology.encoders.sources import MemorySource
from bertology.errors import BertologyError, ModelError
from bertology.families.contract import BaselineCells, Scoring, TaskRows
from bertology.families.request import Experiment, ProbeRequest
from bertology.families.rows import failed_rows, noted
from bertology.results import Results, read_results
from bertology.results.predictions import PredictionFolder
from bertology.runner._compute import Context, ProgressFor
from bertology.runner._engines import ClusterChoice, Engine, local_engine
from bertology.runner._folder import RunFolder, failure_of, finished, git_state
from bertology.runner._plan import Plan, Shard, Unit, Work, in_order, resolve_work

EngineName = Literal["joblib", "threads", "serial", "dask"]
_RESULTS = "results.parquet"


@dataclass(frozen=True)
class RunOptions:
    """Options of how an experiment is run; none of them changes a score."""

    engine: EngineName | None = None
    """``joblib``: several processes of this machine; ``threads``: threads of this one; ``serial``: this process alone;
    ``dask``: workers of a cluster. When left out, threads where a model is in the memory of this process alone, else
    joblib."""
    jobs: int | None = None
    """Processes of this machine, or threads; as many as processors when left out."""
    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    """The workers of ``dask``; processes that it starts on this machine when left out."""
    shard: Shard = field(default_factory=Shard)
    retry_failed: bool = False
    """Try again what could not be computed."""
    fail_fast: bool = False
    """Stop at the first failure; with ``serial``, there and then."""
    echo: Callable[[str], None] = lambda _: None
    """Called with a line on each unit that is done."""
    progress: ProgressFor = lambda _: silent
    """Gives the progress display of a job from its label."""

    def __post_init__(self) -> None:
        self.cluster.check(self.engine)


@dataclass(frozen=True)
class RunSummary:
    """The outcome of a run."""

    folder: Path
    n_cells: int
    """Number of cells of the experiment, or of the shard."""
    n_computed: int
    """Computed now; the others were there."""
    failures: tuple[str, ...]
    """One line on each unit that could not be computed."""
    wall_s: float


@explained_system_errors()
def run_experiment(
    experiment: Experiment, out: Path, *, work: Work | None = None, options: RunOptions | None = None
) -> RunSummary:
    """Compute what an experiment asks, or find it in the folder, and write its tables.

    Args:
        experiment: what is asked.
        out: the run's folder. Several processes may work in it at once.
        work: the experiment resolved, if that has been done.
        options: how to run it.

    Raises:
        BertologyError: something asked for is not there, or the folder cannot be used. What fails later, while it is
            computed, is recorded and listed in the summary.
    """
    clock, options = time.perf_counter(), options or RunOptions()
    work = work or resolve_work(experiment, part=options.shard)
    # Names are resolved, and settings of readouts checked, before a folder is made.
    units = work.shard(options.shard)
    folder = RunFolder(out)
    session = _Session(work, folder, options)
    if not out.exists():
        session.find_device(units)
    folder.open(work)
    session.compute()
    failures = tuple(
        f"{unit.title}: {reason}"
        for unit in units
        if not finished(out, unit) and (reason := failure_of(out, unit)) is not None
    )
    wall = time.perf_counter() - clock
    _write_tables(work, folder, session, wall)
    return RunSummary(out, sum(len(unit.cells) for unit in units), session.n_computed, failures, wall)


@explained_system_errors()
def run_probes(
    request: ProbeRequest,
    *,
    corpus: Corpus | None = None,
    out: Path | None = None,
    progress: ProgressFor = lambda _: silent,
) -> Results:
    """Compute what a request asks for, or find it where it has been computed.

    Of a request for ``checkpoints`` each is a model of its own, and all of them share corpus, items and baselines.

    Cells are written as they are finished, so that a killed run goes on where it was.

    Args:
        request: what is asked.
        corpus: the corpus itself, instead of the one the request names.
        out: the run's folder; a folder in the cache, named by the content of the run, when left out.
        progress: gives the progress display of a job from its label.

    Raises:
        BertologyError: something asked for cannot be done.
    """
    clock, work = time.perf_counter(), resolve_work(request, corpus=corpus)
    ids = [plan.run_id for plan in work.plans]
    run_id = ids[0] if len(ids) == 1 else digest([canonical_json(ids)])
    path = out if out is not None else cache_folder() / "runs" / run_id
    folder, options = RunFolder(path), RunOptions(engine="threads", retry_failed=True, progress=progress)
    session = _Session(work, folder, options, raises=True)
    # Everything that can be wrong with a request is found before anything is computed.
    remedy = "name another folder in BERTOLOGY_CACHE" if out is None else "name another folder with --out"
    with explained_write_errors(path, remedy=remedy):
        is_new = not path.is_dir()
    for unit in work.units:
        if unit.draws and (is_new or not finished(path, unit)):
            unit.family.check(unit.plan.pair, unit.probe, unit.plan.configs_of(unit.probe))
    if out is not None:
        folder.open(work)
    else:
        with explained_write_errors(path, remedy=remedy):
            path.mkdir(parents=True, exist_ok=True)
        sweep(cache_folder(), path, *path.glob("*"), *path.glob("folds/*/*"))
    notify = progress("").note
    for note in dict.fromkeys(note for plan in work.plans for note in plan.notes):
        notify(note)
    session.compute()
    results = None if out is None else _write_tables(work, folder, session, time.perf_counter() - clock)
    return results or _assemble(work, path, work.units, ())


class _Session:
    """One process's share of a run."""

    def __init__(self, work: Work, folder: RunFolder, options: RunOptions, *, raises: bool = False) -> None:
        self._work, self._folder, self._raises = work, folder, raises
        self.engine = options.engine or default_engine(work.plans)
        self.options = options
        self.n_computed, self.device, self.started = 0, "", datetime.now(UTC)

    def find_device(self, pending: Sequence[Unit]) -> None:
        """Choose what to compute units on; raises where it, or a setting of a readout, is not there."""
        device = self._work.experiment.device
        self.device = device_of(self.engine, pending, device=device, cluster=self.options.cluster)

    def compute(self) -> None:
        units = self._work.shard(self.options.shard)
        pending = [unit for unit in units if self._is_pending(unit)]
        if not pending:
            return
        self.find_device(pending)
        options = self.options
        for note in dict.fromkeys(note for plan in self._work.plans for note in plan.notes):
            options.echo(f"note    {note}")
        with open_engine(
            self.engine,
            jobs=options.jobs,
            device=self.device,
            cluster=options.cluster,
            run=self._folder.path,
            echo=options.echo,
        ) as engine:
            whole, n_left = options.progress(self._work.experiment.name), sum(len(unit.cells) for unit in pending)
            n_cells = sum(len(unit.cells) for unit in units)
            whole.start(n_cells, unit="cells")
            whole.skip(n_cells - n_left)
            try:
                if busy := self._stage(pending, engine, whole, wait=False):
                    # By now, whoever computed these has finished them or has gone.
                    self._stage(busy, engine, whole, wait=True)
            finally:
                whole.finish()

    def _is_pending(self, unit: Unit) -> bool:
        if finished(self._folder.path, unit):
            return False
        return self.options.retry_failed or failure_of(self._folder.path, unit) is None

    def _stage(self, units: Sequence[Unit], engine: Engine, whole: Progress, *, wait: bool) -> list[Unit]:
        """Compute units, which count in the ``whole``; those another process computes are returned, or none where a
        failure ends it all."""
        context = Context(self._folder.path, self.device, wait, self._is_pending, self.options.progress)
        busy = []
        with closing(engine(units, context)) as outcomes:
            for number, outcome in outcomes:
                unit = units[number]
                whole.advance(0 if outcome == "busy" else len(unit.cells))
                if isinstance(outcome, Exception):
                    self.options.echo(f"failed  {unit.title}")
                    is_bug = self.engine == "serial" and not isinstance(outcome, BertologyError)
                    if self._raises or (self.options.fail_fast and is_bug):
                        raise outcome
                    if self.options.fail_fast:
                        return []
                elif outcome == "busy":
                    busy.append(unit)
                elif outcome == "computed":
                    self.n_computed += len(unit.cells)
                    self.options.echo(f"done    {unit.title}")
        return busy


def _write_tables(work: Work, folder: RunFolder, session: _Session, wall: float) -> Results | None:
    """Write the tables of all units that are done, whoever did them; None where they are written already."""
    shard, outputs = session.options.shard, work.experiment.outputs
    units, plain = work.shard(shard), work.experiment.plain()
    with folder.lock("tables"):
        done = [unit for unit in units if finished(folder.path, unit)]
        failed = [unit for unit in units if unit not in done and failure_of(folder.path, unit) is not None]
        asked = digest([canonical_json(plain)])
        made_of = digest([canonical_json([plain, *([unit.key for unit in part] for part in (done, failed))])])
        record, has_tables = folder.record(), (folder.path / _RESULTS).exists()
        # What another experiment left in this folder is no part of this one.
        is_continued = has_tables and record.get("asked") == asked
        parts = dict(record.get("parts") or {}) if is_continued else {}
        known = record["tables"] if shard.is_whole else parts.get(str(shard))
        if not done or (known == made_of and has_tables and not session.n_computed):
            return None
        results = _assemble(work, folder.path, done, failed)
        cells = {cell.id for unit in units for cell in unit.cells}
        if is_continued and not shard.is_whole:
            results = _with_other_parts(work, results, read_results(folder.path), cells)
        # Without a layer's score there is nothing to look at yet.
        shown = any(row.layer is not None and row.status == "ok" for row in results.rows)
        results.save(folder.path, tables=outputs.tables if shown else (), plots=outputs.plots if shown else ())
        folder.seal(None if shard.is_whole else cells)
        folder.add_session(
            {
                "started_utc": session.started.isoformat(timespec="seconds"),
                "wall_s": round(wall, 3),
                "engine": session.engine,
                "shard": str(shard),
                "device": session.device,
                "cells_computed": session.n_computed,
                "git": git_state(),
            },
            asked=asked,
            tables=made_of if shard.is_whole else None,
            parts={} if shard.is_whole else {**parts, str(shard): made_of},
        )
        return results


def _with_other_parts(work: Work, part: Results, before: Results, cells: Collection[str]) -> Results:
    """The results of one part, which has these cells, put to those of other parts that the folder has already: which
    cells those have is not known here, since that would take the content of all models."""
    models = {row.model for row in part.rows}
    others = [row for row in before.rows if row.cell_id not in cells or row.model not in models]
    rows = in_order(work.experiment, (*part.rows, *others))
    compared = [row for row in before.comparisons if row.cell_a not in cells]
    return replace(part, rows=rows, comparisons=(*part.comparisons, *compared))


def _assemble(work: Work, run: Path, done: Sequence[Unit], failed: Sequence[Unit]) -> Results:
    """The rows of units: of an experiment in the order in which it names models and tasks."""
    name, chosen = work.experiment.name, work.experiment.statistics
    fits, baselines = list[TaskRows](), list[TaskRows]()
    for unit in (*done, *failed):
        scoring = Scoring(run, unit.plan.pair, name, chosen.resamples, chosen.seed, chosen.compare_layers)
        if isinstance(unit.part, BaselineCells):
            if unit in done:
                baselines.append(noted(unit.family, unit.probe, unit.family.baseline_rows(unit.part, scoring)))
        elif unit in done:
            tables = (unit.family.rows(draws, scoring) for draws in unit.by_config)
            fits += [noted(unit.family, unit.probe, one) for one in tables]
        else:
            fits += [failed_rows(unit.family, cells, scoring) for draws in unit.by_config for cells in draws]
    parts = (*fits, *baselines)
    rows = tuple(row for part in parts for row in part.rows)
    rows = rows if isinstance(work.experiment, ProbeRequest) else in_order(work.experiment, rows)
    corpora = {plan.pair.corpus.fingerprint: plan.pair.corpus for plan in work.plans}
    return Results(rows, tuple(row for part in parts for row in part.comparisons), PredictionFolder(run), corpora)


def device_of(name: EngineName, units: Sequence[Unit], *, device: str, cluster: ClusterChoice) -> str:
    """The device that an engine computes on; raises where it is missing, or a readout has no such setting."""
    held = held_models(unit.plan for unit in units)
    if held and name in ("joblib", "dask"):
        raise ModelError(
            f"model {held[0]} is in the memory of this process alone: run it here, with engine 'threads' or 'serial', "
            "or save it and give the folder"
        )
    for unit in units:
        for group in unit.draws[:1]:
            unit.family.check_settings(unit.probe, [cells.config for cells in group.members])
    from bertology._workers import choose_device

    # This machine does not know what the workers of a cluster have.
    return device if name == "dask" and not cluster.is_local else str(choose_device(device))


def default_engine(plans: Iterable[Plan]) -> EngineName:
    """Threads where a model is in the memory of this process alone, else processes of this machine."""
    return "threads" if held_models(plans) else "joblib"


def held_models(plans: Iterable[Plan]) -> list[str]:
    """The display names of models that are in the memory of this process alone."""
    pairs = [pair for plan in plans for pair in (plan.pair, plan.pair.reference) if pair is not None]
    return [pair.source.title for pair in pairs if isinstance(pair.source, MemorySource)]


@contextlib.contextmanager
def open_engine(
    name: EngineName, *, jobs: int | None, device: str, cluster: ClusterChoice, run: Path, echo: Callable[[str], None]
) -> Iterator[Engine]:
    """The engine of that name, while in the ``with`` block; without ``jobs`` there are as many as processors, or one
    where a GPU computes."""
    n_processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_jobs = jobs or (n_processors if device == "cpu" else 1)
    if name == "dask":
        from bertology.runner._dask import dask_engine, open_pool

        with open_pool(cluster, jobs=n_jobs, run=run, echo=echo) as pool:
            yield partial(dask_engine, pool)
    else:
        yield local_engine(name, n_jobs)
