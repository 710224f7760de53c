"""Forward passes over one text in which states of another take the place of its own, at some places of one layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.encoders.interventions import Change, Intervention, Site, intervening, starting_from

if TYPE_CHECKING:
    from bertology.encoders import Encoder


@dataclass(frozen=True)
class Cell:
    """What is exchanged in one row of a patched batch."""

    row: int
    """The text, among those of the batch."""
    name: str
    """What the place is called."""
    pieces: NDArray[np.int64]
    head: int | None = None
    """From 1; of all heads when left out."""


class Score(Protocol):
    """What is read off the last layer."""

    def __call__(self, last: Tensor, rows: Tensor) -> Tensor:
        """Give ``[cell]`` scores, from ``[cell, piece, dim]`` states of the last layer and the row that each is of."""
        ...


@dataclass(frozen=True)
class LogitDifference:
    """By how much the logit of the first word is above that of the second at the mask."""

    encoder: Encoder
    mask: Tensor
    """``[row]`` the piece that is masked."""
    candidates: Tensor
    """``[row, 2]`` vocabulary numbers."""

    def __call__(self, last: Tensor, rows: Tensor) -> Tensor:
        """``[cell]`` differences."""
        encoder = self.encoder
        entries, index = torch.unique(self.candidates[rows], return_inverse=True)
        with torch.inference_mode():
            features = encoder.masked_head.features(last[torch.arange(len(rows)), self.mask[rows]])
        logits = encoder.vocabulary_logits(features, entries.to(features.device), layer=encoder.n_layers)
        chosen = logits.cpu().double().gather(1, index)
        return chosen[:, 0] - chosen[:, 1]


@dataclass(frozen=True)
class WordProbability:
    """The probability of a word at the mask, or its natural logarithm."""

    encoder: Encoder
    mask: Tensor
    """``[row]`` the piece that is masked."""
    word: Tensor
    """``[row]`` vocabulary number."""
    logarithm: bool

    def __call__(self, last: Tensor, rows: Tensor) -> Tensor:
        """``[cell]`` probabilities or logarithms."""
        encoder = self.encoder
        with torch.inference_mode():
            features = encoder.masked_head.features(last[torch.arange(len(rows)), self.mask[rows]])
        logits = encoder.vocabulary_logits(features, layer=encoder.n_layers).float()
        found = logits.log_softmax(1).cpu().double().gather(1, self.word[rows][:, None])[:, 0]
        return found if self.logarithm else found.exp()


class Passes:
    """The plain passes over source and base texts of one length, and patched ones that start from the base.

    Blocks below what is patched are computed once.
    """

    def __init__(
        self,
        encoder: Encoder,
        source: Tensor,
        base: Tensor,
        score: Score,
        *,
        site: Site,
        noise: Tensor | None = None,
        window: int = 1,
    ) -> None:
        """Run both.

        Args:
            encoder: a masked language model.
            source: ``[row, piece]`` the texts whose states are put in.
            base: ``[row, piece]`` the texts that they are put into.
            score: what is read off the last layer.
            site: what is exchanged.
            noise: ``[row, piece, dim]`` added to the embeddings of the base.
            window: number of layers in which what a block computes is exchanged together, around the one named.
        """
        self._encoder, self._site, self._ids, self._score, self._window = encoder, site, base, score, window
        self._of_source: dict[int, Tensor] = {}
        rows, last = torch.arange(len(base)), encoder.n_layers
        of_source = self._plain(source, keep=site != "hidden_state")
        self.source_scores = score(of_source[last], rows)
        """``[row]`` of the source texts."""
        if site == "hidden_state":
            self._of_source = of_source
        if noise is None:
            self._states = self._plain(base, keep=False)
        else:
            start = of_source[0] if source is base else self._plain(base, keep=False)[0]
            start = start + noise.to(start)
            with self._from(0, start):
                self._states = encoder.hidden_states(base, layers=range(last + 1))
        self.base_scores = score(self._states[last], rows)
        """``[row]`` of the base texts."""

    def move(self, shifts: dict[int, Tensor]) -> None:
        """Let the source be the base moved by ``[row, piece, dim]`` in each layer."""
        self._of_source = {
            layer: self._states[layer] + shift.to(self._states[layer]) for layer, shift in shifts.items()
        }

    def changes(self, layer: int, cells: Sequence[Cell]) -> Tensor:
        """``[cell]`` what patching it at a layer adds to the score of the base."""
        encoder, rows = self._encoder, torch.tensor([cell.row for cell in cells])
        is_state = self._site == "hidden_state"
        layers = [layer] if is_state else self._around(layer)
        shape = self._states[0].shape
        is_patched = torch.zeros(len(cells), *shape[1:], dtype=torch.bool)
        width = shape[2] // encoder.n_heads
        for number, cell in enumerate(cells):
            dims = slice(None) if cell.head is None else slice((cell.head - 1) * width, cell.head * width)
            is_patched[number, torch.from_numpy(cell.pieces), dims] = True
        is_patched = is_patched.to(self._states[0].device)
        begin = layers[0] - (not is_state)
        start = self._states[begin][rows]
        if is_state:
            start = torch.where(is_patched, self._of_source[layer][rows], start)
        exchanges = (
            [] if is_state else [Intervention(one, self._exchange(one, rows, is_patched), self._site) for one in layers]
        )
        with self._from(begin, start), self._intervening(exchanges):
            last = encoder.hidden_states(self._ids[rows], layers=(encoder.n_layers,))[encoder.n_layers]
        return self._score(last, rows) - self.base_scores[rows]

    def _around(self, layer: int) -> list[int]:
        below = (self._window - 1) // 2
        lowest, highest = layer - below, layer - below + self._window - 1
        return list(range(max(lowest, 1), min(highest, self._encoder.n_layers) + 1))

    def _exchange(self, layer: int, rows: Tensor, is_patched: Tensor) -> Change:
        source = self._of_source[layer][rows]
        return lambda values: torch.where(is_patched, source, values)

    def _plain(self, ids: Tensor, *, keep: bool) -> dict[int, Tensor]:
        """Hidden states of every layer; what the site holds is kept beside them."""
        encoder = self._encoder
        layers = range(1, encoder.n_layers + 1) if keep else ()
        with self._intervening([Intervention(layer, self._keep(layer), self._site) for layer in layers]):
            return encoder.hidden_states(ids, layers=range(encoder.n_layers + 1))

    def _keep(self, layer: int) -> Change:
        def keep(values: Tensor) -> Tensor:
            self._of_source[layer] = values.clone()
            return values

        return keep

    def _from(self, layer: int, start: Tensor) -> AbstractContextManager[None]:
        return starting_from(self._encoder.model.body, self._encoder.model.blocks, layer, start)

    def _intervening(self, interventions: Sequence[Intervention]) -> AbstractContextManager[None]:
        encoder = self._encoder
        body, blocks = encoder.model.body, encoder.model.blocks
        return intervening(body, blocks, interventions, n_heads=encoder.n_heads, family=encoder.family)


def batches_of_one_length(lengths: Sequence[int], n_rows: int, most: int) -> Iterator[list[int]]:
    """Numbers of texts of one length, as many as fill a batch when each has so many rows.

    Args:
        lengths: of the texts, in pieces.
        n_rows: of a text.
        most: pieces in a batch.
    """
    by_length: dict[int, list[int]] = {}
    for number, length in enumerate(lengths):
        by_length.setdefault(length, []).append(number)
    for length, numbers in by_length.items():
        size = max(1, most // (length * max(n_rows, 1)))
        yield from (numbers[start : start + size] for start in range(0, len(numbers), size))
