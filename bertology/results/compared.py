"""A model beside its reference, and models side by side: scores by layer with paired differences."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
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
    counterpart,
    grouped,
    mean_score,
    own_init,
)

if TYPE_CHECKING:
    import pandas as pd


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
    scores: Mapping[str, Mapping[int, Score]]
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
    by_layer: Mapping[int, Score]
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
    main = [row for row in rows if row.main_metric and row.control == ITSELF and row.model and row.value is not None]
    whole = [row for row in main if row.group is None and row.head is None and row.layer is not None]
    questions = grouped([row for row in whole if row.param("reference") is None], "task", "corpus", "metric", "reading")
    times, tasks = Counter(key[:3] for key in questions), []
    for (task, corpus, metric, reading), same in questions.items():
        by_model, cells = grouped(same, "model"), {}
        for model in sorted(by_model, key=lambda name: name != reference):
            init = own_init(by_model[model])
            own = sorted([row for row in by_model[model] if row.init == init], key=attrgetter("layer"))
            cells[model] = grouped(own, "layer")
        if reference in cells and len(cells) > 1:
            scores = {
                names[model]: {layer: score for layer, of in by_layer.items() if (score := mean_score(of))}
                for model, by_layer in cells.items()
            }
            differences = {
                names[model]: _differences(cells[reference], by_layer, comparisons, metric=metric)
                for model, by_layer in cells.items()
                if model != reference
            }
            named = reading if times[task, corpus, metric] > 1 else ""
            tasks.append(ComparedTask(task, corpus, metric, named, names[reference], scores, differences))
    return tuple(tasks)


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
        if own in of_model and other in of_reference:
            (layer, depth), (other_layer, other_depth) = of_model[own], of_reference[other]
            # The same results may hold comparisons of layers of the same number as well.
            if depth is not None and other_depth is not None and other_layer == counterpart(layer, depth, other_depth):
                found[layer] = Difference(difference, low, high, row.p_adj, other_layer)
    return dict(sorted(found.items()))


def pair_statistics(rows: Sequence[ResultRow]) -> tuple[PairStatistic, ...]:
    """All statistics of models and their references, in the order of the rows, those of groups left out."""
    names = short_names(row.model for row in rows)
    inits = {model: own_init(same) for model, same in grouped(rows, "model").items()}
    found: dict[tuple[str, ...], list[ResultRow]] = defaultdict(list)
    for row in rows:
        reference, is_whole = row.param("reference"), row.group is None and row.value is not None
        if reference is not None and is_whole and row.control == ITSELF and row.init == inits[row.model]:
            found[row.task, row.corpus, row.metric, str(row.model), str(reference)].append(row)
    statistics = []
    for (*question, model, reference), same in found.items():
        by_layer = {row.layer: row.score for row in same if row.layer is not None and row.head is None}
        by_head = {row.head: row.score for row in same if row.head is not None}
        whole = next((row.score for row in same if row.layer is None and row.head is None), None)
        layers = {row.layer: row.param("reference_layer") for row in same if row.layer is not None}
        known = {layer: int(other) for layer, other in layers.items() if other is not None}
        pair = names[model], names.get(reference, reference)
        statistics.append(PairStatistic(*question, *pair, by_layer, by_head, whole, known, same[0]))
    return tuple(statistics)


def at_null(statistic: PairStatistic, others: Sequence[PairStatistic]) -> tuple[int, ...]:
    """Layers in which a statistic is no further than what the same gives on words in random order, by intervals."""
    asked = attrgetter("task", "corpus", "model", "reference")
    null: Mapping[int, Score] = {}
    for other in reversed(others):
        form = metric_form(other.metric)
        if form.part == "null" and form.base == statistic.metric and asked(other) == asked(statistic):
            null = other.by_layer
    layers, is_higher = [], statistic.about.higher_is_better
    for layer, score in statistic.by_layer.items():
        if layer in null:
            # The bound of the statistic towards the null, and that of the null towards the statistic.
            of_null = null[layer]
            end, far = (score.low, of_null.high) if is_higher else (score.high, of_null.low)
            end, far = score.value if end is None else end, of_null.value if far is None else far
            layers += [layer] if (end <= far if is_higher else end >= far) else []
    return tuple(layers)


def compared_frame(tasks: Sequence[ComparedTask], statistics: Sequence[PairStatistic]) -> pd.DataFrame:
    """A row for each layer of each task and model next to its reference, and for each statistic of a pair.

    Columns are ``task``, ``corpus``, ``metric``, ``model``, ``reference``, ``layer``, ``head``, ``value``, ``ci_low``,
    ``ci_high``, ``reference_layer``; of tasks also ``reference_value``, ``difference``, ``difference_low``,
    ``difference_high`` and ``p_adj``; of statistics that have a null ``at_null``. Fractions, not percentages.
    """
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for task in tasks:
        for model, differences in task.differences.items():
            for layer, score in task.scores[model].items():
                line = {**_about(task), "model": model, "layer": layer, "head": None, **_bounds(score)}
                if (found := differences.get(layer)) is not None:
                    line["reference_layer"] = found.reference_layer
                    line["reference_value"] = task.scores[task.reference][found.reference_layer].value
                    line |= {"difference": found.value, "difference_low": found.low, "difference_high": found.high}
                    line["p_adj"] = found.p_adj
                lines.append(line)
    nulls = {form.base for one in statistics if (form := metric_form(one.metric)).part == "null"}
    for one in statistics:
        about = {**_about(one), "model": one.model}
        of_null = at_null(one, statistics) if one.metric in nulls else None
        for layer, score in one.by_layer.items():
            place = {"layer": layer, "head": None, "reference_layer": one.reference_layers.get(layer)}
            is_null = {} if of_null is None else {"at_null": layer in of_null}
            lines.append({**about, **place, **_bounds(score), **is_null})
        whole = {} if one.of_model is None else {None: one.of_model}
        for head, score in (*one.by_head.items(), *whole.items()):
            lines.append({**about, "layer": None, "head": head, **_bounds(score)})
    return pd.DataFrame(lines)


def _about(one: ComparedTask | PairStatistic) -> dict[str, Any]:
    return {"task": one.task, "corpus": one.corpus, "metric": one.metric, "reference": one.reference}


def _bounds(score: Score) -> dict[str, float | None]:
    return {"value": score.value, "ci_low": score.low, "ci_high": score.high}


def model_frame(rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow]) -> pd.DataFrame:
    """A line for each model at each layer, and at its best layer, of all tasks whose models were compared.

    Columns are ``task``, ``corpus``, ``metric``, ``at`` (``layer 3``, or ``best layer``), ``layer``, ``model``,
    ``value``, ``ci_low`` and ``ci_high`` (of all its items; fractions), and ``in_best_set``: whether the model is not
    separable from the best one there (``p_adj`` of at least 0.05).

    Raises:
        ResultsError: no models were compared.
    """
    import pandas as pd

    # The rows of the same score under all seeds.
    same = ("task", "corpus_fingerprint", "split", "model", "init", "pooling", "layer", "metric", "control", "group")
    runs, names, own = grouped(rows, *same, "reading"), short_names(row.model for row in rows), dict[str, ResultRow]()
    for row in rows:
        if row.main_metric and row.control == ITSELF and row.group is None and row.value is not None and row.model:
            own.setdefault(row.cell_id, row)
    lines: list[dict[str, Any]] = []
    # Comparisons of two models, both of which are here.
    of_models = [row for row in comparisons if ": models at " in row.family and own.keys() >= {row.cell_a, row.cell_b}]
    families = grouped(comparisons, "family")
    for family in dict.fromkeys(row.family for row in of_models):
        is_best = ": models at their best layers " in family
        layers = {row.layer_a for row in families[family]} - {None}
        for layer in [None] if is_best else sorted(layers):
            pairs = [row for row in families[family] if layer in (None, row.layer_a)]
            cells = list(dict.fromkeys(cell for row in pairs for cell in (row.cell_a, row.cell_b)))
            firsts = [own[cell] for cell in cells]
            scores = [mean_score(runs[attrgetter(*same, "reading")(first)]) or Score(math.nan) for first in firsts]
            compared = [(cells.index(row.cell_a), cells.index(row.cell_b), row.p_adj) for row in pairs]
            values, better = [score.value for score in scores], firsts[0].higher_is_better
            inside = best_set(values, compared, q=FALSE_DISCOVERY_RATE, higher_is_better=better)
            for first, score, is_inside in zip(firsts, scores, inside.tolist(), strict=True):
                at = {"at": "best layer" if is_best else f"layer {layer}", "layer": first.layer}
                about = {"task": first.task, "corpus": first.corpus, "metric": first.metric}
                model = {"model": names[str(first.model)], **_bounds(score), "in_best_set": is_inside}
                lines.append({**about, **at, **model})
    if not lines:
        raise ResultsError("no models were compared; give several to probe(model=…), or call bertology.compare_models")
    return pd.DataFrame(lines)
