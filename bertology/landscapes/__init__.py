"""Loss landscapes: the loss of a model around its weights, between models, and along its training.

:func:`landscape` (``_run.py``) evaluates one loss on fixed items at many weights, and there the sharpness of the loss
and the ends of its Hessian's spectrum. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.landscapes._run import Landscape, landscape
    from bertology.landscapes._run import placed as placed
    from bertology.landscapes._settings import LandscapeSettings, load_landscape
    from bertology.landscapes._settings import landscape_schema as landscape_schema

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["Landscape", "LandscapeSettings", "landscape", "load_landscape"]
