"""Fine-tuning from a model and a corpus to model folders with records, cards and scores; and by a file of runs."""

import itertools
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from bertology import _files
from bertology._folder import CARD, RecordFile, model_card, own_folder
from bertology._machine import explained
from bertology._settings import to_yaml
from bertology._training import tidy_checkpoints, train
from bertology.activations.progress import BarProgress, Progress, can_show, silent
from bertology.corpora import TEXTS, Corpus, Sentences, load_corpus, part_of
from bertology.encoders import Encoder, load_encoder, model_fingerprint, model_name, resolve_model
from bertology.encoders.sources import code_fingerprint
from bertology.errors import BertologyError, FitError, ModelError, ResultsError, SignalError, listed, quoted
from bertology.families.model_corpus import Alignment
from bertology.finetuning import _items
from bertology.finetuning._settings import FineTuneSettings, load_grid, recipe_of, settings_of
from bertology.finetuning._training import ADAMW, FrozenStates, Trained, build, layers_read, prune, reload
from bertology.measures.intervals import Bootstrap, difference
from bertology.results.predictions import versions
from bertology.results.rows import Score, frame_to_parquet, opened_parquet, score_of
from bertology.results.table import Cell, Note, Table, Tables, TextCounts, alignment_notes, titled

BOUNDS = ("value", "ci_low", "ci_high")


@dataclass(frozen=True)
class Record:
    """The file ``finetune.json`` of a model folder."""

    format: int
    task: str
    task_version: int
    kind: _items.Kind
    labels: list[str]
    has_unanswered: bool
    model: str
    """Name of the model that was fine-tuned."""
    model_fingerprint: str
    corpus: str
    corpus_fingerprint: str
    seed: int
    recipe: str
    settings: FineTuneSettings
    notes: list[str]
    n_items: dict[str, int]
    """Number of items by split."""
    n_cut: dict[str, int]
    """Number of texts by split of which only the beginning was read."""
    n_trained: int
    """Weights that were trained."""
    n_weights: int
    history: list[dict[str, Any]]
    """One entry an epoch: ``train_loss`` and the scores on ``dev``."""
    mix_weights: dict[str, float] | None
    """Weight of each layer in a learned mix."""
    scores: dict[str, dict[str, dict[str, Any]]]
    """Scores by split and metric: ``value``, ``stderr``, ``ci_low``, ``ci_high``."""
    device: str
    threads: int
    versions: dict[str, str]
    started_utc: str
    wall_s: float
    majority: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of train's most frequent label (for numbers, their mean) by split and metric; none for answers."""
    warnings: list[str] = field(default_factory=list)
    """Warnings of what the scores do not show by themselves."""
    texts: TextCounts | None = None
    """Alignment of the scored texts with subwords and with train."""
    code: str | None = None
    """Hash of the Python code that came with the model and was run."""
    n_zero: int = 0
    """Weights of the blocks that were held at zero."""
    gates: dict[str, float] | None = None
    """The learned gate of each head of each block, 0 where the head is closed for good; None where none was learned."""

    @property
    def task_of_labels(self) -> _items.TuningTask:
        """The task without items."""
        facts: dict[str, Any] = {"has_unanswered": self.has_unanswered, "positive": self.settings.positive}
        return _items.TuningTask(self.task, self.task_version, self.kind, {}, tuple(self.labels), **facts)


RECORD = RecordFile("finetune.json", Record, "the record of a fine-tuned model", "fine-tune the model again")
read_record = RECORD.read
"""The record of a fine-tuned model's folder, ``finetune.json``; BertologyError where it is missing or damaged."""
PREDICTIONS = "predictions.parquet"


def task_of(encoder: Encoder) -> str:
    """The task that a model was fine-tuned for here; a ModelError where its folder has no record of one."""
    if not RECORD.is_in(encoder.source.folder):
        remedy = "name it, as in task sentence_label:COLUMN"
        raise ModelError(f"model {encoder.name}: no record tells the task that it was fine-tuned for: {remedy}")
    return read_record(encoder.source.folder).task


_PIPELINES = {"tags": "token-classification", "answers": "question-answering", "choices": "multiple-choice"}


def card_of(tuned: "FineTuned") -> bytes:
    """The model card of a seed: what was trained on what, how, and the scores."""
    record = tuned.record
    more = f", {record.n_zero:,} of the others held at zero" if record.n_zero else ""
    if record.gates is not None:
        more += f", {sum(not gate for gate in record.gates.values())} of {len(record.gates)} heads closed for good"
    body = [
        f"`{record.model}` (fingerprint `{record.model_fingerprint}`) trained further on `{record.task}` of "
        f"`{record.corpus}` (fingerprint `{record.corpus_fingerprint}`), {record.n_items['train']:,} items, seed "
        f"{record.seed}, by `bertology finetune`: {record.n_trained:,} of {record.n_weights:,} weights "
        f"({100 * record.n_trained / record.n_weights:.3g} %){more}.\n",
        tuned.to_markdown(),
        "Scores are those after the last epoch; nothing was chosen on dev.\n",
        *(f"{n:,} texts of {split} were cut at their end.\n" for split, n in record.n_cut.items() if n),
        f"Recipe `{record.recipe}` with these settings:\n",
        f"```yaml\n{to_yaml(record.settings.model_dump(mode='json'))}```\n",
        "Versions and the losses and scores of each epoch are in `finetune.json`, predictions in "
        "`predictions.parquet`.",
    ]
    pipeline = _PIPELINES.get(record.kind, "text-classification")
    return model_card(f"{record.model}, fine-tuned on {record.task}", body, pipeline=pipeline)


@dataclass(frozen=True, eq=False)
class TunedModel:
    """A fine-tuned model and items of its task; made by :func:`load_tuned`."""

    record: Record
    """The record of the training."""
    encoder: Encoder
    """The encoder, loaded apart from :attr:`model`."""
    model: Any
    """The model of transformers with the task's head; of a frozen encoder the head alone."""
    inputs: _items.Inputs
    """Inputs of the model, and the items that are predicted."""
    collator: _items.Collator
    """Makes batches of inputs."""

    def predictions(self) -> pd.DataFrame:
        """A row for each item: ``item_id``, ``cluster_id``, ``gold``, ``pred``, and the ``score`` of the prediction."""
        return self.predictions_under([nullcontext])[0]

    def predictions_under(self, variants: Sequence[_items.Variant]) -> list[pd.DataFrame]:
        """The table of :meth:`predictions` of each variant, a function that makes a context inside which the model is
        changed.

        A batch of items is read by all variants in turn before the next batch: what one pass computes can be kept for
        those that follow it.
        """
        return _items.predictions(self.model, self.record.task_of_labels, self.inputs, self.collator, variants)

    def scores(self, predictions: pd.DataFrame) -> dict[str, Bootstrap]:
        """The metrics of the task, the main one first, with 95 % intervals over clusters of items."""
        return _items.scores(predictions, self.record.task_of_labels)


def load_tuned(
    folder: Path | Encoder, sentences: Sentences, *, device: str = "auto", items: _items.Items | None = None
) -> TunedModel:
    """A fine-tuned model, from its folder or with its encoder, and the items of its task in some sentences, or others.

    Raises:
        BertologyError: the folder is of no fine-tuned model, or lacks the head; or the sentences lack the labels.
    """
    path = folder.source.folder if isinstance(folder, Encoder) else folder
    record = read_record(path)
    task, settings = record.task_of_labels, record.settings
    encoder = folder if isinstance(folder, Encoder) else load_encoder(str(path), device=device)
    items = _items.items_of(task.name, sentences) if items is None else items
    model = reload(path, encoder, task, settings, items).to(encoder.device)
    inputs = _items.encode(task, items, encoder, max_pieces=settings.max_pieces, stride=settings.stride)
    states = FrozenStates(encoder, model.layers) if settings.layers == "none" else None
    return TunedModel(record, encoder, model, inputs, _items.Collator(task, pad_id=encoder.pad_id, states=states))


def decisions(encoder: Encoder, items: _items.Items) -> tuple[tuple[str, ...], list[str], int]:
    """The labels of a model's own head, the most probable one of each text or pair, and how many of these were cut.

    A ModelError is raised where it has no head for labels of such items, a SignalError for logits that are not finite.
    """
    folder, name = encoder.source.folder, f"model {encoder.name}"
    record = read_record(folder) if RECORD.is_in(folder) else None
    if record is not None and (record.kind != "labels" or record.task.startswith("pair_") != items.are_pairs):
        raise ModelError(f"{name}: it was fine-tuned for {record.task}: give one for labels of such texts or pairs")
    config = encoder.task_model.config if encoder.task_head == "sentence" else None
    if record is not None and record.settings.layers == "none":
        tuned = load_tuned(encoder, items.sentences, items=items)
        labels, inputs, found = tuple(record.labels), tuned.inputs, tuned.predictions()
    elif config is None or config.num_labels < 2 or config.problem_type == "multi_label_classification":
        remedy = "give one that was fine-tuned for sentence_label or pair_label"
        raise ModelError(f"{name}: it has no head that gives a text one of several labels; {remedy}")
    else:
        labels = tuple(config.id2label[code] for code in range(config.num_labels))
        task = _items.TuningTask("labels", 1, "labels", {}, labels)
        most = min(encoder.max_pieces, (record and record.settings.max_pieces) or encoder.max_pieces)
        inputs = _items.encode(task, items, encoder, max_pieces=most, stride=0)
        collator = _items.Collator(task, pad_id=encoder.pad_id, states=None)
        [found] = _items.predictions(encoder.task_model, task, inputs, collator)
    if not found["score"].map(math.isfinite).all():
        raise SignalError(f"{name}: its logits are not finite")
    return labels, list(found["pred"]), inputs.n_cut


@dataclass(frozen=True, repr=False)
class FineTuned(Tables):
    """Fine-tuned models of one task, one for each seed."""

    path: Path
    """The folder that holds a model folder ``seed-1``, ``seed-2`` … for each seed."""
    seeds: tuple[int, ...]

    def folder(self, seed: int | None = None) -> Path:
        """The model folder of a seed, the first one when left out; ResultsError where there is no such seed."""
        chosen = self.seeds[0] if seed is None else seed
        if chosen not in self.seeds:
            raise ResultsError(f"{self.path}: no seed {chosen}; there are {', '.join(map(str, self.seeds))}")
        return self.path / f"seed-{chosen}"

    @cached_property
    def records(self) -> Mapping[int, Record]:
        """The record of each seed."""
        return {seed: read_record(self.folder(seed)) for seed in self.seeds}

    @property
    def record(self) -> Record:
        """The record of the first seed."""
        return self.records[self.seeds[0]]

    def encoder(self, seed: int | None = None, *, device: str = "auto") -> Encoder:
        """The fine-tuned encoder of a seed, the first one when left out; its head is left out."""
        return load_encoder(str(self.folder(seed)), device=device)

    def predictions(self, seed: int | None = None) -> pd.DataFrame:
        """Predictions of a seed's model: ``split``, ``item_id``, ``cluster_id``, ``gold``, ``pred``, ``score``."""
        path = self.folder(seed) / PREDICTIONS
        with opened_parquet(path, what="predictions of a fine-tuned model") as file:
            frame: pd.DataFrame = file.read().to_pandas()
        return frame

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each split and metric: the mean over seeds, with 95 % intervals for other seeds and items."""
        return self._grid.frame.loc[:, "split":"n_items"]

    @property
    def _grid(self) -> "FineTunedGrid":
        return FineTunedGrid(self.path, {self.record.model: {self.record.task: self}})

    @cached_property
    def bootstraps(self) -> Mapping[str, Sequence[Mapping[str, Bootstrap]]]:
        """Metrics with their resamples, by split and seed; resamples of the same items are paired."""
        frames = [(record.task_of_labels, self.predictions(seed)) for seed, record in self.records.items()]
        return {
            split: [_items.scores(frame[frame["split"] == split], task) for task, frame in frames]
            for split in self.record.scores
        }

    def table(self, split: str | None = None) -> pd.DataFrame:
        """The rows of :attr:`frame` of one split, or of all: metric, value and interval, spread of the seeds."""
        return columns_of(self.frame, ["split", "metric", *BOUNDS, "seed_sd", "n_seeds", "n_items"], split)

    def shown(self) -> tuple[Table, ...]:
        """Metrics by splits, fractions in percent, next to the majority baseline of train."""
        return self._grid.shown()

    @property
    def history(self) -> pd.DataFrame:
        """A row for each seed and epoch: ``train_loss``, and the scores on dev."""
        return pd.DataFrame(
            {"seed": seed, **{name: entry[name] for name in ("epoch", "step", "train_loss")}, **entry["dev"]}
            for seed, record in self.records.items()
            for entry in record.history
        )

    @property
    def gates(self) -> pd.DataFrame:
        """A row for each seed and head whose gate was learned: ``seed``, ``head``, ``gate`` (0 where it is closed)."""
        rows = [(seed, *gate) for seed, one in self.records.items() for gate in (one.gates or {}).items()]
        return pd.DataFrame(rows, columns=["seed", "head", "gate"])

    def evaluate(
        self, corpus: Any, *, split: str = "test", seed: int | None = None, device: str = "auto"
    ) -> pd.DataFrame:
        """Scores of a seed's model on a split of another corpus, with 95 % intervals, and the number of its items that
        were left out, ``n_skipped``.

        Args:
            corpus: as of :func:`bertology.load_corpus`, with labels under the same name.
            split: which one.
            seed: the first one when left out.
            device: to compute on.

        Raises:
            CorpusError: the split lacks such labels.
        """
        tuned = load_tuned(self.folder(seed), load_corpus(corpus)[split], device=device)
        items, found = tuned.inputs.items, tuned.scores(tuned.predictions()).values()
        counts = {"n_items": len(items), "n_skipped": sum(items.skipped.values())}
        return pd.DataFrame({"split": split, **_items.score_rows([score]), **counts} for score in found)

    def __repr__(self) -> str:
        return f"<FineTuned {self.record.task}: {len(self.seeds)} seeds in {self.path}>"


def columns_of(frame: pd.DataFrame, columns: Sequence[str], split: str | None) -> pd.DataFrame:
    """Some columns of a frame, of one split or of all."""
    return (frame if split is None else frame[frame["split"] == split])[columns].reset_index(drop=True)


def _score(row: Mapping[Any, Any], names: Sequence[str]) -> Score | None:
    """A value of a row of a frame, and its bounds if there are any, by the names of their columns."""
    value, *bounds = (float(row[name]) for name in names)
    return None if math.isnan(value) else Score(value, *([] if any(map(math.isnan, bounds)) else bounds))


def read_finetuned(path: str | Path) -> FineTuned:
    """The fine-tuned models in a folder, as :func:`finetune` returned them; BertologyError where none is finished."""
    folder = _files.given_path(path)
    names = [file.parent.name.partition("-")[2] for file in folder.glob(f"seed-*/{RECORD.name}")]
    if not names:
        raise BertologyError(f"{folder}: no fine-tuned model in it; it should hold seed-1/{RECORD.name}")
    return FineTuned(folder, tuple(sorted(map(int, filter(str.isdecimal, names)))))


_CHECKPOINTS, _BEFORE = "checkpoints", "before"
_VERSIONS = ("torch", "transformers", "tokenizers", "accelerate")


def _text_counts(corpus: Corpus, task: _items.TuningTask, encoder: Encoder, max_pieces: int | None) -> TextCounts:
    """Alignment of the texts of test, or else of dev, with subwords and with train."""
    split = "test" if "test" in task.splits else "dev"
    sentences = task.splits[split].sentences
    if task.kind == "choices":  # which are not read together
        spans = ((one, target.span1) for one in sentences for target in one.targets[TEXTS])
        sentences = Sentences(part_of(one, *span) for one, span in spans)
    return TextCounts(
        task=task.name,
        model=encoder.source.title,
        corpus=corpus.name,
        split=split,
        n_items=len(task.splits[split].sentences),
        **Alignment.of_pieces(encoder.tokenize(sentences, max_pieces=max_pieces)).counts,
        shared_subwords="exclude" if task.kind == "tags" else "include",
        n_repeated=task.n_repeated if split == "test" else None,
        left_out=json.dumps({kind: len(places) for kind, places in corpus.skipped.items()}, sort_keys=True),
    )


@explained("fine-tuning", remedy="set accumulate higher, or batch_size or max_pieces lower")
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
            ``pos``, ``ner``, ``word_label:COLUMN`` and other tasks of words; ``span``, answers to questions as in
            SQuAD; or ``choice``, the right one of several continuations as in SWAG.
        out: folder for the models, ``out/seed-1`` and so on.
        columns: of a table or column file, as of :func:`bertology.load_corpus`.
        recipe: ``devlin-2019``, ``mosbach-2021``, ``frozen``, ``hu-2022`` or ``houlsby-2019``; by ``layers`` when left
            out.
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
    numbers = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(_files.taken(seeds, "seeds"))
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise BertologyError(f"seeds {seeds}: give how many, at least 1, or different numbers from 0")
    folder = _files.given_path(out)
    loaded = load_corpus(corpus, columns=columns)
    items = _items.tuning_task(task, loaded, train=train_split, test=test_split, sentences=sentences)
    if chosen.positive is not None and chosen.positive not in items.labels:
        known = listed(items.labels)
        raise BertologyError(f"positive {quoted(chosen.positive)} is none of the labels, {known}: give one of these")
    if items.kind == "choices" and chosen.layers == "none":
        raise BertologyError("layers none: a head on a frozen encoder chooses among no texts: choose other layers")
    source = resolve_model(model_name(model), revision=revision)
    encoder = load_encoder(source, device=device, trust_remote_code=trust_remote_code)
    inputs = {
        name: _items.encode(items, part, encoder, max_pieces=chosen.max_pieces, stride=chosen.stride)
        for name, part in items.splits.items()
    }
    items = replace(items, splits={name: one.items for name, one in inputs.items()}, positive=chosen.positive)
    if not any(row.is_learnable for row in inputs["train"].rows):
        raise FitError(f"task {items.name}: no word of train has a subword of its own; give a model that spells words")
    states = None
    if chosen.layers == "none":
        states = FrozenStates(encoder, layers_read(chosen.features, encoder.n_layers, name=encoder.name))
    collator = _items.Collator(items, pad_id=encoder.pad_id, states=states)
    data = _Data(items, inputs, collator)
    # all that decides the weights but device, threads and versions
    identity = {
        "task": f"{items.name}.v{items.version}",
        "model": model_fingerprint(source),
        "data": {name: [part.sentences.fingerprint, len(part)] for name, part in items.splits.items()},
        "settings": chosen.model_dump(mode="json", exclude={"keep_checkpoints", "teacher"}),
    }
    show = can_show() if progress is None else progress
    is_finished = all(RECORD.is_in(folder / f"seed-{seed}") for seed in numbers)
    if states is not None and not is_finished:  # kept for all epochs where memory allows
        states.keep([inputs["train"], inputs["dev"]], collator)
    skipped = ((name, *one) for name, part in items.splits.items() for one in part.skipped.items())
    facts = {
        "task": items.name,
        "task_version": items.version,
        "kind": items.kind,
        "labels": list(items.labels),
        "has_unanswered": items.has_unanswered,
        "model": encoder.source.title,
        "model_fingerprint": identity["model"],
        "corpus": loaded.name,
        "corpus_fingerprint": loaded.fingerprint,
        "recipe": recipe or recipe_of(chosen.layers),
        "settings": chosen,
        "notes": [*items.notes, *(f"{name}: {number:,} left out ({reason})" for name, reason, number in skipped)],
        "n_items": {name: len(part) for name, part in items.splits.items()},
        "n_cut": {name: one.n_cut for name, one in inputs.items()},
        "texts": _text_counts(loaded, items, encoder, chosen.max_pieces),
        "code": code_fingerprint(encoder.source) if trust_remote_code else None,
    }
    for seed in numbers:
        where = folder / f"seed-{seed}"
        unplanned = "a model that was not fine-tuned here" if (where / "config.json").exists() else None
        of_seed, teacher = {**identity, "seed": seed}, None
        if chosen.teacher is not None:
            teacher = _teacher_folder(chosen.teacher, items, seed)
            of_seed["teacher"] = model_fingerprint(resolve_model(str(teacher)))
        with own_folder(where, "fine-tunes into this folder", of_seed, unplanned=unplanned):
            if not RECORD.is_in(where):
                bar = BarProgress(f"{source.title} learns {items.name}, seed {seed}") if show else silent
                given: dict[str, Any] = {"trust_remote_code": trust_remote_code, "teacher": teacher}
                make = partial(build, encoder, items, chosen, seed=seed, **given)
                _train_seed(make, data, where, seed, facts, bar)
            if not (where / CARD).is_file():
                _files.write_atomically(where / CARD, card_of(FineTuned(folder, (seed,))))
            # A model without its gates is another one.
            keep = chosen.keep_checkpoints == "all" and chosen.gate_penalty is None
            tidy_checkpoints(where / _CHECKPOINTS, keep=keep)
            tidy_checkpoints(where / _BEFORE, keep=False)
    tuned = FineTuned(folder, numbers)
    frame = tuned.frame.assign(model=source.title, task=items.name)
    _files.write_atomically(folder / "scores.parquet", frame_to_parquet(frame))
    return tuned


def _teacher_folder(name: str, task: _items.TuningTask, seed: int) -> Path:
    """The folder of a teacher, that of the seed where there are several; ModelError where it learned other labels."""
    folder = _files.given_path(name)
    folder = folder if RECORD.is_in(folder) else folder / f"seed-{seed}"
    record = read_record(folder)
    if (record.kind, tuple(record.labels)) != (task.kind, task.labels):
        raise ModelError(
            f"teacher {folder}: it predicts {record.task}, with other labels than {task.name}: give another"
        )
    return folder


@dataclass(frozen=True, eq=False)
class _Data:
    """A task, and the inputs of its items, that models are trained on and predict."""

    task: _items.TuningTask
    inputs: Mapping[str, _items.Inputs]
    collator: _items.Collator

    def predicted(self, model: Any, split: str) -> pd.DataFrame:
        return _items.predictions(model, self.task, self.inputs[split], self.collator)[0]

    def fit(self, trained: Trained, seed: int, progress: Progress, *, folder: Path) -> list[dict[str, Any]]:
        """Train a model in place, with its checkpoints in a folder; returns a record of each epoch."""
        settings, rows = trained.settings, [row for row in self.inputs["train"].rows if row.is_learnable]
        model, encoder = trained.model.to(trained.encoder.device), trained.encoder
        n_steps = math.ceil(len(rows) / settings.batch_size) * settings.epochs
        return train(
            model,
            rows,
            self.collator,
            ADAMW[settings.bias_correction](trained.groups(), lr=settings.lr),
            clip_norm=settings.clip_norm,
            n_labels=attrgetter("n_labels") if settings.accumulate == 1 else None,
            checkpoint_every=settings.checkpoint_every,
            remedy="set lr or clip_norm lower, or look for numbers in the data that are out of range",
            loss=trained.loss if trained.gates or trained.teacher or self.task.kind == "choices" else None,
            per_device_train_batch_size=settings.batch_size // settings.accumulate,
            gradient_accumulation_steps=settings.accumulate,
            num_train_epochs=settings.epochs,
            learning_rate=settings.lr,
            lr_scheduler_type="constant_with_warmup" if settings.schedule == "constant" else settings.schedule,
            warmup_steps=round(settings.warmup * n_steps),
            bf16=settings.precision == "bfloat16",
            progress=progress,
            seed=seed,
            folder=folder,
            device=encoder.device,
            tokenizer=encoder.tokenizer,
            measure=lambda: _items.values(self.predicted(model, "dev"), self.task),
        )


def _train_seed(
    make: Callable[[], Trained], data: _Data, folder: Path, seed: int, facts: Mapping[str, Any], progress: Progress
) -> None:
    """Train a model from a seed, and write its folder with its record, of which ``facts`` are what seeds share."""
    started, began = datetime.now(UTC), time.monotonic()
    task, fit, trained = data.task, partial(data.fit, seed=seed, progress=progress), make()
    encoder, model, settings = trained.encoder, trained.model.to(trained.encoder.device), trained.settings
    n_zero = 0
    if settings.gate_penalty is not None:
        fit(trained, folder=folder / _BEFORE)
        trained = trained.gated()
    if settings.sparsity:
        n_zero = prune(trained, folder / _BEFORE, seed, make=make, fit=fit)
    history = fit(trained, folder=folder / _CHECKPOINTS)
    gates = trained.close_gates()
    frames = {name: data.predicted(model, name) for name in task.splits if name != "train"}
    weights = list(model.parameters())
    frozen = list(encoder.model.outermost.parameters()) if settings.layers == "none" else []

    def plain(score: Bootstrap) -> dict[str, Any]:
        fields = {name: value for name, value in score_of(score, 0).items() if name != "metric"}
        return {name: value for name, value in fields.items() if isinstance(value, str) or math.isfinite(value)}

    record = Record(
        format=1,
        seed=seed,
        n_trained=sum(weight.numel() for weight in weights if weight.requires_grad) - n_zero,
        n_zero=n_zero,
        gates=gates,
        n_weights=sum(weight.numel() for weight in weights + frozen),
        history=history,
        mix_weights=trained.mix_weights(),
        scores={
            name: {m: plain(one) for m, one in _items.scores(frame, task).items()} for name, frame in frames.items()
        },
        device=str(encoder.device),
        threads=torch.get_num_threads(),
        versions=versions(*_VERSIONS),
        started_utc=started.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - began, 1),
        majority={name: _items.majority(one, task.splits["train"].gold, task) for name, one in frames.items()},
        warnings=[
            f"seed {seed} predicts {label} for every item of {name}: it has learned nothing of the task"
            for name, one in frames.items()
            if (label := _items.collapsed(one, task.kind)) is not None
        ],
        **facts,
    )
    with _files.explained_write_errors(folder), _files.temporary_folder(folder, "model") as made:
        trained.save(made)
        for path in sorted(made.iterdir()):
            if path.is_dir():
                shutil.rmtree(folder / path.name, ignore_errors=True)
            path.replace(folder / path.name)
    of_splits = pd.concat([one.assign(split=name) for name, one in frames.items()])
    RECORD.write(folder, record, {PREDICTIONS: frame_to_parquet(of_splits)})


_OVER_ITEMS = "[ ] 95 %, over items; not over seeds"
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
        rows: list[dict[str, Any]] = []
        for task, base in first.items():
            asked = itertools.product(base.bootstraps, base.bootstraps[next(iter(base.bootstraps))][0], self.models)
            for split, metric, run in asked:
                tuned = self.models[run][task]
                seeds, found = [one[metric] for one in tuned.bootstraps[split]], dict.fromkeys(_DIFFERENCE, math.nan)
                if tuned is not base:
                    pairs = zip(seeds, base.bootstraps[split], strict=True)
                    compared = _items.score_rows([difference(a, b[metric], metric=metric) for a, b in pairs])
                    found = dict(zip(_DIFFERENCE, (compared[name] for name in BOUNDS), strict=True))
                which = {"task": task, "run": run, "split": split, "metric": metric}
                what = {name: getattr(tuned.record, name) for name in ("model", "corpus", "recipe", "n_trained")}
                what |= tuned.record.settings.model_dump(mode="json", include={"layers", "features", "head"})
                rows.append(
                    {**which, **_items.score_rows(seeds), "n_items": tuned.record.n_items[split], **found, **what}
                )
        return pd.DataFrame(rows)

    def table(self, split: str | None = None) -> pd.DataFrame:
        """The rows of :attr:`frame` of one split, or of all: task, metric, run, value and difference from the first."""
        columns = ["task", "split", "metric", "run", *BOUNDS, "seed_sd", *_DIFFERENCE, "n_seeds"]
        return columns_of(self.frame, columns, split)

    def shown(self) -> tuple[Table, ...]:
        """A table for each task, with the splits next to each other."""
        return tuple(self._table(str(task), rows) for task, rows in self.frame.groupby("task", sort=False))

    def _table(self, task: str, frame: pd.DataFrame) -> Table:
        first, *others = self.models
        tuned = {run: of_run[task] for run, of_run in self.models.items()}
        record, splits, n_seeds = tuned[first].record, list(frame["split"].unique()), len(tuned[first].seeds)
        rows: dict[Any, list[Any]] = {}
        for (metric, run), of_splits in frame.groupby(["metric", "run"], sort=False):
            *_, last = found = of_splits.to_dict("records")
            rows[metric, run] = [titled(str(metric)), *(_score(row, BOUNDS) for row in found)]
            rows[metric, run] += [_score(last, ["seed_sd"])] * (n_seeds > 1)
            rows[metric, run] += [_score(last, _DIFFERENCE)] * bool(others)
        baselines, constant = [], "mean of train" if record.kind == "numbers" else "majority of train"
        for metric in frame["metric"].unique():
            known = [record.majority.get(split, {}).get(metric) for split in splits]
            if any(value is not None for value in known):
                empty = [Cell("")] * ((n_seeds > 1) + bool(others))
                values = [None if value is None else Score(value) for value in known]
                rows[metric, constant] = [titled(metric), *values, *empty]
                baselines.append((metric, constant))
        n_items = ", ".join(f"{split} {n:,}" for split, n in record.n_items.items())
        notes = [Note("data", f"{record.corpus}; items: {n_items}")]
        notes.append(Note("interval", f"[ ] 95 %, over {n_seeds} seeds × items" if n_seeds > 1 else _OVER_ITEMS))
        notes += [Note("difference", f"from {first}, on the same items")] * bool(others)
        notes += [Note("note", note) for note in record.notes]
        notes += alignment_notes(*filter(None, (one.record.texts for one in tuned.values())))
        for run, of_run in tuned.items():
            notes += [Note("warning", f"{run}, {text}") for one in of_run.records.values() for text in one.warnings]
        headers = ["metric", *splits, *[f"seed s.d., {splits[-1]}"] * (n_seeds > 1)]
        headers += [f"difference on {splits[-1]}"] * bool(others)
        labels, metrics = {key: key[1] for key in rows}, {key: key[0] for key in rows}
        facts: dict[str, Any] = {"metric": metrics, "labels": labels, "baselines": baselines, "corner": "Run"}
        return Table.of(f"{task} · {record.corpus}", headers, rows, notes, **facts)

    def __repr__(self) -> str:
        return f"<FineTunedGrid of {', '.join(self.models)} in {self.path}>"


@_files.explained_system_errors()
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
    folder = _files.given_path(out) if out is not None else Path("runs") / grid.name
    corpora: dict[tuple[str, str | None], Corpus] = {}
    data: dict[str, dict[str, Any]] = {}
    for task in grid.tasks:
        key = task.corpus, task.columns
        loaded = corpora[key] = corpora[key] if key in corpora else load_corpus(task.corpus, columns=task.columns)
        # The error of a corpus that lacks the labels, before anything is trained.
        _items.tuning_task(task.name, loaded, train=task.train_split, test=task.test_split, sentences=task.sentences)
        splits = task.model_dump(include={"sentences", "train_split", "test_split"})
        data[task.title] = {"corpus": loaded, "task": task.name, **splits}
    for run in grid.runs:
        resolve_model(run.model, revision=run.revision)
    models: dict[str, dict[str, FineTuned]] = {run.id: {} for run in grid.runs}
    common: dict[str, Any] = {"seeds": grid.seeds, "device": device, "threads": threads, "progress": progress}
    for run, task in itertools.product(grid.runs, grid.tasks):
        where = folder / run.id / task.folder
        try:
            of_run = run.model_dump(exclude={"id"}, exclude_unset=True)
            if run.teacher in models:
                of_run["teacher"] = str(folder / str(run.teacher) / task.folder)
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
    _files.write_derived(folder, files, remedy="choose another --out")
    return found
