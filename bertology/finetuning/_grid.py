"""Several fine-tunings from one file: every run on every task, and one table of them with paired differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bertology._files import explained_system_errors, write_derived
from bertology._inputs import given_path
from bertology._settings import to_yaml
from bertology.corpora import Corpus, load_corpus
from bertology.encoders import resolve_model
from bertology.errors import BertologyError
from bertology.finetuning._grid_settings import FineTuneGrid, GridRun, GridTask, load_grid
from bertology.finetuning._items import tuning_task
from bertology.finetuning._result import FineTuned, frame_cell, score_table
from bertology.finetuning._run import finetune
from bertology.finetuning._scores import score_rows
from bertology.measures import Bootstrap, difference
from bertology.results.rows import Score, frame_to_parquet
from bertology.results.table import NOTHING, Cell, Line, Note, Table, alignment_notes, metric_title, score_cell, unit

_ASKED = "experiment.yaml"
_DIFFERENCE = ("difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class FineTunedGrid:
    """Fine-tuned models of several runs and tasks; made by :func:`finetune_grid`."""

    path: Path
    """The folder that holds ``RUN/TASK/seed-1`` and so on."""
    models: Mapping[str, Mapping[str, FineTuned]]
    """By run and task, as these are called in the file."""

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
