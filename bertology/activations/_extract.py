"""Vectors of the words of a corpus, read from an encoder into the store."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from bertology import encoders
from bertology._files import explained_write_errors, sweep
from bertology._machine import Workers, give_back_freed_memory, memory_for_vectors, size_in_words
from bertology.activations import store
from bertology.activations.progress import Progress, silent
from bertology.activations.store import Entry, Manifest, Recipe
from bertology.corpora import Sentences, Shard
from bertology.encoders.batching import PIECES_IN_BATCH, Batch, join_batches, pieces_in_batch, plan_batches
from bertology.encoders.encoder import WindowReader
from bertology.encoders.sources import layers_from_end
from bertology.errors import ModelError, StoreError

SHARD_BYTES = 96 << 20
_MOST_WORKERS = 16  # each needs memory for the activations of a batch
_WRITERS = 4  # of the vectors that an accelerator computes, which are taken faster than one thread can write them


def extract(
    get_encoder: "Callable[[], encoders.Encoder]",
    sentences: Sentences | Shard,
    *,
    recipe: Recipe,
    layers: Sequence[int],
    progress: Progress = silent,
) -> Entry:
    """The vectors of the words of ``sentences``, or of their first tokens, at ``layers``, from the store or extracted.

    A killed extraction continues at its first missing shard; damaged shards are detected by their checksums and
    computed again; of two processes that need the same entry one writes and the other waits. A StoreError is raised
    where the cache cannot be written or is full, a ShortMemoryError where a single window does not fit into memory.

    Args:
        get_encoder: returns the encoder; called only if something must be computed.
        sentences: the text, or a shard of one, which is read only if something must be computed.
        recipe: all that decides the vectors; its fingerprints must be those of the encoder and the text.
        layers: 0 for the embeddings, 1…L for the blocks, -1 for the last of them.
        progress: shows how many pieces have been read.
    """
    if any(layer < 0 for layer in layers):
        layers = layers_from_end(layers, lowest=0, n_layers=get_encoder().n_layers)
    layers = tuple(sorted(set(layers)))
    entry = recipe.find(layers)
    if entry is not None:
        if not entry.damaged_files():
            return entry
        layers = entry.manifest.layers
    folder = recipe.folder(layers)
    store.make_folder(folder)
    with FileLock(folder.with_suffix(".lock")):
        entry = Extraction.finished(recipe, layers, progress)
        if entry is not None:
            return entry
        job = Extraction(get_encoder(), sentences, recipe=recipe, layers=layers, progress=progress)
        checksums, writing = job.prepare(), dict[int, Future[str]]()  # writing: by the number of the shard
        progress.start(sum(job.pieces), unit="pieces")
        give_back_freed_memory()  # of tokenizing
        # A shard is written while the next is computed: on a processor never more than two are in memory, and one where
        # memory is short.
        n_writers = 1 if job.device == "cpu" else _WRITERS
        is_short = memory_for_vectors() < 4 * SHARD_BYTES
        with ThreadPoolExecutor(n_writers) as writer, job.workers:
            for number, checksum in enumerate(checksums):
                if checksum is not None:
                    progress.skip(job.pieces[number])
                    continue
                vectors = job.read(number)
                for earlier in list(writing.values())[: 1 - n_writers or None]:
                    earlier.result()
                give_back_freed_memory()
                writing[number] = writer.submit(job.write, number, vectors)
                del vectors  # freed as soon as it is written
                if is_short:
                    writing[number].result()
        checksums = [writing[n].result() if n in writing else known for n, known in enumerate(checksums)]
        progress.finish()
        return job.entry.complete(checksums)


class Extraction:
    """The extraction of one text, shard by shard; several processes may each write some, in any order.

    The same text and model are cut into the same shards by each of them. The process that starts them holds the lock
    of the entry. Arguments are those of :func:`extract`.
    """

    def __init__(
        self,
        encoder: "encoders.Encoder",
        sentences: Sentences | Shard,
        *,
        recipe: Recipe,
        layers: tuple[int, ...],
        progress: Progress = silent,
    ) -> None:
        if encoder.is_gated:
            raise ModelError(f"heads of {encoder.name} are gated: extract outside gated_heads, or read hidden_states")
        self.progress, self.device = progress, encoder.device
        self.workers = Workers(torch.device(encoder.device), most=_MOST_WORKERS)
        """The threads of :meth:`read`."""
        self._is_held = False
        self._reader = WindowReader(
            encoder.fast_twin(),
            sentences.load() if isinstance(sentences, Shard) else sentences,
            pooling=recipe.pooling,
            on_long=recipe.on_long,
            encoding=recipe.encoding,
            notify=progress.note,
            n_threads=self.workers.n,
        )
        self._shards = _plan_shards(self._reader, layers, np.dtype(recipe.stored_dtype).itemsize)
        self.pieces = tuple(sum(map(self._reader.pieces_in, batches)) for batches, _ in self._shards)
        """``[shard]`` number of pieces of text that each is computed from."""
        pieces = self._reader.pieces
        manifest = Manifest(
            recipe=recipe,
            layers=layers,
            dim=encoder.dim,
            n_words=pieces.n_words,
            shards=tuple((store.SHARD.format(n), len(words), "") for n, (_, words) in enumerate(self._shards)),
            index_checksum="",
            skipped=tuple((int(one.word), one.sentence_id, one.form, one.reason) for one in pieces.skipped),
            joined=tuple(pieces.joined.tolist()),
            n_unknown=pieces.n_unknown,
            n_long=pieces.n_long,
            model=encoder.name,
            about={"torch": torch.__version__, "device": encoder.device},
        )
        self.entry = Entry(recipe.folder(layers), manifest)
        """The entry, not whole: :meth:`Entry.complete` makes it so when all shards are written."""

    @staticmethod
    def finished(recipe: Recipe, layers: tuple[int, ...], progress: Progress) -> Entry | None:
        """The undamaged entry of ``recipe``, or ``None``; call it under the lock of the entry.

        The damaged files of a damaged entry are deleted, so that an extraction writes them again.
        """
        entry = recipe.find(layers)
        damaged = [] if entry is None else entry.damaged_files()
        if entry is None or not damaged:
            return entry
        progress.note(f"{len(damaged)} damaged file(s) in {entry.folder}: extracting them again")
        for path in (entry.folder / store.MANIFEST, *damaged):
            path.unlink(missing_ok=True)
        return None

    def prepare(self) -> list[str | None]:
        """Write the index of the entry; returns the checksum of each shard, ``None`` for one that is to be written."""
        folder, manifest = self.entry.folder, self.entry.manifest
        store.make_folder(folder)
        self._is_held = store.is_held(manifest.n_bytes, self.device)
        with explained_write_errors(folder):
            needed = manifest.n_bytes - sum(file.stat().st_size for file in folder.glob("shard-*"))
            free = shutil.disk_usage(folder).free
        if needed > free and not self._is_held:
            what = f"{size_in_words(needed)} of vectors do not fit into the {size_in_words(free)} free there"
            remedy = (
                "free some, name another folder in BERTOLOGY_CACHE, run `bertology cache prune` or ask fewer layers"
            )
            raise StoreError(f"{folder.parent}: {what}; {remedy}")
        sweep(folder)  # what a run left that was killed while it wrote
        place = np.full((manifest.n_words, 2), -1, dtype=np.int32)
        for number, (_, words) in enumerate(self._shards):
            place[words, 0], place[words, 1] = number, np.arange(len(words))
        self.entry = Entry(folder, replace(manifest, index_checksum=store.write_index(folder, place)))
        return [store.shard_checksum(self.entry.shard_path(number)) for number in range(len(self._shards))]

    def read(self, number: int) -> Tensor:
        """The vectors of a shard, ``[layer, word, dim]``, computed inside ``with extraction.workers``.

        They are on the device where the entry is held there, else in memory, which is pinned for a CUDA device.

        A StoreError is raised for a value that does not fit into the type that vectors are stored in, a
        ShortMemoryError where a single window does not fit into memory.
        """
        reader, manifest = self._reader, self.entry.manifest
        batches, words = self._shards[number]
        stored = torch.float16 if manifest.recipe.stored_dtype == "float16" else torch.float32
        size, is_cuda = (len(manifest.layers), len(words), manifest.dim), self.device.startswith("cuda")
        place: Any = {"device": self.device} if is_cuda and self._is_held else {"pin_memory": is_cuda}
        vectors = torch.empty(*size, dtype=stored, **place)
        # Shards are cut alike for every device, so that one device can continue where another stopped.
        at_once = pieces_in_batch(reader.encoder.device)
        if at_once > PIECES_IN_BATCH:
            batches = join_batches(batches, pieces=at_once)
        rows = np.cumsum([0, *(len(reader.words_in(batch)) for batch in batches)]).tolist()

        def read(number: int) -> None:
            reader.read(batches[number], manifest.layers, into=vectors[:, rows[number] : rows[number + 1]])
            self.progress.advance(reader.pieces_in(batches[number]))

        self.workers.map(read, len(batches))
        is_checked = reader.finish(manifest.layers) or stored is not torch.float16
        for layer, values in () if is_checked else zip(manifest.layers, vectors, strict=True):
            # A number is infinite or NaN if all bits of its exponent are set. Integer arithmetic on the bits is
            # several times as fast as torch.isfinite in half precision; in parts, it takes no more memory.
            bits = torch.split(values.view(torch.int16), 4096)
            if any(int((part & 0x7FFF).max()) >= 0x7C00 for part in bits if part.numel()):
                what = f"layer {layer} of {manifest.model} has values that float16 cannot hold"
                raise StoreError(f"{what}; store it in float32 (--store-dtype float32)")
        return vectors

    def write(self, number: int, vectors: Tensor) -> str:
        """Write the vectors of a shard, or hold them in memory, and return its checksum."""
        path, layers = self.entry.shard_path(number), self.entry.manifest.layers
        if self._is_held:
            return store.hold_shard(path, vectors, layers)
        return store.write_shard(path, vectors.numpy(), layers)


def _plan_shards(
    reader: WindowReader, layers: tuple[int, ...], width: int
) -> list[tuple[list[Batch], NDArray[np.int64]]]:
    """Consecutive batches, and their words in the order of rows, of each shard of about ``SHARD_BYTES``."""
    most_words = max(1, SHARD_BYTES // (len(layers) * reader.encoder.dim * width))
    runs: list[list[Batch]] = []
    n_words = 0
    for batch in plan_batches(reader.lengths, pieces=PIECES_IN_BATCH):
        of_batch = len(reader.words_in(batch))
        if not runs or n_words + of_batch > most_words:
            runs.append([])
            n_words = 0
        runs[-1].append(batch)
        n_words += of_batch
    return [(run, np.concatenate([reader.words_in(batch) for batch in run])) for run in runs]
