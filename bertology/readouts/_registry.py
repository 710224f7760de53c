"""Readouts by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from bertology._names import name_not_found
from bertology.readouts._base import Readout
from bertology.readouts._bayes import BayesReadout
from bertology.readouts._edge import EdgeCatReadout, EdgeCumulativeReadout, EdgeMixReadout, EdgeReadout
from bertology.readouts._kinds import readout_kind
from bertology.readouts._linear import LinearReadout
from bertology.readouts._lowrank import LowRankReadout
from bertology.readouts._mlp import MlpReadout
from bertology.readouts._ridge import RidgeReadout

_READOUTS: Mapping[str, Callable[..., Readout]] = {
    "edge.v1": EdgeReadout,
    "edge_cat.v1": EdgeCatReadout,
    "edge_cumulative.v1": EdgeCumulativeReadout,
    "edge_mix.v1": EdgeMixReadout,
    "bayes.v1": BayesReadout,
    "linear.v1": LinearReadout,
    "lowrank.v1": LowRankReadout,
    "mlp.v1": MlpReadout,
    "ridge.v1": RidgeReadout,
}


def get_readout(name: str, **settings: Any) -> Readout:
    """The readout of that name.

    Args:
        name: ``linear.v1``, or ``linear`` for its newest version.
        **settings: the readout's own settings, as in its ``params``.

    Raises:
        NameNotFoundError: no readout has that name, or it has no such setting.
    """
    full_name = readout_kind(name).name
    make = _READOUTS[full_name]
    known_settings: list[str] = [field.name for field in fields(make)] if is_dataclass(make) else []
    for setting in settings:
        if setting not in known_settings:
            raise name_not_found(f"setting of readout {full_name}", setting, known_settings)
    return make(**settings)
