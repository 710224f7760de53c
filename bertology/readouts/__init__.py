"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from bertology.readouts._affine import FittedAffine
from bertology.readouts._base import FitReport, FittedReadout, Predictions, Progress, Readout, Targets
from bertology.readouts._codelength import Codelength
from bertology.readouts._features import ArrayFeatures, FeatureSource
from bertology.readouts._linear import LinearReadout
from bertology.readouts._mlp import FittedMlp, MlpReadout
from bertology.readouts._online import FRACTIONS, online_codelength
from bertology.readouts._registry import get_readout, known_readouts
from bertology.readouts._ridge import RidgeReadout
from bertology.readouts._subset import SubsetFeatures

__all__ = [
    "FRACTIONS",
    "ArrayFeatures",
    "Codelength",
    "FeatureSource",
    "FitReport",
    "FittedAffine",
    "FittedMlp",
    "FittedReadout",
    "LinearReadout",
    "MlpReadout",
    "Predictions",
    "Progress",
    "Readout",
    "RidgeReadout",
    "SubsetFeatures",
    "Targets",
    "get_readout",
    "known_readouts",
    "online_codelength",
]
