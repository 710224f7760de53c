"""``bertology probe``, ``compare`` and ``run``: questions put to encoders."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertology.cli._options import (
    Changes,
    Memory,
    Quiet,
    Trust,
    bars,
    closing,
    confirm,
    shows_progress,
    with_options,
)

if TYPE_CHECKING:
    from bertology.runner.run import RunSummary

app = typer.Typer(rich_markup_mode=None)
MOST_CELLS = 100_000
File = Annotated[Path, typer.Argument(help="Experiment, such as experiments/quickstart.yaml.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes. Default: all processors.")]


@app.command(
    epilog=closing(
        "concepts/layers",
        "bertology probe --task pos,deprel --model pocket --corpus pocket",
        "bertology probe --task ner --corpus ner/ --seeds 3 --out runs/ner",
    )
)
@with_options(
    *("model", "corpus", "reference", "columns", "layers", "seeds", "controls", "random_draws", "pooling", "dtype"),
    *("stored_dtype", "device", "on_long", "shared_subwords", "max_pieces", "max_items", "sentences", "train_split"),
    *("test_split", "folds", "annotate", "revision", "checkpoints", "trust_remote_code"),
    model="pocket",
    corpus="pocket",
    controls="all",
    reference=(None, "The model that tasks of comparison compare --model with: pocket, a folder, or a hub id."),
)
def probe(
    *,
    task: Annotated[str, typer.Option("--task", "-t", help="Tasks, with commas: pos,ner,feats:Number.")] = "pos",
    readout: Annotated[
        str | None, typer.Option(help="Readouts, with commas, instead of the task's own: linear,mlp,edge_mix.")
    ] = None,
    pool: Annotated[
        str, typer.Option(help="Pooling of sentences and spans, with commas: mean, max or last of the words, cls.")
    ] = "mean",
    memory: Memory = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables, plot and predictions.")] = None,
    format: Annotated[
        Literal["table", "md", "csv", "json", "latex"], typer.Option("--format", "-f", help="What to print.")
    ] = "table",
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Ask what can be read off each layer of an encoder, and how sure that is.

    Prints a table by layer with 95 % intervals, controls and baselines; the layers marked are those that cannot be
    told from the best. Stopped at any moment, the same command goes on from there.
    """
    from bertology.families.request import ProbeRequest
    from bertology.runner import run_probes

    if (draws := settings["random_draws"]).isdecimal():
        settings["random_draws"] = int(draws)
    request = ProbeRequest(tasks=task, readout=readout, pool=pool, **settings)
    results = run_probes(request, out=out, progress=bars(quiet))
    views = results.overview()
    if format == "table" and sys.stdout.isatty():
        from rich.console import Console

        Console().print(*views)
    else:
        exports = {
            "table": lambda: [view.to_text() for view in views],
            "md": lambda: [view.to_markdown() for view in views],
            "csv": lambda: [view.to_csv() for view in views],
            "json": lambda: [results.to_json()],
            "latex": lambda: [view.to_latex() for view in views],
        }
        typer.echo("\n".join(exports[format]()), nl=False)
    if out is not None:
        # On standard error, since what is printed may be read by a program.
        typer.echo(f"tables and plots in {out}", err=True)


@app.command(
    epilog=closing(
        "how-to/what-changed",
        "bertology compare bert-base-cased tuned/seed-1 --tasks pos,deprel",
        "bertology compare pocket pruned --corpus pocket --measures vectors,weights",
    )
)
@with_options(
    *("columns", "layers", "controls", "sentences", "seeds", "dtype", "device"),
    controls=("none", "As in `bertology probe`: random, majority …, all or none."),
)
def compare(
    models: Annotated[list[str], typer.Argument(help="The reference, then those compared with it: folders, hub ids.")],
    *,
    tasks: Annotated[str, typer.Option("--tasks", "--task", "-t", help="Tasks with commas: pos,deprel.")] = "pos",
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", "-c", help="pocket, which is the default, ud:en_ewt, a folder or a file; or several."),
    ] = None,
    measures: Annotated[
        str,
        typer.Option(
            help="auto: all that the models have in common; or names with commas: frozen_probe, vectors, attention, "
            "weights, masked_loss, restoring, label_clusters, size_and_speed; or none."
        ),
    ] = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run; runs/comparison when left out.")
    ] = None,
    format: Annotated[Literal["text", "csv"], typer.Option("--format", "-f", help="What to print.")] = "text",
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Compare models with a reference: tasks by layer with paired differences, vectors, attention, weights and losses.

    Prints what changed, and writes comparison.html, a page with charts and tables, into the run's folder. What is
    finished there is not computed again. Exit status 1 if something could not be computed.
    """
    import bertology

    found = bertology.compare(
        *models,
        tasks=tasks,
        corpus=tuple(corpus or ["pocket"]),
        measures=measures,
        out=out or Path("runs") / "comparison",
        progress=shows_progress(quiet),
        **{name: value for name, value in settings.items() if value is not None},
    )
    typer.echo(str(found) if format == "text" else found.to_pandas().to_csv(index=False), nl=format == "text")
    for line in found.left_out:
        typer.echo(f"left out: {line}", err=True)
    for line in found.failures:
        typer.echo(f"failed: {line}", err=True)
    typer.echo(f"page and tables in {found.folder}", err=True)
    raise typer.Exit(1 if found.failures else 0)


@app.command(
    epilog=closing(
        "how-to/experiments",
        "bertology run experiments/quickstart.yaml",
        "bertology run experiments/quickstart.yaml --set seeds=3 --jobs 4",
    )
)
def run(
    file: File,
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run; runs/NAME when left out.")] = None,
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
        Path | None, typer.Option(metavar="FILE", help="Let dask submit Slurm jobs as defined in this profile (YAML).")
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Stop after this time without a dask worker. Default: 120; no limit while Slurm queues first jobs.",
        ),
    ] = None,
    jobs: Jobs = None,
    memory: Memory = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Only one part of the cells, for job arrays.")] = "1/1",
    retry_failed: Annotated[bool, typer.Option(help="Compute failed cells again.")] = False,
    fail_fast: Annotated[bool, typer.Option(help="Stop at the first failure.")] = False,
    trust_remote_code: Trust = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation, whatever the number of cells.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only failures and the last line.")] = False,
) -> None:
    """Run an experiment, or what is left of it; exit status 1 if something could not be computed.

    Cells are kept as they are finished: stopped at any moment, the same command goes on from there. What fails is
    recorded and does not stop the others. Several processes may run the same experiment into the same folder.
    """
    from bertology.activations.progress import BarProgress, silent
    from bertology.runner import RunOptions, run_experiment
    from bertology.runner.engines import ClusterChoice
    from bertology.runner.experiment import load_experiment
    from bertology.runner.plan import Shard, resolve_work

    options = RunOptions(
        engine=engine,
        jobs=jobs,
        shard=Shard.parse(shard),
        cluster=ClusterChoice(scheduler, slurm, patience),
        retry_failed=retry_failed,
        fail_fast=fail_fast,
        echo=(lambda _: None) if quiet else (BarProgress("") if shows_progress(quiet) else silent).line,
        progress=bars(quiet),
    )
    experiment = load_experiment(file, changes=set_ or (), trust_remote_code=trust_remote_code)
    is_agreed = partial(_is_agreed, file)
    work = resolve_work(experiment, part=options.shard, is_agreed=(lambda _: True) if yes else is_agreed)
    _report(run_experiment(work.experiment, out or Path("runs") / work.experiment.name, work=work, options=options))


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
