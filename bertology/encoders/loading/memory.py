"""Models that a person has in memory: transformers models with their tokenizer, and encoders.

The object itself runs. Where it is what files hold, in every weight, attribute and function, and returns what they
return, it is known by these files, so that results are shared with them, other processes can read it, and a run can be
repeated: the files that it was loaded from, or a copy in the cache folder, named by the hash of its content. Any other
object (with hooks, functions or classes of one's own, adapters, in half precision …) is known in this process alone,
and what runs is a copy of it that was compared with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertology._files import cache_folder, explained_write_errors
from bertology._temporary import sweep, temporary_folder
from bertology.encoders._encoder import Encoder
from bertology.encoders._modules import LoadedModel, check_unfamiliar, find_blocks
from bertology.encoders.loading.contents import Description, content_digest, tokenizer_content
from bertology.encoders.loading.copies import MODELS
from bertology.encoders.loading.description import (
    MemorySource,
    ModelShape,
    ModelSource,
    model_fingerprint,
    shape_of,
)
from bertology.encoders.loading.folder import read_config
from bertology.encoders.loading.held import (
    HeldSource,
    Returned,
    checked,
    difference,
    own_tokenizer,
    redrawn,
    returned_by,
    returned_in,
    snapshot,
)
from bertology.encoders.loading.load import body_of, copy_embeddings, load_encoder
from bertology.encoders.loading.module import ModuleBody, module_source
from bertology.encoders.loading.quiet import quiet_loading
from bertology.encoders.loading.resolve import keep_source, resolve_model
from bertology.encoders.loading.saving import save_model
from bertology.encoders.loading.tokenizer import load_tokenizer
from bertology.errors import BertologyError, ModelError

_REMEDY = "name another folder in BERTOLOGY_CACHE"
_PAIR = "give the model and its tokenizer, (model, tokenizer)"
_IN_MEMORY = "(in memory)"


def model_name(model: object, *, name: str | None = None) -> str:
    """The name by which a model is found again in this process: its folder, of a model in memory that files hold.

    Args:
        model: a name or folder, which is returned as it is; an :class:`Encoder`; a transformers model and its
            tokenizer ``(model, tokenizer)``; or anything that has both, such as a transformers pipeline.
        name: what tables call a model in memory: the name that it was loaded by, and ``(in memory)`` where it is no
            longer what was loaded, when left out.

    Raises:
        ModelError: it is no such object, its tokenizer is missing or does not fit, it has no weights, or it does not
            return the same for the same text.
    """
    return str(model) if isinstance(model, str | Path) else _name_of(_source_of(model, name), model)


def model_names(models: Sequence[object], names: Sequence[str | None] | None = None) -> list[str]:
    """:func:`model_name` of several models, where ``names`` call those in memory; those of one name are numbered.

    Raises:
        ModelError: as of :func:`model_name`; or there are not as many names as models, or one for a model that has one.
    """
    called = list(names) if names is not None else [None] * len(models)
    if len(called) != len(models):
        raise ModelError(f"names: {len(called)} for {len(models)} models; give one for each, None for those of files")
    given = [name for name in called if name is not None]
    if doubled := next((name for name in given if given.count(name) > 1), None):
        raise ModelError(f"names: {doubled} is given twice; give each model a name of its own")
    found: list[str] = []
    known: dict[str, str] = {}
    for model, name in zip(models, called, strict=True):
        if isinstance(model, str | Path):
            if name is not None:
                raise ModelError(f"names: model {model} has a name; give None for it, and names for models in memory")
            found.append(str(model))
            continue
        source = _source_of(model, name)
        content = model_fingerprint(source)
        if source.title in known and known[source.title] != content:
            source = _source_of(model, source.title.replace(_IN_MEMORY, f"(in memory {len(found) + 1})"))
        known[source.title] = content
        found.append(_name_of(source, model))
    return found


def open_encoder(model: Any, **loading: Any) -> Encoder:
    """The encoder of a name, a folder or a model in memory, an :class:`Encoder` as it is.

    Args:
        model: as of :func:`model_name`.
        loading: as of :func:`load_encoder`, of a model that is not loaded yet.

    Raises:
        ModelError: as of :func:`model_name` and :func:`load_encoder`.
    """
    if isinstance(model, Encoder):
        return model
    is_named = isinstance(model, str | Path)
    return load_encoder(str(model) if is_named else _source_of(model, None), **loading)


def in_memory(model: Any, tokenizer: Any, *, name: str | None = None, adapter: Any = None) -> ModelSource:
    """A model of transformers in memory: the files that hold it, or the object as it is; or a module of one's own.

    Args:
        model: a ``PreTrainedModel``, with or without a head, on any device, in training mode or not; also one that
            ``torch.compile``, ``DataParallel`` or peft have wrapped.
        tokenizer: the fast tokenizer that belongs to it.
        name: as in :func:`model_name`.
        adapter: of a PyTorch module of one's own, a :class:`ModuleAdapter`: it has no files and is known by ``name``.

    Raises:
        ModelError: the two do not fit, the model has no weights, or does not return the same for the same text.
    """
    if adapter is not None:
        return module_source(model, tokenizer, adapter, name=name or type(model).__name__)
    return _Object(model, tokenizer, name, None).source()


def _source_of(model: object, name: str | None) -> ModelSource:
    """A model in memory, and what it is known by."""
    if not isinstance(model, Encoder):
        return in_memory(*_parts_of(model), name=name)
    if model.init != "pretrained":
        raise ModelError(
            f"model {model.name}: an encoder with random weights is asked for by the model's name, with init='random'"
        )
    if model.is_gated:
        raise ModelError(f"model {model.name}: its heads are gated; leave gated_heads first")
    body, is_held = model.model.body, isinstance(model.source, MemorySource)
    called = name or (model.name if is_held else None)
    if isinstance(body, ModuleBody):
        return module_source(body.module, model.tokenizer, body.adapter, name=called or model.name)
    return _Object(model.model.outermost, model.tokenizer, called, None if is_held else model.source).source()


def _name_of(source: ModelSource, model: object) -> str:
    """The name by which :func:`resolve_model` finds a source."""
    is_found = isinstance(source, HeldSource)
    if not is_found and isinstance(model, Encoder) and source.revision is None:
        is_found = (known := _found(source.name)) is not None and known.folder == source.folder
    return source.name if is_found else str(source.folder)


def _parts_of(model: object) -> tuple[Any, Any]:
    """The transformers model and the tokenizer of an object that has both."""
    if isinstance(model, tuple) and len(model) == 2:
        return model
    if not (hasattr(model, "model") and hasattr(model, "tokenizer")):
        raise ModelError(f"model: a {type(model).__name__} is no name, and has no tokenizer; {_PAIR}")
    return model.model, model.tokenizer


def _unwrapped(model: Any) -> tuple[Any, Any]:
    """What runs of an object, and the model of transformers in it, without ``torch.compile`` and the like."""
    runs = model
    while isinstance(model, nn.Module):
        if isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            inside = runs = inner
        elif isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inside = runs = model.module
        elif type(model).__module__.startswith("peft.") and hasattr(model, "get_base_model"):
            inside = model.get_base_model()  # type: ignore[operator]
        else:
            break
        if model._forward_hooks or model._forward_pre_hooks:
            raise ModelError(f"model {type(model).__name__}: hooks of a wrapper; put them on the model that it wraps")
        model = inside
    return runs, model


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


def _found(called: str) -> ModelSource | None:
    """The model of a name, if there is one on this machine."""
    if not called:
        return None
    try:
        return resolve_model(called)
    except BertologyError:
        return None  # moved, deleted or made up: what is in memory counts


def _title(name: str) -> str:
    """A name that a folder can have."""
    plain, where, number = re.sub(r" \(in memory", "\0(in memory", name).partition("\0")
    return (re.sub(r"[^\w.-]+", "-", plain).strip(".-") or "model") + (f" {number}" if where else "")


class _Object:
    """A model of transformers in memory, and all that tells whether files hold it."""

    def __init__(self, given: Any, tokenizer: Any, name: str | None, origin: ModelSource | None) -> None:
        self._runs, self._model = _unwrapped(given)
        _check(self._model, tokenizer)
        self._given, self._tokenizer, self._name = tokenizer, own_tokenizer(tokenizer), name
        called = str(getattr(self._model, "name_or_path", "") or "")
        self._origin, self._is_encoder = origin or _found(called), origin is not None
        self._title = _title(name or f"{Path(called).name or type(self._model).__name__} {_IN_MEMORY}")
        self._parts, self._size = _taken_apart(self._model, self._title)
        # Of a pooler under no head no signal is made, and files that lack it have it drawn anew each time.
        is_bare = self._model.base_model is self._model
        self._without = {key for key in self._model.state_dict() if is_bare and key.startswith("pooler.")}

    def source(self) -> ModelSource:
        """What the model is known by."""
        description = Description()
        described = description.of_module(self._model, without=self._without)
        is_of_body = self._model.config.is_encoder_decoder
        runs = self._parts.body if is_of_body else self._runs
        returned = returned_by(runs, self._parts, self._tokenizer, name=self._title)
        if not description.foreign and self._runs is self._model and self._could_be_loaded():
            if self._name is None and self._origin and self._is_in(self._origin, described, returned):
                return self._origin
            if (folder := self._saved(described, returned)) is not None:
                return ModelSource(self._title, folder)
        return self._held(content_digest([described, tokenizer_content(self._tokenizer)]), returned)

    def _could_be_loaded(self) -> bool:
        """Whether its modules are those that its class makes of its configuration, in float32."""
        kind, config = type(self._model), self._model.config
        if not kind.__module__.startswith("transformers.") or any(
            weight.dtype != torch.float32 for weight in self._model.parameters()
        ):
            return False
        with quiet_loading(), torch.device("meta"):
            fresh = kind._from_config(type(config).from_dict(config.to_dict()))
        stock, own = (
            [(name, type(part)) for name, part in model.named_modules(remove_duplicate=False)]
            for model in (fresh, self._model)
        )
        return stock == own

    def _is_in(self, source: ModelSource, described: list[Any], returned: Returned) -> bool:
        """Whether files hold the model, tokenizer and heads included, and return the same for a few texts."""
        kind = type(self._model)
        try:
            # Further heads of an encoder are read from its files; those that a model lacks are none of its own.
            has_heads = self._is_encoder and source == self._origin
            if not has_heads and read_config(source.folder).get("architectures") not in (None, [kind.__name__]):
                return False
            encoder = load_encoder(source, dtype="float32", device="cpu")
            stored, missing = encoder.model.outermost, set[str]()
            if type(stored) is not kind:
                with quiet_loading():
                    stored, report = kind.from_pretrained(source.folder, dtype=torch.float32, output_loading_info=True)
                missing = set(report["missing_keys"])
            of_files = tokenizer_content(load_tokenizer(source))
        except (OSError, ValueError, RuntimeError, BertologyError):
            return False  # files that this class cannot be read from are not those of this model
        return (
            missing <= self._without
            and of_files == tokenizer_content(self._given)
            and Description().of_module(stored, without=self._without) == described
            and difference(returned, returned_in(encoder), dtype="float32") is None
        )

    def _saved(self, described: list[Any], returned: Returned) -> Path | None:
        """The folder of a copy in the cache folder; None where a model that is loaded from it is not the same."""
        parent = cache_folder() / MODELS
        with explained_write_errors(parent, remedy=_REMEDY):
            parent.mkdir(parents=True, exist_ok=True)
            sweep(parent)
            with temporary_folder(parent, self._title) as made:
                copy = made / self._title
                save_model(self._model, copy, tokenizer=self._given, left_out=self._without)
                source = ModelSource(self._title, copy)
                if not self._is_in(source, described, returned):
                    return None
                folder = parent / model_fingerprint(source) / self._title
                if not folder.is_dir():
                    folder.parent.mkdir(exist_ok=True)
                    copy.rename(folder)
        return folder

    def _held(self, content: str, returned: Returned) -> HeldSource:
        """The model as the object that it is."""
        held = snapshot(self._parts)
        held.body.config.use_cache = False  # type: ignore[union-attr]
        check_unfamiliar(held.body, held.blocks, family=self._size.family)
        fresh = partial(redrawn, held, self._title, copy_embeddings=copy_embeddings)
        facts: dict[str, Any] = {"held": held, "tokenizer": self._tokenizer, "size": self._size, "fresh": fresh}
        source = HeldSource(self._title, Path(self._title), content=content, **facts)
        source = checked(source, returned, list(self._runs.modules()))
        keep_source(source)
        return source


def _taken_apart(model: Any, name: str) -> tuple[LoadedModel, ModelShape]:
    """The parts of a model of transformers, with the heads that it has."""
    from transformers.models.auto import modeling_auto as known

    config = model.config
    size = shape_of(config.to_dict(), f"model {name}, its configuration")
    body = body_of(model)
    blocks = find_blocks(body, n_layers=size.n_layers, family=size.family)

    def as_one(mapping: Any) -> Any:
        is_one = type(config) in mapping and isinstance(model, mapping[type(config)])
        return model if is_one and not config.is_encoder_decoder else None

    masked = as_one(known.MODEL_FOR_MASKED_LM_MAPPING)
    classifier = as_one(known.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING)
    return LoadedModel(body, blocks, masked, classifier=classifier, whole=model), size
