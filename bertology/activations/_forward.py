"""Forward passes over the windows of a text, and the word vectors that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._memory import is_out_of_memory, shortage
from bertology.activations._store import CLS
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders import Encoding, LabelledArray, OnLong, Pooling, WordPooling, layers_from_end
from bertology.encoders.alignment.encodings import EncodedPieces
from bertology.encoders.batching import Batch, pieces_in_batch, plan_batches
from bertology.errors import CorpusError, ModelError, ShortMemoryError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder


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
