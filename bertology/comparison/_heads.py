"""What heads look at, in a reference and in a model made from it: every statistic of every head, paired by sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import Comparison, bootstrap_ratio, compare
from bertology.results import HeadSums, ResultRow, Results, read_head_sums
from bertology.results.rows import ATTENTION, own_init, param_of, reading_of

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
_RESAMPLES = 1000
"""Enough for the standard error of a difference, which its interval and p-value are made of."""
_ASKED = "head", "test"
"""Unit and split of the sums that are compared."""


def head_changes(results: Results, run: str | Path, *, reference: str, models: Sequence[str]) -> pd.DataFrame:
    """Statistics of attention heads of models less those of a reference, on the same sentences.

    Of every task of attention heads that all were put to, such as ``head_statistics`` and ``head_syntax``: a line for
    each statistic (of a relation, in ``group``) of each head, with the difference, its 95 % interval from a bootstrap
    over sentences that resamples both models alike, with the degrees of freedom of the sentences that have the
    relation, and p adjusted over all heads and statistics of the task on a corpus (Benjamini–Hochberg). Heads are
    paired by their names; models without the same heads have no line.

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
    import pandas as pd

    before = _cells([row for row in results.rows if row.model == reference])
    frames = []
    for model in models:
        after = _cells([row for row in results.rows if row.model == model])
        for question, cells in before.items():
            others = after.get(question, {})
            if cells.keys() == others.keys():
                pairs = [(layer, cell, others[layer]) for layer, cell in sorted(cells.items())]
                about = {"model": model, "task": question[0], "corpus": question[1]}
                frames.append(pd.DataFrame([{**about, **line} for line in _lines(Path(run), pairs)]))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _cells(rows: list[ResultRow]) -> Mapping[tuple[str, ...], Mapping[int, str]]:
    """By question and layer the cell of a model on its own weights."""
    found: dict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
    of_heads = [row for row in rows if row.head and row.readout in ATTENTION and param_of(row, "reference") is None]
    init = own_init(of_heads) if of_heads else ""
    for row in of_heads:
        if row.status == "ok" and row.control == "none" and row.init == init and row.layer is not None:
            found[row.task, row.corpus, row.corpus_fingerprint, reading_of(row)][row.layer] = row.cell_id
    return found


def _lines(run: Path, pairs: Sequence[tuple[int, str, str]]) -> Iterator[dict[str, Any]]:
    """A line for each statistic of each head that the cells of a layer have in common; these are one family."""
    names: list[tuple[str, str, int, str]] = []
    sums: tuple[list[HeadSums], list[HeadSums]] = [], []
    for layer, *cells in pairs:
        before, after = (
            {(one.metric, one.group): one for one in read_head_sums(run, cell) if (one.unit, one.split) == _ASKED}
            for cell in cells
        )
        for key in before.keys() & after.keys():
            if len(before[key].over) == len(after[key].over):
                names += [(*key, layer, f"L{layer}H{head + 1}") for head in range(len(before[key].over))]
                sums[0].append(before[key])
                sums[1].append(after[key])
    if not names:
        return
    n_clusters = 1 + max(int(one.clusters.max(initial=0)) for one in (*sums[0], *sums[1]))
    over, under = (
        np.concatenate([_by_cluster(one, part, n_clusters) for one in (*sums[0], *sums[1])])
        for part in ("over", "under")
    )
    values, compared = paired_ratios(over, under)
    for (metric, group, layer, head), one in sorted(zip(names, compared, strict=True), key=lambda pair: pair[0]):
        yield {
            "metric": metric,
            "group": group or None,
            "layer": layer,
            "head": head,
            "reference_value": float(values[one.b]),
            "value": float(values[one.a]),
            "difference": one.diff,
            "difference_low": one.ci_low,
            "difference_high": one.ci_high,
            "p_adj": one.p_adj,
            "n_sentences": one.n_pairs,
        }


def paired_ratios(over: Floats, under: Floats) -> tuple[Floats, list[Comparison]]:
    """Ratios of sums over sentences, and the differences between two halves of them, one family.

    Each difference has the degrees of freedom of the sentences in which there is something to divide by: a relation
    that stands in 24 sentences of 1,000 is known as well as 24 sentences can tell.

    Args:
        over: ``[2 · statistic, sentence]`` numerators, those of the reference first.
        under: ``[2 · statistic, sentence]`` denominators, 0 where a sentence has nothing to count.

    Returns:
        ``[2 · statistic]`` ratios, and for each statistic the second half's less the first's.
    """
    n = len(over) // 2
    drawn = bootstrap_ratio(over, under, metric="head", n_resamples=_RESAMPLES)
    used = ((under[:n] > 0) | (under[n:] > 0)).sum(axis=1)
    pairs = [(n + place, place) for place in range(n)]
    return drawn.values, compare(drawn.values, drawn.replicates, n_clusters=used, pairs=pairs)


def _by_cluster(sums: HeadSums, part: str, n_clusters: int) -> Floats:
    """One part of some sums, ``[head, cluster]``, with zeros where a cluster has none."""
    values = np.asarray(getattr(sums, part), dtype=np.float64)
    full = np.zeros((len(values), n_clusters))
    full[:, sums.clusters] = values
    return full
