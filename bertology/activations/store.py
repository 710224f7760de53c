"""The activation store: one entry holds the word vectors of one text under one model, by layer, on disk.

An entry is a folder of write-once shards, an index of words (Parquet) and a manifest (JSON) that is written last: an
entry with a manifest is whole. A shard is a safetensors file with one tensor a layer; the checksum of the whole file, a
CRC-32, stands in its own header (taken with zeros in its place), so that a shard can be verified before the manifest
that lists it exists. The manifest has a checksum of its own content. Whatever else lies in the folder of the store is
listed and left alone.
"""

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import safe_open

from bertology import _files
from bertology._lazy import pa, pq
from bertology._machine import free_memory
from bertology.encoders.batching import CLS, Encoding
from bertology.encoders.sources import MODELS
from bertology.errors import BertologyError

MANIFEST = "manifest.json"
INDEX = "words.parquet"
StoredType = Literal["float16", "float32"]
_NAME = re.compile(r"[0-9a-f]{20}-[0-9a-f]{8}")
SHARD, LAYER = "shard-{:05d}.safetensors", "layer_{:02d}"
"""Names of the file of a shard, and of the tensor of a layer in it."""
_SHARD = re.compile(r"shard-\d{5,}\.safetensors")
_OWN_FILE = re.compile(rf"{re.escape(MANIFEST)}|{re.escape(INDEX)}|{_SHARD.pattern}|\..*\.tmp", re.DOTALL)
_HEADER_LENGTH_BYTES = 8
_NO_CHECKSUM = "0" * 8  # placeholder of a shard's checksum while it is computed
_REMEDY = "name another folder in BERTOLOGY_CACHE or run `bertology cache prune`"
_STORE, _IN_MEMORY = "BERTOLOGY_STORE", Path("/dev/shm")
_held: dict[Path, dict[Path, dict[int, Any]]] = {}  # [brief store][file of the shard][layer] tensors in memory


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
        return _files.digest([_files.canonical_json({"format": [_files.FORMAT, Manifest.format], **asdict(self)})])

    def folder(self, layers: Sequence[int]) -> Path:
        """The folder of the entry with exactly these layers."""
        return store_folder() / f"{self.key[:20]}-{_files.digest([_files.canonical_json(list(layers))])[:8]}"

    def find(self, layers: Sequence[int]) -> "Entry | None":
        """A complete entry with at least ``layers``, or ``None``."""
        exact = self.folder(layers)
        for store in dict.fromkeys((exact.parent, _cache())):
            for folder in [store / exact.name, *sorted(store.glob(f"{self.key[:20]}-*"))]:
                entry = open_entry(folder) if _NAME.fullmatch(folder.name) else None
                if entry is not None and entry.manifest.recipe == self and set(layers) <= set(entry.manifest.layers):
                    return entry
        return None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Description of an entry, with the checksum of each of its files."""

    format: Literal[3] = 3
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
        return _files.digest([_files.canonical_json(content)])

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
        if not index.exists() or _files.digest_file(index) != self.manifest.index_checksum:
            damaged.append(index)
        if self.manifest.checksum != self.manifest.content_checksum():
            damaged.append(self.folder / MANIFEST)
        return damaged

    def complete(self, checksums: Sequence[str | None]) -> "Entry":
        """Write the manifest, which makes the entry whole; a ValueError where a shard has no checksum yet."""
        if None in checksums:
            raise ValueError(f"{self.manifest.shards[checksums.index(None)][0]} is not written yet")
        files = zip(self.manifest.shards, checksums, strict=True)
        shards = tuple((name, rows, str(checksum)) for (name, rows, _), checksum in files)
        manifest = replace(self.manifest, shards=shards)
        manifest = replace(manifest, checksum=manifest.content_checksum())
        plain = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
        _files.write_atomically(self.folder / MANIFEST, plain.encode(), remedy=_REMEDY)
        return Entry(self.folder, manifest)


def store_folder() -> Path:
    """The folder of new entries: one in the cache, or that of :func:`brief_store`."""
    brief = os.environ.get(_STORE)
    return Path(brief) if brief else _cache()


def _cache() -> Path:
    return _files.cache_folder() / "activations"


@contextlib.contextmanager
def brief_store(*, in_process: bool) -> Iterator[Path]:
    """A store for new entries that is deleted at the end; entries in the cache are still found.

    Vectors are files in this machine's memory where that can hold files, else in a temporary folder. With
    ``in_process``, shards for which there is room stay in the memory of the device that computes them and are no files:
    only this process can read them. The store is that of the whole process, and of those that call :func:`use_store`.
    """
    parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    _files.sweep(parent)
    with _files.temporary_folder(parent, "vectors") as folder:
        use_store(folder)
        _held.update({folder: {}} if in_process else {})
        try:
            yield folder
        finally:
            use_store(None)
            _held.pop(folder, None)


def use_store(brief: Path | None) -> None:
    """Keep vectors in that folder from now on; without one, in the cache."""
    os.environ[_STORE] = str(brief or "")


def empty_store(brief: Path) -> None:
    """Delete the entries of a :func:`brief_store`."""
    if shards := _held.get(brief):
        import torch

        shards.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # so that what is free there can be seen
    for folder in brief.iterdir():
        shutil.rmtree(folder, ignore_errors=True)  # locks are files


def is_held(n_bytes: int, device: str) -> bool:
    """Whether a new entry of ``n_bytes`` stays in memory: a quarter of what is free there holds it, and the store is
    a :func:`brief_store` of this process."""
    return store_folder() in _held and 4 * n_bytes <= (memory_of(device) or 0)


def memory_of(device: str) -> int | None:
    """Free bytes of a CUDA device, else of this machine; None where not known."""
    if not device.startswith("cuda"):
        return free_memory()
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def hold_shard(path: Path, vectors: Any, layers: Sequence[int]) -> str:
    """Hold the tensor ``vectors [layer, word, dim]`` as a shard of an entry in memory; returns its checksum."""
    _held[path.parent.parent][path] = dict(zip(layers, vectors, strict=True))
    return _NO_CHECKSUM


def shard_reader(path: Path) -> Callable[[int, int, int], Any]:
    """A function of a layer, first row and end: the tensor ``[row, dim]`` of these rows of a shard, where it lies."""
    import torch

    if layers := _held.get(path.parent.parent, {}).get(path):
        return lambda layer, low, high: layers[layer][low:high]
    file: Any = safe_open(path, framework="numpy")
    return lambda layer, low, high: torch.from_numpy(file.get_slice(LAYER.format(layer))[low:high])


def open_entry(folder: Path) -> Entry | None:
    """The entry in ``folder``, or ``None`` where there is no whole one; a :class:`BertologyError` where its manifest is
    not in the form that this version writes."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    manifest: Manifest = _files.read_json(
        path, what="the manifest of a store entry", form=Manifest, remedy=f"delete {folder.name} and run again"
    )
    return Entry(folder, manifest)


def write_index(folder: Path, place: NDArray[np.int32]) -> str:
    """Write the index, ``[word, 2]`` shard and row of each word, and return its checksum."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"word": np.arange(len(place)), "shard": place[:, 0], "row": place[:, 1]}), sink)
    _files.write_atomically(folder / INDEX, sink.getvalue().to_pybytes(), remedy=_REMEDY)
    return _files.digest_file(folder / INDEX)


def make_folder(folder: Path) -> None:
    """Make the folder of an entry; a :class:`StoreError` where that is not possible."""
    with _files.explained_write_errors(folder, remedy=_REMEDY):
        folder.mkdir(parents=True, exist_ok=True)


def write_shard(path: Path, vectors: NDArray[np.generic], layers: Sequence[int]) -> str:
    """Write ``vectors [layer, word, dim]`` as one shard and return its checksum.

    The file is what ``safetensors.numpy.save`` makes, which would hold all of it in memory once more.
    """
    arrays = zip(layers, map(np.ascontiguousarray, vectors), strict=True)
    # safetensors lays tensors of one type out by name, which is the order of layers here.
    parts = dict(sorted((LAYER.format(layer), values.data) for layer, values in arrays))
    header: dict[str, Any] = {"__metadata__": {"crc32": _NO_CHECKSUM}}
    for number, (name, part) in enumerate(parts.items()):
        offsets = [number * part.nbytes, (number + 1) * part.nbytes]
        header[name] = {"dtype": f"F{8 * part.itemsize}", "shape": part.shape, "data_offsets": offsets}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _HEADER_LENGTH_BYTES)  # so that tensors are aligned
    length = len(head).to_bytes(_HEADER_LENGTH_BYTES, "little")
    found = zlib.crc32(length + head)
    for part in parts.values():
        found = zlib.crc32(part, found)
    checksum = f"{found:08x}"
    _files.write_atomically(
        path, [length, head.replace(_NO_CHECKSUM.encode(), checksum.encode(), 1), *parts.values()], remedy=_REMEDY
    )
    return checksum


def shard_checksum(path: Path) -> str | None:
    """The checksum of a shard that is whole and unaltered, or ``None`` for any other file or none."""
    if path in _held.get(path.parent.parent, ()):
        return _NO_CHECKSUM
    try:
        return _shard_checksum(path, _files.signature(path))
    except FileNotFoundError:
        return None


@cache
def _shard_checksum(path: Path, _: tuple[int, int, int]) -> str | None:
    """As :func:`shard_checksum`, kept with the signature of the file, as many fits open the same shards."""
    with path.open("rb") as file:
        start = file.read(_HEADER_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        head = file.read(length) if 0 < length < path.stat().st_size else b""
        try:
            declared: str = json.loads(head)["__metadata__"]["crc32"]
            plain = head.replace(declared.encode(), _NO_CHECKSUM.encode(), 1)
        except (ValueError, AttributeError, KeyError, TypeError):
            return None
        found = zlib.crc32(start + plain)
        while block := file.read(1 << 22):
            found = zlib.crc32(block, found)
    return declared if declared == f"{found:08x}" else None


Kind = Literal["entry", "unfinished", "damaged", "foreign", "model"]
"""``foreign`` is what the store did not write, ``model`` a copy of a model that was in memory or had adapters."""


@dataclass(frozen=True)
class Stored:
    """One file or folder in the cache: vectors, or a copy of a model."""

    folder: Path
    kind: Kind
    text: str  # a description in one line
    n_bytes: int = 0
    last_read: float = 0.0  # time when it was last written or opened, in seconds since the epoch
    entry: Entry | None = None

    @property
    def name(self) -> str:
        """Its name in the cache folder, quoted if it has characters that a terminal does not show."""
        name = f"{MODELS}/{self.folder.parent.name}" if self.kind == "model" else self.folder.name
        return name if name.isprintable() else repr(name)

    @property
    def is_left_alone(self) -> bool:
        """Whether it is never deleted."""
        return self.kind in ("foreign", "damaged")

    def problems(self) -> list[str]:
        """Missing or altered files; none for an unfinished entry, whose shards are checked on resuming."""
        if self.kind == "damaged":
            return [self.text]
        return [f"{path.name} is missing or damaged" for path in self.entry.damaged_files()] if self.entry else []


def list_stored(*, models: bool = False) -> list[Stored]:
    """Everything in the folder of the store except locks, or all copies of ``models``, in the order of their names.

    A :class:`StoreError` is raised where the folder cannot be read.
    """
    parent = _files.cache_folder() / MODELS if models else store_folder()
    with _files.explained_write_errors(parent, verb="read", remedy="name another folder in BERTOLOGY_CACHE"):
        try:
            paths = sorted(parent.iterdir())
        except FileNotFoundError:
            return []  # nothing has been stored yet
    if models:
        copies = (path for of_name in paths for path in sorted(of_name.glob("*")))
        copies = (path for path in copies if set(path.parent.name) <= set("0123456789abcdef"))
        return [_stored(path, model=True) for path in copies if (path / "config.json").is_file()]
    return [_stored(path) for path in paths if path.suffix != ".lock"]


def _stored(path: Path, *, model: bool = False) -> Stored:
    if path.is_symlink() or (model and path.parent.is_symlink()) or not path.is_dir():
        return Stored(path, "foreign", "left alone: a file or link")
    if not model and not _NAME.fullmatch(path.name):
        return Stored(path, "foreign", "left alone: not a folder of the store")
    try:
        stats = {file: file.lstat() for file in path.iterdir()}
        for file, stat in stats.items() if not model else ():
            if not _OWN_FILE.fullmatch(file.name) or not S_ISREG(stat.st_mode):
                return Stored(path, "foreign", f"left alone: it holds {file.name!r}, which the store does not write")
        # The manifest is opened to list an entry, so its time is no sign of use.
        used = [max(stat.st_atime, stat.st_mtime) for file, stat in stats.items() if file.name != MANIFEST]
        n_bytes, entry = sum(stat.st_size for stat in stats.values()), None if model else open_entry(path)
    except OSError as error:
        return Stored(path, "foreign", f"left alone: it cannot be read ({error.strerror})")
    except BertologyError as error:
        return Stored(path, "damaged", f"left alone: {error}")
    last_read = max(used, default=path.stat().st_mtime)
    if model:
        return Stored(path, "model", f"{path.name}: a copy of a model, by which runs find it", n_bytes, last_read)
    if entry is None:
        return Stored(path, "unfinished", "unfinished; the run that needs it goes on with it", n_bytes, last_read)
    manifest, recipe = entry.manifest, entry.manifest.recipe
    layers, what = ",".join(map(str, manifest.layers)), "sentences" if recipe.pooling == CLS else "words"
    how = recipe.pooling if recipe.encoding is None else f"{recipe.pooling}, {recipe.encoding}"
    text = f"{manifest.model}: layers {layers}, {manifest.n_words:,} {what}, {how}, {recipe.stored_dtype}"
    return Stored(path, "entry", text, n_bytes, last_read, entry)


def prune_stored(
    *,
    older_than_days: float = 0.0,
    only_unfinished: bool = False,
    models: bool = False,
    dry_run: bool = False,
    confirm: Callable[[Sequence[Stored]], None] = lambda _: None,
) -> list[Stored]:
    """Delete entries, except those that another process is writing and those with a damaged manifest; return them.

    Args:
        older_than_days: only entries that were not written or opened for so many days.
        only_unfinished: only entries whose extraction is unfinished.
        models: copies of models, and only these.
        dry_run: delete nothing; only find what would be deleted.
        confirm: called before deletion with what is to be deleted, if anything is; raises to keep it.
    """
    latest = time.time() - older_than_days * 86400
    wanted = [one for one in list_stored(models=models) if not one.is_left_alone and one.last_read <= latest]
    wanted = [one for one in wanted if one.kind == "unfinished" or not only_unfinished]
    if wanted and not dry_run:
        confirm(wanted)
    gone = []
    for one in wanted:
        folder = one.folder.parent if models else one.folder
        lock = folder.with_suffix(".lock")
        # Not while another process writes it, nor if it has changed since.
        with contextlib.suppress(Timeout), FileLock(lock, timeout=0):
            if dry_run or _stored(one.folder, model=models) == one:
                gone.append(one)
                if not dry_run:
                    shutil.rmtree(folder)
        if not dry_run and one in gone:
            lock.unlink(missing_ok=True)
    return gone
