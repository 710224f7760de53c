"""``bertology finetune``: train an encoder further on a task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bertology.cli._shared import Revision, Trust, only_with_file
from bertology.cli.probe import COLUMNS_HELP
from bertology.errors import BertologyError

_WITH_FILE = ("file", "out", "set_", "device", "threads", "trust_remote_code", "quiet")


def finetune(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="Several fine-tunings, such as experiments/devlin-2019-layer-choices.yaml."),
    ] = None,
    *,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            "-t",
            help="sentence_label:COLUMN, pair_label:COLUMN, sentence_number:COLUMN, pair_number:COLUMN, pos, ner, "
            "word_label:COLUMN, or span: answers as in SQuAD.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the models, seed-1 and so on in it; of a FILE runs/NAME."),
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="pocket, a folder, or a hub id.")] = "pocket",
    corpus: Annotated[str, typer.Option("--corpus", "-c", help="pocket, ud:en_ewt, a folder or a file.")] = "pocket",
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    recipe: Annotated[
        str | None, typer.Option(help="devlin-2019, mosbach-2021, frozen or hu-2022; by --layers when left out.")
    ] = None,
    layers: Annotated[
        str, typer.Option("--layers", "-l", help="What is trained: all, frozen:6, top:2, none, lora or ia3.")
    ] = "all",
    features: Annotated[
        str,
        typer.Option(
            help="With --layers none: embeddings, second_to_last, last, sum_last_four, concat_last_four, sum_all, "
            "layer:6."
        ),
    ] = "last",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs, by seeds 1, 2 …")] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting, lr=1e-5, or key of FILE; may be repeated."),
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, help="At most so many sentences of each split, the first ones.")
    ] = None,
    train_split: Annotated[str, typer.Option(help="Split to learn.")] = "train",
    split: Annotated[str, typer.Option("--split", "--test-split", help="Split to score on besides dev.")] = "test",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Processor threads.")] = None,
    revision: Revision = None,
    trust_remote_code: Trust = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Train an encoder further on a task, once for each seed; or as a FILE says, by several runs on several tasks.

    Prints the scores on dev and test with 95 % intervals over seeds and items. Start the same command again to go on
    with a run that was stopped. Each seed's folder is a Hugging Face model folder with a model card, which
    `bertology probe --model` takes; settings and scores are in its finetune.json. Of a FILE, tables compare all runs
    with the first.
    """
    from bertology.finetuning import finetune as finetune_model
    from bertology.finetuning import finetune_grid

    show = not quiet and sys.stderr.isatty()
    if file is not None:
        only_with_file(context, _WITH_FILE, file)
        grid = finetune_grid(
            file,
            out=out,
            changes=set_ or (),
            device=device,
            threads=threads,
            trust_remote_code=trust_remote_code,
            progress=show,
        )
        typer.echo(grid.to_markdown())
        typer.echo(f"models and tables in {grid.path}", err=True)
        return
    if task is None or out is None:
        raise BertologyError("finetune: give --task and --out, or a FILE of fine-tunings")
    tuned = finetune_model(
        model,
        corpus,
        task=task,
        out=out,
        columns=columns,
        recipe=recipe,
        layers=layers,
        features=features,
        seeds=seeds,
        changes=set_ or (),
        sentences=sentences,
        train_split=train_split,
        test_split=split,
        device=device,
        threads=threads,
        revision=revision,
        trust_remote_code=trust_remote_code,
        progress=show,
    )
    typer.echo(tuned.to_markdown())
    typer.echo(f"models in {tuned.path}", err=True)
