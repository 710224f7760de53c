"""Encoders: names resolved to models, text aligned to pieces, hidden states, attention maps and masked-LM logits.

:func:`load_encoder` returns an :class:`Encoder` (``encoder.py``, to be read first). On the way to it, ``sources``
finds the files of a model, reads and hashes them, ``loading`` makes an encoder of them, ``memory`` of an
object. ``alignment`` cuts text into pieces and finds words among them, ``batching`` reads pieces together,
``interventions`` looks into a running model and changes it; ``heads``, ``masked_loss``, ``weights`` and
``tokenization`` look at one thing each. Importing this package, resolving a name, hashing a model and reading its shape
import no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.encoders.alignment import Pieces
    from bertology.encoders.batching import Encoding
    from bertology.encoders.encoder import Encoder, LabelledArray
    from bertology.encoders.interventions import Intervention
    from bertology.encoders.loading import load_encoder
    from bertology.encoders.masked_loss import masked_lm_loss
    from bertology.encoders.memory import ModuleAdapter, in_memory, model_name, open_encoder, side_by_side
    from bertology.encoders.sources import ModelShape, ModelSource, model_fingerprint, model_shape, resolve_model

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Encoder",
    "Encoding",
    "Intervention",
    "LabelledArray",
    "ModelShape",
    "ModelSource",
    "ModuleAdapter",
    "Pieces",
    "in_memory",
    "load_encoder",
    "masked_lm_loss",
    "model_fingerprint",
    "model_name",
    "model_shape",
    "open_encoder",
    "resolve_model",
    "side_by_side",
]
