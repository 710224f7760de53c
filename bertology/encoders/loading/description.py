"""What a model is, read from its files without loading it: where they are, its shape, and a hash of its content."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from bertology._files import canonical_json, digest, digest_file
from bertology._names import folder_name
from bertology.encoders.loading.code import code_files
from bertology.encoders.loading.folder import AGAIN, read_config, read_model_json, tokenizer_files, weight_files
from bertology.encoders.loading.quiet import one_line
from bertology.errors import ModelError

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
    """As it was given to :func:`resolve_model`."""
    folder: Path
    """A folder in Hugging Face layout: ``config.json``, tokenizer files, weights."""
    revision: str | None = None
    """The commit, for a model of the hub."""

    @property
    def title(self) -> str:
        """The name in tables: of a folder its last component."""
        return folder_name(self.name)


class MemorySource(ModelSource):
    """A model that is held in memory and has no files; its folder is only a name."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The type of its weights, in which it computes."""

    @property
    @abstractmethod
    def has_masked_lm_head(self) -> bool:
        """Whether it predicts masked words."""

    @abstractmethod
    def shape(self) -> ModelShape:
        """See :func:`model_shape`."""

    @abstractmethod
    def fingerprint(self, init: Init, seed: int) -> str:
        """See :func:`model_fingerprint`."""

    @abstractmethod
    def reader(self, max_pieces: int | None) -> Any:
        """See :func:`bertology.encoders.load_reader`."""

    @abstractmethod
    def encoder(self, *, init: Init, seed: int, dtype: str | None, device: str, max_pieces: int | None) -> Any:
        """See :func:`bertology.encoders.load_encoder`."""


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


def model_shape(source: ModelSource) -> ModelShape:
    """The number of layers, their width and heads, and the family of a model.

    Read from ``config.json`` alone. The default of a field that the file leaves out is looked up in transformers, which
    is imported in this case only.

    Raises:
        ModelError: the configuration is missing or incomplete.
    """
    if isinstance(source, MemorySource):
        return source.shape()
    return shape_of(read_config(source.folder), source.folder / "config.json")


def shape_of(config: Mapping[str, Any], path: Path | str) -> ModelShape:
    """The same, of a configuration that was read from ``path``."""
    family = config.get("model_type")
    if not isinstance(family, str):
        raise ModelError(f"{path}: no model_type, so the architecture is not known; add it")
    values = {what: _first_of(config, names) for what, names in _FIELDS.items()}
    if None in values.values():
        defaults = _defaults(path, config)
        values = {what: value or _first_of(defaults, _FIELDS[what]) for what, value in values.items()}
    sizes: list[int] = []
    for what, value in values.items():
        if value is None:
            raise ModelError(f"{path}: no {what} (one of {', '.join(_FIELDS[what])}): not an encoder of text")
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
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _defaults(path: Path | str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration with the library's defaults filled in."""
    from transformers import CONFIG_MAPPING

    family = config["model_type"]
    if family not in CONFIG_MAPPING:
        raise ModelError(f"{path}: model_type {family!r} is not known to transformers")
    with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
        filled = CONFIG_MAPPING[family](**config)
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
    if isinstance(source, MemorySource):
        return source.fingerprint(init, seed)
    config = read_config(source.folder)
    files = [*tokenizer_files(source.folder), *code_files(source.folder)]
    parts = [b"config", config_content(config)]
    for path in files:
        parts += [path.name.encode(), _json_content(path)]
    if init != "pretrained":
        parts += [init.encode(), str(seed).encode(), *(version_of(name) for name in ("transformers", "torch"))]
    if init != "random":
        parts += [_file_digest(path).encode() for path in weight_files(source.folder)]
    return digest(parts)


def code_fingerprint(source: ModelSource) -> str | None:
    """Hash of the Python code that comes with a model, which runs where it is trusted; None where there is none."""
    files = () if isinstance(source, MemorySource) else code_files(source.folder)
    return digest(part for path in files for part in (path.name.encode(), path.read_bytes())) if files else None


def version_of(package: str) -> bytes:
    """The version of a library, whatever processor it was built for."""
    return version(package).partition("+")[0].encode()


def config_content(value: Mapping[str, Any]) -> bytes:
    """A configuration but for where it was and which version wrote it, as canonical JSON."""
    return canonical_json({key: item for key, item in value.items() if key not in _NOT_CONTENT})


def _json_content(path: Path) -> bytes:
    """Content of a tokenizer file: its settings for ``*_config.json``, the hash of its bytes otherwise."""
    if not path.name.endswith("_config.json"):
        return _file_digest(path).encode()
    value = read_model_json(path)
    return config_content(value) if isinstance(value, dict) else canonical_json(value)


def _file_digest(path: Path) -> str:
    status = path.stat()
    return _digest_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest_of(path: Path, size: int, changed: int) -> str:
    """Hash of a file's bytes; read once as long as its size and time stay."""
    return digest_file(path)
