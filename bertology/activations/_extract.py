"""Read an encoder once and keep every word's vectors, layer by layer, on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from bertology._files import explained_write_errors
from bertology._memory import give_back_freed_memory
from bertology._workers import Workers
from bertology.activations._batches import PIECES_IN_BATCH, Batch, plan_batches
from bertology.activations._entry import (
    MANIFEST,
    Entry,
    Manifest,
    Recipe,
    entry_folder,
    find_entry,
    make_folder,
    write_index,
    write_manifest,
)
from bertology.activations._forward import WindowReader
from bertology.activations._progress import Progress, silent
from bertology.activations._shards import shard_checksum, write_shard
from bertology.corpora import Sentences
from bertology.errors import StoreError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

SHARD_BYTES = 96 << 20
_MOST_WORKERS = 16
"""Each holds the activations of a batch of its own."""


@dataclass(frozen=True)
class _Shard:
    """A run of batches whose words are written as one file."""

    batches: tuple[Batch, ...]
    words: NDArray[np.int64]
    """Numbers of the words, in the order of its rows."""


def extract(
    get_encoder: Callable[[], Encoder],
    sentences: Sentences,
    *,
    recipe: Recipe,
    layers: Sequence[int],
    progress: Progress = silent,
) -> Entry:
    """The word vectors of ``sentences`` at ``layers``, read from the store or extracted into it.

    A killed extraction goes on at its first missing shard; damaged shards are found by their checksums and made
    again; of two processes that want the same entry one writes and the other waits.

    Args:
        get_encoder: gives the encoder; called only if something must be computed.
        sentences: the text.
        recipe: what decides the content of the entry; its fingerprints must be those of the encoder and the text.
        layers: which layers, 0 for the embeddings.
        progress: told how many pieces are read of how many.

    Raises:
        StoreError: the cache cannot be written, or is full.
        ModelError: a single window does not fit into memory.
    """
    layers = tuple(sorted(set(layers)))
    found = find_entry(recipe, layers)
    if found is not None and not found.damaged_files():
        return found
    if found is not None:
        layers = found.manifest.layers
    folder = entry_folder(recipe, layers)
    make_folder(folder)
    with FileLock(folder.with_suffix(".lock")):
        found = find_entry(recipe, layers)
        if found is not None:
            damaged = found.damaged_files()
            if not damaged:
                return found
            progress.note(f"{len(damaged)} damaged file(s) in {found.folder}: extracting them again")
            for path in (found.folder / MANIFEST, *damaged):
                path.unlink(missing_ok=True)
        return _write_entry(folder, get_encoder(), sentences, recipe, layers, progress)


def _write_entry(
    folder: Path, encoder: Encoder, sentences: Sentences, recipe: Recipe, layers: tuple[int, ...], progress: Progress
) -> Entry:
    workers = Workers(torch.device(encoder.device), most=_MOST_WORKERS)
    reader = WindowReader(
        encoder,
        sentences,
        pooling=recipe.pooling,
        on_long=recipe.on_long,
        notify=progress.note,
        at_once=workers.n,
    )
    shards = _plan_shards(reader, layers, np.dtype(recipe.stored_dtype).itemsize)
    _check_space(folder, sum(len(s.words) for s in shards) * len(layers) * encoder.dim, recipe)
    for stale in folder.glob(".*.tmp"):
        stale.unlink()  # left by a run that was killed while it wrote; no one else writes here under the lock
    place = np.full((sentences.n_words, 2), -1, dtype=np.int32)
    checksums: dict[int, str] = {}
    progress.start(reader.n_pieces, unit="pieces")
    # One shard is written while the next is computed; never more than two are in memory.
    with ThreadPoolExecutor(1) as writer, workers:
        writing: tuple[int, Future[str]] | None = None
        for number, shard in enumerate(shards):
            path = folder / _shard_name(number)
            place[shard.words, 0] = number
            place[shard.words, 1] = np.arange(len(shard.words))
            already = shard_checksum(path)
            if already is not None:
                checksums[number] = already
                progress.skip(sum(reader.pieces_in(batch) for batch in shard.batches))
                continue
            vectors = _read_shard(reader, shard, layers, recipe, progress, workers)
            if writing is not None:
                checksums[writing[0]] = writing[1].result()
            give_back_freed_memory()
            writing = number, writer.submit(write_shard, path, vectors, layers)
        if writing is not None:
            checksums[writing[0]] = writing[1].result()
    progress.finish()
    index_checksum = write_index(folder, place)
    manifest = Manifest(
        recipe=recipe,
        layers=layers,
        dim=encoder.dim,
        n_words=sentences.n_words,
        shards=tuple((_shard_name(i), len(shard.words), checksums[i]) for i, shard in enumerate(shards)),
        index_checksum=index_checksum,
        skipped=reader.skipped,
        model=encoder.name,
        about={"torch": torch.__version__, "device": encoder.device},
    )
    return write_manifest(folder, manifest)


def _read_shard(
    reader: WindowReader,
    shard: _Shard,
    layers: tuple[int, ...],
    recipe: Recipe,
    progress: Progress,
    workers: Workers,
) -> NDArray[np.generic]:
    """The vectors of one shard, ``[layer, word, dim]``, in the type they are stored in."""
    stored = torch.float16 if recipe.stored_dtype == "float16" else torch.float32
    vectors = torch.empty(len(layers), len(shard.words), reader.encoder.dim, dtype=stored)
    rows = np.cumsum([0, *(len(reader.words_in(batch)) for batch in shard.batches)]).tolist()

    def read(number: int) -> None:
        reader.read(shard.batches[number], layers, into=vectors[:, rows[number] : rows[number + 1]])
        progress.advance(reader.pieces_in(shard.batches[number]))

    workers.map(read, len(shard.batches))
    for layer, values in zip(layers, vectors, strict=True):
        if not _all_finite(values):
            raise StoreError(
                f"layer {layer} of {reader.encoder.name} has values that {recipe.stored_dtype} cannot hold; "
                + ("store it in float32 (--store-dtype float32)" if stored is torch.float16 else "the model gives NaN")
            )
    return vectors.numpy()


def _all_finite(values: torch.Tensor) -> bool:
    # A number is infinite or not one if all bits of its exponent are set. Integer arithmetic on the bits is several
    # times as fast as torch.isfinite in half precision.
    bits, exponent = (torch.int16, 0x7C00) if values.dtype == torch.float16 else (torch.int32, 0x7F800000)
    return bool(((values.view(bits) & exponent) != exponent).all())


def _plan_shards(reader: WindowReader, layers: tuple[int, ...], width: int) -> list[_Shard]:
    """Cut the batches into runs of about ``SHARD_BYTES``; the same text and model give the same cut."""
    most_words = max(1, SHARD_BYTES // (len(layers) * reader.encoder.dim * width))
    shards: list[_Shard] = []
    batches: list[Batch] = []
    words: list[NDArray[np.int64]] = []
    for batch in plan_batches(reader.lengths, pieces=PIECES_IN_BATCH):
        of_batch = reader.words_in(batch)
        if batches and sum(map(len, words)) + len(of_batch) > most_words:
            shards.append(_Shard(tuple(batches), np.concatenate(words)))
            batches, words = [], []
        batches.append(batch)
        words.append(of_batch)
    if batches:
        shards.append(_Shard(tuple(batches), np.concatenate(words)))
    return shards


def _check_space(folder: Path, n_values: int, recipe: Recipe) -> None:
    needed = n_values * np.dtype(recipe.stored_dtype).itemsize
    with explained_write_errors(folder):
        already = sum(file.stat().st_size for file in folder.glob("shard-*"))
        free = shutil.disk_usage(folder).free
    if needed - already > free:
        raise StoreError(
            f"{folder.parent}: {needed / 1e9:.1f} GB of vectors do not fit into the {free / 1e9:.1f} GB free there; "
            "free some, name another folder in BERTOLOGY_CACHE, run `bertology cache prune` or ask fewer layers"
        )


def _shard_name(number: int) -> str:
    return f"shard-{number:05d}.safetensors"
