"""The summary of "BERT rediscovers the classical NLP pipeline": for each task where in the model it is solved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology.errors import ResultsError
from bertology.results.tables.rows import ResultRow, param_of, reading_of
from bertology.results.views.grid import (
    NOTHING,
    Cell,
    Grid,
    GridLine,
    Note,
    alignment_notes,
    covered,
    metric_title,
    score_cell,
)
from bertology.results.views.layers import LayerTable, Score, mean_score, own_init

MIX, CUMULATIVE, CONCATENATED = "edge_mix", "edge_cumulative", "edge_cat"
GRAVITY, DIVERGENCE, EXPECTED = "center_of_gravity", "kl_from_uniform_bits", "expected_layer"


@dataclass(frozen=True)
class PipelineLine:
    """One task in one model: its scores from single layers and from mixtures, and at which depth they come about."""

    task: str
    metric: str
    about: ResultRow
    lexical: Score | None
    best: Score | None
    best_layers: tuple[int, ...]
    """Those not separable from it; the layer alone where layers were not compared."""
    mix: Score | None
    random_mix: Score | None
    """The same from random weights, where those are a control."""
    concatenated: Score | None
    """From the first and last layer side by side."""
    center_of_gravity: Score | None
    """Mean layer under the mixture's weights (Tenney et al. 2019b, eq. 2). Its bounds are 95 % over seeds, which draw
    the training data anew; of one seed there are none, as no test sentence has a part in it."""
    divergence: Score | None
    """Of the mixture's weights from equal ones, in bits (eq. 2)."""
    expected_layer: Score | None
    """Mean layer at which the score of mixtures of layers 0…ℓ grows (eq. 4)."""
    weights: tuple[float, ...]
    """Of layers 0…L in the mixture; empty where none was learned."""
    gains: tuple[float, ...]
    """What each of layers 1…L adds to the score of the mixtures below it (eq. 3); empty where not measured."""
    n_seeds: int
    pace: float | None = None
    """What the mixture's learned numbers are multiplied by before the softmax; None where it is not known."""


def pipeline_lines(rows: Sequence[ResultRow], tables: Sequence[LayerTable]) -> tuple[PipelineLine, ...]:
    """A line for each task, corpus and model that was read by a mixture, in order of first appearance."""
    mixed = [row for row in rows if row.readout in (MIX, CUMULATIVE) and row.control == "none" and row.status == "ok"]
    return tuple(
        _line([row for row in rows if row.model and _key(row) == key], key, tables)
        for key in dict.fromkeys(map(_key, mixed))
    )


def _key(row: ResultRow) -> tuple[str | None, ...]:
    return (row.task, row.corpus, row.split, row.model, row.pooling)


def _line(rows: Sequence[ResultRow], key: tuple[str | None, ...], tables: Sequence[LayerTable]) -> PipelineLine:
    scored = [row for row in rows if row.control == "none" and row.value is not None]
    # Random weights stand beside pretrained ones as a control, but may be what is asked about.
    init = own_init(scored)
    own = [row for row in scored if row.init == init]
    of_task = [table for table in tables if _key(table.about) == key]
    single = next((table for table in of_task if table.about.readout not in (MIX, CUMULATIVE, CONCATENATED)), None)
    cumulative = next((table for table in of_task if table.about.readout == CUMULATIVE), None)
    about = own[0] if own else rows[0]
    metric = next((row.metric for row in own if row.main_metric), about.metric)
    lowest = single or cumulative
    best = single.best_line if single else None
    members = tuple(line.layer for line in single.lines if line.main and line.in_best_set) if single else ()
    mixes = (param_of(row, "details", {}) for row in own if row.readout == MIX and row.metric == metric)
    details: Mapping[str, Any] = next(mixes, {})
    grown = [line.main.value for line in cumulative.lines if line.main] if cumulative else []
    return PipelineLine(
        task=about.task,
        metric=metric,
        about=about,
        lexical=next((line.main for line in lowest.lines if line.layer == 0), None) if lowest else None,
        best=best.main if best else None,
        best_layers=members or ((best.layer,) if best else ()),
        mix=_score(own, MIX, metric),
        random_mix=_score([row for row in scored if row.init == "random"], MIX, metric) if init != "random" else None,
        concatenated=_score(own, CONCATENATED, metric),
        center_of_gravity=_over_seeds(own, GRAVITY),
        divergence=_score(own, MIX, DIVERGENCE),
        expected_layer=_score(own, CUMULATIVE, EXPECTED),
        n_seeds=len({row.seed for row in own}),
        weights=tuple(details.get("mix_weights", ())),
        gains=tuple(after - before for before, after in itertools.pairwise(grown)),
        pace=details.get("mix_pace"),
    )


def _score(rows: Sequence[ResultRow], readout: str, metric: str) -> Score | None:
    of_metric = [row for row in rows if row.readout == readout and row.metric == metric and row.layer is None]
    return mean_score([row for row in of_metric if reading_of(row) == reading_of(of_metric[0])])


def _over_seeds(rows: Sequence[ResultRow], metric: str) -> Score | None:
    """What follows from the weights of mixtures: the mean over seeds, with Student's t on their spread."""
    by_seed = {row.seed: row.value for row in rows if row.readout == MIX and row.metric == metric}
    values = [value for value in by_seed.values() if value is not None]
    if len(values) < 2:
        return Score(values[0]) if values else None
    from scipy.special import stdtrit

    mean, half = float(np.mean(values)), float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1))
    return Score(mean, mean - half, mean + half)


def pipeline_grid(lines: Sequence[PipelineLine]) -> Grid:
    """Tasks by what is known of their depth."""
    if not lines:
        raise ResultsError(f"no task was read by a mixture of layers: run it with readouts {MIX} and {CUMULATIVE}")
    several = len({line.about.model for line in lines}) > 1
    labels = (f"{line.task} · {line.about.model}" if several else line.task for line in lines)
    cells = [_cells(line) for line in lines]
    headers = tuple(cells[0])
    rows = tuple(GridLine(label, tuple(of_line.values())) for label, of_line in zip(labels, cells, strict=True))
    notes = (
        Note("layer 0", "the embeddings alone: what the words themselves say"),
        Note("which", "layers not separable from the best (paired bootstrap, Benjamini–Hochberg q < .05)"),
        Note("centre of gravity", _about_gravity(lines)),
        Note(
            "expected layer",
            "mean layer at which mixtures of layers 0…ℓ gain (Tenney et al. 2019b); – where they gain too little, "
            "beyond the layers where some lose",
        ),
        Note("random init", "the mixture, of the same model with random weights"),
        Note("interval", f"[ ] 95 %, {covered([line.n_seeds for line in lines])}"),
    )
    # What is known of no task has no column.
    kept = [place for place in range(len(headers)) if any(row.cells[place].text not in (NOTHING, "") for row in rows)]
    about = tuple(note for note in notes if note.about in ("interval", *(headers[place] for place in kept)))
    about += tuple(alignment_notes(*(line.about for line in lines)))
    return Grid("where in the model tasks are solved, %", headers, rows, about, corner="Task").columns(kept)


def _about_gravity(lines: Sequence[PipelineLine]) -> str:
    known = [line for line in lines if line.center_of_gravity]
    drawn = any(line.center_of_gravity and line.center_of_gravity.low is not None for line in known)
    pace = next((line.pace for line in known if line.pace), None)
    over = "[ ] over seeds, which draw the training data anew" if drawn else "no interval: it comes from one seed's fit"
    more = f"; the weights are learned {pace:g} times as fast as others, on which it depends" if pace else ""
    return f"mean layer under the weights of the learned mixture; KL: how far they are from equal; {over}{more}"


def _cells(line: PipelineLine) -> dict[str, Cell]:
    return {
        "metric": Cell(metric_title(line.metric)),
        "layer 0": score_cell(line.lexical, line.metric, interval=False),
        "best layer": score_cell(line.best, line.metric),
        "which": Cell(", ".join(map(str, line.best_layers))),
        "mix of all": score_cell(line.mix, line.metric),
        "random init": score_cell(line.random_mix, line.metric, interval=False),
        "first + last": score_cell(line.concatenated, line.metric, interval=False),
        "centre of gravity": _depth(line.center_of_gravity),
        "KL, bits": _depth(line.divergence),
        "expected layer": _depth(line.expected_layer),
    }


def _depth(score: Score | None) -> Cell:
    if score is None:
        return Cell(NOTHING)
    bounds = [bound for bound in (score.low, score.high) if bound is not None]
    text, *ends = (f"{value:.2f}".replace("-", "−") for value in (score.value, *bounds))
    return Cell(text, f"[{', '.join(ends)}]" if len(ends) == 2 else "", score)
