"""An explanation of one number of a run, in plain words, from the run's folder alone."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertology._files import read_json
from bertology.errors import BertologyError, quoted
from bertology.families.request import RANDOM
from bertology.results import read_results

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 12
"""Most cells that an error lists."""
_SHOWN = 3
"""Predictions that an explanation shows."""


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
    path = folder / "cells" / f"{cell_id}.json"
    record = read_json(path, what="a cell", form=dict[str, Any]) if path.is_file() else {}
    row = rows.iloc[0]
    versions = ", ".join(f"{name} {version}" for name, version in _loaded(row["versions"]).items())
    paragraphs = [
        ("Cell", [f"{cell_id}: {_cell_line(row)}."]),
        ("Items", [_items_line(row)]),
        ("Vectors", [_vectors_line(row, record.get("identity", {}))]),
        ("Fit", [_fit_line(row, record)]),
        ("Notes", [str(note) for note in record.get("notes", ())]),
        ("Predictions", list(_prediction_lines(folder, cell_id))),
        ("Scores", list(_score_lines(rows))),
        ("Interval", list(_interval_lines(rows))),
        ("Versions", [f"{versions}."]),
    ]
    lines = textwrap.TextWrapper(width, subsequent_indent=" " * 13, break_on_hyphens=False, break_long_words=False)
    return "\n".join(
        lines.fill(f"{'' if number else name:<13}{line}")
        for name, texts in paragraphs
        for number, line in enumerate(filter(None, texts))
    )


def _cell_named(rows: pd.DataFrame, cell: str) -> str:
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
    cells = [f"{row.cell_id[:8]} ({_cell_line(row)})" for _, row in listed.head(_LISTED).iterrows()]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    how = "several cells are" if len(meant) else "no cell is"
    raise BertologyError(f"{how} {quoted(cell)}; name one of {', '.join(cells)}{more}")


def _is_given(value: Any) -> bool:
    import pandas as pd

    return not pd.isna(value)


def _loaded(value: Any) -> Mapping[str, Any]:
    return json.loads(value) if isinstance(value, str) else dict(value or {})


def _text(value: Any) -> str:
    """A number with at most four significant digits, a list with commas, anything else as it is."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("_", " ")
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _cell_line(row: Any) -> str:
    parts = [f"task {row['task']}"]
    parts += [f"{name} {int(row[name])}" for name in ("layer", "seed") if _is_given(row[name])]
    parts += [f"head {row['head']}"] if _is_given(row["head"]) else []
    parts += [f"control {row['control']}"] if row["control"] != "none" else []
    parts += [f"{row['init']} weights"] if _is_given(row["init"]) and row["init"] != "pretrained" else []
    return ", ".join(parts)


def _vectors_line(row: Any, identity: Mapping[str, Any]) -> str:
    """The model, its weights, and how its hidden states were read."""
    if not _is_given(row["model_fingerprint"]):
        scored = f"; it is scored on the items that {row['model']} can read" if _is_given(row["model"]) else ""
        return f"This baseline reads no model{scored}."
    parts = [f"{row['model']} with {row['init']} weights (fingerprint {row['model_fingerprint']})"]
    if _is_given(row["layer"]):
        parts.append(
            f"layer {int(row['layer'])}, where 0 is the embedding output and {int(row['n_layers'])} the last block"
        )
    read = {"dtype": "computed in {}", "stored_dtype": "stored in {}", "on_long": "long sentences handled by {}"}
    parts += [text.format(identity[name]) for name, text in read.items() if _is_given(identity.get(name))]
    if _is_given(row["pooling"]):
        parts.append(f"one vector a word, the {row['pooling']} over its subwords")
    return "; ".join(parts) + "."


def _items_line(row: Any) -> str:
    """The corpus and split of the items, how many are scored, and how many are left out."""
    text = f"{int(row['n_items']):,} items of {row['corpus']} {row['split']} were scored"
    text += f", in {int(row['n_clusters']):,} clusters; {int(row['n_skipped']):,} were skipped"
    reasons = [f"{reason}: {number}" for reason, number in _loaded(row["skip_reasons"]).items()]
    text += f" ({', '.join(reasons)})" if reasons else ""
    counts = {"n_unseen_label": "have labels unseen in train", "n_unknown": "are words with unknown subwords"}
    counts |= {"n_shared": "share all their subwords", "n_long": "are in sentences over the length limit"}
    parts = [text, *(f"{int(row[name]):,} {what}" for name, what in counts.items() if _is_given(row[name]))]
    return "; ".join(parts) + "."


def _fit_line(row: Any, record: Mapping[str, Any]) -> str:
    """The readout, the training data, what was chosen on dev, and whether the fit converged."""
    if not _is_given(row["readout"]):
        return ""
    parts = [f"readout {row['readout']}.{row['readout_version']}"]
    if _is_given(row["n_params"]):
        parts[0] += f" with {int(row['n_params']):,} parameters"
    if _is_given(row["n_train"]) and row["n_train"]:
        parts.append(f"fitted to {int(row['n_train']):,} training items of {int(row['n_classes'])} classes")
    found = record.get("facts", {}).get("params") or {}
    parts += [f"{_text(name)} {_text(value)}" for name, value in found.items() if not isinstance(value, dict)]
    provenance = record.get("provenance", {})
    if "wall_s" in provenance:
        parts.append(f"{provenance['wall_s']:.2f} s on {provenance.get('device', 'cpu')}")
    return "; ".join(parts) + "."


def _score_lines(rows: pd.DataFrame) -> Iterator[str]:
    for _, row in rows.iterrows():
        kind = "the main metric" if row["main_metric"] else "a further metric"
        group = f" of group {row['group']}" if _is_given(row["group"]) else ""
        better = "" if row["higher_is_better"] else ", lower is better"
        interval = f" [{row['ci_low']:.4f}, {row['ci_high']:.4f}]" if _is_given(row["ci_low"]) else ""
        score = f"{row['metric']}{group} {row['value']:.4f}{interval}"
        yield f"{score} over {int(row['n_items']):,} items ({kind}{better})."


def _interval_lines(rows: pd.DataFrame) -> Iterator[str]:
    """The method of each kind of interval; methods are named ``cluster-bootstrap-bca-10000``."""
    for method, of in rows[rows["ci_method"].notna()].groupby("ci_method", sort=False):
        name, _, resamples = str(method).rpartition("-")
        made = f"{name.replace('-', ' ')}, {int(resamples):,} resamples" if resamples.isdecimal() else str(method)
        runs = f" and {of['n_runs'].iloc[0]} runs" if of["n_runs"].iloc[0] > 1 else ""
        yield f"95 % by {made} of {int(of['n_clusters'].max()):,} clusters of items{runs}."


def _prediction_lines(folder: Path, cell_id: str) -> Iterator[str]:
    """The predictions' file, how many equal the annotation, and the first of them."""
    import pandas as pd

    path = folder / "predictions" / f"{cell_id}.parquet"
    if not path.is_file():
        return
    kept = pd.read_parquet(path)
    text = f"predictions/{path.name} keeps {len(kept):,} items"
    if {"gold", "pred"} <= set(kept.columns):
        n_equal = int((kept["gold"].astype(str) == kept["pred"].astype(str)).sum())
        text += f"; in {n_equal:,} of them the prediction is the annotation"
    yield f"{text}. The first are:"
    for _, item in kept.head(_SHOWN).iterrows():
        yield ", ".join(f"{name} {_text(value)}" for name, value in item.items() if _is_given(value) and value != "")
