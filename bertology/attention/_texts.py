"""Sentences, alone or in pairs, as windows of pieces, and the words and special tokens that are units of their maps."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._batch import Integers, Level, Units
from bertology.attention._pairs import PairForm, neighbours
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.batching import Batch, pieces_in_batch, plan_batches
from bertology.errors import CorpusError

_MAP_VALUES = 1 << 23
"""Of one layer in a batch; a single window may have more."""
_WORD, _CLS, _SEP, _OTHER = range(4)
_UNBOUNDED = 1 << 30
_UNITS_IN_BAND = 64

_Bands = tuple[tuple[slice, slice], ...]


@dataclass(frozen=True, eq=False)
class Inputs:
    """A batch of windows as the model takes it, and how pieces become units."""

    ids: Tensor
    """``[sentence, piece]``"""
    mask: Tensor | None
    """``[sentence, piece]`` None where nothing is padded."""
    types: Tensor | None
    """``[sentence, piece]`` token types; None where all are 0."""
    member: Tensor | None
    """``[sentence, unit, piece]`` 1 where a piece belongs to a unit; None at piece level."""
    units: Units
    bands: _Bands
    """Runs of units, and the pieces that belong to any of them: in long texts ``member`` is nothing but a band of ones,
    and a product with all of it would take longer than the model does."""

    def merged(self, maps: Tensor) -> Tensor:
        """Maps between pieces ``[sentence, head, piece, piece]`` as maps between units."""
        maps = maps.float()
        if self.member is None:
            return maps
        n_heads, n_pieces = maps.shape[1:3]
        flat, turned = maps.flatten(1, 2), self.member.transpose(1, 2)
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
            within = (rows[:, :, None] * self._shares).transpose(1, 2) @ self.member  # [sentence, piece, piece]
        n_cells = int((within > 0).flatten(1).sum(1).max())
        weights, cells = within.flatten(1).topk(n_cells, dim=1)
        return cells // within.shape[-1], cells % within.shape[-1], weights

    @cached_property
    def _shares(self) -> Tensor:
        """``[sentence, unit, piece]`` how much each piece counts in a mean over those of its unit."""
        if self.member is None:
            raise ValueError("pieces are units of their own")
        return self.member / self.member.sum(-1, keepdim=True).clamp_min(1)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The words that a window shows whole; in a pair, also what stands between the sentences."""

    words: Integers
    """−1 for the separator."""
    first: Integers
    last: Integers
    is_read: NDArray[np.bool_]
    """Whether the window is the one that the word is read from."""


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
        self._sentences, self._level = sentences, level
        self._n_prefix, self._n_suffix = encoder.n_prefix, encoder.n_suffix
        self._n_heads, self._device = encoder.n_heads, encoder.device
        self.pieces = encoder.tokenize(sentences, on_long=on_long)
        by_window = self.pieces.word_window
        self._words = np.argsort(by_window, kind="stable")
        self._starts = np.searchsorted(by_window[self._words], np.arange(self.pieces.n_windows + 1))
        self.windows = np.flatnonzero(np.diff(self._starts))
        """Windows that some word is read from; of pairs the first one."""
        if not len(self.windows):
            raise CorpusError("no word to read: every sentence is empty or was skipped")
        self.n_sentences = len(np.unique(self.pieces.window_sentence[self.windows]))
        """Sentences of which something is read."""
        self._pair_form = PairForm.of(encoder) if pairs else None
        self._second: dict[int, int] = {}
        self.n_apart = 0
        """Pairs that were too long, so that each sentence is read alone."""
        self.lengths = self.pieces.window_lengths.copy()
        """``[window]`` pieces; of the first windows of pairs those of the pair."""
        if self._pair_form is not None:
            self._pair_up(encoder, self._pair_form)
        self._forms, self._is_punctuation = _form_codes(sentences)
        self._whole = self._read_whole(encoder)

    @property
    def n_pairs(self) -> int:
        """Of them two at a time."""
        return len(self._second)

    def _pair_up(self, encoder: Encoder, form: PairForm) -> None:
        more = len(form.middle) - self._n_prefix - self._n_suffix
        self._second, self.n_apart = neighbours(
            self.pieces, self.windows, len(self._sentences), most=encoder.max_pieces - more
        )
        firsts, seconds = (np.array([*part], dtype=np.int64) for part in (self._second, self._second.values()))
        self.lengths[firsts] += self.lengths[seconds] + more
        self.windows = np.setdiff1d(self.windows, seconds)

    def batches(self) -> list[Batch]:
        """Windows of like length together, fewer of them where maps are large."""
        planned = plan_batches(self.lengths[self.windows], pieces=pieces_in_batch(self._device))
        return [part for batch in planned for part in self._small_enough(batch)]

    def _small_enough(self, batch: Batch) -> Iterator[Batch]:
        most = max(1, _MAP_VALUES // (self._n_heads * batch.length**2))
        for start in range(0, len(batch.windows), most):
            chosen = batch.windows[start : start + most]
            yield Batch(self.windows[chosen], batch.length, batch.is_padded)

    def inputs(self, batch: Batch) -> Inputs:
        """What goes into the model, and what comes out of it."""
        shape = (len(batch.windows), batch.length)
        ids, mask = np.full(shape, self.pieces.pad_id, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        seen = [self._seen(window) for window in batch.windows.tolist()]
        for row, window in enumerate(batch.windows.tolist()):
            own = self._ids(window, types[row])
            ids[row, : len(own)], mask[row, : len(own)] = own, 1
        lengths = mask.sum(1)
        if self._level == "piece":
            member, units = None, self._piece_units(batch, lengths, seen)
        else:
            units, member = self._word_units(batch, lengths, seen)
        padding = torch.from_numpy(mask) if batch.is_padded else None
        bands = _bands(member.cpu().numpy()) if member is not None else ()
        segments = torch.from_numpy(types) if types.any() else None
        return Inputs(torch.from_numpy(ids), padding, segments, member, units, bands)

    def _ids(self, window: int, types: Integers) -> NDArray[Any]:
        """Vocabulary numbers of a window, or of the pair that it begins, whose token types are filled in."""
        own = self.pieces.window(window)
        if self._pair_form is None or window not in self._second:
            return own
        start = len(own) - self._n_suffix
        parts = own[:start], self._pair_form.middle, self.pieces.window(self._second[window])[self._n_prefix :]
        ids = np.concatenate(parts)
        if self._pair_form.segments is not None:
            types[: len(ids)] = np.repeat(self._pair_form.segments, [len(part) for part in parts])
        return ids

    def _gaps(self, window: int) -> NDArray[np.bool_]:
        """``[piece]`` white space between pieces of one word, in a window or in the pair that it begins."""
        own = self.pieces.window_gaps(window)
        if self._pair_form is None or window not in self._second:
            return own
        middle = np.zeros(len(self._pair_form.middle), dtype=bool)
        second = self.pieces.window_gaps(self._second[window])
        return np.concatenate([own[: len(own) - self._n_suffix], middle, second[self._n_prefix :]])

    def _seen(self, window: int) -> _Seen:
        """The words of a window, or of the pair that it begins."""
        one = self._seen_alone(window)
        if self._pair_form is None or window not in self._second:
            return one
        other, middle = self._seen_alone(self._second[window]), np.arange(len(self._pair_form.middle))
        start = int(self.pieces.window_lengths[window]) - self._n_suffix
        shift = start + len(middle) - self._n_prefix
        return _Seen(
            words=np.concatenate([one.words, np.full(len(middle), -1), other.words]),
            first=np.concatenate([one.first, start + middle, other.first + shift]),
            last=np.concatenate([one.last, start + middle + 1, other.last + shift]),
            is_read=np.concatenate([one.is_read, np.ones(len(middle), dtype=bool), other.is_read]),
        )

    def _seen_alone(self, window: int) -> _Seen:
        pieces, own = self.pieces, self._words[self._starts[window] : self._starts[window + 1]]
        sentence = int(pieces.window_sentence[window])
        if sentence not in self._whole:
            first, last = pieces.word_first[own].astype(np.int64), pieces.word_last[own].astype(np.int64)
            return _Seen(own, first, last, np.ones(len(own), dtype=bool))
        first, last = self._whole[sentence]
        base = int(self._sentences.starts[sentence])
        shift = first[own[0] - base] - int(pieces.word_first[own[0]])
        first, last = first - shift, last - shift
        end = int(pieces.window_lengths[window]) - self._n_suffix
        whole = np.flatnonzero((first >= self._n_prefix) & (last <= end) & (last > first))
        is_read = pieces.word_window[whole + base] == window
        return _Seen(whole + base, first[whole], last[whole], is_read)

    def _read_whole(self, encoder: Encoder) -> dict[int, tuple[Integers, Integers]]:
        """Of each sentence in several windows the pieces of its words as if one window took them all.

        A word's place is kept for the window it is read from alone; as a column it is wanted in its neighbours too.
        """
        long = np.flatnonzero(np.bincount(self.pieces.window_sentence, minlength=len(self._sentences)) > 1)
        found = {}
        for number in long.tolist():
            placed = encoder.tokenize([self._sentences[number]], max_pieces=_UNBOUNDED)
            found[number] = placed.word_first.astype(np.int64), placed.word_last.astype(np.int64)
        return found

    def _word_units(self, batch: Batch, lengths: Integers, seen: list[_Seen]) -> tuple[Units, Tensor]:
        n_units = np.array([len(each.words) for each in seen]) + self._n_prefix + self._n_suffix
        table = _Table(len(seen), int(n_units.max()))
        first, last = np.zeros_like(table.word), np.zeros_like(table.word)
        for row, each in enumerate(seen):
            inside = slice(self._n_prefix, self._n_prefix + len(each.words))
            closing = slice(inside.stop, inside.stop + self._n_suffix)
            first[row, : self._n_prefix] = np.arange(self._n_prefix)
            first[row, closing] = np.arange(lengths[row] - self._n_suffix, lengths[row])
            last[row] = first[row] + 1
            first[row, inside], last[row, inside] = each.first, each.last
            last[row, closing.stop :] = 0
            table.word[row, inside], table.counts[row, inside] = each.words, each.is_read
            self._mark_specials(table, row, int(closing.stop), self._n_prefix + np.flatnonzero(each.words < 0))
        # Of a pair, places go on through the second sentence.
        begins = self._sentences.starts[self.pieces.window_sentence[batch.windows]][:, None]
        table.position[:] = np.where(table.word < 0, 0, table.word - begins)
        places = np.arange(batch.length)
        member = (places >= first[:, :, None]) & (places < last[:, :, None])
        for row, window in enumerate(batch.windows.tolist()):
            gaps = self._gaps(window)
            member[row, :, : len(gaps)] &= ~gaps
        units = self._units(batch, n_units, table)
        return units, torch.from_numpy(member).to(self._device, torch.float32)

    def _piece_units(self, batch: Batch, lengths: Integers, seen: list[_Seen]) -> Units:
        table = _Table(len(seen), batch.length)
        table.position[:] = np.arange(batch.length)
        for row, (each, window) in enumerate(zip(seen, batch.windows.tolist(), strict=True)):
            gaps = self._gaps(window)
            # Where two words share a piece, it goes by the first of them.
            for number in reversed(range(len(each.words))):
                inside = np.arange(each.first[number], each.last[number])
                inside = inside[~gaps[inside]]
                table.word[row, inside], table.counts[row, inside] = each.words[number], each.is_read[number]
            self._mark_specials(table, row, int(lengths[row]), each.first[each.words < 0])
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
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)


class _Table:
    """What is known of each unit of a batch, ``[sentence, unit]``, filled in row by row."""

    def __init__(self, n_rows: int, n_units: int) -> None:
        shape = (n_rows, n_units)
        self.word = np.full(shape, -1, dtype=np.int64)
        self.kind = np.full(shape, _OTHER, dtype=np.int64)
        self.position = np.zeros(shape, dtype=np.int64)
        self.counts = np.zeros(shape, dtype=bool)


def _joined(parts: list[Tensor], *, dim: int) -> Tensor:
    """Bands as one; a single one, as short texts have, is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _bands(member: NDArray[np.float32]) -> _Bands:
    """Cut ``[sentence, unit, piece]`` into runs of units and the range of pieces that each needs."""
    needed = np.asarray(member.any(axis=0))  # [unit, piece]
    found = []
    for start in range(0, len(needed), _UNITS_IN_BAND):
        pieces = np.flatnonzero(needed[start : start + _UNITS_IN_BAND].any(0))
        found.append((slice(start, start + _UNITS_IN_BAND), slice(int(pieces[0]), int(pieces[-1]) + 1)))
    return tuple(found)


def _form_codes(sentences: Sentences) -> tuple[Integers, NDArray[np.bool_]]:
    """``[word]`` the code of its form, and ``[code]`` whether that is punctuation."""
    folded: dict[str, int] = {}
    codes = np.array([folded.setdefault(form.casefold(), len(folded)) for form in sentences.forms.values])
    marks = [bool(form) and all(unicodedata.category(c).startswith("P") for c in form) for form in folded]
    return codes.astype(np.int64)[sentences.forms.codes], np.array(marks)
