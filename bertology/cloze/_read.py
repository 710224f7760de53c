"""Masked inputs through a model, and out of it only what was asked: scores of entries, ranks, the best few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.cloze._questions import Groups, Integers, Questions
from bertology.encoders.batching import Batch, pieces_in_batch, plan_batches

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]

_LOGITS_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to take from the distribution at each place."""

    layers: tuple[int, ...]
    normalized: bool = True
    """Log-probabilities; logits if not, which spares the sum over the vocabulary."""
    ranks: bool = False
    top: int = 0
    """How many of the best entries to give."""
    vocabulary: Integers | None = None
    """``[entry]`` ascending: the entries that the distribution is over; all when left out."""
    pieces: int | None = None
    """Pieces in a batch; as suits the device when left out."""

    @property
    def needs_vocabulary(self) -> bool:
        """Whether entries other than those asked for have to be scored."""
        return self.normalized or self.ranks or self.top > 0


@dataclass(frozen=True, eq=False)
class Read:
    """What the model said."""

    values: Floats
    """``[layer, term]``"""
    ranks: Integers
    """``[layer, term]``; 0 unless asked for."""
    top_ids: Integers
    """``[layer, place, k]``"""
    top_values: Floats
    """``[layer, place, k]``"""


def read_questions(encoder: Encoder, questions: Questions, wanted: Wanted) -> Read:
    """Read all inputs, in batches of about the same length.

    Memory is that of a batch, of a few million logits and of what is returned.
    """
    n_layers, places, terms = len(wanted.layers), questions.places, questions.terms
    read = Read(
        values=np.empty((n_layers, len(terms))),
        ranks=np.zeros((n_layers, len(terms)), dtype=np.int64),
        top_ids=np.empty((n_layers, len(places), wanted.top), dtype=np.int64),
        top_values=np.empty((n_layers, len(places), wanted.top)),
    )
    by_input = Groups.by(places[:, 0], len(questions.inputs))
    by_place = Groups.by(terms[:, 0], len(places))
    lengths = np.array([len(ids) for ids in questions.inputs], dtype=np.int64)
    batches = plan_batches(lengths, pieces=wanted.pieces or pieces_in_batch(encoder.device))
    free: SimpleQueue[Encoder] = SimpleQueue()

    def take(number: int) -> None:
        batch, own = batches[number], free.get()
        try:
            here, row = by_input.of(batch.windows)
            asked, place = by_place.of(here)
            ids, mask = _padded(own, questions, batch)
            positions = torch.from_numpy(np.stack([row, places[here, 1]], axis=1))
            features = own.masked_features(ids, positions, attention_mask=mask, layers=wanted.layers)
            for number, layer in enumerate(wanted.layers):
                for part in _reduced(own, layer, features[layer], place, terms[asked, 1], wanted):
                    read.values[number, asked[part.terms]] = part.values
                    read.ranks[number, asked[part.terms]] = part.ranks
                    read.top_ids[number, here[part.places]] = part.top_ids
                    read.top_values[number, here[part.places]] = part.top_values
        finally:
            free.put(own)

    # A batch on each core, rather than every operation on all of them.
    most = 1 if encoder.is_gated else len(batches) or 1
    with Workers(torch.device(encoder.device), most=most) as workers:
        for each in (encoder, *(encoder.twin() for _ in range(workers.n - 1))):
            free.put(each)
        workers.map(take, len(batches))
    return read


def _padded(encoder: Encoder, questions: Questions, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """``[input, piece]`` vocabulary numbers, and the attention mask where anything is padded."""
    ids = torch.full((len(batch.windows), batch.length), encoder.pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids) if batch.is_padded else None
    for row, number in enumerate(batch.windows.tolist()):
        given = questions.inputs[number]
        ids[row, : len(given)] = torch.from_numpy(given)
        if mask is not None:
            mask[row, : len(given)] = 1
    return ids, mask


@dataclass(frozen=True, eq=False)
class _Part:
    """Some places of a batch."""

    places: slice
    terms: slice
    values: NDArray[np.float32]
    ranks: Integers | int
    top_ids: Integers
    top_values: NDArray[np.float32]


@torch.inference_mode()
def _reduced(
    encoder: Encoder, layer: int, features: Tensor, place: Integers, entries: Integers, wanted: Wanted
) -> Iterator[_Part]:
    """Reduce places as many at a time as their logits fit into memory.

    Args:
        encoder: whose features they are.
        layer: of the features.
        features: ``[place, feature]``
        place: ``[term]`` ascending
        entries: ``[term]`` vocabulary numbers.
        wanted: what is asked for.
    """
    columns = wanted.vocabulary if wanted.needs_vocabulary else np.unique(entries)
    column = entries if columns is None else np.searchsorted(columns, entries)
    chosen = None if columns is None else torch.from_numpy(columns).to(features.device)
    n_columns = len(columns) if columns is not None else encoder.masked_head.n_entries
    step = max(1, _LOGITS_AT_ONCE // max(1, n_columns))
    for start in range(0, len(features), step):
        part = slice(start, start + step)
        terms = slice(*np.searchsorted(place, [start, start + step]).tolist())
        logits = encoder.vocabulary_logits(features[part], chosen, layer=layer).float()
        rows = torch.from_numpy(place[terms] - start).to(logits.device)
        own = logits[rows, torch.from_numpy(column[terms]).to(logits.device)]
        best = logits.topk(wanted.top, dim=1)
        ranks = _ranks(logits, rows, own) if wanted.ranks else 0
        values, top_values = own, best.values
        if wanted.normalized:
            total = logits.logsumexp(1)
            values, top_values = own - total[rows], best.values - total[:, None]
        found = best.indices.cpu().numpy()
        top_ids = found if columns is None else columns[found]
        yield _Part(part, terms, values.cpu().numpy(), ranks, top_ids, top_values.cpu().numpy())


def _ranks(logits: Tensor, rows: Tensor, own: Tensor) -> Integers:
    """``[term]`` one more than the entries that score higher; equal ones do not count."""
    # Mostly a place is asked for one term, and needs no copy of its logits.
    if torch.equal(rows, torch.arange(len(logits), device=rows.device)):
        return _n_above(logits, own).cpu().numpy() + 1
    step = max(1, _LOGITS_AT_ONCE // logits.shape[1])
    parts = [
        _n_above(logits[some], scores)
        for some, scores in zip(torch.split(rows, step), torch.split(own, step), strict=True)
    ]
    return torch.cat(parts).cpu().numpy() + 1


def _n_above(logits: Tensor, scores: Tensor) -> Tensor:
    """``[term]`` how many of each row's logits are above its score."""
    # Ones and zeros in float32 add up exactly, and several times faster than truth values.
    return torch.gt(logits, scores[:, None], out=torch.empty_like(logits)).sum(1).long()
