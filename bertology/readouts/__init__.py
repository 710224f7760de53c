"""What decodes a signal: readouts that fit every layer, problem and strength at once."""

from typing import TYPE_CHECKING, Any

from bertology.readouts._kinds import ReadoutKind, known_readouts, readout_kind

if TYPE_CHECKING:
    from bertology.readouts._affine import FittedAffine
    from bertology.readouts._base import FitReport, FittedReadout, Predictions, Progress, Readout, Targets
    from bertology.readouts._codelength import Codelength
    from bertology.readouts._features import ArrayFeatures, FeatureSource
    from bertology.readouts._linear import LinearReadout
    from bertology.readouts._mlp import FittedMlp, MlpReadout
    from bertology.readouts._online import FRACTIONS, online_codelength
    from bertology.readouts._registry import get_readout
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
    "ReadoutKind",
    "RidgeReadout",
    "SubsetFeatures",
    "Targets",
    "get_readout",
    "known_readouts",
    "online_codelength",
    "readout_kind",
]

_NEEDS_TORCH = {
    "_affine": ("FittedAffine",),
    "_base": (
        "FitReport",
        "FittedReadout",
        "Predictions",
        "Progress",
        "Readout",
        "Targets",
    ),
    "_codelength": ("Codelength",),
    "_features": (
        "ArrayFeatures",
        "FeatureSource",
    ),
    "_linear": ("LinearReadout",),
    "_mlp": (
        "FittedMlp",
        "MlpReadout",
    ),
    "_online": (
        "FRACTIONS",
        "online_codelength",
    ),
    "_registry": ("get_readout",),
    "_ridge": ("RidgeReadout",),
    "_subset": ("SubsetFeatures",),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _NEEDS_TORCH.items():
        if name in names:
            return getattr(import_module(f"bertology.readouts.{module}"), name)
    raise AttributeError(name)
