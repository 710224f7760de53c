"""Encoders: names resolved to models, text aligned to pieces, hidden states, attention maps and masked-LM logits.

:class:`Encoder` (``_encoder.py``, to be read first) is what :func:`load_encoder` returns. Sub-packages: ``loading``
finds and loads models, ``alignment`` cuts text into pieces and finds words among them. Five modules are public:
``interventions`` (looking into a running model and changing it), ``resuming`` (passes through its upper blocks alone),
``batching`` (what is read together), ``masked_loss`` and ``decoder`` (attention of an encoder-decoder's other half).
Importing this package, resolving a name, hashing a model and reading its shape import no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.encoders.alignment.encodings import Encoding
from bertology.encoders.alignment.pieces import OnLong, Pieces, Pooling
from bertology.encoders.loading.checkpoints import Checkpoint, find_checkpoints
from bertology.encoders.loading.copies import ModelCopy, model_copies, prune_copies
from bertology.encoders.loading.description import (
    Init,
    ModelShape,
    ModelSource,
    code_fingerprint,
    model_fingerprint,
    model_shape,
)
from bertology.encoders.loading.resolve import held_dtype, known_models, resolve_model

if TYPE_CHECKING:
    from bertology.encoders._encoder import Encoder
    from bertology.encoders._heads import CausalHead
    from bertology.encoders._labelled import EncoderRun, LabelledArray, layers_from_end
    from bertology.encoders.alignment.words import WordPooling, word_attentions
    from bertology.encoders.interventions import Intervention
    from bertology.encoders.loading.load import load_classifier, load_encoder, load_reader
    from bertology.encoders.loading.memory import in_memory, model_name, model_names, open_encoder
    from bertology.encoders.loading.module import ModuleAdapter
    from bertology.encoders.loading.saving import save_model
    from bertology.encoders.loading.tuning import HeadKind, TunableModel, load_tunable
    from bertology.encoders.loading.whole import WholeModel, load_whole
    from bertology.encoders.masked_loss import masked_lm_loss

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "CausalHead",
    "Checkpoint",
    "Encoder",
    "EncoderRun",
    "Encoding",
    "HeadKind",
    "Init",
    "Intervention",
    "LabelledArray",
    "ModelCopy",
    "ModelShape",
    "ModelSource",
    "ModuleAdapter",
    "OnLong",
    "Pieces",
    "Pooling",
    "TunableModel",
    "WholeModel",
    "WordPooling",
    "code_fingerprint",
    "find_checkpoints",
    "held_dtype",
    "in_memory",
    "known_models",
    "layers_from_end",
    "load_classifier",
    "load_encoder",
    "load_reader",
    "load_tunable",
    "load_whole",
    "masked_lm_loss",
    "model_copies",
    "model_fingerprint",
    "model_name",
    "model_names",
    "model_shape",
    "open_encoder",
    "prune_copies",
    "resolve_model",
    "save_model",
    "word_attentions",
]
