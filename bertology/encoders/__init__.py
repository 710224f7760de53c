"""Encoders: named models, tokens aligned to words, hidden states, attention maps, masked logits and head gates.

Importing this package, resolving a name, hashing a model and reading its shape import no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.encoders._fingerprint import model_fingerprint
from bertology.encoders._pieces import OnLong, Pieces, Pooling
from bertology.encoders._resolve import known_models, resolve_model
from bertology.encoders._shape import model_shape
from bertology.encoders._source import Init, ModelShape, ModelSource

if TYPE_CHECKING:
    from bertology.encoders._classifier import class_logits, load_classifier
    from bertology.encoders._encoder import Encoder
    from bertology.encoders._load import load_encoder, load_reader
    from bertology.encoders._pooling import WordPooling
    from bertology.encoders._word_maps import word_attentions
    from bertology.encoders.masked_loss import MaskedLoss, masked_lm_loss

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Encoder",
    "Init",
    "MaskedLoss",
    "ModelShape",
    "ModelSource",
    "OnLong",
    "Pieces",
    "Pooling",
    "WordPooling",
    "class_logits",
    "known_models",
    "load_classifier",
    "load_encoder",
    "load_reader",
    "masked_lm_loss",
    "model_fingerprint",
    "model_shape",
    "resolve_model",
    "word_attentions",
]
