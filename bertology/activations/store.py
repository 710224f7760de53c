"""The activation store: one entry holds the word vectors of one text under one model, by layer, on disk.

An entry is a folder of write-once shards, an index of words (Parquet) and a manifest (JSON) that is written last: an
entry with a manifest is whole. A shard is a safetensors file with one tensor a layer; the checksum of the whole file
stands in its own header (taken with zeros in its place), so that a shard can be verified before the manifest that lists
it exists. The manifest has a checksum of its own content. Whatever else lies in the folder of the store is listed and
left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._files import (
    FORMAT,
    cache_folder,
    canonical_json,
    digest,
    digest_file,
    explained_write_errors,
    read_json,
    signature,
    write_atomically,
)
from bertology.encoders.batching import CLS, Encoding
from bertology.errors import BertologyError, StoreError

MANIFEST = "manifest.json"
INDEX = "words.parquet"
StoredType = Literal["float16", "float32"]
_MOST_DIM = 1 << 24
_NAME = re.compile(r"[0-9a-f]{20}-[0-9a-f]{8}")
_LAYER = "layer_{:02d}"
_SHARD = re.compile(r"shard-\d{5,}\.safetensors")
_OWN_FILE = re.compile(rf"{re.escape(MANIFEST)}|{re.escape(INDEX)}|{_SHARD.pattern}|\..*\.tmp", re.DOTALL)
_HEADER_LENGTH_BYTES = 8
_NO_CHECKSUM = "0" * 32  # placeholder of a shard's checksum while it is computed
_READ_BYTES = 1 << 22
_REMEDY = "name another folder in BERTOLOGY_CACHE or run `bertology cache prune`"


@dataclass(frozen=True)
class Recipe:
    """The settings that determine the vectors of an entry: equal recipes give the same vectors."""

    model_fingerprint: str
    text_fingerprint: str
    pooling: str = "mean"
    """Pooling of a word's pieces; or ``cls``, the vectors of the first special tokens: then sentences take the place of
    words in the entry, its index and its manifest."""
    compute_dtype: str = "float32"
    stored_dtype: StoredType = "float16"
    on_long: str = "window"
    max_pieces: int | None = None
    encoding: Encoding | None = None
    """Input form of the sentences; None for each by itself."""

    @cached_property
    def key(self) -> str:
        """Hash of the recipe; layers are not part of it."""
        return digest([canonical_json({"format": FORMAT, **asdict(self)})])

    def folder(self, layers: Sequence[int]) -> Path:
        """The folder of the entry with exactly these layers."""
        return store_folder() / f"{self.key[:20]}-{digest([canonical_json(list(layers))])[:8]}"

    def find(self, layers: Sequence[int]) -> Entry | None:
        """A complete entry with at least ``layers``, or ``None``."""
        for folder in [self.folder(layers), *sorted(store_folder().glob(f"{self.key[:20]}-*"))]:
            entry = open_entry(folder) if _NAME.fullmatch(folder.name) else None
            if entry is not None and entry.manifest.recipe == self and set(layers) <= set(entry.manifest.layers):
                return entry
        return None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Description of an entry, with the checksum of each of its files."""

    format: Literal[2] = 2
    recipe: Recipe
    layers: tuple[int, ...]
    dim: int
    n_words: int
    shards: tuple[tuple[str, int, str], ...]  # file name, number of words and checksum of each shard
    index_checksum: str
    skipped: tuple[tuple[int, str, str, str], ...]  # words without vectors: number, sentence id, form, reason
    joined: tuple[int, ...] = ()  # words with exactly the subwords of the word before them
    n_unknown: int = 0  # number of words with an unknown subword
    n_long: int = 0  # number of words in sentences longer than the model takes
    model: str = ""  # name that the model was loaded by when the entry was made; not part of the key
    about: dict[str, Any] = field(default_factory=dict)
    checksum: str = ""  # checksum of the other fields; empty in the manifest of an entry that is not whole

    def content_checksum(self) -> str:
        """The checksum that the manifest should have."""
        content = {**asdict(self), "checksum": ""}
        del content["format"]
        return digest([canonical_json(content)])

    @property
    def n_bytes(self) -> int:
        """Bytes of vectors on disk."""
        n_stored = sum(rows for _, rows, _ in self.shards)
        return n_stored * len(self.layers) * self.dim * np.dtype(self.recipe.stored_dtype).itemsize


@dataclass(frozen=True)
class Entry:
    """An entry of the store, whole as soon as its manifest is written."""

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
        """Files among shards, index and manifest that are missing or whose checksum differs from the recorded one."""
        damaged, index = list[Path](), self.folder / INDEX
        for name, _, checksum in self.manifest.shards:
            if shard_checksum(self.folder / name) != checksum:
                damaged.append(self.folder / name)
        if not index.exists() or digest_file(index) != self.manifest.index_checksum:
            damaged.append(index)
        if self.manifest.checksum != self.manifest.content_checksum():
            damaged.append(self.folder / MANIFEST)
        return damaged

    def complete(self, checksums: Sequence[str | None]) -> Entry:
        """Write the manifest, which makes the entry whole; a ValueError where a shard has no checksum yet."""
        if None in checksums:
            raise ValueError(f"{self.manifest.shards[checksums.index(None)][0]} is not written yet")
        files = zip(self.manifest.shards, checksums, strict=True)
        shards = tuple((name, rows, str(checksum)) for (name, rows, _), checksum in files)
        manifest = replace(self.manifest, shards=shards)
        manifest = replace(manifest, checksum=manifest.content_checksum())
        plain = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
        write_atomically(self.folder / MANIFEST, plain.encode(), remedy=_REMEDY)
        return Entry(self.folder, manifest)


def store_folder() -> Path:
    """The folder of all entries."""
    return cache_folder() / "activations"


def open_entry(folder: Path) -> Entry | None:
    """The entry in ``folder``, or ``None`` where there is no whole one; a :class:`BertologyError` where its manifest is
    not in the form that this version writes."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    what, remedy = "the manifest of a store entry", f"delete {folder.name} and run again"
    manifest: Manifest = read_json(path, what=what, form=Manifest, remedy=remedy)
    layers, n_words, is_possible = list(manifest.layers), len(manifest.skipped), True
    for name, rows, _ in manifest.shards:
        n_words += rows
        is_possible = is_possible and _SHARD.fullmatch(name) is not None and rows > 0
    is_possible = is_possible and n_words == manifest.n_words and 0 < manifest.dim < _MOST_DIM
    if not is_possible or not layers or layers != sorted({*layers}) or layers[0] < 0:
        raise StoreError(f"{path}: not readable as {what} (layers, dim, shards or n_words do not fit); {remedy}")
    return Entry(folder, manifest)


def write_index(folder: Path, place: NDArray[np.int32]) -> str:
    """Write the index, ``[word, 2]`` shard and row of each word, and return its checksum."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"word": np.arange(len(place)), "shard": place[:, 0], "row": place[:, 1]}), sink)
    write_atomically(folder / INDEX, sink.getvalue().to_pybytes(), remedy=_REMEDY)
    return digest_file(folder / INDEX)


def make_folder(folder: Path) -> None:
    """Make the folder of an entry; a :class:`StoreError` where that is not possible."""
    with explained_write_errors(folder, remedy=_REMEDY):
        folder.mkdir(parents=True, exist_ok=True)


def shard_name(number: int) -> str:
    """The file name of shard ``number`` of an entry."""
    return f"shard-{number:05d}.safetensors"


def write_shard(path: Path, vectors: NDArray[np.generic], layers: Sequence[int]) -> str:
    """Write ``vectors [layer, word, dim]`` as one shard and return its checksum.

    The file is what ``safetensors.numpy.save`` makes, which would hold all of it in memory once more.
    """
    arrays = zip(layers, map(np.ascontiguousarray, vectors), strict=True)
    # safetensors lays tensors of one type out by name, which is the order of layers here.
    parts = dict(sorted((_LAYER.format(layer), values.data) for layer, values in arrays))
    header: dict[str, Any] = {"__metadata__": {"blake2b": _NO_CHECKSUM}}
    for number, (name, part) in enumerate(parts.items()):
        offsets = [number * part.nbytes, (number + 1) * part.nbytes]
        header[name] = {"dtype": f"F{8 * part.itemsize}", "shape": part.shape, "data_offsets": offsets}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _HEADER_LENGTH_BYTES)  # so that tensors are aligned
    length = len(head).to_bytes(_HEADER_LENGTH_BYTES, "little")
    state = hashlib.blake2b(length + head, digest_size=16)
    for part in parts.values():
        state.update(part)
    checksum = state.hexdigest()
    write_atomically(
        path, [length, head.replace(_NO_CHECKSUM.encode(), checksum.encode(), 1), *parts.values()], remedy=_REMEDY
    )
    return checksum


_CHECKED: dict[Path, tuple[tuple[int, int, int], str | None]] = {}
"""Checksums taken by this process, with the signature of the file then: many fits open the same shards."""


def shard_checksum(path: Path) -> str | None:
    """The checksum of a shard that is whole and unaltered, or ``None`` for any other file or none."""
    try:
        now = signature(path)
        if path in _CHECKED and _CHECKED[path][0] == now:
            return _CHECKED[path][1]
        with path.open("rb") as file:
            start = file.read(_HEADER_LENGTH_BYTES)
            length = int.from_bytes(start, "little")
            head = file.read(length) if 0 < length < path.stat().st_size else b""
            declared = json.loads(head)["__metadata__"]["blake2b"]
            state = hashlib.blake2b(start + head.replace(declared.encode(), _NO_CHECKSUM.encode(), 1), digest_size=16)
            while block := file.read(_READ_BYTES):
                state.update(block)
        found = declared if declared == state.hexdigest() else None
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, KeyError, TypeError):
        found = None
    _CHECKED[path] = (now, found)
    return found


class OpenShard:
    """A shard read through the memory map; rows of one layer are read without touching the others."""

    def __init__(self, path: Path) -> None:
        from safetensors import safe_open

        self._file = safe_open(path, framework="numpy")

    def rows(self, layer: int, first: int, last: int) -> NDArray[np.generic]:
        """Rows ``first … last − 1`` of ``layer``, ``[word, dim]``."""
        rows: NDArray[np.generic] = self._file.get_slice(_LAYER.format(layer))[first:last]  # type: ignore[no-untyped-call]
        return rows


@dataclass(frozen=True)
class StoreStatus:
    """One file or folder in the folder of the store."""

    folder: Path
    entry: Entry | None = None
    """``None`` for an unfinished extraction, for what is no entry, and for one with a damaged manifest."""
    n_bytes: int = 0  # size of the files of an entry
    last_read: float = 0.0  # time when it was last written or opened, in seconds since the epoch
    foreign: str = ""  # why it is no entry of the store; empty for an entry
    damage: str = ""  # the problem with the manifest; empty if there is none

    @property
    def name(self) -> str:
        """Name of the folder, quoted if it has characters that a terminal does not show."""
        return self.folder.name if self.folder.name.isprintable() else repr(self.folder.name)

    @property
    def is_left_alone(self) -> bool:
        """Whether it is never deleted."""
        return bool(self.foreign or self.damage)

    def describe(self) -> str:
        """A description in one line."""
        if self.is_left_alone:
            return f"left alone: {self.foreign or self.damage}"
        if self.entry is None:
            return "unfinished; the run that needs it goes on with it"
        manifest, recipe = self.entry.manifest, self.entry.manifest.recipe
        layers = ",".join(map(str, manifest.layers))
        what = "sentences" if recipe.pooling == CLS else "words"
        how = recipe.pooling if recipe.encoding is None else f"{recipe.pooling}, {recipe.encoding}"
        return f"{manifest.model}: layers {layers}, {manifest.n_words:,} {what}, {how}, {recipe.stored_dtype}"

    def problems(self) -> list[str]:
        """Missing or altered files; none for an unfinished entry, whose shards are checked on resuming."""
        if self.damage:
            return [self.damage]
        return [f"{path.name} is missing or damaged" for path in self.entry.damaged_files()] if self.entry else []


def store_status() -> list[StoreStatus]:
    """Everything in the folder of the store except locks; a :class:`StoreError` where that cannot be read."""
    store = store_folder()
    with explained_write_errors(store, verb="read", remedy="name another folder in BERTOLOGY_CACHE"):
        try:
            paths = sorted(store.iterdir())
        except FileNotFoundError:  # nothing has been stored yet
            paths = []
    return [_status(path) for path in paths if path.suffix != ".lock"]


def _status(path: Path) -> StoreStatus:
    if path.is_symlink() or not path.is_dir():
        return StoreStatus(path, foreign="a link" if path.is_symlink() else "a file")
    if not _NAME.fullmatch(path.name):
        return StoreStatus(path, foreign="not a folder of the store")
    try:
        stats = {file: file.lstat() for file in path.iterdir()}
        for file, stat in stats.items():
            if not _OWN_FILE.fullmatch(file.name) or not S_ISREG(stat.st_mode):
                return StoreStatus(path, foreign=f"it holds {file.name!r}, which the store does not write")
        # The manifest is opened to list an entry, so its time is no sign of use.
        used = [max(stat.st_atime, stat.st_mtime) for file, stat in stats.items() if file.name != MANIFEST]
        n_bytes, entry = sum(stat.st_size for stat in stats.values()), open_entry(path)
    except OSError as error:
        return StoreStatus(path, foreign=f"it cannot be read ({error.strerror})")
    except BertologyError as error:
        return StoreStatus(path, damage=str(error))
    return StoreStatus(path, entry, n_bytes, max(used, default=path.stat().st_mtime))


def prune_store(
    *,
    older_than_days: float = 0.0,
    only_unfinished: bool = False,
    dry_run: bool = False,
    confirm: Callable[[Sequence[StoreStatus]], None] = lambda _: None,
) -> list[StoreStatus]:
    """Delete entries, except those that another process is writing and those with a damaged manifest; return them.

    Args:
        older_than_days: only entries that were not written or opened for so many days.
        only_unfinished: only entries whose extraction is unfinished.
        dry_run: delete nothing, and return what would be deleted.
        confirm: called before deletion with what is to be deleted, if anything is; raises to keep it.
    """
    from filelock import FileLock, Timeout

    latest = time.time() - older_than_days * 86400
    wanted = [
        status
        for status in store_status()
        if not (status.is_left_alone or status.last_read > latest or (only_unfinished and status.entry is not None))
    ]
    if wanted and not dry_run:
        confirm(wanted)
    gone = []
    for status in wanted:
        lock = status.folder.with_suffix(".lock")
        # Not while another process writes it, nor if it has changed since.
        with contextlib.suppress(Timeout), FileLock(lock, timeout=0):
            if not dry_run and _status(status.folder) != status:
                continue
            gone.append(status)
            if not dry_run:
                shutil.rmtree(status.folder)
        if not dry_run and status in gone:
            lock.unlink(missing_ok=True)
    return gone
