"""One entry of the activation store: word vectors of one text under one model, by layer, on disk.

An entry is a folder of write-once shards, an index of words (Parquet) and a manifest (JSON) that is written last: an
entry with a manifest is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._cache import cache_folder
from bertology._files import canonical_json, digest, digest_file, explained_write_errors, read_json, write_atomically
from bertology.activations._shards import shard_checksum

FORMAT = 1
MANIFEST = "manifest.json"
INDEX = "words.parquet"
StoredType = Literal["float16", "float32"]
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


def find_entry(recipe: Recipe, layers: Sequence[int]) -> Entry | None:
    """A whole entry of ``recipe`` that holds at least ``layers``, or ``None``."""
    exact = entry_folder(recipe, layers)
    others = sorted(store_folder().glob(f"{recipe.key[:20]}-*"))
    for folder in [exact, *others]:
        entry = open_entry(folder)
        if entry is not None and entry.manifest.recipe == recipe and set(layers) <= set(entry.manifest.layers):
            return entry
    return None


def open_entry(folder: Path) -> Entry | None:
    """The entry in ``folder``, or ``None`` where there is no whole one."""
    if not (folder / MANIFEST).exists():
        return None
    plain = read_json(folder / MANIFEST, what="the manifest of a store entry")
    if plain.get("format") != FORMAT:
        return None
    manifest = Manifest(
        recipe=Recipe(**plain["recipe"]),
        layers=tuple(plain["layers"]),
        dim=plain["dim"],
        n_words=plain["n_words"],
        shards=tuple((name, rows, checksum) for name, rows, checksum in plain["shards"]),
        index_checksum=plain["index_checksum"],
        skipped=tuple((word, sentence, form, reason) for word, sentence, form, reason in plain["skipped"]),
        model=plain["model"],
        about=plain["about"],
    )
    return Entry(folder, manifest)


def all_entries() -> Iterable[tuple[Path, Entry | None]]:
    """Every folder of the store with its entry; ``None`` where an extraction is unfinished."""
    if store_folder().is_dir():
        for folder in sorted(store_folder().iterdir()):
            if folder.is_dir():
                yield folder, open_entry(folder)


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
