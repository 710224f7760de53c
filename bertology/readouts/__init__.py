"""Readouts: what is fitted to vectors, every layer, problem and strength at once.

A readout is made by its registered name: ``make_readout("linear", strengths=(0.1, 1.0))``. Open ``_base`` for the
readouts that there are and all that a readout takes and returns, ``linear`` for the readout that most probes use,
``_fitting`` for the loop of those that are trained in rounds; ``kept`` has single fits as they are kept.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.readouts._base import ReadoutKind, get_readout, make_readout
from bertology.readouts._base import readout_kind as readout_kind
from bertology.readouts._base import registered_readouts as registered_readouts
from bertology.readouts._base import sum_over as sum_over

if TYPE_CHECKING:
    from bertology.readouts._base import FitReport, FittedReadout, Predictions, Readout, Targets
    from bertology.readouts._edge import EdgeReadout as EdgeReadout
    from bertology.readouts._fitting import EarlyStopping as EarlyStopping
    from bertology.readouts._sources import ArrayFeatures, FeatureSource
    from bertology.readouts._sources import ArraySpans as ArraySpans
    from bertology.readouts._sources import ShardedSource as ShardedSource
    from bertology.readouts._sources import features_of as features_of
    from bertology.readouts._sources import pooled as pooled
    from bertology.readouts.codelength import online_codelength as online_codelength
    from bertology.readouts.codelength import variational_codelength as variational_codelength
    from bertology.readouts.erasure import fit_erasure
    from bertology.readouts.information import form_features as form_features
    from bertology.readouts.information import usable_information as usable_information
    from bertology.readouts.linear import LinearReadout
    from bertology.readouts.structural import StructuralReadout as StructuralReadout
    from bertology.readouts.structural import TreeTargets as TreeTargets
    from bertology.readouts.structural import fit_ranks as fit_ranks

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "ArrayFeatures",
    "FeatureSource",
    "FitReport",
    "FittedReadout",
    "LinearReadout",
    "Predictions",
    "Readout",
    "ReadoutKind",
    "Targets",
    "fit_erasure",
    "get_readout",
    "make_readout",
]
