"""A model beside its reference, and models side by side: scores by layer with paired differences."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertology._names import short_names
from bertology.errors import ResultsError
from bertology.measures.intervals import best_set
from bertology.measures.metrics import ITSELF, metric_form
from bertology.results.rows import (
    FALSE_DISCOVERY_RATE,
    ComparisonRow,
    ResultRow,
    Score,
    comparison_of,
    counterpart,
    mean_score,
    own_init,
)

if TYPE_CHECKING:
    import pandas as pd

_ByLayer = Mapping[int, Score]


@dataclass(frozen=True)
class Difference:
    """Score of a model less that of its reference, on the same items."""

    value: float
    low: float | None
    high: float | None
    p_adj: float
    """Adjusted over all layers and pairs of models of the task (Benjamini–Hochberg)."""
    reference_layer: int
    """The layer of the reference: of the same number, or of the same relative depth."""

    @property
    def is_sure(self) -> bool:
        """Whether the models differ at a false discovery rate of 5 %."""
        return self.p_adj < FALSE_DISCOVERY_RATE


@dataclass(frozen=True)
class ComparedTask:
    """A task that was put to a reference and to other models."""

    task: str
    corpus: str
    metric: str
    reading: str
    """The readout, where the task was read by several; else empty."""
    reference: str
    scores: Mapping[str, _ByLayer]
    """Scores by layer of each model, the reference first."""
    differences: Mapping[str, Mapping[int, Difference]]
    """Differences by model and layer, from the reference's layer of the same relative depth."""


@dataclass(frozen=True)
class PairStatistic:
    """One statistic of a model and its reference."""

    task: str
    corpus: str
    metric: str
    model: str
    reference: str
    by_layer: _ByLayer
    by_head: Mapping[str, Score]
    of_model: Score | None
    """The score of the whole model."""
    reference_layers: Mapping[int, int]
    """The layer of the reference that each layer of the model was compared with, where that is known."""
    about: ResultRow
    """One of its rows."""


def compared_tasks(
    rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow], *, reference: str
) -> tuple[ComparedTask, ...]:
    """The tasks that were put to the reference and to some other model, by their main metric.

    Args:
        rows: of all models.
        comparisons: with those of models, as :func:`bertology.compare_models` adds them.
        reference: the name of the reference in the rows.

    Raises:
        ResultsError: there are no rows of the reference.
    """
    if not any(row.model == reference for row in rows):
        raise ResultsError(f"no score of the reference {reference}: run the tasks on it as well")
    names = short_names(row.model for row in rows)
    questions: dict[tuple[str, str, str, str], dict[str, list[ResultRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        is_whole = row.group is None and row.head is None and row.layer is not None and row.value is not None
        if is_whole and row.main_metric and row.control == ITSELF and row.model and row.param("reference") is None:
            questions[row.task, row.corpus, row.metric, row.reading][row.model].append(row)
    several = Counter(key[:3] for key in questions)
    tasks = []
    for (task, corpus, metric, reading), by_model in questions.items():
        if reference not in by_model or len(by_model) < 2:
            continue
        cells = {model: _own_cells(by_model[model]) for model in sorted(by_model, key=lambda name: name != reference)}
        scores = {
            names[model]: {layer: score for layer, of in by_layer.items() if (score := mean_score(of))}
            for model, by_layer in cells.items()
        }
        differences = {
            names[model]: _differences(cells[reference], by_layer, comparisons, metric=metric)
            for model, by_layer in cells.items()
            if model != reference
        }
        named = reading if several[task, corpus, metric] > 1 else ""
        tasks.append(ComparedTask(task, corpus, metric, named, names[reference], scores, differences))
    return tuple(tasks)


def pair_statistics(rows: Sequence[ResultRow]) -> tuple[PairStatistic, ...]:
    """All statistics of models and their references, in the order of the rows, those of groups left out."""
    names = short_names(row.model for row in rows)
    inits = {model: own_init([row for row in rows if row.model == model]) for model in {row.model for row in rows}}
    found: dict[tuple[str, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        reference, is_whole = row.param("reference"), row.group is None and row.value is not None
        if reference is not None and is_whole and row.control == ITSELF and row.init == inits[row.model]:
            found[row.task, row.corpus, row.metric, str(row.model), str(reference)].append(row)
    statistics = []
    for (task, corpus, metric, model, reference), of_pair in found.items():
        by_layer = {row.layer: row.score for row in of_pair if row.layer is not None and row.head is None}
        by_head = {row.head: row.score for row in of_pair if row.head is not None}
        whole = next((row.score for row in of_pair if row.layer is None and row.head is None), None)
        layers = {row.layer: row.param("reference_layer") for row in of_pair if row.layer is not None}
        known = {layer: int(other) for layer, other in layers.items() if other is not None}
        pair = names[model], names.get(reference, reference)
        statistics.append(PairStatistic(task, corpus, metric, *pair, by_layer, by_head, whole, known, of_pair[0]))
    return tuple(statistics)


def at_null(statistic: PairStatistic, others: Sequence[PairStatistic]) -> tuple[int, ...]:
    """Layers in which a statistic is no further than what the same gives on words in random order, by intervals."""
    same = ("task", "corpus", "model", "reference")
    nulls = (
        other.by_layer
        for other in others
        if (form := metric_form(other.metric)).part == "null" and form.base == statistic.metric
        and all(getattr(other, name) == getattr(statistic, name) for name in same)
    )  # fmt: skip
    null = next(nulls, {})
    sign = 1 if statistic.about.higher_is_better else -1
    return tuple(
        layer
        for layer, score in statistic.by_layer.items()
        if layer in null and _end(score, -sign) * sign <= _end(null[layer], sign) * sign
    )


def _end(score: Score, side: int) -> float:
    """The upper (1) or lower (-1) bound of a score, itself where it has none."""
    bound = score.high if side > 0 else score.low
    return score.value if bound is None else bound


def compared_frame(tasks: Sequence[ComparedTask], statistics: Sequence[PairStatistic]) -> pd.DataFrame:
    """A row for each layer of each task and model next to its reference, and for each statistic of a pair.

    Columns are ``task``, ``corpus``, ``metric``, ``model``, ``reference``, ``layer``, ``head``, ``value``, ``ci_low``,
    ``ci_high``, ``reference_layer``; of tasks also ``reference_value``, ``difference``, ``difference_low``,
    ``difference_high`` and ``p_adj``; of statistics that have a null ``at_null``. Fractions, not percentages.
    """
    import pandas as pd

    return pd.DataFrame([*_task_lines(tasks), *_statistic_lines(statistics)])


def _task_lines(tasks: Sequence[ComparedTask]) -> Iterator[dict[str, object]]:
    for one in tasks:
        about = {"task": one.task, "corpus": one.corpus, "metric": one.metric, "reference": one.reference}
        for model, differences in one.differences.items():
            for layer, score in one.scores[model].items():
                line: dict[str, object] = {**about, "model": model, "layer": layer, "head": None, **_bounds(score)}
                if (found := differences.get(layer)) is not None:
                    line["reference_layer"] = found.reference_layer
                    line["reference_value"] = one.scores[one.reference][found.reference_layer].value
                    line |= {"difference": found.value, "difference_low": found.low, "difference_high": found.high}
                    line["p_adj"] = found.p_adj
                yield line


def _statistic_lines(statistics: Sequence[PairStatistic]) -> Iterator[dict[str, object]]:
    nulls = {form.base for one in statistics if (form := metric_form(one.metric)).part == "null"}
    for one in statistics:
        of_null = at_null(one, statistics) if one.metric in nulls else None
        about: dict[str, object] = {"task": one.task, "corpus": one.corpus, "metric": one.metric}
        about |= {"reference": one.reference, "model": one.model}
        for layer, score in one.by_layer.items():
            is_null = {} if of_null is None else {"at_null": layer in of_null}
            place = {"layer": layer, "head": None, "reference_layer": one.reference_layers.get(layer)}
            yield {**about, **place, **_bounds(score), **is_null}
        for head, whole in [*one.by_head.items(), *([(None, one.of_model)] if one.of_model is not None else [])]:
            yield {**about, "layer": None, "head": head, **_bounds(whole)}


def _bounds(score: Score) -> dict[str, float | None]:
    return {"value": score.value, "ci_low": score.low, "ci_high": score.high}


def _own_cells(rows: Sequence[ResultRow]) -> dict[int, list[ResultRow]]:
    """The rows of a model on its own weights by layer, with all seeds."""
    init = own_init(rows)
    cells: dict[int, list[ResultRow]] = defaultdict(list)
    for row in rows:
        if row.init == init and row.layer is not None:
            cells[row.layer].append(row)
    return dict(sorted(cells.items()))


def _differences(
    reference: Mapping[int, Sequence[ResultRow]],
    model: Mapping[int, Sequence[ResultRow]],
    comparisons: Sequence[ComparisonRow],
    *,
    metric: str,
) -> dict[int, Difference]:
    """Differences at the same relative depth, model less reference, by layer of the model."""
    of_model = {row.cell_id: (layer, row.n_layers) for layer, rows in model.items() for row in rows}
    of_reference = {row.cell_id: (layer, row.n_layers) for layer, rows in reference.items() for row in rows}
    found: dict[int, Difference] = {}
    for row in comparisons:
        if row.metric != metric or ": models at each layer " not in row.family or row.diff is None:
            continue
        own, other, difference, low, high = row.cell_a, row.cell_b, row.diff, row.ci_low, row.ci_high
        if own in of_reference and other in of_model:
            own, other, difference = other, own, 0.0 - difference
            low, high = (None if bound is None else 0.0 - bound for bound in (high, low))
        if own not in of_model or other not in of_reference:
            continue
        (layer, depth), (other_layer, other_depth) = of_model[own], of_reference[other]
        # The same results may hold comparisons of layers of the same number as well.
        if depth is not None and other_depth is not None and other_layer == counterpart(layer, depth, other_depth):
            found[layer] = Difference(difference, low, high, row.p_adj, other_layer)
    return dict(sorted(found.items()))


def model_frame(rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow]) -> pd.DataFrame:
    """A line for each model at each layer, and at its best layer, of all tasks whose models were compared.

    Columns are ``task``, ``corpus``, ``metric``, ``at`` (``layer 3``, or ``best layer``), ``layer``, ``model``,
    ``value``, ``ci_low`` and ``ci_high`` (of all its items; fractions), and ``in_best_set``: whether the model is not
    separable from the best one there (``p_adj`` of at least 0.05).

    Raises:
        ResultsError: no models were compared.
    """
    import pandas as pd

    own: dict[str, ResultRow] = {}
    runs: dict[tuple[object, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        runs[_run_key(row)].append(row)
        if row.main_metric and row.control == ITSELF and row.group is None and row.value is not None and row.model:
            own.setdefault(row.cell_id, row)
    names = short_names(row.model for row in rows)
    lines: list[dict[str, Any]] = []
    # Comparisons of two models, both of which are here.
    of_models = [row for row in comparisons if ": models at " in row.family and own.keys() >= {row.cell_a, row.cell_b}]
    for family in dict.fromkeys(row.family for row in of_models):
        of_family = [row for row in comparisons if row.family == family]
        is_best = ": models at their best layers " in family
        layers = [None] if is_best else sorted({row.layer_a for row in of_family if row.layer_a is not None})
        for layer in layers:
            pairs = [row for row in of_family if layer in (None, row.layer_a)]
            cells = list(dict.fromkeys(cell for row in pairs for cell in (row.cell_a, row.cell_b)))
            firsts = [own[cell] for cell in cells]
            scores = [mean_score(runs[_run_key(first)]) or Score(math.nan) for first in firsts]
            compared = [comparison_of(row, cells.index(row.cell_a), cells.index(row.cell_b)) for row in pairs]
            values, better = [score.value for score in scores], firsts[0].higher_is_better
            inside = best_set(values, compared, q=FALSE_DISCOVERY_RATE, higher_is_better=better)
            at = "best layer" if is_best else f"layer {layer}"
            lines += [
                {"task": first.task, "corpus": first.corpus, "metric": first.metric, "at": at, "layer": first.layer}
                | {"model": names[str(first.model)], **_bounds(score), "in_best_set": is_inside}
                for first, score, is_inside in zip(firsts, scores, inside.tolist(), strict=True)
            ]
    if not lines:
        raise ResultsError("no models were compared; give several to probe(model=…), or call bertology.compare_models")
    return pd.DataFrame(lines)


def _run_key(row: ResultRow) -> tuple[object, ...]:
    """By this the rows of the same score under all seeds are found."""
    fields = ("task", "corpus_fingerprint", "split", "model", "init", "pooling", "layer", "metric", "control", "group")
    return (*(getattr(row, name) for name in fields), row.reading)
