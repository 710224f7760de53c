"""An experiment from its file to its tables; whatever is finished is not computed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bertology._files import canonical_json, digest, explained_system_errors
from bertology.activations import silent
from bertology.errors import BertologyError
from bertology.results import PredictionFolder, Results, read_results
from bertology.runner._assemble import Assembler, Tables
from bertology.runner._plan import BaselineCells
from bertology.runner._run import ProgressFor
from bertology.runner.experiment._cluster import ClusterChoice
from bertology.runner.experiment._engines import Engine, EngineName, Job, choose_device, open_engine
from bertology.runner.experiment._folder import RunFolder, failure_of, finished, git_state
from bertology.runner.experiment._settings import Experiment
from bertology.runner.experiment._work import Shard, Unit, Work, in_order, resolve_work

_RESULTS = "results.parquet"


@dataclass(frozen=True)
class RunOptions:
    """How an experiment is run; nothing here decides what comes out."""

    engine: EngineName = "joblib"
    """``joblib``: several processes of this machine; ``serial``: this process alone; ``dask``: workers of a cluster."""
    jobs: int | None = None
    """Processes of this machine; as many as processors when left out."""
    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    """Which workers ``dask`` gives its work to; processes that it starts on this machine when left out."""
    shard: Shard = field(default_factory=Shard)
    retry_failed: bool = False
    """Try again what could not be computed."""
    fail_fast: bool = False
    """Stop at the first failure; with ``serial``, there and then."""
    echo: Callable[[str], None] = lambda _: None
    """Told each unit that is done."""
    progress: ProgressFor = lambda _: silent
    """Gives the progress display of a job from its label."""

    def __post_init__(self) -> None:
        self.cluster.check(self.engine)


@dataclass(frozen=True)
class RunSummary:
    """What a run came to."""

    folder: Path
    n_cells: int
    """Of the experiment, or of the shard."""
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
        work: the experiment resolved, if it is at hand.
        options: how to run it.

    Raises:
        BertologyError: something asked for is not there, or the folder cannot be used. What fails later, while it is
            computed, is recorded and told in the summary.
    """
    clock, options = time.perf_counter(), options or RunOptions()
    work = work or resolve_work(experiment, part=options.shard)
    # Names are found, and readouts too, before a folder is made.
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


class _Session:
    """One process's share of a run."""

    def __init__(self, work: Work, folder: RunFolder, options: RunOptions) -> None:
        self._work, self._folder, self.options = work, folder, options
        self.n_computed = 0
        self.device = ""
        self.started = datetime.now(UTC)

    def find_device(self, pending: Sequence[Unit]) -> None:
        """Choose what to compute units on; raises where it, or a readout, is not there."""
        options, groups = self.options, [group for unit in pending for group in unit.groups]
        device = self._work.experiment.device
        self.device = choose_device(options.engine, groups, device=device, cluster=options.cluster)

    def compute(self) -> None:
        """Compute what is not there yet."""
        pending = [unit for unit in self._work.shard(self.options.shard) if self._is_pending(unit)]
        if not pending:
            return
        self.find_device(pending)
        options = self.options
        for note in dict.fromkeys(note for plan in self._work.plans for note in plan.notes):
            options.echo(f"note    {note}")
        with open_engine(
            options.engine,
            jobs=options.jobs,
            device=self.device,
            cluster=options.cluster,
            run=self._folder.path,
            echo=options.echo,
        ) as engine:
            busy = self._stage(pending, engine, wait=False)
            if busy:
                # By now, whoever was at these has finished them or has gone.
                self._stage(busy, engine, wait=True)

    def _is_pending(self, unit: Unit) -> bool:
        if finished(self._folder.path, unit):
            return False
        return self.options.retry_failed or failure_of(self._folder.path, unit) is None

    def _stage(self, units: Sequence[Unit], engine: Engine, *, wait: bool) -> list[Unit]:
        """Compute units; those another process is at are returned, or none where a failure ends it all."""
        job = Job(self._folder.path, self.device, wait, self._is_pending, self.options.progress)
        busy = []
        with closing(engine(units, job)) as outcomes:
            for number, outcome in outcomes:
                unit = units[number]
                if isinstance(outcome, Exception):
                    if not self._keep_on(unit, outcome):
                        return []
                elif outcome == "busy":
                    busy.append(unit)
                elif outcome == "computed":
                    self.n_computed += len(unit.cells)
                    self.options.echo(f"done    {unit.title}")
        return busy

    def _keep_on(self, unit: Unit, error: Exception) -> bool:
        self.options.echo(f"failed  {unit.title}")
        if self.options.fail_fast and self.options.engine == "serial" and not isinstance(error, BertologyError):
            raise error
        return not self.options.fail_fast


def _write_tables(work: Work, folder: RunFolder, session: _Session, wall: float) -> None:
    """Write the tables of all units that are done, whoever did them; nothing where they are written already."""
    shard, outputs = session.options.shard, work.experiment.outputs
    units = work.shard(shard)
    with folder.lock("tables"):
        done = [unit for unit in units if finished(folder.path, unit)]
        failed = [unit for unit in units if unit not in done and failure_of(folder.path, unit) is not None]
        asked = digest([canonical_json(work.experiment.plain())])
        made_of = digest([canonical_json([work.experiment.plain(), *([u.key for u in us] for us in (done, failed))])])
        record, there = folder.record(), (folder.path / _RESULTS).exists()
        # What another experiment left in this folder is no part of this one.
        parts = dict(record.get("parts") or {}) if record.get("asked") == asked and there else {}
        known = record["tables"] if shard.is_whole else parts.get(str(shard))
        if known == made_of and there and not session.n_computed:
            return
        if not done:
            return
        results = _assemble(work, folder.path, done, failed)
        own = {cell.id for unit in units for cell in unit.cells}
        if not shard.is_whole and record.get("asked") == asked and there:
            results = _with_other_parts(work, results, read_results(folder.path), own)
        # Without a layer's score there is nothing to look at yet.
        shown = any(row.layer is not None and row.status == "ok" for row in results.rows)
        results.save(folder.path, tables=outputs.tables if shown else (), plots=outputs.plots if shown else ())
        folder.seal(None if shard.is_whole else own)
        folder.add_session(
            {
                "started_utc": session.started.isoformat(timespec="seconds"),
                "wall_s": round(wall, 3),
                "engine": session.options.engine,
                "shard": str(shard),
                "device": session.device,
                "cells_computed": session.n_computed,
                "git": git_state(),
            },
            asked=asked,
            tables=made_of if shard.is_whole else None,
            parts={} if shard.is_whole else {**parts, str(shard): made_of},
        )


def _with_other_parts(work: Work, mine: Results, there: Results, own: Collection[str]) -> Results:
    """The results of one part put to those of others that are in the same folder already.

    Cells of other parts cannot be told by their names here, since that would take the content of all models.
    """
    models = {row.model for row in mine.rows}
    others = [row for row in there.rows if row.cell_id not in own or row.model not in models]
    rows = in_order(work.experiment, (*mine.rows, *others), tasks=work.task_places)
    compared = [row for row in there.comparisons if row.cell_a not in own]
    return Results(rows, (*mine.comparisons, *compared), mine.predictions)


def _assemble(work: Work, run: Path, done: Sequence[Unit], failed: Sequence[Unit]) -> Results:
    statistics = work.experiment.statistics
    assembler = Assembler(
        run,
        work.experiment.name,
        n_resamples=statistics.resamples,
        seed=statistics.seed,
        compare_layers=statistics.compare_layers,
    )
    parts: list[Tables] = []
    for unit in done:
        if isinstance(unit.part, BaselineCells):
            parts.append(assembler.of_baselines(unit.plan, unit.part))
        else:
            parts += [assembler.of_group(unit.plan, draws) for draws in unit.by_draw]
    parts += [assembler.of_failed(unit.plan, group) for unit in failed for group in unit.groups]
    rows = in_order(work.experiment, (row for part in parts for row in part.rows), tasks=work.task_places)
    return Results(rows, tuple(row for part in parts for row in part.comparisons), PredictionFolder(run))
