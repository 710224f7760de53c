"""Readouts: what is fitted to vectors, every layer, problem and strength at once.

A readout is made by its registered name: ``make_readout("linear", strengths=(0.1, 1.0))``. Open ``registry`` for the
readouts that there are, ``_base`` for all that a readout takes and returns, ``_linear`` for the readout that most
probes use, ``_fitting`` for the loop of those that are trained in rounds.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.readouts.registry import ReadoutKind, get_readout, make_readout, readout_kind, registered_readouts

if TYPE_CHECKING:
    from bertology.readouts._base import FitReport, FittedReadout, Predictions, Readout, Targets
    from bertology.readouts._codelength import Codelength, online_codelength, variational_codelength
    from bertology.readouts._edge import EdgeReadout
    from bertology.readouts._erasure import (
        Erasure,
        erased,
        fit_erasure,
        fit_nullspace,
        moments,
        random_erasure,
        rescaled,
    )
    from bertology.readouts._kept import KeptFit, load_fit, save_fit
    from bertology.readouts._linear import FittedAffine, LinearReadout, NumberTargets, RidgeRegression
    from bertology.readouts._sources import ArrayFeatures, ArraySpans, FeatureSource, pooled
    from bertology.readouts._structural import (
        FittedStructural,
        ProbeOrigin,
        StructuralReadout,
        TreeProbe,
        TreeTargets,
        fit_ranks,
    )

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "ArrayFeatures",
    "ArraySpans",
    "Codelength",
    "EdgeReadout",
    "Erasure",
    "FeatureSource",
    "FitReport",
    "FittedAffine",
    "FittedReadout",
    "FittedStructural",
    "KeptFit",
    "LinearReadout",
    "NumberTargets",
    "Predictions",
    "ProbeOrigin",
    "Readout",
    "ReadoutKind",
    "RidgeRegression",
    "StructuralReadout",
    "Targets",
    "TreeProbe",
    "TreeTargets",
    "erased",
    "fit_erasure",
    "fit_nullspace",
    "fit_ranks",
    "get_readout",
    "load_fit",
    "make_readout",
    "moments",
    "online_codelength",
    "pooled",
    "random_erasure",
    "readout_kind",
    "registered_readouts",
    "rescaled",
    "save_fit",
    "variational_codelength",
]
