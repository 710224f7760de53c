"""Names and phrases of tables and figures: short names of models, lists of layers, what intervals are over."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence

from bertology._names import folder_name
from bertology.measures import BCA, EXACT, NO_INTERVAL, RUNS_BCA
from bertology.results.tables.rows import ResultRow

_MOST_LETTERS = 44


def brief(name: str | None) -> str:
    """A model's or corpus's name for a figure: of a local path its last part, of a long name beginning and end."""
    return shortened("+".join(map(folder_name, str(name).split("+"))), _MOST_LETTERS)


def without_folders(reading: str) -> str:
    """A readout configuration in words, its files by their last part: ``masked_lm.v1, vocabulary words.txt``."""
    return re.sub(r"(?<= )\S*/(?=\S)", "", reading)


def shortened(text: str, most: int) -> str:
    """A text of at most ``most`` letters, cut in its middle: beginnings and ends tell names apart."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def named(rows: Sequence[ResultRow], names: Mapping[str, str]) -> tuple[ResultRow, ...]:
    """The rows with their models called by :func:`short_names`."""
    return tuple(row if names.get(row.model or "", row.model) == row.model else _called(row, names) for row in rows)


def _called(row: ResultRow, names: Mapping[str, str]) -> ResultRow:
    # Nothing but a text changes: to check all fields again takes far longer where rows are many.
    other = copy.copy(row)
    object.__setattr__(other, "model", names[str(row.model)])
    return other


def apart(described: Sequence[Sequence[str]]) -> list[str]:
    """Of each description the first part, and those of the others that are needed to tell all of them apart.

    An empty part does not apply, such as the pooling of what reads no vectors, and sets no description apart.
    """
    kept = [0]
    for part in range(1, len(described[0] if described else ())):
        known = [one for one in described if one[part]]
        labels = {tuple(one[k] for k in kept) for one in known}
        more = {tuple(one[k] for k in (*kept, part)) for one in known}
        if len(more) > len(labels):
            kept.append(part)
    return [" · ".join(one[k] for k in kept if one[k]) for one in described]


def layers_named(layers: Sequence[int]) -> str:
    """``layer 3``, ``layers 1 and 2``, ``layers 1, 2 and 5–9``."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][-1] + 1:
            spans[-1].append(layer)
        else:
            spans.append([layer])
    names = [
        text
        for span in spans
        for text in ([f"{span[0]}–{span[-1]}"] if len(span) > 2 else [str(layer) for layer in span])
    ]
    return f"layer{'s' * (len(layers) > 1)} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


FEW_RUNS = 5
"""Fewer runs than these are too few to estimate how much runs differ."""


def interval_text(
    methods: Sequence[str], *, units: str = "test sentences", n_seeds: int = 1, not_over: Sequence[str] = ()
) -> str:
    """How intervals were made, what they are over and what they leave out.

    Args:
        methods: as in the columns ``ci_method`` and ``mean_ci_method``.
        units: what was resampled.
        n_seeds: that the scores are means over.
        not_over: what else may change a score and was not resampled, such as ``seeds of the fit``.
    """
    one = "cluster" if units.endswith("clusters") else "sentence"
    known = {
        BCA: f"bootstrap over {units}",
        RUNS_BCA: f"bootstrap over seeds × {units}",
        EXACT: f"exact over {units} where all are right or all wrong",
        NO_INTERVAL: f"none from a single {one}",
    }
    texts = []
    for method in methods:
        name, number = re.fullmatch(r"(.*?)(?:-(\d+))?", method).groups()  # type: ignore[union-attr]
        resamples = f", {int(number):,} resamples" if number else ""
        texts.append(known.get(name, method) + (f" (BCa{resamples})" if name in (BCA, RUNS_BCA) else ""))
    over_seeds = any(method.startswith(RUNS_BCA) for method in methods)
    left_out = [what for what in not_over if not (over_seeds and what == SEEDS)]
    if over_seeds and n_seeds < FEW_RUNS:
        texts.append(f"{n_seeds} seeds say little of how much seeds differ")
    if left_out and methods and set(methods) != {NO_INTERVAL}:
        texts.append(f"not over {' or '.join(left_out)}")
    return "; ".join(texts) or "not computed"


SEEDS, DRAWS = "seeds of the fit", "draws of random weights"


def covered(n_seeds: Sequence[int]) -> str:
    """What the intervals of several tables are over, by how many seeds their scores are means of."""
    if all(n > 1 for n in n_seeds):
        return "over seeds × test sentences"
    also = ", of tables with several seeds over seeds too" if any(n > 1 for n in n_seeds) else ""
    return f"over test sentences{also or f'; not over {SEEDS}'}"
