"""``bertology finetune``, ``compress``, ``pretrain`` and ``landscape``: models changed, and the loss around them."""

from pathlib import Path
from typing import Any

import typer

import bertology
from bertology.cli._options import changed_settings, command, only_with_file, shows_progress
from bertology.errors import BertologyError

_TRAINED_WITH_FILE = ("file", "out", "set_", "device", "threads", "trust_remote_code", "quiet")
_MEASURED_WITH_FILE = ("models", "out", "overwrite", "set_", "device", "quiet")


@command(
    "how-to/finetune",
    "bertology finetune --task pos --model pocket --out tuned --seeds 3",
    "bertology finetune experiments/devlin-2019-layer-choices.yaml",
    settings="model corpus columns train_split test_split device revision trust_remote_code",
    of={
        "bertology.finetuning._run:finetune": "task recipe sentences",
        "bertology.finetuning._settings:FineTuneSettings": "layers features",
    },
    test_split=("test", "Split to score on besides dev."),
    task=None,
)
def finetune(
    context: typer.Context,
    file: Path | None = None,
    *,
    out: Path | None = None,
    seeds: int = 1,
    explain: int = 0,
    set_: list[str] | None = None,
    threads: int | None = None,
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Train an encoder further on a task, once for each seed; or with a FILE, in several runs on several tasks.

    Prints the scores on dev and test with 95 % intervals over seeds and items. Start the same command again to go on
    with a run that was stopped. Each seed's folder is a Hugging Face model folder with a model card, which
    `bertology probe --model` takes; settings and scores are in its finetune.json. With a FILE, tables compare all
    runs with the first.

    Args:
        file: Several fine-tunings, such as experiments/devlin-2019-layer-choices.yaml.
        out: Folder for the models, in sub-folders seed-1, …; by default runs/NAME with a FILE.
        seeds: Number of runs, with seeds 1, 2, …
        explain: Write OUT/words.html: on which words of so many sentences of dev the first seed's predictions rest.
        set_: Replace a setting, lr=1e-5, or key of FILE; may be repeated.
    """
    shared: dict[str, Any] = {name: settings.pop(name) for name in ("device", "trust_remote_code")}
    shared |= {"out": out, "changes": set_ or (), "threads": threads, "progress": shows_progress(quiet)}
    if file is not None:
        only_with_file(context, _TRAINED_WITH_FILE, file)
        grid = bertology.finetune_grid(file, **shared)
        typer.echo(grid.to_markdown())
        typer.echo(f"models and tables in {grid.path}", err=True)
        return
    if explain < 0:
        raise BertologyError(f"finetune: --explain {explain}: give the number of sentences, 0 for no page")
    if settings["task"] is None or out is None:
        raise BertologyError("finetune: give --task and --out, or a FILE of fine-tunings")
    corpus = settings.pop("corpus")
    tuned = bertology.finetune(settings.pop("model"), corpus, seeds=seeds, **shared, **settings)
    typer.echo(tuned.to_markdown())
    typer.echo(f"models in {tuned.path}", err=True)
    if explain:
        texts = {"dev": bertology.load_corpus(corpus, columns=settings["columns"])["dev"]}
        how = {"sentences": explain, **{name: shared[name] for name in ("device", "trust_remote_code")}}
        page = bertology.attribute(corpus=texts, model=tuned.folder(), **how).save(tuned.path / "words.html")
        typer.echo(f"words that predictions rest on, by text: {page}", err=True)


@command(
    "how-to/compress",
    "bertology compress pocket --method magnitude --set share=0.5 --out pruned",
    "bertology compress pocket --method heads,quantise --out small --speed pocket",
    settings="device",
)
def compress(
    model: str,
    *,
    method: str,
    out: Path,
    set_: list[str] | None = None,
    speed: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Prune, quantise, shorten or distil an encoder.

    Writes a Hugging Face model folder with a model card, which `bertology probe --model` reads like any other. A
    distillation that was stopped goes on when the same command is given again.

    Args:
        model: pocket, a folder, or a hub id.
        method: magnitude, heads, neurons, layers, low_rank, quantise, distil or theseus; several with commas.
        out: Model folder to be written.
        set_: A setting of the method, such as share=0.5; of several methods magnitude.share=0.5. May be repeated.
        speed: Measure speed on this corpus: the model, the new one, and int8 arithmetic.
    """
    from bertology.compression import dynamic_int8, pieces_per_second, weight_bytes
    from bertology.families.request import parse_names

    asked = {**changed_settings(set_), **settings}
    made = bertology.compress(model, parse_names(method), out=out, progress=shows_progress(quiet), **asked)
    typer.echo(made.summary())
    if speed is not None:
        corpus = bertology.load_corpus(speed)
        sentences = corpus[next(iter(corpus.splits))][:400]
        before = bertology.load_encoder(model, device="cpu")
        named = {before.source.title: before, str(out): made.encoder(device="cpu")}
        for name, encoder in (*named.items(), (f"{before.source.title}, int8 arithmetic", dynamic_int8(before))):
            rate, size = pieces_per_second(encoder, sentences), weight_bytes(encoder)
            typer.echo(f"{name}: {rate:,.0f} pieces/s on the processor, {size / 1e6:.2f} MB of weights without heads")
    typer.echo(f"model in {out}", err=True)


@command(
    "how-to/pretrain",
    "bertology pretrain experiments/pretrain-pocket.yaml --out my-pocket",
    "bertology pretrain experiments/pretrain-pocket.yaml --set seed=2 --threads 4",
    settings="device",
    device=("auto", "cpu, cuda, or auto: a GPU where there is one."),
)
def pretrain(
    experiment: Path,
    *,
    out: Path = Path("pocket-model"),
    set_: list[str] | None = None,
    threads: int | None = None,
    **settings: Any,
) -> None:
    """Pretrain a small model on the pocket world, or train a masked language model further on a text of your own.

    A recipe chooses what is predicted (masked subwords, spans, from one side, replaced tokens), how pairs of sentences
    are read, and from which weights training starts; `bertology schema pretrain` has all settings. Start the same
    command again to go on with a run that was stopped. The folder is a Hugging Face model folder with a model card;
    settings and held-out figures by step are in its training.json.

    Args:
        experiment: Pretraining file, such as experiments/pretrain-pocket.yaml.
        out: Folder for the model.
    """
    from bertology.pocket import load_settings
    from bertology.pocket import pretrain as pretrain_model

    recipe = load_settings(experiment, changes=set_ or ())
    made = pretrain_model(recipe, out, threads=threads, echo=typer.echo, **settings)
    typer.echo(f"model in {made.folder}")


@command(
    "how-to/landscape",
    "bertology landscape pocket --out landscape",
    "bertology landscape experiments/hao-2019-landscape.yaml",
    settings="corpus columns device",
    of={"bertology.landscapes._settings:LandscapeFile": "split head"},
)
def landscape(
    context: typer.Context,
    models: list[str],
    *,
    out: Path | None = None,
    overwrite: bool = False,
    sentences: int = 200,
    trajectory: list[str] | None = None,
    set_: list[str] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Evaluate the loss around a model, on the line between two, or in the plane of three.

    Prints the loss of each model, the barrier between them, sharpness, and the top and the least eigenvalue of the
    Hessian. Every point is evaluated on the same items with the same masks.

    Args:
        models: One to three models of one shape: pocket, folders, or hub ids. Or a FILE that names them, such as
            experiments/hao-2019-landscape.yaml.
        out: Folder for table, record and figure; with a FILE, runs/NAME.
        overwrite: Replace an existing landscape.
        sentences: Maximum number of sentences; the first ones are used.
        trajectory: A checkpoint, or a folder with checkpoint-N in it, to project; may be repeated.
        set_: points=21, extent=[-1,1], radius=0.1, iterations=0 …, or a key of FILE; may be repeated.
    """
    from bertology.landscapes import load_landscape

    device = settings.pop("device")
    if any(model.endswith((".yaml", ".yml")) for model in models):
        file, *others = models
        if others:
            raise BertologyError(f"landscape: give models, or one FILE that names them, not {' '.join(models)}")
        only_with_file(context, _MEASURED_WITH_FILE, Path(file))
        written = load_landscape(file, changes=set_ or ())
        models, options, folder = list(written.models), written.options, out or Path("runs") / written.name
    else:
        if out is None:
            raise BertologyError("landscape: give --out, or a FILE that names the models")
        text = {"trajectory": trajectory or (), "sentences": sentences}
        options, folder = {**settings, **text, **changed_settings(set_)}, out
    shown = shows_progress(quiet)
    found = bertology.landscape(*models, out=folder, overwrite=overwrite, device=device, progress=shown, **options)
    typer.echo(found.to_markdown())
    typer.echo(f"table and figure in {folder}", err=True)
