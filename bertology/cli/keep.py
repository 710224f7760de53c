"""``bertology plan``, ``merge``, ``verify``, ``rerun``, ``report`` and ``cache``: runs, and what is stored for them."""

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import typer

from bertology._files import real_path
from bertology.cli._options import command, confirm

if TYPE_CHECKING:
    from bertology.activations.store import Stored

_MOST_LINES = 20


@command(
    "how-to/experiments",
    "bertology plan experiments/quickstart.yaml",
    "bertology plan experiments/quickstart.yaml --set seeds=5 --out runs/five",
)
def plan(
    file: Path,
    *,
    out: Path | None = None,
    real: bool = False,
    set_: list[str] | None = None,
    trust_remote_code: bool = False,
) -> None:
    """Show an experiment's cells, progress and cost without computing anything.

    Args:
        out: Folder of the run; runs/NAME when left out.
    """
    from bertology.runner.estimate import estimate
    from bertology.runner.experiment import load_experiment
    from bertology.runner.plan import resolve_work

    work = resolve_work(load_experiment(file, real=real, changes=set_ or (), trust_remote_code=trust_remote_code))
    typer.echo(estimate(work, out or Path("runs") / work.experiment.name).to_text(), nl=False)


@command(
    "how-to/cluster",
    "bertology merge shards/1 shards/2 --out runs/whole",
    "bertology merge shards/* --out runs/whole",
    of={"bertology.runner._verify:merge_runs": ""},
)
def merge(runs: list[Path], *, out: Path) -> None:
    """Put the shards of an experiment together; computes nothing, and needs neither models nor corpora."""
    from bertology.runner import merge_runs

    results = merge_runs(runs, out)
    cells = len({row.cell_id for row in results.rows})
    typer.echo(f"{cells:,} cells of {len(runs)} runs; tables and plots in {out}")


@command(
    "how-to/experiments",
    "bertology verify runs/quickstart",
    "bertology verify runs/quickstart && bertology report runs/quickstart",
)
def verify(run: Path) -> None:
    """Compare every file of a run with its checksum; exit status 1 if something was altered."""
    from bertology.runner import verify_run

    problems = verify_run(run)
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "as it was written"
    typer.echo("\n".join([*problems, f"{run}: {count}"]))
    raise typer.Exit(1 if problems else 0)


@command(
    "how-to/experiments",
    "bertology rerun runs/quickstart",
    "bertology rerun runs/quickstart --out runs/second --jobs 2",
)
def rerun(run: Path, *, out: Path | None = None, jobs: int | None = None, trust_remote_code: bool = False) -> None:
    """Repeat a run from its own record and print which scores differ; exit status 1 if any do.

    Args:
        out: Folder for the repetition; RUN-again when left out.
    """
    from bertology import runner
    from bertology.primer import changed_verdicts

    out = out or run.with_name(f"{real_path(run).name}-again")
    options = runner.RunOptions(jobs=jobs)
    repeated = runner.rerun(run, out, options=options, trust_remote_code=trust_remote_code)
    lines = *repeated.moved, *changed_verdicts(run, out)
    n_more = len(lines) - _MOST_LINES
    for line in [*lines[:_MOST_LINES], *([f"… and {n_more} more"] if n_more > 0 else [])]:
        typer.echo(line)
    moved = f"{len(repeated.moved):,} moved" if repeated.moved else "none moved"
    typer.echo(f"{repeated.n_scores:,} scores compared, {moved} ({repeated.summary.wall_s:.1f} s); in {out}")
    raise typer.Exit(1 if lines else 0)


@command(
    "how-to/results",
    "bertology report runs/quickstart",
    "bertology report runs/a runs/b --corpus pocket --out both.html",
    of={"bertology.results.report._page:write_report": "columns with_text=--text/--no-text"},
)
def report(runs: list[Path], *, out: Path | None = None, corpus: list[str] | None = None, **settings: Any) -> None:
    """Write one HTML file of the results of runs; it opens from disk and needs no network.

    It holds a summary, a table of layers by tasks, a chart, labels, confusions, the words that one layer got
    wrong and another right, and where the numbers come from.

    Args:
        out: File to write; RUN/report.html for one run, report.html for several.
        corpus: Name or path of a corpus to take sentences from; may be repeated.
    """
    from bertology.results.report import write_report

    path = out or (runs[0] / "report.html" if len(set(map(real_path, runs))) == 1 else Path("report.html"))
    write_report(runs, path, corpora=corpus or (), **settings)
    typer.echo(f"report in {path}")


@command(
    "how-to/results",
    "bertology paper runs/quickstart",
    "bertology paper runs/quickstart --out draft/results --width 3.3",
)
def paper(run: Path, *, out: Path | None = None, width: float = 3.03) -> None:
    """Write what a paper needs of a run: figures, LaTeX tables, a paragraph of methods, BibTeX and YAML.

    Nothing is computed. Figures are PDF files of a column's width with embedded fonts; each table has a caption of one
    sentence; paper.tex shows all parts; `bertology run run.yaml` repeats the run.

    Args:
        out: Folder to write into; RUN/paper when left out.
        width: Inches of a column.
    """
    from bertology.runner.paper import write_paper

    out = out or run / "paper"
    typer.echo(f"{len(write_paper(run, out, width=width))} files in {out}")


@command("how-to/results", "bertology explain runs/quickstart pos@2", "bertology explain runs/one 3f9a1c")
def explain(run: Path, cell: str) -> None:
    """Explain how one number came about: items, vectors, fit, predictions and interval, from the run's folder alone.

    Args:
        run: Folder written by --out of `probe` or `run`.
        cell: Cell id of results.parquet, its first characters, or TASK@LAYER such as pos@7.
    """
    from bertology.runner.explain import explain_cell

    typer.echo(explain_cell(run, cell, width=min(get_terminal_size().columns, 100)))


@command(name="cache list")
def list_entries() -> None:
    """List what is stored, largest first, copies of models, and what lies there but is not the store's."""
    from bertology.activations.store import list_stored

    entries = [*list_stored(), *list_stored(models=True)]
    entries.sort(key=lambda entry: (entry.kind == "model", entry.is_left_alone, -entry.n_bytes))
    typer.echo("".join(f"{_line(entry)}\n" for entry in entries), nl=False)
    typer.echo(_sum([entry for entry in entries if not entry.is_left_alone]))


@command(name="cache verify")
def verify_store() -> None:
    """Check every stored file against its checksum; exit status 1 if one is damaged.

    A damaged file is made again by the next run that needs it.
    """
    from bertology.activations.store import list_stored

    damaged = False
    for entry in list_stored():
        problems = entry.problems()
        damaged |= bool(problems)
        typer.echo(f"{entry.name}  {'; '.join(problems) or (entry.text if entry.is_left_alone else 'ok')}")
    raise typer.Exit(1 if damaged else 0)


@command(
    name="cache prune",
    of={"bertology.activations.store:prune_stored": "older_than_days only_unfinished models dry_run"},
)
def prune(*, yes: bool = False, **settings: Any) -> None:
    """Delete stored activations; they are computed again when needed. Results are not touched.

    Prints what would be deleted and asks first. What the store did not write is left alone; so are copies of models
    that were in memory, but for --models: runs on them cannot be repeated without.

    Args:
        yes: Delete without asking.
    """
    from bertology.activations.store import prune_stored

    ask = (lambda _: None) if yes else _ask
    gone, dry_run = prune_stored(confirm=ask, **settings), settings["dry_run"]
    if dry_run or yes:
        typer.echo("".join(f"{_line(entry)}\n" for entry in gone), nl=False)
    typer.echo(f"{'would free' if dry_run else 'freed'} {_sum(gone)}")


def _ask(entries: "Sequence[Stored]") -> None:
    listed = "\n".join(map(_line, entries))
    otherwise = f"{_sum(entries)} would be deleted: say so with --yes, or see which with --dry-run"
    confirm(f"{listed}\ndelete {_sum(entries)}?", otherwise=otherwise)


def _line(entry: "Stored") -> str:
    return f"{entry.name}  {entry.n_bytes / 1e6:>9.1f} MB  {entry.text}"


def _sum(entries: "Sequence[Stored]") -> str:
    n_bytes = sum(entry.n_bytes for entry in entries)
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}, {n_bytes / 1e6:.1f} MB ({n_bytes:,} bytes)"
