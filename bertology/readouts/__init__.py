"""Readouts: what is fitted to vectors, every layer, problem and strength at once.

A readout is made by its registered name: ``make_readout("linear", strengths=(0.1, 1.0))``. Open ``registry`` for the
readouts that there are, ``_base`` for all that a readout takes and returns, ``linear`` for the readout that most
probes use, ``_fitting`` for the loop of those that are trained in rounds; ``kept`` has the files of fitted probes.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.readouts._base import ReadoutKind, get_readout, make_readout, readout_kind, registered_readouts

if TYPE_CHECKING:
    from bertology.readouts._base import FitReport, FittedReadout, Predictions, Readout, Targets
    from bertology.readouts._edge import EdgeReadout
    from bertology.readouts._sources import ArrayFeatures, ArraySpans, FeatureSource, pooled
    from bertology.readouts.codelength import online_codelength, variational_codelength
    from bertology.readouts.erasure import fit_erasure
    from bertology.readouts.linear import LinearReadout
    from bertology.readouts.structural import StructuralReadout, TreeTargets, fit_ranks

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "ArrayFeatures",
    "ArraySpans",
    "EdgeReadout",
    "FeatureSource",
    "FitReport",
    "FittedReadout",
    "LinearReadout",
    "Predictions",
    "Readout",
    "ReadoutKind",
    "StructuralReadout",
    "Targets",
    "TreeTargets",
    "fit_erasure",
    "fit_ranks",
    "get_readout",
    "make_readout",
    "online_codelength",
    "pooled",
    "readout_kind",
    "registered_readouts",
    "variational_codelength",
]
