"""How scores are written: title, unit, decimals and bounds of each metric, and the columns of controls in tables.

A metric that is not listed is a fraction, written in percent under its own name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

Control = Literal[
    "none", "majority", "word_majority", "length", "lexical", "linear_chain", "control_task", "blind", "offset",
    "nearest", "head_match", "rule", "mean", "word_mean", "first", "last", "diagonal", "rescaled", "refit",
    "reference",
]  # fmt: skip
CONTROLS: tuple[str, ...] = get_args(Control)
"""Names of controls in the order in which tables have them; ``none`` is the task itself."""
ITSELF: Final = "none"
_DOTTED = "majority"
_METRIC_ORDER = (
    *("accuracy", "macro_f1", "micro_f1", "uuas", "dspr", "root_accuracy", "nspr", "uas", "las"),
    *("p_at_1", "p_at_10", "mrr", "choice_accuracy", "sensitivity", "consistency", "moved", "probability_lost"),
)
_SECOND = "macro_f1"
"""The metric that adds most to a task's main one."""


def control_order(control: str) -> int:
    """The place of a control among those of a table."""
    return CONTROLS.index(control)


def is_dotted(control: str) -> bool:
    """Whether the line of a baseline is dotted in figures; others are dashed."""
    return control == _DOTTED


def ranked_metrics(metrics: Collection[str]) -> list[str]:
    """Metrics in the order in which one is taken as a table's main metric, where the task names none."""
    places = {name: place for place, name in enumerate(_METRIC_ORDER)}
    return sorted(metrics, key=lambda metric: (places.get(metric, len(places)), metric))


def second_metric(main: str, metrics: Collection[str]) -> str | None:
    """The metric that stands next to the main one."""
    return next((name for name in (_SECOND, *ranked_metrics(metrics)) if name in metrics and name != main), None)


TWO_LINES = {"selectivity": "selec-\ntivity", "macro-F1": "macro-\nF1", "micro-F1": "micro-\nF1"}
"""Titles that narrow columns break in other places than between words."""

Unit = Literal["fraction", "correlation", "number", "counted"]
"""Fractions stand in percent; correlations and ranks, bounded by ±1, with three decimals; what is counted in bits or
words with two decimals, small values with three."""
_DECIMALS: Mapping[Unit, int] = {"fraction": 1, "correlation": 3, "number": 1, "counted": 2}
_COUNTED = ("_bits", "_nats", "_words", "_dimensions", "_neighbours", "_clusters")
"""Endings of metrics that are counted in a unit."""
Part = Literal["", "null", "reference", "change"]
"""What a metric of two models is of: the model itself; words in random order; the reference; the difference of both."""
_PARTS: Mapping[str, Part] = {"_null": "null", "_reference": "reference", "_change": "change"}
Depth = Literal["", "mean", "divergence", "growth"]
"""What a metric tells of a mixture of layers: mean layer under its weights, their divergence from equal ones, mean
layer at which a score grows."""


@dataclass(frozen=True)
class MetricForm:
    """How values of a metric are written."""

    title: str
    """The metric's name in running text."""
    unit: Unit = "fraction"
    is_difference: bool = False
    """Whether values are a task's score less that of a control, which rank no layer."""
    depth: Depth = ""
    base: str = ""
    """The metric of the model itself, of one that has another ``part``."""
    part: Part = ""

    @property
    def is_fraction(self) -> bool:
        """Whether values stand in percent."""
        return self.unit == "fraction"

    @property
    def is_bounded(self) -> bool:
        """Whether values end at ±1."""
        return self.unit in ("fraction", "correlation")

    @property
    def decimals(self) -> int:
        """Number of decimals."""
        return _DECIMALS[self.unit]


_FORMS: Mapping[str, MetricForm] = {
    "f1": MetricForm("F1"),
    "entity_f1": MetricForm("entity F1"),
    "macro_f1": MetricForm("macro-F1"),
    "micro_f1": MetricForm("micro-F1"),
    **{name: MetricForm(name.upper()) for name in ("uuas", "uas", "las", "cka", "rsa")},
    "rsa_spearman": MetricForm("RSA of ranks"),
    "mrr": MetricForm("MRR", "correlation"),
    "dspr": MetricForm("DSpr", "correlation"),
    "nspr": MetricForm("NSpr", "correlation"),
    "importance": MetricForm("importance", "correlation"),
    "micro_mrr": MetricForm("MRR micro"),
    "micro_p_at_1": MetricForm("P@1 micro"),
    **{f"p_at_{most}": MetricForm(f"P@{most}") for most in (1, 5, 10, 100)},
    "divergence_bits": MetricForm("Jensen–Shannon divergence, bits", "counted"),
    "relative_l2": MetricForm("relative L2 distance"),
    "mutual_neighbours": MetricForm("mutual neighbours"),
    "codelength_bits": MetricForm("codelength bits", "number"),
    **{name: MetricForm(name.replace("_", " "), "number") for name in ("compression", "distance")},
    "selectivity": MetricForm("selectivity", is_difference=True),
    "center_of_gravity": MetricForm("center of gravity", depth="mean"),
    "kl_from_uniform_bits": MetricForm("kl from uniform bits", "counted", depth="divergence"),
    "expected_layer": MetricForm("expected layer", depth="growth"),
    **{f"hulls_{of}": MetricForm(f"hulls {of}", "number") for of in ("model", "reference")},
}


@lru_cache(maxsize=512)
def metric_form(metric: str) -> MetricForm:
    """How a metric is written; after a space its name may say which items it is of."""
    if metric in _FORMS:
        return _FORMS[metric]
    name, space, which = metric.partition(" ")
    title = _FORMS[name].title if name in _FORMS else name.replace("_", " ")
    ending = next((ending for ending in _PARTS if metric.endswith(ending)), "")
    base, part = (metric.removesuffix(ending), _PARTS[ending]) if ending else ("", "")
    unit: Unit = "counted" if metric.endswith(_COUNTED) else "fraction"
    return MetricForm(title + space + which, unit, base=base, part=part)


@dataclass(frozen=True)
class LayerColumn:
    """One score that a table of layers may have in each line."""

    title: str
    """The column's header; empty where the metric's title is the header."""
    source: Literal["task", "control", "metric", "difference", "init"] = "control"
    """The rows that the column is made of: scores of the task by its main metrics; of a control; of the task by the
    metric of this name; by that metric among all controls; or of random weights."""
    csv: tuple[str, ...] | None = None
    """Names of value and bounds in CSV files, as far as these are written; made from the column's name when None."""
    in_csv: Literal["always", "last", "where known"] = "where known"
    """Whether CSV files have the column even if it is empty, and whether it stands after what seeds are known of."""
    look: tuple[str, str] | None = None
    """Colour and marker of its line in figures; None where it is not drawn."""
    with_interval: bool = False
    prefers: str = ""
    """The metric of a control's scores, where the task has it; else the task's main one."""
    difference: str = ""
    """The column of what the task's score has more than the control's."""
    note: tuple[str, str] = ("", "")
    """Subject and text of a note under tables that have the column."""
    is_anew: bool = False
    """Whether it is a readout fitted anew next to one that was fitted to a reference, which the task's own is then."""
    script: str = ""
    """Name of the column in scripts of pages, where that is another one."""


LAYER_COLUMNS: Mapping[str, LayerColumn] = {
    "main": LayerColumn("", "task", ("value", "ci_low", "ci_high"), "always", with_interval=True),
    "second": LayerColumn("", "task", ("second_value",), "always"),
    "random_init": LayerColumn("random init", "init", None, "always", look=("vermilion", "s"), script="random"),
    "control_task": LayerColumn(
        "control task", "control", ("control_task_accuracy",), "always", ("green", "^"),
        prefers="accuracy", difference="selectivity", script="control",
    ),
    "selectivity": LayerColumn("selectivity", "difference", None, "always", with_interval=True),
    "blind": LayerColumn("blind", "control", ("blind",), "last", ("green", "v")),
    "rescaled": LayerColumn("rescaled", look=("vermilion", "v")),
    "refit": LayerColumn("refitted", look=("green", "D"), is_anew=True),
    "reference": LayerColumn("reference", look=("purple", "s")),
    "completeness": LayerColumn(
        "gone", "metric",
        note=("gone", "completeness: share of what an oracle finds of the property, beyond guessing, that is gone"),
    ),
    "others_kept": LayerColumn(
        "others kept", "metric",
        note=("others", "selectivity: share of what oracles find of other properties that is kept"),
    ),
}  # fmt: skip
"""The columns of a table of layers by the names that its lines have for them, in order."""
DRAWN_COLUMNS = ("control_task", "blind", "random_init", "rescaled", "refit", "reference")
"""The columns that a figure of scores by layer has a line for, in the order in which they are drawn."""
