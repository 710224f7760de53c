"""Models as files: folders and their checks, downloads, shapes, fingerprints and configurations. Imports no torch."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from bertology._files import canonical_json, digest, digest_file, explained_write_errors
from bertology._memory import is_out_of_memory
from bertology._names import folder_name, layer_number
from bertology._quiet import quiet_download as quiet_download
from bertology._quiet import quiet_loading as quiet_loading
from bertology.errors import BertologyError, ModelError


@contextlib.contextmanager
def one_line(what: str, *, remedy: str) -> Iterator[None]:
    """Turn the errors that a library raises for a model's files into a ModelError of one line, but not lack of memory.

    Each architecture validates in its own way, broken files show as errors of every kind, and the tokenizers library
    raises bare exceptions and panics. ``what`` names the file or folder, and what cannot be done with it.
    """
    try:
        yield
    except BaseException as error:
        is_librarys = isinstance(error, Exception) or type(error).__name__ == "PanicException"
        if not is_librarys or isinstance(error, BertologyError) or is_out_of_memory(error):
            raise
        if "weights_only" in str(error):
            # torch then advises to load the file in a way that runs whatever code is in it.
            raise ModelError(
                f"{what} (it is a pickle that holds more than tensors, which can run code); ask its author for "
                "safetensors, or for a pickle of the weights alone"
            ) from None
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines[0] if lines else type(error).__name__)[:200]
        raise ModelError(f"{what} ({reason}); {remedy}") from None


NO_VOCABULARY = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (
    *("tokenizer.json", *NO_VOCABULARY, "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "spm.model"),
    *("sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model", "bpe.codes"),
)
"""Files that decide how text is cut into pieces."""
AGAIN = "copy or download the model again"
_TYPES: dict[str, tuple[type, str]] = {
    "model_type": (str, "a name"),
    "architectures": (list, "a list of names"),
    "is_encoder_decoder": (bool, "true or false"),
    "is_decoder": (bool, "true or false"),
    "auto_map": (dict, "an object"),
}
"""Fields of ``config.json`` that decide what is loaded, checked before any library reads them."""
_SAVE_AGAIN = "give a folder written by save_pretrained (config.json, tokenizer.json, model.safetensors)"


def read_config(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``, in which the fields that decide what is loaded have their types."""
    path = folder / "config.json"
    try:
        config = read_model_json(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{folder}: no config.json, so this is not a model folder; {_SAVE_AGAIN}") from None
    if not isinstance(config, dict):
        raise ModelError(f"{path}: should hold a JSON object, not {type(config).__name__}; {_SAVE_AGAIN}")
    for name, (kind, right) in _TYPES.items():
        value = config.get(name)
        parts = value if isinstance(value, list) else []
        if value is not None and not (isinstance(value, kind) and all(isinstance(part, str) for part in parts)):
            raise ModelError(f"{path}: {name} is {str(value)[:60]!r}, which should be {right}; {AGAIN}")
    return config


def read_model_json(path: Path) -> Any:
    """The content of one of a model's JSON files."""
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: expected a file, found a folder, device or pipe; {AGAIN}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        canonical_json(value)
    except (ValueError, RecursionError) as error:
        # Not JSON, not UTF-8, a number of thousands of digits, half a surrogate pair, deep nesting.
        raise ModelError(f"{path}: not readable as JSON ({str(error)[:200]}); {AGAIN}") from None
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
        raise ModelError(f"{folder}: no weights (model.safetensors or pytorch_model.bin); {_SAVE_AGAIN}")
    content = read_model_json(index)
    by_tensor = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(by_tensor, dict) or not by_tensor:
        raise ModelError(f"{index}: no weight_map, which names the file of each weight; {AGAIN}")
    # By their names in the listing, so that an index cannot name files elsewhere on the machine.
    files = {path.name: path for path in folder.iterdir() if path.is_file()}
    for name in by_tensor.values():
        if not isinstance(name, str) or name not in files:
            raise ModelError(f"{index}: it names {str(name)[:60]!r}, which is no file of its folder; {AGAIN}")
    return tuple(files[name] for name in sorted(set(by_tensor.values())))


def check_safetensors(path: Path) -> int:
    """Check by its header alone that a safetensors file is complete, and return the number of values in it.

    The header is read as bytes: opening the file with its library maps all of it, which takes as much address space as
    the model, before it is known how much there is.
    """
    broken = f"{path}: not a whole safetensors file"
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= size - 8:
            raise ModelError(f"{broken} (its header does not fit in its {size:,} bytes); {AGAIN}")
        try:
            header = json.loads(file.read(length))
            entries = [entry for name, entry in header.items() if name != "__metadata__"]
            expected = 8 + length + max((entry["data_offsets"][1] for entry in entries), default=0)
            n_values: int = sum(math.prod(entry["shape"]) for entry in entries)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise ModelError(f"{broken} (its header is not readable); {AGAIN}") from None
    if size != expected:
        raise ModelError(f"{broken} (it has {size:,} bytes of {expected:,}); {AGAIN}")
    return n_values


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """The files of the tokenizer, of which one must hold a vocabulary, in a fixed order."""
    files = tuple(folder / name for name in TOKENIZER_FILES if (folder / name).is_file())
    if all(path.name in NO_VOCABULARY for path in files):
        raise ModelError(f"{folder}: no tokenizer (tokenizer.json, vocab.txt …); save the model's tokenizer beside it")
    return files


WAIT_SECONDS = 10.0


def download(name: str, revision: str | None, patterns: tuple[str, ...], *, offline: bool) -> Path:
    """The folder with those files of a repository whose names fit the patterns."""
    from huggingface_hub import snapshot_download

    options: dict[str, Any] = {"revision": revision, "allow_patterns": list(patterns), "local_files_only": offline}
    options |= {"cache_dir": hub_cache(), "endpoint": os.environ.get("HF_ENDPOINT") or None}
    with quiet_download():
        return Path(snapshot_download(name, **options, etag_timeout=WAIT_SECONDS))


def is_offline() -> bool:
    """Whether the environment forbids to ask the hub."""
    # Read at each call, not when the hub's library was imported, so that setting it later still counts.
    said = (os.environ.get(name, "").upper() for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return not {"1", "ON", "YES", "TRUE"}.isdisjoint(said)


def hub_cache() -> str | None:
    """The hub's cache folder, where the environment names one."""
    home = os.environ.get("HF_HOME")
    return os.environ.get("HF_HUB_CACHE") or (str(Path(home) / "hub") if home else None)


def reason_of(error: Exception) -> str:
    """Why the hub gave no files, in a few words."""
    if is_offline():
        return "not in its cache, and HF_HUB_OFFLINE is set"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line.removeprefix("Got: ")[:160]


def code_files(folder: Path) -> list[Path]:
    """The Python files of a model whose configuration or tokenizer names classes in them; none for others."""
    names, tokenizer = list[str](), folder / "tokenizer_config.json"
    for settings in (read_config(folder), read_model_json(tokenizer) if tokenizer.is_file() else {}):
        classes = settings.get("auto_map") if isinstance(settings, dict) else None
        for value in classes.values() if isinstance(classes, dict) else [classes]:
            names += [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]
    files = sorted(folder.glob("*.py")) if names else []
    # Two hyphens stand between a repository and a class in it, where code lies in another one than the model.
    for repository in sorted({name.partition("--")[0] for name in names if "--" in name}):
        try:
            files += sorted(download(repository, None, ("*.py",), offline=is_offline()).glob("*.py"))
        except Exception as error:
            # Errors of the connection and of the hub itself, and names that are no hub ids: each becomes one line.
            raise ModelError(
                f"{folder}: cannot get its code from {repository} ({reason_of(error)}): check the connection"
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
    dtype: str
    """The type of its weights, in which it computes."""
    content: str = ""
    """Identity of the model, by which results are kept."""
    model: Any = field(repr=False, compare=False)
    """Modules of a copy of the model as it was when it was given."""
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
    from_library: Mapping[str, Any] = {}
    family, sizes = config.get("model_type"), list[int]()
    if not isinstance(family, str):
        raise ModelError(f"{path}: no model_type, so the architecture is not known; add it")
    for what, names in _FIELDS.items():
        value = _first_of(config, names)
        if value is None:
            from_library = from_library or _with_defaults(path, config)
            value = _first_of(from_library, names)
        if value is None:
            raise ModelError(f"{path}: no {what} (one of {', '.join(names)}): not an encoder of text")
        sizes.append(value)
    n_layers, dim, n_heads = sizes
    if family == "albert":
        inner = config.get("inner_group_num", 1)
        n_layers *= inner if isinstance(inner, int) else 1
    if n_layers > _MOST_LAYERS or dim > _MOST_DIMENSIONS:
        raise ModelError(
            f"{path}: more than {_MOST_LAYERS:,} layers, or than {_MOST_DIMENSIONS:,} dimensions: "
            "not an encoder of text"
        )
    return ModelShape(n_layers, dim, n_heads, family)


def _first_of(config: Mapping[str, Any], names: Sequence[str]) -> int | None:
    values = (config.get(name) for name in names)
    return next((one for one in values if isinstance(one, int) and not isinstance(one, bool) and one > 0), None)


def _with_defaults(path: Path | str, config: Mapping[str, Any]) -> dict[str, Any]:
    from transformers import CONFIG_MAPPING

    if config["model_type"] not in CONFIG_MAPPING:
        raise ModelError(f"{path}: model_type {config['model_type']!r} is not known to transformers")
    with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
        filled = CONFIG_MAPPING[config["model_type"]](**config)
    return {name: getattr(filled, name, None) for names in _FIELDS.values() for name in names}


def model_fingerprint(source: ModelSource, *, init: Init = "pretrained", seed: int = 0) -> str:
    """Hash of a model's configuration, tokenizer and weights, as 32 hexadecimal digits.

    Args:
        source: the model's files.
        init: with ``"random"`` the seed and the versions of the libraries that draw the weights are hashed instead of
            the weights; with ``"random_blocks"`` both are.
        seed: seed of the random weights; without effect on pretrained ones.

    Raises:
        ModelError: a file that belongs to the model is missing or unreadable.
    """
    libraries = [version(name).partition("+")[0].encode() for name in ("transformers", "torch")]
    if isinstance(source, MemorySource):
        if init == "pretrained":
            return source.content
        source.fresh(init, seed)  # raises where there are no random weights
        return digest([source.content.encode(), init.encode(), str(seed).encode(), *reversed(libraries)])
    config = read_config(source.folder)
    files = [*tokenizer_files(source.folder), *code_files(source.folder)]
    parts = [b"config", config_content(config)]
    for path in files:
        parts += [path.name.encode(), _json_content(path)]
    if init != "pretrained":
        parts += [init.encode(), str(seed).encode(), *libraries]
    if init != "random":
        parts += [_file_digest(path).encode() for path in weight_files(source.folder)]
    return digest(parts)


def code_fingerprint(source: ModelSource) -> str | None:
    """Hash of the Python code that comes with a model, which runs where it is trusted; None where there is none."""
    files = () if isinstance(source, MemorySource) else code_files(source.folder)
    return digest(part for path in files for part in (path.name.encode(), path.read_bytes())) if files else None


def config_content(value: Mapping[str, Any]) -> bytes:
    """A configuration as canonical JSON, without its path and the library version that wrote it."""
    return canonical_json({key: item for key, item in value.items() if key not in _NOT_CONTENT})


def _json_content(path: Path) -> bytes:
    """Content of a tokenizer file: its settings for ``*_config.json``, the hash of its bytes otherwise."""
    if not path.name.endswith("_config.json"):
        return _file_digest(path).encode()
    value = read_model_json(path)
    return config_content(value) if isinstance(value, dict) else canonical_json(value)


def _file_digest(path: Path) -> str:
    """Hash of a file's bytes; read once as long as its size and time stay."""
    status = path.stat()
    return _digest_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest_of(path: Path, size: int, changed: int) -> str:
    return digest_file(path)


def load_config(source: ModelSource, trust_remote_code: bool) -> Any:
    """The configuration of a model, by its class in transformers."""
    from transformers import CONFIG_MAPPING, AutoConfig

    path = source.folder / "config.json"
    raw = read_config(source.folder)
    if raw["model_type"] not in CONFIG_MAPPING and not trust_remote_code:
        if "auto_map" not in raw:
            raise ModelError(f"{path}: model_type {raw['model_type']!r} is not known to transformers")
        raise ModelError(
            f"model {source.name} runs Python code of its own: pass --trust-remote-code (trust_remote_code=True) if "
            "you trust it; a file of settings has to ask for it as well (trust_remote_code: true)"
        )
    with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
        config = AutoConfig.from_pretrained(source.folder, trust_remote_code=trust_remote_code)
    if getattr(config, "_attn_implementation", None) not in (None, "eager", "sdpa"):
        config._attn_implementation = None  # such as flash_attention_2: how it was trained, not what it computes
    return config


def pretrained(kind: Any, source: ModelSource, **options: Any) -> tuple[Any, frozenset[str]]:
    """A model from its files by one of the classes of transformers, and the names of weights that these files lack."""
    with quiet_loading():
        model, report = kind.from_pretrained(source.folder, output_loading_info=True, **options)
    return model, frozenset(report["missing_keys"])


def drawn(kind: Any, config: Any, seed: int, dtype: Any, **options: Any) -> Any:
    """A model with random weights of a class of transformers; the global generators are left as they were.

    Weights are drawn in float32 whatever the dtype, so that a seed means the same weights in each.
    """
    import torch

    with quiet_loading(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind.from_config(config, dtype=torch.float32, **options).to(dtype)


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
    """Write a folder in Hugging Face layout: configuration, weights and tokenizer.

    The folder is complete only when this returns: callers write it below a temporary name, or a record after it.

    Args:
        model: a model of transformers, or of peft with adapters, of which the adapters alone are written.
        folder: that is written.
        tokenizer: of transformers; or the folder of another model, whose tokenizer files are copied as they are.
        left_out: names of weights that are not written.

    Raises:
        StoreError: the folder cannot be written, or the disk is full.
    """
    with explained_write_errors(folder), quiet_loading():
        weights = {name: value for name, value in model.state_dict().items() if name not in left_out}
        model.save_pretrained(folder, **({"state_dict": weights} if left_out else {}))
        if isinstance(tokenizer, Path):
            for path in tokenizer_files(tokenizer):
                shutil.copyfile(path, folder / path.name)
        else:
            tokenizer.save_pretrained(folder)
