"""Which part of what a reference knows in a layer, beyond a floor, a compressed or fine-tuned model still has there."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.errors import ResultsError
from bertology.families.models import kept_tables, metric_of, scored_items, scores_of_cells, shared_items
from bertology.measures import Bootstrap, Metric, bootstrap_ratio, over_layers, over_runs
from bertology.results import ResultRow, Results, read_scores, reading_of
from bertology.results.tables.rows import param_of
from bertology.results.views.layers import counterpart

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
_BITS = "codelength_bits"
_FLOORS = {"word_majority": "word majority", "majority": "majority"}
"""Baselines that read no layer, the better of which is a floor."""
_RANDOM = "random weights"


@dataclass(frozen=True)
class RetainedLayer:
    """One task in one layer."""

    task: str
    corpus: str
    reading: str
    """The readout with its settings."""
    metric: str
    layer: int
    """Of the model."""
    reference_layer: int
    """The one of the reference that it is compared with: of the same number, or of the same relative depth."""
    reference_value: float
    model_value: float
    floor: float
    floor_of: str
    """What the floor is the score of: ``word majority``, ``majority`` or ``random weights``."""
    surplus: float
    """What the reference has beyond the floor, with its 95 % interval; the sign is that of a gain."""
    surplus_low: float
    surplus_high: float
    retained: float
    """(model − floor) / (reference − floor), NaN where the interval of the surplus includes 0."""
    ci_low: float
    ci_high: float
    n_items: int
    """Items, or of codelengths sentences, that both models were scored on."""


@dataclass(frozen=True)
class Retained:
    """Retained knowledge of tasks by layer; returned by :func:`retained`."""

    reference: str
    model: str
    layers: tuple[RetainedLayer, ...]

    def table(self) -> pd.DataFrame:
        """A row for each task and layer, with the fields of :class:`RetainedLayer`; scores and shares are fractions."""
        import pandas as pd

        return pd.DataFrame([asdict(one) for one in self.layers])


def retained(reference: Results, model: Results) -> Retained:
    """The share of what probes find in a reference A beyond a floor that they still find in a model B.

    Of every task that both were probed for, in each layer: (B − floor) / (A − floor), where the floor is the better of
    the most frequent label (of a word, where that was asked for) and A with random weights in the same layer. It is 1
    where B has all that A has, 0 where B is no better than the floor. The interval is of a bootstrap in which all
    scores are of the same resampled sentences. Where it cannot be excluded that A itself is no better than the floor,
    the share is undefined. Codelengths, which tell more apart than scores do (Hościłowicz et al. 2023), are compared
    likewise in bits that are saved beyond the shorter of the uniform code and the code of random weights.

    >>> retained(results.only(model="pocket"), results.only(model="pocket-60")).table()  # doctest: +SKIP

    Args:
        reference: of A, with the controls ``word_majority``, ``majority`` or ``random``, and item-wise predictions.
        model: of B, on the same data.

    Raises:
        ResultsError: the results are not of one model each, have no task in common, or lack predictions or any floor.
    """
    names = _only_model(reference, "the reference"), _only_model(model, "the model")
    of_a, of_b = _questions(reference), _questions(model)
    found: list[RetainedLayer] = []
    for key in of_a:
        if key in of_b and (compared := _Task.of(reference, of_a[key], model, of_b[key])) is not None:
            found += compared.layers()
    if not found:
        raise ResultsError(
            f"models {names[0]} and {names[1]} have no task in common that can be compared: probe both for the same "
            "tasks, on the same corpus, with predictions kept"
        )
    return Retained(*names, tuple(found))


def _only_model(results: Results, which: str) -> str:
    names = {row.model for row in results.rows if row.model and row.status == "ok"}
    if len(names) != 1:
        raise ResultsError(f"{which} has results of {len(names)} models: choose one with .only(model=…)")
    return str(next(iter(names)))


def _questions(results: Results) -> dict[tuple[object, ...], list[ResultRow]]:
    """Rows of layers and baselines by what is asked: those with the same readout, and of baselines none."""
    found: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    whole = [row for row in results.rows if row.group is None and row.head is None and row.status == "ok"]
    for row in whole:
        is_score = row.main_metric and row.metric != "compression"
        if row.control == "none" and row.layer is not None and (is_score or row.metric == _BITS):
            found[*_asked(row), row.pooling, reading_of(row)].append(row)
    baselines = [row for row in whole if row.control in _FLOORS and row.layer is None]
    for rows in found.values():
        rows += [row for row in baselines if _asked(row) == _asked(rows[0])]
    return dict(found)


def _asked(row: ResultRow) -> tuple[str, ...]:
    return row.task, row.task_version, row.corpus_fingerprint, row.split, row.metric


@dataclass(frozen=True)
class _Task:
    """A task that both models were probed for, with the scores of both on the same items."""

    row: ResultRow
    reference: Mapping[int, Bootstrap]
    """By layer."""
    model: Mapping[int, Bootstrap]
    random: Mapping[int, Bootstrap]
    baselines: Mapping[str, Bootstrap]
    depths: tuple[int, int]
    """Blocks of the model, and of the reference."""
    n_items: int

    @classmethod
    def of(
        cls, reference: Results, of_a: Sequence[ResultRow], model: Results, of_b: Sequence[ResultRow]
    ) -> _Task | None:
        """None of a task whose scores are not made of single items."""
        first, where = of_a[0], f"task {of_a[0].task} on {of_a[0].corpus}"
        metric = None if first.metric == _BITS else metric_of(first)
        if first.metric != _BITS and metric is None:
            return None
        own_a, own_b = _cells(of_a, "own"), _cells(of_b, "own")
        random = _cells(of_a, "random")
        firsts = [(reference, next(iter(own_a.values()))[0]), (model, next(iter(own_b.values()))[0])]
        items = shared_items([scored_items(results, row) for results, row in firsts], where)

        def scores(results: Results, by_layer: Mapping[int, Sequence[ResultRow]]) -> dict[int, Bootstrap]:
            return {layer: _mean_score(results, rows, items, metric) for layer, rows in by_layer.items()}

        baselines = {_FLOORS[row.control]: row for row in of_a if row.control in _FLOORS}
        task = cls(
            first,
            scores(reference, own_a),
            scores(model, own_b),
            scores(reference, random),
            {name: _mean_score(reference, [row], items, metric) for name, row in baselines.items()}
            if metric is not None
            else {"uniform code": _uniform(reference, firsts[0][1], items)},
            (firsts[1][1].n_layers or 0, firsts[0][1].n_layers or 0),
            len(items),
        )
        if metric is not None and not task.baselines and not task.random:
            raise ResultsError(
                f"{where}: no floor in the results of the reference: probe it with controls word_majority and random"
            )
        return task

    def layers(self) -> Iterator[RetainedLayer]:
        sign = 1.0 if self.row.higher_is_better else -1.0
        for layer, of_b in self.model.items():
            place = counterpart(layer, *self.depths)
            if place not in self.reference:
                continue
            of_a = self.reference[place]
            floors = {**self.baselines, **({_RANDOM: self.random[place]} if place in self.random else {})}
            best = max(floors, key=lambda name: sign * float(floors[name].values[0]))
            together = _side_by_side([of_a, of_b, *floors.values()], sign)
            surplus = over_layers(together, _surplus, metric="surplus")
            share = over_layers(together, _share, metric="retained")
            is_defined = bool(surplus.ci_low[0] > 0)
            yield RetainedLayer(
                task=self.row.task,
                corpus=self.row.corpus,
                reading=reading_of(self.row),
                metric=self.row.metric,
                layer=layer,
                reference_layer=place,
                reference_value=float(of_a.values[0]),
                model_value=float(of_b.values[0]),
                floor=float(floors[best].values[0]),
                floor_of=best,
                surplus=float(surplus.values[0]),
                surplus_low=float(surplus.ci_low[0]),
                surplus_high=float(surplus.ci_high[0]),
                retained=float(share.values[0]) if is_defined else math.nan,
                ci_low=float(share.ci_low[0]) if is_defined else math.nan,
                ci_high=float(share.ci_high[0]) if is_defined else math.nan,
                n_items=self.n_items,
            )


def _surplus(scores: Floats) -> Floats:
    """A less the floor, of ``[…, column]``: A, B, floors."""
    return np.asarray(scores[..., 0] - scores[..., 2:].max(axis=-1))


def _share(scores: Floats) -> Floats:
    floor = scores[..., 2:].max(axis=-1)
    below = scores[..., 0] - floor
    return np.asarray(np.divide(scores[..., 1] - floor, below, out=np.full(below.shape, np.nan), where=below != 0))


def _cells(rows: Sequence[ResultRow], which: str) -> dict[int, list[ResultRow]]:
    """By layer, rows of the model's own weights or of its control with random ones, of each seed and draw."""
    of_layers = [row for row in rows if row.layer is not None]
    own = "pretrained" if any(row.init == "pretrained" for row in of_layers) else of_layers[0].init
    found: dict[int, list[ResultRow]] = defaultdict(list)
    for row in of_layers:
        if (row.init == own) if which == "own" else (row.init == "random" != own):
            found[int(row.layer or 0)].append(row)
    return dict(sorted(found.items()))


def _mean_score(results: Results, rows: Sequence[ResultRow], items: Sequence[str], metric: Metric | None) -> Bootstrap:
    """The mean over seeds and draws, whose replicates are over sentences alone."""
    runs = [
        _bits(results, row, items) if metric is None else scores_of_cells(results, [row], metric, items=items)
        for row in rows
    ]
    return over_runs(runs, draws_runs=False)


def _bits(results: Results, row: ResultRow, sentences: Sequence[str]) -> Bootstrap:
    """A codelength over some sentences."""
    log_probs, _ = read_scores(kept_tables(results, [row], sentences), [row.cell_id])
    return _summed(-log_probs / np.log(2))


def _uniform(results: Results, row: ResultRow, sentences: Sequence[str]) -> Bootstrap:
    """The codelength of the uniform code: log2 of the number of labels for each."""
    _, n_items = read_scores(kept_tables(results, [row], sentences), [row.cell_id])
    item_bits = param_of(row, "details", {}).get("item_bits", np.log2(row.n_classes))
    return _summed(np.array(n_items, dtype=np.float64)[None] * item_bits)


def _summed(bits: Floats) -> Bootstrap:
    n_sentences = bits.shape[1]
    return bootstrap_ratio(bits, np.full(n_sentences, 1 / n_sentences), metric=_BITS)


def _side_by_side(scores: Sequence[Bootstrap], sign: float) -> Bootstrap:
    """Scores on the same resamples as columns of one, larger ones better."""

    def columns(name: str) -> Floats:
        return sign * np.concatenate([getattr(one, name) for one in scores], axis=-1)

    return replace(
        scores[0],
        values=columns("values"),
        replicates=columns("replicates"),
        jackknife=columns("jackknife"),
        bounds="none",
    )
