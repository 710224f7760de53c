"""The shape of Pocket BERT, and its folder in Hugging Face layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertology._files import write_atomically
from bertology.errors import BertologyError
from bertology.pocket._settings import PretrainSettings
from bertology.pocket._tokenizer import save_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining


def new_model(settings: PretrainSettings, vocabulary_size: int) -> BertForPreTraining:
    """A BERT with fresh weights, which the seed decides."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.inner_width,
        max_position_embeddings=settings.max_pieces,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        initializer_range=settings.initializer_range,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return BertForPreTraining(config)


def save_model(model: BertForPreTraining, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a model folder: weights as float16, to be loaded as float32.

    Raises:
        BertologyError: a weight is not finite, or too large for float16; nothing is written.
    """
    import torch
    from safetensors.torch import save

    weights = {}
    for name, tensor in model.state_dict().items():
        tied = name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
        if not tied and tensor.is_floating_point():
            weights[name] = tensor.detach().to("cpu", torch.float16).contiguous()
            if not torch.isfinite(weights[name]).all():
                raise BertologyError(
                    f"{folder}: a weight of {name} is not finite in float16: lower learning_rates or initializer_range"
                )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    config: dict[str, Any] = model.config.to_dict()
    config |= {"architectures": ["BertForPreTraining"], "dtype": "float32"}
    write_atomically(folder / "config.json", (json.dumps(config, indent=2, sort_keys=True) + "\n").encode())
    save_tokenizer(tokenizer, folder, max_pieces=model.config.max_position_embeddings)
