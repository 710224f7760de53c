"""Windows of text through an encoder, and out of it the vectors of the words they are read for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._memory import is_out_of_memory, shortage
from bertology.corpora import Sentences
from bertology.encoders import WordPooling
from bertology.encoders.batching import Batch
from bertology.errors import ShortMemoryError

if TYPE_CHECKING:
    from bertology.encoders import Encoder


class WindowReader:
    """Tokenizes sentences once and reads batches of their windows, up to ``at_once`` of them from as many threads.

    A batch that does not fit into memory is read in halves, and so is every later one.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        pooling: Any = "mean",
        on_long: Any = "window",
        notify: Callable[[str], None] = print,
        at_once: int = 1,
    ) -> None:
        self.encoder = encoder
        self._free: SimpleQueue[Encoder] = SimpleQueue()
        for each in (encoder, *(encoder.twin() for _ in range(at_once - 1))):
            self._free.put(each)
        self._pooling, self._notify = pooling, notify
        self._pieces = encoder.tokenize(sentences, on_long=on_long)
        self._most_windows: int | None = None
        # Words by the window they are read from; those read from none (−1) come first and are left out.
        window_of_word = self._pieces.word_window
        self._words = np.argsort(window_of_word, kind="stable")
        self._word_starts = np.searchsorted(window_of_word[self._words], np.arange(len(self.lengths) + 1))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """``[window]`` pieces in each window, special ones included."""
        return np.diff(self._pieces.window_starts)

    @property
    def n_pieces(self) -> int:
        """Pieces in all windows."""
        return int(self._pieces.window_starts[-1])

    @property
    def skipped(self) -> tuple[tuple[int, str, str, str], ...]:
        """Words that have no vector: number, sentence id, form, reason."""
        return tuple((int(s.word), s.sentence_id, s.form, s.reason) for s in self._pieces.skipped)

    def pieces_in(self, batch: Batch) -> int:
        """Pieces in a batch, padding left out."""
        return int(self.lengths[batch.windows].sum())

    def words_in(self, batch: Batch) -> NDArray[np.int64]:
        """Numbers of the words read from a batch, in the order of its windows."""
        return np.concatenate(
            [self._words[self._word_starts[window] : self._word_starts[window + 1]] for window in batch.windows]
        )

    def read(self, batch: Batch, layers: Sequence[int], *, into: Tensor) -> None:
        """Read a batch and put its words' vectors ``into [layer, word, dim]``."""
        with self._encoder() as encoder:
            self._read_in_parts(encoder, batch, layers, into)

    @contextlib.contextmanager
    def _encoder(self) -> Iterator[Encoder]:
        """An encoder that no other thread uses."""
        encoder = self._free.get()
        try:
            yield encoder
        finally:
            self._free.put(encoder)

    def _read_in_parts(self, encoder: Encoder, batch: Batch, layers: Sequence[int], into: Tensor) -> None:
        most = self._most_windows or len(batch.windows)
        row = 0
        start = 0
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
        ids = torch.full((len(batch.windows), batch.length), self._pieces.pad_id, dtype=torch.long)
        mask = torch.zeros_like(ids) if batch.is_padded else None
        gaps = torch.zeros(ids.shape, dtype=torch.bool)
        first, last = [], []
        for row, window in enumerate(batch.windows.tolist()):
            begin, end = self._pieces.window_starts[window : window + 2].tolist()
            ids[row, : end - begin] = torch.from_numpy(self._pieces.ids[begin:end].astype(np.int64))
            gaps[row, : end - begin] = torch.from_numpy(self._pieces.gaps[begin:end])
            if mask is not None:
                mask[row, : end - begin] = 1
            words = self._words[self._word_starts[window] : self._word_starts[window + 1]]
            first.append(self._pieces.word_first[words].astype(np.int64) + row * batch.length)
            last.append(self._pieces.word_last[words].astype(np.int64) + row * batch.length)
        device = encoder.device
        pool = WordPooling(
            torch.from_numpy(np.concatenate(first)).to(device),
            torch.from_numpy(np.concatenate(last)).to(device),
            self._pooling,
            gaps.flatten().to(device) if gaps.any() else None,
        )
        hidden = encoder.hidden_states(ids, mask, layers=layers)
        with torch.inference_mode():
            for place, layer in enumerate(layers):
                into[place].copy_(pool(hidden[layer]))
