"""Encoders: named models, tokens aligned to words, hidden states, attention maps, masked logits and head gates.

Importing this package, resolving a name, hashing a model and reading its shape import no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertology.encoders._fingerprint import model_fingerprint
from bertology.encoders._pieces import Pieces, SkippedWord
from bertology.encoders._resolve import known_models, resolve_model
from bertology.encoders._shape import model_shape
from bertology.encoders._source import ModelShape, ModelSource

if TYPE_CHECKING:
    from bertology.encoders._classifier import class_logits, load_classifier
    from bertology.encoders._devices import bfloat16_is_fast, choose_device
    from bertology.encoders._encoder import Encoder
    from bertology.encoders._load import load_encoder, load_reader
    from bertology.encoders._masked_loss import MaskedLoss, masked_lm_loss
    from bertology.encoders._word_maps import word_attentions

__all__ = [
    "Encoder",
    "MaskedLoss",
    "ModelShape",
    "ModelSource",
    "Pieces",
    "SkippedWord",
    "bfloat16_is_fast",
    "choose_device",
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

_NEED_TORCH = {
    "Encoder": "_encoder",
    "MaskedLoss": "_masked_loss",
    "bfloat16_is_fast": "_devices",
    "choose_device": "_devices",
    "class_logits": "_classifier",
    "load_classifier": "_classifier",
    "load_encoder": "_load",
    "load_reader": "_load",
    "masked_lm_loss": "_masked_loss",
    "word_attentions": "_word_maps",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
