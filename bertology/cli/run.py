"""``bertology run``, ``plan`` and ``schema``: experiments from a file."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertology.cli._confirm import confirm

if TYPE_CHECKING:
    from bertology.runner import RunSummary, Shard, Work

MOST_CELLS = 100_000

File = Annotated[Path, typer.Argument(help="Experiment, such as experiments/quickstart.yaml.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run; runs/NAME when left out.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting: models[0].dtype=bfloat16; may be repeated."),
]


class Engine(StrEnum):
    """Where cells are computed."""

    joblib = "joblib"
    serial = "serial"
    dask = "dask"


def run(
    file: File,
    *,
    out: Out = None,
    set_: Changes = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="joblib: processes of this machine; serial: this one, to see a failure happen; dask: workers of a "
            "cluster that see the run's folder and the cache (BERTOLOGY_CACHE) at the same paths."
        ),
    ] = Engine.joblib,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS|FILE", help="Scheduler for dask: tcp://host:8786, or the file it wrote."),
    ] = None,
    slurm: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Let dask submit Slurm jobs as this profile (YAML) says.")
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(min=1, metavar="SECONDS", help="Give up without any dask worker; 120, a queue of Slurm apart."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; all processors.")] = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Only one part of the cells, for job arrays.")] = "1/1",
    retry_failed: Annotated[bool, typer.Option(help="Try again what could not be computed.")] = False,
    fail_fast: Annotated[bool, typer.Option(help="Stop at the first failure.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="However many cells there are, do not ask.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only failures and the last line.")] = False,
) -> None:
    """Run an experiment, or what is left of it; exit status 1 if something could not be computed.

    Cells are kept as they are finished: stopped at any moment, the same command goes on from there. What fails is
    recorded and does not stop the others. Several processes may run the same experiment into the same folder.
    """
    from bertology.activations import BarProgress, silent
    from bertology.runner import ClusterChoice, RunOptions, Shard, run_experiment

    part, cluster = Shard.parse(shard), ClusterChoice(scheduler, slurm, patience)
    cluster.check(engine.value)
    work = _resolved(file, set_ or (), yes=yes, part=part)
    show = not quiet and sys.stderr.isatty()
    options = RunOptions(
        engine=engine.value,
        jobs=jobs,
        cluster=cluster,
        shard=part,
        retry_failed=retry_failed,
        fail_fast=fail_fast,
        echo=(lambda _: None) if quiet else lambda line: typer.echo(line, err=True),
        progress=BarProgress if show else lambda _: silent,
    )
    _tell(run_experiment(work.experiment, out or Path("runs") / work.experiment.name, work=work, options=options))


def plan(file: File, *, out: Out = None, set_: Changes = None) -> None:
    """Say what an experiment comes to, what of it is finished, and what the rest takes; computes nothing."""
    from bertology.runner import estimate

    work = _resolved(file, set_ or (), yes=True)
    typer.echo(estimate(work, out or Path("runs") / work.experiment.name).to_text(), nl=False)


def schema() -> None:
    """Print the JSON Schema of experiment files, by which editors complete and check them."""
    from bertology.runner.experiment import experiment_schema

    typer.echo(json.dumps(experiment_schema(), indent=2, ensure_ascii=False))


def _resolved(file: Path, changes: list[str] | tuple[str, ...], *, yes: bool, part: Shard | None = None) -> Work:
    """The experiment with every name found; asks before a grid that no one may have meant."""
    from bertology.runner import fewest_cells, resolve_work
    from bertology.runner.experiment import load_experiment

    experiment = load_experiment(file, changes=changes)
    fewest = fewest_cells(experiment)
    asked = yes or _asked(file, fewest)
    work = resolve_work(experiment, part=part)
    if not asked:
        _asked(file, work.n_cells)
    return work


def _asked(file: Path, n_cells: int) -> bool:
    """Whether a person was asked about so many cells, and agreed."""
    if n_cells <= MOST_CELLS:
        return False
    told = f"{n_cells:,} cells or more"
    confirm(f"{told}: go on?", otherwise=f"{file}: {told}; if that is meant, say so with --yes")
    return True


def _tell(summary: RunSummary) -> None:
    for line in summary.failures:
        typer.echo(f"failed: {line}", err=True)
    there = f"{summary.n_cells:,} cells"
    if summary.failures:
        told = f"{summary.n_computed:,} of {there} computed, some failed (--retry-failed tries them again)"
    elif summary.n_computed:
        told = f"{summary.n_computed:,} of {there} computed, the others were there"
        told = told if summary.n_computed < summary.n_cells else f"{there} computed"
    else:
        told = f"nothing to do: all {there} are finished"
    typer.echo(f"{told} ({summary.wall_s:.1f} s); tables and plots in {summary.folder}")
    raise typer.Exit(1 if summary.failures else 0)
