"""Models that a person has in memory: transformers models with their tokenizer, and encoders.

Everything else reads a model from its files, by a name: it can then be read again by another process, drawn anew as
the random baseline, and found by its fingerprint a year later. So a model in memory gets files: those it was loaded
from, where it is still what they hold, else a copy in the cache folder, named by the hash of its content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from bertology._files import cache_folder, explained_write_errors
from bertology._temporary import sweep, temporary_folder
from bertology.encoders._encoder import Encoder
from bertology.encoders.loading.copies import MODELS
from bertology.encoders.loading.description import MemorySource, ModelSource, config_content, model_fingerprint
from bertology.encoders.loading.load import load_encoder
from bertology.encoders.loading.module import module_source
from bertology.encoders.loading.quiet import quiet_loading
from bertology.encoders.loading.resolve import resolve_model
from bertology.errors import BertologyError, ModelError

_REMEDY = "name another folder in BERTOLOGY_CACHE"
_PAIR = "give the model and its tokenizer, (model, tokenizer)"


def model_name(model: object, *, name: str | None = None) -> str:
    """The name by which a model is found again: its folder, for a model in memory.

    Args:
        model: a name or folder, which is returned as it is; an :class:`Encoder`; a transformers model and its
            tokenizer ``(model, tokenizer)``; or anything that has both, such as a transformers pipeline.
        name: what tables call a model in memory whose files are none of a person's: the name that it was loaded by
            when left out.

    Raises:
        ModelError: it is no such object, its tokenizer is missing or does not fit, or it has no weights.
    """
    if isinstance(model, str | Path):
        return str(model)
    if isinstance(model, Encoder) and (known := _name_of_encoder(model)) is not None:
        return known
    return str(in_memory(*_parts_of(model), name=name).folder)


def in_memory(model: Any, tokenizer: Any, *, name: str | None = None, adapter: Any = None) -> ModelSource:
    """A transformers model by its files, those it was loaded from or a copy in the cache folder; or a module.

    Args:
        model: a ``PreTrainedModel``, with or without a head, on any device, in training mode or not.
        tokenizer: the fast tokenizer that belongs to it.
        name: as in :func:`model_name`.
        adapter: of a PyTorch module of one's own, a :class:`ModuleAdapter`: it has no files and is known by ``name``.

    Raises:
        ModelError: the two do not fit, or the model has no weights.
    """
    if adapter is not None:
        return module_source(model, tokenizer, adapter, name=name or type(model).__name__)
    _check(model, tokenizer)
    called = str(getattr(model, "name_or_path", "") or "")
    if name is None and (origin := _origin(called)) is not None and _is_unchanged(model, tokenizer, origin):
        return origin
    title = re.sub(r"[^\w.-]+", "-", name or Path(called).name).strip(".-") or type(model).__name__
    return ModelSource(title, _saved(model, tokenizer, title))


def _name_of_encoder(encoder: Encoder) -> str | None:
    """The name of an encoder whose weights are those of its files; None for one whose weights were changed."""
    if encoder.init != "pretrained":
        raise ModelError(
            f"model {encoder.name}: an encoder with random weights is asked for by the model's name, with init='random'"
        )
    if encoder.is_gated:
        raise ModelError(f"model {encoder.name}: its heads are gated; leave gated_heads first")
    if isinstance(encoder.source, MemorySource):
        return encoder.source.name
    stored = load_encoder(encoder.source, dtype=encoder.dtype, device="cpu")
    if not _same_weights(stored.model.outermost, encoder.model.outermost):
        return None
    return encoder.name if encoder.source.revision is None else str(encoder.source.folder)


def _same_weights(one: torch.nn.Module, other: torch.nn.Module, *, but: Collection[str] = ()) -> bool:
    """Whether two models have the same weights, those ``but`` left out that no file has and each loading draws anew."""
    weights = other.state_dict()
    return one.state_dict().keys() == weights.keys() and all(
        key in but or torch.equal(value, weights[key].cpu()) for key, value in one.state_dict().items()
    )


def _parts_of(model: object) -> tuple[Any, Any]:
    """The transformers model and the tokenizer of an object that has both."""
    if isinstance(model, tuple) and len(model) == 2:
        return model
    if isinstance(model, Encoder):
        return model.model.outermost, model.tokenizer
    if not (hasattr(model, "model") and hasattr(model, "tokenizer")):
        raise ModelError(f"model: a {type(model).__name__} is no name, and has no tokenizer; {_PAIR}")
    return model.model, model.tokenizer


def _check(model: Any, tokenizer: Any) -> None:
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        raise ModelError(f"model: a {type(model).__name__} is no model of transformers; {_PAIR}, or use ModuleAdapter")
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"model {type(model).__name__}: its tokenizer, a {type(tokenizer).__name__}, gives no character offsets; "
            "give a fast one (AutoTokenizer.from_pretrained)"
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ModelError(f"model {type(model).__name__}: its weights are on the meta device; load them first")
    embeddings: Any = model.get_input_embeddings()
    highest, rows = max(tokenizer.get_vocab().values()), int(embeddings.num_embeddings)
    if highest >= rows:
        raise ModelError(
            f"model {type(model).__name__}: the tokenizer does not fit it (its numbers go up to {highest:,}, the "
            f"embeddings have {rows:,} rows); give the tokenizer that belongs to the model"
        )


def _origin(called: str) -> ModelSource | None:
    """Where a model says that it was loaded from, if there is such a model on this machine."""
    if not called:
        return None
    try:
        return resolve_model(called)
    except BertologyError:
        return None  # moved, deleted or made up: what is in memory counts


def _is_unchanged(model: Any, tokenizer: Any, origin: ModelSource) -> bool:
    """Whether a model in memory is what the files hold: configuration, weights and tokenizer."""
    from bertology.encoders.loading.tokenizer import load_tokenizer

    try:
        with quiet_loading():
            stored, report = type(model).from_pretrained(origin.folder, dtype=model.dtype, output_loading_info=True)
            vocabulary = load_tokenizer(origin)
    except (OSError, ValueError, RuntimeError, BertologyError):
        return False  # files that this class cannot be read from are not those of this model
    return (
        _config_content(stored) == _config_content(model)
        and _tokenizer_content(vocabulary) == _tokenizer_content(tokenizer)
        and _same_weights(stored, model, but=report["missing_keys"])
    )


def _config_content(model: Any) -> bytes:
    return config_content({key: value for key, value in model.config.to_dict().items() if key != "use_cache"})


def _tokenizer_content(tokenizer: Any) -> tuple[dict[str, Any], dict[str, Any], int]:
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    # How texts are cut and filled up is decided by who reads them.
    left = {key: value for key, value in content.items() if key not in ("truncation", "padding")}
    return left, dict(tokenizer.special_tokens_map), tokenizer.model_max_length


def _saved(model: Any, tokenizer: Any, title: str) -> Path:
    """The folder of a copy in the cache folder, written where there is none with this content."""
    parent = cache_folder() / MODELS
    with explained_write_errors(parent, remedy=_REMEDY):
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        with temporary_folder(parent, title) as made:
            copy = made / title
            with quiet_loading():
                # But for a pooler under no head: it is part of no signal, and drawn anew where files lack it.
                is_bare, weights = model.base_model is model, model.state_dict()
                kept = {key: value for key, value in weights.items() if not (is_bare and key.startswith("pooler."))}
                model.save_pretrained(copy, state_dict=kept)
                tokenizer.save_pretrained(copy)
            folder = parent / model_fingerprint(ModelSource(title, copy)) / title
            if not folder.is_dir():
                folder.parent.mkdir(exist_ok=True)
                copy.rename(folder)
    return folder
