"""``bertology merge``, ``verify`` and ``rerun``: what to do with runs that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_MOST_LINES = 20

Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


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
    for line in problems:
        typer.echo(line)
    typer.echo(
        f"{run}: {len(problems)} problem{'s' * (len(problems) != 1)}" if problems else f"{run}: as it was written"
    )
    raise typer.Exit(1 if problems else 0)


def rerun(
    run: Run,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the repetition; RUN-again when left out.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; all processors.")] = None,
) -> None:
    """Repeat a run from its own record and say which numbers moved; exit status 1 if any did."""
    from bertology._files import real_path
    from bertology.runner import RunOptions
    from bertology.runner import rerun as repeat

    found = repeat(run, out or run.with_name(f"{real_path(run).name}-again"), options=RunOptions(jobs=jobs))
    for line in found.moved[:_MOST_LINES]:
        typer.echo(line)
    if len(found.moved) > _MOST_LINES:
        typer.echo(f"… and {len(found.moved) - _MOST_LINES} more")
    told = f"{len(found.moved):,} moved" if found.moved else "none moved"
    typer.echo(f"{found.n_scores:,} scores compared, {told} ({found.summary.wall_s:.1f} s); in {found.summary.folder}")
    raise typer.Exit(1 if found.moved else 0)
