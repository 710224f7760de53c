"""Readouts by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bertology._settings import checked_settings
from bertology.errors import FitError
from bertology.readouts._base import Readout, Settings
from bertology.readouts._bayes import BayesReadout
from bertology.readouts._edge import (
    EdgeCatReadout,
    EdgeCumulativeReadout,
    EdgeMixReadout,
    EdgeReadout,
    FirstEdgeCatReadout,
    FirstEdgeCumulativeReadout,
    FirstEdgeMixReadout,
    FirstEdgeReadout,
)
from bertology.readouts._heads import MaskedLmReadout, NextSentenceReadout
from bertology.readouts._kinds import readout_kind
from bertology.readouts._linear import LinearReadout
from bertology.readouts._lowrank import LowRankReadout
from bertology.readouts._mlp import MlpReadout
from bertology.readouts._ridge import RidgeReadout
from bertology.readouts._structural import StructuralReadout

_READOUTS: Mapping[str, Callable[..., Settings]] = {
    "edge.v1": FirstEdgeReadout,
    "edge.v2": EdgeReadout,
    "edge_cat.v1": FirstEdgeCatReadout,
    "edge_cat.v2": EdgeCatReadout,
    "edge_cumulative.v1": FirstEdgeCumulativeReadout,
    "edge_cumulative.v2": EdgeCumulativeReadout,
    "edge_mix.v1": FirstEdgeMixReadout,
    "edge_mix.v2": EdgeMixReadout,
    "bayes.v1": BayesReadout,
    "linear.v1": LinearReadout,
    "linear.v2": LinearReadout,
    "lowrank.v1": LowRankReadout,
    "masked_lm.v1": MaskedLmReadout,
    "mlp.v1": MlpReadout,
    "next_sentence.v1": NextSentenceReadout,
    "ridge.v1": RidgeReadout,
    "ridge.v2": RidgeReadout,
    "structural.v1": StructuralReadout,
}
_FIXED: Mapping[str, Mapping[str, Any]] = {"linear.v1": {"extensions": 0}, "ridge.v1": {"extensions": 0}}
"""What an older version of a readout does not leave open, by its name."""


def get_readout(name: str, **settings: Any) -> Readout:
    """The readout of labels of that name: :func:`make_readout` of any but those of trees.

    Raises:
        NameNotFoundError: no readout has that name, or it has no such setting.
        FitError: a setting is of another kind than it should be, or the readout finds trees and no labels.
    """
    found = make_readout(name, **settings)
    if not isinstance(found, Readout):
        what = {"trees": "finds trees", "prompts": "answers texts"}[readout_kind(found.name).reads]
        raise FitError(f"readout {found.name} {what}: it cannot read labels")
    return found


def make_readout(name: str, **settings: Any) -> Settings:
    """The readout of that name, whatever it reads.

    Args:
        name: ``linear.v2``, or ``linear`` for its newest version.
        **settings: the readout's own settings, as in its ``params``.

    Raises:
        NameNotFoundError: no readout has that name, or it has no such setting.
        FitError: a setting is of another kind than it should be.
    """
    full_name = readout_kind(name).name
    if full_name not in _READOUTS:
        raise FitError(f"readout {full_name} is about attention heads: it reads no vectors")
    make, fixed = _READOUTS[full_name], _FIXED.get(full_name, {})
    return make(**checked_settings(settings, make, owner=f"readout {full_name}", fixed=frozenset(fixed)), **fixed)
