"""An explanation of one number of a run, from the run's folder alone."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertology._lazy import pd
from bertology.errors import BertologyError, quoted
from bertology.families.request import RANDOM
from bertology.results import read_results
from bertology.results.cells import file_with, read_record, read_tables
from bertology.results.predictions import INFORMATION

_LISTED = 12  # most cells that an error lists
_SHOWN = 3  # predictions that an explanation shows
_CELL = ("task", "task_version", "layer", "head", "seed", "control", "init")
_COLUMNS = {
    "Items": (
        *("corpus", "split", "n_items", "n_clusters", "n_skipped", "skip_reasons"),
        *("n_unseen_label", "n_unknown", "n_shared", "n_long"),
    ),
    "Vectors": ("model", "model_fingerprint", "init", "init_seed", "layer", "n_layers", "pooling"),
    "Fit": ("readout", "readout_version", "n_params", "n_train", "n_classes"),
}
"""The columns of results that a paragraph is made of."""
_READ = ("dtype", "stored_dtype", "on_long", "max_pieces", "shared_subwords")


def explain_cell(folder: str | Path, cell: str, *, width: int = 100) -> str:
    """Explain how the scores of one cell were computed: items, vectors, fit, predictions, intervals.

    Args:
        folder: a run's folder.
        cell: a cell id or its first characters, or ``TASK@LAYER`` for the task itself on the pretrained model.
        width: characters of a line.

    Raises:
        BertologyError: the folder holds no results that can be read, or not exactly one cell is meant.
    """
    folder = Path(folder)
    rows = read_results(folder).to_pandas()
    cell_id = _cell_named(rows, cell)
    rows = rows[rows["cell_id"] == cell_id]
    record = vars(found) if (found := read_record(folder, cell_id)) is not None else {}
    first, provenance = rows.iloc[0], record.get("provenance", {})
    about = {name: _listed({column: first[column] for column in columns}) for name, columns in _COLUMNS.items()}
    identity = {name: record.get("identity", {}).get(name) for name in _READ}
    is_read = isinstance(first["model_fingerprint"], str)
    scored = f"; it is scored on the items that {first['model']} can read" if isinstance(first["model"], str) else ""
    took = {name: provenance.get(name) for name in ("device", "wall_s")}
    paragraphs = {
        "Cell": [f"{cell_id}: {_cell(first)}"],
        "Items": [about["Items"]],
        "Vectors": [about["Vectors"], _listed(identity)]
        if is_read
        else [f"none: this baseline reads no model{scored}"],
        "Fit": [about["Fit"], _listed(record.get("facts", {}).get("params") or {}), _listed(took)] if is_read else (),
        "Notes": record.get("notes", ()),
        "Predictions": _predictions(folder, cell_id),
        "Scores": _scores(rows),
        "Versions": [_listed(json.loads(first["versions"] or "{}"))],
    }
    lines = textwrap.TextWrapper(width, subsequent_indent=" " * 13, break_on_hyphens=False, break_long_words=False)
    return "\n".join(
        lines.fill(f"{'' if number else name:<13}{line}")
        for name, texts in paragraphs.items()
        for number, line in enumerate(filter(None, texts))
    )


def _cell_named(rows: "pd.DataFrame", cell: str) -> str:
    """The one cell that an id, the beginning of one, or ``TASK@LAYER`` means."""
    task, at, layer = cell.rpartition("@")
    if at:
        is_meant = (rows["task"] == task) & (rows["layer"].astype("Int64").astype("string") == layer)
        is_meant &= (rows["control"] == "none") & (rows["init"] != RANDOM)
    else:
        is_meant = rows["cell_id"].str.startswith(cell)
    meant = rows[is_meant].drop_duplicates("cell_id")
    if len(meant) == 1:
        return str(meant["cell_id"].iloc[0])
    listed = (meant if len(meant) else rows).drop_duplicates("cell_id")
    cells = [f"{row['cell_id'][:8]} ({_cell(row)})" for _, row in listed.head(_LISTED).iterrows()]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    how = "several cells are" if len(meant) else "no cell is"
    raise BertologyError(f"{how} {quoted(cell)}; name one of {', '.join(cells)}{more}")


def _cell(row: "pd.Series") -> str:
    """The task, layer and control of a cell, with the settings of its readout."""
    settings = json.loads(row["params_json"] or "{}").get("settings", {})
    return _listed({name: row[name] for name in _CELL} | settings)


def _listed(values: "Mapping[str, Any] | pd.Series") -> str:
    """Names and values that there are, in one line."""
    plain = {
        str(name).removeprefix("n_").replace("_", " "): value
        for name, value in values.items()
        if isinstance(value, list) or (not isinstance(value, dict) and not pd.isna(value) and value not in ("", "{}"))
    }
    return " · ".join(f"{name} {_text(value)}" for name, value in plain.items())


def _text(value: Any) -> str:
    """A number with at most four significant digits, a list with commas, anything else as it is."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).strip("{}").replace("_", " ")
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _scores(rows: "pd.DataFrame") -> Iterator[str]:
    for _, row in rows.iterrows():
        kind = "main metric" if row["main_metric"] else "further metric"
        counts = ("group", "ci_low", "ci_high", "ci_method", "n_items", "n_clusters", "n_runs")
        better = kind + ("" if row["higher_is_better"] else ", lower is better")
        yield f"{row['metric']} {row['value']:.4f} ({better}) · {_listed(row[list(counts)])}"


def _predictions(folder: Path, cell_id: str) -> Iterator[str]:
    """The predictions' file, how many equal the annotation, and the first of them, or those with least information."""
    if file_with(folder, cell_id) is None:
        return
    ((path, table),) = read_tables(folder, [cell_id])
    kept = table.drop_columns("cell_id").to_pandas()
    yield f"predictions/{path.name}"
    which = "hardest" if INFORMATION in kept.columns else "first"
    kept = kept.sort_values(INFORMATION) if which == "hardest" else kept
    if {"gold", "pred"} <= set(kept.columns):
        n_equal = int((kept["gold"].astype(str) == kept["pred"].astype(str)).sum())
        yield f"items {len(kept):,} · predictions that equal the annotation {n_equal:,} · the {which} are:"
    yield from (_listed(item) for _, item in kept.head(_SHOWN).iterrows())
