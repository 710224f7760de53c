"""One shard of the store: a safetensors file with one tensor a layer and a checksum of its own content.

The checksum stands in the file's own header, so that a shard can be judged before the manifest that lists it exists.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from bertology._files import signature, write_atomically

_HEADER_LENGTH_BYTES = 8
_READ_BYTES = 1 << 22
_CACHE_REMEDY = "name another folder in BERTOLOGY_CACHE or run `bertology cache prune`"


_SHARD = re.compile(r"shard-\d{5,}\.safetensors")


def shard_name(number: int) -> str:
    """The file name of shard ``number`` of an entry."""
    return f"shard-{number:05d}.safetensors"


def is_shard_name(name: str) -> bool:
    """Whether a file of that name is a shard."""
    return _SHARD.fullmatch(name) is not None


def layer_name(layer: int) -> str:
    """The tensor that holds ``layer`` in a shard."""
    return f"layer_{layer:02d}"


def write_shard(path: Path, vectors: NDArray[np.generic], layers: Sequence[int]) -> str:
    """Write ``vectors [layer, word, dim]`` as one shard and return its checksum."""
    tensors = {layer_name(layer): vectors[place] for place, layer in enumerate(layers)}
    state = hashlib.blake2b(digest_size=16)
    # safetensors lays tensors of one type out by name, which is the order of layers here.
    for name in sorted(tensors):
        state.update(np.ascontiguousarray(tensors[name]).data)
    checksum = state.hexdigest()
    write_atomically(path, save(tensors, metadata={"blake2b": checksum}), remedy=_CACHE_REMEDY)
    return checksum


_CHECKED: dict[Path, tuple[tuple[int, int, int], str | None]] = {}
"""Checksums this process has taken, with what would change if a file did: many fits open the same shards."""


def shard_checksum(path: Path) -> str | None:
    """The checksum of a shard that is whole and unaltered, or ``None`` for any other file or none."""
    try:
        now = signature(path)
    except FileNotFoundError:
        return None
    known = _CHECKED.get(path)
    if known is None or known[0] != now:
        known = _CHECKED[path] = (now, _taken_checksum(path))
    return known[1]


def _taken_checksum(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_HEADER_LENGTH_BYTES), "little")
            if not 0 < length < path.stat().st_size:
                return None
            declared = json.loads(file.read(length)).get("__metadata__", {}).get("blake2b")
            state = hashlib.blake2b(digest_size=16)
            while block := file.read(_READ_BYTES):
                state.update(block)
    except (FileNotFoundError, ValueError, AttributeError):
        return None
    return declared if declared == state.hexdigest() else None


class OpenShard:
    """A shard read through the memory map; rows of one layer are read without touching the others."""

    def __init__(self, path: Path) -> None:
        self._file = safe_open(path, framework="numpy")

    def rows(self, layer: int, first: int, last: int) -> NDArray[np.generic]:
        """Rows ``first … last − 1`` of ``layer``, ``[word, dim]``."""
        rows: NDArray[np.generic] = self._file.get_slice(layer_name(layer))[first:last]  # type: ignore[no-untyped-call]
        return rows
