"""Load an encoder: its tokenizer, its weights or fresh ones, and checks that nothing is silently wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from bertology._languages_apart import read_languages_apart
from bertology._memory import explained_shortage
from bertology._workers import choose_device
from bertology.encoders._encoder import Encoder
from bertology.encoders._modules import (
    LoadedModel,
    check_unfamiliar,
    damaged_weight,
    find_blocks,
    no_parameters_learn,
    refused_weight,
)
from bertology.encoders.alignment.pieces import PieceReader
from bertology.encoders.loading.configuration import claims_masked_lm_head, load_config
from bertology.encoders.loading.description import Init, MemorySource, ModelShape, ModelSource, model_shape
from bertology.encoders.loading.folder import AGAIN, check_safetensors, tokenizer_files, weight_files
from bertology.encoders.loading.quiet import one_line, quiet_loading
from bertology.encoders.loading.resolve import resolve_model
from bertology.encoders.loading.tokenizer import load_tokenizer, piece_reader
from bertology.errors import ModelError, SignalError

# What architectures call the modules that come before their first block.
_BELOW_BLOCKS = (
    *("embeddings", "embeddings_project", "encoder.embedding_hidden_mapping_in"),
    *("embed_tokens", "embed_positions", "layernorm_embedding", "wte", "wpe"),
)
_SMALLER = "compute in bfloat16 (--dtype), run fewer processes (--jobs), or take a smaller model"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_encoder(
    name_or_source: str | Path | ModelSource,
    *,
    init: Init = "pretrained",
    seed: int = 0,
    dtype: str | None = None,
    device: str = "auto",
    trust_remote_code: bool = False,
    revision: str | None = None,
    attention: Literal["fast", "eager"] = "fast",
    max_pieces: int | None = None,
) -> Encoder:
    """Load an encoder, in evaluation mode.

    Args:
        name_or_source: ``pocket``, a folder, a hub id, or what :func:`resolve_model` made of one.
        init: ``"random"`` gives the same architecture with fresh weights as its authors initialise it: the
            random-encoder baseline. ``"random_blocks"`` gives fresh blocks over the pretrained embeddings (Proj0 of
            Hewitt & Manning 2019, section 4.1).
        seed: seed of fresh weights; the global generators are left as they were.
        dtype: ``"float32"``, ``"bfloat16"`` (pays where :func:`bfloat16_is_fast`) or ``"float16"``; float32 when left
            out, or that of a model in memory.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
        trust_remote_code: run Python code that comes with the model.
        revision: branch, tag or commit of a hub model.
        attention: ``"eager"`` computes attention so that maps are available without switching implementations.
        max_pieces: length of a window in pieces, special tokens included; the most that the model takes when left
            out.

    Raises:
        NameNotFoundError: there is no such model.
        ModelError: the model cannot be loaded with these options.
        SignalError: a weight is NaN or infinite.
    """
    source = name_or_source
    if isinstance(source, str | Path):
        source = resolve_model(str(source), revision=revision)
    if dtype is not None:
        _check_choice("dtype", dtype, tuple(_DTYPES))
    _check_choice("init", init, get_args(Init))
    _check_choice("attention", attention, ("fast", "eager"))
    place = choose_device(device)
    if isinstance(source, MemorySource):
        made: Encoder = source.encoder(init=init, seed=seed, dtype=dtype, device=str(place), max_pieces=max_pieces)
        _check_weights(made)
        return made
    dtype, shape = dtype or "float32", model_shape(source)
    needed = check_files(source, init, _DTYPES[dtype])
    with quiet_loading(), explained_shortage(f"loading model {source.name} in {dtype}", needed=needed, remedy=_SMALLER):
        tokenizer = load_tokenizer(source, trust_remote_code=trust_remote_code)
        config = load_config(source, trust_remote_code)
        model, has_head = _load_model(source, config, init, seed, _DTYPES[dtype], attention, trust_remote_code)
        loaded = _take_apart(source, shape, model, has_head=has_head)
        loaded.outermost.to(place)
    reader = piece_reader(source, tokenizer, loaded.body, max_pieces=max_pieces)
    facts: dict[str, Any] = {"init": init, "seed": seed, "dtype": dtype, "eager": attention == "eager"}
    encoder = Encoder(source, shape, loaded, tokenizer=tokenizer, reader=reader, **facts)
    if init != "random":
        _check_weights(encoder)
    return encoder


def load_classifier(name_or_source: str | ModelSource, *, device: str = "auto", dtype: str | None = None) -> Encoder:
    """Load a model that was fine-tuned to classify texts, in evaluation mode.

    Its encoder is used like any other; :meth:`Encoder.class_logits` applies the classifier on top of it. Arguments are
    those of :func:`load_encoder`.

    Raises:
        NameNotFoundError: there is no such model.
        ModelError: the model cannot be loaded, or was not saved with a classifier.
    """
    from transformers import AutoModelForSequenceClassification
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    encoder = load_encoder(name_or_source, device=device, dtype=dtype)
    if encoder.model.classifier is not None:
        return encoder
    if isinstance(encoder.source, MemorySource):
        raise ModelError(f"model {encoder.name}: it has no classifier of texts; give a model that sorts texts")
    body: Any = encoder.model.body
    if body.config.is_encoder_decoder or type(body.config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise ModelError(f"model {encoder.name}: no classifier of texts is known for {encoder.family} models")
    kind: Any = AutoModelForSequenceClassification
    with quiet_loading():
        model, report = kind.from_pretrained(
            encoder.source.folder, dtype=_DTYPES[encoder.dtype], output_loading_info=True
        )
    if report["missing_keys"]:
        raise ModelError(
            f"model {encoder.name}: no classifier in its weights ({min(report['missing_keys'])} is missing); choose a "
            "model that was fine-tuned to sort texts"
        )
    no_parameters_learn(model)
    model.to(encoder.device)
    model.config.use_cache = False
    read_languages_apart(model.base_model)
    blocks = find_blocks(model.base_model, n_layers=encoder.n_layers, family=encoder.family)
    encoder.model = LoadedModel(model.base_model, blocks, None, classifier=model)
    return encoder


def load_reader(source: ModelSource, *, trust_remote_code: bool = False, max_pieces: int | None = None) -> PieceReader:
    """The tokenizer of an encoder, ready to align words to pieces, without the encoder's weights.

    Arguments are those of :func:`load_encoder`.

    Raises:
        ModelError: the tokenizer or the configuration cannot be loaded, or they do not fit each other.
    """
    from transformers import AutoModel

    if isinstance(source, MemorySource):
        reader: PieceReader = source.reader(max_pieces)
        return reader
    kind: Any = AutoModel
    with quiet_loading():
        tokenizer = load_tokenizer(source, trust_remote_code=trust_remote_code)
        config = load_config(source, trust_remote_code)
        with torch.device("meta"):
            skeleton = kind.from_config(config, trust_remote_code=trust_remote_code)
    return piece_reader(source, tokenizer, body_of(skeleton), max_pieces=max_pieces)


def _check_choice(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ModelError(f"unknown {what} {value!r}: give {', '.join(known)}")


def check_files(source: ModelSource, init: Init, dtype: torch.dtype) -> int | None:
    """Check that no file is missing or cut short, before anything is read.

    Returns the bytes that weights take while they are read, as stored and as kept; None for fresh ones.
    """
    tokenizer_files(source.folder)
    if init == "random":
        return None
    needed = 0
    for path in weight_files(source.folder):
        stored = path.stat().st_size
        needed += stored + (check_safetensors(path) * dtype.itemsize if path.suffix == ".safetensors" else stored)
    return needed


def _load_model(
    source: ModelSource,
    config: Any,
    init: Init,
    seed: int,
    dtype: torch.dtype,
    attention: Literal["fast", "eager"],
    trust_remote_code: bool,
) -> tuple[Any, bool]:
    """The transformers model, and whether a masked-LM head came with it."""
    from transformers import AutoModel, AutoModelForMaskedLM

    has_head = claims_masked_lm_head(config)
    kind: Any = AutoModelForMaskedLM if has_head else AutoModel
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if attention == "eager":
        options["attn_implementation"] = "eager"
    if init != "pretrained":
        unfit = one_line(f"{source.folder / 'config.json'}: no model can be made of it", remedy=AGAIN)
        with unfit, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # Drawn in float32 whatever the dtype, so that a seed means the same weights in each.
            fresh = kind.from_config(config, dtype=torch.float32, **options).to(dtype)
        if init == "random":
            return fresh, has_head
    remedy = "check that they belong to its config.json, or download the model again"
    with one_line(f"{source.folder}: the weights cannot be loaded", remedy=remedy):
        model, report = kind.from_pretrained(
            source.folder, config=config, dtype=dtype, output_loading_info=True, **options
        )
    missing = set(report["missing_keys"])
    _check_nothing_missing(source, model, missing)
    if init == "random_blocks":
        copy_embeddings(model, fresh)
        return fresh, has_head
    return model, has_head and missing <= _names_in_body(model)


def copy_embeddings(pretrained: Any, fresh: Any) -> None:
    """Copy all modules below the blocks from a pretrained model to a fresh one."""
    source_modules, fresh_modules = (dict(body_of(model).named_modules()) for model in (pretrained, fresh))
    parts = [name for name in _BELOW_BLOCKS if name in source_modules]
    if not parts:
        raise ModelError(
            f"random_blocks keeps a model's embeddings, and it is not known where those of a "
            f"{pretrained.config.model_type} end; take init random"
        )
    for name in parts:
        fresh_modules[name].load_state_dict(source_modules[name].state_dict())


def body_of(model: Any) -> nn.Module:
    """Of a model of transformers the module that runs the encoder's blocks."""
    base = model.base_model
    body: nn.Module = base.get_encoder() if model.config.is_encoder_decoder else base
    return body


def _names_in_body(model: Any) -> set[str]:
    in_body = {id(parameter) for parameter in body_of(model).parameters()}
    return {name for name, parameter in model.named_parameters(remove_duplicate=False) if id(parameter) in in_body}


def _check_nothing_missing(source: ModelSource, model: Any, missing: set[str]) -> None:
    if lost := sorted(name for name in missing & _names_in_body(model) if "pooler." not in name):
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ModelError(
            f"{source.folder}: the weights lack {lost[0]}{more}, which would be random: give weights that belong to "
            "its config.json, or ask for `init: random` in an experiment"
        )


def _take_apart(source: ModelSource, shape: ModelShape, model: Any, *, has_head: bool) -> LoadedModel:
    """Find the body and its blocks, and check them against the configuration."""
    no_parameters_learn(model)
    body: Any = body_of(model)
    body.config.use_cache = False
    read_languages_apart(body)
    blocks = find_blocks(body, n_layers=shape.n_layers, family=shape.family)
    loaded = (len(blocks), body.config.hidden_size, body.config.num_attention_heads)
    if loaded != (shape.n_layers, shape.dim, shape.n_heads):
        raise ModelError(
            f"{source.folder}: the loaded model has {loaded[0]} layers of {loaded[1]} with {loaded[2]} heads, where "
            f"its config.json reads as {shape.n_layers} of {shape.dim} with {shape.n_heads}: not supported"
        )
    check_unfamiliar(body, blocks, family=shape.family)
    return LoadedModel(body, blocks, model if has_head else None)


def _check_weights(encoder: Encoder) -> None:
    """Check that all weights are finite; where one is not, name the first layer and head with a signal that shows it.

    Signals alone do not show every such weight: fused attention may take a row of NaN for one that attends to nothing.
    """
    weight = damaged_weight(encoder.model.outermost, left_out="pooler.")  # part of no signal
    if weight is None:
        return
    body = encoder.model.body
    ids = torch.arange(body.get_input_embeddings().num_embeddings)[-7:][None]  # type: ignore[operator]
    try:
        with encoder.plain_attention():
            encoder.hidden_states(ids, layers=[0])
            for layer in range(1, encoder.n_layers + 1):
                encoder.attentions(ids, layers=[layer])
                encoder.hidden_states(ids, layers=[layer])
            if encoder.has_masked_lm_head:
                encoder.masked_logits(ids, torch.tensor([[0, 0]]))
    except ModelError as error:
        if isinstance(error, SignalError):
            raise
    # No signal shows it, or the family gives no maps.
    raise SignalError(f"model {encoder.name}: {refused_weight(weight)}")
