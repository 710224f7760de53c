"""Masked inputs through a model, and out of it only what was asked: scores of entries, ranks, the best few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertology._workers import Workers
from bertology.cloze._prompts import Floats, Integers
from bertology.encoders.batching import padded_inputs, pieces_in_batch, plan_batches

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_INPUTS_AT_ONCE = 8192
"""So many inputs are sorted by length and read together; memory does not grow beyond them."""
_LOGITS_AT_ONCE = 1 << 22

Text = TypeVar("Text")


class Questions:
    """Distinct inputs with masks, distinct places in them, and vocabulary entries there, to be read together."""

    def __init__(self) -> None:
        self.inputs: list[Integers] = []  # distinct ones, special tokens included
        self.slots: list[int] = []  # [term] number of the answer that it is part of
        self.masks: list[tuple[int, int]] = []  # places whose best entries are wanted, each with the number of its mask
        self.n_texts = 0
        self._known: dict[bytes, int] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._terms: list[tuple[int, int]] = []

    def place(self, ids: Sequence[int], piece: int) -> int:
        """The number of a place: one piece of an input."""
        array = np.asarray(ids, dtype=np.int64)
        number = self._known.setdefault(array.tobytes(), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(array)
        return self._places.setdefault((number, piece), len(self._places))

    def term(self, ids: Sequence[int], piece: int, entry: int, *, slot: int = 0) -> None:
        """Add a term: the score of an entry at a piece of an input, for the answer with number ``slot``."""
        self._terms.append((self.place(ids, piece), entry))
        self.slots.append(slot)

    @property
    def places(self) -> Integers:
        """``[place, 2]`` input and piece."""
        return np.array(list(self._places), dtype=np.int64).reshape(-1, 2)

    @property
    def terms(self) -> Integers:
        """``[term, 2]`` place and vocabulary entry."""
        return np.array(self._terms, dtype=np.int64).reshape(-1, 2)


def question_batches(texts: Iterable[Text], add: Callable[[Questions, Text], None]) -> Iterator[Questions]:
    """Questions about enough texts to be read together, each added whole; the last ones may be fewer, or none."""
    questions = Questions()
    for text in texts:
        add(questions, text)
        questions.n_texts += 1
        if len(questions.inputs) >= _INPUTS_AT_ONCE:
            yield questions
            questions = Questions()
    yield questions


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is taken from the distribution at each place."""

    layers: tuple[int, ...]
    normalized: bool = True  # log-probabilities; logits if not, which saves the sum over the vocabulary
    ranks: bool = False
    top: int = 0  # number of the best entries
    vocabulary: Integers | None = None  # [entry] ascending: those that the distribution is over; None for all
    pieces: int | None = None  # in a batch; None for as many as suit the device


def chosen_layers(encoder: Encoder, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Ascending, each once; the last one when left out."""
    return (encoder.n_layers,) if layers is None else tuple(sorted(set(layers)))


@dataclass(frozen=True, eq=False)
class Read:
    """What was taken from the distributions."""

    values: Floats  # [layer, term]
    ranks: Integers  # [layer, term]; 0 unless requested
    top_ids: Integers  # [layer, place, k]
    top_values: Floats  # [layer, place, k]


def read_questions(encoder: Encoder, questions: Questions, wanted: Wanted) -> Read:
    """Read all inputs, in batches of about the same length; memory is that of a batch and of a few million logits."""
    n_layers, places, terms = len(wanted.layers), questions.places, questions.terms
    read = Read(
        values=np.empty((n_layers, len(terms))),
        ranks=np.zeros((n_layers, len(terms)), dtype=np.int64),
        top_ids=np.empty((n_layers, len(places), wanted.top), dtype=np.int64),
        top_values=np.empty((n_layers, len(places), wanted.top)),
    )
    places_of = _members(places[:, 0], len(questions.inputs))
    terms_of = _members(terms[:, 0], len(places))
    lengths = np.array([len(ids) for ids in questions.inputs], dtype=np.int64)
    batches = plan_batches(lengths, pieces=wanted.pieces or pieces_in_batch(encoder.device))
    free: SimpleQueue[Encoder] = SimpleQueue()

    def take(number: int) -> None:
        batch, reader = batches[number], free.get()
        try:
            chosen, row = places_of(batch.windows)
            of_term, place = terms_of(chosen)
            ids, mask = padded_inputs([questions.inputs[window] for window in batch.windows], batch, reader.pad_id)
            positions = torch.from_numpy(np.stack([row, places[chosen, 1]], axis=1))
            features = reader.masked_features(ids, positions, attention_mask=mask, layers=wanted.layers)
            for number, layer in enumerate(wanted.layers):
                for some, of_some, part in _reduced(reader, layer, features[layer], place, terms[of_term, 1], wanted):
                    read.values[number, of_term[of_some]] = part.values
                    read.ranks[number, of_term[of_some]] = part.ranks
                    read.top_ids[number, chosen[some]] = part.top_ids
                    read.top_values[number, chosen[some]] = part.top_values
        finally:
            free.put(reader)

    # A batch on each core, rather than every operation on all of them.
    most = 1 if encoder.is_gated else len(batches) or 1
    with Workers(torch.device(encoder.device), most=most) as workers:
        for each in (encoder, *(encoder.twin() for _ in range(workers.n - 1))):
            free.put(each)
        workers.map(take, len(batches))
    return read


def _members(group: Integers, n_groups: int) -> Callable[[Integers], tuple[Integers, Integers]]:
    """A function from numbers of groups to their members and, of each, the place of its group among those numbers; made
    of the group ``[member]`` of each."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(n_groups + 1))

    def of(groups: Integers) -> tuple[Integers, Integers]:
        counts = starts[groups + 1] - starts[groups]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[np.repeat(starts[groups], counts) + within], np.repeat(np.arange(len(groups)), counts)

    return of


@torch.inference_mode()
def _reduced(
    encoder: Encoder, layer: int, features: Tensor, place: Integers, entries: Integers, wanted: Wanted
) -> Iterator[tuple[slice, slice, Read]]:
    """Some places, as many as their logits fit into memory, their terms, and what is taken of both in one layer; of
    ``[place, feature]`` features, and of each term its place, ascending, and its vocabulary entry."""
    needs_vocabulary = wanted.normalized or wanted.ranks or wanted.top > 0
    columns = wanted.vocabulary if needs_vocabulary else np.unique(entries)
    column = entries if columns is None else np.searchsorted(columns, entries)
    chosen = None if columns is None else torch.from_numpy(columns).to(features.device)
    n_columns = len(columns) if columns is not None else encoder.masked_head.n_entries
    step = max(1, _LOGITS_AT_ONCE // max(1, n_columns))
    for start in range(0, len(features), step):
        part = slice(start, start + step)
        terms = slice(*np.searchsorted(place, [start, start + step]).tolist())
        logits = encoder.vocabulary_logits(features[part], chosen, layer=layer).float()
        rows = torch.from_numpy(place[terms] - start).to(logits.device)
        scores = logits[rows, torch.from_numpy(column[terms]).to(logits.device)]
        best = logits.topk(wanted.top, dim=1)
        ranks = _ranks(logits, rows, scores) if wanted.ranks else np.zeros(1, dtype=np.int64)
        values, top_values = scores, best.values
        if wanted.normalized:
            total = logits.logsumexp(1)
            values, top_values = scores - total[rows], best.values - total[:, None]
        indices = best.indices.cpu().numpy()
        top_ids = indices if columns is None else columns[indices]
        yield part, terms, Read(values.cpu().double().numpy(), ranks, top_ids, top_values.cpu().double().numpy())


def _ranks(logits: Tensor, rows: Tensor, scores: Tensor) -> Integers:
    """``[term]`` one more than the entries that score higher; equal ones do not count."""
    # Mostly there is one term at a place, which needs no copy of its logits.
    if torch.equal(rows, torch.arange(len(logits), device=rows.device)):
        return _n_above(logits, scores).cpu().numpy() + 1
    step = max(1, _LOGITS_AT_ONCE // logits.shape[1])
    parts = zip(torch.split(rows, step), torch.split(scores, step), strict=True)
    return torch.cat([_n_above(logits[some], of_some) for some, of_some in parts]).cpu().numpy() + 1


def _n_above(logits: Tensor, scores: Tensor) -> Tensor:
    """``[term]`` how many of each row's logits are above its score."""
    # Ones and zeros in float32 add up exactly, and several times faster than truth values.
    return torch.gt(logits, scores[:, None], out=torch.empty_like(logits)).sum(1).long()
