"""Readouts by name: a declaration of each that needs no torch, and the readout itself when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Literal

from bertology._registry import Registered, Registry, imported
from bertology.errors import FitError

if TYPE_CHECKING:
    from bertology.readouts._base import Readout

SettingsCheck = Callable[[Mapping[str, Any], int], str | None]


@dataclass(frozen=True)
class ReadoutKind:
    """Declaration of a readout: everything that planning needs to know before anything is fitted.

    A package adds a readout with one file and one entry point of the group ``bertology.readouts``, whose name is
    :attr:`name` and whose target is a ``ReadoutKind``.
    """

    name: str
    """Registered name, with its version: ``linear.v1``."""
    make: str | Callable[..., Any]
    """The frozen dataclass of the readout, whose fields are its settings; or where to import it from, as
    ``"module:object"``, which keeps planning quick where the module imports torch."""
    about: str = ""
    """One line: what is fitted, with the paper it comes from."""
    reads: Literal["words", "spans", "trees", "numbers"] = "words"
    """``words``: one vector an item. ``spans``: the vectors of all words in an item's spans. ``trees``: the vectors of
    whole sentences, whose trees are decoded. ``numbers``: one vector an item, whose number is predicted."""
    columns: Literal["layer", "below", "all"] = "layer"
    """The layers that one score describes: one layer, a layer with all layers below it, or all layers together."""
    has_posterior: bool = False
    """Whether the fitted readout has a posterior over its weights, which a variational code needs."""
    fitted_together: str | None = None
    """Name of a setting whose values in a sweep are fitted in the same passes over the data."""
    settings_problem: SettingsCheck = lambda settings, width: None
    """Called while planning with settings and the width of the vectors; returns what is wrong with them, or None."""


def _checked(entry: Registered[ReadoutKind], component: Any) -> ReadoutKind:
    if not isinstance(component, ReadoutKind):
        raise entry.wrong_type(component, "a ReadoutKind")
    entry.check_name(component.name, remedy="name")
    return component


_REGISTRY = Registry("readout", "bertology.readouts", "linear.v1", _checked)


def registered_readouts() -> Mapping[str, Registered[ReadoutKind]]:
    """All versions of all installed readouts by registered name (``linear.v1``), not yet imported."""
    return _REGISTRY.registered()


def readout_kind(name: str) -> ReadoutKind:
    """The declaration of a readout by name, such as ``linear.v1``, or ``linear`` for its newest version.

    Raises:
        NameNotFoundError: no readout has that name.
    """
    return _REGISTRY.get(name)


def get_readout(name: str, **settings: Any) -> Readout:
    """A readout of labels by name, as :func:`make_readout`; FitError where the readout finds trees and no labels."""
    from bertology.readouts._base import Readout

    readout = make_readout(name, **settings)
    if not isinstance(readout, Readout):
        raise FitError(f"readout {readout.name} finds trees: it cannot read labels")
    return readout


def make_readout(name: str, **settings: Any) -> Any:
    """A readout by name, whatever it reads.

    Args:
        name: ``linear.v1``, or ``linear`` for its newest version.
        **settings: the readout's own settings, the fields of its dataclass.

    Raises:
        NameNotFoundError: no readout has that name, or it has no such setting.
        FitError: a setting is of another type than it should be.
        BertologyError: the readout cannot be imported.
    """
    from bertology._settings import checked_settings

    kind = readout_kind(name)
    make = kind.make
    if isinstance(make, str):
        make = imported(EntryPoint(kind.name, make, _REGISTRY.group), _REGISTRY.kind)
    return make(**checked_settings(settings, make, owner=f"readout {kind.name}"))


def _rank_problem(settings: Mapping[str, Any], width: int) -> str | None:
    rank = settings.get("rank")
    is_too_large = isinstance(rank, int) and rank > width
    return f"rank {rank} of vectors that are {width} wide: give 1 to {width}" if is_too_large else None


_HOME = "bertology.readouts."
LINEAR_V1 = ReadoutKind("linear.v1", f"{_HOME}linear:LinearReadout", "softmax regression, its L2 penalty chosen on dev")
RIDGE_V1 = ReadoutKind(
    "ridge.v1", f"{_HOME}linear:RidgeReadout", "least squares on one-hot labels, its L2 penalty chosen on dev"
)
RIDGE_REGRESSION_V1 = ReadoutKind(
    "ridge_regression.v1",
    f"{_HOME}linear:RidgeRegression",
    "least squares on numbers, its L2 penalty chosen on dev",
    reads="numbers",
)
MLP_V1 = ReadoutKind("mlp.v1", f"{_HOME}_neural:MlpReadout", "perceptron with one hidden layer (Hewitt & Liang 2019)")
LOWRANK_V1 = ReadoutKind(
    "lowrank.v1", f"{_HOME}_neural:LowRankReadout", "softmax over a matrix of low rank (Hewitt & Liang 2019)"
)
BAYES_V1 = ReadoutKind(
    "bayes.v1",
    f"{_HOME}_neural:BayesReadout",
    "linear readout or perceptron under Bayesian compression (Louizos et al. 2017)",
    has_posterior=True,
)
EDGE_V1 = ReadoutKind(
    "edge.v1",
    f"{_HOME}_edge:EdgeReadout",
    "perceptron on pooled spans of one layer (Tenney et al. 2019a)",
    reads="spans",
)
EDGE_CUMULATIVE_V1 = ReadoutKind(
    "edge_cumulative.v1",
    f"{_HOME}_edge:EdgeCumulativeReadout",
    "perceptron on pooled spans of a mix of each layer and all below it (Tenney et al. 2019b)",
    reads="spans",
    columns="below",
)
EDGE_MIX_V1 = ReadoutKind(
    "edge_mix.v1",
    f"{_HOME}_edge:EdgeMixReadout",
    "perceptron on pooled spans of a mix of all layers (Tenney et al. 2019b)",
    reads="spans",
    columns="all",
)
EDGE_CAT_V1 = ReadoutKind(
    "edge_cat.v1",
    f"{_HOME}_edge:EdgeCatReadout",
    "perceptron on pooled spans of the first and the last layer side by side (Tenney et al. 2019a)",
    reads="spans",
    columns="all",
)
STRUCTURAL_V1 = ReadoutKind(
    "structural.v1",
    f"{_HOME}structural:StructuralReadout",
    "linear map whose squared distances are those of trees (Hewitt & Manning 2019)",
    reads="trees",
    fitted_together="rank",
    settings_problem=_rank_problem,
)
