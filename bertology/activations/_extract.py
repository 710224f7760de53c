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
from bertology._memory import give_back_freed_memory, size_in_words
from bertology._workers import Workers
from bertology.activations._entry import (
    MANIFEST,
    Entry,
    Manifest,
    Outline,
    Recipe,
    entry_folder,
    find_entry,
    make_folder,
)
from bertology.activations._forward import WindowReader
from bertology.activations._progress import Progress, silent
from bertology.activations._shards import shard_checksum, shard_name, write_shard
from bertology.corpora import Sentences
from bertology.encoders.batching import PIECES_IN_BATCH, Batch, plan_batches
from bertology.errors import ModelError, StoreError

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
        ShortMemoryError: a single window does not fit into memory.
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
        found = whole_entry(recipe, layers, progress)
        return found if found is not None else _write_entry(get_encoder(), sentences, recipe, layers, progress)


def whole_entry(recipe: Recipe, layers: tuple[int, ...], progress: Progress) -> Entry | None:
    """An undamaged entry; of a damaged one what is sound stays, to be completed by whoever holds its lock."""
    found = find_entry(recipe, layers)
    if found is None:
        return None
    damaged = found.damaged_files()
    if not damaged:
        return found
    progress.note(f"{len(damaged)} damaged file(s) in {found.folder}: extracting them again")
    for path in (found.folder / MANIFEST, *damaged):
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

    The same text and model give the same shards to each of them. Whoever starts them holds the lock of the entry.
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
        """Those that :meth:`read` computes with."""
        self._reader = WindowReader(
            encoder.fast_twin(),
            sentences,
            pooling=recipe.pooling,
            on_long=recipe.on_long,
            notify=progress.note,
            at_once=self.workers.n,
        )
        self._progress = progress
        self._shards = _plan_shards(self._reader, layers, np.dtype(recipe.stored_dtype).itemsize)
        self.outline = self._outlined(sentences.n_words, recipe, layers)
        """The entry but for its vectors."""

    def prepare(self) -> list[str | None]:
        """Make the entry's folder ready; of each shard the checksum, ``None`` where it has to be written.

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
        """The checksum of a shard that is there and whole."""
        return shard_checksum(self.outline.shard_path(number))

    def read(self, number: int) -> NDArray[np.generic]:
        """The vectors of a shard, ``[layer, word, dim]``, computed inside ``with extraction.workers``.

        Raises:
            StoreError: a value does not fit into the type that vectors are stored in.
            ShortMemoryError: a single window does not fit into memory.
        """
        manifest = self.outline.manifest
        return _read_shard(
            self._reader, self._shards[number], manifest.layers, manifest.recipe, self._progress, self.workers
        )

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
        if stored is torch.float16 and not _all_finite(values):
            raise StoreError(
                f"layer {layer} of {reader.encoder.name} has values that float16 cannot hold; store it in float32 "
                "(--store-dtype float32)"
            )
    return vectors.numpy()


def _all_finite(values: torch.Tensor) -> bool:
    """Whether no value in float16 is infinite: what the encoder gave was finite, so it was too large."""
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
