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
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from bertology._files import canonical_json, digest, explained_system_errors, write_atomically, write_derived
from bertology._folder import CARD, check_plan, one_process, put_model, versions
from bertology._inputs import given_path, taken
from bertology._memory import explained_shortage
from bertology._settings import to_yaml
from bertology._training import tidy_checkpoints
from bertology.activations.progress import BarProgress, Progress, can_show, silent
from bertology.corpora import Corpus, load_corpus
from bertology.encoders import Encoder, load_encoder, model_fingerprint, model_name, resolve_model
from bertology.encoders.sources import code_fingerprint
from bertology.errors import BertologyError, FitError, listed, quoted
from bertology.families.model_corpus import Alignment
from bertology.finetuning._items import Collator, Inputs, TuningTask, encode, tuning_task
from bertology.finetuning._result import (
    BOUNDS,
    PREDICTIONS,
    RECORD,
    FineTuned,
    Record,
    card_of,
    columns_of,
    frame_cell,
    known_cell,
    score_table,
    seed_folder,
)
from bertology.finetuning._scores import collapsed, majority, predictions, score_rows, scores, values
from bertology.finetuning._settings import FineTuneSettings, load_grid, recipe_of, settings_of
from bertology.finetuning._training import FrozenStates, build, layers_read, train
from bertology.measures import Bootstrap
from bertology.measures.comparisons import difference
from bertology.results.rows import frame_to_parquet
from bertology.results.table import Cell, Line, Note, Table, Tables, TextCounts, alignment_notes, titled

_CHECKPOINTS = "checkpoints"
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
    def collator(self) -> Collator:
        """Batches for all seeds; hidden states of a frozen encoder are kept for all epochs where memory allows."""
        states = None
        if self.settings.layers == "none":
            layers = layers_read(self.settings.features, self.encoder.n_layers, name=self.encoder.name)
            states = FrozenStates(self.encoder, layers)
        collator = Collator(self.task, pad_id=self.encoder.pad_id, states=states)
        if states is not None:
            states.keep([self.inputs["train"], self.inputs["dev"]], collator)
        return collator

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
    items = replace(items, splits={name: one.items for name, one in inputs.items()}, positive=chosen.positive)
    if not any(row.is_learnable for row in inputs["train"].rows):
        raise FitError(f"task {items.name}: no word of train has a subword of its own; give a model that spells words")
    named = recipe or recipe_of(chosen.layers)
    fingerprint = model_fingerprint(source)
    job = _Job(encoder, items, inputs, chosen, named, loaded, fingerprint, trust_remote_code)
    show = can_show() if progress is None else progress
    for seed in numbers:
        label = f"{source.title} learns {items.name}, seed {seed}"
        _one_seed(job, folder, seed, BarProgress(label) if show else silent)
    tuned = FineTuned(folder, numbers)
    write_atomically(
        folder / "scores.parquet", frame_to_parquet(tuned.frame.assign(model=source.title, task=items.name))
    )
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
    trained = build(encoder, task, settings, seed=seed, trust_remote_code=job.trust_remote_code)
    model = trained.model.to(encoder.device)

    def predicted(split: str) -> pd.DataFrame:
        return predictions(model, task, job.inputs[split], job.collator)[0]

    history = train(
        model,
        [row for row in job.inputs["train"].rows if row.is_learnable],
        settings,
        progress,
        seed=seed,
        folder=folder / _CHECKPOINTS,
        device=encoder.device,
        collate=job.collator,
        tokenizer=encoder.tokenizer,
        measure=lambda: values(predicted("dev"), task),
    )
    frames = {name: predicted(name) for name in task.splits if name != "train"}
    weights = list(trained.model.parameters())
    frozen = list(encoder.model.outermost.parameters()) if trained.is_frozen else []
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
        n_trained=sum(weight.numel() for weight in weights if weight.requires_grad),
        n_weights=sum(weight.numel() for weight in weights + frozen),
        history=history,
        mix_weights=trained.mix_weights(),
        scores={name: _plain(scores(one, task)) for name, one in frames.items()},
        identity=digest([canonical_json(identity)]),
        device=str(encoder.device),
        threads=torch.get_num_threads(),
        versions={"python": platform.python_version(), **versions(*_VERSIONS)},
        started_utc=started.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - began, 1),
        majority={name: majority(one, task.splits["train"].gold, task) for name, one in frames.items()},
        collapsed={name: label for name, one in frames.items() if (label := collapsed(one, task.kind)) is not None},
        texts=job.texts,
        code=code_fingerprint(encoder.source) if job.trust_remote_code else None,
    )
    put_model(folder, trained.save)
    of_splits = pd.concat([one.assign(split=name) for name, one in frames.items()])
    RECORD.write(folder, record, {PREDICTIONS: frame_to_parquet(of_splits), CARD: card_of(record)})


def _plain(found: Mapping[str, Bootstrap]) -> dict[str, dict[str, Any]]:
    """Scores of one run for its record, in JSON: what is undefined is left out."""
    rows = {metric: score_rows([one]) for metric, one in found.items()}
    fields = (*BOUNDS[:1], "stderr", *BOUNDS[1:], "ci_method")
    return {
        metric: {name: row[name] for name in fields if isinstance(row[name], str) or math.isfinite(row[name])}
        for metric, row in rows.items()
    }


_DIFFERENCE = ("difference", "difference_low", "difference_high")


@dataclass(frozen=True, repr=False)
class FineTunedGrid(Tables):
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
        record = tuned.record
        what = {"model": record.model, "corpus": record.corpus, "recipe": record.recipe, "n_trained": record.n_trained}
        what |= record.settings.model_dump(mode="json", include={"layers", "features", "head"})
        for split, seeds in tuned.bootstraps.items():
            for row in score_table(split, seeds, n_items=record.n_items[split]):
                found, metric = dict.fromkeys(_DIFFERENCE, math.nan), str(row["metric"])
                if tuned is not first:
                    pairs = zip(seeds, first.bootstraps[split], strict=True)
                    compared = score_rows([difference(one[metric], base[metric], metric=metric) for one, base in pairs])
                    found = dict(zip(_DIFFERENCE, (compared[name] for name in BOUNDS), strict=True))
                yield {"task": task, "run": run, **row, **found, **what}

    def table(self, split: str | None = None) -> pd.DataFrame:
        """The rows of :attr:`frame` of one split, or of all: task, metric, run, value and difference from the first."""
        columns = ["task", "split", "metric", "run", *BOUNDS, "seed_sd", *_DIFFERENCE, "n_seeds"]
        return columns_of(self.frame, columns, split)

    def shown(self) -> tuple[Table, ...]:
        """A table for each task, with the splits next to each other."""
        return tuple(self._table(str(task), rows) for task, rows in self.frame.groupby("task", sort=False))

    def _table(self, task: str, rows: pd.DataFrame) -> Table:
        first, *others = self.models
        tuned = {run: of_run[task] for run, of_run in self.models.items()}
        record, splits, metrics = tuned[first].record, list(rows["split"].unique()), rows["metric"].unique()
        of = {(row["metric"], row["run"], row["split"]): row for row in rows.to_dict("records")}
        lines = []
        for metric, run in itertools.product(metrics, tuned):
            found = [of[metric, run, split] for split in splits]
            cells = [frame_cell(row, BOUNDS, metric) for row in found]
            compared = [frame_cell(found[-1], _DIFFERENCE, metric)] if others else []
            lines.append(Line(run, (Cell(titled(metric)), *cells, *compared)))
        for metric in metrics:
            known = [record.majority.get(split, {}).get(metric) for split in splits]
            if any(value is not None for value in known):
                cells = [Cell(titled(metric)), *(known_cell(value, metric) for value in known)]
                lines.append(Line("majority", (*cells, *[Cell("")] * bool(others)), baseline=True))
        n_seeds, n_items = (rows[name].iloc[-1] for name in ("n_seeds", "n_items"))
        over = f"{n_seeds} seeds and {n_items:,} items" if n_seeds > 1 else f"{n_items:,} items; not over seeds"
        notes = [Note("intervals", f"95 %, of {splits[-1]} over {over}")]
        notes += [Note("difference", f"from {first}, on the same items")] * bool(others)
        notes += [Note("data", note) for note in record.notes]
        notes += alignment_notes(*filter(None, (one.record.texts for one in tuned.values())))
        notes += [
            Note("warning", f"{run}, {text}")
            for run, of_run in tuned.items()
            for one in of_run.records.values()
            for text in one.warnings
        ]
        headers = ("metric", *splits, *([f"difference on {splits[-1]}"] if others else []))
        return Table(f"{task} · {record.corpus}", headers, tuple(lines), tuple(notes), corner="Run")

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        return f"<FineTunedGrid of {', '.join(self.models)} in {self.path}>"


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
    data: dict[str, dict[str, Any]] = {}
    for task in grid.tasks:
        loaded = corpora[task.corpus, task.columns]
        splits = {"sentences": task.sentences, "train_split": task.train_split, "test_split": task.test_split}
        # The error of a corpus that lacks the labels, before anything is trained.
        tuning_task(task.name, loaded, train=task.train_split, test=task.test_split, sentences=task.sentences)
        data[task.title] = {"corpus": loaded, "task": task.name, **splits}
    for run in grid.runs:
        resolve_model(run.model, revision=run.revision)
    models: dict[str, dict[str, FineTuned]] = {run.id: {} for run in grid.runs}
    common: dict[str, Any] = {"seeds": grid.seeds, "device": device, "threads": threads, "progress": progress}
    for run, task in itertools.product(grid.runs, grid.tasks):
        where = folder / run.id / task.folder
        of_run = {name: getattr(run, name) for name in type(run).model_fields if name != "id"}
        try:
            models[run.id][task.title] = finetune(out=where, **of_run, **data[task.title], **common)
        except BertologyError as error:
            raise type(error)(f"run {run.id}, task {task.title}: {error}") from error
    found = FineTunedGrid(folder, models)
    files = {
        "experiment.yaml": to_yaml(grid.plain()).encode(),
        "scores.parquet": frame_to_parquet(found.frame),
        "scores.csv": found.frame.to_csv(index=False, lineterminator="\n").encode(),
        "scores.md": found.to_markdown().encode(),
    }
    write_derived(folder, files, remedy="choose another --out")
    return found
