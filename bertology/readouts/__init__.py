"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from typing import TYPE_CHECKING, Any

from bertology.readouts._kinds import ReadoutKind, known_readouts, readout_kind

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
    from bertology.readouts._registry import get_readout, make_readout
    from bertology.readouts._ridge import RidgeReadout
    from bertology.readouts._spans import ArraySpans, PooledSpans, SpanSource, WordSpans
    from bertology.readouts._structural import StructuralReadout, fit_ranks
    from bertology.readouts._structural_batches import TreeTargets
    from bertology.readouts._structural_fitted import FittedStructural
    from bertology.readouts._subset import SubsetFeatures, SubsetSpans
    from bertology.readouts._tree_probe import ProbeOrigin, TreeProbe
    from bertology.readouts._variational import codelength_of, variational_codelength

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
    "known_readouts",
    "make_readout",
    "online_codelength",
    "random_erasure",
    "readout_kind",
    "variational_codelength",
]

_NEEDS_TORCH = {
    "_heads": ("MaskedLmReadout", "NextSentenceReadout"),
    "_affine": ("FittedAffine",),
    "_base": (
        "FitReport",
        "FittedReadout",
        "Predictions",
        "Progress",
        "Readout",
        "Targets",
    ),
    "_bayes": (
        "BayesReadout",
        "FittedBayes",
    ),
    "_codelength": ("Codelength",),
    "_edge": (
        "EdgeCatReadout",
        "EdgeCumulativeReadout",
        "EdgeMixReadout",
        "EdgeReadout",
    ),
    "_edge_fit": ("SpanReadout",),
    "_edge_fitted": (
        "FittedEdge",
        "FittedPooled",
    ),
    "_erasure": (
        "ErasedFeatures",
        "ErasedSpans",
        "Erasure",
        "LayerErasure",
        "fit_erasure",
        "random_erasure",
    ),
    "_features": (
        "ArrayFeatures",
        "FeatureSource",
    ),
    "_linear": ("LinearReadout",),
    "_lowrank": ("LowRankReadout",),
    "_mlp": (
        "FittedMlp",
        "MlpReadout",
    ),
    "_online": (
        "FRACTIONS",
        "online_codelength",
    ),
    "_registry": ("get_readout", "make_readout"),
    "_ridge": ("RidgeReadout",),
    "_spans": (
        "ArraySpans",
        "PooledSpans",
        "SpanSource",
        "WordSpans",
    ),
    "_structural": (
        "StructuralReadout",
        "fit_ranks",
    ),
    "_structural_batches": ("TreeTargets",),
    "_structural_fitted": ("FittedStructural",),
    "_subset": ("SubsetFeatures", "SubsetSpans"),
    "_tree_probe": ("ProbeOrigin", "TreeProbe"),
    "_variational": (
        "codelength_of",
        "variational_codelength",
    ),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _NEEDS_TORCH.items():
        if name in names:
            return getattr(import_module(f"bertology.readouts.{module}"), name)
    raise AttributeError(name)
