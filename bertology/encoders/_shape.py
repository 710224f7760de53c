"""A model's size, read from its configuration without loading anything heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertology.encoders._folder import AGAIN, read_config
from bertology.encoders._quiet import one_line
from bertology.encoders._source import ModelShape, ModelSource
from bertology.errors import ModelError

# What the families call the same thing; of an encoder-decoder the encoder's own count comes first.
_LAYERS = ("encoder_layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers")
_DIM = ("hidden_size", "d_model", "n_embd", "dim")
_MOST_LAYERS, _MOST_DIMENSIONS = 1_000, 1 << 20
"""Far beyond any encoder: a damaged number must not make one be built."""
_HEADS = ("encoder_attention_heads", "num_attention_heads", "n_head", "num_heads", "n_heads")


def model_shape(source: ModelSource) -> ModelShape:
    """The number of layers, their width and heads, and the family of a model.

    Read from ``config.json`` alone. A field that the file leaves to the library's default is looked up there, which
    is the only case that imports transformers.

    Raises:
        ModelError: the configuration is missing or does not tell.
    """
    config = read_config(source.folder)
    family = config.get("model_type")
    if not isinstance(family, str):
        raise ModelError(f"{source.folder / 'config.json'}: no model_type, so the architecture is not known; add it")
    values = [_first_of(config, names) for names in (_LAYERS, _DIM, _HEADS)]
    if None in values:
        defaults = _defaults(source, config)
        values = [
            given or _first_of(defaults, names) for given, names in zip(values, (_LAYERS, _DIM, _HEADS), strict=True)
        ]
    for value, what, names in zip(values, ("layers", "hidden size", "heads"), (_LAYERS, _DIM, _HEADS), strict=True):
        if value is None:
            raise ModelError(
                f"{source.folder / 'config.json'}: no {what} (one of {', '.join(names)}): not an encoder of text"
            )
    n_layers, dim, n_heads = (value for value in values if value is not None)
    if family == "albert":
        inner = config.get("inner_group_num", 1)
        n_layers *= inner if isinstance(inner, int) else 1
    if n_layers > _MOST_LAYERS or dim > _MOST_DIMENSIONS:
        raise ModelError(
            f"{source.folder / 'config.json'}: more than {_MOST_LAYERS:,} layers, or than {_MOST_DIMENSIONS:,} "
            "dimensions: not an encoder of text"
        )
    return ModelShape(n_layers, dim, n_heads, family)


def _first_of(config: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _defaults(source: ModelSource, config: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration with the library's defaults filled in."""
    from transformers import CONFIG_MAPPING

    family = config["model_type"]
    if family not in CONFIG_MAPPING:
        raise ModelError(f"{source.folder / 'config.json'}: model_type {family!r} is not known to transformers")
    with one_line(f"{source.folder / 'config.json'}: not a usable configuration", remedy=AGAIN):
        filled = CONFIG_MAPPING[family](**config)
    return {name: getattr(filled, name, None) for names in (_LAYERS, _DIM, _HEADS) for name in names}
