"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.readouts._registry import ReadoutKind, get_readout, make_readout, readout_kind, registered_readouts

if TYPE_CHECKING:
    from bertology.readouts._affine import FittedAffine
    from bertology.readouts._base import FitReport, FittedReadout, Predictions, Progress, Readout, Targets
    from bertology.readouts._bayes import BayesReadout, FittedBayes
    from bertology.readouts._codelength import Codelength
    from bertology.readouts._edge import EdgeCatReadout, EdgeCumulativeReadout, EdgeMixReadout, EdgeReadout
    from bertology.readouts._edge_fit import SpanReadout
    from bertology.readouts._edge_fitted import FittedEdge, FittedPooled
    from bertology.readouts._erasure import (
        ErasedFeatures,
        ErasedSpans,
        Erasure,
        LayerErasure,
        fit_erasure,
        random_erasure,
    )
    from bertology.readouts._features import ArrayFeatures, FeatureSource
    from bertology.readouts._heads import MaskedLmReadout, NextSentenceReadout
    from bertology.readouts._linear import LinearReadout
    from bertology.readouts._lowrank import LowRankReadout
    from bertology.readouts._mlp import FittedMlp, MlpReadout
    from bertology.readouts._online import FRACTIONS, online_codelength
    from bertology.readouts._ridge import RidgeReadout
    from bertology.readouts._spans import ArraySpans, PooledSpans, SpanSource, WordSpans
    from bertology.readouts._structural import StructuralReadout, fit_ranks
    from bertology.readouts._structural_batches import TreeTargets
    from bertology.readouts._structural_fitted import FittedStructural
    from bertology.readouts._subset import SubsetFeatures, SubsetSpans
    from bertology.readouts._tree_probe import ProbeOrigin, TreeProbe
    from bertology.readouts._variational import codelength_of, variational_codelength

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "FRACTIONS",
    "ArrayFeatures",
    "ArraySpans",
    "BayesReadout",
    "Codelength",
    "EdgeCatReadout",
    "EdgeCumulativeReadout",
    "EdgeMixReadout",
    "EdgeReadout",
    "ErasedFeatures",
    "ErasedSpans",
    "Erasure",
    "FeatureSource",
    "FitReport",
    "FittedAffine",
    "FittedBayes",
    "FittedEdge",
    "FittedMlp",
    "FittedPooled",
    "FittedReadout",
    "FittedStructural",
    "LayerErasure",
    "LinearReadout",
    "LowRankReadout",
    "MaskedLmReadout",
    "MlpReadout",
    "NextSentenceReadout",
    "PooledSpans",
    "Predictions",
    "ProbeOrigin",
    "Progress",
    "Readout",
    "ReadoutKind",
    "RidgeReadout",
    "SpanReadout",
    "SpanSource",
    "StructuralReadout",
    "SubsetFeatures",
    "SubsetSpans",
    "Targets",
    "TreeProbe",
    "TreeTargets",
    "WordSpans",
    "codelength_of",
    "fit_erasure",
    "fit_ranks",
    "get_readout",
    "make_readout",
    "online_codelength",
    "random_erasure",
    "readout_kind",
    "registered_readouts",
    "variational_codelength",
]
