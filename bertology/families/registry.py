"""Task families by name: installed through entry points, ours exactly as anyone else's."""

from __future__ import annotations

from typing import Any

from bertology._registry import Registered, Registry
from bertology.errors import BertologyError
from bertology.families.contract import Family
from bertology.probing import Probe


def _checked(entry: Registered[Family], component: Any) -> Family:
    if not isinstance(component, Family):
        raise entry.wrong_type(component, "a Family")
    return component


_REGISTRY = Registry[Family]("family", "bertology.families", "labels.v1", _checked)


def family_of(probe: Probe) -> Family:
    """The family that answers a probe.

    Raises:
        BertologyError: no family does, or several do.
    """
    families = {name: entry.load() for name, entry in _REGISTRY.registered().items()}
    answering = {name: family for name, family in families.items() if family.answers(probe)}
    if len(answering) != 1:
        which = f"several do: {', '.join(answering)}" if answering else "none does"
        raise BertologyError(f"task {probe.task}: one family should answer a {type(probe).__name__}, {which}")
    return next(iter(answering.values()))
