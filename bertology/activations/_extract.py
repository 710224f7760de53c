"""Vectors of words read from an encoder: of a few texts, with interventions, or of a corpus into the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from bertology._files import explained_write_errors
from bertology._memory import give_back_freed_memory, is_out_of_memory, shortage, size_in_words
from bertology._workers import Workers
from bertology.activations._progress import Progress, silent
from bertology.activations._store import (
    CLS,
    MANIFEST,
    Entry,
    Manifest,
    Recipe,
    make_folder,
    shard_checksum,
    shard_name,
    write_index,
    write_shard,
)
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.corpora.prompts import with_masks
from bertology.encoders import EncoderRun, Encoding, LabelledArray, OnLong, layers_from_end
from bertology.encoders.alignment import EncodedPieces, Pooling, WordPooling
from bertology.encoders.batching import PIECES_IN_BATCH, Batch, join_batches, pieces_in_batch, plan_batches
from bertology.encoders.interventions import Intervention, Words, intervening
from bertology.errors import CorpusError, ModelError, ShortMemoryError, StoreError, listed, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.encoders.batching import Batch


def read_words(
    encoder: Encoder,
    sentences: Texts,
    *,
    layers: Sequence[int],
    pooling: str = "mean",
    encoding: Encoding | None = None,
) -> Tensor:
    """The vectors ``[layer, word, dim]`` (float32) of all words of some sentences, without the store.

    Args:
        encoder: the model.
        sentences: the text: sentences, or plain texts, each of which is one; long ones are read in windows.
        layers: 0 for the embeddings, 1…L for the blocks, -1 for the last of them.
        pooling: of a word's pieces: ``mean``, ``first`` or ``last``; or ``cls``, the vectors ``[layer, sentence, dim]``
            of the first special tokens.
        encoding: how sentences are put to the model; each by itself when left out.

    Raises:
        ModelError: a word has no pieces, and so no vector; or there is no special token before the text.
    """
    chosen = layers_from_end(layers, lowest=0, n_layers=encoder.n_layers)
    return WindowReader(encoder, as_sentences(sentences), pooling=pooling, encoding=encoding).read_all(chosen)


def labelled_vectors(
    encoder: Encoder,
    texts: Any,
    *,
    layers: int | Sequence[int] | Literal["all"] = "all",
    word: str | None = None,
    pooling: str = "mean",
) -> LabelledArray:
    """The vectors of the words of some texts: see :meth:`bertology.Encoder.vectors`."""
    sentences = list(as_sentences(texts))
    chosen = layers_from_end(layers, lowest=0, n_layers=encoder.n_layers)
    vectors = read_words(encoder, Sentences(sentences), layers=chosen, pooling=pooling).numpy()
    words = [(n, k, form) for n, one in enumerate(sentences, 1) for k, form in enumerate(one.words, 1)]
    places = [place for place, (_, _, form) in enumerate(words) if word is None or form.lower() == word.lower()]
    if not places:
        raise CorpusError(f"word {quoted(str(word))} stands in none of the texts; give texts in which it does")
    labels = {"layer": chosen, "word": [words[place] for place in places], "dim": range(encoder.dim)}
    parts = {"word": ("text", "place", "word")}
    return LabelledArray(vectors[:, places], labels, parts, n_layers=encoder.n_layers)


class WindowReader:
    """Tokenises sentences once and reads batches of their windows, from several threads at a time if wanted.

    With the pooling ``cls``, the first special token of a sentence takes the place of its words throughout; it is read
    in the plain encoding alone.
    A batch that does not fit into memory is read in halves, and so is every later one. ``around`` makes the context of
    the pass over a batch.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        pooling: str = "mean",
        on_long: str = "window",
        encoding: Encoding | None = None,
        notify: Callable[[str], None] = print,
        n_threads: int = 1,
        around: Callable[[Batch], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self.encoder, self._around = encoder, around
        # An encoder serves one thread at a time, so there is a twin of it for each further thread.
        self._free: SimpleQueue[Encoder] = SimpleQueue()
        for each in (encoder, *(encoder.twin() for _ in range(n_threads - 1))):
            self._free.put(each)
        self._is_cls, self._notify = pooling == CLS, notify
        tokenize = encoder.first_tokens if self._is_cls else encoder.tokenize
        self._pooling = cast(Pooling, "first" if self._is_cls else pooling)
        long = cast(OnLong, on_long)
        self._encoded = (
            EncodedPieces(tokenize(sentences, on_long=long))
            if encoding is None
            else encoder.encode(sentences, encoding, on_long=long)
        )
        self.pieces = self._encoded.pieces
        """The text as windows of subwords."""
        self.n_vectors = self.pieces.n_words
        """Number of words, or of sentences, those without a vector included."""
        self.lengths = self.pieces.window_lengths
        """``[window]`` pieces in each window, special ones included."""
        self.skipped = tuple((int(s.word), s.sentence_id, s.form, s.reason) for s in self.pieces.skipped)
        """Words that have no vector: number, sentence id, form, reason."""
        self._most_windows: int | None = None
        # Words by the window they are read from; those read from none (−1) come first and are left out.
        window_of_word = self.pieces.word_window
        self._words = np.argsort(window_of_word, kind="stable")
        self._word_starts = np.searchsorted(window_of_word[self._words], np.arange(len(self.lengths) + 1))

    def pieces_in(self, batch: Batch) -> int:
        """Number of pieces in a batch, without padding."""
        return int(self.lengths[batch.windows].sum())

    def words_in(self, batch: Batch) -> NDArray[np.int64]:
        """Numbers of the words read from a batch, in the order of its windows."""
        starts = self._word_starts
        return np.concatenate([self._words[starts[window] : starts[window + 1]] for window in batch.windows])

    def pieces_in_rows(self, batch: Batch, is_chosen: NDArray[np.bool_]) -> list[Tensor]:
        """``[row]`` of a batch the numbers of the pieces of some of its words; ``is_chosen [word]`` is of all words."""
        rows = []
        for window in batch.windows.tolist():
            words = self._words[self._word_starts[window] : self._word_starts[window + 1]]
            words = words[is_chosen[words]]
            spans = zip(self.pieces.word_first[words], self.pieces.word_last[words], strict=True)
            rows.append(torch.tensor(sorted({piece for span in spans for piece in range(*span)}), dtype=torch.int64))
        return rows

    def read_at(self, entry: int) -> NDArray[np.int64]:
        """Read words that have a vocabulary entry, such as the mask, among their pieces from that piece alone.

        Returns:
            Their numbers, one word for each such piece.
        """
        pieces, places = self.pieces, np.flatnonzero(self.pieces.ids == entry)
        starts = pieces.window_starts[pieces.word_window]
        number, end = (np.searchsorted(places, starts + of_word) for of_word in (pieces.word_first, pieces.word_last))
        words = np.flatnonzero((number < end) & (pieces.word_window >= 0))
        first, last = pieces.word_first.copy(), pieces.word_last.copy()
        first[words] = places[number[words]] - starts[words]
        last[words] = first[words] + 1
        self.pieces = replace(pieces, word_first=first, word_last=last)
        self._encoded = replace(self._encoded, pieces=self.pieces)
        return words[np.unique(number[words], return_index=True)[1]]

    def read_all(self, layers: Sequence[int]) -> Tensor:
        """The vectors ``[layer, word, dim]`` (float32) of all words.

        Raises:
            ModelError: a word has no pieces, and so no vector.
        """
        if self.skipped:
            _, _, form, reason = self.skipped[0]
            what = "sentence" if self._is_cls else "word"
            raise ModelError(f"{what} {quoted(form)} has no vector ({reason}): leave it out, or take another model")
        vectors = torch.empty(len(layers), self.n_vectors, self.encoder.dim)
        for batch in plan_batches(self.lengths, pieces=pieces_in_batch(self.encoder.device)):
            words = self.words_in(batch)
            of_batch = torch.empty(len(layers), len(words), self.encoder.dim)
            self.read(batch, layers, into=of_batch)
            vectors[:, torch.from_numpy(words)] = of_batch
        return vectors

    def read(self, batch: Batch, layers: Sequence[int], *, into: Tensor) -> None:
        """Read a batch and write the vectors of its words ``into [layer, word, dim]``."""
        encoder = self._free.get()
        most = self._most_windows or len(batch.windows)
        start = row = 0
        try:
            while start < len(batch.windows):
                part = Batch(batch.windows[start : start + most], batch.length, batch.is_padded)
                n_words = len(self.words_in(part))
                try:
                    self._read(encoder, part, layers, into[:, row : row + n_words])
                except (MemoryError, RuntimeError) as error:
                    most = self._halved(part, error)
                    continue
                start += len(part.windows)
                row += n_words
        finally:
            self._free.put(encoder)

    def _halved(self, batch: Batch, error: MemoryError | RuntimeError) -> int:
        if not is_out_of_memory(error):
            raise error
        if len(batch.windows) == 1:
            doing = f"a window of {batch.length} pieces on {self.encoder.device}"
            remedy = "lower max_pieces (--max-pieces), use bfloat16 (--dtype) or another device"
            raise ShortMemoryError(shortage(doing, error, remedy=remedy)) from error
        if self.encoder.device.startswith("cuda"):
            torch.cuda.empty_cache()
        self._most_windows = len(batch.windows) // 2
        self._notify(f"out of memory: batches halved to {self._most_windows} windows of {batch.length} pieces")
        return self._most_windows

    def _read(self, encoder: Encoder, batch: Batch, layers: Sequence[int], into: Tensor) -> None:
        pieces, device = self.pieces, encoder.device
        arrays = self._encoded.inputs(batch.windows, batch.length, is_padded=batch.is_padded)
        inputs = {name: torch.from_numpy(values) for name, values in arrays.items() if values is not None}
        ids, mask = inputs.pop("input_ids"), inputs.pop("attention_mask", None)
        if encoder.n_segments == 1:
            inputs.clear()  # both segments are one to it
        if self._encoded.shift:
            inputs["position_shift"] = torch.from_numpy(self._encoded.shifts(batch.length))
        words = self.words_in(batch)
        n_words = self._word_starts[batch.windows + 1] - self._word_starts[batch.windows]
        starts = np.repeat(np.arange(len(batch.windows)) * batch.length, n_words)  # of the row that a word is in
        pool = WordPooling(
            torch.from_numpy(starts + pieces.word_first[words]).to(device),
            torch.from_numpy(starts + pieces.word_last[words]).to(device),
            self._pooling,
        )
        with self._around(batch):
            hidden = encoder.hidden_states(ids, mask, layers=layers, **inputs)
        with torch.inference_mode():
            for place, layer in enumerate(layers):
                into[place].copy_(pool(hidden[layer]))


_Label = tuple[int, int, str]
"""Number of a text and of a word in it, from 1, and its form."""


def labelled_run(
    encoder: Encoder,
    texts: Any,
    *,
    interventions: Sequence[Intervention] = (),
    layers: int | Sequence[int] | Literal["all"] = "all",
    pooling: str = "mean",
) -> EncoderRun:
    """Vectors and logits of texts under interventions: see :meth:`bertology.Encoder.run`."""
    has_mask = encoder.tokenizer.mask_token_id is not None
    sentences = Sentences(as_sentences(_spelled(texts, encoder.mask_token) if has_mask else texts))
    labels = [(n, k, form) for n, one in enumerate(sentences, 1) for k, form in enumerate(one.words, 1)]
    chosen = layers_from_end(layers, lowest=0, n_layers=encoder.n_layers)
    of_words = [None if one.words is None else _is_chosen(one.words, labels) for one in interventions]

    def around(batch: Batch) -> AbstractContextManager[None]:
        placed = [
            one if is_chosen is None else one.at(reader.pieces_in_rows(batch, is_chosen))
            for one, is_chosen in zip(interventions, of_words, strict=True)
        ]
        body, blocks = encoder.model.body, encoder.model.blocks
        return intervening(body, blocks, placed, n_heads=encoder.n_heads, family=encoder.family)

    reader = WindowReader(encoder, sentences, pooling=pooling, around=around)
    if len(reader.lengths) > len(sentences):
        raise ModelError(
            f"a text is longer than the {encoder.max_pieces} pieces that the model takes: give shorter ones"
        )
    masks = reader.read_at(encoder.mask_id) if has_mask else np.zeros(0, dtype=np.int64)
    vectors = reader.read_all((*chosen, encoder.n_layers))
    words = {"layer": chosen, "word": labels, "dim": range(encoder.dim)}
    parts = {"word": ("text", "place", "word")}
    logits = None
    if encoder.has_masked_lm_head and len(masks):
        logits = _logits(encoder, vectors[-1, torch.from_numpy(masks)], [labels[n] for n in masks])
    return EncoderRun(LabelledArray(vectors[:-1].numpy(), words, parts, n_layers=encoder.n_layers), logits)


def _spelled(texts: Any, mask: str) -> Any:
    """Texts whose masks are those of the model."""
    if isinstance(texts, str):
        return with_masks(texts, mask)
    return [_spelled(one, mask) for one in texts] if isinstance(texts, list | tuple) else texts


def _is_chosen(words: Words, labels: Sequence[_Label]) -> NDArray[np.bool_]:
    """``[word]`` whether a word is one of those named.

    Raises:
        CorpusError: one that is named stands in no text.
    """
    asked = [words] if isinstance(words, int | str) else list(words)
    chosen = np.zeros(len(labels), dtype=bool)
    for name in asked:
        of_name = [
            form.lower() == name.lower() if isinstance(name, str) else place == name for _, place, form in labels
        ]
        if not any(of_name):
            which = quoted(name) if isinstance(name, str) else str(name)
            raise CorpusError(
                f"word {which} of an intervention stands in none of the texts: their words are "
                f"{listed([f'{place} {form}' for _, place, form in labels])}"
            )
        chosen |= np.array(of_name)
    return chosen


def _logits(encoder: Encoder, states: torch.Tensor, masks: Sequence[_Label]) -> LabelledArray:
    """Logits of ``[mask, dim]`` states of the last layer."""
    dtype = next(encoder.model.body.parameters()).dtype
    with torch.inference_mode():
        features = encoder.head_features(states.to(encoder.device, dtype), layer=encoder.n_layers)
    logits = encoder.vocabulary_logits(features, layer=encoder.n_layers).float().cpu().numpy()
    entries = encoder.tokenizer.convert_ids_to_tokens(range(logits.shape[1]))
    return LabelledArray(logits, {"mask": masks, "entry": entries}, {"mask": ("text", "place", "word")})


SHARD_BYTES = 96 << 20
_MOST_WORKERS = 16
"""Each needs memory for the activations of a batch."""


def extract(
    get_encoder: Callable[[], Encoder],
    sentences: Sentences,
    *,
    recipe: Recipe,
    layers: Sequence[int],
    progress: Progress = silent,
) -> Entry:
    """The vectors of the words of ``sentences``, or of their first tokens, at ``layers``, from the store or extracted.

    A killed extraction continues at its first missing shard; damaged shards are detected by their checksums and
    computed again; of two processes that need the same entry one writes and the other waits.

    Args:
        get_encoder: returns the encoder; called only if something must be computed.
        sentences: the text.
        recipe: all that decides the vectors; its fingerprints must be those of the encoder and the text.
        layers: 0 for the embeddings, 1…L for the blocks, -1 for the last of them.
        progress: shows how many pieces have been read.

    Raises:
        StoreError: the cache cannot be written, or is full.
        ShortMemoryError: a single window does not fit into memory.
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
    make_folder(folder)
    with FileLock(folder.with_suffix(".lock")):
        entry = Extraction.finished(recipe, layers, progress)
        if entry is not None:
            return entry
        return _write_entry(Extraction(get_encoder(), sentences, recipe=recipe, layers=layers, progress=progress))


def _write_entry(job: Extraction) -> Entry:
    progress, pieces, checksums = job.progress, job.pieces, job.prepare()
    progress.start(sum(pieces), unit="pieces")
    # One shard is written while the next is computed; never more than two are in memory, and seldom two whole ones.
    with ThreadPoolExecutor(1) as writer, job.workers:
        writing: tuple[int, Future[str]] | None = None
        for number, checksum in enumerate(checksums):
            if checksum is not None:
                progress.skip(pieces[number])
                continue
            vectors = job.read(number)
            if writing is not None:
                checksums[writing[0]] = writing[1].result()
            give_back_freed_memory()
            writing = number, writer.submit(job.write, number, vectors)
            del vectors  # freed as soon as it is written
        if writing is not None:
            checksums[writing[0]] = writing[1].result()
    progress.finish()
    return job.entry.complete(checksums)


class Extraction:
    """The extraction of one text, shard by shard; several processes may each write some, in any order.

    The same text and model are cut into the same shards by each of them. The process that starts them holds the lock
    of the entry. Arguments are those of :func:`extract`.
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
        if encoder.is_gated:
            raise ModelError(
                f"heads of {encoder.name} are gated, and what is kept is kept as the model's own: extract outside "
                "gated_heads, or read hidden_states inside it"
            )
        self.progress = progress
        self.workers = Workers(torch.device(encoder.device), most=_MOST_WORKERS)
        """The threads of :meth:`read`."""
        self._reader = WindowReader(
            encoder.fast_twin(),
            sentences,
            pooling=recipe.pooling,
            on_long=recipe.on_long,
            encoding=recipe.encoding,
            notify=progress.note,
            n_threads=self.workers.n,
        )
        self._shards = _plan_shards(self._reader, layers, np.dtype(recipe.stored_dtype).itemsize)
        self.pieces = tuple(sum(map(self._reader.pieces_in, batches)) for batches, _ in self._shards)
        """``[shard]`` number of pieces of text that each is computed from."""
        manifest = Manifest(
            recipe=recipe,
            layers=layers,
            dim=encoder.dim,
            n_words=self._reader.n_vectors,
            shards=tuple((shard_name(number), len(words), "") for number, (_, words) in enumerate(self._shards)),
            index_checksum="",
            skipped=self._reader.skipped,
            joined=tuple(self._reader.pieces.joined.tolist()),
            n_unknown=self._reader.pieces.n_unknown,
            n_long=self._reader.pieces.n_long,
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
        for path in (entry.folder / MANIFEST, *damaged):
            path.unlink(missing_ok=True)
        return None

    def prepare(self) -> list[str | None]:
        """Write the index of the entry; returns the checksum of each shard, ``None`` for one that is to be written.

        Raises:
            StoreError: the vectors do not fit on the disk, or the folder cannot be written.
        """
        folder, manifest = self.entry.folder, self.entry.manifest
        make_folder(folder)
        _check_space(self.entry)
        for stale in folder.glob(".*.tmp"):
            stale.unlink()  # left by a run that was killed while it wrote; no one else writes here under the lock
        place = np.full((manifest.n_words, 2), -1, dtype=np.int32)
        for number, (_, words) in enumerate(self._shards):
            place[words, 0], place[words, 1] = number, np.arange(len(words))
        self.entry = Entry(folder, replace(manifest, index_checksum=write_index(folder, place)))
        return [self.checksum(number) for number in range(len(self._shards))]

    def checksum(self, number: int) -> str | None:
        """The checksum of a shard, ``None`` if it is missing or damaged."""
        return shard_checksum(self.entry.shard_path(number))

    def read(self, number: int) -> NDArray[np.generic]:
        """The vectors of a shard, ``[layer, word, dim]``, computed inside ``with extraction.workers``.

        Raises:
            StoreError: a value does not fit into the type that vectors are stored in.
            ShortMemoryError: a single window does not fit into memory.
        """
        reader, manifest = self._reader, self.entry.manifest
        batches, words = self._shards[number]
        stored = torch.float16 if manifest.recipe.stored_dtype == "float16" else torch.float32
        vectors = torch.empty(len(manifest.layers), len(words), manifest.dim, dtype=stored)
        # Shards are cut alike for every device, so that one device can continue where another stopped.
        at_once = pieces_in_batch(reader.encoder.device)
        if at_once > PIECES_IN_BATCH:
            batches = join_batches(batches, pieces=at_once)
        rows = np.cumsum([0, *(len(reader.words_in(batch)) for batch in batches)]).tolist()

        def read(number: int) -> None:
            reader.read(batches[number], manifest.layers, into=vectors[:, rows[number] : rows[number + 1]])
            self.progress.advance(reader.pieces_in(batches[number]))

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
        return write_shard(self.entry.shard_path(number), vectors, self.entry.manifest.layers)


def _all_finite(values: torch.Tensor) -> bool:
    """Whether no value in float16 is infinite, as one that is too large for it becomes."""
    # A number is infinite or NaN if all bits of its exponent are set. Integer arithmetic on the bits is several times
    # as fast as torch.isfinite in half precision.
    exponent = 0x7C00
    return bool(((values.view(torch.int16) & exponent) != exponent).all())


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


def _check_space(entry: Entry) -> None:
    folder, needed = entry.folder, entry.manifest.n_bytes
    with explained_write_errors(folder):
        needed -= sum(file.stat().st_size for file in folder.glob("shard-*"))
        free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"{folder.parent}: {size_in_words(needed)} of vectors do not fit into the {size_in_words(free)} free "
            "there; free some, name another folder in BERTOLOGY_CACHE, run `bertology cache prune` or ask fewer layers"
        )
