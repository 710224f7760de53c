"""Two models compared by their results: heads, knowledge that is retained, and all findings in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertology._lazy import pd
from bertology.errors import ResultsError
from bertology.families.models import kept_tables, metric_of, scored_items, scores_of_cells, shared_items
from bertology.measures import bootstrap_ratio, compare, over_runs
from bertology.measures.intervals import Bootstrap, over_layers
from bertology.measures.sums import Floats
from bertology.results import ResultRow, Results
from bertology.results.compared import Compared
from bertology.results.predictions import HeadSums, read_head_sums, read_scores
from bertology.results.rows import ATTENTION, counterpart, grouped, own_init
from bertology.results.table import layers_named, metric_title, titled, written

_RESAMPLES = 1000  # enough for the standard error of a difference, which its interval and p-value are made of
_ASKED = "head", "test"  # unit and split of the sums that are compared


def head_changes(results: Results, run: str | Path, *, reference: str, models: Sequence[str]) -> pd.DataFrame:
    """Statistics of attention heads of models less those of a reference, on the same sentences.

    For every task of attention heads run on all models, such as ``head_statistics`` and ``head_syntax``: a row for each
    statistic (of a relation, in ``group``) of each head, with the difference, its 95 % interval from a bootstrap over
    sentences that resamples both models alike, with the degrees of freedom of the sentences that have the relation, and
    p adjusted over all heads and statistics of the task on a corpus (Benjamini–Hochberg). Heads are paired by their
    names; models without the same heads have no line.

    >>> head_changes(results, "runs/compared", reference="bert", models=["tuned"])  # doctest: +SKIP

    Args:
        results: of all models.
        run: the folder of their run, which has the sums of each sentence.
        reference: its name in the rows.
        models: the names of the others.

    Returns:
        Columns ``model``, ``task``, ``corpus``, ``metric``, ``group``, ``layer``, ``head``, ``reference_value``,
        ``value``, ``difference``, ``difference_low``, ``difference_high``, ``p_adj``, ``n_sentences`` (in which
        there is something to count; bounds are NaN with fewer than two); shares are fractions.

    Raises:
        ResultsError: sums of a cell are missing or damaged.
    """
    cells: dict[str, dict[tuple[str, ...], dict[int, str]]] = {}
    for name in (reference, *models):
        # The cells of a model on its own weights, by question and layer.
        of_question = cells.setdefault(name, defaultdict(dict))
        rows = [row for row in results.rows if row.model == name and row.head and row.readout in ATTENTION]
        rows = [row for row in rows if row.param("reference") is None]
        init = own_init(rows) if rows else ""
        for row in rows:
            if row.status == "ok" and row.control == "none" and row.init == init and row.layer is not None:
                of_question[row.task, row.corpus, row.corpus_fingerprint, row.reading][row.layer] = row.cell_id
    frames = []
    for model in models:
        for question, before in cells[reference].items():
            after = cells[model].get(question, {})
            if before.keys() == after.keys():
                pairs = [(layer, cell, after[layer]) for layer, cell in sorted(before.items())]
                if len(frame := _changes(Path(run), pairs)):
                    about = pd.DataFrame({"model": model, "task": question[0], "corpus": question[1]}, frame.index)
                    frames.append(about.join(frame))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _changes(run: Path, pairs: Sequence[tuple[int, str, str]]) -> pd.DataFrame:
    """A line for each statistic of each head that the cells of a layer have in common; these are one family."""
    names: list[tuple[str, str | None, int, str]] = []
    sums: tuple[list[HeadSums], list[HeadSums]] = [], []
    for layer, *cells in pairs:
        before, after = (
            {(one.metric, one.group): one for one in read_head_sums(run, cell) if (one.unit, one.split) == _ASKED}
            for cell in cells
        )
        for metric, group in sorted(before.keys() & after.keys()):
            own, other = before[metric, group], after[metric, group]
            if len(own.over) == len(other.over):
                names += [(metric, group, layer, f"L{layer}H{head + 1}") for head in range(len(own.over))]
                sums[0].append(own)
                sums[1].append(other)
    frame, every, first = pd.DataFrame(names, columns=["metric", "group", "layer", "head"]), [*sums[0], *sums[1]], 0
    if not names:
        return frame
    n_clusters = 1 + max(int(one.clusters.max(initial=0)) for one in every)
    over, under = np.zeros((2, 2 * len(names), n_clusters))  # zeros where a cluster has none
    for one in every:
        last = first + len(one.over)
        over[first:last, one.clusters], under[first:last, one.clusters] = one.over, one.under
        first = last
    values, compared = paired_ratios(over, under)
    frame["reference_value"], frame["value"] = values[: len(names)], values[len(names) :]
    frame = frame.join(compared.drop(columns="p_raw")).sort_values(["metric", "group", "layer", "head"], kind="stable")
    groups: list[Any] = [group or None for group in frame["group"]]
    return frame.assign(group=groups)


def differences(values: Any, replicates: Floats, pairs: Sequence[tuple[int, int]], *, n_clusters: Any) -> pd.DataFrame:
    """A row for each pair of columns, one family: the first less the second, its 95 % interval and p-values.

    Columns are ``difference``, ``difference_low``, ``difference_high``, ``p_raw``, ``p_adj`` (Benjamini–Hochberg) and
    ``n_sentences``; arguments are those of :func:`bertology.measures.compare`.
    """
    compared = pd.DataFrame(compare(values, replicates, n_clusters=n_clusters, pairs=pairs))
    named = {"diff": "difference", "ci_low": "difference_low", "ci_high": "difference_high"}
    named |= {"p_raw": "p_raw", "p_adj": "p_adj", "n_pairs": "n_sentences"}
    return compared[list(named)].rename(columns=named)


def paired_ratios(over: Floats, under: Floats) -> tuple[Floats, pd.DataFrame]:
    """``[2 · statistic]`` ratios of sums over sentences, and the second half's less the first's, one family.

    Each difference has the degrees of freedom of the sentences in which there is something to divide by: a relation
    that stands in 24 sentences of 1,000 is known as well as 24 sentences can tell. Numerators and denominators, 0
    where a sentence has nothing to count, are ``[2 · statistic, sentence]``, those of the reference first.
    """
    n = len(over) // 2
    drawn = bootstrap_ratio(over, under, metric="head", n_resamples=_RESAMPLES)
    used = ((under[:n] > 0) | (under[n:] > 0)).sum(axis=1)
    pairs = [(n + place, place) for place in range(n)]
    return drawn.values, differences(drawn.values, drawn.replicates, pairs, n_clusters=used)


_BITS = "codelength_bits"
_FLOORS = {"word_majority": "word majority", "majority": "majority"}
"""Baselines that read no layer, the better of which is a floor."""


@dataclass(frozen=True, eq=False)
class Retained:
    """Retained knowledge of tasks by layer; returned by :func:`retained`."""

    frame: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """A row for each task and layer; scores and shares are fractions.

        Columns are ``task``, ``corpus``, ``reading`` (the readout with its settings), ``metric``, ``layer`` of the
        model and ``reference_layer``, of the same number or the same relative depth; ``reference_value``,
        ``model_value``, ``floor`` and ``floor_of`` (``word majority``, ``majority`` or ``random weights``);
        ``surplus``, the score of the reference beyond the floor with the sign of a gain, with ``surplus_low`` and
        ``surplus_high``; ``retained``, (model − floor) / (reference − floor), NaN where the interval of the surplus
        includes 0, with ``ci_low`` and ``ci_high``; and ``n_items``, items, or of codelengths sentences, that both
        models were scored on.
        """
        return self.frame


def retained(reference: Results, model: Results) -> Retained:
    """The share of what probes find in a reference A beyond a floor that they still find in a model B.

    Of every task that both were probed for, in each layer: (B − floor) / (A − floor), where the floor is the better of
    the most frequent label (of a word, where that was asked for) and A with random weights in the same layer. The
    interval is of a bootstrap in which all scores are of the same resampled sentences. Where it cannot be excluded that
    A itself is no better than the floor, the share is undefined. Codelengths (Hościłowicz et al. 2023) are compared
    likewise in bits that are saved beyond the shorter of the uniform code and the code of random weights.

    >>> retained(results.only(model="pocket"), results.only(model="pocket-60")).table()  # doctest: +SKIP

    Args:
        reference: of A, with the controls ``word_majority``, ``majority`` or ``random``, and item-wise predictions.
        model: of B, on the same data.

    Raises:
        ResultsError: the results are not of one model each, have no task in common, or lack predictions or any floor.
    """
    names = []
    for which, results in {"the reference": reference, "the model": model}.items():
        found = {row.model for row in results.rows if row.model and row.status == "ok"}
        if len(found) != 1:
            raise ResultsError(f"{which} has results of {len(found)} models: choose one with .only(model=…)")
        names.append(str(next(iter(found))))
    of_a, of_b = _questions(reference), _questions(model)
    rows = [row for key in of_a if key in of_b for row in _retained_rows(reference, of_a[key], model, of_b[key])]
    if not rows:
        raise ResultsError(
            f"models {names[0]} and {names[1]} have no task in common that can be compared: probe both for the same "
            "tasks, on the same corpus, with predictions kept"
        )
    return Retained(pd.DataFrame(rows))


def _questions(results: Results) -> dict[tuple[object, ...], list[ResultRow]]:
    """Rows of layers and baselines by what is asked: those with the same readout, and of baselines none."""
    asked = ("task", "task_version", "corpus_fingerprint", "split", "metric")
    whole = [row for row in results.rows if row.group is None and row.head is None and row.status == "ok"]
    of_layers = [row for row in whole if row.control == "none" and row.layer is not None]
    scores = [row for row in of_layers if (row.main_metric and row.metric != "compression") or row.metric == _BITS]
    found = grouped(scores, *asked, "pooling", "reading")
    baselines = grouped([row for row in whole if row.control in _FLOORS and row.layer is None], *asked)
    return {key: rows + baselines.get(key[:5], []) for key, rows in found.items()}


def _retained_rows(
    reference: Results, of_a: Sequence[ResultRow], model: Results, of_b: Sequence[ResultRow]
) -> Iterator[dict[str, Any]]:
    """Rows for each layer probed in both models; none where scores cannot be computed from single items."""
    first, where = of_a[0], f"task {of_a[0].task} on {of_a[0].corpus}"
    metric = None if first.metric == _BITS else metric_of(first)
    if first.metric != _BITS and metric is None:
        return
    own_a, own_b, random = _cells(of_a, "own"), _cells(of_b, "own"), _cells(of_a, "random")
    first_a, first_b = (next(iter(own.values()))[0] for own in (own_a, own_b))
    items = shared_items([scored_items(reference, first_a), scored_items(model, first_b)], where)

    def score(results: Results, rows: Sequence[ResultRow]) -> Bootstrap:
        """The mean over seeds and draws, whose replicates are over sentences alone."""
        runs = [
            _bits(results, row, items) if metric is None else scores_of_cells(results, [row], metric, items=items)
            for row in rows
        ]
        return over_runs(runs, draws_runs=False)

    if metric is None:
        baselines = {"uniform code": _bits(reference, first_a, items, is_uniform=True)}
    else:
        baselines = {_FLOORS[row.control]: score(reference, [row]) for row in of_a if row.control in _FLOORS}
        if not baselines and not random:
            problem = f"{where}: no floor in the results of the reference"
            raise ResultsError(f"{problem}: probe it with controls word_majority and random")
    by_layer = {layer: score(reference, rows) for layer, rows in own_a.items()}
    random_layers = {layer: score(reference, rows) for layer, rows in random.items()}
    sign = 1.0 if first.higher_is_better else -1.0
    for layer, rows in own_b.items():
        place = counterpart(layer, first_b.n_layers or 0, first_a.n_layers or 0)
        if place not in by_layer:
            continue
        scores = [by_layer[place], score(model, rows)]
        floors = baselines | ({"random weights": random_layers[place]} if place in random_layers else {})
        best = max(floors, key=lambda name: sign * float(floors[name].values[0]))
        # All on the same resamples, as columns, larger ones better: A, B and floors.
        columns: dict[str, Any] = {
            part: sign * np.concatenate([getattr(one, part) for one in (*scores, *floors.values())], axis=-1)
            for part in ("values", "replicates", "jackknife")
        }
        together = replace(scores[0], **columns, bounds="none")
        surplus = over_layers(together, lambda of: of[..., 0] - of[..., 2:].max(axis=-1), metric="surplus")
        share = over_layers(together, _share, metric="retained")
        is_defined = bool(surplus.ci_low[0] > 0)
        known = {"reference_value": scores[0], "model_value": scores[1], "floor": floors[best]}
        yield {
            **{name: getattr(first, name) for name in ("task", "corpus", "reading", "metric")},
            **{"layer": layer, "reference_layer": place},
            **{name: float(one.values[0]) for name, one in known.items()},
            **{"floor_of": best, "surplus": float(surplus.values[0])},
            **{"surplus_low": float(surplus.ci_low[0]), "surplus_high": float(surplus.ci_high[0])},
            **{
                name: float(of[0]) if is_defined else math.nan
                for name, of in {"retained": share.values, "ci_low": share.ci_low, "ci_high": share.ci_high}.items()
            },
            "n_items": len(items),
        }


def _share(scores: Floats) -> Floats:
    """(B − floor) / (A − floor), from ``[…, column]`` with the columns A, B and floors."""
    floor = scores[..., 2:].max(axis=-1)
    below = scores[..., 0] - floor
    return np.asarray(np.divide(scores[..., 1] - floor, below, out=np.full(below.shape, np.nan), where=below != 0))


def _cells(rows: Sequence[ResultRow], which: str) -> dict[Any, list[ResultRow]]:
    """Rows of the model's own weights, or of its control with random ones, by layer, of each seed and draw."""
    of_layers = [row for row in rows if row.layer is not None]
    own = own_init(of_layers)
    chosen = [row for row in of_layers if (row.init == own if which == "own" else row.init == "random" != own)]
    return dict(sorted(grouped(chosen, "layer").items()))


def _bits(results: Results, row: ResultRow, sentences: Sequence[str], *, is_uniform: bool = False) -> Bootstrap:
    """A codelength over some sentences, or that of the uniform code: log2 of the number of labels for each."""
    log_probs, n_items = read_scores(kept_tables(results, [row], sentences), [row.cell_id])
    bits = -log_probs / np.log(2)
    if is_uniform:
        item_bits = row.param("details", {}).get("item_bits", np.log2(row.n_classes))
        bits = np.array(n_items, dtype=np.float64)[None] * item_bits
    return bootstrap_ratio(bits, np.full(bits.shape[1], 1 / bits.shape[1]), metric=_BITS)


_SAME_VECTORS = 2e-3
"""Distance between two vectors over the length of one, up to which they are the same as they are stored (float16)."""
_SAME_BITS = 1e-3  # difference of two masked losses up to which they are the same but for rounding


def verdicts(models: Sequence[str], every: Sequence[Compared], sizes: Sequence[Mapping[Any, Any]] = ()) -> list[str]:
    """A verbal summary for each model, as tables call it, without the reference, then its scores as a whole.

    A model has *identical weights* where none of its encoder's differs and neither do vectors and losses; it computes
    the *same function* where the vectors of its last layer and the loss on masked words are the same though weights
    differ; else it *differs in* what follows. Where its last layer was not read, no verdict is on the whole of it. A
    model of which nothing could be measured is left out. ``sizes`` are rows of :func:`size_and_speed`, those of the
    reference first.
    """
    found = []
    for place, model in enumerate(models, 1):
        own = [one for one in every if one.model == model]
        if not own:
            continue
        several = len({one.corpus for one in own if one.of_model}) > 1
        whole = [
            f"{titled(one.metric)}{f' on {one.corpus}' if several else ''} {written(one.of_model, one.metric)}"
            for one in own
            if one.of_model
        ]
        for size, reference in zip(sizes[place : place + 1], sizes, strict=False):
            on_disk, of_reference = (one["bytes_on_disk"] / 1e6 for one in (size, reference))
            whole.append(f"MB on disk {on_disk:.2f} (reference {of_reference:.2f})")
            whole.append(f"speed-up {size['speedup']:.2f} [{size['speedup_low']:.2f}, {size['speedup_high']:.2f}]")
        found.append(f"{model}: {_verdict(own)}.")
        found += [f"{model} as a whole: {'; '.join(whole)}."] if whole else []
    return found


def _of(every: Sequence[Compared], measure: str, metric: str) -> list[Compared]:
    return [one for one in every if one.task == f"comparison:{measure}" and one.metric == metric]


def _verdict(own: Sequence[Compared]) -> str:
    changed = [one.of_model.value for one in _of(own, "weights", "changed") if one.of_model]
    losses = [one.of_model.value for one in _of(own, "masked_loss", "change_bits") if one.of_model]
    moved: dict[int, float] = {}
    vectors = _of(own, "vectors", "moved_reference")
    for one in vectors:
        moved |= {layer: max(score.value, moved.get(layer, 0.0)) for layer, score in one.by_layer.items()}
    differ = [layer for layer, value in sorted(moved.items()) if value > _SAME_VECTORS]
    same_loss = all(abs(bits) <= _SAME_BITS for bits in losses)
    if changed and not any(changed) and not differ and same_loss:
        return "identical weights"
    if vectors and (last := vectors[0].about.n_layers) in moved and last not in differ and same_loss:
        return "same function" + (", with other weights" if any(changed) else "")
    parts = ["weights"] if any(changed) else []
    parts += [f"vectors of {layers_named(differ)}"] if differ else []
    parts += ["predictions of masked words"] if not same_loss else []
    parts += [f"{one.task} ({layers_named(list(one.sure))})" for one in own if one.sure]
    if not parts:
        return "differs in nothing that was measured"
    only = ", though no weight of the encoder does" if changed and not any(changed) else ""
    return f"differs in {', '.join(parts)}{only}"


def null_findings(every: Sequence[Compared]) -> Iterator[str]:
    """A sentence on each statistic that is at its null in some layers."""
    for one in every:
        if one.at_null:
            where = "every layer" if len(one.at_null) == len(one.by_layer) else layers_named(one.at_null)
            yield (
                f"{metric_title(one.metric)} ({one.task}), {one.model}: in {where} no more alike than words in random "
                "order (its null)."
            )
