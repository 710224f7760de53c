"""Sentences as a model reads them: natural text cut into pieces, in windows, and where each word is among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders.alignment.characters import (
    Flags,
    Integers,
    code_points,
    text_bases,
    trim_spaces,
    windows_of,
    with_unowned,
    words_to_pieces,
)
from bertology.errors import CorpusError, ModelError, quoted

Ids = NDArray[np.int32]

OnLong = Literal["window", "error", "skip"]
"""Treatment of a sentence longer than the model takes: overlapping windows, an error, or its words are skipped."""
Pooling = Literal["mean", "first", "last"]
"""Which of a word's pieces make its vector: the mean of all, the first or the last."""

_CHUNK_CHARACTERS = 1 << 20
SHARED = "sharing all subwords with another word"
"""Why words are left out that have exactly the subwords of another word."""
_NOTHING = "the tokenizer maps it to nothing"


@dataclass(frozen=True)
class SkippedWord:
    """A word without pieces, which has no vector, and the reason."""

    word: int
    """Its number, counted through all sentences."""
    sentence_id: str
    form: str
    reason: str


Skipped = tuple[SkippedWord, ...]


@dataclass(frozen=True, eq=False)
class Places:
    """Subwords of words: ``[place]`` number of the word and of its window, and the subword in the window."""

    word: NDArray[np.int64]
    window: NDArray[np.int64]
    piece: NDArray[np.int64]

    def inside(self, windows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``[chosen]`` which places lie in some windows (ascending), and ``[chosen, 2]`` window among them, subword."""
        chosen = np.flatnonzero(np.isin(self.window, windows))
        return chosen, np.stack([np.searchsorted(windows, self.window[chosen]), self.piece[chosen]], axis=1)


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
    """``[word]`` end of its pieces, exclusive. Every piece of a text is one of a word: what stands for white space
    alone belongs to the word that follows. A piece that two words share belongs to both."""
    skipped: Skipped
    pad_id: int
    """The vocabulary number that pads shorter windows of a batch."""
    n_unknown: int = 0
    """Number of words with the unknown piece among theirs; they are read like any other."""
    n_long: int = 0
    """Number of words in sentences longer than a window: read in several windows, or skipped."""

    @property
    def n_windows(self) -> int:
        """Number of inputs to the model."""
        return len(self.window_sentence)

    @property
    def n_words(self) -> int:
        """Number of words, skipped ones included."""
        return len(self.word_window)

    @cached_property
    def joined(self) -> Integers:
        """Words whose subwords are exactly those of the word before them, as *le* of French *du* (*de* and *le*)."""
        columns = np.stack([self.word_window, self.word_first, self.word_last])
        same = (columns[:, 1:] == columns[:, :-1]).all(axis=0) & (self.word_window[1:] >= 0)
        return (np.flatnonzero(same) + 1).astype(np.int64)

    @cached_property
    def shared(self) -> Integers:
        """Words whose subwords are exactly those of another word."""
        return np.union1d(self.joined - 1, self.joined)

    @cached_property
    def window_lengths(self) -> Integers:
        """``[window]`` pieces in each window, special tokens included."""
        return np.diff(self.window_starts)

    def places_of(self, words: NDArray[np.int64]) -> Places:
        """The subwords of some words that are read, in the order of windows; one that words share is there for each."""
        words = words[np.argsort(self.word_window[words], kind="stable")]
        lengths = (self.word_last - self.word_first)[words]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        window = np.repeat(self.word_window[words].astype(np.int64), lengths)
        piece = np.repeat(self.word_first[words].astype(np.int64), lengths) + within
        return Places(np.repeat(words, lengths), window, piece)

    def window(self, number: int) -> Ids:
        """``[piece]`` the vocabulary numbers of one window."""
        return self.ids[self.window_starts[number] : self.window_starts[number + 1]]

    def rows(self, windows: NDArray[np.int64], length: int) -> tuple[Integers, Flags]:
        """Windows as rows of a batch that is padded to ``length`` pieces.

        Returns:
            ``[window, piece]`` the place of each piece in ``ids``, and which are pieces, not padding.
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
    unknown_id: int | None
    pad_id: int
    max_pieces: int
    """Pieces a window may have, special tokens included."""

    @property
    def capacity(self) -> int:
        """Pieces of text that a window holds."""
        return self.max_pieces - len(self.prefix) - len(self.suffix)

    def tokenize(self, sentences: Texts, *, on_long: OnLong = "window") -> Pieces:
        """Tokenise sentences and align words to pieces; see :meth:`Encoder.tokenize`."""
        sentences = as_sentences(sentences)
        aligned = _Aligned.joined([_align_chunk(sentences, self, low, high) for low, high in _chunks(sentences)])
        return _in_windows(sentences, self, aligned, on_long)

    def first_tokens(self, sentences: Texts, *, on_long: OnLong = "window") -> Pieces:
        """First special tokens of sentences in the place of words; see :meth:`Encoder.first_tokens`."""
        if not len(self.prefix):
            raise ModelError("the model has no special token before the text, so no cls: pool mean, max or last")
        sentences = as_sentences(sentences)
        pieces = self.tokenize(sentences, on_long=on_long)
        found, first = np.unique(pieces.window_sentence, return_index=True)
        kept = np.zeros(pieces.n_windows, dtype=bool)
        kept[first] = True
        is_piece = np.repeat(kept, pieces.window_lengths)
        window = np.full(len(sentences), -1, dtype=np.int32)
        window[found] = np.arange(len(found))
        reasons = {int(sentences.sentence_of_word[one.word]): one.reason for one in pieces.skipped}
        skipped = (
            SkippedWord(number, sentences.id(number), sentences.text(number), reasons.get(number, _NOTHING))
            for number in np.flatnonzero(window < 0).tolist()
        )
        return replace(
            pieces,
            ids=pieces.ids[is_piece],
            window_starts=np.append(0, np.cumsum(pieces.window_lengths[kept])),
            window_sentence=pieces.window_sentence[kept],
            word_window=window,
            word_first=np.zeros_like(window),
            word_last=np.ones_like(window),
            skipped=tuple(skipped),
        )


@dataclass(frozen=True, eq=False)
class _Aligned:
    """Pieces of sentences, without special tokens, and the range of each word among them."""

    ids: Ids
    n_pieces: Integers
    """``[sentence]``"""
    first: Integers
    """``[word]`` first piece, counted through all sentences."""
    last: Integers
    """``[word]`` end of its pieces, exclusive; equal to ``first`` where it has none."""

    @classmethod
    def joined(cls, parts: Sequence[_Aligned]) -> _Aligned:
        """Consecutive parts of a text as one."""
        before = np.cumsum([0, *(len(part.ids) for part in parts)])
        moved = [replace(p, first=p.first + n, last=p.last + n) for p, n in zip(parts, before, strict=False)]
        nothing = np.zeros(0, dtype=np.int64)
        empty = cls(nothing.astype(np.int32), nothing, nothing, nothing)
        columns = ("ids", "n_pieces", "first", "last")
        return cls(*(np.concatenate([getattr(part, column) for part in (empty, *moved)]) for column in columns))


def _chunks(sentences: Sentences) -> Iterator[tuple[int, int]]:
    """Runs of sentences of about a million characters, to bound the memory of the tokenizer's own results."""
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
    n_pieces = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32, n_pieces.sum())
    flat = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    offsets = np.fromiter(flat, np.int64, 2 * n_pieces.sum()).reshape(-1, 2)
    bases = text_bases(texts)
    offsets = offsets + np.repeat(bases[:-1], n_pieces)[:, None]
    starts, ends = trim_spaces(offsets[:, 0], offsets[:, 1], characters)
    words = sentences.starts[low : high + 1]
    counts = np.diff(words)
    spans = sentences.char_spans[words[0] : words[-1]].astype(np.int64) + np.repeat(bases[:-1], counts)[:, None]
    # A span that overruns its text must not reach the next one.
    spans = np.minimum(spans, np.repeat(bases[1:] - 1, counts)[:, None])
    # The offsets of a mark may be those of the character after the white space that it stands for.
    is_mark = np.isin(ids, reader.marker_ids)
    first, last = words_to_pieces((spans[:, 0], spans[:, 1]), (starts, ends), ~is_mark)
    return _Aligned(ids, n_pieces, *with_unowned(first, last, n_pieces))


def _surrogate_error(sentences: Sentences, texts: list[str], low: int) -> CorpusError:
    number = next(i for i, text in enumerate(texts) if any("\ud800" <= character <= "\udfff" for character in text))
    return CorpusError(
        f"sentence {quoted(sentences.id(low + number))}: its text has half of a surrogate pair, which is no character: "
        "read the source as UTF-8"
    )


def _in_windows(sentences: Sentences, reader: PieceReader, aligned: _Aligned, on_long: OnLong) -> Pieces:
    """Choose windows, and for each word the window that it is read from."""
    capacity, n_pieces = reader.capacity, aligned.n_pieces
    piece_starts = np.cumsum(n_pieces) - n_pieces
    has_pieces = aligned.last > aligned.first
    reasons = dict.fromkeys(np.flatnonzero(~has_pieces).tolist(), _NOTHING)
    # Sentences that fit have one window each, from their first piece on.
    fits, of_word = (n_pieces > 0) & (n_pieces <= capacity), sentences.sentence_of_word
    window = np.where(has_pieces & fits[of_word], (np.cumsum(fits) - 1)[of_word], -1)
    sentence, start = [np.flatnonzero(fits)], [piece_starts[fits]]
    n_windows = len(sentence[0])
    for number in np.flatnonzero(n_pieces > capacity).tolist():
        words = slice(*sentences.starts[number : number + 2].tolist())
        if on_long != "window":
            reason = _too_long(sentences.id(number), int(n_pieces[number]), capacity, on_long)
            reasons |= dict.fromkeys(range(words.start, words.stop), reason)
            continue
        base = piece_starts[number]
        first, last = aligned.first[words] - base, aligned.last[words] - base
        starts, chosen = windows_of(int(n_pieces[number]), first, last, capacity=capacity)
        for place in np.flatnonzero(has_pieces[words] & (chosen < 0)).tolist():
            length = int(last[place] - first[place])
            reasons[words.start + place] = f"its {length} pieces are more than a window of {capacity} holds"
        window[words] = np.where(has_pieces[words] & (chosen >= 0), chosen + n_windows, -1)
        sentence.append(np.full(len(starts), number))
        start.append(starts + base)
        n_windows += len(starts)
    skipped = tuple(
        SkippedWord(word, sentences.id(int(of_word[word])), sentences.word(word), reasons[word])
        for word in sorted(reasons)
    )
    pieces = _laid_out(reader, aligned, window, np.concatenate(sentence), np.concatenate(start), skipped)
    return replace(pieces, n_long=int((n_pieces > capacity)[of_word].sum()))


def _too_long(name: str, length: int, capacity: int, on_long: OnLong) -> str:
    """Why the words of a sentence that does not fit are skipped; a ModelError if ``on_long`` is ``"error"``."""
    if on_long == "error":
        raise ModelError(
            f"sentence {quoted(name)} has {length} pieces, the model takes {capacity}: read it in windows "
            "(--on-long window) or leave it out (--on-long skip)"
        )
    return f"its sentence has {length} pieces, the model takes {capacity}"


def _laid_out(
    reader: PieceReader, aligned: _Aligned, window: Integers, sentence: Integers, start: Integers, skipped: Skipped
) -> Pieces:
    """The columns of windows in the order of their sentences; ``window [word]`` refers to the order of ``start``."""
    order = np.lexsort((start, sentence))
    rank, sentence, start = np.argsort(order), sentence[order], start[order]
    length = np.minimum(aligned.n_pieces[sentence], reader.capacity)
    special = np.append(reader.prefix, reader.suffix)
    source = _window_sources(start, length, len(aligned.ids), len(reader.prefix), len(reader.suffix))
    placed = np.flatnonzero(window >= 0)
    word_window = np.full(len(window), -1, dtype=np.int32)
    word_first, word_last = np.zeros((2, len(window)), dtype=np.int32)
    word_window[placed] = rank[window[placed]]
    shift = len(reader.prefix) - start[word_window[placed]]
    word_first[placed] = aligned.first[placed] + shift
    word_last[placed] = aligned.last[placed] + shift
    unknown = np.append(0, np.cumsum(aligned.ids == (-1 if reader.unknown_id is None else reader.unknown_id)))
    return Pieces(
        ids=np.append(aligned.ids, special)[source],
        window_starts=np.append(0, np.cumsum(length + len(special))),
        window_sentence=sentence.astype(np.int32),
        word_window=word_window,
        word_first=word_first,
        word_last=word_last,
        skipped=skipped,
        pad_id=reader.pad_id,
        n_unknown=int(np.sum(unknown[aligned.last[placed]] > unknown[aligned.first[placed]])),
    )


def _window_sources(start: Integers, length: Integers, n_pieces: int, n_prefix: int, n_suffix: int) -> Integers:
    """Which piece stands at each place of windows of ``length`` pieces from ``start`` on, prefix and suffix around.

    The special ones are numbered from ``n_pieces`` on.
    """
    ends = np.cumsum(length + n_prefix + n_suffix)
    window = np.repeat(np.arange(len(length)), length + n_prefix + n_suffix)
    place = np.arange(len(window)) - (ends - length - n_suffix)[window]  # in the text; below 0 in the prefix
    after = place - length[window]  # in the suffix, from 0 on
    special = n_pieces + n_prefix + np.where(place < 0, place, after)
    return np.where((place < 0) | (after >= 0), special, start[window] + place)
