"""Alignment: natural text cut into subwords, in windows; words found among them; word vectors pooled from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, Texts, as_sentences
from bertology.errors import CorpusError, ModelError, quoted

if TYPE_CHECKING:
    from torch import Tensor

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Ids = NDArray[np.int32]

OnLong = Literal["window", "error", "skip"]
"""Treatment of a sentence longer than the model takes: overlapping windows, an error, or its words are skipped."""
Pooling = Literal["mean", "first", "last"]
"""Pooling of a word's pieces into its vector: the mean of all, the first or the last."""
CLS = "cls"
"""In place of a pooling of words: the vectors of the first special tokens, one a sentence."""
NOT_APART = -2
"""The window of a word that shares all its subwords with another, and so is not asked about."""
SHARED = "sharing all subwords with another word"
"""Why words are left out that have exactly the subwords of another word."""
_NOTHING = "the tokenizer maps it to nothing"
_UNLIMITED = np.iinfo(np.int64).max
_CHUNK_CHARACTERS = 1 << 20
_TABLE_END = 0x3001
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@cache
def _space_table() -> Flags:
    # No character from U+3001 on is white space, so one entry stands for all of them.
    return np.array([chr(code).isspace() for code in range(_TABLE_END + 1)])


def _trimmed(starts: Integers, ends: Integers, joined: str) -> tuple[Integers, Integers]:
    """Intervals in a text without white space at their ends; one of white space alone becomes empty."""
    text = np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)
    if not len(text):
        return starts, ends
    places = np.arange(len(text))
    visible = ~_space_table()[np.minimum(text, _TABLE_END)]
    # [character + 1]: the next visible place from here on, and the end of the last visible one before here.
    following = np.append(np.minimum.accumulate(np.where(visible, places, len(text))[::-1])[::-1], len(text))
    preceding = np.append(0, np.maximum.accumulate(np.where(visible, places + 1, 0)))
    starts = np.minimum(following[starts], ends)
    return starts, np.maximum(preceding[ends], starts)


def words_to_pieces(
    words: tuple[Integers, Integers], pieces: tuple[Integers, Integers], owns: Flags
) -> tuple[Integers, Integers]:
    """The range of pieces that share characters with each word.

    A piece that straddles two words is in the range of both. Where offsets run backwards (a normaliser that reorders
    combining characters), the range is the smallest that holds all pieces of the word. Words and pieces are given by
    their starts and ends in one numbering of characters; ``owns [piece]`` is false for marks of word boundaries.

    Returns:
        ``[word]`` first piece and end (exclusive), both 0 for a word without pieces.
    """
    owns = owns & (pieces[1] > pieces[0])
    index = np.flatnonzero(owns)
    starts, ends = pieces[0][index], pieces[1][index]
    # Sorted bounds that enclose the true ones: equal to them wherever offsets run forward.
    running_ends = np.maximum.accumulate(ends) if len(ends) else ends
    running_starts = np.minimum.accumulate(starts[::-1])[::-1] if len(starts) else starts
    low = np.searchsorted(running_ends, words[0], side="right")
    high = np.searchsorted(running_starts, words[1], side="left")
    has_pieces = (high > low) & (words[1] > words[0])
    if not (np.array_equal(running_ends, ends) and np.array_equal(running_starts, starts)):
        disorder = np.append(0, np.cumsum((running_ends != ends) | (running_starts != starts)))
        backwards = disorder[np.maximum(high, low)] > disorder[low]
        for word in np.flatnonzero(has_pieces & backwards):
            between = np.arange(low[word], high[word])
            shared = between[(starts[between] < words[1][word]) & (ends[between] > words[0][word])]
            has_pieces[word] = len(shared) > 0
            if len(shared):
                low[word], high[word] = shared[0], shared[-1] + 1
    first, last = np.zeros_like(words[0]), np.zeros_like(words[0])
    first[has_pieces] = index[low[has_pieces]]
    last[has_pieces] = index[high[has_pieces] - 1] + 1
    return first, last


def with_unowned(first: Integers, last: Integers, n_pieces: Integers) -> tuple[Integers, Integers]:
    """Ranges of words grown by the pieces in none, such as a lone ``▁`` or white space: each belongs to the word that
    follows in its sentence, at the end of the sentence to the word before.

    Args:
        first: ``[word]`` first piece, counted through all sentences.
        last: ``[word]`` end, exclusive; equal to ``first`` where a word has none, and then left as it is.
        n_pieces: ``[sentence]``
    """
    ends = np.cumsum(n_pieces)
    places = np.arange(n_pieces.sum())
    sentence_start, sentence_end = np.repeat(ends - n_pieces, n_pieces), np.repeat(ends, n_pieces)
    steps = np.zeros(len(places) + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, last, -1)
    owned = np.cumsum(steps[:-1]) > 0
    # Before each piece the end of the nearest owned one, and from each piece on the next owned one.
    before = np.append(0, np.maximum.accumulate(np.where(owned, places + 1, 0)))
    after = np.append(np.minimum.accumulate(np.where(owned, places, len(places))[::-1])[::-1], len(places))
    first, last = first.copy(), last.copy()
    words = np.flatnonzero(last > first)
    first[words] = np.maximum(before[first[words]], sentence_start[first[words]])
    end = sentence_end[last[words] - 1]
    last[words] = np.where(after[last[words]] >= end, end, last[words])
    return first, last


def windows_of(n_pieces: int, first: Integers, last: Integers, *, capacity: int) -> tuple[Integers, Integers]:
    """Cut one sentence of ``n_pieces`` into windows that overlap by half, and choose a window for each word.

    A word is read from the window in which the shorter of its two contexts is longest; at the beginning and the end of
    the sentence, context counts as unlimited. A word that no regular window holds whole gets a further window, centred
    on it.

    Returns:
        ``[window]`` where each window begins (all hold ``min(capacity, n_pieces)`` pieces), and ``[word]`` the
        window of each word, −1 for a word longer than a whole window.
    """
    if n_pieces <= capacity:
        return np.zeros(1, dtype=np.int64), np.where(last - first <= capacity, 0, -1)
    step = max(1, capacity // 2)
    starts = np.append(np.arange(0, n_pieces - capacity, step), n_pieces - capacity)
    nearest = np.rint((first + last - capacity) / 2 / step).astype(np.int64)
    # Contexts shrink to either side of the nearest window, so the best one is a neighbour of it, or lies at an edge.
    edges = np.broadcast_to(np.array([[0], [len(starts) - 2], [len(starts) - 1]]), (3, len(first)))
    candidates = np.concatenate([nearest + np.array([[-1], [0], [1]]), edges]).clip(0, len(starts) - 1)
    begin = starts[candidates]
    left, right = first - begin, begin + capacity - last
    is_whole = (left >= 0) & (right >= 0)
    left = np.where(begin == 0, _UNLIMITED, left)
    right = np.where(begin + capacity == n_pieces, _UNLIMITED, right)
    contexts = np.where(is_whole, np.minimum(left, right), -1)  # −1 where a window cuts the word
    best = np.argmax(contexts, axis=0)
    words = np.arange(len(first))
    chosen = np.where(contexts[best, words] >= 0, candidates[best, words], -1)
    homeless = np.flatnonzero((chosen < 0) & (last - first <= capacity))
    centred = np.clip((first[homeless] + last[homeless] - capacity) // 2, 0, n_pieces - capacity)
    chosen[homeless] = len(starts) + np.arange(len(homeless))
    return np.concatenate([starts, centred]), chosen


@dataclass(frozen=True)
class SkippedWord:
    """A word without pieces, which has no vector, and the reason."""

    word: int
    """Its number, counted through all sentences."""
    sentence_id: str
    form: str
    reason: str


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
    skipped: tuple[SkippedWord, ...]
    pad_id: int
    """The vocabulary number that pads shorter windows of a batch."""
    n_unknown: int = 0
    """Number of words with the unknown piece among theirs; they are read like any other."""
    n_long: int = 0
    """Number of words in sentences longer than a window: read in several windows, or skipped."""
    segments: Integers | None = None
    """``[piece]`` token types of all windows; None where all are 0."""
    is_hidden: Flags | None = None
    """``[piece]`` pieces of all windows that attention leaves out; None where there are none."""
    shift: int = 0
    """Added to the positions that the model counts itself."""
    n_unshifted: int = 0
    """Pieces at the beginning of a window whose positions stay."""

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
        """Number of subwords in each window, special tokens included: ``[window]``."""
        return np.diff(self.window_starts)

    def only(self, kept: Flags) -> Pieces:
        """Some of the windows; words that are read from others have none."""
        number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)  # the last is that of words without a window
        return replace(
            self,
            ids=self.ids[np.repeat(kept, self.window_lengths)],
            window_starts=np.append(0, np.cumsum(self.window_lengths[kept])),
            window_sentence=self.window_sentence[kept],
            word_window=number[self.word_window].astype(np.int32),
        )

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

    def inputs(self, windows: NDArray[np.int64], length: int, *, is_padded: bool) -> dict[str, Integers]:
        """``[window, piece]`` inputs of a batch that is padded to ``length`` pieces, by name, where they are needed."""
        places, is_piece = self.rows(windows, length)
        inputs = {"input_ids": self.batch_ids(windows, length)}
        if is_padded or self.is_hidden is not None:
            seen = is_piece if self.is_hidden is None else is_piece & ~self.is_hidden[places]
            inputs["attention_mask"] = seen.astype(np.int64)
        if self.segments is not None:
            inputs["token_type_ids"] = np.where(is_piece, self.segments[places], 0)
        if self.shift:
            inputs["position_shift"] = np.where(np.arange(length) < self.n_unshifted, 0, self.shift)
        return inputs


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
        parts = [_align_chunk(sentences, self, low, high) for low, high in _chunks(sentences)]
        before = np.cumsum([0, *(len(part[0]) for part in parts)])
        parts = [(ids, n, first + m, last + m) for (ids, n, first, last), m in zip(parts, before, strict=False)]
        nothing = np.zeros(0, dtype=np.int64)
        columns = zip((nothing.astype(np.int32), nothing, nothing, nothing), *parts, strict=True)
        ids, n_pieces, first, last = (np.concatenate(column) for column in columns)
        return _in_windows(sentences, self, (ids, n_pieces, first, last), on_long)

    def first_tokens(self, sentences: Texts, *, on_long: OnLong = "window") -> Pieces:
        """First special tokens of sentences in the place of words; see :meth:`Encoder.first_tokens`."""
        if not len(self.prefix):
            raise ModelError("the model has no special token before the text, so no cls: pool mean, max or last")
        sentences = as_sentences(sentences)
        pieces = self.tokenize(sentences, on_long=on_long)
        found, first = np.unique(pieces.window_sentence, return_index=True)
        window = np.full(len(sentences), -1, dtype=np.int32)
        window[found] = np.arange(len(found))
        reasons = {int(sentences.sentence_of_word[one.word]): one.reason for one in pieces.skipped}
        skipped = (
            SkippedWord(number, sentences.id(number), sentences.text(number), reasons.get(number, _NOTHING))
            for number in np.flatnonzero(window < 0).tolist()
        )
        return replace(
            pieces.only(np.isin(np.arange(pieces.n_windows), first)),
            word_window=window,
            word_first=np.zeros_like(window),
            word_last=np.ones_like(window),
            skipped=tuple(skipped),
        )


_Aligned = tuple[Ids, Integers, Integers, Integers]
"""``[piece]`` numbers of sentences without special tokens; ``[sentence]`` how many each has; ``[word]`` first piece of
each word, counted through all sentences, and the end of its pieces, equal to it where it has none."""


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
    broken = next((n for n, text in enumerate(texts, low) if not text.isascii() and _SURROGATE.search(text)), None)
    if broken is not None:
        raise CorpusError(
            f"sentence {quoted(sentences.id(broken))}: its text has half of a surrogate pair, which is no character: "
            "read the source as UTF-8"
        )
    # A call of the model's tokenizer with padding or truncation leaves these set.
    reader.backend.no_padding()
    reader.backend.no_truncation()
    encodings = reader.backend.encode_batch(texts, add_special_tokens=False)
    n_pieces = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32, n_pieces.sum())
    flat = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    offsets = np.fromiter(flat, np.int64, 2 * n_pieces.sum()).reshape(-1, 2)
    # Where each text begins when all are joined by one character.
    bases = np.append(0, np.cumsum([len(text) + 1 for text in texts])).astype(np.int64)
    offsets = offsets + np.repeat(bases[:-1], n_pieces)[:, None]
    pieces = _trimmed(offsets[:, 0], offsets[:, 1], "\n".join(texts))
    words = sentences.starts[low : high + 1]
    counts = np.diff(words)
    spans = sentences.char_spans[words[0] : words[-1]].astype(np.int64) + np.repeat(bases[:-1], counts)[:, None]
    # A span that overruns its text must not reach the next one.
    spans = np.minimum(spans, np.repeat(bases[1:] - 1, counts)[:, None])
    # The offsets of a mark may be those of the character after the white space that it stands for.
    is_mark = np.isin(ids, reader.marker_ids)
    first, last = words_to_pieces((spans[:, 0], spans[:, 1]), pieces, ~is_mark)
    return ids, n_pieces, *with_unowned(first, last, n_pieces)


def _in_windows(sentences: Sentences, reader: PieceReader, aligned: _Aligned, on_long: OnLong) -> Pieces:
    """Choose windows, and for each word the window that it is read from."""
    capacity, (_, n_pieces, first, last) = reader.capacity, aligned
    piece_starts = np.cumsum(n_pieces) - n_pieces
    has_pieces = last > first
    reasons = dict.fromkeys(np.flatnonzero(~has_pieces).tolist(), _NOTHING)
    # Sentences that fit have one window each, from their first piece on.
    fits, of_word = (n_pieces > 0) & (n_pieces <= capacity), sentences.sentence_of_word
    window = np.where(has_pieces & fits[of_word], (np.cumsum(fits) - 1)[of_word], -1)
    sentence, start = [np.flatnonzero(fits)], [piece_starts[fits]]
    n_windows = len(sentence[0])
    for number in np.flatnonzero(n_pieces > capacity).tolist():
        words, length = slice(*sentences.starts[number : number + 2].tolist()), int(n_pieces[number])
        if on_long == "error":
            raise ModelError(
                f"sentence {quoted(sentences.id(number))} has {length} pieces, the model takes {capacity}: read it in "
                "windows (--on-long window) or leave it out (--on-long skip)"
            )
        if on_long == "skip":
            reason = f"its sentence has {length} pieces, the model takes {capacity}"
            reasons |= dict.fromkeys(range(words.start, words.stop), reason)
            continue
        low, high = first[words] - piece_starts[number], last[words] - piece_starts[number]
        starts, chosen = windows_of(length, low, high, capacity=capacity)
        for place in np.flatnonzero(has_pieces[words] & (chosen < 0)).tolist():
            more = int(high[place] - low[place])
            reasons[words.start + place] = f"its {more} pieces are more than a window of {capacity} holds"
        window[words] = np.where(has_pieces[words] & (chosen >= 0), chosen + n_windows, -1)
        sentence.append(np.full(len(starts), number))
        start.append(starts + piece_starts[number])
        n_windows += len(starts)
    pieces = _laid_out(reader, aligned, window, np.concatenate(sentence), np.concatenate(start))
    skipped = [
        SkippedWord(word, sentences.id(int(of_word[word])), sentences.word(word), reasons[word])
        for word in sorted(reasons)
    ]
    return replace(pieces, skipped=tuple(skipped), n_long=int((n_pieces > capacity)[of_word].sum()))


def _laid_out(reader: PieceReader, aligned: _Aligned, window: Integers, sentence: Integers, start: Integers) -> Pieces:
    """The columns of windows in the order of their sentences; ``window [word]`` refers to the order of ``start``."""
    ids, n_pieces, first, last = aligned
    order = np.lexsort((start, sentence))
    rank, sentence, start = np.argsort(order), sentence[order], start[order]
    n_prefix, special = len(reader.prefix), np.append(reader.prefix, reader.suffix)
    length = np.minimum(n_pieces[sentence], reader.capacity)
    window_starts = np.append(0, np.cumsum(length + len(special)))
    # Of each place in a window: its place in the text, below 0 in the prefix, and in the suffix, from 0 on there.
    number = np.repeat(np.arange(len(length)), length + len(special))
    place = np.arange(len(number)) - window_starts[number] - n_prefix
    after = place - length[number]
    is_special = (place < 0) | (after >= 0)
    source = np.where(is_special, len(ids) + n_prefix + np.where(place < 0, place, after), start[number] + place)
    placed = np.flatnonzero(window >= 0)
    word_window = np.full(len(window), -1, dtype=np.int32)
    word_first, word_last = np.zeros((2, len(window)), dtype=np.int32)
    word_window[placed] = rank[window[placed]]
    shift = n_prefix - start[word_window[placed]]
    word_first[placed] = first[placed] + shift
    word_last[placed] = last[placed] + shift
    unknown = np.append(0, np.cumsum(ids == (-1 if reader.unknown_id is None else reader.unknown_id)))
    return Pieces(
        ids=np.append(ids, special)[source],
        window_starts=window_starts,
        window_sentence=sentence.astype(np.int32),
        word_window=word_window,
        word_first=word_first,
        word_last=word_last,
        skipped=(),
        pad_id=reader.pad_id,
        n_unknown=int(np.sum(unknown[last[placed]] > unknown[first[placed]])),
    )


@dataclass(frozen=True)
class Encoding:
    """Input form of a sentence; the default is by itself, from the first position on, as the first segment."""

    shift: int = 0
    """Added to the position of every piece. Relative positions stay as they are."""
    is_opened_at_0: bool = False
    """Whether special tokens before the text, such as ``[CLS]``, keep their positions."""
    other_segment: bool = False
    """Whether token types are exchanged: 1 for 0 and 0 for 1."""
    after: str = ""
    """A text that the model reads before the sentence, joined as the first and the second of a pair."""
    is_hidden: bool = False
    """Whether attention leaves out the pieces of ``after`` and the separator behind it, so that the sentence has
    another position and segment, but no other context."""

    def __str__(self) -> str:
        of = " of the text" if self.is_opened_at_0 else ""
        shift = [f"positions{of} + {self.shift}"] if self.shift else []
        segment = ["segments exchanged"] if self.other_segment else []
        after = [f"after {self.after!r}{', which is hidden' if self.is_hidden else ''}"] if self.after else []
        return ", ".join(shift + segment + after)


def encoded(sentences: Sentences, encoding: Encoding, reader: PieceReader, *, on_long: OnLong) -> Pieces:
    """The windows of :meth:`PieceReader.tokenize` in another encoding; see :meth:`Encoder.tokenize`."""
    pieces = reader.tokenize(sentences, on_long=on_long)
    before, types, of_text = _before(encoding.after, reader)
    n_prefix, added = len(reader.prefix), len(before) - len(reader.prefix)
    more = added + encoding.shift
    fits = pieces.window_lengths + more <= reader.max_pieces
    if pieces.n_windows and not fits.any():
        raise ModelError(
            f"no sentence fits into the {reader.max_pieces} positions of the model with {more} more: "
            f"give a smaller shift or shorter sentences ({encoding})"
        )
    left_out = np.flatnonzero((pieces.word_window >= 0) & ~np.append(fits, True)[pieces.word_window])
    reason = f"its window of pieces, with {more} more, is longer than the {reader.max_pieces} that the model takes"
    skipped = {one.word: one for one in pieces.skipped}
    for word in left_out.tolist():
        of_word = sentences.id(int(sentences.sentence_of_word[word]))
        skipped[word] = SkippedWord(word, of_word, sentences.word(word), reason)
    pieces = replace(pieces.only(fits), skipped=tuple(skipped[word] for word in sorted(skipped)))
    starts = np.append(0, np.cumsum(pieces.window_lengths + added))
    places_before = (starts[:-1, None] + np.arange(len(before))).ravel()
    is_before = np.isin(np.arange(starts[-1]), places_before)
    is_text = np.ones(len(pieces.ids), dtype=bool)
    is_text[(pieces.window_starts[:-1, None] + np.arange(n_prefix)).ravel()] = False

    def laid_out(of_before: Any, of_text: Any, kind: Any) -> NDArray[Any]:
        column = np.zeros(starts[-1], dtype=kind)
        column[places_before] = np.tile(np.broadcast_to(of_before, len(before)), pieces.n_windows)
        column[~is_before] = of_text
        return column

    segments = laid_out(types, of_text, np.int64)
    segments = 1 - segments if encoding.other_segment else segments
    hides = np.arange(len(before)) >= n_prefix
    return replace(
        pieces,
        ids=laid_out(before, pieces.ids[is_text], pieces.ids.dtype),
        window_starts=starts,
        word_first=pieces.word_first + added * (pieces.word_window >= 0),
        word_last=pieces.word_last + added * (pieces.word_window >= 0),
        segments=segments if segments.any() else None,
        is_hidden=laid_out(hides, False, bool) if encoding.is_hidden and hides.any() else None,
        shift=encoding.shift,
        n_unshifted=n_prefix if encoding.is_opened_at_0 else 0,
    )


def _before(text: str, reader: PieceReader) -> tuple[Integers, Integers, int]:
    """``[piece]`` what stands before the second text of a pair whose first is given, with its token types; and the type
    of the second. Without a first text, what stands before any."""
    if not text:
        return reader.prefix.astype(np.int64), np.zeros(len(reader.prefix), dtype=np.int64), 0
    both, alone = reader.backend.encode(text, text), reader.backend.encode(text)
    start = both.sequence_ids.index(1)
    end_of_first = len(both.sequence_ids) - both.sequence_ids[::-1].index(0)
    end_of_second = len(both.sequence_ids) - both.sequence_ids[::-1].index(1)
    if start == end_of_first or both.ids[end_of_second:] != reader.suffix.tolist():
        raise ModelError(
            "the tokenizer puts no separator between two texts, or closes a pair in another way than a text: read "
            f"sentences by themselves, not after {text!r}"
        )
    assert alone.ids[: len(reader.prefix)] == both.ids[: len(reader.prefix)]
    return np.array(both.ids[:start]), np.array(both.type_ids[:start]), int(both.type_ids[start])


@dataclass(frozen=True)
class WordPooling:
    """Vectors of words from those of their pieces; made once a batch, applied to every layer.

    The pieces of word ``i`` are ``first[i] … last[i] − 1`` of the flattened batch ``[batch · piece]``.
    """

    first: Tensor
    """``[word]``"""
    last: Tensor
    """``[word]``, end exclusive"""
    how: Pooling = "mean"

    def __call__(self, hidden: Tensor) -> Tensor:
        """Pool ``hidden [batch, piece, dim]`` into ``[word, dim]``, in at least float32."""
        flat = hidden.flatten(0, 1)
        if self.how == "first":
            return flat[self.first].float()
        if self.how == "last":
            return flat[self.last - 1].float()
        words = flat[self.first].float()
        for longer, pieces in self._further_pieces:
            words[longer] += flat[pieces].float()
        return words.div_((self.last - self.first).unsqueeze(1))

    @cached_property
    def _further_pieces(self) -> list[tuple[Tensor, Tensor]]:
        """The words that have a second, third … piece, and those pieces.

        Added one position at a time, not by scatter-add: the order of additions is then fixed on every device.
        """
        lengths = self.last - self.first
        steps = []
        for offset in range(1, int(lengths.max()) if len(lengths) else 0):
            longer = (lengths > offset).nonzero().squeeze(1)
            steps.append((longer, self.first[longer] + offset))
        return steps


def row_weights(member: Tensor) -> Tensor:
    """``[..., unit, piece]`` weight of each piece in the mean over those of its unit; ``member`` is 1 for these."""
    return member / member.sum(-1, keepdim=True).clamp_min(1)


def column_weights(member: Tensor) -> Tensor:
    """``[..., unit, piece]`` share of each piece that counts for a unit: a shared piece is divided equally."""
    return member / member.sum(-2, keepdim=True).clamp_min(1)
