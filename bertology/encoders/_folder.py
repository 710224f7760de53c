"""The files of a model folder: which of them are read, and whether they are whole. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertology.errors import ModelError

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "tokenizer.model",
    "bpe.codes",
)
"""Files that decide how text is cut into pieces."""

_NO_VOCABULARY = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_REMEDY = "give a folder written by save_pretrained (config.json, tokenizer.json, model.safetensors)"


def read_config(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``.

    Raises:
        ModelError: there is none, or it is not a JSON object.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{folder}: no config.json, so this is not a model folder; {_REMEDY}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error}); copy or download the model again") from None
    if not isinstance(config, dict):
        raise ModelError(f"{path}: should hold a JSON object, not {type(config).__name__}; {_REMEDY}")
    return config


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights: safetensors where there are any, else PyTorch's, shards in name order.

    Raises:
        ModelError: there are none, or one that the index names is missing.
    """
    for stem, ending in (("model", "safetensors"), ("pytorch_model", "bin")):
        single, index = folder / f"{stem}.{ending}", folder / f"{stem}.{ending}.index.json"
        if single.is_file():
            return (single,)
        if index.is_file():
            return _shards(index)
    raise ModelError(f"{folder}: no weights (model.safetensors or pytorch_model.bin); {_REMEDY}")


def _shards(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{index}: not a readable index of shards; copy or download the model again") from None
    for name in names:
        if not (index.parent / name).is_file():
            raise ModelError(f"{index.parent / name}: missing, though {index.name} names it; download the model again")
    return tuple(index.parent / name for name in names)


def check_safetensors(path: Path) -> None:
    """Refuse a safetensors file that is cut short or is something else, by its header alone.

    Raises:
        ModelError: its length is not what its header says, or there is no header.
    """
    broken = f"{path}: not a whole safetensors file"
    remedy = "copy or download the model again"
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= size - 8:
            raise ModelError(f"{broken} (its header does not fit in its {size:,} bytes); {remedy}")
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            expected = 8 + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise ModelError(f"{broken} (its header is not readable); {remedy}") from None
    if size != expected:
        raise ModelError(f"{broken} (it has {size:,} bytes of {expected:,}); {remedy}")


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """The tokenizer's files that are there, in a fixed order.

    Raises:
        ModelError: none of them holds a vocabulary.
    """
    found = tuple(folder / name for name in TOKENIZER_FILES if (folder / name).is_file())
    if not any(path.name not in _NO_VOCABULARY for path in found):
        raise ModelError(f"{folder}: no tokenizer (tokenizer.json, vocab.txt …); save the model's tokenizer beside it")
    return found
