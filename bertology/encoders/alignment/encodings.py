"""Other ways to put a sentence to a model than by itself from the first position on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.encoders.alignment.characters import Flags, Integers
from bertology.encoders.alignment.pieces import OnLong, PieceReader, Pieces, SkippedWord
from bertology.errors import ModelError


@dataclass(frozen=True)
class Encoding:
    """How a sentence is put to a model; the default is by itself, from the first position on, as the first segment."""

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


@dataclass(frozen=True, eq=False)
class EncodedPieces:
    """Windows of text in one encoding."""

    pieces: Pieces
    """The windows as they are read, what comes before the sentence included."""
    segments: Integers | None = None
    """``[piece]`` token types of all windows; None where all are 0."""
    is_hidden: Flags | None = None
    """``[piece]`` pieces of all windows that attention leaves out; None where there are none."""
    shift: int = 0
    """Added to the positions that the model counts itself."""
    n_unshifted: int = 0
    """Pieces at the beginning of a window whose positions stay."""

    def shifts(self, length: int) -> Integers:
        """``[piece]`` what is added to the position of each piece of a window."""
        return np.where(np.arange(length) < self.n_unshifted, 0, self.shift)

    def inputs(self, windows: NDArray[np.int64], length: int, *, is_padded: bool) -> dict[str, Integers | None]:
        """``[window, piece]`` inputs of a batch that is padded to ``length`` pieces, by name; None where not needed."""
        places, is_piece = self.pieces.rows(windows, length)
        seen = is_piece if self.is_hidden is None else is_piece & ~self.is_hidden[places]
        return {
            "input_ids": self.pieces.batch_ids(windows, length),
            "attention_mask": seen.astype(np.int64) if is_padded or self.is_hidden is not None else None,
            "token_type_ids": None if self.segments is None else np.where(is_piece, self.segments[places], 0),
        }


def encode(sentences: Sentences, encoding: Encoding, reader: PieceReader, *, on_long: OnLong) -> EncodedPieces:
    """The windows of :meth:`PieceReader.tokenize` in another encoding; see :meth:`Encoder.encode`."""
    pieces = reader.tokenize(sentences, on_long=on_long)
    before, types, of_text = _before(encoding.after, reader)
    n_prefix, added = len(reader.prefix), len(before) - len(reader.prefix)
    fits = pieces.window_lengths + added + encoding.shift <= reader.max_pieces
    if pieces.n_windows and not fits.any():
        raise ModelError(
            f"no sentence fits into the {reader.max_pieces} positions of the model with {added + encoding.shift} more: "
            f"give a smaller shift or shorter sentences ({encoding})"
        )
    pieces = _without(pieces, fits, sentences, added + encoding.shift, reader.max_pieces)
    ends = np.cumsum(pieces.window_lengths + added)
    starts = np.append(0, ends)
    is_before = np.zeros(starts[-1], dtype=bool)
    places_before = (starts[:-1, None] + np.arange(len(before))).ravel()
    is_before[places_before] = True
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
    return EncodedPieces(
        replace(
            pieces,
            ids=laid_out(before, pieces.ids[is_text], pieces.ids.dtype),
            window_starts=starts,
            word_first=pieces.word_first + added * (pieces.word_window >= 0),
            word_last=pieces.word_last + added * (pieces.word_window >= 0),
        ),
        segments if segments.any() else None,
        laid_out(hides, False, bool) if encoding.is_hidden and hides.any() else None,
        encoding.shift,
        n_prefix if encoding.is_opened_at_0 else 0,
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


def _without(pieces: Pieces, kept: Flags, sentences: Sentences, more: int, most: int) -> Pieces:
    """Only the windows that are kept; words of the others are skipped."""
    if kept.all():
        return pieces
    left_out = np.flatnonzero((pieces.word_window >= 0) & ~np.append(kept, True)[pieces.word_window])
    reason = f"its window of pieces, with {more} more, is longer than the {most} that the model takes"
    of_word = sentences.sentence_of_word
    skipped = {one.word: one for one in pieces.skipped}
    for word in left_out.tolist():
        skipped[word] = SkippedWord(word, sentences.id(int(of_word[word])), sentences.word(word), reason)
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)  # the last is that of words without a window
    is_piece = np.repeat(kept, pieces.window_lengths)
    return replace(
        pieces,
        ids=pieces.ids[is_piece],
        window_starts=np.append(0, np.cumsum(pieces.window_lengths[kept])),
        window_sentence=pieces.window_sentence[kept],
        word_window=number[pieces.word_window].astype(np.int32),
        skipped=tuple(skipped[word] for word in sorted(skipped)),
    )
