"""Pretraining examples: sentence pairs with masked pieces, each batch a function of the seed and the step alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertology.pocket.training._model import PretrainSettings, salient_words

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

Integers = NDArray[np.int64]
IGNORED = -100
"""The label of what is not predicted."""
IS_NEXT, IS_RANDOM = 0, 1
_LENGTHS = (12, 16, 22)
"""Lengths of rows that hold one sentence alone; longer sentences take half the longest row."""
Segments: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32] | None, int]
"""Pieces of one segment or two, and the label of whether the second follows the first."""


@dataclass(frozen=True)
class EncodedText:
    """Documents as pieces."""

    pieces: NDArray[np.int32]
    """``[piece]``"""
    starts: Integers
    """``[sentence + 1]`` first piece of each sentence, and the number of pieces."""
    document: Integers
    """``[sentence]`` document that each sentence stands in."""
    document_end: Integers
    """``[sentence]`` one past the last sentence of its document."""

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.document)


def encode(documents: Iterable[list[str]], tokenizer: Tokenizer) -> EncodedText:
    """Turn text into pieces, without special tokens."""
    texts = list(documents)
    lengths = list(map(len, texts))
    encoded = tokenizer.encode_batch_fast(list(chain.from_iterable(texts)), add_special_tokens=False)
    starts = np.cumsum([0, *(len(encoding.ids) for encoding in encoded)])
    pieces = np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encoded])
    ends = np.cumsum(lengths)
    return EncodedText(pieces, starts, np.repeat(np.arange(len(lengths)), lengths), np.repeat(ends, lengths))


@dataclass(frozen=True)
class Batch:
    """One step's examples."""

    input_ids: Integers
    """``[row, piece]``"""
    attention_mask: Integers
    """``[row, piece]``"""
    token_type_ids: Integers
    """``[row, piece]`` 0 in the first segment, 1 in the second."""
    masked: Integers
    """``[row, mask]`` places to predict."""
    masked_labels: Integers
    """``[row, mask]`` what stood there, or −100."""
    next_labels: Integers
    """``[row]`` 0 where the second segment follows the first, 1 where it is from elsewhere, −100 without one."""

    def inputs(self, device: torch.device) -> dict[str, torch.Tensor]:
        """The model's arguments, on its device."""
        import torch

        names = ("input_ids", "attention_mask", "token_type_ids")
        return {name: torch.from_numpy(getattr(self, name)).to(device) for name in names}


@dataclass(frozen=True)
class Examples:
    """Makes batches of one text."""

    text: EncodedText
    tokenizer: Tokenizer
    settings: PretrainSettings

    def batch(self, step: int) -> Batch:
        """The batch of a step, drawn at random from all the text by seed and step, and so always the same."""
        settings = self.settings
        chance = np.random.default_rng([settings.seed, step])
        kind = chance.random()
        if kind < settings.alone_share:
            length, segments = self._alone(chance)
        else:
            is_short = kind < settings.alone_share + settings.short_share
            length = settings.max_pieces // 2 if is_short else settings.max_pieces
            segments = [self._pair(chance, length) for _ in range(max(1, settings.batch_pieces // length))]
        input_ids = np.full((len(segments), length), self._id("[PAD]"), dtype=np.int64)
        token_type_ids = np.zeros_like(input_ids)
        lengths = [
            self._write(ids, types, first, second)
            for ids, types, (first, second, _) in zip(input_ids, token_type_ids, segments, strict=True)
        ]
        attention_mask = (np.arange(length) < np.array(lengths)[:, None]).astype(np.int64)
        masked, labels = self._mask(chance, step, input_ids, attention_mask)
        next_labels = np.array([label for _, _, label in segments])
        return Batch(input_ids, attention_mask, token_type_ids, masked, labels, next_labels)

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """``[vocabulary]`` relative probability that a piece is masked."""
        weights = np.ones(self.tokenizer.get_vocab_size())
        pieces = map(self.tokenizer.token_to_id, salient_words())
        weights[[piece for piece in pieces if piece is not None]] = self.settings.salience
        return weights

    def _alone(self, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of about one length, one in each row, so that hardly any padding is read."""
        lengths = np.diff(self.text.starts)
        size = lengths[chance.integers(self.text.n_sentences)]
        half = self.settings.max_pieces // 2
        bounds = [bound for bound in _LENGTHS if bound < half]
        bound = next((bound for bound in bounds if size <= bound - 2), half)
        shorter = max((other for other in bounds if other < bound), default=2)
        alike = np.flatnonzero((lengths > shorter - 2) & ((lengths <= bound - 2) | (bound == half)))
        second = self.settings.second_language
        if second is not None and chance.random() < second.paired:
            return self._with_translations(alike[alike < self.text.n_sentences // 2], chance)
        chosen = chance.choice(alike, max(1, self.settings.batch_pieces // bound))
        return bound, [(self._pieces(start, start + 1)[: bound - 2], None, IGNORED) for start in chosen]

    def _with_translations(self, firsts: Integers, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of the first language and their translations, in either order, in rows of one length.

        Translations are the second half of the text, in the same order.
        """
        shift = self.text.n_sentences // 2
        chosen = chance.choice(firsts, max(1, self.settings.batch_pieces // self.settings.max_pieces * 2))
        pairs = [(self._pieces(one, one + 1), self._pieces(one + shift, one + shift + 1)) for one in chosen]
        fitting = [pair for pair in pairs if len(pair[0]) + len(pair[1]) <= self.settings.max_pieces - 3]
        length = 3 + max(len(first) + len(other) for first, other in fitting)
        turned = chance.random(len(fitting)) < 0.5
        return length, [
            (*(reversed(pair) if turn else pair), IGNORED) for pair, turn in zip(fitting, turned, strict=True)
        ]

    def _pair(self, chance: np.random.Generator, length: int) -> Segments:
        """Two segments that fill a row, and whether the second follows the first."""
        text, room = self.text, length - 3
        start = self._drawn_back(int(chance.integers(text.n_sentences)), room)
        wanted = chance.integers(room // 4, 3 * room // 4)
        end = start + 1
        while end < text.document_end[start] - 1 and text.starts[end] - text.starts[start] < wanted:
            end += 1
        first = self._pieces(start, end)[room // 4 - room :]  # cut at its beginning, so that what follows still does
        left = room - len(first)
        follows = end < text.document_end[start] and chance.random() < 0.5
        other = end if follows else self._drawn_back(self._elsewhere(chance, start), left)
        second = self._pieces(other, int(text.document_end[other]))[:left]
        return first, second, IS_NEXT if follows else IS_RANDOM

    def _drawn_back(self, start: int, room: int) -> int:
        """An earlier sentence of the same document, if that is needed to fill the room."""
        text = self.text
        end = text.starts[text.document_end[start]]
        while start > 0 and text.document[start - 1] == text.document[start] and end - text.starts[start] < room:
            start -= 1
        return start

    def _elsewhere(self, chance: np.random.Generator, start: int) -> int:
        while True:
            other = int(chance.integers(self.text.n_sentences))
            if self.text.document[other] != self.text.document[start]:
                return other

    def _pieces(self, first: int, end: int) -> NDArray[np.int32]:
        return self.text.pieces[self.text.starts[first] : self.text.starts[end]]

    def _write(
        self, ids: Integers, segments: Integers, first: NDArray[np.int32], second: NDArray[np.int32] | None
    ) -> int:
        end = len(first) + 1
        ids[0], ids[1:end], ids[end] = self._id("[CLS]"), first, self._id("[SEP]")
        if second is None:
            return end + 1
        last = end + 1 + len(second)
        ids[end + 1 : last], ids[last] = second, self._id("[SEP]")
        segments[end + 1 : last + 1] = 1
        return last + 1

    def _mask(
        self, chance: np.random.Generator, step: int, input_ids: Integers, attention_mask: Integers
    ) -> tuple[Integers, Integers]:
        """Choose places to predict and disguise them, in place: 80 % [MASK], 10 % any piece, 10 % as they are.

        Without random replacement, 90 % are [MASK].
        """
        special = np.isin(input_ids, [self._id(token) for token in ("[CLS]", "[SEP]", "[PAD]")])
        n_rows, length = input_ids.shape
        mask_rate = self.settings.mask_rate
        n_masks = max(1, round(mask_rate * length))
        # The smallest of exponential times, each at its own rate: a draw without replacement by weight.
        rates = self._weights[input_ids] if step >= self.settings.salience_from else 1.0
        times = -np.log1p(-chance.random(input_ids.shape)) / rates
        masked = np.argsort(np.where(special, np.inf, times), axis=1)[:, :n_masks]
        rows = np.arange(n_rows)[:, None]
        wanted = np.maximum(1, np.round(mask_rate * attention_mask.sum(axis=1, keepdims=True)))
        labels = np.where(np.arange(n_masks) < wanted, input_ids[rows, masked], IGNORED)
        labels = np.where(special[rows, masked], IGNORED, labels)
        disguise = chance.random(masked.shape)
        random_pieces = chance.integers(5, self.tokenizer.get_vocab_size(), masked.shape)
        n_masked = 0.8 if self.settings.random_replacement else 0.9
        shown = np.where(disguise < n_masked, self._id("[MASK]"), random_pieces)
        input_ids[rows, masked] = np.where((disguise >= 0.9) | (labels == IGNORED), input_ids[rows, masked], shown)
        return masked, labels

    def _id(self, token: str) -> int:
        return piece_id(self.tokenizer, token)


def piece_id(tokenizer: Tokenizer, piece: str) -> int:
    """The number of a piece that the vocabulary must hold."""
    number = tokenizer.token_to_id(piece)
    if number is None:
        raise KeyError(f"{piece!r} is no piece of the vocabulary")
    return number
