"""``bertology run``, ``plan``, ``merge``, ``verify``, ``rerun`` and ``schema``: experiments, and runs of them."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bertology.cli._shared import Memory, Trust
from bertology.cli.cache import confirm

if TYPE_CHECKING:
    from bertology.runner import RunSummary

MOST_CELLS = 100_000
_MOST_LINES = 20

File = Annotated[Path, typer.Argument(help="Experiment, such as experiments/quickstart.yaml.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run; runs/NAME when left out.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting: models[0].dtype=bfloat16; may be repeated."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; all processors.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


def run(
    file: File,
    *,
    out: Out = None,
    set_: Changes = None,
    engine: Annotated[
        Literal["joblib", "serial", "dask"],
        typer.Option(
            help="joblib: processes of this machine; serial: this one, to see a failure happen; dask: workers of a "
            "cluster that see the run's folder and the cache (BERTOLOGY_CACHE) at the same paths."
        ),
    ] = "joblib",
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
    jobs: Jobs = None,
    memory: Memory = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Only one part of the cells, for job arrays.")] = "1/1",
    retry_failed: Annotated[bool, typer.Option(help="Try again what could not be computed.")] = False,
    fail_fast: Annotated[bool, typer.Option(help="Stop at the first failure.")] = False,
    trust_remote_code: Trust = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="However many cells there are, do not ask.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only failures and the last line.")] = False,
) -> None:
    """Run an experiment, or what is left of it; exit status 1 if something could not be computed.

    Cells are kept as they are finished: stopped at any moment, the same command goes on from there. What fails is
    recorded and does not stop the others. Several processes may run the same experiment into the same folder.
    """
    from bertology.activations import BarProgress, silent
    from bertology.runner import ClusterChoice, RunOptions, Shard, resolve_work, run_experiment
    from bertology.runner.experiment import load_experiment

    show = not quiet and sys.stderr.isatty()
    options = RunOptions(
        engine=engine,
        jobs=jobs,
        shard=Shard.parse(shard),
        cluster=ClusterChoice(scheduler, slurm, patience),
        retry_failed=retry_failed,
        fail_fast=fail_fast,
        echo=(lambda _: None) if quiet else (BarProgress("") if show else silent).line,
        progress=BarProgress if show else lambda _: silent,
    )
    experiment = load_experiment(file, changes=set_ or (), trust_remote_code=trust_remote_code)
    is_agreed = partial(_is_agreed, file)
    work = resolve_work(experiment, part=options.shard, is_agreed=(lambda _: True) if yes else is_agreed)
    _report(run_experiment(work.experiment, out or Path("runs") / work.experiment.name, work=work, options=options))


def plan(file: File, *, out: Out = None, set_: Changes = None, trust_remote_code: Trust = False) -> None:
    """Say what an experiment comes to, what of it is finished, and what the rest takes; computes nothing."""
    from bertology.runner import estimate, resolve_work
    from bertology.runner.experiment import load_experiment

    work = resolve_work(load_experiment(file, changes=set_ or (), trust_remote_code=trust_remote_code))
    typer.echo(estimate(work, out or Path("runs") / work.experiment.name).to_text(), nl=False)


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs of one experiment, such as its shards.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the merged run.")],
) -> None:
    """Put the shards of an experiment together; computes nothing, and needs neither models nor corpora."""
    from bertology.runner import merge_runs

    results = merge_runs(runs, out)
    cells = len({row.cell_id for row in results.rows})
    typer.echo(f"{cells:,} cells of {len(runs)} runs; tables and plots in {out}")


def verify(run: Run) -> None:
    """Compare every file of a run with its checksum; exit status 1 if something was altered."""
    from bertology.runner import verify_run

    problems = verify_run(run)
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "as it was written"
    typer.echo("\n".join([*problems, f"{run}: {count}"]))
    raise typer.Exit(1 if problems else 0)


def rerun(
    run: Run,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the repetition; RUN-again when left out.")
    ] = None,
    jobs: Jobs = None,
    trust_remote_code: Trust = False,
) -> None:
    """Repeat a run from its own record and say which numbers moved; exit status 1 if any did."""
    from bertology import runner
    from bertology._files import real_path

    out = out or run.with_name(f"{real_path(run).name}-again")
    options = runner.RunOptions(jobs=jobs)
    repeated = runner.rerun(run, out, options=options, trust_remote_code=trust_remote_code)
    n_more = len(repeated.moved) - _MOST_LINES
    for line in [*repeated.moved[:_MOST_LINES], *([f"… and {n_more} more"] if n_more > 0 else [])]:
        typer.echo(line)
    moved = f"{len(repeated.moved):,} moved" if repeated.moved else "none moved"
    typer.echo(f"{repeated.n_scores:,} scores compared, {moved} ({repeated.summary.wall_s:.1f} s); in {out}")
    raise typer.Exit(1 if repeated.moved else 0)


def schema(
    command: Annotated[
        Literal["run", "finetune", "landscape", "pretrain"], typer.Argument(help="The command that reads the files.")
    ] = "run",
) -> None:
    """Print the JSON Schema of the YAML files of a command, by which editors complete and check them."""
    from bertology.finetuning import grid_schema
    from bertology.landscapes import landscape_schema
    from bertology.pocket import recipe_schema
    from bertology.runner.experiment import experiment_schema

    schemas = {
        "run": experiment_schema,
        "finetune": grid_schema,
        "landscape": landscape_schema,
        "pretrain": recipe_schema,
    }
    typer.echo(json.dumps(schemas[command](), indent=2, ensure_ascii=False))


def _is_agreed(file: Path, n_cells: int) -> bool:
    """Ask before a grid that no one may have meant; whether a person was asked, and agreed."""
    if n_cells <= MOST_CELLS:
        return False
    count = f"{n_cells:,} cells or more"
    confirm(f"{count}: go on?", otherwise=f"{file}: {count}; if that is meant, say so with --yes")
    return True


def _report(summary: RunSummary) -> None:
    for line in summary.failures:
        typer.echo(f"failed: {line}", err=True)
    cells = f"{summary.n_cells:,} cells"
    if summary.failures:
        outcome = f"{summary.n_computed:,} of {cells} computed, some failed (--retry-failed tries them again)"
    elif not summary.n_computed:
        outcome = f"nothing to do: all {cells} are finished"
    elif summary.n_computed < summary.n_cells:
        outcome = f"{summary.n_computed:,} of {cells} computed, the others were there"
    else:
        outcome = f"{cells} computed"
    typer.echo(f"{outcome} ({summary.wall_s:.1f} s); tables and plots in {summary.folder}")
    raise typer.Exit(1 if summary.failures else 0)
