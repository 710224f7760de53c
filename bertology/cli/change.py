"""``bertology finetune``, ``compress``, ``pretrain`` and ``landscape``: models changed, and the loss around them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bertology.cli._options import (
    Changes,
    Quiet,
    changed_settings,
    closing,
    only_with_file,
    shows_progress,
    with_options,
)
from bertology.errors import BertologyError

app = typer.Typer(rich_markup_mode=None)
_ENDINGS = (".yaml", ".yml")
_TRAINED_WITH_FILE = ("file", "out", "set_", "device", "threads", "trust_remote_code", "quiet")
_MEASURED_WITH_FILE = ("models", "out", "overwrite", "set_", "device", "quiet")
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Processor threads.")]


@app.command(
    epilog=closing(
        "how-to/finetune",
        "bertology finetune --task pos --model pocket --out tuned --seeds 3",
        "bertology finetune experiments/devlin-2019-layer-choices.yaml",
    )
)
@with_options(
    *("model", "corpus", "columns", "train_split", "test_split", "device", "revision", "trust_remote_code"),
    model="pocket",
    corpus="pocket",
    test_split=("test", "Split to score on besides dev."),
)
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
        typer.Option("--out", "-o", help="Folder for the models, as seed-1, …; with a FILE, runs/NAME."),
    ] = None,
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
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of runs, with seeds 1, 2, …")] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting, lr=1e-5, or key of FILE; may be repeated."),
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of sentences of each split; the first ones are used.")
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Train an encoder further on a task, once for each seed; or with a FILE, in several runs on several tasks.

    Prints the scores on dev and test with 95 % intervals over seeds and items. Start the same command again to go on
    with a run that was stopped. Each seed's folder is a Hugging Face model folder with a model card, which
    `bertology probe --model` takes; settings and scores are in its finetune.json. With a FILE, tables compare all
    runs with the first.
    """
    from bertology.finetuning import finetune as finetune_model
    from bertology.finetuning import finetune_grid

    shared: dict[str, Any] = {
        "out": out,
        "changes": set_ or (),
        "device": settings.pop("device"),
        "threads": threads,
        "trust_remote_code": settings.pop("trust_remote_code"),
        "progress": shows_progress(quiet),
    }
    if file is not None:
        only_with_file(context, _TRAINED_WITH_FILE, file)
        grid = finetune_grid(file, **shared)
        typer.echo(grid.to_markdown())
        typer.echo(f"models and tables in {grid.path}", err=True)
        return
    if task is None or out is None:
        raise BertologyError("finetune: give --task and --out, or a FILE of fine-tunings")
    model, corpus = settings.pop("model"), settings.pop("corpus")
    tuned = finetune_model(
        model,
        corpus,
        task=task,
        recipe=recipe,
        layers=layers,
        features=features,
        seeds=seeds,
        sentences=sentences,
        **shared,
        **settings,
    )
    typer.echo(tuned.to_markdown())
    typer.echo(f"models in {tuned.path}", err=True)


@app.command(
    epilog=closing(
        "how-to/compress",
        "bertology compress pocket --method magnitude --set share=0.5 --out pruned",
        "bertology compress pocket --method heads,quantise --out small --speed pocket",
    )
)
@with_options("device")
def compress(
    model: Annotated[str, typer.Argument(help="pocket, a folder, or a hub id.")],
    *,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="magnitude, heads, neurons, layers, low_rank, quantise or distil; several with commas.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to be written.")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the method, such as share=0.5; of several methods magnitude.share=0.5. May be repeated.",
        ),
    ] = None,
    speed: Annotated[
        str | None, typer.Option(help="Measure speed on this corpus: the model, the new one, and int8 arithmetic.")
    ] = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Prune, quantise, shorten or distil an encoder.

    Writes a Hugging Face model folder with a model card, which `bertology probe --model` reads like any other. A
    distillation that was stopped goes on when the same command is given again.
    """
    from bertology.compression import compress as compress_model
    from bertology.compression import dynamic_int8, pieces_per_second, weight_bytes
    from bertology.corpora import load_corpus
    from bertology.encoders import load_encoder
    from bertology.families.request import parse_names

    asked = {**changed_settings(set_), **settings}
    made = compress_model(model, parse_names(method), out=out, progress=shows_progress(quiet), **asked)
    typer.echo(made.summary())
    if speed is not None:
        corpus = load_corpus(speed)
        sentences = corpus[next(iter(corpus.splits))][:400]
        before, after = load_encoder(model, device="cpu"), made.encoder(device="cpu")
        for what, encoder in (
            (before.source.title, before),
            (str(out), after),
            (f"{before.source.title}, int8 arithmetic", dynamic_int8(before)),
        ):
            rate, size = pieces_per_second(encoder, sentences), weight_bytes(encoder)
            typer.echo(f"{what}: {rate:,.0f} pieces/s on the processor, {size / 1e6:.2f} MB of weights without heads")
    typer.echo(f"model in {out}", err=True)


@app.command(
    epilog=closing(
        "how-to/over-training",
        "bertology pretrain experiments/pretrain-pocket.yaml --out my-pocket",
        "bertology pretrain experiments/pretrain-pocket.yaml --set seed=2 --threads 4",
    )
)
@with_options("device", device=("auto", "cpu, cuda, or auto: a GPU where there is one."))
def pretrain(
    experiment: Annotated[Path, typer.Argument(help="Pretraining file, such as experiments/pretrain-pocket.yaml.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("pocket-model"),
    set_: Changes = None,
    threads: Threads = None,
    **settings: Any,
) -> None:
    """Pretrain a small BERT on the pocket world.

    Start the same command again to go on with a run that was stopped. The folder is a Hugging Face model folder with
    a model card; settings and held-out figures are in its training.json.
    """
    from bertology.pocket import load_settings
    from bertology.pocket import pretrain as pretrain_model

    recipe = load_settings(experiment, changes=set_ or ())
    made = pretrain_model(recipe, out, threads=threads, echo=typer.echo, **settings)
    typer.echo(f"model in {made.folder}")


@app.command(
    epilog=closing(
        "how-to/landscape",
        "bertology landscape pocket --out landscape",
        "bertology landscape experiments/hao-2019-landscape.yaml",
    )
)
@with_options("corpus", "columns", "device", corpus="pocket")
def landscape(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            help="One to three models of one shape: pocket, folders, or hub ids. Or a FILE that names them, such as "
            "experiments/hao-2019-landscape.yaml."
        ),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for table, record and figure; with a FILE, runs/NAME.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing landscape.")] = False,
    split: Annotated[str, typer.Option(help="Split whose sentences the loss is computed on.")] = "dev",
    sentences: Annotated[int, typer.Option(min=1, help="Maximum number of sentences; the first ones are used.")] = 200,
    head: Annotated[
        str | None,
        typer.Option(help="A fine-tuned model's folder, tuned/seed-1: the loss is that of its task, not of masks."),
    ] = None,
    trajectory: Annotated[
        list[str] | None,
        typer.Option(help="A checkpoint, or a folder with checkpoint-N in it, to project; may be repeated."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="points=21, extent=[-1,1], radius=0.1, iterations=0 …, or a key of FILE; may be repeated.",
        ),
    ] = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Evaluate the loss around a model, on the line between two, or in the plane of three.

    Prints the loss of each model, the barrier between them, sharpness, and the top and the least eigenvalue of the
    Hessian. Every point is evaluated on the same items with the same masks.
    """
    from bertology.landscapes import landscape as measure
    from bertology.landscapes import load_landscape

    device = settings.pop("device")
    if any(model.endswith(_ENDINGS) for model in models):
        file, *others = models
        if others:
            raise BertologyError(f"landscape: give models, or one FILE that names them, not {' '.join(models)}")
        only_with_file(context, _MEASURED_WITH_FILE, Path(file))
        written = load_landscape(file, changes=set_ or ())
        models, options, folder = list(written.models), written.options, out or Path("runs") / written.name
    else:
        if out is None:
            raise BertologyError("landscape: give --out, or a FILE that names the models")
        text = {"split": split, "head": head, "trajectory": trajectory or (), "sentences": sentences}
        options, folder = {**settings, **text, **changed_settings(set_)}, out
    shown = shows_progress(quiet)
    found = measure(*models, out=folder, overwrite=overwrite, device=device, progress=shown, **options)
    typer.echo(found.summary())
    typer.echo(f"table and figure in {folder}", err=True)
