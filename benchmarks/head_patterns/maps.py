"""Single maps between pieces, as they are labelled, and drawn by lot."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bertology.attention.patterns import CLS, PADDING, PIECE, PUNCTUATION, SEP

if TYPE_CHECKING:
    from torch import Tensor

    from bertology.attention.patterns import Layout
    from bertology.corpora import Sentence, Sentences
    from bertology.encoders import Encoder

SHORTEST: Final = 8
LONGEST: Final = 128
"""Pieces of a map drawn by lot, special ones counted."""


@dataclass(frozen=True, eq=False)
class PieceMap:
    """One head's attention in one text, or in a pair of them."""

    weights: NDArray[np.float32]
    """``[piece, piece]`` from (rows) to (columns)."""
    kinds: NDArray[np.int8]
    """``[piece]`` :data:`PIECE`, :data:`CLS`, :data:`SEP` or :data:`PUNCTUATION`."""

    def __len__(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True)
class Place:
    """Where a map is found: numbers of the sentences in their split, and the head."""

    sentences: tuple[int, ...]
    """One, or two that are read as a pair."""
    layer: int
    """From 1."""
    head: int
    """From 1."""


def read_maps(encoder: Encoder, sentences: Sequence[Sentence], heads: Sequence[tuple[int, int]]) -> list[PieceMap]:
    """The maps of some heads in one sentence, or in two read as a pair.

    Args:
        encoder: any that gives attention maps.
        sentences: one or two.
        heads: (layer, head), both from 1.

    Raises:
        BertologyError: the text is longer than the model takes, or it has no such head.
    """
    from bertology.attention.viewer import read_attention

    reading = read_attention(encoder, sentences, heads=heads)
    units = reading.units("piece")
    forms = [form for sentence in sentences for form in sentence.words]
    kinds = np.full(len(units.word), PIECE, dtype=np.int8)
    for place, (word, special) in enumerate(zip(units.word, units.special, strict=True)):
        if special:
            kinds[place] = CLS if place == 0 else SEP
        elif word >= 0 and all(unicodedata.category(character).startswith("P") for character in forms[word]):
            kinds[place] = PUNCTUATION
    found = []
    for layer, head in heads:
        number = reading.heads[layer].index(head)
        found.append(PieceMap(reading.maps(layer, level="piece")[number], kinds))
    return found


def draw_places(encoder: Encoder, sentences: Sentences, n: int, *, seed: int) -> list[Place]:
    """Maps drawn by lot: a sentence, or as often it and the one after it as a pair, and any head.

    Texts of fewer than :data:`SHORTEST` or more than :data:`LONGEST` pieces, or more than the model takes, are drawn
    again. No map is drawn twice.
    """
    pieces = encoder.tokenize(sentences)
    special = encoder.n_prefix + encoder.n_suffix
    lengths = np.bincount(pieces.window_sentence, weights=pieces.window_lengths - special, minlength=len(sentences))
    generator = np.random.default_rng(seed)
    most = min(LONGEST, encoder.max_pieces)
    places: dict[Place, None] = {}
    while len(places) < n:
        first, is_pair = int(generator.integers(len(sentences) - 1)), bool(generator.random() < 0.5)
        layer, head = (int(generator.integers(1, top + 1)) for top in (encoder.n_layers, encoder.n_heads))
        numbers = (first, first + 1) if is_pair else (first,)
        if SHORTEST <= sum(lengths[list(numbers)]) + special + is_pair <= most and all(lengths[list(numbers)] > 0):
            places[Place(numbers, layer, head)] = None
    return list(places)


def stacked(maps: Sequence[PieceMap]) -> Tensor:
    """``[map, 1, piece, piece]`` the weights of some maps, padded with zeros to the longest."""
    import torch

    longest = max(map(len, maps))
    table = torch.zeros(len(maps), 1, longest, longest)
    for own, row in zip(maps, table, strict=True):
        row[0, : len(own), : len(own)] = torch.from_numpy(own.weights)
    return table


def layout_of(maps: Sequence[PieceMap]) -> Layout:
    """The layout of the texts of some maps, padded to the longest."""
    import torch

    from bertology.attention.patterns import Layout

    table = torch.full((len(maps), max(map(len, maps))), PADDING)
    for row, one in enumerate(maps):
        table[row, : len(one)] = torch.from_numpy(one.kinds.astype(np.int64))
    return Layout(table)
