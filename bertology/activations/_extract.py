"""Extraction: the vectors of all words of a text, layer by layer, from an encoder into the store."""

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
from bertology._memory import give_back_freed_memory, size_in_words
from bertology._workers import Workers
from bertology.activations._forward import WindowReader
from bertology.activations._progress import Progress, silent
from bertology.activations._store import (
    MANIFEST,
    Entry,
    Manifest,
    Outline,
    Recipe,
    entry_folder,
    find_entry,
    make_folder,
    shard_checksum,
    shard_name,
    write_shard,
)
from bertology.corpora import Sentences
from bertology.encoders.batching import PIECES_IN_BATCH, Batch, join_batches, pieces_in_batch, plan_batches
from bertology.errors import ModelError, StoreError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

SHARD_BYTES = 96 << 20
_MOST_WORKERS = 16
"""Each needs memory for the activations of a batch."""


@dataclass(frozen=True)
class _Shard:
    """Consecutive batches whose words are written to one file."""

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
    """The word vectors of ``sentences`` at ``layers``, from the store or extracted into it.

    A killed extraction continues at its first missing shard; damaged shards are detected by their checksums and
    computed again; of two processes that need the same entry one writes and the other waits.

    Args:
        get_encoder: returns the encoder; called only if something must be computed.
        sentences: the text.
        recipe: all that decides the vectors; its fingerprints must be those of the encoder and the text.
        layers: 0 for the embeddings, 1…L for the blocks.
        progress: shows how many pieces have been read.

    Raises:
        StoreError: the cache cannot be written, or is full.
        ShortMemoryError: a single window does not fit into memory.
    """
    layers = tuple(sorted(set(layers)))
    entry = find_entry(recipe, layers)
    if entry is not None and not entry.damaged_files():
        return entry
    if entry is not None:
        layers = entry.manifest.layers
    folder = entry_folder(recipe, layers)
    make_folder(folder)
    with FileLock(folder.with_suffix(".lock")):
        entry = whole_entry(recipe, layers, progress)
        return entry if entry is not None else _write_entry(get_encoder(), sentences, recipe, layers, progress)


def whole_entry(recipe: Recipe, layers: tuple[int, ...], progress: Progress) -> Entry | None:
    """The undamaged entry of ``recipe``, or ``None``; call it under the lock of the entry.

    The damaged files of a damaged entry are deleted, so that an :class:`Extraction` writes them again.
    """
    entry = find_entry(recipe, layers)
    if entry is None:
        return None
    damaged = entry.damaged_files()
    if not damaged:
        return entry
    progress.note(f"{len(damaged)} damaged file(s) in {entry.folder}: extracting them again")
    for path in (entry.folder / MANIFEST, *damaged):
        path.unlink(missing_ok=True)
    return None


def _write_entry(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, layers: tuple[int, ...], progress: Progress
) -> Entry:
    job = Extraction(encoder, sentences, recipe=recipe, layers=layers, progress=progress)
    checksums = job.prepare()
    pieces = job.outline.pieces
    progress.start(sum(pieces), unit="pieces")
    # One shard is written while the next is computed; never more than two are in memory.
    with ThreadPoolExecutor(1) as writer, job.workers:
        writing: tuple[int, Future[str]] | None = None
        for number, already in enumerate(checksums):
            if already is not None:
                progress.skip(pieces[number])
                continue
            vectors = job.read(number)
            if writing is not None:
                checksums[writing[0]] = writing[1].result()
            give_back_freed_memory()
            writing = number, writer.submit(job.write, number, vectors)
        if writing is not None:
            checksums[writing[0]] = writing[1].result()
    progress.finish()
    return job.outline.complete(checksums)


class Extraction:
    """The extraction of one text, shard by shard; several processes may each write some, in any order.

    The same text and model are cut into the same shards by each of them. The process that starts them holds the lock
    of the entry.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        recipe: Recipe,
        layers: tuple[int, ...],
        progress: Progress = silent,
    ) -> None:
        """Cut the text into shards; arguments as those of :func:`extract`."""
        if encoder.is_gated:
            raise ModelError(
                f"heads of {encoder.name} are gated, and what is kept is kept as the model's own: extract outside "
                "gated_heads, or read hidden_states inside it"
            )
        self.workers = Workers(torch.device(encoder.device), most=_MOST_WORKERS)
        """The threads of :meth:`read`."""
        self._reader = WindowReader(
            encoder.fast_twin(),
            sentences,
            pooling=recipe.pooling,
            on_long=recipe.on_long,
            notify=progress.note,
            n_threads=self.workers.n,
        )
        self._progress = progress
        self._shards = _plan_shards(self._reader, layers, np.dtype(recipe.stored_dtype).itemsize)
        self.outline = self._outlined(sentences.n_words, recipe, layers)
        """The entry without its vectors."""

    def prepare(self) -> list[str | None]:
        """Prepare the folder of the entry; returns the checksum of each shard, ``None`` for one that is to be written.

        Raises:
            StoreError: the vectors do not fit on the disk, or the folder cannot be written.
        """
        outline, manifest = self.outline, self.outline.manifest
        make_folder(outline.folder)
        n_values = sum(rows for _, rows, _ in manifest.shards) * len(manifest.layers) * manifest.dim
        _check_space(outline.folder, n_values, manifest.recipe)
        for stale in outline.folder.glob(".*.tmp"):
            stale.unlink()  # left by a run that was killed while it wrote; no one else writes here under the lock
        return [self.checksum(number) for number in range(len(manifest.shards))]

    def checksum(self, number: int) -> str | None:
        """The checksum of a shard, ``None`` if it is missing or damaged."""
        return shard_checksum(self.outline.shard_path(number))

    def read(self, number: int) -> NDArray[np.generic]:
        """The vectors of a shard, ``[layer, word, dim]``, computed inside ``with extraction.workers``.

        Raises:
            StoreError: a value does not fit into the type that vectors are stored in.
            ShortMemoryError: a single window does not fit into memory.
        """
        reader, shard, manifest = self._reader, self._shards[number], self.outline.manifest
        stored = torch.float16 if manifest.recipe.stored_dtype == "float16" else torch.float32
        vectors = torch.empty(len(manifest.layers), len(shard.words), manifest.dim, dtype=stored)
        at_once = pieces_in_batch(reader.encoder.device)
        # Shards are cut alike for every device, so that one device can continue where another stopped.
        batches = shard.batches if at_once <= PIECES_IN_BATCH else join_batches(shard.batches, pieces=at_once)
        rows = np.cumsum([0, *(len(reader.words_in(batch)) for batch in batches)]).tolist()

        def read(number: int) -> None:
            reader.read(batches[number], manifest.layers, into=vectors[:, rows[number] : rows[number + 1]])
            self._progress.advance(reader.pieces_in(batches[number]))

        self.workers.map(read, len(batches))
        for layer, values in zip(manifest.layers, vectors, strict=True):
            if stored is torch.float16 and not _all_finite(values):
                raise StoreError(
                    f"layer {layer} of {manifest.model} has values that float16 cannot hold; store it in float32 "
                    "(--store-dtype float32)"
                )
        return vectors.numpy()

    def write(self, number: int, vectors: NDArray[np.generic]) -> str:
        """Write the vectors of a shard and return its checksum."""
        return write_shard(self.outline.shard_path(number), vectors, self.outline.manifest.layers)

    def _outlined(self, n_words: int, recipe: Recipe, layers: tuple[int, ...]) -> Outline:
        encoder, place = self._reader.encoder, np.full((n_words, 2), -1, dtype=np.int32)
        for number, shard in enumerate(self._shards):
            place[shard.words, 0] = number
            place[shard.words, 1] = np.arange(len(shard.words))
        manifest = Manifest(
            recipe=recipe,
            layers=layers,
            dim=encoder.dim,
            n_words=n_words,
            shards=tuple((shard_name(i), len(shard.words), "") for i, shard in enumerate(self._shards)),
            index_checksum="",
            skipped=self._reader.skipped,
            model=encoder.name,
            about={"torch": torch.__version__, "device": encoder.device},
        )
        pieces = tuple(sum(map(self._reader.pieces_in, shard.batches)) for shard in self._shards)
        return Outline(entry_folder(recipe, layers), manifest, place, pieces)


def _all_finite(values: torch.Tensor) -> bool:
    """Whether no value in float16 is infinite, as one that is too large for it becomes."""
    # A number is infinite or NaN if all bits of its exponent are set. Integer arithmetic on the bits is several times
    # as fast as torch.isfinite in half precision.
    exponent = 0x7C00
    return bool(((values.view(torch.int16) & exponent) != exponent).all())


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
            f"{folder.parent}: {size_in_words(needed - already)} of vectors do not fit into the "
            f"{size_in_words(free)} free there; free some, name another folder in BERTOLOGY_CACHE, "
            "run `bertology cache prune` or ask fewer layers"
        )
