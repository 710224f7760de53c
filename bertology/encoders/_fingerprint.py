"""What a model is, as a hash of what is in its files; names and places do not enter."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bertology._files import canonical_json, digest, digest_file
from bertology.encoders._folder import read_config, read_model_json, tokenizer_files, weight_files
from bertology.encoders._source import Init, ModelSource

# Where a file lay and which version wrote it say nothing about what it computes.
_NOT_CONTENT = frozenset(
    {"_name_or_path", "name_or_path", "transformers_version", "tokenizer_file", "special_tokens_map_file", "is_local"}
    | {"local_files_only", "_commit_hash"}
)


def model_fingerprint(source: ModelSource, *, init: Init = "pretrained", seed: int = 0) -> str:
    """Hash of a model's configuration, tokenizer and weights, as 32 hexadecimal digits.

    Args:
        source: the model's files.
        init: with ``"random"`` the weights do not enter; in their place stand the seed and the versions of the
            libraries that draw them; with ``"random_blocks"`` both enter.
        seed: seed of the random weights; without effect on pretrained ones.

    Raises:
        ModelError: a file that belongs to the model is missing or unreadable.
    """
    config = read_config(source.folder)
    files = list(tokenizer_files(source.folder))
    if "auto_map" in config:
        files += sorted(source.folder.glob("*.py"))
    parts = [b"config", _content(config)]
    for path in files:
        parts += [path.name.encode(), _json_content(path)]
    if init != "pretrained":
        parts += [init.encode(), str(seed).encode(), *(_release(name) for name in ("transformers", "torch"))]
    if init != "random":
        parts += [_file_digest(path).encode() for path in weight_files(source.folder)]
    return digest(parts)


def _release(package: str) -> bytes:
    """The version of a library, whatever processor it was built for."""
    return version(package).partition("+")[0].encode()


def _content(value: dict[str, Any]) -> bytes:
    return canonical_json({key: item for key, item in value.items() if key not in _NOT_CONTENT})


def _json_content(path: Path) -> bytes:
    """What a tokenizer file says: its settings for ``*_config.json``, its bytes' hash otherwise."""
    if not path.name.endswith("_config.json"):
        return _file_digest(path).encode()
    value = read_model_json(path)
    return _content(value) if isinstance(value, dict) else canonical_json(value)


def _file_digest(path: Path) -> str:
    status = path.stat()
    return _digest_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest_of(path: Path, size: int, changed: int) -> str:
    """Hash of a file's bytes; read once as long as its size and time stay."""
    return digest_file(path)
