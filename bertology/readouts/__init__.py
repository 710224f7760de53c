"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from bertology._spans import SpanChunk
from bertology.readouts._affine import FittedAffine
from bertology.readouts._base import FitReport, FittedReadout, Predictions, Progress, Readout, Targets
from bertology.readouts._edge import EdgeCatReadout, EdgeCumulativeReadout, EdgeMixReadout, EdgeReadout
from bertology.readouts._edge_fit import SpanReadout
from bertology.readouts._edge_fitted import FittedEdge, FittedPooled
from bertology.readouts._features import ArrayFeatures, FeatureSource
from bertology.readouts._linear import LinearReadout
from bertology.readouts._mlp import FittedMlp, MlpReadout
from bertology.readouts._registry import get_readout, known_readouts
from bertology.readouts._ridge import RidgeReadout
from bertology.readouts._spans import ArraySpans, PooledSpans, SpanSource, WordSpans

__all__ = [
    "ArrayFeatures",
    "ArraySpans",
    "EdgeCatReadout",
    "EdgeCumulativeReadout",
    "EdgeMixReadout",
    "EdgeReadout",
    "FeatureSource",
    "FitReport",
    "FittedAffine",
    "FittedEdge",
    "FittedMlp",
    "FittedPooled",
    "FittedReadout",
    "LinearReadout",
    "MlpReadout",
    "PooledSpans",
    "Predictions",
    "Progress",
    "Readout",
    "RidgeReadout",
    "SpanChunk",
    "SpanReadout",
    "SpanSource",
    "Targets",
    "WordSpans",
    "get_readout",
    "known_readouts",
]
