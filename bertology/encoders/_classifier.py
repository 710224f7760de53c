"""Models fine-tuned to sort texts into classes, read as encoders with a classifier on top."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bertology.encoders._blocks import find_blocks, gradients_if
from bertology.encoders._encoder import Encoder
from bertology.encoders._load import load_encoder
from bertology.encoders._loaded import LoadedModel, no_parameters_learn
from bertology.encoders._quiet import quiet_loading
from bertology.encoders._source import ModelSource
from bertology.encoders.interventions import need_gradients
from bertology.errors import ModelError


def load_classifier(name_or_source: str | ModelSource, *, device: str = "auto", dtype: str = "float32") -> Encoder:
    """Load a model that was fine-tuned to sort texts, in evaluation mode.

    Its encoder is read as any other; :func:`class_logits` asks the classifier on top of it.

    Args:
        name_or_source: a folder or a hub id of a model saved with its classifier.
        device: as in :func:`load_encoder`.
        dtype: as in :func:`load_encoder`.

    Raises:
        NameNotFoundError: there is no such model.
        ModelError: the model cannot be loaded, or was not saved with a classifier.
    """
    from transformers import AutoModelForSequenceClassification
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    encoder = load_encoder(name_or_source, device=device, dtype=dtype)
    body: Any = encoder.model.body
    if body.config.is_encoder_decoder or type(body.config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise ModelError(f"model {encoder.name}: no classifier of texts is known for {encoder.family} models")
    kind: Any = AutoModelForSequenceClassification
    with quiet_loading():
        model, report = kind.from_pretrained(
            encoder.source.folder, dtype=getattr(torch, dtype), output_loading_info=True
        )
    if report["missing_keys"]:
        lost = min(report["missing_keys"])
        raise ModelError(
            f"model {encoder.name}: no classifier in its weights ({lost} is missing); choose a model that was "
            "fine-tuned to sort texts"
        )
    no_parameters_learn(model)
    model.to(encoder.device)
    model.config.use_cache = False
    body = model.base_model
    blocks = find_blocks(body, n_layers=encoder.n_layers, family=encoder.family)
    encoder.model = LoadedModel(body, blocks, None, model)
    return encoder


def class_logits(
    encoder: Encoder,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    token_type_ids: Tensor | None = None,
) -> Tensor:
    """What the classifier on top of an encoder says of some texts: ``[batch, class]`` logits.

    Args:
        encoder: from :func:`load_classifier`.
        input_ids: ``[batch, piece]``
        attention_mask: ``[batch, piece]``
        token_type_ids: ``[batch, piece]``

    Raises:
        ModelError: the encoder has no classifier.
        SignalError: logits that are not finite.
    """
    model = encoder.model.classifier
    if model is None:
        raise ModelError(f"model {encoder.name} has no classifier of texts: load one with load_classifier")
    given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
    inputs = {name: value.to(encoder.device) for name, value in given.items() if value is not None}
    with gradients_if(need_gradients(encoder._gates)):
        logits: Tensor = model(**inputs, return_dict=True).logits
    encoder.check_finite("class logits", {encoder.n_layers: logits})
    return logits
