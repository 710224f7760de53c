"""Running an experiment, or a request, to its tables; whatever is finished is not computed again."""

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Literal

from threadpoolctl import threadpool_limits

from bertology import _files
from bertology._machine import choose_device, visible_gpus
from bertology.activations import Recipe, brief_store, memory_of
from bertology.activations.progress import silent
from bertology.corpora import Corpus
from bertology.encoders.sources import MemorySource
from bertology.errors import BertologyError, ModelError
from bertology.families.contract import Scoring, TaskRows
from bertology.families.request import Experiment, ProbeRequest
from bertology.families.rows import failed_rows, noted
from bertology.results import ResultRow, Results, read_results
from bertology.results.cells import all_finished
from bertology.results.predictions import PredictionFolder
from bertology.results.rows import ComparisonRow
from bertology.runner._folder import RunFolder, failure_of, git_state
from bertology.runner.engines import ClusterChoice, Context, Engine, ProgressFor, joblib_engine, serial, threads_engine
from bertology.runner.plan import Shard, Unit, Work, in_order, resolve_work

EngineName = Literal["joblib", "threads", "serial", "dask"]
_RESULTS, _CELLS = "results.parquet", attrgetter("cells")
_ROOM = 6  # free memory of a GPU ÷ vectors for these to stay there: a fit converts them to float32
_MOST_AT_ONCE = 4
"""Units whose tables are made side by side: each holds the counts of all its cells in memory."""


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
    store: bool | None = None
    """Keep vectors in the cache, for later runs; otherwise they stay in the memory of the device or this machine, or in
    a temporary folder, and are deleted as soon as all tasks of a model are done. When left out they are kept, unless
    they fit into the memory of a GPU that this process alone computes on."""
    fail_fast: bool = False
    """Stop at the first failure; with ``serial``, there and then."""
    echo: Callable[[str], None] = lambda _: None
    """Called with a line on each unit that is done."""
    progress: ProgressFor = lambda _: silent
    """Gives the progress display of a job from its label."""

    def __post_init__(self) -> None:
        self.cluster.check(self.engine)
        if self.engine == "dask" and self.store is False:
            raise BertologyError("workers of dask share vectors through the cache: leave --no-store out")


@dataclass(frozen=True)
class RunSummary:
    """The outcome of a run."""

    folder: Path
    n_cells: int  # number of cells of the experiment, or of the shard
    n_computed: int  # computed now; the others were there
    failures: tuple[str, ...]  # one line on each unit that could not be computed
    wall_s: float


@_files.explained_system_errors()
def run_experiment(
    experiment: Experiment, out: Path, *, work: Work | None = None, options: RunOptions | None = None
) -> RunSummary:
    """Compute what an experiment asks, or find it in the folder, and write its tables.

    Args:
        experiment: the experiment to run.
        out: the run's folder. Several processes may work in it at once.
        work: the experiment resolved, if that has been done.
        options: how to run it.

    Raises:
        BertologyError: something asked for is not there, or the folder cannot be used. What fails later, while it is
            computed, is recorded and listed in the summary.
    """
    clock, options = time.perf_counter(), options or RunOptions()
    work = work or resolve_work(experiment, part=options.shard)
    session = _Session(work, RunFolder(out), options)
    if not out.exists():
        # Names are resolved, and settings of readouts checked, before a folder is made.
        session.find_device(session.units)
    session.folder.open(work)
    for note in session.compute():
        options.echo(f"note    {note}")
    failures = []
    for unit in session.units:
        if not all_finished(out, unit.cells) and (reason := failure_of(out, unit)) is not None:
            failures.append(f"{unit.title}: {reason}")
    wall = time.perf_counter() - clock
    session.write_tables(wall)
    n_cells = sum(len(unit.cells) for unit in session.units)
    return RunSummary(out, n_cells, session.n_computed, tuple(failures), wall)


@_files.explained_system_errors()
def run_probes(
    request: ProbeRequest,
    *,
    corpus: Corpus | None = None,
    out: Path | None = None,
    store: bool | None = None,
    progress: ProgressFor = lambda _: silent,
) -> Results:
    """Compute what a request asks for, or find it where it has been computed.

    Of a request for ``checkpoints`` each is a model of its own, and all of them share corpus, items and baselines.

    Cells are written as they are finished, so that a killed run goes on where it was.

    Args:
        request: models, corpora, tasks and settings of the run.
        corpus: the corpus itself, instead of the one the request names.
        out: the run's folder; a folder in the cache, named by the content of the run, when left out.
        store: as in :class:`RunOptions`.
        progress: gives the progress display of a job from its label.

    Raises:
        BertologyError: something asked for cannot be done.
    """
    clock, work = time.perf_counter(), resolve_work(request, corpus=corpus)
    ids = list(map(attrgetter("run_id"), work.pairs.values()))
    path = out or _files.cache_folder() / "runs" / (
        ids[0] if len(ids) == 1 else _files.digest([_files.canonical_json(ids)])
    )
    options = RunOptions(engine="threads", retry_failed=True, store=store, progress=progress)
    session = _Session(work, RunFolder(path), options, raises=True)
    # Everything that can be wrong with a request is found before anything is computed.
    remedy = "name another folder in BERTOLOGY_CACHE" if out is None else "name another folder with --out"
    with _files.explained_write_errors(path, remedy=remedy):
        is_new = not path.is_dir()
    for unit in work.units:
        if not unit.is_baseline and (is_new or not all_finished(path, unit.cells)):
            unit.family.check(unit.plan.pair, unit.probe, unit.plan.configs_of(unit.probe))
    if out is not None:
        session.folder.open(work)
    else:
        with _files.explained_write_errors(path, remedy=remedy):
            path.mkdir(parents=True, exist_ok=True)
        _files.sweep(_files.cache_folder(), path, *path.glob("*"), *path.glob("folds/*/*"))
    notify = progress("").note
    for note in session.notes:
        notify(note)
    session.compute()
    results = None if out is None else session.write_tables(time.perf_counter() - clock)
    return results or session.results(work.units, ())


def _bytes_missing(units: Sequence[Unit]) -> int:
    """Bytes of the vectors that have to be extracted, of the model and corpus that have most of them."""
    missing = defaultdict[int, dict[Recipe, int]](dict)
    for unit in units:
        for read in unit.reads:
            of, texts = read.texts(unit.plan.pair)
            new = {recipe: read.n_bytes(of, text) for text, recipe in texts.values() if recipe.find(of.layers) is None}
            missing[id(unit.plan)].update(new)
    return max((sum(sizes.values()) for sizes in missing.values()), default=0)


class _Session:
    """One process's share of a run."""

    def __init__(self, work: Work, folder: RunFolder, options: RunOptions, *, raises: bool = False) -> None:
        self._work, self.folder, self._options, self._raises = work, folder, options, raises
        self.units = work.shard(options.shard)
        self._held: str | None = None
        for plan in work.pairs.values():
            for pair in (plan.pair.reference, plan.pair):
                if pair is not None and isinstance(pair.source, MemorySource):
                    self._held = pair.source.title
        # Threads where a model is in the memory of this process alone, else processes of this machine.
        self._engine: EngineName = options.engine or ("joblib" if self._held is None else "threads")
        self.n_computed, self._device, self._started = 0, "", datetime.now(UTC)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on the corpora, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(map(attrgetter("notes"), self._work.pairs.values()))))

    def find_device(self, pending: Sequence[Unit]) -> None:
        """Choose what to compute units on; raises where it, or a setting of a readout, is not there."""
        if self._held is not None and self._engine in ("joblib", "dask"):
            raise ModelError(
                f"model {self._held} is in the memory of this process alone: run it here, with engine 'threads' or "
                "'serial', or save it and give the folder"
            )
        for unit in pending:
            if not unit.is_baseline:
                unit.family.check_settings(unit.probe, list(map(attrgetter("config"), unit.draws[0])))
        device = self._work.experiment.device
        # This machine does not know what the workers of a cluster have.
        of_cluster = self._engine == "dask" and not self._options.cluster.is_local
        self._device = device if of_cluster else str(choose_device(device))

    def compute(self) -> tuple[str, ...]:
        """Compute what is pending, if anything; returns the notes on it."""
        options = self._options
        pending = list(filter(self._is_pending, self.units))
        if not pending:
            return ()
        self.find_device(pending)
        with self._open_engine() as engine, self._open_store(pending) as vectors:
            whole, n_cells = options.progress(self._work.experiment.name), list(map(len, map(_CELLS, self.units)))
            whole.start(sum(n_cells), unit="cells")
            whole.skip(sum(n_cells) - sum(map(len, map(_CELLS, pending))))
            try:
                # The units that another process computes come last: by then it has finished them or has gone.
                for wait in (False, True):
                    units, pending = pending, []
                    context = Context(
                        self.folder.path,
                        self._device,
                        wait,
                        self._is_pending,
                        options.progress,
                        brief_store=vectors,
                    )
                    with closing(engine(units, context)) as outcomes:
                        for number, outcome in outcomes:
                            unit = units[number]
                            whole.advance(0 if outcome == "busy" else len(unit.cells))
                            if isinstance(outcome, Exception):
                                options.echo(f"failed  {unit.title}")
                                is_one_of_all = (
                                    isinstance(outcome, BertologyError) and unit.probe.task in unit.plan.left_out
                                )
                                if self._raises and is_one_of_all:
                                    options.progress("").note(f"failed: {outcome}")
                                is_bug = self._engine == "serial" and not isinstance(outcome, BertologyError)
                                if (self._raises and not is_one_of_all) or (options.fail_fast and is_bug):
                                    raise outcome
                                if options.fail_fast:
                                    return self.notes
                            elif outcome == "busy":
                                pending.append(unit)
                            elif outcome == "computed":
                                self.n_computed += len(unit.cells)
                                options.echo(f"done    {unit.title}")
                    if not pending:
                        break
            finally:
                whole.finish()
        return self.notes

    @property
    def _n_jobs(self) -> int:
        """Processes or threads: without ``jobs`` as many as processors, or one where a GPU computes."""
        return self._options.jobs or (_n_processors() if self._device == "cpu" else 1)

    def _open_store(self, pending: Sequence[Unit]) -> contextlib.AbstractContextManager[Path | None]:
        """The folder of vectors that are not kept, or None where they are."""
        in_process = self._engine in ("serial", "threads") or (self._engine == "joblib" and self._n_jobs == 1)
        is_kept = self._options.store
        if is_kept is None:
            may_stay = in_process and self._device.startswith("cuda")
            is_kept = not (may_stay and _ROOM * _bytes_missing(pending) <= (memory_of(self._device) or 0))
        return nullcontext() if is_kept else brief_store(in_process=in_process)

    @contextlib.contextmanager
    def _open_engine(self) -> Iterator[Engine]:
        n_jobs = self._n_jobs
        if self._engine == "dask":
            from bertology.runner._dask import dask_engine, open_pool

            run, echo = self.folder.path, self._options.echo
            gpus = visible_gpus() if self._device == "cuda" else []
            jobs = self._options.jobs or len(gpus) or n_jobs  # a process for each GPU
            with open_pool(self._options.cluster, jobs=jobs, gpus=gpus, run=run, echo=echo) as pool:
                yield partial(dask_engine, pool)
        else:
            engine = joblib_engine if self._engine == "joblib" else threads_engine
            # Whichever is asked for, one job is done in this process.
            yield serial if self._engine == "serial" or n_jobs == 1 else partial(engine, n_jobs)

    def _is_pending(self, unit: Unit) -> bool:
        if all_finished(self.folder.path, unit.cells):
            return False
        return self._options.retry_failed or failure_of(self.folder.path, unit) is None

    def write_tables(self, wall: float) -> Results | None:
        """Write the tables of all units that are done, whoever did them; None where they are written already."""
        shard, experiment, path = self._options.shard, self._work.experiment, self.folder.path
        plain = experiment.plain()
        with self.folder.lock("tables"):
            done, failed = list[Unit](), list[Unit]()
            for unit in self.units:
                if all_finished(path, unit.cells):
                    done.append(unit)
                elif failure_of(path, unit) is not None:
                    failed.append(unit)
            asked = _files.digest([_files.canonical_json(plain)])
            keys = [list(map(attrgetter("key"), units)) for units in (done, failed)]
            made_of = _files.digest([_files.canonical_json([plain, *keys])])
            record, has_tables = self.folder.record(), (path / _RESULTS).exists()
            # What another experiment left in this folder is no part of this one.
            is_continued = has_tables and record.get("asked") == asked
            parts = dict(record.get("parts") or {}) if is_continued else {}
            known = record["tables"] if shard.of == 1 else parts.get(str(shard))
            if not done or (known == made_of and has_tables and not self.n_computed):
                return None
            results = self.results(done, failed)
            cells = set(map(attrgetter("id"), chain.from_iterable(map(_CELLS, self.units))))
            if is_continued and shard.of > 1:
                # Which cells the other parts have is not known here, since that would take the content of all models.
                before, models = read_results(path), {row.model for row in results.rows}
                others = [row for row in before.rows if row.cell_id not in cells or row.model not in models]
                compared = [row for row in before.comparisons if row.cell_a not in cells]
                rows = in_order(self._work.experiment, (*results.rows, *others))
                results = replace(results, rows=rows, comparisons=(*results.comparisons, *compared))
            save_tables(results, experiment, path)
            self.folder.seal()
            session = {
                "started_utc": self._started.isoformat(timespec="seconds"),
                "wall_s": round(wall, 3),
                "engine": self._engine,
                "shard": str(shard),
                "device": self._device,
                "cells_computed": self.n_computed,
                "git": git_state(),
            }
            is_whole = shard.of == 1
            parts = {} if is_whole else {**parts, str(shard): made_of}
            self.folder.add_session(session, asked=asked, tables=made_of if is_whole else None, parts=parts)
            return results

    def results(self, done: Sequence[Unit], failed: Sequence[Unit]) -> Results:
        """The rows of units: of an experiment in the order in which it names models and tasks."""
        experiment, run = self._work.experiment, self.folder.path

        def rows_of(unit: Unit, is_done: bool) -> list[TaskRows]:
            chosen, family = experiment.statistics, unit.family
            scoring = Scoring(
                run, unit.plan.pair, experiment.name, chosen.resamples, chosen.seed, chosen.compare_layers
            )
            if unit.is_baseline:
                found = [family.baseline_rows(draws[0], scoring) for draws in unit.by_config if is_done]
            elif is_done:
                found = [family.rows(draws, scoring) for draws in unit.by_config]
            else:
                return [failed_rows(family, cells, scoring) for cells in chain.from_iterable(unit.by_config)]
            left_out = unit.plan.left_out.get(unit.probe.task)
            return [noted(family, unit.probe, rows, left_out=left_out) for rows in found]

        units, n_threads = (*done, *failed), min(self._options.jobs or _n_processors(), _MOST_AT_ONCE)
        # Each on one core, since products of this size take longer on several.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
            of_units = list(pool.map(rows_of, units, [True] * len(done) + [False] * len(failed)))
        parts = sorted(zip(units, of_units, strict=True), key=lambda part: part[0].is_baseline)  # baselines last
        rows, comparisons = list[ResultRow](), list[ComparisonRow]()
        for part in chain.from_iterable(of_unit for _, of_unit in parts):
            rows += part.rows
            comparisons += part.comparisons
        ordered = tuple(rows) if experiment.is_request else in_order(experiment, rows)
        every = list(map(attrgetter("pair.corpus"), self._work.pairs.values()))
        corpora = dict(zip(map(attrgetter("fingerprint"), every), every, strict=True))
        return Results(ordered, tuple(comparisons), PredictionFolder(run), corpora, experiment.plain())


def _n_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def save_tables(results: Results, experiment: Experiment, folder: Path) -> None:
    """Write the tables of a run; those for people once there is a layer's score to look at."""
    shown, outputs = False, experiment.outputs
    for row in results.rows:
        shown = shown or (row.layer is not None and row.status == "ok")
    results.save(folder, tables=outputs.tables if shown else (), plots=outputs.plots if shown else ())
