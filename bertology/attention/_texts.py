"""Sentences, alone or in pairs, as windows of pieces, and the words and special tokens that are units of their maps."""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._ratios import Integers, Level
from bertology.attention._units import Inputs, Units, bands_of
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong, Pieces
from bertology.encoders.batching import Batch, pieces_in_batch, plan_batches
from bertology.errors import CorpusError, ModelError

_MAP_VALUES = 1 << 23
"""Weights of the maps of one layer in a batch; a single window may have more."""
_WORD, _CLS, _SEP, _OTHER = range(4)
_UNBOUNDED = 1 << 30


@dataclass(frozen=True, eq=False)
class _Window:
    """One input of the model, a window or a pair of them, and the words that it shows whole."""

    ids: Integers
    """``[piece]`` vocabulary numbers."""
    types: Integers
    """``[piece]`` token types."""
    gaps: NDArray[np.bool_]
    """``[piece]`` white space between pieces of one word."""
    words: Integers
    """``[word]`` numbers through all sentences; −1 for the separator of a pair."""
    first: Integers
    """``[word]`` first piece."""
    last: Integers
    """``[word]`` end of its pieces, exclusive."""
    is_read: NDArray[np.bool_]
    """``[word]`` whether the window is the one that the word is read from."""


class MapText:
    """A text cut into windows, ready to be read for its maps.

    With ``pairs``, the first sentence is read with the second, the third with the fourth, and so on, unless they are
    too long for that. A pair goes by the window of its first sentence.

    Raises:
        CorpusError: there is nothing to read.
        ModelError: a sentence is too long and ``on_long`` is ``"error"``; or the model takes no pairs.
    """

    def __init__(
        self, encoder: Encoder, sentences: Sentences, *, level: Level, on_long: OnLong, pairs: bool = False
    ) -> None:
        self._encoder, self._sentences, self._level = encoder, sentences, level
        self._n_prefix, self._n_suffix = encoder.n_prefix, encoder.n_suffix
        self.pieces = encoder.tokenize(sentences, on_long=on_long)
        by_window = self.pieces.word_window
        self._words = np.argsort(by_window, kind="stable")
        self._starts = np.searchsorted(by_window[self._words], np.arange(self.pieces.n_windows + 1))
        self.windows = np.flatnonzero(np.diff(self._starts))
        """Windows that some word is read from; of pairs the first one."""
        if not len(self.windows):
            raise CorpusError("no word to read: every sentence is empty or was skipped")
        self.n_sentences = len(np.unique(self.pieces.window_sentence[self.windows]))
        """Number of sentences of which some word is read."""
        self.lengths = self.pieces.window_lengths.copy()
        """``[window]`` number of pieces; of the first windows of pairs that of the pair."""
        self._middle, self._segments = np.zeros(0, dtype=np.int64), (0, 0, 0)
        self._second: dict[int, int] = {}
        self.n_apart = 0
        """Number of pairs that were too long, so that each sentence is read alone."""
        if pairs:
            self._pair_up()
        self._forms, self._is_punctuation = _form_codes(sentences)
        self._whole = self._read_whole()

    @property
    def n_pairs(self) -> int:
        """Number of windows that hold two sentences."""
        return len(self._second)

    def _pair_up(self) -> None:
        self._middle, self._segments = pair_form(self._encoder)
        more = len(self._middle) - self._n_prefix - self._n_suffix
        self._second, self.n_apart = neighbours(
            self.pieces, self.windows, len(self._sentences), most=self._encoder.max_pieces - more
        )
        firsts, seconds = (np.array([*part], dtype=np.int64) for part in (self._second, self._second.values()))
        self.lengths[firsts] += self.lengths[seconds] + more
        self.windows = np.setdiff1d(self.windows, seconds)

    def batches(self) -> list[Batch]:
        """Windows of like length together, fewer of them where maps are large."""
        planned = plan_batches(self.lengths[self.windows], pieces=pieces_in_batch(self._encoder.device))
        return [part for batch in planned for part in self._small_enough(batch)]

    def _small_enough(self, batch: Batch) -> Iterator[Batch]:
        most = max(1, _MAP_VALUES // (self._encoder.n_heads * batch.length**2))
        for start in range(0, len(batch.windows), most):
            chosen = batch.windows[start : start + most]
            yield Batch(self.windows[chosen], batch.length, batch.is_padded)

    def inputs(self, batch: Batch) -> Inputs:
        """What goes into the model, and how its pieces become units."""
        shape = (len(batch.windows), batch.length)
        ids, mask = np.full(shape, self.pieces.pad_id, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        windows = [self._window(number) for number in batch.windows.tolist()]
        for row, one in enumerate(windows):
            inside = slice(0, len(one.ids))
            ids[row, inside], mask[row, inside], types[row, inside] = one.ids, 1, one.types
        lengths = mask.sum(1)
        if self._level == "piece":
            member, units = None, self._piece_units(batch, lengths, windows)
        else:
            units, member = self._word_units(batch, lengths, windows)
        padding = torch.from_numpy(mask) if batch.is_padded else None
        bands = bands_of(member.cpu().numpy()) if member is not None else ()
        segments = torch.from_numpy(types) if types.any() else None
        return Inputs(torch.from_numpy(ids), padding, segments, member, units, bands)

    def _window(self, number: int) -> _Window:
        """The input that begins with a window: the window alone, or a pair."""
        one = self._alone(number)
        if number not in self._second:
            return one
        other, middle = self._alone(self._second[number]), np.arange(len(self._middle))
        start = len(one.ids) - self._n_suffix
        shift = start + len(middle) - self._n_prefix
        parts = one.ids[:start], self._middle, other.ids[self._n_prefix :]
        return _Window(
            ids=np.concatenate(parts),
            types=np.repeat(self._segments, [len(part) for part in parts]),
            gaps=np.concatenate([one.gaps[:start], np.zeros(len(middle), dtype=bool), other.gaps[self._n_prefix :]]),
            words=np.concatenate([one.words, np.full(len(middle), -1), other.words]),
            first=np.concatenate([one.first, start + middle, other.first + shift]),
            last=np.concatenate([one.last, start + middle + 1, other.last + shift]),
            is_read=np.concatenate([one.is_read, np.ones(len(middle), dtype=bool), other.is_read]),
        )

    def _alone(self, number: int) -> _Window:
        pieces, words = self.pieces, self._words[self._starts[number] : self._starts[number + 1]]
        ids, sentence = pieces.window(number).astype(np.int64), int(pieces.window_sentence[number])
        first, last = pieces.word_first[words].astype(np.int64), pieces.word_last[words].astype(np.int64)
        is_read = np.ones(len(words), dtype=bool)
        if sentence in self._whole:
            begins = int(self._sentences.starts[sentence])
            shift = self._whole[sentence][0][words[0] - begins] - first[0]
            first, last = (ends - shift for ends in self._whole[sentence])
            shown = np.flatnonzero((first >= self._n_prefix) & (last <= len(ids) - self._n_suffix) & (last > first))
            words, first, last = shown + begins, first[shown], last[shown]
            is_read = pieces.word_window[words] == number
        return _Window(ids, np.zeros(len(ids), dtype=np.int64), pieces.window_gaps(number), words, first, last, is_read)

    def _read_whole(self) -> dict[int, tuple[Integers, Integers]]:
        """First and last pieces of the words of each sentence in several windows, as if one window held them all.

        A word's place is kept only for the window it is read from; as a column it is wanted in its neighbours too.
        """
        long = np.flatnonzero(np.bincount(self.pieces.window_sentence, minlength=len(self._sentences)) > 1)
        spans = {}
        for number in long.tolist():
            placed = self._encoder.tokenize([self._sentences[number]], max_pieces=_UNBOUNDED)
            spans[number] = placed.word_first.astype(np.int64), placed.word_last.astype(np.int64)
        return spans

    def _word_units(self, batch: Batch, lengths: Integers, windows: list[_Window]) -> tuple[Units, Tensor]:
        n_units = np.array([len(one.words) for one in windows]) + self._n_prefix + self._n_suffix
        table = _Table(len(windows), int(n_units.max()))
        first, last = np.zeros_like(table.word), np.zeros_like(table.word)
        for row, one in enumerate(windows):
            inside = slice(self._n_prefix, self._n_prefix + len(one.words))
            closing = slice(inside.stop, inside.stop + self._n_suffix)
            first[row, : self._n_prefix] = np.arange(self._n_prefix)
            first[row, closing] = np.arange(lengths[row] - self._n_suffix, lengths[row])
            last[row] = first[row] + 1
            first[row, inside], last[row, inside] = one.first, one.last
            last[row, closing.stop :] = 0
            table.word[row, inside], table.counts[row, inside] = one.words, one.is_read
            self._mark_specials(table, row, int(closing.stop), self._n_prefix + np.flatnonzero(one.words < 0))
        # Of a pair, places go on through the second sentence.
        begins = self._sentences.starts[self.pieces.window_sentence[batch.windows]][:, None]
        table.position[:] = np.where(table.word < 0, 0, table.word - begins)
        places = np.arange(batch.length)
        member = (places >= first[:, :, None]) & (places < last[:, :, None])
        for row, one in enumerate(windows):
            member[row, :, : len(one.gaps)] &= ~one.gaps
        units = self._units(batch, n_units, table)
        return units, torch.from_numpy(member).to(self._encoder.device, torch.float32)

    def _piece_units(self, batch: Batch, lengths: Integers, windows: list[_Window]) -> Units:
        table = _Table(len(windows), batch.length)
        table.position[:] = np.arange(batch.length)
        for row, one in enumerate(windows):
            # Where two words share a piece, it belongs to the first of them.
            for number in reversed(range(len(one.words))):
                inside = np.arange(one.first[number], one.last[number])
                inside = inside[~one.gaps[inside]]
                table.word[row, inside], table.counts[row, inside] = one.words[number], one.is_read[number]
            self._mark_specials(table, row, int(lengths[row]), one.first[one.words < 0])
        return self._units(batch, lengths, table)

    def _mark_specials(self, table: _Table, row: int, length: int, separators: Integers) -> None:
        inside = slice(self._n_prefix, length - self._n_suffix)
        table.kind[row, :length] = _SEP
        table.kind[row, inside] = np.where(table.word[row, inside] >= 0, _WORD, _OTHER)
        table.kind[row, : self._n_prefix] = _CLS
        table.kind[row, separators] = _SEP
        table.counts[row, : self._n_prefix] = table.counts[row, inside.stop : length] = True

    def _units(self, batch: Batch, lengths: Integers, table: _Table) -> Units:
        is_word = table.kind == _WORD
        known = np.maximum(table.word, 0)
        form = np.where(is_word, self._forms[known], -1)
        return Units(
            sentences=self.pieces.window_sentence[batch.windows].astype(np.int64),
            windows=np.asarray(batch.windows),
            lengths=lengths,
            word=self._tensor(table.word),
            position=self._tensor(table.position),
            form=self._tensor(form),
            is_word=self._tensor(is_word),
            is_cls=self._tensor(table.kind == _CLS),
            is_sep=self._tensor(table.kind == _SEP),
            is_punctuation=self._tensor(is_word & self._is_punctuation[np.maximum(form, 0)]),
            counts=self._tensor(table.counts),
        )

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._encoder.device)


class _Table:
    """The units of a batch, ``[sentence, unit]``, filled in row by row."""

    def __init__(self, n_rows: int, n_units: int) -> None:
        shape = (n_rows, n_units)
        self.word = np.full(shape, -1, dtype=np.int64)
        self.kind = np.full(shape, _OTHER, dtype=np.int64)
        self.position = np.zeros(shape, dtype=np.int64)
        self.counts = np.zeros(shape, dtype=bool)


def _form_codes(sentences: Sentences) -> tuple[Integers, NDArray[np.bool_]]:
    """``[word]`` the code of its form, and ``[code]`` whether that is punctuation."""
    folded: dict[str, int] = {}
    codes = np.array([folded.setdefault(form.casefold(), len(folded)) for form in sentences.forms.values])
    marks = [bool(form) and all(unicodedata.category(c).startswith("P") for c in form) for form in folded]
    return codes.astype(np.int64)[sentences.forms.codes], np.array(marks)


def pair_form(encoder: Encoder) -> tuple[Integers, tuple[int, int, int]]:
    """How a model takes two sentences.

    Returns:
        ``[piece]`` vocabulary numbers of what stands between them, such as ``[SEP]`` or ``</s></s>``; and the token
        types of the first sentence with what opens it, of what stands between, and of the second with what closes it,
        0 where the model has none.

    Raises:
        ModelError: the tokenizer puts nothing between two sentences.
    """
    encoding: Any = encoder.tokenizer("a", "a").encodings[0]
    of_sentence = encoding.sequence_ids
    end, start = len(of_sentence) - of_sentence[::-1].index(0), of_sentence.index(1)
    if end == start:
        raise ModelError(
            f"model {encoder.name} puts no separator between two sentences, so takes no pairs: read sentences one "
            "by one (setting texts: sentences)"
        )
    types = (encoding.type_ids[0], encoding.type_ids[end], encoding.type_ids[-1])
    middle = np.array(encoding.ids[end:start], dtype=np.int64)
    return middle, types if takes_types(encoder, max(types)) else (0, 0, 0)


def takes_types(encoder: Encoder, highest: int) -> bool:
    """Whether a model takes token types up to the highest of a text."""
    body: Any = encoder.model.body
    n_types = getattr(body.config, "type_vocab_size", 0) or 0
    return highest < n_types and "token_type_ids" in inspect.signature(body.forward).parameters


def neighbours(pieces: Pieces, read: Integers, n_sentences: int, *, most: int) -> tuple[dict[int, int], int]:
    """Pairs of the first sentence and the second, the third and the fourth, and so on, so that none is read twice.

    Where one is not read, the other is read alone; where the two are too long, both are.

    Args:
        pieces: the sentences, each in windows of its own.
        read: windows of which something is read.
        n_sentences: how many there are.
        most: pieces that two windows may have together.

    Returns:
        The window of the second sentence by that of the first; and the number of pairs that were too long.
    """
    of_window = pieces.window_sentence[read]
    window, n_windows = np.full(n_sentences, -1), np.bincount(of_window, minlength=n_sentences)
    window[of_window] = read
    couples = np.arange(n_sentences // 2 * 2).reshape(-1, 2)  # [pair, 2]
    couples = couples[(n_windows[couples] > 0).all(1)]
    together = pieces.window_lengths[window[couples]].sum(1) <= most
    fits = (n_windows[couples] == 1).all(1) & together
    return dict(window[couples[fits]].tolist()), int((~fits).sum())
