"""``bertology probe``: put tasks to the layers of an encoder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from bertology.cli._shared import Device, Memory, Revision, Trust

COLUMNS_HELP = (
    "What the columns of column files hold: form,xpos,chunk, _ for one to leave out; or which columns of a table hold "
    "what: text=sentence,label=label; of cloze tasks good=sen,bad=other,group=phenomenon, or text=…,answer=…."
)


def probe(
    task: Annotated[str, typer.Option("--task", "-t", help="Tasks, with commas: pos,ner,feats:Number.")] = "pos",
    *,
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    corpus: Annotated[str, typer.Option("--corpus", "-c", help="pocket, ud:en_ewt, a folder or a file.")] = "pocket",
    reference: Annotated[
        str | None, typer.Option(help="The model that tasks of comparison compare --model with: pocket, a folder …")
    ] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    layers: Annotated[str, typer.Option("--layers", "-l", help="all, 0-6, or 3,5,-1; 0 is the embeddings.")] = "all",
    seeds: Annotated[int, typer.Option(help="Fits: one on all of train, further ones on resamples of it.")] = 1,
    controls: Annotated[
        str,
        typer.Option(
            help="all, none, or some of majority,word_majority,length,lexical,linear_chain,random,control_task,blind,"
            "offset,nearest,head_match,rule,mean,word_mean,first,last,diagonal."
        ),
    ] = "all",
    random_draws: Annotated[
        str,
        typer.Option(
            help="Draws of random weights that the control random is the mean of; auto: one, none for choices between "
            "given answers."
        ),
    ] = "auto",
    readout: Annotated[
        str | None, typer.Option(help="Readouts, with commas, instead of the task's own: linear,mlp,edge_mix.")
    ] = None,
    pool: Annotated[
        str, typer.Option(help="A sentence's or span's vector, with commas: mean, max or last of words, cls.")
    ] = "mean",
    pooling: Annotated[str, typer.Option(help="A word's vector from its pieces': mean, first or last.")] = "mean",
    dtype: Annotated[str, typer.Option(help="The model computes in float32, bfloat16 or float16.")] = "float32",
    store_dtype: Annotated[str, typer.Option(help="Vectors are kept in float16 or float32.")] = "float16",
    device: Device = "auto",
    memory: Memory = None,
    on_long: Annotated[str, typer.Option(help="Sentences too long for the model: window, error or skip.")] = "window",
    shared_subwords: Annotated[
        str, typer.Option(help="Words sharing all subwords, as both of French du (de, le): exclude or include.")
    ] = "exclude",
    max_pieces: Annotated[int | None, typer.Option(help="Read windows of at most so many pieces.")] = None,
    max_items: Annotated[
        int | None, typer.Option(help="Of what cloze tasks ask, so many items of each group, drawn by lot.")
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(help="At most so many sentences of each split, the first ones.")
    ] = None,
    train_split: Annotated[str, typer.Option(help="Split to fit on.")] = "train",
    split: Annotated[str, typer.Option("--split", "--test-split", help="Split to score on.")] = "test",
    folds: Annotated[
        int | None, typer.Option(help="Cross-validate over so many folds of documents (or sentences); for small data.")
    ] = None,
    annotate: Annotated[
        str | None, typer.Option(help="Label the corpus, a raw text file, by this spaCy pipeline (silver).")
    ] = None,
    revision: Revision = None,
    checkpoints: Annotated[
        str | None, typer.Option(help="Probe a training's checkpoints: all, steps with commas, or a pattern: step*.")
    ] = None,
    trust_remote_code: Trust = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables, plot and predictions.")] = None,
    format: Annotated[
        Literal["table", "md", "csv", "json", "latex"], typer.Option("--format", "-f", help="What to print.")
    ] = "table",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Ask what can be read off each layer of an encoder, and how sure that is.

    Prints a table by layer with 95 % intervals, controls and baselines; the layers marked are those that cannot be
    told from the best. Stopped at any moment, the same command goes on from there.
    """
    from rich.console import Console

    from bertology.activations import BarProgress, silent
    from bertology.runner import ProbeRequest, run_probes

    request = ProbeRequest(
        tasks=task,
        model=model,
        reference=reference,
        corpus=corpus,
        columns=columns,
        layers=layers,
        seeds=seeds,
        controls=controls,
        random_draws=int(random_draws) if random_draws.isdecimal() else random_draws,
        readout=readout,
        pool=pool,
        pooling=pooling,
        dtype=dtype,
        stored_dtype=store_dtype,
        device=device,
        on_long=on_long,
        shared_subwords=shared_subwords,
        max_pieces=max_pieces,
        max_items=max_items,
        sentences=sentences,
        train_split=train_split,
        test_split=split,
        folds=folds,
        annotate=annotate,
        revision=revision,
        checkpoints=checkpoints,
        trust_remote_code=trust_remote_code,
    )
    show = not quiet and sys.stderr.isatty()
    results = run_probes(request, out=out, progress=BarProgress if show else lambda _: silent)
    views = results.overview()
    if format == "table" and sys.stdout.isatty():
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
