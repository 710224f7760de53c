"""``bertology probe``, ``compare``, ``primer`` and ``run``: questions put to encoders."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer

import bertology
from bertology.cli._options import bars, command, confirm, shows_progress
from bertology.errors import BertologyError

MOST_FITS = 20_000


@command(
    "concepts/layers",
    "bertology probe --task pos,deprel --model pocket --corpus pocket",
    "bertology probe --task ner --corpus ner/ --seeds 3 --out runs/ner",
    settings="model corpus reference columns layers seeds controls random_draws pooling dtype stored_dtype device "
    "on_long shared_subwords max_pieces max_items sentences train_split test_split folds annotate revision "
    "checkpoints trust_remote_code",
    controls="all",
    reference=(None, "The model that comparison tasks compare --model with: pocket, a folder, or a hub id."),
)
def probe(
    *,
    task: str = "pos",
    readout: str | None = None,
    pool: str = "mean",
    memory: str | None = None,
    store: bool | None = None,
    out: Path | None = None,
    format: Literal["table", "md", "csv", "json", "latex"] = "table",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Ask what can be decoded from each layer of an encoder, and how sure that is.

    Prints a table by layer with 95 % intervals, controls and baselines; the layers marked are those statistically
    tied with the best. If it is stopped, the same command resumes.

    Args:
        task: Tasks, with commas: pos,ner,feats:Number.
        readout: Readouts, with commas, instead of the task's own: linear,mlp,edge_mix.
        pool: Pooling of sentences and spans, with commas: mean, max or last of the words' vectors, or cls ([CLS]).
        out: Folder for tables, plot and predictions.
    """
    from bertology.families.request import ProbeRequest
    from bertology.runner import run_probes

    if (draws := settings["random_draws"]).isdecimal():
        settings["random_draws"] = int(draws)
    request = ProbeRequest(tasks=task, readout=readout, pool=pool, **settings)
    results = run_probes(request, out=out, store=store, progress=bars(quiet))
    _print_tables(format, *([results] if format == "json" else results.overview()))
    if out is not None:
        # On standard error, since what is printed may be read by a program.
        typer.echo(f"tables and plots in {out}", err=True)


def _print_tables(format: str, *views: Any) -> None:
    """Print tables, with colours on a terminal."""
    if format == "table" and sys.stdout.isatty():
        from rich.console import Console

        Console().print(*views)
    else:
        forms = {"table": "to_text", "md": "to_markdown", "csv": "to_csv", "latex": "to_latex", "json": "to_json"}
        typer.echo("\n".join(getattr(view, forms[format])() for view in views), nl=False)


@command(
    "how-to/what-changed",
    "bertology compare bert-base-cased tuned/seed-1 --tasks pos,deprel",
    "bertology compare pocket pruned --corpus pocket --measures vectors,weights",
    settings="columns layers controls sentences seeds dtype device",
    of={"bertology._compare:compare": "tasks measures"},
    controls=("none", "As in `bertology probe`: random, majority …, all or none."),
)
def compare(
    models: list[str],
    *,
    corpus: list[str] | None = None,
    out: Path | None = None,
    format: Literal["text", "csv"] = "text",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Compare models with a reference: tasks by layer with paired differences, vectors, attention, weights and losses.

    Prints what changed, and writes comparison.html, a page with charts and tables, into the run's folder. What is
    finished there is not computed again. Exit status 1 if something could not be computed.

    Args:
        models: The reference, then those compared with it: folders, hub ids.
        corpus: pocket, which is the default, ud:en_ewt, a folder or a file; or several.
        out: Folder of the run; runs/comparison when left out.
    """
    found = bertology.compare(
        *models,
        corpus=tuple(corpus or ["pocket"]),
        out=out or Path("runs") / "comparison",
        progress=shows_progress(quiet),
        **{name: value for name, value in settings.items() if value is not None},
    )
    typer.echo(str(found) if format == "text" else found.to_pandas().to_csv(index=False), nl=format == "text")
    for line in (*(f"left out: {one}" for one in found.left_out), *(f"failed: {one}" for one in found.failures)):
        typer.echo(line, err=True)
    typer.echo(f"page and tables in {found.folder}", err=True)
    raise typer.Exit(1 if found.failures else 0)


@command(
    "how-to/primer",
    "bertology primer --model pocket --section 3.1",
    "bertology primer --model bert-base-cased --treebank ud:en_ewt",
    settings="model layers seeds dtype device revision trust_remote_code",
    of={"bertology.primer.run:primer": "sections=--section claims=--claim file=--claims language random quick train"},
    language=(None, "Language whose corpora the other roles have: en; of embedded models pocket."),
)
def primer(
    *,
    set_: list[str] | None = None,
    treebank: str | None = None,
    role: list[str] | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    format: Literal["table", "md", "csv", "json", "latex"] = "table",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Test the claims of A Primer in BERTology on encoders: what holds, what does not, and how sure that is.

    Prints a table of verdicts, and writes primer.html, a page that shows how each claim was measured, and
    claims.parquet into the run's folder. If it is stopped, the same command resumes. Several --model with commas are
    compared. Claims whose corpus is not bound or which an encoder cannot be asked are not tested, with the reason.

    Args:
        set_: Replace a setting of the file of claims: recipe.steps=100; may be repeated.
        treebank: Corpus for the role treebank: ud:en_ewt, a folder or a file.
        role: Corpus for another role, ROLE=CORPUS, such as facts=lama/; may be repeated.
        out: Folder of the run; one in the cache when left out.
    """
    from bertology.families.request import parse_names
    from bertology.primer import primer as test_claims
    from bertology.runner import RunOptions

    roles = {} if treebank is None else {"treebank": treebank}
    for one in role or ():
        name, separator, corpus = one.partition("=")
        if not separator:
            raise BertologyError(f"--role {one}: write ROLE=CORPUS, such as facts=lama/")
        roles[name.strip()] = corpus.strip()
    options = RunOptions(jobs=jobs, retry_failed=True, progress=bars(quiet))
    settings = {name: value for name, value in settings.items() if value is not None}
    how: dict[str, Any] = {"out": out, "options": options, "progress": shows_progress(quiet)}
    models = list(parse_names(settings.pop("model")))
    found = test_claims(models, changes=set_ or (), roles=roles, **how, **settings)
    _print_tables(format, found)
    typer.echo(f"page and tables in {found.folder}", err=True)


@command(
    "how-to/experiments",
    "bertology run experiments/quickstart.yaml",
    "bertology run experiments/quickstart.yaml --set seeds=3 --jobs 4",
    of={"bertology.runner.run:RunOptions": "retry_failed fail_fast"},
)
def run(
    file: Path,
    *,
    out: Path | None = None,
    real: bool = False,
    set_: list[str] | None = None,
    engine: Literal["joblib", "serial", "dask"] = "joblib",
    scheduler: str | None = None,
    slurm: Path | None = None,
    patience: float | None = None,
    jobs: int | None = None,
    memory: str | None = None,
    store: bool | None = None,
    shard: str = "1/1",
    trust_remote_code: bool = False,
    yes: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Run an experiment, or what is left of it; exit status 1 if something could not be computed.

    Each score (cell) is kept when it is finished: after a stop, the same command resumes. What fails is
    recorded and does not stop the others. Several processes may run the same experiment into the same folder.

    Args:
        out: Folder of the run; runs/NAME when left out.
        engine: joblib: processes of this machine; serial: this process alone, for debugging; dask: workers of a
            cluster that see the run's folder and the cache (BERTOLOGY_CACHE) at the same paths.
        scheduler: Scheduler for dask: tcp://host:8786, or the file it wrote.
        slurm: Let dask submit Slurm jobs as defined in this profile (YAML).
        patience: Stop after so many seconds without a dask worker (120; no limit before the first Slurm job).
        shard: Only one part of the cells, for job arrays.
        yes: Do not ask for confirmation, whatever the number of cells.
        quiet: Print only failures and the last line.
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
        store=store,
        cluster=ClusterChoice(scheduler, slurm, patience),
        echo=(lambda _: None) if quiet else (BarProgress("") if shows_progress(quiet) else silent).line,
        progress=bars(quiet),
        **settings,
    )
    experiment = load_experiment(file, real=real, changes=set_ or (), trust_remote_code=trust_remote_code)
    work = resolve_work(experiment, part=options.shard, is_agreed=None if yes else partial(_confirm_size, file))
    summary = run_experiment(work.experiment, out or Path("runs") / work.experiment.name, work=work, options=options)
    for line in summary.failures:
        typer.echo(f"failed: {line}", err=True)
    done = f"{summary.n_computed:,} of {summary.n_cells:,} cells computed now ({summary.wall_s:.1f} s)"
    failed = "; some failed, --retry-failed tries them again" * bool(summary.failures)
    typer.echo(f"{done}{failed}; tables and plots in {summary.folder}")
    for line in () if quiet or options.shard.of > 1 else _changes(experiment, summary.folder):
        typer.echo(line)
    raise typer.Exit(1 if summary.failures else 0)


def _changes(experiment: Any, folder: Path) -> Iterator[str]:
    """What differs between models of an experiment and those that they name as their reference, a line each."""
    from bertology._compare import ModelComparison
    from bertology.families.models import compare_models
    from bertology.results import read_results

    beside = {one.title: found for one in experiment.models if (found := experiment.reference_of(one))}
    listed = {one.title for one in experiment.models}
    for name in dict.fromkeys(one.title for one in beside.values() if one.title in listed):
        models = tuple(title for title, reference in beside.items() if reference.title == name)
        try:
            compared = compare_models(read_results(folder), reference=name)
        except BertologyError as error:  # the run itself is done
            yield f"{', '.join(models)} and {name} are not compared: {error}"
            continue
        yield from ModelComparison(name, models, compared, folder, ()).findings


def _confirm_size(file: Path, n_fits: int) -> None:
    """Ask before a grid that no one may have meant."""
    if n_fits > MOST_FITS:
        count = f"{n_fits:,} fits of each layer"
        confirm(f"{count}: go on?", otherwise=f"{file}: {count}; if that is meant, say so with --yes")
