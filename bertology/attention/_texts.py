"""Sentences as windows of pieces, and the words and special tokens that are the units of their maps."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.activations._batches import PIECES_IN_BATCH, Batch, plan_batches
from bertology.attention._batch import Integers, Level, Units
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders._tokenize import OnLong, tokenize
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
        shares = (self.member / self.member.sum(-1, keepdim=True).clamp_min(1))[:, None]
        return _joined([shares[:, :, units, pieces] @ to_units[:, :, pieces] for units, pieces in self.bands], dim=2)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The words that a window shows whole."""

    words: Integers
    first: Integers
    last: Integers
    is_read: NDArray[np.bool_]
    """Whether the window is the one that the word is read from."""


class MapText:
    """A text cut into windows, ready to be read for its maps.

    Raises:
        CorpusError: there is nothing to read.
        ModelError: a sentence is too long and ``on_long`` is ``"error"``.
    """

    def __init__(self, encoder: Encoder, sentences: Sentences, *, level: Level, on_long: OnLong) -> None:
        self._sentences, self._level = sentences, level
        self._n_prefix, self._n_suffix = encoder.n_prefix, encoder.n_suffix
        self._n_heads, self._device = encoder.n_heads, encoder.device
        self.pieces = encoder.tokenize(sentences, on_long=on_long)
        by_window = self.pieces.word_window
        self._words = np.argsort(by_window, kind="stable")
        self._starts = np.searchsorted(by_window[self._words], np.arange(self.pieces.n_windows + 1))
        self.windows = np.flatnonzero(np.diff(self._starts))
        """Windows that some word is read from."""
        if not len(self.windows):
            raise CorpusError("no word to read: every sentence is empty or was skipped")
        self._forms, self._is_punctuation = _form_codes(sentences)
        self._whole = self._read_whole(encoder)

    @property
    def n_sentences(self) -> int:
        """Sentences of which something is read."""
        return len(np.unique(self.pieces.window_sentence[self.windows]))

    def batches(self) -> list[Batch]:
        """Windows of like length together, fewer of them where maps are large."""
        planned = plan_batches(self.pieces.window_lengths[self.windows], pieces=PIECES_IN_BATCH)
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
        seen = [self._seen(int(window)) for window in batch.windows]
        for row, window in enumerate(batch.windows.tolist()):
            own = self.pieces.window(window)
            ids[row, : len(own)], mask[row, : len(own)] = own, 1
        lengths = mask.sum(1)
        if self._level == "piece":
            member, units = None, self._piece_units(batch, lengths, seen)
        else:
            units, member = self._word_units(batch, lengths, seen)
        padding = torch.from_numpy(mask) if batch.is_padded else None
        bands = _bands(member.cpu().numpy()) if member is not None else ()
        return Inputs(torch.from_numpy(ids), padding, member, units, bands)

    def _seen(self, window: int) -> _Seen:
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
        reader = replace(encoder._reader, max_pieces=_UNBOUNDED)
        found = {}
        for number in long.tolist():
            placed = tokenize([self._sentences[number]], reader)
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
            self._mark_specials(table, row, int(closing.stop))
        known = np.maximum(table.word, 0)
        table.position[:] = known - self._sentences.starts[self._sentences.sentence_of_word[known]]
        places = np.arange(batch.length)
        member = (places >= first[:, :, None]) & (places < last[:, :, None])
        units = self._units(batch, n_units, table)
        return units, torch.from_numpy(member).to(self._device, torch.float32)

    def _piece_units(self, batch: Batch, lengths: Integers, seen: list[_Seen]) -> Units:
        table = _Table(len(seen), batch.length)
        table.position[:] = np.arange(batch.length)
        for row, each in enumerate(seen):
            # Where two words share a piece, it goes by the first of them.
            for number in reversed(range(len(each.words))):
                inside = slice(int(each.first[number]), int(each.last[number]))
                table.word[row, inside], table.counts[row, inside] = each.words[number], each.is_read[number]
            self._mark_specials(table, row, int(lengths[row]))
        return self._units(batch, lengths, table)

    def _mark_specials(self, table: _Table, row: int, length: int) -> None:
        inside = slice(self._n_prefix, length - self._n_suffix)
        table.kind[row, :length] = _SEP
        table.kind[row, inside] = np.where(table.word[row, inside] >= 0, _WORD, _OTHER)
        table.kind[row, : self._n_prefix] = _CLS
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
