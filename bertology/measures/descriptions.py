"""How scores are written: title, unit, decimals and bounds of each metric, and the columns of controls in tables.

A metric that is not listed is a fraction, written in percent under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
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
DOTTED, CONTROL_TASK = "majority", "control_task"
"""The task itself; the baseline whose line in a figure is dotted; the control whose difference is selectivity."""
BLIND = "blind"
"""The control of texts without what decides."""
ACCURACY, SELECTIVITY = "accuracy", "selectivity"
CHOICES, RETAINED = "choice_accuracy", "retained"
"""The share of choices that are right; the share of a reference's knowledge that a model retains."""
SECOND_METRIC = "macro_f1"
"""The metric that adds most to a task's main one."""
NULL, REFERENCE, CHANGE = "_null", "_reference", "_change"
"""Endings of metrics: the same on words in random order, of the reference, and the difference between both models."""
GRAVITY, DIVERGENCE, EXPECTED = "center_of_gravity", "kl_from_uniform_bits", "expected_layer"
"""Mean layer of a mixture, divergence of its weights from equal ones, mean layer at which a score grows."""
METRIC_ORDER = (
    *("accuracy", "macro_f1", "micro_f1", "uuas", "dspr", "root_accuracy", "nspr", "uas", "las"),
    *("p_at_1", "p_at_10", "mrr", "choice_accuracy", "sensitivity", "consistency", "moved", "probability_lost"),
)
"""Metrics in the order in which one is taken as a table's main metric, where the task names none."""

TWO_LINES = {"selectivity": "selec-\ntivity", "macro-F1": "macro-\nF1", "micro-F1": "micro-\nF1"}
"""Titles that narrow columns break in other places than between words."""

Unit = Literal["fraction", "correlation", "number", "counted"]
"""Fractions stand in percent; correlations and ranks, bounded by ±1, with three decimals; what is counted in bits or
words with two decimals, small values with three."""
_DECIMALS: Mapping[Unit, int] = {"fraction": 1, "correlation": 3, "number": 1, "counted": 2}
_COUNTED = ("_bits", "_nats", "_words", "_dimensions", "_neighbours", "_clusters")
"""Endings of metrics that are counted in a unit."""


@dataclass(frozen=True)
class MetricForm:
    """How values of a metric are written."""

    title: str
    """The metric's name in running text."""
    unit: Unit = "fraction"

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
    **{f"hulls_{of}": MetricForm(f"hulls {of}", "number") for of in ("model", "reference")},
}


@lru_cache(maxsize=512)
def metric_form(metric: str) -> MetricForm:
    """How a metric is written; after a space its name may say which items it is of."""
    if metric in _FORMS:
        return _FORMS[metric]
    name, space, which = metric.partition(" ")
    title = _FORMS[name].title if name in _FORMS else name.replace("_", " ")
    return MetricForm(title + space + which, "counted" if metric.endswith(_COUNTED) else "fraction")


@dataclass(frozen=True)
class LayerColumn:
    """One score that a table of layers may have in each line."""

    title: str
    """The column's header; empty where the metric's title is the header."""
    source: Literal["task", "control", "metric", "derived", "init"] = "control"
    """The rows that the column is made of: scores of the task by its main metrics; of a control; of the task by the
    metric of this name; by that metric among all controls; or of random weights."""
    csv: tuple[str, ...] | None = None
    """Names of value and bounds in CSV files, as far as these are written; made from the column's name when None."""
    look: tuple[str, str] | None = None
    """Colour and marker of its line in figures; None where it is not drawn."""


LAYER_COLUMNS: Mapping[str, LayerColumn] = {
    "main": LayerColumn("", "task", csv=("value", "ci_low", "ci_high")),
    "second": LayerColumn("", "task", csv=("second_value",)),
    "random_init": LayerColumn("random init", "init", look=("vermilion", "s")),
    "control_task": LayerColumn("control task", csv=("control_task_accuracy",), look=("green", "^")),
    "selectivity": LayerColumn("selectivity", "derived"),
    "blind": LayerColumn("blind", csv=("blind",), look=("green", "v")),
    "rescaled": LayerColumn("rescaled", look=("vermilion", "v")),
    "refit": LayerColumn("refitted", look=("green", "D")),
    "reference": LayerColumn("reference", look=("purple", "s")),
    "completeness": LayerColumn("gone", "metric"),
    "others_kept": LayerColumn("others kept", "metric"),
}
"""The columns of a table of layers by the names that its lines have for them, in order."""
DRAWN_COLUMNS = ("control_task", "blind", "random_init", "rescaled", "refit", "reference")
"""The columns that a figure of scores by layer has a line for, in the order in which they are drawn."""
IN_SCRIPTS = {"random_init": "random", "control_task": "control"}
"""Columns that scripts of pages have other names for."""
