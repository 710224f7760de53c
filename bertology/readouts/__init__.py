"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from bertology.readouts._base import FitReport, FittedReadout, Predictions, Progress, Readout, Targets
from bertology.readouts._features import ArrayFeatures, FeatureSource
from bertology.readouts._linear import FittedLinear, LinearReadout
from bertology.readouts._registry import get_readout, known_readouts

__all__ = [
    "ArrayFeatures",
    "FeatureSource",
    "FitReport",
    "FittedLinear",
    "FittedReadout",
    "LinearReadout",
    "Predictions",
    "Progress",
    "Readout",
    "Targets",
    "get_readout",
    "known_readouts",
]
