"""Load an encoder: its tokenizer, its weights or fresh ones, and checks that nothing is silently wrong."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from torch import nn

from bertology._languages_apart import read_as_declared
from bertology._lazy import transformers
from bertology._machine import bfloat16_is_fast, choose_device, explained_shortage
from bertology.encoders import _modules, interventions, sources, static
from bertology.encoders.alignment import PieceReader
from bertology.encoders.encoder import Encoder
from bertology.encoders.heads import TASK_HEADS, HeadKind
from bertology.errors import ModelError, SignalError, quoted

_BOUNDARY = "▁"
_PLAIN_WORDS = ("the", "and", "a", "e", "1", ".", "的")
_SANE_LENGTH = 1_000_000
_DEFAULT_LENGTH = 512
"""Window of models with relative positions and no stated limit (T5), whose training used this length."""


def load_tokenizer(source: sources.ModelSource, *, trust_remote_code: bool = False) -> Any:
    """The model's tokenizer, which must be a fast one, as these alone give character offsets."""
    with sources.one_line(f"{source.folder}: its tokenizer cannot be loaded", remedy="save it again"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(source.folder, trust_remote_code=trust_remote_code)
    tokenizer = of_characters(tokenizer)
    check_fast(tokenizer, source.folder)
    return tokenizer


def of_characters(tokenizer: Any) -> Any:
    """A fast tokenizer with the same numbers in the place of CANINE's, which has none; any other as it is.

    A piece is a character, its number the code point. The vocabulary ends where characters are assigned (Unicode 17),
    as all 1.1 million code points would take a gigabyte; any beyond are unknown, read as the replacement character. A
    ModelError is raised where there are tokens of other kinds.
    """
    if not isinstance(tokenizer, transformers.CanineTokenizer):
        return tokenizer
    points = (*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE01F0))  # but for halves of pairs
    vocabulary, (start, end) = {chr(point): point for point in points}, (tokenizer.cls_token, tokenizer.sep_token)
    if other := sorted(tokenizer.added_tokens_encoder.items() - vocabulary.items()):
        raise ModelError(f"its CanineTokenizer has a token {quoted(other[0][0])}: give one of characters alone")
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="\N{REPLACEMENT CHARACTER}"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")  # newlines included
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B {end}",
        special_tokens=[(one, ord(one)) for one in (start, end)],
    )
    kept = {"model_max_length": tokenizer.model_max_length, **tokenizer.special_tokens_map}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **kept)


def check_fast(tokenizer: Any, where: object) -> None:
    """Raise a ModelError for a tokenizer that gives no character offsets, as fast ones do."""
    if not getattr(tokenizer, "is_fast", False):
        what = f"its tokenizer, a {type(tokenizer).__name__}, gives no character offsets"
        raise ModelError(f"{where}: {what}; give a fast one (tokenizer.json, AutoTokenizer.from_pretrained)")


def piece_reader(source: sources.ModelSource, tokenizer: Any, body: Any, *, max_pieces: int | None) -> PieceReader:
    """The :class:`PieceReader` of a tokenizer and its model, after checking that they belong together."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    rows = _modules.count_embeddings(body, family := str(getattr(body.config, "model_type", "such")))
    with sources.one_line(f"{source.folder}: its tokenizer cannot be used", remedy="save it again"):
        # Some words, and a few entries of the vocabulary that look like words, for models of any script.
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        special = set(tokenizer.all_special_tokens)
        entries = (entry for entry in vocabulary if entry.isalpha() and entry not in special)
        words = [*_PLAIN_WORDS, *heapq.nsmallest(8, entries)]
        token = getattr(backend.model, "unk_token", None)
        unknown = None if token is None else backend.token_to_id(token)
        if token is None and type(backend.model).__name__ == "Unigram":
            unknown = tokenizer.unk_token_id
        spelled = [encoding.ids for encoding in backend.encode_batch(words, add_special_tokens=False)]
        n_known, highest = sum(not set(ids) <= {unknown} for ids in spelled), max(vocabulary.values(), default=-1)
        is_fit = spelled[0] == [*map(ord, words[0])] if family == "canine" else len(vocabulary) >= rows // 2
        if highest >= rows or not is_fit or not n_known:
            facts = f"{len(vocabulary)} pieces with numbers up to {highest} for {rows} embeddings"
            facts += f", {n_known} of {len(words)} plain words are known"
            remedy = "give the tokenizer that belongs to the weights"
            raise sources.broken(source.folder, f"the vocabulary does not fit the weights ({facts})", remedy)
        prefix, suffix = _special_tokens(source, backend, words, spelled)
    limit, lowest = _length_limit(source, tokenizer, body), len(prefix) + len(suffix) + 1
    if limit < lowest:
        where = "model_max_length in tokenizer_config.json, max_position_embeddings in config.json"
        raise sources.broken(source.folder, f"its windows hold {limit} pieces, special tokens included ({where})")
    if max_pieces is not None and not lowest <= max_pieces <= limit:
        raise ModelError(f"max_pieces {max_pieces}: model {source.name} takes {lowest} to {limit}")
    steps = f"{backend.normalizer!r} {backend.pre_tokenizer!r}"
    pieces = backend.get_vocab().items() if _BOUNDARY in steps or "Metaspace" in steps else ()
    marks = sorted(number for piece, number in pieces if piece and not piece.strip(_BOUNDARY))
    before, after, boundaries = (np.array(numbers, dtype=np.int32) for numbers in (prefix, suffix, marks))
    pad = int(tokenizer.pad_token_id or 0)
    unknown = None if unknown is None else int(unknown)
    return PieceReader(backend, before, after, boundaries, unknown, pad, max_pieces or limit, family == static.FAMILY)


def _special_tokens(
    source: sources.ModelSource, backend: Any, words: list[str], spelled: list[list[int]]
) -> tuple[list[int], list[int]]:
    for word, bare in zip(words, spelled, strict=True):
        whole = backend.encode(word).ids
        for start in range(len(whole) - len(bare) + 1):
            if bare and whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
    remedy = "save the model's own tokenizer"
    raise sources.broken(source.folder, "its tokenizer maps every plain word to nothing", remedy)


def _length_limit(source: sources.ModelSource, tokenizer: Any, body: Any) -> int:
    """Pieces in the longest input that the tokenizer and the positions of the model allow."""
    stated = tokenizer.model_max_length
    if not isinstance(stated, int | float) or isinstance(stated, bool) or not stated >= 1:
        problem = f"model_max_length is {str(stated)[:60]!r}, expected a number of pieces"
        raise sources.broken(source.folder / "tokenizer_config.json", problem)
    limits = [int(stated)] if stated < _SANE_LENGTH else []
    positions = (getattr(body.config, name, None) for name in ("max_position_embeddings", "n_positions"))
    limits += (value for value in positions if isinstance(value, int) and value > 0)
    for name, module in body.named_modules():
        # RoBERTa and its kin count positions from the padding number on.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min(limits, default=_DEFAULT_LENGTH)


# What architectures call the modules that come before their first block.
_BELOW_BLOCKS = (
    *("embeddings", "embeddings_project", "encoder.embedding_hidden_mapping_in"),
    *("embed_tokens", "embed_positions", "layernorm_embedding", "wte", "wpe"),
)
_SMALLER = "compute in bfloat16 (--dtype), run fewer processes (--jobs), or take a smaller model"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "tf32": torch.float32}
"""The types of weights by the names of types to compute in."""


STAY_LOADED: dict[tuple[sources.ModelSource, torch.device], Encoder] = {}
"""Encoders that stay loaded, by their source and place."""


def keep_loaded(name: str) -> Encoder:
    """Load an encoder that :func:`load_encoder` returns from now on where it is asked for in float32, without options.

    For a process that puts many questions to the same models, one after the other.
    """
    encoder = load_encoder(name)
    return STAY_LOADED.setdefault((encoder.source, choose_device("auto")), encoder)


def load_encoder(
    name_or_source: str | Path | sources.ModelSource,
    *,
    init: sources.Init = "pretrained",
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
        dtype: ``"float32"``, ``"bfloat16"`` (pays where :func:`bfloat16_is_fast`), ``"float16"``, or ``"tf32"``:
            float32 whose matrix products a CUDA GPU computes with 10 bits of the mantissa; float32 when left out, or
            that of a model in memory.
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
        source = sources.resolve_model(str(source), revision=revision)
    choices = {"dtype": ("float32" if dtype is None else dtype, (*_DTYPES,)), "init": (init, get_args(sources.Init))}
    for what, (value, known) in {**choices, "attention": (attention, ("fast", "eager"))}.items():
        if value not in known:
            raise ModelError(f"unknown {what} {value!r}: give {', '.join(known)}")
    place, shape = choose_device(device), sources.model_shape(source)
    if dtype == "tf32" and not (place.type == "cuda" and bfloat16_is_fast(place)):
        raise ModelError(f"dtype 'tf32' is for CUDA GPUs of compute capability 8.0 and up: take float32 on {place}")
    is_plain = (init, attention, max_pieces) == ("pretrained", "fast", None) and dtype in (None, "float32")
    if is_plain and (kept := STAY_LOADED.get((source, place))) is not None:
        return kept
    eager = attention == "eager" and not isinstance(source, sources.MemorySource)
    if isinstance(source, sources.MemorySource):
        if dtype not in (None, source.dtype):
            raise ModelError(
                f"model {source.name} is held in memory in {source.dtype}: ask for dtype {source.dtype!r}, or change "
                f"the object itself (model.to(torch.{dtype}))"
            )
        # Copied around the same weights where these are on the device.
        is_there = place == next(source.model.outermost.parameters()).device
        loaded = source.model.copied(share=is_there) if init == "pretrained" else source.fresh(init, seed)
        dtype, tokenizer = source.dtype, source.tokenizer
        loaded.outermost.eval().requires_grad_(False)
    else:
        dtype = dtype or "float32"
        needed = check_files(source, init)
        doing = f"loading model {source.name} in {dtype}"
        with sources.quiet_loading(), explained_shortage(doing, needed=needed, remedy=_SMALLER):
            tokenizer = load_tokenizer(source, trust_remote_code=trust_remote_code)
            options = {"trust_remote_code": trust_remote_code, "dtype": _DTYPES[dtype]}
            options |= {"attn_implementation": "eager"} if eager else {}
            loaded = _load_model(source, shape, init, seed, options)
    loaded.outermost.to(place)
    if dtype == "tf32":
        multiply_in_tf32(loaded.body)
    reader = piece_reader(source, tokenizer, loaded.body, max_pieces=max_pieces)
    facts: dict[str, Any] = {"init": init, "seed": seed, "dtype": dtype, "eager": eager}
    if init != "random" and (damage := _modules.damaged_weight(loaded.outermost, left_out="pooler.")) is not None:
        raise SignalError(f"model {source.name}: {damage}")
    return Encoder(source, shape, loaded, tokenizer=tokenizer, reader=reader, **facts)


def multiply_in_tf32(body: nn.Module) -> None:
    """Let PyTorch take TF32 for float32 products in the passes of ``body``; all else, such as fits, stays exact."""
    before = list[str]()

    def begin(*_: Any) -> None:
        before.append(torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("high")

    body.register_forward_pre_hook(begin)
    body.register_forward_hook(lambda *_: torch.set_float32_matmul_precision(before.pop()), always_call=True)


def load_reader(
    source: sources.ModelSource, *, trust_remote_code: bool = False, max_pieces: int | None = None
) -> PieceReader:
    """The tokenizer of an encoder, ready to align words to pieces, without its weights; see :func:`load_encoder`."""
    if isinstance(source, sources.MemorySource):
        return piece_reader(source, source.tokenizer, source.model.body, max_pieces=max_pieces)
    kind: Any = transformers.AutoModel
    with sources.quiet_loading():
        tokenizer = load_tokenizer(source, trust_remote_code=trust_remote_code)
        config = sources.load_config(source, trust_remote_code)
        with torch.device("meta"):
            skeleton = kind.from_config(config, trust_remote_code=trust_remote_code)
    return piece_reader(source, tokenizer, body_of(skeleton), max_pieces=max_pieces)


def check_files(source: sources.ModelSource, init: sources.Init) -> int | None:
    """Check that a model has files, of which none is missing, before anything is read.

    Returns about the bytes that its weights take while they are read, as stored and as kept; None for fresh ones.
    """
    if isinstance(source, sources.MemorySource):
        raise ModelError(f"model {source.name} is in memory alone, as no files hold it: give a model that was saved")
    sources.tokenizer_files(source.folder)
    return None if init == "random" else 2 * sum(path.stat().st_size for path in sources.weight_files(source.folder))


def _load_model(
    source: sources.ModelSource, shape: sources.ModelShape, init: sources.Init, seed: int, options: dict[str, Any]
) -> _modules.LoadedModel:
    """The modules of a model of files, with the head that came with it, checked against the configuration."""
    library: Any = transformers
    config = sources.load_config(source, options["trust_remote_code"])
    has_head = sources.claims_masked_lm_head(config)
    kind = getattr(library, f"AutoModel{'ForMaskedLM' * has_head}")
    model: Any = None
    if init != "pretrained":
        with sources.one_line(f"{source.folder / 'config.json'}: no model can be made of it", remedy=sources.AGAIN):
            model = sources.drawn(kind, config, seed, **options)
    if init != "random":
        stored, missing = sources.pretrained(kind, source, config=config, **options)
        in_body = {id(parameter) for parameter in body_of(stored).parameters()}
        names = {name for name, value in stored.named_parameters(remove_duplicate=False) if id(value) in in_body}
        sources.check_complete(source, names & missing)
        if model is None:
            model, has_head = stored, has_head and missing <= names
        else:
            copy_embeddings(stored, model)
    model.eval().requires_grad_(False)
    body: Any = body_of(model)
    body.config.use_cache = False
    read_as_declared(body)
    blocks = _modules.find_blocks(body, n_layers=shape.n_layers, family=shape.family)
    loaded = (len(blocks), body.config.hidden_size, body.config.num_attention_heads)
    if loaded != (expected := (shape.n_layers, shape.dim, shape.n_heads)):
        raise sources.broken(source.folder, f"layers, dimensions and heads are {loaded}, by its config.json {expected}")
    _modules.check_unfamiliar(body, blocks, family=shape.family)
    return _modules.LoadedModel(body, blocks, model if has_head else None)


def copy_embeddings(pretrained: Any, fresh: Any) -> None:
    """Copy all modules below the blocks from a pretrained model to a fresh one."""
    source_modules, fresh_modules = (dict(body_of(model).named_modules()) for model in (pretrained, fresh))
    parts = [name for name in _BELOW_BLOCKS if name in source_modules]
    if not parts:
        family = pretrained.config.model_type
        raise ModelError(f"random_blocks: it is not known where the embeddings of a {family} end; take init random")
    for name in parts:
        fresh_modules[name].load_state_dict(source_modules[name].state_dict())


def body_of(model: Any) -> nn.Module:
    """The module of a model of transformers that runs the encoder's blocks."""
    base = model.base_model
    body: nn.Module = base.get_encoder() if model.config.is_encoder_decoder else base
    return body


@dataclass(frozen=True)
class WholeModel:
    """A model of transformers in float32 on the processor, with every head that it was saved with."""

    model: Any
    """A model of the class that ``architectures`` in its configuration names; the bare encoder without a name."""
    family: str  # the architecture, as ``model_type`` in ``config.json`` names it
    absent: frozenset[str]
    """Weights that the files lack and no signal depends on: a pooler under no head. They are random, and not saved."""

    @property
    def body(self) -> Any:
        """The encoder proper."""
        return self.model.base_model


def load_whole(source: sources.ModelSource) -> WholeModel:
    """Load an encoder with all its heads, from whole files, to change its weights or shape and to save it."""
    needed = check_files(source, "pretrained")
    shape = sources.model_shape(source)
    with sources.quiet_loading(), explained_shortage(f"loading model {source.name}", needed=needed):
        config = sources.load_config(source, False)
        if config.is_encoder_decoder:
            raise ModelError(f"model {source.name} is an encoder-decoder ({shape.family}): give an encoder")
        name = config.architectures[0] if config.architectures else "AutoModel"
        kind = getattr(transformers, name, None)
        if not hasattr(kind, "from_pretrained"):
            what = f"{name} is no class of transformers, so it cannot be changed"
            raise sources.broken(source.folder / "config.json", what, "give a model of transformers")
        model, absent = sources.pretrained(kind, source, config=config, dtype=torch.float32)
    sources.check_complete(source, absent)
    model.eval().requires_grad_(False)
    read_as_declared(model.base_model)
    blocks_of(model, shape.n_layers, shape.family)  # raises where there are none
    return WholeModel(model, shape.family, absent)


def blocks_of(model: Any, n_layers: int, family: str) -> list[nn.Module]:
    """The blocks of a model of transformers, with or without heads, in the order in which they run."""
    interventions.find_embeddings(model.base_model, family)
    return _modules.find_blocks(model.base_model, n_layers=n_layers, family=family)


_ABOVE_BLOCKS = ("pooler", "norm", "final_norm", "final_layer_norm", "emb_layer_norm_after", "ln_f")
"""Names in all architectures for modules of the body that come after its last block."""


@dataclass(frozen=True)
class TunableModel:
    """A transformers model with a task head, in float32 on the processor, all of whose weights can be trained."""

    model: Any
    blocks: list[nn.Module]  # the blocks of its encoder in the order in which they run
    name: str
    drawn: frozenset[str] = frozenset()
    """Paths of modules whose weights are drawn anew: of the head, and a pooler where the model had none."""

    def freeze_to(self, layer: int) -> None:
        """Fix all that layers 0…``layer`` (-1 is the last) depend on: the embeddings and the blocks up to that one.

        What is trained are the blocks above, what comes after the last block, and the head. A ModelError is raised for
        a layer that the model does not have, and where blocks share their weights.
        """
        (layer,) = sources.layers_from_end(layer, lowest=0, n_layers=len(self.blocks))
        if len(set(map(id, self.blocks))) < len(self.blocks):
            raise ModelError(f"model {self.name}: its blocks share their weights; tune all layers, or none")
        body = self.model.base_model
        trained = [*self.blocks[layer:], *(getattr(body, name, None) for name in _ABOVE_BLOCKS)]
        kept = {id(weight) for module in trained if module is not None for weight in module.parameters()}
        for weight in body.parameters():
            weight.requires_grad_(id(weight) in kept)


def load_tunable(
    encoder: Encoder,
    *,
    head: HeadKind,
    labels: Sequence[str] | None = None,
    seed: int | None = 0,
    trust_remote_code: bool = False,
    config: Any = None,
) -> TunableModel:
    """The model of an encoder with a task head, loaded from the files of the encoder, all of whose weights can learn.

    A ModelError is raised where there is no such head for the architecture, or in the weights.

    Args:
        encoder: the model as :func:`load_encoder` gave it, which has checked its files.
        head: what is predicted.
        labels: names of the classes; None for a number, and for answers.
        seed: of the weights of a new head, and of a pooler where the model has none; a head that the model has is left
            out. None loads the model with its own head.
        trust_remote_code: run Python code that comes with the model.
        config: that of another architecture, all of whose weights are then drawn by the seed.
    """
    source, name, is_own = encoder.source, encoder.name, config is None
    check_files(source, "pretrained")
    if encoder.tokenizer.pad_token_id is None:
        raise ModelError(f"model {name}: its tokenizer has no padding, as decoders'; give an encoder")
    config = sources.load_config(source, trust_remote_code) if is_own else config
    kind: Any = getattr(transformers, f"AutoModelFor{TASK_HEADS[head]}")
    if config.is_encoder_decoder or type(config) not in kind._model_mapping:
        raise ModelError(f"model {name}: no head for {head} is known for {config.model_type} models")
    options: dict[str, Any] = {"dtype": torch.float32, "trust_remote_code": trust_remote_code}
    new = frozenset[str]()
    if seed is None:
        model, missing = sources.pretrained(kind, source, config=config, **options)
        sources.check_complete(source, missing, all_count=True)
    else:
        if head == "answers":
            config.num_labels = 2
        else:
            names = list(labels) if labels is not None else ["number"]
            config.id2label = dict(enumerate(names))
            config.label2id = {label: number for number, label in enumerate(names)}
        if head == "sentence":
            config.problem_type = "regression" if labels is None else "single_label_classification"
        if is_own:
            model, new = _with_new_head(source, kind, config, seed, options)
        else:
            model = sources.drawn(kind, config, seed, **options)
    model.requires_grad_(True)
    return TunableModel(model, blocks_of(model, config.num_hidden_layers, config.model_type), name, new)


def _with_new_head(
    source: sources.ModelSource, kind: Any, config: Any, seed: int, options: dict[str, Any]
) -> tuple[Any, frozenset[str]]:
    """The model with a head whose weights are drawn anew, and the paths of the modules whose weights are."""
    with torch.random.fork_rng(devices=[]):
        model = sources.drawn(kind, config, seed, **options)
        body, missing = sources.pretrained(transformers.AutoModel, source, config=config, **options)
        weights = model.base_model.state_dict()
        stored = body.state_dict().items()
        known = {name: value for name, value in stored if name in weights and name not in missing}
        model.base_model.load_state_dict(known, strict=False)
    new = weights.keys() - known.keys()
    sources.check_complete(source, new)
    of_head = {name for name, module in model.named_children() if module is not model.base_model}
    with_weights = {name.partition(".")[0] for name, _ in model.named_parameters()}
    in_body = {f"{model.base_model_prefix}.{name.partition('.')[0]}" for name in new}
    return model, frozenset((of_head & with_weights) | in_body)
