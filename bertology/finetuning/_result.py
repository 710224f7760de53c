"""What fine-tuning leaves: a folder with a model for each seed, and a record of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bertology._inputs import given_path
from bertology.corpora import load_corpus
from bertology.encoders import Encoder, load_encoder
from bertology.errors import BertologyError, ResultsError
from bertology.finetuning._record import RECORD, Record, read_record
from bertology.finetuning._scores import score_rows
from bertology.finetuning._tuned import load_tuned, scores_of
from bertology.measures import Bootstrap
from bertology.results.rows import Score, read_parquet
from bertology.results.table import (
    NOTHING,
    Cell,
    Line,
    Note,
    Table,
    alignment_notes,
    count_cell,
    metric_title,
    score_cell,
    unit,
)

PREDICTIONS = "predictions.parquet"


@dataclass(frozen=True)
class FineTuned:
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

    def encoder(self, seed: int | None = None, *, device: str = "auto") -> Encoder:
        """The fine-tuned encoder of a seed, the first one when left out; its head is left out."""
        return load_encoder(str(self.folder(seed)), device=device)

    def predictions(self, seed: int | None = None) -> pd.DataFrame:
        """What a seed's model predicts: ``split``, ``item_id``, ``cluster_id``, ``gold``, ``pred``, ``score``."""
        path = self.folder(seed) / PREDICTIONS
        frame: pd.DataFrame = read_parquet(path, what="predictions of a fine-tuned model").to_pandas()
        return frame

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each split and metric: the mean over seeds, with 95 % intervals for other seeds and items."""
        n_items = next(iter(self.records.values())).n_items
        tables = [score_table(split, runs, n_items=n_items[split]) for split, runs in self.bootstraps.items()]
        return pd.DataFrame([row for table in tables for row in table])

    @cached_property
    def bootstraps(self) -> Mapping[str, Sequence[Mapping[str, Bootstrap]]]:
        """By split, for each seed, the metrics with their resamples, which are paired with those of the same items."""
        frames = [(record, self.predictions(seed)) for seed, record in self.records.items()]
        splits = next(iter(self.records.values())).scores
        return {
            split: [scores_of(record, frame[frame["split"] == split]) for record, frame in frames] for split in splits
        }

    def table(self, split: str | None = None) -> pd.DataFrame:
        """The rows of :attr:`frame` of one split, or of all: metric, value and interval, spread of the seeds."""
        frame = self.frame if split is None else self.frame[self.frame["split"] == split]
        columns = ["split", "metric", "value", "ci_low", "ci_high", "seed_sd", "n_seeds", "n_items"]
        return frame[columns].reset_index(drop=True)

    def grid(self) -> Table:
        """Splits by metrics as elsewhere, fractions in percent, and the majority of train beside them."""
        record, metrics = next(iter(self.records.values())), list(dict.fromkeys(self.frame["metric"]))
        of = {(row["split"], row["metric"]): row for row in self.frame.to_dict("records")}
        has_spread, lines = len(self.seeds) > 1, []
        for split in record.scores:
            cells = [frame_cell(of[split, metric], ("value", "ci_low", "ci_high"), metric) for metric in metrics]
            spread = [frame_cell(of[split, metrics[0]], ("seed_sd",), metrics[0])] if has_spread else []
            lines.append(Line(split, (*cells, *spread, count_cell(record.n_items[split]))))
        for split, scores in record.majority.items():
            known = [Score(scores[metric]) if metric in scores else None for metric in metrics]
            cells = [score_cell(score, metric) for score, metric in zip(known, metrics, strict=True)]
            if scores:
                lines.append(Line(f"majority, {split}", (*cells, *[Cell("")] * (1 + has_spread)), baseline=True))
        spread_title = [f"seed s.d., {metric_title(metrics[0])}"] if has_spread else []
        headers = (*(metric_title(metric) + unit(metric) for metric in metrics), *spread_title, "items")
        title = f"{record.task} · {record.model}, fine-tuned"
        return Table(title, headers, tuple(lines), tuple(self._notes(record)), corner="Split")

    def _notes(self, record: Record) -> Iterator[Note]:
        n_seeds = len(self.seeds)
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

    def to_markdown(self) -> str:
        """The scores as a table."""
        return self.grid().to_markdown()

    @property
    def history(self) -> pd.DataFrame:
        """A row for each seed and epoch: ``train_loss``, and the scores on dev."""
        rows = [
            {"seed": seed, "epoch": entry["epoch"], "step": entry["step"], "train_loss": entry["train_loss"]}
            | entry["dev"]
            for seed, record in self.records.items()
            for entry in record.history
        ]
        return pd.DataFrame(rows)

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
        found = tuned.scores(tuned.predictions())
        frame = pd.DataFrame(score_table(split, [found], n_items=len(tuned.items)))
        return frame.assign(n_skipped=sum(tuned.items.skipped.values()))

    def __repr__(self) -> str:
        return f"<FineTuned {next(iter(self.records.values())).task}: {len(self.seeds)} seeds in {self.path}>"

    def _repr_html_(self) -> str:
        return self.grid().to_html()


def score_table(split: str, runs: Sequence[Mapping[str, Bootstrap]], *, n_items: int) -> list[dict[str, Any]]:
    """Rows of a table of scores: each metric's mean over runs."""
    metrics = dict.fromkeys(metric for run in runs for metric in run)
    return [
        {"split": split, "metric": metric, **score_rows([run[metric] for run in runs]), "n_items": n_items}
        for metric in metrics
    ]


def frame_cell(row: Mapping[Any, Any], names: Sequence[str], metric: str) -> Cell:
    """A value of a row of a frame, and its bounds if there are any, by the names of their columns, as a cell."""
    value, *bounds = (float(row[name]) for name in names)
    if math.isnan(value):
        return Cell(NOTHING)
    return score_cell(Score(value, *([] if any(map(math.isnan, bounds)) else bounds)), metric)


def plain_scores(found: Mapping[str, Bootstrap]) -> dict[str, dict[str, Any]]:
    """Scores of one run for its record, in JSON: what is undefined is left out."""
    fields = ("value", "stderr", "ci_low", "ci_high", "ci_method")
    rows = {metric: score_rows([one]) for metric, one in found.items()}
    return {
        metric: {name: row[name] for name in fields if isinstance(row[name], str) or math.isfinite(row[name])}
        for metric, row in rows.items()
    }


def seed_folder(path: Path, seed: int) -> Path:
    """The model folder of a seed."""
    return path / f"seed-{seed}"


def read_finetuned(path: str | Path) -> FineTuned:
    """The fine-tuned models in a folder, as :func:`finetune` returned them; of unfinished seeds none.

    Raises:
        BertologyError: there is no finished model in it.
    """
    folder = given_path(path)
    names = [file.parent.name.partition("-")[2] for file in folder.glob(f"seed-*/{RECORD}")]
    if not names:
        raise BertologyError(f"{folder}: no fine-tuned model in it; it should hold seed-1/{RECORD}")
    return FineTuned(folder, tuple(sorted(map(int, filter(str.isdecimal, names)))))
