"""Alignment: natural text cut into subwords, in windows; words found among them; word vectors pooled from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders.batching import CLS as CLS
from bertology.encoders.batching import NOT_APART as NOT_APART
from bertology.encoders.batching import SHARED as SHARED
from bertology.encoders.batching import Encoding, Pooling
from bertology.encoders.batching import OnLong as OnLong
from bertology.errors import CorpusError, ModelError, quoted

if TYPE_CHECKING:
    from torch import Tensor

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Ids = NDArray[np.int32]

_Aligned = tuple[Ids, Integers, Integers, Integers]
"""``[piece]`` numbers of sentences without special tokens; ``[sentence]`` how many each has; ``[word]`` first piece of
each word, counted through all sentences, and the end of its pieces, equal to it where it has none."""
_NOTHING = "the tokenizer maps it to nothing"
_UNLIMITED = np.iinfo(np.int64).max
_CHUNK_CHARACTERS = 1 << 20  # the tokenizer's own results of about so many characters are in memory at a time
_TABLE_END = 0x3001
# No character from U+3001 on is white space, so one entry stands for all of them.
_IS_SPACE = np.array([chr(code).isspace() for code in range(_TABLE_END + 1)])
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class SkippedWord:
    """A word without pieces, which has no vector, and the reason."""

    word: int  # its number, counted through all sentences
    sentence_id: str
    form: str
    reason: str


@dataclass(frozen=True, eq=False)
class Places:
    """Subwords of words: ``[place]`` number of the word and of its window, and the subword in the window."""

    word: Integers
    window: Integers
    piece: Integers

    def inside(self, windows: Integers) -> tuple[Integers, Integers]:
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
    is_unknown: Flags
    """``[word]`` words with the unknown piece among theirs; they are read like any other."""
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
    def n_unknown(self) -> int:
        """Number of words with the unknown piece among theirs."""
        return int(self.is_unknown.sum())

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

    def places_of(self, words: Integers) -> Places:
        """The subwords of some words that are read, in the order of windows; one that words share is there for each."""
        words = words[np.argsort(self.word_window[words], kind="stable")]
        number, piece = numbers_in(self.word_first[words], self.word_last[words])
        return Places(words[number], self.word_window[words[number]].astype(np.int64), piece)

    def window(self, number: int) -> Ids:
        """``[piece]`` the vocabulary numbers of one window."""
        return self.ids[self.window_starts[number] : self.window_starts[number + 1]]

    def inputs(self, windows: Integers, length: int, *, is_padded: bool) -> dict[str, Integers]:
        """``[window, piece]`` inputs of a batch that is padded to ``length`` pieces, by name, where they are needed."""
        columns = np.arange(length)
        is_piece = columns < self.window_lengths[windows][:, None]
        places = np.minimum(self.window_starts[windows][:, None] + columns, len(self.ids) - 1)
        inputs = {"input_ids": np.where(is_piece, self.ids[places], self.pad_id).astype(np.int64)}
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

    backend: Any  # a ``tokenizers.Tokenizer`` that neither truncates nor pads
    prefix: Ids  # special tokens that open every window
    suffix: Ids  # special tokens that close it
    marker_ids: Ids  # pieces that are a mere word-boundary mark (a lone ``▁``) and stand for no character
    unknown_id: int | None
    pad_id: int
    max_pieces: int  # pieces a window may have, special tokens included
    reads_words: bool = False  # whether every word of a corpus is one piece, whatever the text looks like

    def tokenize(self, sentences: Texts, *, on_long: OnLong = "window", encoding: Encoding | None = None) -> Pieces:
        """Tokenise sentences and align words to pieces; see :meth:`Encoder.tokenize`."""
        sentences = as_sentences(sentences)
        ids, n_pieces, first, last = aligned = self._aligned(sentences)
        window, (sentence, start), reasons = self._cut(sentences, aligned, on_long)
        n_special, of_word = len(self.prefix) + len(self.suffix), sentences.sentence_of_word
        lengths = np.minimum(n_pieces[sentence], self.max_pieces - n_special)
        unknown = np.append(0, np.cumsum(ids == (-1 if self.unknown_id is None else self.unknown_id)))
        form = Encoding() if encoding is None else encoding
        before, types, of_text = self._before(form.after)
        more = len(before) - len(self.prefix) + form.shift
        fits = np.append(lengths + n_special + more <= self.max_pieces, True)
        if len(sentence) and not fits[:-1].any():
            raise ModelError(
                f"no sentence fits into the {self.max_pieces} positions of the model with {more} more: "
                f"give a smaller shift or shorter sentences ({form})"
            )
        reason = f"its window of pieces, with {more} more, is longer than the {self.max_pieces} that the model takes"
        reasons |= dict.fromkeys(np.flatnonzero(~fits[window]).tolist(), reason)
        # The windows that are kept, in the order of sentences; words of the others have none.
        order = np.lexsort((start, sentence))
        order = order[fits[order]]
        number = np.full(len(fits), -1)
        number[order] = np.arange(len(order))
        word_window = number[window].astype(np.int32)
        shift = len(before) - np.append(start, 0)[window]
        spans = np.where(word_window >= 0, np.stack([first, last]) + shift, 0).astype(np.int32)
        texts = [ids[begin : begin + n] for begin, n in zip(start[order].tolist(), lengths[order], strict=True)]
        starts = np.append(0, np.cumsum(lengths[order] + len(before) + len(self.suffix)))

        def column(of_before: Any, of_rest: Any) -> NDArray[Any] | None:
            """Values of pieces of all windows; None where all are 0."""
            values = np.full(starts[-1], of_rest, dtype=of_before.dtype)
            values[starts[:-1, None] + np.arange(len(before))] = of_before
            return values if values.any() else None

        return Pieces(
            ids=np.concatenate([before[:0], *chain.from_iterable((before, text, self.suffix) for text in texts)]),
            window_starts=starts,
            window_sentence=sentence[order].astype(np.int32),
            word_window=word_window,
            word_first=spans[0],
            word_last=spans[1],
            skipped=tuple(
                SkippedWord(word, sentences.id(int(of_word[word])), sentences.word(word), reasons[word])
                for word in sorted(reasons)
            ),
            pad_id=self.pad_id,
            is_unknown=(unknown[last] > unknown[first]) & (window >= 0),
            n_long=int((n_pieces > self.max_pieces - n_special)[of_word].sum()),
            segments=column(1 - types, 1 - of_text) if form.other_segment else column(types, of_text),
            is_hidden=column(np.arange(len(before)) >= len(self.prefix), False) if form.is_hidden else None,
            shift=form.shift,
            n_unshifted=len(self.prefix) if form.is_opened_at_0 else 0,
        )

    def _cut(
        self, sentences: Sentences, aligned: _Aligned, on_long: OnLong
    ) -> tuple[Integers, NDArray[np.int64], dict[int, str]]:
        """``[word]`` the window of each word, −1 for none; ``[2, window]`` sentence and first piece of each window, in
        no order; and why words have none."""
        capacity, (_, n_pieces, first, last) = self.max_pieces - len(self.prefix) - len(self.suffix), aligned
        reasons = dict.fromkeys(np.flatnonzero(last <= first).tolist(), _NOTHING)
        # Sentences that fit have one window each, from their first piece on; long ones are cut one by one.
        piece_starts = np.cumsum(n_pieces) - n_pieces
        fits, of_word = (n_pieces > 0) & (n_pieces <= capacity), sentences.sentence_of_word
        window = np.where((last > first) & fits[of_word], (np.cumsum(fits) - 1)[of_word], -1)
        windows, n_windows = [np.stack([np.flatnonzero(fits), piece_starts[fits]])], int(fits.sum())
        for number in np.flatnonzero(n_pieces > capacity).tolist():
            words, length = slice(*sentences.starts[number : number + 2].tolist()), int(n_pieces[number])
            if on_long == "error":
                raise ModelError(
                    f"sentence {quoted(sentences.id(number))} has {length} pieces, the model takes {capacity}: read it "
                    "in windows (--on-long window) or leave it out (--on-long skip)"
                )
            if on_long == "skip":
                reason = f"its sentence has {length} pieces, the model takes {capacity}"
                reasons |= dict.fromkeys(range(words.start, words.stop), reason)
                continue
            low, high = first[words] - piece_starts[number], last[words] - piece_starts[number]
            starts, chosen = windows_of(length, low, high, capacity=capacity)
            for place in np.flatnonzero((high > low) & (chosen < 0)).tolist():
                more = int(high[place] - low[place])
                reasons[words.start + place] = f"its {more} pieces are more than a window of {capacity} holds"
            window[words] = np.where((high > low) & (chosen >= 0), chosen + n_windows, -1)
            windows.append(np.stack([np.full(len(starts), number), starts + piece_starts[number]]))
            n_windows += len(starts)
        return window, np.concatenate(windows, axis=1), reasons

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
            pieces,
            ids=np.concatenate([pieces.ids[:0], *map(pieces.window, first)]),
            window_starts=np.append(0, np.cumsum(pieces.window_lengths[first])),
            window_sentence=found,
            word_window=window,
            word_first=np.zeros_like(window),
            word_last=np.ones_like(window),
            skipped=tuple(skipped),
        )

    def _aligned(self, sentences: Sentences) -> _Aligned:
        parts: list[_Aligned] = []
        low = size = n_pieces = 0
        for number in range(len(sentences)):
            size += len(sentences.text(number))
            if size >= _CHUNK_CHARACTERS or number + 1 == len(sentences):
                ids, lengths, first, last = self._align_chunk(sentences, low, number + 1)
                parts.append((ids, lengths, first + n_pieces, last + n_pieces))
                low, size, n_pieces = number + 1, 0, n_pieces + len(ids)
        nothing = np.zeros(0, dtype=np.int64)
        ids, lengths, first, last = map(
            np.concatenate, zip((nothing.astype(np.int32), nothing, nothing, nothing), *parts, strict=True)
        )
        return ids, lengths, first, last

    def _align_chunk(self, sentences: Sentences, low: int, high: int) -> _Aligned:
        texts = [sentences.text(number) for number in range(low, high)]
        broken = next((n for n, text in enumerate(texts, low) if not text.isascii() and _SURROGATE.search(text)), None)
        if broken is not None:
            which = f"sentence {quoted(sentences.id(broken))}"
            raise CorpusError(f"{which}: its text has half of a surrogate pair: read the source as UTF-8")
        # A call of the model's tokenizer with padding or truncation leaves these set.
        self.backend.no_padding()
        self.backend.no_truncation()
        if self.reads_words:
            forms, starts = sentences.forms, sentences.starts[low : high + 1]
            known = np.array([one.ids[0] for one in self.backend.encode_batch(list(forms.values))], dtype=np.int32)
            ids = known[forms.codes[int(starts[0]) : int(starts[-1])]]
            return ids, np.diff(starts).astype(np.int64), np.arange(len(ids)), np.arange(1, len(ids) + 1)
        encodings = self.backend.encode_batch(texts, add_special_tokens=False)
        n_pieces = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32, n_pieces.sum())
        flat = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
        offsets = np.fromiter(flat, np.int64, 2 * n_pieces.sum()).reshape(-1, 2)
        # Where each text begins when all are joined by one character.
        bases = np.append(0, np.cumsum([len(text) + 1 for text in texts])).astype(np.int64)
        starts, ends = (offsets + np.repeat(bases[:-1], n_pieces)[:, None]).T
        # White space at the ends of pieces does not count; pieces of white space alone become empty.
        joined = np.frombuffer("\n".join(texts).encode("utf-32-le"), dtype=np.uint32)
        following, preceding = _neighbours(~_IS_SPACE[np.minimum(joined, _TABLE_END)])
        starts = np.minimum(following[starts], ends)
        ends = np.maximum(preceding[ends], starts)
        words = sentences.starts[low : high + 1]
        counts = np.diff(words)
        spans = sentences.char_spans[words[0] : words[-1]].astype(np.int64) + np.repeat(bases[:-1], counts)[:, None]
        # A span that overruns its text must not reach the next one.
        spans = np.minimum(spans, np.repeat(bases[1:] - 1, counts)[:, None])
        # The offsets of a mark may be those of the character after the white space that it stands for.
        return ids, n_pieces, *_words_to_pieces(spans, (starts, ends), ~np.isin(ids, self.marker_ids), n_pieces)

    def _before(self, text: str) -> tuple[Ids, Integers, int]:
        """``[piece]`` what stands before the second text of a pair whose first is given, with its token types; and the
        type of the second. Without a first text, what stands before any."""
        if not text:
            return self.prefix, np.zeros(len(self.prefix), dtype=np.int64), 0
        both = self.backend.encode(text, text)
        start = both.sequence_ids.index(1)
        end_of_first, end_of_second = (len(both.ids) - both.sequence_ids[::-1].index(one) for one in (0, 1))
        if start == end_of_first or both.ids[end_of_second:] != self.suffix.tolist():
            raise ModelError(
                "the tokenizer puts no separator between two texts, or closes a pair in another way than a text: read "
                f"sentences by themselves, not after {text!r}"
            )
        return np.array(both.ids[:start], np.int32), np.array(both.type_ids[:start], np.int64), both.type_ids[start]


def numbers_in(first: NDArray[Any], last: NDArray[Any]) -> tuple[Integers, Integers]:
    """``[range · number]`` of ranges ``first … last − 1``, one after the other: which range, and which number."""
    lengths = (last - first).astype(np.int64)
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths - first, lengths)


def _neighbours(is_marked: Flags) -> tuple[Integers, Integers]:
    """``[place + 1]`` the next marked place from each place on, and the end of the last marked one before it."""
    places, n = np.arange(len(is_marked)), len(is_marked)
    following = np.append(np.minimum.accumulate(np.where(is_marked, places, n)[::-1])[::-1], n)
    return following, np.append(0, np.maximum.accumulate(np.where(is_marked, places + 1, 0)))


def _words_to_pieces(
    words: Integers, pieces: tuple[Integers, Integers], owns: Flags, n_pieces: Integers
) -> tuple[Integers, Integers]:
    """``[word]`` first and end (exclusive) of the smallest range of pieces that has all that share characters with it.

    A piece that straddles two words is in the range of both. Pieces in no range, such as a lone ``▁`` or white space,
    belong to the word that follows in their sentence, at the end of the sentence to the word before. First and end are
    equal where a word has no pieces. Words are given by start and end ``[word, 2]``, both in rising order, pieces by
    starts and ends ``[piece]`` in any order, as a normaliser may reorder; ``owns [piece]`` is false for marks of word
    boundaries.
    """
    low = np.searchsorted(words[:, 1], pieces[0], side="right")
    high = np.searchsorted(words[:, 0], pieces[1], side="left")
    piece, word = numbers_in(low, np.where(owns & (pieces[1] > pieces[0]), np.maximum(low, high), low))
    piece, word = (one[words[word, 1] > words[word, 0]] for one in (piece, word))
    first, last = np.zeros((2, len(words)), dtype=np.int64)
    first[word[::-1]], last[word] = piece[::-1], piece + 1  # of several pieces the lowest, and the highest
    steps = np.zeros(n_pieces.sum() + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, last, -1)
    after, before = _neighbours(np.cumsum(steps[:-1]) > 0)
    ends = np.cumsum(n_pieces)
    begin_of, end_of = np.repeat(ends - n_pieces, n_pieces), np.repeat(ends, n_pieces)
    has = np.flatnonzero(last > first)
    first[has] = np.maximum(before[first[has]], begin_of[first[has]])
    end = end_of[last[has] - 1]
    last[has] = np.where(after[last[has]] >= end, end, last[has])
    return first, last


def windows_of(n_pieces: int, first: Integers, last: Integers, *, capacity: int) -> tuple[Integers, Integers]:
    """Cut one sentence of ``n_pieces`` into windows that overlap by half, and choose a window for each word.

    A word is read from the window in which the shorter of its two contexts is longest; at the beginning and the end of
    the sentence, context counts as unlimited. A word that no regular window holds whole gets a further window, centred
    on it. Returns ``[window]`` where each window begins (all hold ``min(capacity, n_pieces)`` pieces), and ``[word]``
    the window of each word, −1 for a word longer than a whole window.
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
    best, words = np.argmax(contexts, axis=0), np.arange(len(first))
    chosen = np.where(contexts[best, words] >= 0, candidates[best, words], -1)
    homeless = np.flatnonzero((chosen < 0) & (last - first <= capacity))
    centred = np.clip((first[homeless] + last[homeless] - capacity) // 2, 0, n_pieces - capacity)
    chosen[homeless] = len(starts) + np.arange(len(homeless))
    return np.concatenate([starts, centred]), chosen


@dataclass(frozen=True)
class WordPooling:
    """Vectors of words from those of their pieces; made once a batch, applied to every layer.

    Pieces of word ``i`` are ``first[i] … last[i] − 1``, both ``[word]``, of the flattened batch ``[batch · piece]``.
    """

    first: Tensor
    last: Tensor
    how: Pooling = "mean"

    def __call__(self, hidden: Tensor) -> Tensor:
        """Pool ``hidden [batch, piece, dim]`` into ``[word, dim]``, in at least float32."""
        flat = hidden.flatten(0, 1)
        if self.how == "last":
            return flat[self.last - 1].float()
        words = flat[self.first].float()
        if self.how == "first":
            return words
        for longer, pieces in self._further_pieces:
            words[longer] += flat[pieces].float()
        return words.div_((self.last - self.first).unsqueeze(1))

    def on(self, device: str) -> WordPooling:
        """The same on a device, which does not have to be waited for: what is found from lengths is found before."""
        if device == "cpu":
            return self
        how: Any = {"device": device, "non_blocking": device.startswith("cuda")}
        moved = WordPooling(self.first.to(**how), self.last.to(**how), self.how)
        further = self._further_pieces if self.how == "mean" else []
        vars(moved)["_further_pieces"] = [tuple(one.to(**how) for one in pair) for pair in further]
        return moved

    @cached_property
    def _further_pieces(self) -> list[tuple[Tensor, Tensor]]:
        """The words that have a second, third … piece, and those pieces.

        Added one position at a time, not by scatter-add: the order of additions is then fixed on every device.
        """
        lengths = self.last - self.first
        most = int(lengths.max()) if len(lengths) else 0
        longer = [(lengths > offset).nonzero().squeeze(1) for offset in range(1, most)]
        return [(words, self.first[words] + offset) for offset, words in enumerate(longer, 1)]


def row_weights(member: Tensor) -> Tensor:
    """``[..., unit, piece]`` weight of each piece in the mean over those of its unit; ``member`` is 1 for these."""
    return member / member.sum(-1, keepdim=True).clamp_min(1)


def column_weights(member: Tensor) -> Tensor:
    """``[..., unit, piece]`` share of each piece that counts for a unit: one of several units is divided equally."""
    return member / member.sum(-2, keepdim=True).clamp_min(1)
