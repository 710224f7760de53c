"""The results of fine-tuning: a folder with a model for each seed, its record and card, and its use on other data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bertology._folder import RecordFile, model_card
from bertology._inputs import given_path
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, load_encoder
from bertology.errors import BertologyError, ResultsError
from bertology.finetuning._items import Collator, Inputs, Kind, TuningTask, encode, items_of
from bertology.finetuning._scores import Variant, predictions, score_rows, scores
from bertology.finetuning._settings import FineTuneSettings
from bertology.finetuning._training import FrozenStates, reload
from bertology.measures import Bootstrap
from bertology.results.rows import Score, read_parquet
from bertology.results.table import (
    NOTHING,
    Cell,
    Line,
    Note,
    Table,
    Tables,
    TextCounts,
    alignment_notes,
    count_cell,
    metric_title,
    number,
    score_cell,
    titled,
    unit,
)

BOUNDS = ("value", "ci_low", "ci_high")


@dataclass(frozen=True)
class Record:
    """The file ``finetune.json`` of a model folder."""

    format: int
    task: str
    task_version: int
    kind: Kind
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
    identity: str
    """Hash of all that decides the weights but device and versions."""
    device: str
    threads: int
    versions: dict[str, str]
    started_utc: str
    wall_s: float
    majority: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of train's most frequent label (for numbers, their mean) by split and metric; none for answers."""
    collapsed: dict[str, str] = field(default_factory=dict)
    """The one label that the model predicts for all items, by split whose items have several labels."""
    texts: TextCounts | None = None
    """How the texts that are scored, of test if it is, align with subwords and with train."""
    code: str | None = None
    """Hash of the Python code that came with the model and was run."""

    @property
    def warnings(self) -> list[str]:
        """Warnings of what the scores do not show by themselves."""
        return [
            f"seed {self.seed} predicts {label} for every item of {split}: it has learned nothing of the task"
            for split, label in self.collapsed.items()
        ]

    @property
    def task_of_labels(self) -> TuningTask:
        """The task without items."""
        labels, positive = tuple(self.labels), self.settings.positive
        return TuningTask(
            self.task, self.task_version, self.kind, {}, labels, has_unanswered=self.has_unanswered, positive=positive
        )


RECORD = RecordFile("finetune.json", Record, "the record of a fine-tuned model", "fine-tune the model again")
PREDICTIONS = "predictions.parquet"


def read_record(folder: Path) -> Record:
    """The record of a fine-tuned model's folder, ``finetune.json``.

    Raises:
        BertologyError: the folder has none, or it is damaged.
    """
    return RECORD.read(folder)


_PIPELINES = {"tags": "token-classification", "answers": "question-answering"}
_LAYERS = {
    "all": "all layers",
    "none": "a head on the frozen encoder",
    "lora": "LoRA adapters, merged into the weights here",
    "ia3": "IA³ adapters, merged into the weights here",
}


def card_of(record: Record) -> bytes:
    """The model card: what was trained on what, how, and the scores."""

    def bounds(score: dict[str, Any], metric: str) -> str:
        ends = [number(float(score[name]), metric=metric) for name in ("ci_low", "ci_high") if name in score]
        return "–".join(ends) or "–"

    def most(split: str, metric: str) -> str:
        value = record.majority.get(split, {}).get(metric)
        return NOTHING if value is None else number(value, metric=metric)

    settings = record.settings
    how, _, which = settings.layers.partition(":")
    trained = _LAYERS.get(how) or (f"layers above {which}" if how == "frozen" else f"the last {which} blocks")
    if how == "none":
        trained += f", on features {settings.features}"
    rows = [
        f"| {split} | {metric_title(metric)}{unit(metric)} | {number(score['value'], metric=metric)} | "
        f"{bounds(score, metric)} | {most(split, metric)} | {record.n_items[split]:,} |"
        for split, metrics in record.scores.items()
        for metric, score in metrics.items()
        if "value" in score
    ]
    aligned = alignment_notes(*filter(None, [record.texts]))
    notes = [f"- {note}" for note in (*record.warnings, *record.notes, *aligned)]
    notes += [f"- {split}: {n:,} texts were cut at their end" for split, n in record.n_cut.items() if n]
    body = [
        f"`{record.model}` (fingerprint `{record.model_fingerprint}`) trained further on `{record.task}` of "
        f"`{record.corpus}` (fingerprint `{record.corpus_fingerprint}`), {record.n_items['train']:,} items, "
        f"seed {record.seed}, by `bertology finetune`.",
        "",
        f"Recipe `{record.recipe}`: {settings.epochs} epochs of batches of {settings.batch_size}, AdamW "
        f"{'with' if settings.bias_correction else 'without'} bias correction, highest learning rate {settings.lr:g} "
        f"after a warm-up of {settings.warmup:.0%} of the steps, schedule {settings.schedule}, weight decay "
        f"{settings.weight_decay:g}. Trained were {trained}: {record.n_trained:,} of {record.n_weights:,} weights.",
        "",
        "## Scores",
        "",
        "After the last epoch; nothing was chosen on dev. Intervals are 95 %, by a bootstrap over items.",
        "",
        "| split | metric | value | 95 % interval | majority | items |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        *(["## Notes", "", *notes, ""] if notes else []),
        "Settings, versions and the losses and scores of each epoch are in `finetune.json`, predictions in "
        "`predictions.parquet`.",
    ]
    return model_card(
        f"{record.model}, fine-tuned on {record.task}",
        body,
        pipeline=_PIPELINES.get(record.kind, "text-classification"),
    )


@dataclass(frozen=True, eq=False)
class TunedModel:
    """A fine-tuned model and items of its task; made by :func:`load_tuned`."""

    record: Record
    """The record of the training."""
    encoder: Encoder
    """The encoder, loaded apart from :attr:`model`."""
    model: Any
    """The model of transformers with the task's head; of a frozen encoder the head alone."""
    inputs: Inputs
    """Inputs of the model, and the items that are predicted."""
    collator: Collator
    """Makes batches of inputs."""

    def predictions(self) -> pd.DataFrame:
        """A row for each item: ``item_id``, ``cluster_id``, ``gold``, ``pred``, and the ``score`` of the prediction."""
        return self.predictions_under([nullcontext])[0]

    def predictions_under(self, variants: Sequence[Variant]) -> list[pd.DataFrame]:
        """The table of :meth:`predictions` of each variant of the model.

        Args:
            variants: each makes a context manager inside which the model is changed, or is as it is. A batch of items
                is read by all variants in turn before the next batch: what one pass computes can be kept for those
                that follow it.
        """
        return predictions(self.model, self.record.task_of_labels, self.inputs, self.collator, variants)

    def scores(self, predictions: pd.DataFrame) -> dict[str, Bootstrap]:
        """The metrics of the task, the main one first, with 95 % intervals over clusters of items."""
        return scores(predictions, self.record.task_of_labels)


def load_tuned(folder: Path | Encoder, sentences: Sentences, *, device: str = "auto") -> TunedModel:
    """Load a fine-tuned model with its head, and the items of its task in some sentences.

    Args:
        folder: of the fine-tuned model, with its ``finetune.json``; or its encoder, where that is loaded already.
        sentences: with labels under the same name as those of its training.
        device: to compute on; that of the encoder where one is given.

    Raises:
        BertologyError: the folder is of no fine-tuned model.
        ModelError: it lacks the head.
        CorpusError: the sentences lack such labels.
    """
    path = folder.source.folder if isinstance(folder, Encoder) else folder
    record = read_record(path)
    task, settings = record.task_of_labels, record.settings
    encoder = folder if isinstance(folder, Encoder) else load_encoder(str(path), device=device)
    items = items_of(task.name, sentences)
    model = reload(path, encoder, task, settings, are_pairs=items.are_pairs).model.to(encoder.device)
    inputs = encode(task, items, encoder, max_pieces=settings.max_pieces, stride=settings.stride)
    states = FrozenStates(encoder, model.layers) if settings.layers == "none" else None
    return TunedModel(record, encoder, model, inputs, Collator(task, pad_id=encoder.pad_id, states=states))


@dataclass(frozen=True, repr=False)
class FineTuned(Tables):
    """Fine-tuned models of one task, one for each seed."""

    path: Path
    """The folder that holds a model folder ``seed-1``, ``seed-2`` … for each seed."""
    seeds: tuple[int, ...]

    def folder(self, seed: int | None = None) -> Path:
        """The model folder of a seed, the first one when left out.

        Raises:
            ResultsError: there is no such seed.
        """
        chosen = self.seeds[0] if seed is None else seed
        if chosen not in self.seeds:
            raise ResultsError(f"{self.path}: no seed {chosen}; there are {', '.join(map(str, self.seeds))}")
        return seed_folder(self.path, chosen)

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
        frame: pd.DataFrame = read_parquet(path, what="predictions of a fine-tuned model").to_pandas()
        return frame

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each split and metric: the mean over seeds, with 95 % intervals for other seeds and items."""
        n_items = self.record.n_items
        tables = [score_table(split, runs, n_items=n_items[split]) for split, runs in self.bootstraps.items()]
        return pd.DataFrame([row for table in tables for row in table])

    @cached_property
    def bootstraps(self) -> Mapping[str, Sequence[Mapping[str, Bootstrap]]]:
        """Metrics with their resamples, by split and seed; resamples of the same items are paired."""
        frames = [(record.task_of_labels, self.predictions(seed)) for seed, record in self.records.items()]
        return {
            split: [scores(frame[frame["split"] == split], task) for task, frame in frames]
            for split in self.record.scores
        }

    def table(self, split: str | None = None) -> pd.DataFrame:
        """The rows of :attr:`frame` of one split, or of all: metric, value and interval, spread of the seeds."""
        return columns_of(self.frame, ["split", "metric", *BOUNDS, "seed_sd", "n_seeds", "n_items"], split)

    def shown(self) -> tuple[Table, ...]:
        """Splits by metrics, fractions in percent, and the majority of train beside them."""
        record, metrics = self.record, list(dict.fromkeys(self.frame["metric"]))
        of = {(row["split"], row["metric"]): row for row in self.frame.to_dict("records")}
        spread, lines = metrics[: len(self.seeds) > 1], []
        for split in record.scores:
            cells = [frame_cell(of[split, metric], BOUNDS, metric) for metric in metrics]
            cells += [frame_cell(of[split, metric], ("seed_sd",), metric) for metric in spread]
            lines.append(Line(split, (*cells, count_cell(record.n_items[split]))))
        for split, of_majority in record.majority.items():
            if of_majority:
                cells = [known_cell(of_majority.get(metric), metric) for metric in metrics]
                lines.append(Line(f"majority, {split}", (*cells, *[Cell("")] * (1 + len(spread))), baseline=True))
        headers = (*map(titled, metrics), *(f"seed s.d., {metric_title(metric)}" for metric in spread), "items")
        title = f"{record.task} · {record.model}, fine-tuned"
        return (Table(title, headers, tuple(lines), tuple(self._notes()), corner="Split"),)

    def _notes(self) -> Iterator[Note]:
        record, n_seeds = self.record, len(self.seeds)
        yield Note("data", f"{record.corpus}: {record.n_items['train']:,} items of train")
        yield from alignment_notes(*filter(None, [record.texts]))
        yield Note(
            "interval", f"[ ] 95 %, over {f'{n_seeds} seeds × items' if n_seeds > 1 else 'items; not over seeds'}"
        )
        if record.kind != "answers":
            which = "the mean" if record.kind == "numbers" else "the most frequent label"
            yield Note("majority", f"{which} of train, predicted for every item")
        yield from (Note("note", note) for note in record.notes)
        yield from (Note("warning", text) for one in self.records.values() for text in one.warnings)

    @property
    def history(self) -> pd.DataFrame:
        """A row for each seed and epoch: ``train_loss``, and the scores on dev."""
        return pd.DataFrame(
            {"seed": seed, **{name: entry[name] for name in ("epoch", "step", "train_loss")}, **entry["dev"]}
            for seed, record in self.records.items()
            for entry in record.history
        )

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
        items, found = tuned.inputs.items, tuned.scores(tuned.predictions())
        frame = pd.DataFrame(score_table(split, [found], n_items=len(items)))
        return frame.assign(n_skipped=sum(items.skipped.values()))

    def __repr__(self) -> str:
        return f"<FineTuned {self.record.task}: {len(self.seeds)} seeds in {self.path}>"


def score_table(split: str, runs: Sequence[Mapping[str, Bootstrap]], *, n_items: int) -> list[dict[str, Any]]:
    """Rows of a table of scores: each metric's mean over runs."""
    metrics = dict.fromkeys(metric for run in runs for metric in run)
    return [
        {"split": split, "metric": metric, **score_rows([run[metric] for run in runs]), "n_items": n_items}
        for metric in metrics
    ]


def columns_of(frame: pd.DataFrame, columns: Sequence[str], split: str | None) -> pd.DataFrame:
    """Some columns of a frame, of one split or of all."""
    return (frame if split is None else frame[frame["split"] == split])[columns].reset_index(drop=True)


def frame_cell(row: Mapping[Any, Any], names: Sequence[str], metric: str) -> Cell:
    """A value of a row of a frame, and its bounds if there are any, by the names of their columns, as a cell."""
    value, *bounds = (float(row[name]) for name in names)
    if math.isnan(value):
        return Cell(NOTHING)
    return score_cell(Score(value, *([] if any(map(math.isnan, bounds)) else bounds)), metric)


def known_cell(value: float | None, metric: str) -> Cell:
    """A value without an interval, where it is known."""
    return score_cell(None if value is None else Score(value), metric)


def seed_folder(path: Path, seed: int) -> Path:
    """The model folder of a seed."""
    return path / f"seed-{seed}"


def read_finetuned(path: str | Path) -> FineTuned:
    """The fine-tuned models in a folder, as :func:`finetune` returned them; of unfinished seeds none.

    Raises:
        BertologyError: there is no finished model in it.
    """
    folder = given_path(path)
    names = [file.parent.name.partition("-")[2] for file in folder.glob(f"seed-*/{RECORD.name}")]
    if not names:
        raise BertologyError(f"{folder}: no fine-tuned model in it; it should hold seed-1/{RECORD.name}")
    return FineTuned(folder, tuple(sorted(map(int, filter(str.isdecimal, names)))))
