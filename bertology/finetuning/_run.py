"""Fine-tuning from a model and a corpus to model folders: one for each seed, resumed where a run was stopped."""

from __future__ import annotations

import json
import math
import platform
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from filelock import FileLock, Timeout

from bertology._files import (
    canonical_json,
    digest,
    explained_system_errors,
    explained_write_errors,
    read_json,
    write_atomically,
)
from bertology._inputs import given_path, taken
from bertology._memory import explained_shortage
from bertology._temporary import sweep, temporary_folder
from bertology.activations import BarProgress, Progress, can_show, silent
from bertology.corpora import Corpus, load_corpus
from bertology.encoders import Encoder, code_fingerprint, load_encoder, model_fingerprint, model_name, resolve_model
from bertology.errors import BertologyError, FitError, listed, quoted
from bertology.families.model_corpus import Alignment
from bertology.finetuning._card import model_card
from bertology.finetuning._features import FrozenStates, layers_read
from bertology.finetuning._inputs import Collator, Inputs, encode, learnable
from bertology.finetuning._items import TuningTask, tuning_task
from bertology.finetuning._model import ADAPTER, Trained, build
from bertology.finetuning._predict import predictions
from bertology.finetuning._record import RECORD, Record
from bertology.finetuning._result import PREDICTIONS, FineTuned, plain_scores, seed_folder
from bertology.finetuning._scores import collapsed, majority, scores, values
from bertology.finetuning._settings import FineTuneSettings, recipe_of, settings_of
from bertology.finetuning._train import tidy_checkpoints, train
from bertology.results.tables.store import frame_to_parquet
from bertology.results.views.grid import TextCounts

_PLAN = "plan.json"
_CHECKPOINTS = "checkpoints"
_LOCK = ".lock"
_BATCH = 64
_SCORES = "scores.parquet"
_VERSIONS = ("bertology", "torch", "transformers", "tokenizers", "accelerate")


@dataclass(frozen=True)
class _Job:
    """What all seeds have in common."""

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
        """Of a frozen encoder its hidden states, kept for all epochs and seeds where memory allows."""
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
    folder = seed_folder(out, seed)
    with explained_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / _LOCK, timeout=0):
            sweep(folder)
            identity = job.identity(seed)
            _check_plan(folder, identity)
            if not (folder / RECORD).exists():
                _train_seed(job, folder, seed, identity, progress)
            tidy_checkpoints(folder / _CHECKPOINTS, keep=job.settings.keep_checkpoints == "all")
    except Timeout:
        remedy = "wait until it has ended, or choose another --out"
        raise BertologyError(f"{folder}: another process fine-tunes into this folder; {remedy}") from None


def _check_plan(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder of another run, or of a model that was not made here."""
    path = folder / _PLAN
    if not path.exists():
        if (folder / "config.json").exists():
            raise BertologyError(f"{folder}: holds a model that was not fine-tuned here; choose another --out")
        write_atomically(path, (json.dumps(identity, indent=2) + "\n").encode())
        return
    before = read_json(path, what="the plan of a run", form=dict[str, Any], remedy="delete the folder to start over")
    different = [key for key, value in identity.items() if before.get(key) != value]
    if different == ["settings"]:
        old = before.get("settings") or {}
        different = [key for key, value in identity["settings"].items() if old.get(key) != value]
    if different:
        other = ", ".join(different)
        raise BertologyError(f"{folder}: from a run with other {other}; delete it or choose another --out")


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
        versions={"python": platform.python_version()} | {n: import_module(n).__version__ for n in _VERSIONS},
        started_utc=started.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - began, 1),
        majority={name: _majority(one, job) for name, one in frames.items()},
        collapsed={name: label for name, one in frames.items() if (label := collapsed(one, task.kind)) is not None},
        texts=job.texts,
        code=code_fingerprint(encoder.source) if job.trust_remote_code else None,
    )
    _write(trained, record, folder, pd.concat([one.assign(split=name) for name, one in frames.items()]))


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


def _write(trained: Trained, record: Record, folder: Path, frame: pd.DataFrame) -> None:
    """Write the model folder; the record comes last, and makes the run finished."""
    with explained_write_errors(folder), temporary_folder(folder, "model") as made:
        trained.save(made)
        for path in sorted(made.iterdir()):
            if path.name == ADAPTER:
                shutil.rmtree(folder / ADAPTER, ignore_errors=True)
            path.replace(folder / path.name)
    write_atomically(folder / PREDICTIONS, frame_to_parquet(frame))
    write_atomically(folder / "README.md", model_card(record).encode())
    plain = asdict(record) | {"settings": record.settings.model_dump(mode="json")}
    write_atomically(folder / RECORD, (json.dumps(plain, indent=2, ensure_ascii=False) + "\n").encode())
