"""The record of a fine-tuned model, ``finetune.json`` in its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertology._files import read_json
from bertology.finetuning._items import Kind, TuningTask
from bertology.finetuning._settings import FineTuneSettings
from bertology.results.table import TextCounts

RECORD = "finetune.json"
_WHAT = "the record of a fine-tuned model"


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
    """By split."""
    n_cut: dict[str, int]
    """By split, texts of which only the beginning was read."""
    n_trained: int
    """Weights that were trained."""
    n_weights: int
    history: list[dict[str, Any]]
    """By epoch ``train_loss`` and the scores on ``dev``."""
    mix_weights: dict[str, float] | None
    """By layer, of a learned mix."""
    scores: dict[str, dict[str, dict[str, Any]]]
    """By split and metric: ``value``, ``stderr``, ``ci_low``, ``ci_high``."""
    identity: str
    """Hash of all that decides the weights but device and versions."""
    device: str
    threads: int
    versions: dict[str, str]
    started_utc: str
    wall_s: float
    majority: dict[str, dict[str, float]] = field(default_factory=dict)
    """By split and metric, the scores of train's most frequent label, of numbers of their mean; none of answers."""
    collapsed: dict[str, str] = field(default_factory=dict)
    """By split whose items have several labels, the one label that the model predicts for all of them."""
    texts: TextCounts | None = None
    """How the texts that are scored, of test if it is, align with subwords and with train."""
    code: str | None = None
    """Hash of the Python code that came with the model and was run."""

    @property
    def warnings(self) -> list[str]:
        """What the scores do not show by themselves."""
        return [
            f"seed {self.seed} predicts {label} for every item of {split}: it has learned nothing of the task"
            for split, label in self.collapsed.items()
        ]

    @property
    def task_of_labels(self) -> TuningTask:
        """The task without items."""
        return TuningTask(
            self.task, self.task_version, self.kind, {}, tuple(self.labels), has_unanswered=self.has_unanswered
        )


def read_record(folder: Path) -> Record:
    """The record of a fine-tuned model's folder, ``finetune.json``.

    Raises:
        BertologyError: the folder has none, or it is damaged.
    """
    record: Record = read_json(folder / RECORD, what=_WHAT, form=Record, remedy="fine-tune the model again")
    return record
