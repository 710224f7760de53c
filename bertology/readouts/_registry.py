"""Readouts by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from bertology._names import name_not_found
from bertology.readouts._base import Readout
from bertology.readouts._bayes import BayesReadout
from bertology.readouts._linear import LinearReadout
from bertology.readouts._lowrank import LowRankReadout
from bertology.readouts._mlp import MlpReadout
from bertology.readouts._ridge import RidgeReadout

_READOUTS: Mapping[str, Callable[..., Readout]] = {
    "bayes.v1": BayesReadout,
    "linear.v1": LinearReadout,
    "lowrank.v1": LowRankReadout,
    "mlp.v1": MlpReadout,
    "ridge.v1": RidgeReadout,
}


def known_readouts() -> tuple[str, ...]:
    """The registered names, each with its version."""
    return tuple(sorted(_READOUTS))


def get_readout(name: str, **settings: Any) -> Readout:
    """The readout of that name.

    Args:
        name: ``linear.v1``, or ``linear`` for its newest version.
        **settings: the readout's own settings, as in its ``params``.

    Raises:
        NameNotFoundError: no readout has that name, or it has no such setting.
    """
    versions = [known for known in _READOUTS if known.rpartition(".v")[0] == name]
    full_name = max(versions, key=lambda known: int(known.rpartition(".v")[2])) if versions else name
    if full_name not in _READOUTS:
        raise name_not_found("readout", name, _READOUTS)
    make = _READOUTS[full_name]
    known_settings: list[str] = [field.name for field in fields(make)] if is_dataclass(make) else []
    for setting in settings:
        if setting not in known_settings:
            raise name_not_found(f"setting of readout {full_name}", setting, known_settings)
    return make(**settings)
