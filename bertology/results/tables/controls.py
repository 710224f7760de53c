"""Rows of controls: which are baselines, whose they are, and what tables say of them."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from bertology.results.tables.rows import Control, ResultRow, param_of

CONTROLS: tuple[str, ...] = typing.get_args(Control)
"""Names of controls in the order in which tables have them; ``none`` is the task itself."""


def own_baselines(
    baselines: Sequence[ResultRow], model: str | None, settings: Mapping[str, object] | None = None
) -> list[ResultRow]:
    """Of one task's baselines those of what a model reads, under its ``settings`` where baselines differ by them.

    Of a text of which a model cannot read all, they are its own.
    """
    of_model = [row for row in baselines if row.model == model]
    if settings is not None:
        of_settings = [row for row in of_model if param_of(row, "settings", {}) == settings]
        of_model = of_settings or [row for row in of_model if not param_of(row, "settings", {})]
    return of_model or [row for row in baselines if row.model is None]


def is_baseline(row: ResultRow) -> bool:
    """Whether a row is the score of a control that reads no layer of any weights."""
    return row.control != "none" and row.init is None and row.readout is None


def note_of(row: ResultRow) -> tuple[str, str]:
    """What tables call the control of a row and say of it; its name alone where its row has no note."""
    label, text = param_of(row, "note", (row.control.replace("_", " "), ""))
    return str(label), str(text)
