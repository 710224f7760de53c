"""The files of a model folder: which of them are read, and whether they are complete. Imports no torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bertology._files import canonical_json
from bertology.errors import ModelError

_NO_VOCABULARY = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (
    *("tokenizer.json", *_NO_VOCABULARY, "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "spm.model"),
    *("sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model", "bpe.codes"),
)
"""Files that decide how text is cut into pieces."""
AGAIN = "copy or download the model again"
_REMEDY = "give a folder written by save_pretrained (config.json, tokenizer.json, model.safetensors)"


def read_config(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``, in which the fields that decide what is loaded have their types."""
    path = folder / "config.json"
    try:
        config = read_model_json(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{folder}: no config.json, so this is not a model folder; {_REMEDY}") from None
    if not isinstance(config, dict):
        raise ModelError(f"{path}: should hold a JSON object, not {type(config).__name__}; {_REMEDY}")
    for name, (kind, right) in _FIELDS.items():
        value = config.get(name)
        parts = value if isinstance(value, list) else []
        is_right = isinstance(value, kind) and all(isinstance(part, str) for part in parts)
        if value is not None and not is_right:
            raise ModelError(f"{path}: {name} is {str(value)[:60]!r}, which should be {right}; {AGAIN}")
    return config


def read_model_json(path: Path) -> Any:
    """The content of one of a model's JSON files."""
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: a folder, device or pipe where a file was due; {AGAIN}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        canonical_json(value)
    except (ValueError, RecursionError) as error:
        # Not JSON, not UTF-8, a number of thousands of digits, half a surrogate pair, deep nesting.
        raise ModelError(f"{path}: not readable as JSON ({str(error)[:200]}); {AGAIN}") from None
    return value


_FIELDS: dict[str, tuple[type, str]] = {
    "model_type": (str, "a name"),
    "architectures": (list, "a list of names"),
    "is_encoder_decoder": (bool, "true or false"),
    "is_decoder": (bool, "true or false"),
    "auto_map": (dict, "an object"),
}
"""Fields of ``config.json`` that decide what is loaded, checked before any library reads them."""


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights: safetensors where there are any, else PyTorch's, shards in name order."""
    for stem, ending in (("model", "safetensors"), ("pytorch_model", "bin")):
        single, index = folder / f"{stem}.{ending}", folder / f"{stem}.{ending}.index.json"
        if single.is_file():
            return (single,)
        if index.is_file():
            return _shards(index)
    raise ModelError(f"{folder}: no weights (model.safetensors or pytorch_model.bin); {_REMEDY}")


def _shards(index: Path) -> tuple[Path, ...]:
    content = read_model_json(index)
    by_tensor = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(by_tensor, dict) or not by_tensor:
        raise ModelError(f"{index}: no weight_map, which says what file each weight is in; {AGAIN}")
    # By their names in the listing, so that an index cannot name files elsewhere on the machine.
    files = {path.name: path for path in index.parent.iterdir() if path.is_file()}
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
    if all(path.name in _NO_VOCABULARY for path in files):
        raise ModelError(f"{folder}: no tokenizer (tokenizer.json, vocab.txt …); save the model's tokenizer beside it")
    return files
