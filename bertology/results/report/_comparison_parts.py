"""Parts of the page of a comparison besides curves by layer: sizes, retained knowledge, and attention heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bertology.results.report._comparison import PageCurves, PageTable
from bertology.results.report._drawings import Curve
from bertology.results.views.grid import metric_title, number, unit
from bertology.results.views.layers import FALSE_DISCOVERY_RATE, Score

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 3


def size_table(sizes: pd.DataFrame) -> PageTable:
    """A line for each model."""
    headings = ("model", "MB on disk", "weights, millions", "not zero", "pieces a second", "speed-up")
    lines = tuple(
        (
            str(row["model"]),
            f"{row['bytes_on_disk'] / 1e6:.2f}",
            f"{row['parameters'] / 1e6:.2f}",
            f"{row['nonzero'] / row['parameters']:.0%}",
            f"{row['pieces_per_second']:,.0f}",
            f"{row['speedup']:.2f} [{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]",
        )
        for row in sizes.to_dict("records")
    )
    return PageTable("Size and speed", headings, lines, "On this machine; the brackets are the least and the largest.")


def retained_charts(frame: pd.DataFrame) -> Iterator[PageCurves]:
    """By task and metric a curve for each model."""
    note = (
        "(model − floor) / (reference − floor), the floor the better of baselines and random weights; 95 % intervals."
    )
    for (task, corpus, metric), of_task in frame.groupby(["task", "corpus", "metric"], sort=False):
        lines = tuple(
            Curve(
                str(model),
                {
                    int(row["layer"]): Score(row["retained"], row["ci_low"], row["ci_high"])
                    for row in rows.to_dict("records")
                },
            )
            for model, rows in of_task.groupby("model", sort=False)
        )
        yield PageCurves(f"Retained of {task} on {corpus}, {metric_title(str(metric))}, %", "retained", lines, note)


def head_findings(heads: pd.DataFrame) -> Iterator[str]:
    """A sentence for each model and task of heads.

    Args:
        heads: as of :func:`bertology.comparison.head_changes`, with a column ``model``.
    """
    for (task, corpus, model), of_task in heads.groupby(["task", "corpus", "model"], sort=False):
        sure = _most(of_task)
        text = f"{task} on {corpus}, {model}: {len(sure):,} of {len(of_task):,} statistics of heads differ"
        for row in sure[:1].to_dict("records"):
            text += f", most clearly {_name(row)} ({_shown(row, 'reference_value')} to {_shown(row, 'value')})"
        yield text + "."


def head_table(heads: pd.DataFrame) -> PageTable:
    """The statistics that change most clearly, a few of each kind: by model and task."""
    sure = _most(heads)
    groups = ["model", "task", "corpus"] if heads["corpus"].nunique() > 1 else ["model", "task"]
    first = sure.groupby([*groups, "metric"]).head(_SHOWN).sort_values(groups, kind="stable")
    lines = tuple(
        (
            *(str(row[name]) for name in groups),
            _name(row),
            _shown(row, "reference_value"),
            _shown(row, "value"),
            f"{_shown(row, 'difference')} [{_shown(row, 'difference_low')}, {_shown(row, 'difference_high')}]",
        )
        for row in first.to_dict("records")
    )
    headings = (*groups, "statistic", "reference", "model's", "difference")
    note = f"Of {len(heads):,} statistics {len(sure):,} differ at a false discovery rate of 5 %; all are in heads.csv."
    return PageTable("Heads that change most clearly", headings, lines, note)


def _most(heads: pd.DataFrame) -> pd.DataFrame:
    """Those that differ for sure, the clearest first: by the difference over the width of its interval."""
    sure = heads[heads["p_adj"] < FALSE_DISCOVERY_RATE]
    width = sure["difference_high"] - sure["difference_low"]
    return sure.loc[(sure["difference"].abs() / width).sort_values(ascending=False, kind="stable").index]


def _name(row: Mapping[Any, Any]) -> str:
    group = f" of {row['group']}" if isinstance(row["group"], str) else ""
    return f"{metric_title(str(row['metric']))}{group}, {row['head']}"


def _shown(row: Mapping[Any, Any], column: str) -> str:
    return number(row[column], metric=str(row["metric"])) + unit(str(row["metric"]))[1:]
