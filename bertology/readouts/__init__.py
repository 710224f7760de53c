"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from bertology.readouts._affine import FittedAffine
from bertology.readouts._base import FitReport, FittedReadout, Predictions, Progress, Readout, Targets
from bertology.readouts._bayes import BayesReadout, FittedBayes
from bertology.readouts._codelength import Codelength
from bertology.readouts._erasure import ErasedFeatures, Erasure, LayerErasure, fit_erasure, random_erasure
from bertology.readouts._features import ArrayFeatures, FeatureSource
from bertology.readouts._linear import LinearReadout
from bertology.readouts._lowrank import LowRankReadout
from bertology.readouts._mlp import FittedMlp, MlpReadout
from bertology.readouts._online import FRACTIONS, online_codelength
from bertology.readouts._registry import get_readout, known_readouts
from bertology.readouts._ridge import RidgeReadout
from bertology.readouts._subset import SubsetFeatures
from bertology.readouts._variational import codelength_of, variational_codelength

__all__ = [
    "FRACTIONS",
    "ArrayFeatures",
    "BayesReadout",
    "Codelength",
    "ErasedFeatures",
    "Erasure",
    "FeatureSource",
    "FitReport",
    "FittedAffine",
    "FittedBayes",
    "FittedMlp",
    "FittedReadout",
    "LayerErasure",
    "LinearReadout",
    "LowRankReadout",
    "MlpReadout",
    "Predictions",
    "Progress",
    "Readout",
    "RidgeReadout",
    "SubsetFeatures",
    "Targets",
    "codelength_of",
    "fit_erasure",
    "get_readout",
    "known_readouts",
    "online_codelength",
    "random_erasure",
    "variational_codelength",
]
