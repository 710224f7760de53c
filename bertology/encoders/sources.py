"""Models by name, folder, hub id or in memory: checks, downloads, shapes and fingerprints. Imports no torch."""

import contextlib
import importlib.util
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from bertology import _files
from bertology._lazy import torch, transformers
from bertology._machine import is_out_of_memory
from bertology._machine import quiet_download as quiet_download
from bertology._machine import quiet_loading as quiet_loading
from bertology._names import check_name, folder_name, layer_number, name_not_found
from bertology.encoders import static
from bertology.errors import BertologyError, ModelError, NameNotFoundError, cut, quoted


@contextlib.contextmanager
def one_line(what: str, *, remedy: str, kind: type[BertologyError] = ModelError) -> Iterator[None]:
    """Turn the errors that a library raises for files into one of a ``kind``, of one line, but not lack of memory.

    Each architecture validates in its own way, broken files show as errors of every kind, and the tokenizers library
    raises bare exceptions and panics. ``what`` names the file or folder, and what cannot be done with it.
    """
    try:
        yield
    except BaseException as error:
        is_librarys = isinstance(error, Exception) or type(error).__name__ == "PanicException"
        if not is_librarys or isinstance(error, BertologyError) or is_out_of_memory(error):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines[0] if lines else type(error).__name__)[:200]
        if "weights_only" in str(error):
            # torch then advises to load the file in a way that runs whatever code is in it.
            reason = "it is a pickle that holds more than tensors, which can run code"
            remedy = "ask its author for safetensors, or for a pickle of the weights alone"
        raise kind(f"{what} ({reason}); {remedy}") from None


NO_VOCABULARY = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (
    *("tokenizer.json", *NO_VOCABULARY, "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "spm.model"),
    *("sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model", "bpe.codes"),
)
"""Files that decide how text is cut into pieces."""
AGAIN = "copy or download the model again"
_SAVE_AGAIN = "give a folder written by save_pretrained (config.json, tokenizer.json, model.safetensors)"
_TYPES = {"model_type": str, "architectures": list, "is_encoder_decoder": bool, "is_decoder": bool, "auto_map": dict}
_IN_WORDS = {str: "a name", list: "a list of names", bool: "true or false", dict: "an object"}


def broken(path: Path, problem: str, remedy: str = AGAIN) -> ModelError:
    """The error for a file or folder of a model that cannot be used."""
    return ModelError(f"{path}: {problem}; {remedy}")


def read_config(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``, checked: the fields that decide what is loaded have the right types."""
    path = folder / "config.json"
    config: dict[str, Any] = read_model_json(path, dict)
    for name, kind in _TYPES.items():
        value = config.get(name)
        are_names = not isinstance(value, list) or all(isinstance(one, str) for one in value)
        if value is not None and not (isinstance(value, kind) and are_names):
            raise broken(path, f"{name} is {str(value)[:60]!r}, expected {_IN_WORDS[kind]}")
    return config


def read_model_json(path: Path, kind: type = object) -> Any:
    """The content of one of a model's JSON files, which should be of a type."""
    if not path.is_file():
        problem = f"{path.name} is no file" if path.exists() else f"no {path.name}"
        raise broken(path.parent, problem, _SAVE_AGAIN)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        _files.canonical_json(value)
    except (ValueError, RecursionError) as error:
        # Not JSON, not UTF-8, a number of thousands of digits, half a surrogate pair, deep nesting.
        raise broken(path, f"not readable as JSON ({str(error)[:200]})") from None
    if not isinstance(value, kind):
        raise broken(path, f"expected a JSON {kind.__name__}, found {type(value).__name__}")
    return value


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights: safetensors where there are any, else PyTorch's, shards in name order."""
    for stem, ending in (("model", "safetensors"), ("pytorch_model", "bin")):
        single, index = folder / f"{stem}.{ending}", folder / f"{stem}.{ending}.index.json"
        if single.is_file():
            return (single,)
        if index.is_file():
            break
    else:
        raise broken(folder, "no weights (model.safetensors or pytorch_model.bin)", _SAVE_AGAIN)
    by_tensor = read_model_json(index, dict).get("weight_map")
    if not isinstance(by_tensor, dict) or not by_tensor:
        raise broken(index, "no weight_map, which names the file of each weight")
    # By their names in the listing, so that an index cannot name files elsewhere on the machine.
    files = {path.name: path for path in folder.iterdir() if path.is_file()}
    for name in by_tensor.values():
        if not isinstance(name, str) or name not in files:
            raise broken(index, f"it names {str(name)[:60]!r}, which is no file of its folder")
    return tuple(files[name] for name in sorted(set(by_tensor.values())))


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """The files of the tokenizer in a fixed order; one must hold a vocabulary, but for CANINE's, which has none."""
    files = tuple(filter(Path.is_file, map(folder.joinpath, TOKENIZER_FILES)))
    if {path.name for path in files} <= {*NO_VOCABULARY} and read_config(folder).get("model_type") != "canine":
        raise broken(folder, "no tokenizer (tokenizer.json, vocab.txt …)", "save the model's tokenizer beside it")
    return files


def code_files(folder: Path) -> list[Path]:
    """The Python files of a model whose configuration or tokenizer names classes in them; none for others."""
    tokenizer, names = folder / "tokenizer_config.json", list[Any]()
    for settings in (read_config(folder), read_model_json(tokenizer) if tokenizer.is_file() else {}):
        classes = settings.get("auto_map") if isinstance(settings, dict) else None
        for value in classes.values() if isinstance(classes, dict) else [classes]:
            names += value if isinstance(value, list) else [value]
    names = [name for name in names if isinstance(name, str)]
    files = sorted(folder.glob("*.py")) if names else []
    # Two hyphens stand between a repository and a class in it, where code lies in another than the model.
    for repository in sorted({name.partition("--")[0] for name in names if "--" in name}):
        try:
            files += sorted(download(repository, None, ("*.py",), offline=_is_offline()).glob("*.py"))
        except Exception as error:
            # Errors of the connection and of the hub itself, and names that are no hub ids: each becomes one line.
            raise broken(
                folder, f"cannot get its code from {repository} ({_reason_of(error)})", "check the connection"
            ) from None
    return files


Init = Literal["pretrained", "random", "random_blocks"]
"""Weights of a model: as they were trained; all drawn anew; or fresh blocks over the trained embeddings."""

# Names of the same field in different families; the encoder's part of an encoder-decoder comes first.
_FIELDS = {
    "layers": ("encoder_layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden size": ("hidden_size", "d_model", "n_embd", "dim"),
    "heads": ("encoder_attention_heads", "num_attention_heads", "n_head", "num_heads", "n_heads"),
}
_MOST_LAYERS, _MOST_DIMENSIONS = 1_000, 1 << 20
"""Far beyond any encoder: a damaged number must not make one be built."""
# Where a file was and which version wrote it do not change what it computes.
_NOT_CONTENT = frozenset(
    {"_name_or_path", "name_or_path", "transformers_version", "tokenizer_file", "special_tokens_map_file", "is_local"}
    | {"local_files_only", "_commit_hash"}
)


@dataclass(frozen=True)
class ModelSource:
    """A model's files on this machine."""

    name: str
    """The name that was given to :func:`resolve_model`."""
    folder: Path
    """A folder in Hugging Face layout: ``config.json``, tokenizer files, weights."""
    revision: str | None = None
    """The commit, for a model of the hub."""

    @property
    def title(self) -> str:
        """The name in tables: of a folder its last component."""
        return folder_name(self.name)


@dataclass(frozen=True)
class ModelShape:
    """The size of an encoder, from its configuration."""

    n_layers: int
    """Blocks; hidden states are numbered 0 (embeddings) to ``n_layers``."""
    dim: int
    """Width of a hidden state."""
    n_heads: int
    """Attention heads in each block."""
    family: str
    """The architecture, as ``model_type`` in ``config.json`` names it."""


@dataclass(frozen=True, kw_only=True)
class MemorySource(ModelSource):
    """A model that is held in memory and has no files; its folder is only a name."""

    size: ModelShape
    dtype: str  # the type of its weights, in which it computes
    content: str = ""  # identity of the model, by which results are kept
    model: Any = field(repr=False, compare=False)  # modules of a copy of the model as it was when it was given
    tokenizer: Any = field(repr=False, compare=False)
    fresh: Callable[[Init, int], Any] = field(repr=False, compare=False)
    """Function from an initialisation and a seed to the same modules with random weights; raises where none exist."""

    @property
    def has_masked_lm_head(self) -> bool:
        """Whether it predicts masked words."""
        return self.model.with_head is not None


def layers_from_end(layers: int | Sequence[int] | Literal["all"], *, lowest: int, n_layers: int) -> tuple[int, ...]:
    """Layers by number, negative ones counted from the last; a ModelError for none or one that does not exist."""
    if layers == "all":
        return tuple(range(lowest, n_layers + 1))
    asked = [layers] if isinstance(layers, int) else list(layers)
    if not asked:
        raise ModelError(f"no layers asked for: the model has {lowest}…{n_layers}")
    chosen = tuple(layer_number(layer, n_layers) for layer in asked)
    wrong = [given for given, layer in zip(asked, chosen, strict=True) if not lowest <= layer <= n_layers]
    if wrong:
        raise ModelError(f"layer {wrong[0]}: the model has {n_layers}, so layers are {lowest}…{n_layers}, or -1, -2 …")
    return chosen


def model_shape(source: ModelSource) -> ModelShape:
    """The number of layers, their width and heads, and the family of a model, from ``config.json`` alone.

    The default of a field that the file leaves out is looked up in transformers, which is imported in this case only.
    A ModelError is raised where the configuration is missing or incomplete.
    """
    if isinstance(source, MemorySource):
        return source.size
    return shape_of(read_config(source.folder), source.folder / "config.json")


def shape_of(config: Mapping[str, Any], path: Path | str) -> ModelShape:
    """The :func:`model_shape` of a configuration that was read from ``path``."""
    family, sizes, from_library = config.get("model_type"), list[int](), dict[str, Any]()
    if family == static.FAMILY and (width := _first_of(config, ("hidden_size",))) is not None:
        return ModelShape(0, width, 1, family)
    if not isinstance(family, str):
        raise ModelError(f"{path}: no model_type, so the architecture is not known; add it")
    for what, names in _FIELDS.items():
        value = _first_of(config, names)
        if value is None and not from_library:
            if family not in transformers.CONFIG_MAPPING:
                raise ModelError(f"{path}: model_type {family!r} is not known to transformers")
            with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
                filled = transformers.CONFIG_MAPPING[family](**config)
            from_library = {name: getattr(filled, name, None) for names in _FIELDS.values() for name in names}
        if (value := value or _first_of(from_library, names)) is None:
            raise ModelError(f"{path}: no {what} (one of {', '.join(names)}): not an encoder of text")
        sizes.append(value)
    n_layers, dim, n_heads = sizes
    if family == "albert":
        inner = config.get("inner_group_num", 1)
        n_layers *= inner if isinstance(inner, int) else 1
    if family == "funnel":  # the layers between its first block and its decoder pool subwords
        with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
            whole = transformers.CONFIG_MAPPING[family](**config)
            n_layers = whole.block_sizes[0] * whole.block_repeats[0] + whole.num_decoder_layers
    if family == "canine":  # a local block before the deep ones, and one after them
        n_layers += 2
    if n_layers > _MOST_LAYERS or dim > _MOST_DIMENSIONS:
        most = f"more than {_MOST_LAYERS:,} layers, or than {_MOST_DIMENSIONS:,} dimensions"
        raise ModelError(f"{path}: {most}: not an encoder of text")
    return ModelShape(n_layers, dim, n_heads, family)


def _first_of(values: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The first positive number among the values of some names."""
    return next((one for one in map(values.get, names) if type(one) is int and one > 0), None)


def model_fingerprint(source: ModelSource, *, init: Init = "pretrained", seed: int = 0) -> str:
    """Hash of a model's configuration, tokenizer and weights, as 32 hexadecimal digits.

    With the initialisation ``"random"`` the seed of the weights and the versions of the libraries that draw them are
    hashed instead of the weights; with ``"random_blocks"`` both are. A ModelError is raised where a file that belongs
    to the model is missing or unreadable.
    """
    libraries = [version(name).partition("+")[0].encode() for name in ("transformers", "torch")]
    if isinstance(source, MemorySource):
        if init == "pretrained":
            return source.content
        source.fresh(init, seed)  # raises where there are no random weights
        return _files.digest([source.content.encode(), init.encode(), str(seed).encode(), *reversed(libraries)])
    parts = [b"config", config_content(read_config(source.folder))]
    for path in (*tokenizer_files(source.folder), *code_files(source.folder)):
        content = _file_digest(path, _files.signature(path)).encode()
        if path.name.endswith("_config.json"):
            value = read_model_json(path)
            content = config_content(value) if isinstance(value, dict) else _files.canonical_json(value)
        parts += [path.name.encode(), content]
    if init != "pretrained":
        parts += [init.encode(), str(seed).encode(), *libraries]
    for path in weight_files(source.folder) if init != "random" else ():
        parts.append(_file_digest(path, _files.signature(path)).encode())
    return _files.digest(parts)


def code_fingerprint(source: ModelSource) -> str | None:
    """Hash of the Python code that comes with a model, which runs where it is trusted; None where there is none."""
    files = () if isinstance(source, MemorySource) else code_files(source.folder)
    return _files.digest(part for path in files for part in (path.name.encode(), path.read_bytes())) if files else None


def config_content(value: Mapping[str, Any]) -> bytes:
    """A configuration as canonical JSON, without its path and the library version that wrote it."""
    return _files.canonical_json({key: one for key, one in value.items() if key not in _NOT_CONTENT})


@lru_cache(maxsize=256)
def _file_digest(path: Path, signature: tuple[int, int, int]) -> str:
    """Hash of a file's bytes; read once as long as the signature stays."""
    return _files.digest_file(path)


def load_config(source: ModelSource, trust_remote_code: bool) -> Any:
    """The configuration of a model, by its class in transformers."""
    path = source.folder / "config.json"
    raw = read_config(source.folder)
    if raw["model_type"] in ("bertology_lstm", static.FAMILY):
        import_module("bertology.encoders.architectures")  # registers it
    if raw["model_type"] not in transformers.CONFIG_MAPPING and not trust_remote_code:
        if "auto_map" not in raw:
            raise ModelError(f"{path}: model_type {raw['model_type']!r} is not known to transformers")
        remedy = "pass --trust-remote-code (trust_remote_code=True), and set it in a file of settings, if you trust it"
        raise ModelError(f"model {source.name} runs Python code of its own: {remedy}")
    with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
        config = transformers.AutoConfig.from_pretrained(source.folder, trust_remote_code=trust_remote_code)
    if getattr(config, "_attn_implementation", None) not in (None, "eager", "sdpa"):
        config._attn_implementation = None  # such as flash_attention_2: how it was trained, not what it computes
    return config


def pretrained(kind: Any, source: ModelSource, **options: Any) -> tuple[Any, frozenset[str]]:
    """A model from its files by one of the classes of transformers, and the names of weights that these files lack."""
    remedy = "check that they belong to its config.json, or download the model again"
    with quiet_loading(), one_line(f"{source.folder}: the weights cannot be loaded", remedy=remedy):
        model, report = kind.from_pretrained(source.folder, output_loading_info=True, **options)
        missing = frozenset(report["missing_keys"])
        if add_own_parts(model):
            from bertology.encoders.architectures import load_adapters

            missing |= load_adapters(model, weight_files(source.folder))
    return model, missing


def add_own_parts(model: Any) -> bool:
    """Put bottleneck adapters into a model whose configuration has them; returns whether it has."""
    if (size := getattr(model.config, "bertology_adapter_size", None)) is None:
        return False
    from bertology.encoders.architectures import add_adapters

    add_adapters(model, size)
    return True


def check_complete(source: ModelSource, missing: Collection[str], *, all_count: bool = False) -> None:
    """Raise a ModelError if weights are ``missing``; a missing pooler is an error only if ``all_count``."""
    if lost := sorted(name for name in missing if all_count or "pooler." not in name):
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        problem = f"the weights lack {lost[0]}{more}, which would be random"
        raise broken(source.folder, problem, "choose a model that was saved with them, or `init: random`")


def drawn(kind: Any, config: Any, seed: int, dtype: Any, **options: Any) -> Any:
    """A model with random weights of a class of transformers; the global generators are left as they were.

    Weights are drawn in float32 whatever the dtype, so that a seed means the same weights in each.
    """
    with quiet_loading(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind.from_config(config, dtype=torch.float32, **options)
        add_own_parts(model)
        return model.to(dtype)


def claims_masked_lm_head(config: Any) -> bool:
    """Whether a model of a configuration, as :func:`load_config` gives it, was saved with a masked-LM head."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING

    # LUKE's head reads entities with the text.
    if config.is_encoder_decoder or type(config) not in MODEL_FOR_MASKED_LM_MAPPING or config.model_type == "luke":
        return False
    # A model "for pre-training" has the head and another one, except that ELECTRA's is a discriminator.
    endings = ("ForMaskedLM",) if config.model_type == "electra" else ("ForMaskedLM", "ForPreTraining")
    return any(name.endswith(endings) for name in config.architectures or ())


def save_model(model: Any, folder: Path, *, tokenizer: Any, left_out: Collection[str] = ()) -> None:
    """Write a folder in Hugging Face layout: configuration, weights but for those ``left_out``, and tokenizer.

    The folder is complete only when this returns: callers write it below a temporary name, or a record after it. Of a
    model of peft with adapters, the adapters alone are written. ``tokenizer`` is one of transformers, or the folder of
    another model, whose tokenizer files are copied as they are. A StoreError is raised where the folder cannot be
    written.
    """
    with _files.explained_write_errors(folder), quiet_loading():
        weights = {name: value for name, value in model.state_dict().items() if name not in left_out}
        model.save_pretrained(folder, **({"state_dict": weights} if left_out else {}))
        if isinstance(tokenizer, Path):
            for path in tokenizer_files(tokenizer):
                shutil.copyfile(path, folder / path.name)
        else:
            tokenizer.save_pretrained(folder)


MODELS = "models"
"""Folder of the copies in the cache folder: ``<fingerprint>/<title>``."""


def keep_copy(title: str, write: Callable[[Path], str | None]) -> Path | None:
    """Keep a model's folder, called ``title``, in the cache folder, under its fingerprint.

    ``write`` writes the folder and returns its fingerprint, or None if it is not to be kept; so does this function.
    """
    parent = _files.cache_folder() / MODELS
    with _files.explained_write_errors(parent, remedy="name another folder in BERTOLOGY_CACHE"):
        parent.mkdir(parents=True, exist_ok=True)
        _files.sweep(parent)
        with _files.temporary_folder(parent, title) as made:
            fingerprint = write(made / title)
            if fingerprint is None:
                return None
            folder = parent / fingerprint / title
            folder.parent.mkdir(exist_ok=True)
            if not folder.is_dir():
                (made / title).rename(folder)
    return folder


ADAPTER = "adapter_config.json"
"""The file by which a folder is one of adapters."""
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_HEADS = {"SEQ_CLS": "SequenceClassification", "TOKEN_CLS": "TokenClassification", "QUESTION_ANS": "QuestionAnswering"}


def _unwrapped(folder: Path) -> Path:
    """The folder of the model itself: of adapters of peft a copy in the cache with them merged into the weights, of
    sentence-transformers the sub-folder of the transformer."""
    if (folder / ADAPTER).is_file():
        return _merged(folder)
    path = folder / "modules.json"
    if not path.is_file():
        return folder
    with one_line(f"{path}: expected a list of modules, each with the name of a folder as its path", remedy=AGAIN):
        name: str = read_model_json(path, list)[0]["path"]
        if Path(name).name == name:
            return folder / name
        raise ValueError(name)


def _of_word_vectors(path: Path) -> Path:
    """The model folder in the cache that is made of a file of word vectors, made where there is none."""
    known, title = _file_digest(path, _files.signature(path)), path.name.partition(".")[0] or "vectors"
    copy = _files.cache_folder() / MODELS / known / title

    def write(out: Path) -> str:
        static.write_static_model(path, out)
        return known

    return copy if copy.is_dir() else keep_copy(title, write) or copy


def _merged(folder: Path) -> Path:
    """The copy in the cache of an adapter's model with the adapter merged into it, made where there is none."""
    settings = read_model_json(folder / ADAPTER, dict)
    weights = next((folder / name for name in ADAPTER_WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise broken(folder, f"an adapter is {ADAPTER} and {ADAPTER_WEIGHTS[0]}")
    if whole := [*folder.glob("model*.safetensors"), *folder.glob("pytorch_model*.bin")]:
        raise broken(folder, f"holds an adapter and a whole model ({whole[0].name})", "put one of them elsewhere")
    name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    where = f"{folder / ADAPTER}: base_model_name_or_path"
    if not isinstance(name, str) or not isinstance(revision, str | None):
        raise ModelError(f"{where} should name the model that the adapter belongs to; write it there")
    if (Path(name).expanduser() / ADAPTER).is_file():
        raise ModelError(f"{where}: {name} is an adapter itself; write the model that both belong to")
    try:
        base = resolve_model(name, revision=None if Path(name).expanduser().is_dir() else revision)
    except BertologyError as error:
        raise ModelError(f"{where}: {error}") from None
    known = _files.digest(
        [model_fingerprint(base).encode(), _files.canonical_json(settings), _files.digest_file(weights).encode()]
    )
    copy = _files.cache_folder() / MODELS / known / folder.resolve().name

    def write(out: Path) -> str:
        _merge(folder, settings, base, out)
        return known

    if not copy.is_dir():
        keep_copy(copy.name, write)
    return copy


def _merge(folder: Path, settings: dict[str, Any], base: ModelSource, out: Path) -> None:
    """Write the model of an adapter with the adapter merged into its weights."""
    if importlib.util.find_spec("peft") is None:
        raise ModelError(f"{folder}: adapters need peft: pip install 'bertology[peft]'")
    with quiet_loading():
        import peft
    library: Any = transformers
    with quiet_loading(), one_line(f"{folder}: the adapter cannot be merged into {base.name}", remedy=AGAIN):
        adapter: Any = peft.PeftConfig.from_pretrained(str(folder))
        if adapter.is_prompt_learning:
            raise ModelError(f"{folder}: {adapter.peft_type.value} gives no weights that can be merged into a model")
        given = peft.utils.load_peft_weights(str(folder), device="cpu")
        # Of the class that the adapter was made for.
        config, task = load_config(base, False), _HEADS.get(str(settings.get("task_type")))
        mapping = settings.get("auto_mapping")
        own = mapping.get("base_model_class") if isinstance(mapping, dict) else None
        if task is not None:
            kind = getattr(library, f"AutoModelFor{task}")
            heads = {"classifier", "score", "qa_outputs"}
            sizes = [len(value) for name, value in given.items() if value.ndim > 1 and heads & set(name.split("."))]
            config.num_labels = sizes[-1] if sizes else config.num_labels
        elif isinstance(own, str) and hasattr(getattr(library, own, None), "from_pretrained"):
            kind = getattr(library, own)
        else:
            kind = library.AutoModelForMaskedLM if claims_masked_lm_head(config) else library.AutoModel
        model, absent = pretrained(kind, base, config=config, dtype=torch.float32)
        adapted: Any = peft.PeftModel.from_pretrained(model, str(folder))
        needed = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False).keys()
        if other := sorted(needed ^ given.keys()):
            fault = "its weights lack" if other[0] in needed else f"{base.name} has no place for"
            raise broken(folder, f"{fault} {other[0]}", "name the model that the adapter was made for")
        merged = merge_adapters(adapted)
    has_vocabulary = any(name not in NO_VOCABULARY and (folder / name).is_file() for name in TOKENIZER_FILES)
    saved = {name.removeprefix("base_model.model.") for name in given}
    # What neither the model nor the adapter has would be random, and is left out.
    save_model(merged, out, tokenizer=folder if has_vocabulary else base.folder, left_out=absent - saved)


def merge_adapters(adapted: Any) -> Any:
    """The model of transformers in one of peft, with its adapters merged into its weights."""
    from peft.utils import ModulesToSaveWrapper

    # Unwrapped first: peft unwraps nothing but linear layers of them in a model with IA³.
    wrappers = {path: one for path, one in adapted.named_modules() if isinstance(one, ModulesToSaveWrapper)}
    for path, wrapper in wrappers.items():
        parent, _, name = path.rpartition(".")
        setattr(adapted.get_submodule(parent), name, wrapper.modules_to_save[wrapper.active_adapters[0]])
    return adapted.merge_and_unload()


Wanted = str | Sequence[int | str]
"""``all``; a pattern of names such as ``step*``; or steps and names."""
_FOLDER = re.compile(r"(?:step|checkpoint)[-_]?\d+")
_AFTER_WORD = re.compile(r"(?:step|checkpoint|ckpt)[-_]?(\d+(?:\.\d+)?)([km]?)(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([km]?)(?![a-z0-9])", re.IGNORECASE)
_LAYOUT = "a folder has them as checkpoints/step-500 or checkpoint-500, a model of the hub as revisions such as step500"


class Checkpoint(NamedTuple):
    """One checkpoint of a training, as :func:`bertology.encoders.resolve_model` finds it."""

    step: int  # number of updates that its weights have had
    name: str  # a folder, or a hub id
    revision: str | None = None  # the branch or tag of a hub id


def find_checkpoints(name: str, wanted: Wanted = "all") -> tuple[Checkpoint, ...]:
    """The checkpoints of a training, by step.

    Of a folder they are its sub-folders ``checkpoints/step-N``, ``checkpoints/checkpoint-N``, ``step-N`` and
    ``checkpoint-N``, in Hugging Face layout; the finished model in the folder itself is not among them. Of a hub id
    they are the branches and tags with a step in their names, as the hub lists them or, offline, as its cache has them.
    Names of revisions in a list need no list of the hub's. A ModelError is raised where there are none, one of those
    wanted is missing, or two have the same step.
    """
    path = Path(name).expanduser()
    all_named = not isinstance(wanted, str) and not any(str(one).isdecimal() for one in wanted)
    if is_folder := path.is_dir():
        paths = [one for parent in (path / "checkpoints", path) for one in sorted(parent.glob("*"))]
        known = {one.name: str(one) for one in paths if one.is_dir() and _FOLDER.fullmatch(one.name)}
    elif all_named or name in _EMBEDDED:
        known = {str(one): name for one in wanted if all_named}
    else:
        known = {one: name for one in _refs(name) if _AFTER_WORD.search(one)}
    steps = {one: _step_of(one, name) for one in known}
    by_step = {str(step): one for one, step in steps.items()}
    if isinstance(wanted, str):
        chosen = [one for one in known if wanted == "all" or fnmatchcase(one, wanted)]
    else:
        chosen = [one if one in known else by_step.get(one, one) for one in map(str, wanted)]
    if not chosen:
        raise ModelError(f"model {cut(name)}: no checkpoints{f' like {quoted(wanted)}' * (wanted != 'all')}; {_LAYOUT}")
    for label in chosen:
        check_name(f"checkpoint of model {cut(name)}", label, known, remedy=_LAYOUT)
    found = [Checkpoint(steps[one], known[one], None if is_folder else one) for one in dict.fromkeys(chosen)]
    found.sort(key=lambda one: one.step)
    for one, other in itertools.pairwise(found):
        if one.step == other.step:
            both = f"{one.revision or one.name} and {other.revision or other.name}"
            raise ModelError(f"model {cut(name)}: {both} are both of step {one.step}; list those of one training")
    return tuple(found)


def _refs(name: str) -> list[str]:
    from huggingface_hub import HfApi, constants

    if _is_offline():
        folder = Path(_hub_cache() or constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "refs"
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    try:
        refs = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None).list_repo_refs(name)
        return [ref.name for ref in (*refs.branches, *refs.tags)]
    except Exception as error:
        # Errors of the connection and of the hub itself, and names that are no hub ids: each becomes one line.
        remedy = "list its revisions by name, or give a folder"
        raise ModelError(f"cannot list the revisions of model {cut(name)} ({_reason_of(error)}): {remedy}") from None


def _step_of(name: str, model: str) -> int:
    """The step in a checkpoint's name: the number after ``step`` or ``checkpoint``, else the last; 20k is 20,000."""
    numbers = _AFTER_WORD.findall(name) or _NUMBER.findall(name)
    if not numbers:
        remedy = "name it as a model of its own with revision: and step:"
        raise ModelError(f"model {cut(model)}: revision {quoted(name)} has no step in its name; {remedy}")
    value, unit = numbers[-1]
    return round(float(value) * {"": 1, "k": 1_000, "m": 1_000_000}[unit.lower()])


POCKET = "pocket"
_EMBEDDED = (POCKET, "bilingual", "bilingual-apart")

KNOWN_MODELS = MappingProxyType(
    {
        POCKET: "the embedded default: a small BERT trained on the pocket world",
        "bilingual": "embedded: a small BERT that reads both languages of the pocket world in one space",
        "bilingual-apart": "embedded: its control, which reads both languages apart",
        "bert-base-uncased": "BERT, 12 layers, English, lower case",
        "bert-base-cased": "BERT, 12 layers, English",
        "bert-large-uncased": "BERT, 24 layers, English, lower case",
        "bert-base-multilingual-cased": "mBERT, 12 layers, 104 languages",
        "roberta-base": "RoBERTa, 12 layers, English",
        "xlm-roberta-base": "XLM-R, 12 layers, 100 languages",
        "distilbert-base-uncased": "DistilBERT, 6 layers, English, lower case",
        "albert-base-v2": "ALBERT, 12 layers that share weights, English, lower case",
        "google/electra-base-discriminator": "ELECTRA, 12 layers, English, lower case; no masked-LM head",
        "microsoft/deberta-v3-base": "DeBERTa-v3, 12 layers, English",
        "microsoft/mpnet-base": "MPNet, 12 layers, English, lower case",
        "answerdotai/ModernBERT-base": "ModernBERT, 22 layers, English, 8,192 pieces",
        "google-t5/t5-small": "T5, the encoder's 6 layers, English; hidden states and attention only",
        "facebook/bart-base": "BART, the encoder's 6 layers, English; hidden states and attention only",
        "gpt2": "GPT-2, 12 layers, English, left to right; hidden states, attention and surprisal",
    }
)
"""Some names of models, each with one line; any other hub id or folder can be given as well."""
_KEPT: dict[str, ModelSource] = {}
_IN_MEMORY = re.compile(r"[\w.-]+(/[\w.-]+)?( \(in memory( \d+)?\))?", re.ASCII)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LIST = "`bertology models` lists some"
_DESCRIPTION = ("config.json", ADAPTER, *TOKENIZER_FILES, "*.py")
_SAFE = ("model.safetensors", ADAPTER_WEIGHTS[0], "model.safetensors.index.json", "model-*.safetensors")
_PICKLED = ("pytorch_model.bin", ADAPTER_WEIGHTS[1], "pytorch_model.bin.index.json", "pytorch_model-*.bin")


def resolve_model(name: str, *, revision: str | None = None) -> ModelSource:
    """Find the files of a model, or download them from the hub.

    Args:
        name: an embedded model (``pocket``), a folder in Hugging Face layout, a text file of word vectors (GloVe,
            word2vec, fastText), or a hub id (``bert-base-uncased``, ``org/name``).
        revision: branch, tag or commit of a hub id.

    Raises:
        NameNotFoundError: there is no such model; the message names the nearest known ones.
        ModelError: the folder is not that of a model, or the hub cannot be reached and the model is not in its cache.
    """
    if (kept := _KEPT.get(name)) is not None:
        return kept
    path = Path(name).expanduser()
    if name in _EMBEDDED or path.is_dir():
        if revision is not None:
            asked = f"{quoted(revision)} was asked for"
            raise ModelError(f"model {name} has no revisions ({asked}): only models of the hub do")
        # By name, so that no model but the embedded ones needs that package.
        if name in _EMBEDDED:
            return ModelSource(name, import_module("bertology.pocket").model_folder(name))
        return ModelSource(name, _unwrapped(path))
    if path.is_file():
        if not path.name.endswith(static.SUFFIXES):
            raise ModelError(
                f"{name} is a file: give the folder it lies in, or word vectors ({', '.join(static.SUFFIXES)})"
            )
        return ModelSource(name, _of_word_vectors(path))
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise NameNotFoundError(f"no model folder {name}: check the path; {_LIST}")
    if not _HUB_ID.fullmatch(name):
        raise name_not_found("model", name, KNOWN_MODELS, remedy=_LIST)
    folder = _fetch(name, revision)
    return ModelSource(name, _unwrapped(folder), folder.name if folder.parent.name == "snapshots" else None)


def keep_source(source: ModelSource) -> None:
    """Let :func:`resolve_model` find a model in memory by its name, which must be no other's, in this process."""
    if source.name in _EMBEDDED or not _IN_MEMORY.fullmatch(source.name) or Path(source.name).is_dir():
        raise ModelError(f"a model in memory cannot be called {quoted(source.name)}: give letters, digits, - and _")
    _KEPT[source.name] = source


def held_dtype(name: str) -> str | None:
    """The type in which a model computes that is known by this name in memory; None for models of files."""
    return getattr(_KEPT.get(name), "dtype", None)


WAIT_SECONDS = 10.0


def _is_offline() -> bool:
    # Read at each call, not when the hub's library was imported, so that setting it later still counts.
    values = (os.environ.get(name, "").upper() for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return not {"1", "ON", "YES", "TRUE"}.isdisjoint(values)


def _hub_cache() -> str | None:
    """The hub's cache folder, where the environment names one."""
    home = os.environ.get("HF_HOME")
    return os.environ.get("HF_HUB_CACHE") or (str(Path(home) / "hub") if home else None)


def _reason_of(error: Exception) -> str:
    """Why the hub gave no files, in a few words."""
    if _is_offline():
        return "not in its cache, and HF_HUB_OFFLINE is set"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line.removeprefix("Got: ")[:160]


def download(name: str, revision: str | None, patterns: tuple[str, ...], *, offline: bool) -> Path:
    """The folder with those files of a repository whose names fit the patterns."""
    from huggingface_hub import snapshot_download

    options: dict[str, Any] = {"revision": revision, "allow_patterns": list(patterns), "local_files_only": offline}
    options |= {"cache_dir": _hub_cache(), "endpoint": os.environ.get("HF_ENDPOINT") or None}
    with quiet_download():
        return Path(snapshot_download(name, **options, etag_timeout=WAIT_SECONDS))


def _fetch(name: str, revision: str | None) -> Path:
    """The folder of the files of a hub model: weights in safetensors, pickled ones where there are no others."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    place, trouble = os.environ.get("HF_ENDPOINT") or None, None
    try:
        if not _is_offline():
            try:
                HfApi(endpoint=place).model_info(name, revision=revision, timeout=WAIT_SECONDS)
            except (RepositoryNotFoundError, RevisionNotFoundError):
                raise
            except Exception as error:
                trouble = error  # the hub gives no answer, for which a download would wait without end
        for weights in (_SAFE, _PICKLED):
            folder = download(name, revision, (*_DESCRIPTION, *weights), offline=_is_offline() or trouble is not None)
            if any(folder.glob("*.safetensors")):
                break
        return folder
    except GatedRepoError:
        raise ModelError(f"model {name} is gated: accept its terms on the hub and log in (`hf auth login`)") from None
    except RevisionNotFoundError:
        raise ModelError(f"model {name} has no revision {revision!r}: check the branch, tag or commit") from None
    except Exception as error:
        # Errors of the connection, of files and of the hub itself: each becomes one line.
        reason = f"the hub cannot be asked for others ({_reason_of(trouble or error)})"
        if isinstance(error, RepositoryNotFoundError):
            reason = "the hub has none of that name that you may read"
        elif name in KNOWN_MODELS or "/" in name:
            at = f" at {revision}" if revision else ""
            remedy = f"({_reason_of(trouble or error)}): check the connection, or give a folder"
            raise ModelError(f"cannot get model {name}{at} from {place or 'the hub'} {remedy}") from None
        raise name_not_found("model", name, KNOWN_MODELS, remedy=f"{reason}; {_LIST}") from None
