"""Loss landscapes: the loss of a model around its weights, between models, and along its training.

:func:`landscape` (``_run.py``, to be read first) evaluates one loss (``_losses.py``) on fixed items at many weights:
random directions and planes are in ``_weights.py``, sharpness and the top eigenvalue of the Hessian in
``_curvature.py``. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.landscapes._curvature import Eigenvalue, Sharpness, sharpness, top_eigenvalue
    from bertology.landscapes._losses import Loss, mean_loss
    from bertology.landscapes._result import Landscape
    from bertology.landscapes._run import landscape
    from bertology.landscapes._settings import LandscapeSettings, landscape_schema, load_landscape
    from bertology.landscapes._weights import filter_normalised, placed, weights_of

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Eigenvalue",
    "Landscape",
    "LandscapeSettings",
    "Loss",
    "Sharpness",
    "filter_normalised",
    "landscape",
    "landscape_schema",
    "load_landscape",
    "mean_loss",
    "placed",
    "sharpness",
    "top_eigenvalue",
    "weights_of",
]
