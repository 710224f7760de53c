"""Fine-tuning from a model and a corpus to model folders, and several fine-tunings as a file says."""

from __future__ import annotations

import itertools
import json
import math
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from bertology._files import (
    canonical_json,
    digest,
    explained_system_errors,
    write_atomically,
    write_derived,
)
from bertology._folder import CARD, check_plan, one_process, put_model, versions
from bertology._inputs import given_path, taken
from bertology._memory import explained_shortage
from bertology._settings import to_yaml
from bertology.activations import BarProgress, Progress, can_show, silent
from bertology.corpora import Corpus, load_corpus
from bertology.encoders import Encoder, load_encoder, model_fingerprint, model_name, resolve_model
from bertology.encoders.sources import code_fingerprint
from bertology.errors import BertologyError, FitError, listed, quoted
from bertology.families.model_corpus import Alignment
from bertology.finetuning._items import Collator, Inputs, TuningTask, encode, learnable, tuning_task
from bertology.finetuning._result import (
    PREDICTIONS,
    RECORD,
    FineTuned,
    Record,
    card_of,
    frame_cell,
    plain_scores,
    score_table,
    seed_folder,
)
from bertology.finetuning._scores import collapsed, majority, predictions, score_rows, scores, values
from bertology.finetuning._settings import (
    FineTuneGrid,
    FineTuneSettings,
    GridRun,
    GridTask,
    load_grid,
    recipe_of,
    settings_of,
)
from bertology.finetuning._training import FrozenStates, Trained, build, layers_read, tidy_checkpoints, train
from bertology.measures.comparisons import difference
from bertology.measures.intervals import Bootstrap
from bertology.results.rows import Score, frame_to_parquet
from bertology.results.table import (
    NOTHING,
    Cell,
    Line,
    Note,
    Table,
    TextCounts,
    alignment_notes,
    metric_title,
    score_cell,
    unit,
)

_CHECKPOINTS = "checkpoints"
_BATCH = 64
_SCORES = "scores.parquet"
_VERSIONS = ("torch", "transformers", "tokenizers", "accelerate")


@dataclass(frozen=True)
class _Job:
    """The model, data and settings that all seeds have in common."""

    encoder: Encoder
    task: TuningTask
    inputs: dict[str, Inputs]
    settings: FineTuneSettings
    recipe: str
    corpus: Corpus
    model_fingerprint: str
    trust_remote_code: bool

    @cached_property
    def texts(self) -> TextCounts:
        """How the texts of test, or else of dev, align with subwords and with train."""
        task = self.task
        split = "test" if "test" in task.splits else "dev"
        pieces = self.encoder.tokenize(task.splits[split].sentences, max_pieces=self.settings.max_pieces)
        return TextCounts(
            task=task.name,
            model=self.encoder.source.title,
            corpus=self.corpus.name,
            split=split,
            n_items=len(task.splits[split].sentences),
            **Alignment.of_pieces(pieces).counts,
            shared_subwords="exclude" if task.kind == "tags" else "include",
            n_repeated=task.n_repeated if split == "test" else None,
            left_out=json.dumps({kind: len(places) for kind, places in self.corpus.skipped.items()}, sort_keys=True),
        )

    @cached_property
    def states(self) -> FrozenStates | None:
        """Hidden states of a frozen encoder, kept for all epochs and seeds where memory allows."""
        if self.settings.layers != "none":
            return None
        layers = layers_read(self.settings.features, self.encoder.n_layers, name=self.encoder.name)
        states, read = FrozenStates(self.encoder, layers), [self.inputs[name] for name in ("train", "dev")]
        n_pieces = sum(len(row) for inputs in read for row in inputs.rows)
        batches = ((inputs, numbers) for inputs in read for numbers in inputs.batches(_BATCH))
        states.keep(n_pieces, (self.collator([inputs.rows[n] for n in numbers]) for inputs, numbers in batches))
        return states

    @property
    def collator(self) -> Collator:
        return Collator(self.task, pad_id=self.encoder.pad_id, with_segments=self.settings.layers == "none")

    def identity(self, seed: int) -> dict[str, Any]:
        """All that decides the weights but device, threads and versions."""
        data = {name: [items.sentences.fingerprint, len(items)] for name, items in self.task.splits.items()}
        settings = self.settings.model_dump(mode="json", exclude={"keep_checkpoints"})
        return {
            "task": f"{self.task.name}.v{self.task.version}",
            "model": self.model_fingerprint,
            "data": data,
            "settings": settings,
            "seed": seed,
        }


@explained_system_errors()
@explained_shortage("fine-tuning", remedy="set accumulate higher, or batch_size or max_pieces lower")
def finetune(
    model: Any = "pocket",
    corpus: Any = "pocket",
    *,
    task: str,
    out: str | Path,
    columns: str | Sequence[str] | None = None,
    recipe: str | None = None,
    seeds: int | Sequence[int] = 1,
    sentences: int | None = None,
    train_split: str = "train",
    test_split: str = "test",
    device: str = "auto",
    threads: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: bool | None = None,
    changes: Sequence[str] = (),
    **settings: Any,
) -> FineTuned:
    """Train an encoder further on a task, with a head on top, once for each seed.

    >>> from bertology import finetune
    >>> tuned = finetune("pocket", "sst2/", task="sentence_label:label", out="tuned")  # doctest: +SKIP

    A run that was stopped goes on from its last checkpoint when it is started again, to the same weights on the same
    device with as many threads; finished seeds are left as they are. The weights are those after the last epoch:
    nothing is chosen on dev.

    Args:
        model: ``pocket``, a folder, a hub id, an :class:`~bertology.Encoder`, or a transformers model and its
            tokenizer.
        corpus: as of :func:`bertology.load_corpus`, with a split to train on; dev is scored after each epoch, and is
            every tenth sentence of train where there is none.
        task: ``sentence_label:COLUMN``, ``pair_label:COLUMN``, ``sentence_number:COLUMN``, ``pair_number:COLUMN``;
            ``pos``, ``ner``, ``word_label:COLUMN`` and other tasks of words; or ``span``, answers to questions as in
            SQuAD.
        out: folder for the models, ``out/seed-1`` and so on.
        columns: of a table or column file, as of :func:`bertology.load_corpus`.
        recipe: ``devlin-2019``, ``mosbach-2021``, ``frozen`` or ``hu-2022``; by ``layers`` when left out.
        seeds: how many, or which: of the head's first weights, the order of inputs and dropout.
        sentences: at most so many of each split, the first ones.
        train_split: the split to learn.
        test_split: the split to score on besides dev, if the corpus has it with labels.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        threads: processor threads for torch; its own choice when left out.
        revision: branch, tag or commit of a hub model.
        trust_remote_code: run Python code that comes with the model.
        progress: whether to draw bars; by default in a notebook, and if standard error is a terminal.
        changes: settings as texts, ``"lr=1e-5"``.
        settings: fields of :class:`FineTuneSettings` that replace those of the recipe, such as ``lr``, ``epochs``,
            ``layers`` or ``features``.

    Returns:
        The models and their scores: shows as a table in a notebook; has ``.table()``, ``.encoder()``, ``.history``,
        ``.predictions()`` and ``.evaluate(corpus)``.

    Raises:
        BertologyError: something asked for cannot be done, the loss is not finite, another process writes the folder,
            or the folder holds other settings.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    chosen = settings_of(recipe, settings, changes)
    numbers = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(taken(seeds, "seeds"))
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise BertologyError(f"seeds {seeds}: give how many, at least 1, or different numbers from 0")
    folder = given_path(out)
    loaded = load_corpus(corpus, columns=columns)
    items = tuning_task(task, loaded, train=train_split, test=test_split, sentences=sentences)
    if chosen.positive is not None and chosen.positive not in items.labels:
        known = listed(items.labels)
        raise BertologyError(f"positive {quoted(chosen.positive)} is none of the labels, {known}: give one of these")
    source = resolve_model(model_name(model), revision=revision)
    encoder = load_encoder(source, device=device, trust_remote_code=trust_remote_code)
    inputs = {
        name: encode(items, part, encoder, max_pieces=chosen.max_pieces, stride=chosen.stride)
        for name, part in items.splits.items()
    }
    items = replace(items, splits={name: one.items for name, one in inputs.items()})
    if not learnable(inputs["train"]):
        raise FitError(f"task {items.name}: no word of train has a subword of its own; give a model that spells words")
    named = recipe or recipe_of(chosen.layers)
    fingerprint = model_fingerprint(source)
    job = _Job(encoder, items, inputs, chosen, named, loaded, fingerprint, trust_remote_code)
    show = can_show() if progress is None else progress
    for seed in numbers:
        label = f"{source.title} learns {items.name}, seed {seed}"
        _one_seed(job, folder, seed, BarProgress(label) if show else silent)
    tuned = FineTuned(folder, numbers)
    write_atomically(folder / _SCORES, frame_to_parquet(tuned.frame.assign(model=source.title, task=items.name)))
    return tuned


def _one_seed(job: _Job, out: Path, seed: int, progress: Progress) -> None:
    """Train one seed unless it is finished; one process at a time."""
    folder, identity = seed_folder(out, seed), job.identity(seed)

    def unplanned() -> str | None:
        return "a model that was not fine-tuned here" if (folder / "config.json").exists() else None

    with one_process(folder, "fine-tunes into this folder"):
        check_plan(folder, identity, unplanned=unplanned)
        if not RECORD.is_in(folder):
            _train_seed(job, folder, seed, identity, progress)
        tidy_checkpoints(folder / _CHECKPOINTS, keep=job.settings.keep_checkpoints == "all")


def _train_seed(job: _Job, folder: Path, seed: int, identity: dict[str, Any], progress: Progress) -> None:
    task, settings, encoder = job.task, job.settings, job.encoder
    started, began = datetime.now(UTC), time.monotonic()
    trained = build(encoder, task, settings, seed=seed, states=job.states, trust_remote_code=job.trust_remote_code)
    model, checkpoints = trained.model.to(encoder.device), folder / _CHECKPOINTS
    predicted = {name: partial(_predicted, job, model, name) for name in task.splits if name != "train"}
    history = train(
        model,
        learnable(job.inputs["train"]),
        settings,
        seed=seed,
        folder=checkpoints,
        device=torch.device(encoder.device),
        collator=job.collator,
        tokenizer=encoder.tokenizer,
        measure=lambda: values(predicted["dev"](), task.kind, task.labels, positive=settings.positive),
        progress=progress,
    )
    frames = {name: predict() for name, predict in predicted.items()}
    found = {name: scores(one, task.kind, task.labels, positive=settings.positive) for name, one in frames.items()}
    sizes = [sum(weight.numel() for weight in part) for part in _weights(trained)]
    record = Record(
        format=1,
        task=task.name,
        task_version=task.version,
        kind=task.kind,
        labels=list(task.labels),
        has_unanswered=task.has_unanswered,
        model=encoder.source.title,
        model_fingerprint=job.model_fingerprint,
        corpus=job.corpus.name,
        corpus_fingerprint=job.corpus.fingerprint,
        seed=seed,
        recipe=job.recipe,
        settings=settings,
        notes=list(task.all_notes),
        n_items={name: len(items) for name, items in task.splits.items()},
        n_cut={name: inputs.n_cut for name, inputs in job.inputs.items()},
        n_trained=sizes[0],
        n_weights=sizes[1],
        history=history,
        mix_weights=trained.mix_weights(),
        scores={name: plain_scores(one) for name, one in found.items()},
        identity=digest([canonical_json(identity)]),
        device=str(encoder.device),
        threads=torch.get_num_threads(),
        versions={"python": platform.python_version(), **versions(*_VERSIONS)},
        started_utc=started.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - began, 1),
        majority={name: _majority(one, job) for name, one in frames.items()},
        collapsed={name: label for name, one in frames.items() if (label := collapsed(one, task.kind)) is not None},
        texts=job.texts,
        code=code_fingerprint(encoder.source) if job.trust_remote_code else None,
    )
    put_model(folder, trained.save)
    of_splits = pd.concat([one.assign(split=name) for name, one in frames.items()])
    RECORD.write(folder, record, {PREDICTIONS: frame_to_parquet(of_splits), CARD: card_of(record)})


def _weights(trained: Trained) -> tuple[list[Any], list[Any]]:
    """Weights that are trained, and all, those of a frozen encoder among them."""
    own = list(trained.model.parameters())
    frozen = list(trained.encoder.model.outermost.parameters()) if trained.is_frozen else []
    return [weight for weight in own if weight.requires_grad], own + frozen


def _predicted(job: _Job, model: Any, split: str) -> pd.DataFrame:
    return predictions(model, job.task, job.task.splits[split], job.inputs[split], job.collator)[0]


def _majority(frame: pd.DataFrame, job: _Job) -> dict[str, float]:
    """Scores of the most frequent label of train; what is undefined is left out."""
    task = job.task
    constant = majority(frame, task.train.gold, task.kind)
    if constant is None:
        return {}
    found = values(constant, task.kind, task.labels, positive=job.settings.positive)
    return {metric: value for metric, value in found.items() if math.isfinite(value)}


_ASKED = "experiment.yaml"
_DIFFERENCE = ("difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class FineTunedGrid:
    """Fine-tuned models of several runs and tasks; made by :func:`finetune_grid`."""

    path: Path
    """The folder that holds ``RUN/TASK/seed-1`` and so on."""
    models: Mapping[str, Mapping[str, FineTuned]]
    """Models by run and task, under their names in the file."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each task, split, metric and run: the mean over seeds, with 95 % intervals for other seeds and
        items.

        ``difference`` is that from the first run, by seed and on the same items, with its interval
        ``difference_low`` … ``difference_high``; NaN of the first run itself.
        """
        first, *_ = self.models.values()
        rows = [row for task in first for run in self.models for row in self._rows(run, task, first[task])]
        frame = pd.DataFrame(rows)
        keys = ["task", "split", "metric", "run"]
        order = {key: {value: place for place, value in enumerate(frame[key].unique())} for key in keys}
        return frame.sort_values(keys, key=lambda column: column.map(order[str(column.name)]), ignore_index=True)

    def _rows(self, run: str, task: str, first: FineTuned) -> Iterator[dict[str, Any]]:
        tuned = self.models[run][task]
        record = next(iter(tuned.records.values()))
        what = {"model": record.model, "corpus": record.corpus, "recipe": record.recipe, "n_trained": record.n_trained}
        what |= record.settings.model_dump(mode="json", include={"layers", "features", "head"})
        for split, seeds in tuned.bootstraps.items():
            for row in score_table(split, seeds, n_items=record.n_items[split]):
                found = dict.fromkeys(_DIFFERENCE, math.nan)
                if tuned is not first:
                    found = _differences(seeds, first.bootstraps[split], str(row["metric"]))
                yield {"task": task, "run": run, **row, **found, **what}

    def table(self, split: str | None = None) -> pd.DataFrame:
        """The rows of :attr:`frame` of one split, or of all: task, metric, run, value and difference from the first."""
        frame = self.frame if split is None else self.frame[self.frame["split"] == split]
        columns = ["task", "split", "metric", "run", "value", "ci_low", "ci_high", "seed_sd", *_DIFFERENCE, "n_seeds"]
        return frame[columns].reset_index(drop=True)

    def to_markdown(self) -> str:
        """A table for each task, with the splits next to each other."""
        return "\n".join(table.to_markdown() for table in self._grids())

    def _grids(self) -> Iterator[Table]:
        first, *others = self.models
        for task, rows in self.frame.groupby("task", sort=False):
            splits = list(rows["split"].unique())
            of = {(row["metric"], row["run"], row["split"]): row for row in rows.to_dict("records")}
            lines = []
            for metric, run in itertools.product(rows["metric"].unique(), self.models):
                found = [of[metric, run, split] for split in splits]
                cells = [frame_cell(row, ("value", "ci_low", "ci_high"), metric) for row in found]
                compared = [frame_cell(found[-1], _DIFFERENCE, metric)] if others else []
                lines.append(Line(run, (Cell(f"{metric_title(metric)}{unit(metric)}"), *cells, *compared)))
            record = next(iter(self.models[first][str(task)].records.values()))
            for metric in rows["metric"].unique():
                known = [record.majority.get(split, {}).get(metric) for split in splits]
                cells = [Cell(NOTHING) if value is None else score_cell(Score(value), metric) for value in known]
                cells += [Cell("")] * bool(others)
                if any(value is not None for value in known):
                    lines.append(
                        Line("majority", (Cell(f"{metric_title(metric)}{unit(metric)}"), *cells), baseline=True)
                    )
            headers = ["metric", *splits, *([f"difference on {splits[-1]}"] if others else [])]
            n_seeds, n_items = (rows[name].iloc[-1] for name in ("n_seeds", "n_items"))
            over = f"{n_seeds} seeds and {n_items:,} items" if n_seeds > 1 else f"{n_items:,} items; not over seeds"
            notes = [Note("intervals", f"95 %, of {splits[-1]} over {over}")]
            if others:
                notes.append(Note("difference", f"from {first}, on the same items"))
            notes += [Note("data", note) for note in record.notes]
            texts = [next(iter(models[str(task)].records.values())).texts for models in self.models.values()]
            notes += alignment_notes(*filter(None, texts))
            for run, models in self.models.items():
                records = models[str(task)].records.values()
                notes += [Note("warning", f"{run}, {text}") for one in records for text in one.warnings]
            yield Table(f"{task} · {record.corpus}", tuple(headers), tuple(lines), tuple(notes), corner="Run")

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        return "\n".join(table.to_html() for table in self._grids())


def _differences(runs: Sequence[Mapping[str, Bootstrap]], first: Sequence[Mapping[str, Bootstrap]], metric: str) -> Any:
    paired = [difference(one[metric], base[metric], metric=metric) for one, base in zip(runs, first, strict=True)]
    row = score_rows(paired)
    return dict(zip(_DIFFERENCE, (row["value"], row["ci_low"], row["ci_high"]), strict=True))


@explained_system_errors()
def finetune_grid(
    settings: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    changes: Sequence[str] = (),
    device: str = "auto",
    threads: int | None = None,
    trust_remote_code: bool = False,
    progress: bool | None = None,
) -> FineTunedGrid:
    """Fine-tune several times as a file says: every run on every task, each once for each seed.

    >>> from bertology import finetune_grid
    >>> found = finetune_grid("experiments/devlin-2019-layer-choices.yaml")  # doctest: +SKIP

    What was stopped goes on, and what is finished is left as it is, as by :func:`finetune`. All tasks and models are
    looked up before anything is trained.

    Args:
        settings: a YAML file, or a mapping like one, whose corpora and models may be objects: ``name``, ``tasks``,
            ``runs`` and ``seeds``, options of :func:`finetune`, and fields of :class:`FineTuneSettings`.
        out: a folder for ``RUN/TASK/seed-1`` …, and for the table as ``scores.parquet``, ``scores.csv`` and
            ``scores.md``; ``runs/NAME`` when left out.
        changes: settings to replace, as texts: ``"epochs=1"``, ``"runs[0].lr=1e-3"``.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        threads: processor threads for torch; its own choice when left out.
        trust_remote_code: whether models for which a file asks it may run the Python code that comes with them.
        progress: whether to draw bars; by default in a notebook, and if standard error is a terminal.

    Returns:
        The models and their scores: shows as tables; has ``.table()``, ``.frame`` and ``.models``.

    Raises:
        BertologyError: something in the file is not as it should be, with file, line and key; or a run cannot be
            trained, as of :func:`finetune`.
    """
    grid = load_grid(settings, changes=changes, trust_remote_code=trust_remote_code)
    folder = given_path(out) if out is not None else Path("runs") / grid.name
    named = dict.fromkeys((task.corpus, task.columns) for task in grid.tasks)
    corpora = {(name, columns): load_corpus(name, columns=columns) for name, columns in named}
    for task in grid.tasks:
        _check_items(task, corpora[task.corpus, task.columns])
    for run in grid.runs:
        resolve_model(run.model, revision=run.revision)
    models: dict[str, dict[str, FineTuned]] = {run.id: {} for run in grid.runs}
    for run in grid.runs:
        for task in grid.tasks:
            where = folder / run.id / task.folder
            data = {
                "corpus": corpora[task.corpus, task.columns],
                "device": device,
                "threads": threads,
                "progress": progress,
            }
            models[run.id][task.title] = _finetune(grid, run, task, out=where, **data)
    found = FineTunedGrid(folder, models)
    files = {
        _ASKED: to_yaml(grid.plain()).encode(),
        "scores.parquet": frame_to_parquet(found.frame),
        "scores.csv": found.frame.to_csv(index=False, lineterminator="\n").encode(),
        "scores.md": found.to_markdown().encode(),
    }
    write_derived(folder, files, remedy="choose another --out")
    return found


def _check_items(task: GridTask, corpus: Corpus) -> None:
    """Raise the error of a task whose corpus lacks the labels, before anything is trained."""
    tuning_task(task.name, corpus, train=task.train_split, test=task.test_split, sentences=task.sentences)


def _finetune(grid: FineTuneGrid, run: GridRun, task: GridTask, **options: Any) -> FineTuned:
    try:
        return finetune(
            run.model,
            task=task.name,
            recipe=run.recipe,
            seeds=grid.seeds,
            sentences=task.sentences,
            train_split=task.train_split,
            test_split=task.test_split,
            revision=run.revision,
            trust_remote_code=run.trust_remote_code,
            **options,
            **run.settings,
        )
    except BertologyError as error:
        raise type(error)(f"run {run.id}, task {task.title}: {error}") from error
