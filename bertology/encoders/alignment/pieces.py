"""Sentences as a model reads them: natural text cut into pieces, in windows, and where each word is among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentence, Sentences
from bertology.encoders.alignment.characters import (
    Flags,
    Integers,
    code_points,
    follow_spaces,
    gaps_in_words,
    text_bases,
    trim_spaces,
    windows_of,
    words_to_pieces,
)
from bertology.errors import CorpusError, ModelError, quoted

Ids = NDArray[np.int32]
Value = TypeVar("Value", bound=np.generic)

OnLong = Literal["window", "error", "skip"]
"""Treatment of a sentence longer than the model takes: overlapping windows, an error, or its words are skipped."""
Pooling = Literal["mean", "first", "last"]
"""Which of a word's pieces make its vector: the mean of all, the first or the last."""

_CHUNK_CHARACTERS = 1 << 20
_NOTHING = "the tokenizer maps it to nothing"


@dataclass(frozen=True)
class SkippedWord:
    """A word without pieces, which has no vector, and the reason."""

    word: int
    """Its number, counted through all sentences."""
    sentence_id: str
    form: str
    reason: str


@dataclass(frozen=True, eq=False)
class Pieces:
    """Tokenised sentences, as columns. A window is one input to the model, special tokens included."""

    ids: Ids
    """``[piece]`` vocabulary numbers of all windows, one after the other."""
    window_starts: Integers
    """``[window + 1]`` where each window begins in ``ids``, and their end."""
    window_sentence: Ids
    """``[window]`` number of its sentence; a sentence that fits has one window, one without pieces none."""
    word_window: Ids
    """``[word]`` the window that a word is read from, −1 where it is skipped."""
    word_first: Ids
    """``[word]`` first piece of the word, counted inside its window, special tokens included."""
    word_last: Ids
    """``[word]`` end of its pieces, exclusive; ``gaps`` in between are not among them."""
    gaps: Flags
    """``[piece]`` white space between pieces of one word (a no-break space in a number), which belongs to no word."""
    skipped: tuple[SkippedWord, ...]
    pad_id: int
    """The vocabulary number that pads shorter windows of a batch."""
    n_unknown: int = 0
    """Number of words with the unknown piece among theirs; they are read like any other."""

    @property
    def n_windows(self) -> int:
        """Number of inputs to the model."""
        return len(self.window_sentence)

    @property
    def n_words(self) -> int:
        """Number of words, skipped ones included."""
        return len(self.word_window)

    @cached_property
    def window_lengths(self) -> Integers:
        """``[window]`` pieces in each window, special tokens included."""
        return np.diff(self.window_starts)

    def window(self, number: int) -> Ids:
        """``[piece]`` the vocabulary numbers of one window."""
        return self.ids[self.window_starts[number] : self.window_starts[number + 1]]

    def window_gaps(self, number: int) -> Flags:
        """``[piece]`` which pieces of one window are ``gaps``."""
        return self.gaps[self.window_starts[number] : self.window_starts[number + 1]]

    def rows(self, windows: NDArray[np.int64], length: int) -> tuple[Integers, Flags]:
        """Windows as rows of a batch that is padded to ``length`` pieces.

        Returns:
            ``[window, piece]`` the place of each piece in ``ids`` and ``gaps``, and which are pieces, not padding.
        """
        columns = np.arange(length)
        is_piece = columns < self.window_lengths[windows][:, None]
        return np.minimum(self.window_starts[windows][:, None] + columns, len(self.ids) - 1), is_piece

    def batch_ids(self, windows: NDArray[np.int64], length: int) -> Integers:
        """``[window, piece]`` vocabulary numbers of a batch that is padded to ``length`` pieces."""
        places, is_piece = self.rows(windows, length)
        return np.where(is_piece, self.ids[places], self.pad_id).astype(np.int64)


@dataclass(frozen=True)
class PieceReader:
    """Tokenises sentences: a fast tokenizer with the properties that alignment depends on."""

    backend: Any
    """A ``tokenizers.Tokenizer`` that neither truncates nor pads."""
    prefix: Ids
    """Special tokens that open every window."""
    suffix: Ids
    """Special tokens that close it."""
    marker_ids: Ids
    """Pieces that are a mere word-boundary mark (a lone ``▁``) and stand for no character."""
    space_ids: Ids
    """Pieces of white space alone, for some of which the tokenizer gives no characters."""
    unknown_id: int | None
    pad_id: int
    max_pieces: int
    """Pieces a window may have, special tokens included."""

    @property
    def capacity(self) -> int:
        """Pieces of text that a window holds."""
        return self.max_pieces - len(self.prefix) - len(self.suffix)

    def tokenize(self, sentences: Sequence[Sentence] | Sentences, *, on_long: OnLong = "window") -> Pieces:
        """Tokenise sentences and align words to pieces; see :meth:`Encoder.tokenize`."""
        if not isinstance(sentences, Sentences):
            sentences = Sentences(sentences)
        collected = _Collected(sentences, self)
        for low, high in _chunks(sentences):
            aligned = _align_chunk(sentences, self, low, high)
            collected.add(low, high, aligned, on_long)
        return collected.pieces()


@dataclass(frozen=True)
class _Aligned:
    """Pieces of some sentences, without special tokens, and the range of each word among them."""

    ids: Ids
    piece_starts: Integers
    """``[sentence + 1]``"""
    first: Integers
    """``[word]`` counted through all pieces of the chunk."""
    last: Integers
    gaps: Flags
    """``[piece]`` white space between pieces of one word."""


def _chunks(sentences: Sentences) -> Iterator[tuple[int, int]]:
    """Runs of sentences of about a million characters, so that memory does not grow with the corpus."""
    low = size = 0
    for number in range(len(sentences)):
        size += len(sentences.text(number))
        if size >= _CHUNK_CHARACTERS or number + 1 == len(sentences):
            yield low, number + 1
            low, size = number + 1, 0


def _align_chunk(sentences: Sentences, reader: PieceReader, low: int, high: int) -> _Aligned:
    texts = [sentences.text(number) for number in range(low, high)]
    try:
        characters = code_points("\n".join(texts))
    except UnicodeEncodeError:
        raise _surrogate_error(sentences, texts, low) from None
    # A call of the model's tokenizer with padding or truncation leaves these set.
    reader.backend.no_padding()
    reader.backend.no_truncation()
    encodings = reader.backend.encode_batch(texts, add_special_tokens=False)
    piece_starts = np.append(0, np.cumsum([len(encoding) for encoding in encodings])).astype(np.int64)
    n_pieces = int(piece_starts[-1])
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32, n_pieces)
    flat = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    offsets = np.fromiter(flat, np.int64, 2 * n_pieces).reshape(-1, 2)
    bases = text_bases(texts)
    offsets = offsets + np.repeat(bases[:-1], np.diff(piece_starts))[:, None]
    starts, ends = trim_spaces(offsets[:, 0], offsets[:, 1], characters)
    words = sentences.starts[low : high + 1]
    spans = sentences.char_spans[words[0] : words[-1]].astype(np.int64)
    counts = np.diff(words)
    spans = spans + np.repeat(bases[:-1], counts)[:, None]
    # A span that overruns its text must not reach the next one.
    spans = np.minimum(spans, np.repeat(bases[1:] - 1, counts)[:, None])
    is_mark = np.isin(ids, reader.marker_ids)
    first, last = words_to_pieces((spans[:, 0], spans[:, 1]), (starts, ends), ~is_mark)
    is_space = (starts == ends) & ((offsets[:, 0] < offsets[:, 1]) | np.isin(ids, reader.space_ids))
    # The offsets of a mark may be those of the character after the white space that it stands for; one that a
    # normaliser makes of a visible character, such as a free accent, stands for that.
    is_space |= is_mark & follow_spaces(starts, characters)
    return _Aligned(ids, piece_starts, first, last, gaps_in_words(first, last, is_space))


def _surrogate_error(sentences: Sentences, texts: list[str], low: int) -> CorpusError:
    number = next(i for i, text in enumerate(texts) if any("\ud800" <= character <= "\udfff" for character in text))
    return CorpusError(
        f"sentence {quoted(sentences.id(low + number))}: its text has half of a surrogate pair, which is no character: "
        "read the source as UTF-8"
    )


class _Collected:
    """Collects the windows, and the places of words in them, chunk by chunk."""

    def __init__(self, sentences: Sentences, reader: PieceReader) -> None:
        self._sentences, self._reader = sentences, reader
        self._ids: list[Ids] = []
        self._gaps: list[Flags] = []
        self._lengths: list[Integers] = []
        self._window_sentence: list[Integers] = []
        self._n_windows = 0
        self._word_window = np.full(sentences.n_words, -1, dtype=np.int32)
        self._word_first = np.zeros(sentences.n_words, dtype=np.int32)
        self._word_last = np.zeros(sentences.n_words, dtype=np.int32)
        self._skipped: list[SkippedWord] = []
        self._n_unknown = 0

    def add(self, low: int, high: int, aligned: _Aligned, on_long: OnLong) -> None:
        """Add the windows of sentences ``low:high`` and the places of their words."""
        n_pieces = np.diff(aligned.piece_starts)
        words = self._sentences.starts[low : high + 1]
        word_sentence = np.repeat(np.arange(high - low), np.diff(words))
        has_pieces = aligned.last > aligned.first
        # Sentences that fit: one window each, begun at their first piece.
        fits = (n_pieces > 0) & (n_pieces <= self._reader.capacity)
        sentence = np.flatnonzero(fits)
        start = aligned.piece_starts[:-1][sentence]
        window = np.where(has_pieces, (np.cumsum(fits) - 1)[word_sentence], -1)
        window[~fits[word_sentence]] = -1
        reasons: dict[int, str] = {int(word): _NOTHING for word in np.flatnonzero(~has_pieces)}
        more_sentences, more_starts = [sentence], [start]
        n_windows = len(sentence)
        for number in np.flatnonzero(n_pieces > self._reader.capacity):
            within = slice(int(words[number] - words[0]), int(words[number + 1] - words[0]))  # the sentence's words
            if on_long != "window":
                self._refuse_long(low + int(number), int(n_pieces[number]), within, on_long, reasons)
                continue
            base = aligned.piece_starts[number]
            starts, chosen = windows_of(
                int(n_pieces[number]),
                aligned.first[within] - base,
                aligned.last[within] - base,
                capacity=self._reader.capacity,
            )
            chosen = np.where(has_pieces[within], chosen, -1)
            for word in np.flatnonzero(has_pieces[within] & (chosen < 0)) + within.start:
                length = int(aligned.last[word] - aligned.first[word])
                reasons[int(word)] = f"its {length} pieces are more than a window of {self._reader.capacity} holds"
            window[within] = np.where(chosen >= 0, chosen + n_windows, -1)
            more_sentences.append(np.full(len(starts), number))
            more_starts.append(starts + base)
            n_windows += len(starts)
        self._write(low, aligned, window, np.concatenate(more_sentences), np.concatenate(more_starts), n_pieces)
        self._skip(low, int(words[0]), reasons)

    def _refuse_long(self, number: int, length: int, words: slice, on_long: OnLong, reasons: dict[int, str]) -> None:
        """Raise an error for a sentence that does not fit, or note why its words are skipped."""
        capacity, name = self._reader.capacity, self._sentences.id(number)
        if on_long == "error":
            raise ModelError(
                f"sentence {quoted(name)} has {length} pieces, the model takes {capacity}: read it in windows "
                "(--on-long window) or leave it out (--on-long skip)"
            )
        for word in range(words.start, words.stop):
            reasons[word] = f"its sentence has {length} pieces, the model takes {capacity}"

    def _write(
        self, low: int, aligned: _Aligned, window: Integers, sentence: Integers, start: Integers, n_pieces: Integers
    ) -> None:
        """Add windows in the order of their sentences; ``window [word]`` refers to them in the order of ``start``."""
        order = np.lexsort((start, sentence))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        sentence, start = sentence[order], start[order]
        length = np.minimum(n_pieces[sentence], self._reader.capacity)
        prefix, suffix = self._reader.prefix, self._reader.suffix
        self._ids.append(_lay_out(aligned.ids, start, length, prefix, suffix))
        self._gaps.append(_lay_out(aligned.gaps, start, length, np.zeros_like(prefix), np.zeros_like(suffix)))
        self._lengths.append(length + len(prefix) + len(suffix))
        self._window_sentence.append(sentence + low)
        placed = np.flatnonzero(window >= 0)
        ranks = rank[window[placed]]
        word = placed + int(self._sentences.starts[low])
        shift = len(prefix) - start[ranks]
        self._word_window[word] = ranks + self._n_windows
        self._word_first[word] = aligned.first[placed] + shift
        self._word_last[word] = aligned.last[placed] + shift
        self._n_windows += len(order)
        if self._reader.unknown_id is not None:
            unknown = np.append(0, np.cumsum(aligned.ids == self._reader.unknown_id))
            self._n_unknown += int(np.sum(unknown[aligned.last[placed]] > unknown[aligned.first[placed]]))

    def _skip(self, low: int, base: int, reasons: dict[int, str]) -> None:
        for word in sorted(reasons):
            number = base + word
            sentence = self._sentences.id(int(self._sentences.sentence_of_word[number]))
            self._skipped.append(SkippedWord(number, sentence, self._sentences.word(number), reasons[word]))

    def pieces(self) -> Pieces:
        """The collected columns."""
        lengths = np.concatenate([np.zeros(1, dtype=np.int64), *self._lengths])
        nothing = np.zeros(0, dtype=np.int32)
        return Pieces(
            ids=np.concatenate([nothing, *self._ids]),
            window_starts=np.cumsum(lengths),
            window_sentence=np.concatenate([nothing, *self._window_sentence]).astype(np.int32),
            word_window=self._word_window,
            word_first=self._word_first,
            word_last=self._word_last,
            gaps=np.concatenate([np.zeros(0, dtype=bool), *self._gaps]),
            skipped=tuple(self._skipped),
            pad_id=self._reader.pad_id,
            n_unknown=self._n_unknown,
        )


def _lay_out(values: NDArray[Value], start: Integers, length: Integers, prefix: Ids, suffix: Ids) -> NDArray[Value]:
    """Windows of ``length`` pieces from ``start`` on, each between prefix and suffix, one after the other."""
    n_prefix, n_suffix = len(prefix), len(suffix)
    ends = np.cumsum(length + n_prefix + n_suffix)
    begins = ends - length - n_prefix - n_suffix
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=values.dtype)
    out[begins[:, None] + np.arange(n_prefix)] = prefix
    out[ends[:, None] - n_suffix + np.arange(n_suffix)] = suffix
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    out[np.repeat(begins + n_prefix, length) + within] = values[np.repeat(start, length) + within]
    return out
