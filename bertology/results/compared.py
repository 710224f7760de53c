"""A model beside its reference, and models side by side: scores by layer with paired differences."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from bertology._lazy import pd
from bertology._names import by_key, short_names
from bertology.errors import ResultsError
from bertology.measures.intervals import best_set
from bertology.measures.metrics import ITSELF, metric_form
from bertology.results import rows as result_rows
from bertology.results.rows import ComparisonRow, ResultRow, Score, grouped


@dataclass(frozen=True)
class Compared:
    """One score of a model beside its reference: of a task that was put to both, or a statistic of the two."""

    task: str
    corpus: str
    metric: str
    model: str
    reference: str
    about: ResultRow
    """One of its rows."""
    by_layer: Mapping[int, Score]
    reference_layers: Mapping[int, int]
    """The layer of the reference that each layer was compared with, where that is known."""
    by_head: Mapping[str, Score] = field(default_factory=dict)
    of_model: Score | None = None
    """The score of the whole model."""
    at_null: Sequence[int] | None = None
    """Layers in which a statistic is no further than what it is on words in random order, by intervals; None where
    there is no such null."""
    of_reference: Mapping[int, Score] = field(default_factory=dict)
    """The scores of the reference by layer, of a task that was put to both; else empty."""
    reading: str = ""
    """The readout, where the task was read by several."""
    differences: Mapping[int, Score] = field(default_factory=dict)
    """Scores of a task less those of the reference, on the same items."""
    p_adj: Mapping[int, float] = field(default_factory=dict)
    """P-values of differences by layer, adjusted over layers and pairs of models of the task (Benjamini–Hochberg)."""

    @property
    def sure(self) -> dict[int, Score]:
        """The differences that there are at a false discovery rate of 5 %."""
        return {at: one for at, one in self.differences.items() if self.p_adj[at] < result_rows.FALSE_DISCOVERY_RATE}


def compared_tasks(
    rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow], *, reference: str
) -> Iterator[Compared]:
    """The models beside the reference in each task that was put to both, by its main metric.

    Differences are from the reference's layer of the same relative depth. ``rows`` are of all models, ``comparisons``
    those of :func:`bertology.compare_models`, and ``reference`` is the name in the rows.

    Raises:
        ResultsError: there are no rows of the reference.
    """
    if not any(row.model == reference for row in rows):
        raise ResultsError(f"no score of the reference {reference}: run the tasks on it as well")
    names = short_names(row.model for row in rows)
    main = [row for row in rows if row.main_metric and row.control == ITSELF and row.model and row.value is not None]
    whole = [row for row in main if row.group is None and row.head is None and row.layer is not None]
    questions = grouped([row for row in whole if row.param("reference") is None], "task", "corpus", "metric", "reading")
    times = Counter(key[:3] for key in questions)
    for (task, corpus, metric, reading), same in questions.items():
        cells: dict[str, list[ResultRow]] = {}
        for model, of_model in grouped(same, "model").items():
            init = result_rows.own_init(of_model)
            cells[model] = sorted([row for row in of_model if row.init == init], key=attrgetter("layer"))
        before = cells.pop(reference, [])
        for model, after in cells.items() if before else ():
            found = _differences(before, after, comparisons)
            of_reference, by_layer = (
                {layer: score for layer, of in grouped(own, "layer").items() if (score := result_rows.mean_score(of))}
                for own in (before, after)
            )
            differences, p_adj, layers = ({layer: of[part] for layer, of in found.items()} for part in range(3))
            yield Compared(
                task,
                corpus,
                metric,
                names[model],
                names[reference],
                after[0],
                by_layer,
                layers,
                of_reference=of_reference,
                reading=reading if times[task, corpus, metric] > 1 else "",
                differences=differences,
                p_adj=p_adj,
            )


def _differences(
    reference: Sequence[ResultRow], model: Sequence[ResultRow], comparisons: Sequence[ComparisonRow]
) -> dict[int, tuple[Any, ...]]:
    """Model less reference by layer of the model: the difference, p, and the reference's layer of the same depth."""
    of_model, of_reference = (
        {row.cell_id: (row.layer, row.n_layers) for row in rows if row.layer is not None and row.n_layers is not None}
        for rows in (model, reference)
    )
    found = {}
    for row in comparisons:
        if row.metric != model[0].metric or ": models at each layer " not in row.family or row.diff is None:
            continue
        own, other = of_model.get(row.cell_a), of_reference.get(row.cell_b)
        difference = Score(row.diff, row.ci_low, row.ci_high)
        if row.cell_a in of_reference:
            own, other, difference = of_model.get(row.cell_b), of_reference[row.cell_a], -difference
        # The same results may hold comparisons of layers of the same number as well.
        if own and other and other[0] == result_rows.counterpart(*own, other[1]):
            found[own[0]] = difference, row.p_adj, other[0]
    return dict(sorted(found.items()))


def pair_statistics(rows: Sequence[ResultRow]) -> Iterator[Compared]:
    """All statistics of models and their references, in the order of the rows, those of groups left out."""
    names = short_names(row.model for row in rows)
    inits = {model: result_rows.own_init(same) for model, same in grouped(rows, "model").items()}
    whole = [row for row in rows if row.group is None and row.value is not None and row.control == ITSELF]
    pairs = [(row, row.param("reference")) for row in whole if row.init == inits[row.model]]
    asked = (((row.task, row.corpus, row.metric, str(row.model), str(of)), row) for row, of in pairs if of is not None)
    found = by_key(asked)
    layers = {
        key: {row.layer: row.score for row in of if row.layer is not None and not row.head} for key, of in found.items()
    }
    nulls: dict[tuple[str, ...], Mapping[int, Score]] = {}
    for (task, corpus, metric, *pair), by_layer in layers.items():
        if (form := metric_form(metric)).part == "null":
            nulls.setdefault((task, corpus, form.base, *pair), by_layer)
    for key, same in found.items():
        (task, corpus, metric, model, reference), null, at_null = key, nulls.get(key, {}), list[int]()
        for layer, score in layers[key].items():
            if (of_null := null.get(layer)) is not None:
                is_apart = score.is_better_than(of_null, higher_is_better=same[0].higher_is_better)
                at_null += [] if is_apart else [layer]
        others = {row.layer: row.param("reference_layer") for row in same if row.layer is not None}
        yield Compared(
            task,
            corpus,
            metric,
            names[model],
            names.get(reference, reference),
            same[0],
            layers[key],
            {layer: int(other) for layer, other in others.items() if other is not None},
            {row.head: row.score for row in same if row.head is not None},
            next((row.score for row in same if row.layer is None and row.head is None), None),
            at_null if any(of[2] == metric for of in nulls) else None,
        )


def compared_frame(every: Sequence[Compared]) -> "pd.DataFrame":
    """The table of :meth:`bertology.ModelComparison.to_pandas`."""
    lines: list[dict[str, Any]] = []
    for one in every:
        about = {name: getattr(one, name) for name in ("task", "corpus", "metric", "reference", "model")}
        for layer, score in one.by_layer.items():
            line, other = {**about, "layer": layer, "head": None}, one.reference_layers.get(layer)
            line |= _bounds(score) if one.of_reference else {"reference_layer": other, **_bounds(score)}
            if (found := one.differences.get(layer)) is not None and other is not None:
                line |= {"reference_layer": other, "reference_value": one.of_reference[other].value}
                line |= {"difference": found.value, "difference_low": found.low, "difference_high": found.high}
                line["p_adj"] = one.p_adj[layer]
            lines.append(line if one.at_null is None else line | {"at_null": layer in one.at_null})
        whole = {} if one.of_model is None else {None: one.of_model}
        for head, score in (*one.by_head.items(), *whole.items()):
            lines.append({**about, "layer": None, "head": head, **_bounds(score)})
    return pd.DataFrame(lines)


def _bounds(score: Score) -> dict[str, float | None]:
    return {"value": score.value, "ci_low": score.low, "ci_high": score.high}


def model_frame(rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow]) -> "pd.DataFrame":
    """A line for each model at each layer, and at its best layer, of all tasks whose models were compared.

    Columns are ``model``, ``at`` (``layer 3``, or ``best layer``), ``value``, ``ci_low`` and ``ci_high`` (of all its
    items; fractions), ``in_best_set``: whether the model is not separable from the best one there (``p_adj`` of at
    least 0.05), ``layer``, ``task``, ``corpus`` and ``metric``.

    Raises:
        ResultsError: no models were compared.
    """
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
        layers = {row.layer_a for row in families[family] if row.layer_a is not None}
        for layer in [None] if is_best else sorted(layers):
            pairs = [row for row in families[family] if layer in (None, row.layer_a)]
            cells = list(dict.fromkeys(cell for row in pairs for cell in (row.cell_a, row.cell_b)))
            firsts = [own[cell] for cell in cells]
            scores = [
                result_rows.mean_score(runs[attrgetter(*same, "reading")(first)]) or Score(math.nan) for first in firsts
            ]
            compared = [(cells.index(row.cell_a), cells.index(row.cell_b), row.p_adj) for row in pairs]
            values, better = [score.value for score in scores], firsts[0].higher_is_better
            inside = best_set(values, compared, q=result_rows.FALSE_DISCOVERY_RATE, higher_is_better=better)
            for first, score, is_inside in zip(firsts, scores, inside.tolist(), strict=True):
                at = "best layer" if is_best else f"layer {layer}"
                line = {"model": names[str(first.model)], "at": at, **_bounds(score), "in_best_set": is_inside}
                about = {"task": first.task, "corpus": first.corpus, "metric": first.metric}
                lines.append({**line, "layer": first.layer, **about})
    if not lines:
        raise ResultsError("no models were compared; give several to probe(model=…), or call bertology.compare_models")
    return pd.DataFrame(lines)
