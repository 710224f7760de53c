"""What a head statistic is given: the maps of one layer for a few texts, and what their rows and columns are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from bertology.attention._map_norms import MapNorms

Level = Literal["word", "piece"]
Integers = NDArray[np.int64]

MOST_CLUSTERS = 1000
"""Sums are kept for this many clusters of sentences at most, so that memory does not grow with the corpus."""


@dataclass(frozen=True)
class Scope:
    """What a pass will read; told to a statistic before it begins."""

    n_sentences: int
    layers: tuple[int, ...]
    """From 1, ascending: the order in which a batch's layers arrive."""
    n_heads: int
    level: Level

    @property
    def n_clusters(self) -> int:
        """How many clusters of sentences sums are kept for: one a sentence, as long as there are few enough."""
        return min(self.n_sentences, MOST_CLUSTERS)

    def clusters(self, sentences: Integers) -> Integers:
        """The cluster of each sentence; of many sentences some neighbours share one."""
        return sentences * self.n_clusters // max(1, self.n_sentences)


@dataclass(frozen=True, eq=False)
class Units:
    """The rows and columns of a batch's maps: words, or pieces, and special tokens where they stand in the text.

    All tensors are ``[sentence, unit]``. A sentence that is read in windows has several entries here, one a window.
    """

    sentences: Integers
    """``[sentence]`` number of each in the text that is read."""
    windows: Integers
    """``[sentence]`` number of the window that shows it."""
    lengths: Integers
    """``[sentence]`` units, padding left out."""
    word: Tensor
    """Number of the word through all sentences; −1 for special tokens, padding and pieces of no word."""
    position: Tensor
    """Place in the sentence, in words; at piece level in the window, in pieces. Differences are offsets."""
    form: Tensor
    """Code of the word's form, the same for forms that differ in case alone; −1 where there is no word."""
    is_word: Tensor
    """Words, or pieces of words."""
    is_cls: Tensor
    """The special tokens that open a text: ``[CLS]``, ``<s>``."""
    is_sep: Tensor
    """The special tokens that close a text: ``[SEP]``, ``</s>``."""
    is_punctuation: Tensor
    """Words of nothing but punctuation (all characters of Unicode category P)."""
    counts: Tensor
    """Units whose rows are to be counted: all but padding and, in windows, words that another window is read for."""

    @cached_property
    def word_rows(self) -> Tensor:
        """Words, or pieces of words, whose rows are to be counted."""
        return self.is_word & self.counts

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, eq=False)
class MapBatch:
    """The attention maps of one layer for a few texts. Valid while ``update`` runs: keep sums, not maps."""

    layer: int
    """From 1."""
    maps: Tensor
    """``[sentence, head, unit, unit]`` float32, from (rows) each unit to (columns) each unit; 0 in columns of
    padding. At word level attention *to* a word is summed and *from* a word averaged over its pieces (Clark et al.
    2019, section 4.1); what goes to pieces of no word is cropped."""
    norms: MapNorms | None
    """‖αf(x)‖, the length of what each unit adds to another through a head (Kobayashi et al. 2020); None where it was
    not asked for."""
    units: Units
    """The same object for all layers of a batch."""

    @cached_property
    def most_attended(self) -> tuple[Tensor, Tensor]:
        """Of each row ``[sentence, head, unit]`` the largest weight to a word, and the place of that word: the first of
        equals. Special tokens do not compete."""
        # Far below 0, so that adding is enough: to choose by a mask takes several times as long.
        penalty = torch.where(self.units.is_word, 0.0, -2.0).to(self.maps)
        largest, places = torch.max(self.maps + penalty[:, None, None], dim=-1)
        return largest, places
