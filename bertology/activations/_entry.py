"""One entry of the activation store: word vectors of one text under one model, by layer, on disk.

An entry is a folder of write-once shards, an index of words (Parquet) and a manifest (JSON) that is written last: an
entry with a manifest is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._files import (
    cache_folder,
    canonical_json,
    digest,
    digest_file,
    explained_write_errors,
    read_json,
    write_atomically,
)
from bertology.activations._shards import is_shard_name, shard_checksum
from bertology.errors import StoreError

FORMAT = 1
MANIFEST = "manifest.json"
INDEX = "words.parquet"
StoredType = Literal["float16", "float32"]
_MOST_DIM = 1 << 24
_NAME = re.compile(r"[0-9a-f]{20}-[0-9a-f]{8}")
_REMEDY = "name another folder in BERTOLOGY_CACHE or run `bertology cache prune`"


@dataclass(frozen=True)
class Recipe:
    """All that decides what an entry holds. Two recipes that are equal have the same vectors."""

    model_fingerprint: str
    text_fingerprint: str
    pooling: str = "mean"
    compute_dtype: str = "float32"
    stored_dtype: StoredType = "float16"
    on_long: str = "window"
    max_pieces: int | None = None

    @cached_property
    def key(self) -> str:
        """Hash of the recipe, whatever layers are read."""
        return digest([canonical_json({"format": FORMAT, **asdict(self)})])


@dataclass(frozen=True)
class Manifest:
    """What an entry holds, and the checksum of each of its files."""

    recipe: Recipe
    layers: tuple[int, ...]
    dim: int
    n_words: int
    shards: tuple[tuple[str, int, str], ...]
    """File name, number of words and checksum of each shard."""
    index_checksum: str
    skipped: tuple[tuple[int, str, str, str], ...]
    """Words without vectors: number, sentence id, form, reason."""
    model: str = ""
    """The model as it was named when the entry was made; for people, not part of the key."""
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes of vectors on disk."""
        width = np.dtype(self.recipe.stored_dtype).itemsize
        return sum(rows for _, rows, _ in self.shards) * len(self.layers) * self.dim * width


@dataclass(frozen=True)
class Entry:
    """A whole entry, open for reading."""

    folder: Path
    manifest: Manifest

    @cached_property
    def place(self) -> NDArray[np.int32]:
        """``[word, 2]`` shard and row of each word, −1 for words without vectors."""
        import pyarrow.parquet as pq

        table = pq.read_table(self.folder / INDEX)
        return np.stack([table["shard"].to_numpy(), table["row"].to_numpy()], axis=1)

    def shard_path(self, number: int) -> Path:
        """The file of shard ``number``."""
        return self.folder / self.manifest.shards[number][0]

    def damaged_files(self) -> list[Path]:
        """Shards, and the index, that are missing or whose content is not what was written."""
        damaged = [
            self.shard_path(number)
            for number, (_, _, checksum) in enumerate(self.manifest.shards)
            if shard_checksum(self.shard_path(number)) != checksum
        ]
        index = self.folder / INDEX
        if not index.exists() or digest_file(index) != self.manifest.index_checksum:
            damaged.append(index)
        return damaged


@dataclass(frozen=True, eq=False)
class Outline:
    """An entry to be: all that is known of it before its vectors are."""

    folder: Path
    manifest: Manifest
    """Without checksums."""
    place: NDArray[np.int32]
    """As in :class:`Entry`."""
    pieces: tuple[int, ...]
    """How many pieces of text are read for each shard."""

    def shard_path(self, number: int) -> Path:
        """The file of shard ``number``."""
        return self.folder / self.manifest.shards[number][0]

    def complete(self, checksums: Sequence[str | None]) -> Entry:
        """Write the index and the manifest: with all shards there, that makes the entry whole.

        Args:
            checksums: of each shard.
        """
        shards = []
        for (name, rows, _), checksum in zip(self.manifest.shards, checksums, strict=True):
            if checksum is None:
                raise ValueError(f"{name} is not written yet")
            shards.append((name, rows, checksum))
        index_checksum = write_index(self.folder, self.place)
        return write_manifest(self.folder, replace(self.manifest, shards=tuple(shards), index_checksum=index_checksum))


def entry_folder(recipe: Recipe, layers: Sequence[int]) -> Path:
    """Where the entry of ``recipe`` with exactly these layers is kept."""
    return store_folder() / f"{recipe.key[:20]}-{digest([canonical_json(list(layers))])[:8]}"


def store_folder() -> Path:
    """The folder of all entries."""
    return cache_folder() / "activations"


def is_entry_name(name: str) -> bool:
    """Whether a folder of that name is where an entry is kept."""
    return _NAME.fullmatch(name) is not None


def is_own_file(name: str) -> bool:
    """Whether a file of that name is part of an entry, or was to be."""
    return name in (MANIFEST, INDEX) or is_shard_name(name) or (name.startswith(".") and name.endswith(".tmp"))


def find_entry(recipe: Recipe, layers: Sequence[int]) -> Entry | None:
    """A whole entry of ``recipe`` that holds at least ``layers``, or ``None``."""
    exact = entry_folder(recipe, layers)
    others = sorted(store_folder().glob(f"{recipe.key[:20]}-*"))
    for folder in [exact, *(path for path in others if is_entry_name(path.name))]:
        entry = open_entry(folder)
        if entry is not None and entry.manifest.recipe == recipe and set(layers) <= set(entry.manifest.layers):
            return entry
    return None


def open_entry(folder: Path) -> Entry | None:
    """The entry in ``folder``, or ``None`` where there is no whole one.

    Raises:
        BertologyError: its manifest is not one that this version wrote.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    what, remedy = "the manifest of a store entry", f"delete {folder.name} and run again"
    found: _Written = read_json(path, what=what, form=_Written, remedy=remedy)
    wrong = found.problem()
    if wrong is not None:
        raise StoreError(f"{path}: not readable as {what} ({wrong}); {remedy}")
    return Entry(folder, Manifest(**{part.name: getattr(found, part.name) for part in fields(Manifest)}))


@dataclass(frozen=True, kw_only=True)
class _Written(Manifest):
    """A manifest as it is in its file."""

    format: Literal[1]

    def problem(self) -> str | None:
        """What no extraction writes."""
        if not self.layers or list(self.layers) != sorted(set(self.layers)) or self.layers[0] < 0:
            return "layers: none, or not in order"
        if not 0 < self.dim < _MOST_DIM:
            return "dim: not a number of values of a vector"
        if not all(is_shard_name(name) and rows > 0 for name, rows, _ in self.shards):
            return "shards: not a file of this entry, or without words"
        if sum(rows for _, rows, _ in self.shards) + len(self.skipped) != self.n_words:
            return "n_words: not as many as shards hold"
        return None


def write_index(folder: Path, place: NDArray[np.int32]) -> str:
    """Write the index of words (which shard and row each word's vector is in) and return its checksum."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"word": np.arange(len(place)), "shard": place[:, 0], "row": place[:, 1]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    write_atomically(folder / INDEX, sink.getvalue().to_pybytes(), remedy=_REMEDY)
    return digest_file(folder / INDEX)


def write_manifest(folder: Path, manifest: Manifest) -> Entry:
    """Write the manifest, which makes the entry whole."""
    plain = {"format": FORMAT, **asdict(manifest)}
    write_atomically(folder / MANIFEST, json.dumps(plain, indent=1, ensure_ascii=False).encode(), remedy=_REMEDY)
    return Entry(folder, manifest)


def make_folder(folder: Path) -> None:
    """Make an entry's folder, or say in one line why it cannot be made."""
    with explained_write_errors(folder, remedy=_REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
