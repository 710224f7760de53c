"""Attention maps of one sentence, at every level and in every weighting that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention.viewer._heads import choose_heads
from bertology.attention.viewer._kinds import Level, Weights
from bertology.attention.viewer._norms import watching_values
from bertology.attention.viewer._text import Input, Units, lay_out, tensors
from bertology.encoders import word_attentions
from bertology.errors import BertologyError

if TYPE_CHECKING:
    from bertology.corpora import Sentence
    from bertology.encoders import Encoder

Maps = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AttentionReading:
    """What every head of some layers looks at in one sentence, or a pair of them."""

    sentences: tuple[Sentence, ...]
    model: str
    family: str
    init: str
    heads: Mapping[int, tuple[int, ...]]
    """By layer, both from 1."""
    given: Input
    weights: tuple[Weights, ...]
    """What was read: raw weights, or norm-weighted ones beside them."""
    _maps: Mapping[int, Tensor]
    """``[head, piece, piece]`` raw weights by layer."""
    _norms: Mapping[int, Tensor]
    """``[head, piece]`` ‖f(x)‖ by layer."""

    @property
    def layers(self) -> tuple[int, ...]:
        """From 1, ascending."""
        return tuple(self.heads)

    def units(self, level: Level) -> Units:
        """The rows and columns of maps."""
        return self.given.words if level == "word" else self.given.pieces

    def maps(self, layer: int, *, level: Level = "word", weights: Weights = "raw") -> Maps:
        """Maps of the heads of a layer, special tokens in their places.

        Word maps sum over a target word's pieces and average over a source word's (Clark et al. 2019, section 4.1).
        Norm-weighted maps hold ‖α f(x)‖ (Kobayashi et al. 2020); between words it is such norms that are summed.

        Args:
            layer: from 1.
            level: between words or between pieces.
            weights: ``raw`` or ``norm``.

        Returns:
            ``[head, unit, unit]`` from (rows) to (columns).

        Raises:
            BertologyError: the layer or these weights were not read.
        """
        if layer not in self.heads:
            raise BertologyError(f"layer {layer} was not read; there are {', '.join(map(str, self.layers))}")
        if weights not in self.weights:
            raise BertologyError("norm-weighted maps were not read: ask for weights='norm'")
        maps = self._maps[layer]
        if weights == "norm":
            maps = maps * self._norms[layer][:, None]
        if level == "word":
            maps = self._between_words(maps)
        return maps.numpy()

    def _between_words(self, maps: Tensor) -> Tensor:
        units = self.given.words
        own = [place for place, special in enumerate(units.special) if not special]
        specials = [units.first[place] for place, special in enumerate(units.special) if special]
        first, last = ([edge[place] for place in own] for edge in (units.first, units.last))
        return word_attentions(maps, first, last, specials=specials, gaps=self.given.gaps)[
            :, self._order[:, None], self._order
        ]

    @cached_property
    def _order(self) -> Tensor:
        """``[unit]`` where each stands where specials come after the words."""
        special = np.array(self.given.words.special)
        places = np.concatenate([np.flatnonzero(~special), np.flatnonzero(special)])
        return torch.from_numpy(np.argsort(places))


def read_attention(
    encoder: Encoder,
    sentences: Sequence[Sentence],
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int]] | None = None,
    norms: bool = False,
) -> AttentionReading:
    """Read one sentence, or two as the pair that the model takes.

    Args:
        encoder: any that gives attention maps.
        sentences: one or two.
        layers: from 1; all, or those of ``heads``, when left out.
        heads: (layer, head), both from 1; all when left out.
        norms: whether norm-weighted maps (Kobayashi et al. 2020) can be asked for as well.

    Raises:
        ModelError: a layer or head that the model does not have, a text longer than it takes, a model that gives no
            maps or, with ``norms``, of a family whose values are not known.
        BertologyError: there is no word in a sentence.
    """
    if not 1 <= len(sentences) <= 2:
        raise BertologyError(f"{len(sentences)} sentences: give one, or two as a pair")
    chosen = choose_heads(layers, heads, n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    given = lay_out(encoder, sentences)
    ids, types = tensors(given)
    lengths: Mapping[int, Tensor] = {}
    if norms:
        with watching_values(encoder) as lengths:
            maps = encoder.attentions(ids, layers=tuple(chosen), token_type_ids=types)
    else:
        maps = encoder.attentions(ids, layers=tuple(chosen), token_type_ids=types)
    rows = {layer: [head - 1 for head in own] for layer, own in chosen.items()}
    return AttentionReading(
        sentences=tuple(sentences),
        model=encoder.name,
        family=encoder.family,
        init=encoder.init,
        heads=chosen,
        given=given,
        weights=("raw", "norm") if norms else ("raw",),
        _maps={layer: maps[layer][0, rows[layer]].float().cpu() for layer in chosen},
        _norms={layer: lengths[layer][rows[layer]].cpu() for layer in chosen} if norms else {},
    )
