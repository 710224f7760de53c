"""Readouts by name: a declaration of each that needs no torch, and the readout itself when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Literal

from bertology._registry import Registered, Registry, imported
from bertology.errors import FitError

if TYPE_CHECKING:
    from bertology.readouts._base import Readout, Settings

SettingsCheck = Callable[[Mapping[str, Any], int], str | None]


@dataclass(frozen=True)
class ReadoutKind:
    """Declaration of a readout: everything that planning needs to know before anything is fitted.

    A package adds a readout with one file and one entry point of the group ``bertology.readouts``, whose name is
    :attr:`name` and whose target is a ``ReadoutKind``.
    """

    name: str
    """Registered name, with its version: ``linear.v1``."""
    make: str | Callable[..., Settings]
    """The frozen dataclass of the readout, whose fields are its settings; or where to import it from, as
    ``"module:object"``, which keeps planning quick where the module imports torch."""
    about: str = ""
    """One line: what is fitted, with the paper it comes from."""
    reads: Literal["words", "spans", "trees", "numbers"] = "words"
    """``words``: one vector an item. ``spans``: the vectors of all words in an item's spans. ``trees``: the vectors of
    whole sentences, whose trees are decoded. ``numbers``: one vector an item, whose number is predicted."""
    columns: Literal["layer", "below", "all"] = "layer"
    """What one score describes: one layer, a layer with all layers below it, or all layers together."""
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


def make_readout(name: str, **settings: Any) -> Settings:
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
