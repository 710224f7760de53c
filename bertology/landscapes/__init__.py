"""Loss landscapes: the loss of a model around its weights, between models, and along its training.

:func:`landscape` (``_run.py``, to be read first) evaluates one loss on fixed items at many weights (``_losses.py``);
as are sharpness and the ends of the Hessian's spectrum. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.landscapes._losses import placed as placed
    from bertology.landscapes._run import Landscape, landscape
    from bertology.landscapes._settings import LandscapeSettings, load_landscape
    from bertology.landscapes._settings import landscape_schema as landscape_schema

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["Landscape", "LandscapeSettings", "landscape", "load_landscape"]
