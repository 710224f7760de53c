"""Texts as inputs of the model, in windows and pairs, and the rows and columns of their maps: words or pieces."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import OnLong, column_weights, row_weights
from bertology.encoders.batching import Batch, padded, padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import CorpusError, ModelError
from bertology.measures.sums import Level

Integers = NDArray[np.int64]

_MAP_VALUES = 1 << 23
"""Weights of the maps of one layer in a batch; a single window may have more."""
_WORD, _CLS, _SEP, _OTHER = range(4)
_SEPARATOR, _CUT = -1, -2
"""Numbers of units that are no word: the separator of a pair, and a word that a window shows in part, whose pieces
are one unit of no word."""
_UNBOUNDED = 1 << 30
_UNITS_IN_BAND = 64

Booleans = NDArray[np.bool_]
Bands = tuple[tuple[slice, slice], ...]


@dataclass(frozen=True, eq=False)
class Units:
    """The rows and columns of a batch's maps: words, or pieces, and special tokens where they stand in the text.

    All tensors are ``[sentence, unit]``. A sentence that is read in windows has several rows, one a window.
    """

    sentences: Integers  # [sentence] number of each in the text that is read
    windows: Integers  # [sentence] number of the window that shows it
    lengths: Integers  # [sentence] number of units, without padding
    word: Tensor  # number of the word through all sentences; −1 for special tokens, padding and pieces of no word
    position: Tensor
    """Place in the sentence, in words; at piece level in the window, in pieces. Differences are offsets."""
    form: Tensor  # code of the word's form, the same for forms that differ in case alone; −1 where there is no word
    is_word: Tensor  # words, or pieces of words
    is_cls: Tensor  # the special tokens that open a text: [CLS], <s>
    is_sep: Tensor  # the special tokens that close a text: [SEP], </s>
    is_punctuation: Tensor  # words of nothing but punctuation (all characters of Unicode category P)
    counts: Tensor
    """Units whose rows are counted: all but padding, words that are left out, and, in windows, words that are read from
    another window."""
    left_out: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Words that are not asked about, as they share all their subwords with another word; the first of such words is a
    unit nonetheless, so that what is attended to is in the map once."""

    @cached_property
    def word_rows(self) -> Tensor:
        """Words, or pieces of words, whose rows are counted."""
        return self.is_word & self.counts

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, eq=False)
class Inputs:
    """A batch of windows as the model takes it, and how pieces become units."""

    ids: Tensor  # [sentence, piece]
    mask: Tensor | None  # [sentence, piece] None where nothing is padded
    types: Tensor | None  # [sentence, piece] token types; None where all are 0
    member: Tensor | None  # [sentence, unit, piece] 1 where a piece belongs to a unit; None at piece level
    units: Units
    bands: Bands
    """Runs of units, and the pieces that belong to any of them: in long texts ``member`` is nothing but a band of ones,
    and a product with all of it would take longer than the model does."""

    def merged(self, maps: Tensor) -> Tensor:
        """Maps between pieces ``[sentence, head, piece, piece]`` as maps between units."""
        maps = maps.float()
        if self.member is None:
            return maps
        n_heads, n_pieces = maps.shape[1:3]
        flat, turned = maps.flatten(1, 2), self.columns.transpose(1, 2)
        columns = [torch.bmm(flat[..., pieces], turned[:, pieces, units]) for units, pieces in self.bands]
        to_units = _joined(columns, dim=-1).view(len(maps), n_heads, n_pieces, -1)
        shares = self._shares[:, None]
        return _joined([shares[:, :, units, pieces] @ to_units[:, :, pieces] for units, pieces in self.bands], dim=2)

    @cached_property
    def row_shares(self) -> Tensor:
        """``[sentence, piece]`` how much the row of a piece counts in a sum over the words whose rows count."""
        rows = self.units.word_rows.float()
        return rows if self.member is None else torch.einsum("su,sup->sp", rows, self._shares)

    @cached_property
    def own_cells(self) -> tuple[Tensor, Tensor, Tensor]:
        """``[sentence, cell]`` row and column of the cells that lie within a word whose row counts, and how much each
        adds to what that word keeps; 0 where a sentence has fewer such cells than another."""
        rows = self.units.word_rows.float()
        if self.member is None:
            within = torch.diag_embed(rows)
        else:
            within = (rows[:, :, None] * self._shares).transpose(1, 2) @ self.columns  # [sentence, piece, piece]
        n_cells = int((within > 0).flatten(1).sum(1).max())
        weights, cells = within.flatten(1).topk(n_cells, dim=1)
        return cells // within.shape[-1], cells % within.shape[-1], weights

    @cached_property
    def _shares(self) -> Tensor:
        """``[sentence, unit, piece]`` weight of each piece in the row of its unit."""
        return row_weights(self._member)

    @cached_property
    def columns(self) -> Tensor:
        """``[sentence, unit, piece]`` share of each piece in the column of a unit."""
        return column_weights(self._member)

    @property
    def _member(self) -> Tensor:
        if self.member is None:
            raise ValueError("pieces are units of their own")
        return self.member


def _joined(parts: list[Tensor], *, dim: int) -> Tensor:
    """Bands as one; a single one, as short texts have, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _bands(member: Booleans) -> Bands:
    """``[sentence, unit, piece]`` cut into runs of units and the range of pieces that each needs."""
    needed = np.asarray(member.any(axis=0))  # [unit, piece]
    bands = []
    for start in range(0, len(needed), _UNITS_IN_BAND):
        pieces = np.flatnonzero(needed[start : start + _UNITS_IN_BAND].any(0))
        bands.append((slice(start, start + _UNITS_IN_BAND), slice(int(pieces[0]), int(pieces[-1]) + 1)))
    return tuple(bands)


@dataclass(frozen=True, eq=False)
class _Window:
    """One input of the model, a window or a pair of them, and the words that it shows."""

    ids: Integers  # [piece] vocabulary numbers
    types: Integers  # [piece] token types
    words: Integers  # [word] numbers through all sentences; or _SEPARATOR, _CUT
    first: Integers  # [word] first piece
    last: Integers  # [word] end of its pieces, exclusive
    is_read: Booleans  # [word] whether the window is the one that the word is read from


class MapText:
    """A text cut into windows, ready to be read for its maps; the arguments are those of :func:`stream_maps`.

    A pair goes by the window of its first sentence.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        level: Level,
        on_long: OnLong,
        pairs: bool = False,
        exclude_shared: bool = False,
    ) -> None:
        self._encoder, self._sentences, self._level = encoder, sentences, level
        self._n_prefix, self._n_suffix = encoder.n_prefix, encoder.n_suffix
        self.pieces = encoder.tokenize(sentences, on_long=on_long)
        nothing = np.zeros(0, dtype=np.int64)
        self._joined, self.left_out = (self.pieces.joined, self.pieces.shared) if exclude_shared else (nothing, nothing)
        window = self.pieces.word_window.copy()
        window[self._joined] = -1
        self._words = np.argsort(window, kind="stable")
        self._starts = np.searchsorted(window[self._words], np.arange(self.pieces.n_windows + 1))
        self.windows = np.flatnonzero(np.diff(self._starts))
        """Windows that some word is read from; of pairs the first one."""
        if not len(self.windows):
            raise CorpusError("no word to read: every sentence is empty or was skipped")
        self.n_sentences = len(np.unique(self.pieces.window_sentence[self.windows]))
        """Number of sentences of which some word is read."""
        self.lengths = self.pieces.window_lengths.copy()
        """``[window]`` number of pieces; of the first windows of pairs that of the pair."""
        self._middle, self._segments = np.zeros(0, dtype=np.int64), (0, 0, 0)
        self._second: dict[int, int] = {}  # by the window of a first sentence that of the second
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
        """Pair neighbours, so that no sentence is read twice. Where one of two has no window that is read, the other is
        read alone; where they are too long, both are."""
        self._middle, self._segments = _pair_form(self._encoder)
        more = len(self._middle) - self._n_prefix - self._n_suffix
        n_sentences, of_window = len(self._sentences), self.pieces.window_sentence[self.windows]
        window, n_windows = np.full(n_sentences, -1), np.bincount(of_window, minlength=n_sentences)
        window[of_window] = self.windows
        couples = np.arange(n_sentences // 2 * 2).reshape(-1, 2)  # [pair, 2]
        couples = couples[(n_windows[couples] > 0).all(1)]
        together = self.lengths[window[couples]].sum(1) + more <= self._encoder.max_pieces
        fits = (n_windows[couples] == 1).all(1) & together
        firsts, seconds = window[couples[fits]].T
        self._second, self.n_apart = dict(zip(firsts.tolist(), seconds.tolist(), strict=True)), int((~fits).sum())
        self.lengths[firsts] += self.lengths[seconds] + more
        self.windows = np.setdiff1d(self.windows, seconds)

    def batches(self) -> Iterator[Batch]:
        """Windows of like length together, fewer of them where maps are large."""
        for batch in plan_batches(self.lengths[self.windows], pieces=pieces_in_batch(self._encoder.device)):
            most = max(1, _MAP_VALUES // (self._encoder.n_heads * batch.length**2))
            for start in range(0, len(batch.windows), most):
                chosen = batch.windows[start : start + most]
                yield Batch(self.windows[chosen], batch.length, batch.is_padded)

    def inputs(self, batch: Batch) -> Inputs:
        """The inputs of the model, and how their pieces become units."""
        windows = [self._window(number) for number in batch.windows.tolist()]
        ids, mask = padded_inputs([one.ids for one in windows], batch, self.pieces.pad_id)
        types = padded([one.types for one in windows], batch.length, 0)
        by_word = self._level == "word"
        rows = map(self._words_of if by_word else self._pieces_of, windows)
        words, counts, kinds, first, last = zip(*rows, strict=True)
        n_units = np.array([len(row) for row in words])
        width = int(n_units.max()) if by_word else batch.length
        word, kind = np.maximum(padded(words, width, -1), -1), padded(kinds, width, _OTHER)
        pieces, member = np.arange(batch.length), None
        position = np.tile(pieces, (len(windows), 1))
        if by_word:
            member = pieces >= padded(first, width, 0)[:, :, None]
            member &= pieces < padded(last, width, 0)[:, :, None]
            # Of a pair, places go on through the second sentence.
            begins = self._sentences.starts[self.pieces.window_sentence[batch.windows]][:, None]
            position = np.where(word < 0, 0, word - begins)
        is_word = kind == _WORD
        form = np.where(is_word, self._forms[np.maximum(word, 0)], -1)
        units = Units(
            sentences=self.pieces.window_sentence[batch.windows].astype(np.int64),
            windows=np.asarray(batch.windows),
            lengths=n_units,
            word=self._tensor(word),
            position=self._tensor(position),
            form=self._tensor(form),
            is_word=self._tensor(is_word),
            is_cls=self._tensor(kind == _CLS),
            is_sep=self._tensor(kind == _SEP),
            is_punctuation=self._tensor(is_word & self._is_punctuation[np.maximum(form, 0)]),
            counts=self._tensor(padded(counts, width, False)),
            left_out=self.left_out,
        )
        return Inputs(
            ids=ids,
            mask=mask,
            types=torch.from_numpy(types) if types.any() else None,
            member=None if member is None else self._tensor(member).float(),
            units=units,
            bands=() if member is None else _bands(member),
        )

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
            words=np.concatenate([one.words, np.full(len(middle), _SEPARATOR), other.words]),
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
            low, high = self._n_prefix, len(ids) - self._n_suffix
            is_unit = ~np.isin(np.arange(len(first)) + begins, self._joined)
            shown = np.flatnonzero((last > low) & (first < high) & (last > first) & is_unit)
            words, is_read = shown + begins, pieces.word_window[shown + begins] == number
            words = np.where((first[shown] >= low) & (last[shown] <= high), words, _CUT)
            first, last = np.maximum(first[shown], low), np.minimum(last[shown], high)
        is_read &= ~np.isin(words, self.left_out)
        return _Window(ids, np.zeros(len(ids), dtype=np.int64), words, first, last, is_read)

    def _read_whole(self) -> dict[int, tuple[Integers, Integers]]:
        """First and last pieces of the words of each sentence in several windows, as if one window held them all: as a
        column a word is wanted in more windows than the one that it is read from."""
        long = np.flatnonzero(np.bincount(self.pieces.window_sentence, minlength=len(self._sentences)) > 1)
        spans = {}
        for number in long.tolist():
            whole = self._encoder.tokenize([self._sentences[number]], max_pieces=_UNBOUNDED)
            spans[number] = whole.word_first.astype(np.int64), whole.word_last.astype(np.int64)
        return spans

    def _words_of(self, one: _Window) -> tuple[Integers, Booleans, Integers, Integers, Integers]:
        """``[unit]`` number of the word, whether its row counts, kind, first piece and end of its pieces."""
        opening, n = np.arange(self._n_prefix), len(one.ids)
        closing = np.arange(n - self._n_suffix, n)
        word = np.concatenate([np.full(len(opening), -1), one.words, np.full(len(closing), -1)])
        counts = np.concatenate([opening >= 0, one.is_read, closing >= 0])
        kind = self._kinds(word, self._n_prefix + np.flatnonzero(one.words == _SEPARATOR))
        first = np.concatenate([opening, one.first, closing])
        return word, counts, kind, first, np.concatenate([opening + 1, one.last, closing + 1])

    def _pieces_of(self, one: _Window) -> tuple[Integers, Booleans, Integers, Integers, Integers]:
        """As :meth:`_words_of`, with subwords as units."""
        pieces = np.arange(len(one.ids))
        word, counts = np.full(len(pieces), -1), np.zeros(len(pieces), dtype=bool)
        # Where two words share a piece, it belongs to the first of them.
        for number in reversed(range(len(one.words))):
            inside = np.arange(one.first[number], one.last[number])
            word[inside], counts[inside] = one.words[number], one.is_read[number]
        counts[: self._n_prefix] = counts[len(pieces) - self._n_suffix :] = True
        return word, counts, self._kinds(word, one.first[one.words == _SEPARATOR]), pieces, pieces + 1

    def _kinds(self, word: Integers, separators: Integers) -> Integers:
        kind = np.where(word >= 0, _WORD, _OTHER)
        kind[len(word) - self._n_suffix :] = kind[separators] = _SEP
        kind[: self._n_prefix] = _CLS
        return kind

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._encoder.device)


def _form_codes(sentences: Sentences) -> tuple[Integers, NDArray[np.bool_]]:
    """``[word]`` the code of its form, and ``[code]`` whether that is punctuation."""
    folded: dict[str, int] = {}
    codes = np.array([folded.setdefault(form.casefold(), len(folded)) for form in sentences.forms.values])
    marks = [bool(form) and all(unicodedata.category(c).startswith("P") for c in form) for form in folded]
    return codes.astype(np.int64)[sentences.forms.codes], np.array(marks)


def _pair_form(encoder: Encoder) -> tuple[Integers, tuple[int, int, int]]:
    """How a model takes two sentences: ``[piece]`` vocabulary numbers of what stands between them, such as ``[SEP]``;
    and the token types of the first sentence with what opens it, of what stands between, and of the second with what
    closes it, 0 where the model has none."""
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
    return middle, types if max(types) < encoder.n_segments else (0, 0, 0)
