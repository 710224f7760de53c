"""Choices between two words with what decides erased from the states of some places: does the model use it there?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.causal._choices import number_right
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, check_choices, refused
from bertology.causal._passes import batches_of_one_length
from bertology.causal._sources import halves_of_clusters, two_values
from bertology.encoders import Encoder
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import starting_from
from bertology.readouts import ArrayFeatures, Erasure, fit_erasure, random_erasure

Floats = NDArray[np.float64]
_OF_PLACES = dict[tuple[int, str], Erasure]
"""By half of the clusters that it is fitted to, and place."""
ALL_PLACES = "all"
CAUSE_AND_MASK = "subject and mask"


@dataclass(frozen=True)
class ErasedPlaces:
    """Whether the right word is still the more probable one; both texts of a pair are asked."""

    layers: tuple[int, ...]
    places: tuple[str, ...]
    """What is erased from: a single place, ``subject and mask``, or ``all``."""
    plain: Floats
    """``[pair]`` number of right choices of the two, nothing erased."""
    right: Mapping[str, Floats]
    """``[layer, place, pair]`` the same by change, ``erased`` or ``random``; NaN where a pair has no such place."""
    clusters: tuple[str, ...]
    """``[pair]`` what is resampled together."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that do not fit the model, and why; they are in no array."""


def choose_erased(
    encoder: Encoder, pairs: Sequence[PatchPair], *, layers: Sequence[int], seed: int = 0
) -> ErasedPlaces:
    """Choose between the two words of pairs once their values, such as singular and plural, are erased from a layer.

    Least-squares concept erasure (LEACE; Belrose et al. 2023) is fitted for each layer and place to the texts of one
    half of the clusters, and applied to those of the other half. The label of every word of a text is the value of the
    text: where the subject is plural, the article is too, whatever it shows. Special tokens stay as they are. The
    control removes as many random directions from the same states.

    Args:
        encoder: a masked language model.
        pairs: with two values, such as those of :func:`agreement_pairs`; those that do not fit the model are left out.
        layers: each is changed by itself, 0 for the embeddings.
        seed: of the random directions.

    Raises:
        ClozeError: no pair fits the model, pairs have other than two values, all are of one cluster, or a pair has one
            word alone.
    """
    layers = tuple(layers)
    check_choices(pairs)
    aligned = align_pairs(encoder, pairs, by_word=False)
    kept = {number: one for number, one in enumerate(aligned) if isinstance(one, AlignedPair)}
    if not kept:
        raise refused(pairs[0], str(aligned[0]))
    half = halves_of_clusters(pairs, kept)
    erasures = _fit(encoder, pairs, kept, half, layers)
    changes = {
        "erased": erasures,
        "random": {key: random_erasure(one, seed=seed + number) for number, (key, one) in enumerate(erasures.items())},
    }
    singles = tuple(dict.fromkeys(name for one in kept.values() for name in one.places if name != SPECIAL))
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in singles}
    if {"subject", "mask"} <= set(singles):
        sets[CAUSE_AND_MASK] = ("subject", "mask")
    sets[ALL_PLACES] = singles
    plain = np.zeros(len(kept))
    right = {name: np.full((len(layers), len(sets), len(kept)), np.nan) for name in changes}
    numbers, top = list(kept), encoder.n_layers
    lengths = [len(kept[number].ids[0]) for number in numbers]
    for batch in batches_of_one_length(lengths, 2, pieces_in_batch(encoder.device)):
        some = [numbers[place] for place in batch for _ in (0, 1)]
        ids = torch.from_numpy(np.stack([kept[number].ids[row % 2] for row, number in enumerate(some)]))
        columns = torch.tensor([kept[number].mask for number in some])
        wanted = torch.tensor([kept[n].candidates[:: 1 - 2 * (row % 2)] for row, n in enumerate(some)])
        states = encoder.hidden_states(ids, layers=sorted({*layers, top}))
        plain[batch] = number_right(encoder, states[top], columns, wanted)
        for (name, change), (at, layer) in ((c, a) for c in changes.items() for a in enumerate(layers)):
            for place, members in enumerate(sets.values()):
                state = _erased(states[layer], layer, [kept[n] for n in some], [half[n] for n in some], change, members)
                with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                    last = encoder.hidden_states(ids, layers=(top,))[top]
                has_place = [bool(set(members) & set(kept[number].places)) for number in some[::2]]
                found = number_right(encoder, last, columns, wanted)
                right[name][at, place, batch] = np.where(has_place, found, np.nan)
    clusters = tuple(pairs[number].cluster or f"pair {number}" for number in kept)
    excluded = tuple((number, one) for number, one in enumerate(aligned) if isinstance(one, str))
    return ErasedPlaces(layers, tuple(sets), plain, right, clusters, excluded)


def _fit(
    encoder: Encoder,
    pairs: Sequence[PatchPair],
    kept: Mapping[int, AlignedPair],
    half: Mapping[int, int],
    layers: tuple[int, ...],
) -> _OF_PLACES:
    """Erasures of the value of a text from the states of each place, all layers at once."""
    values = two_values(pairs, kept)
    vectors: dict[tuple[int, str], list[Tensor]] = defaultdict(list)
    labels: dict[tuple[int, str], list[int]] = defaultdict(list)
    numbers = list(kept)
    lengths = [len(kept[number].ids[0]) for number in numbers]
    for batch in batches_of_one_length(lengths, 1, pieces_in_batch(encoder.device)):
        for side in (0, 1):
            ids = torch.from_numpy(np.stack([kept[numbers[place]].ids[side] for place in batch]))
            states = encoder.hidden_states(ids, layers=layers)
            stacked = torch.stack([states[layer].float().cpu() for layer in layers])  # [layer, pair, piece, dim]
            for row, place in enumerate(batch):
                number = numbers[place]
                for name, pieces in kept[number].places.items():
                    if name != SPECIAL:
                        vectors[half[number], name].append(stacked[:, row, torch.from_numpy(pieces)])
                        labels[half[number], name] += [values.index(pairs[number].values[side])] * len(pieces)
    return {
        key: fit_erasure(ArrayFeatures(torch.cat(some, dim=1), layers=layers), np.array(labels[key]), len(values))
        for key, some in vectors.items()
    }


def _erased(
    state: Tensor,
    layer: int,
    rows: Sequence[AlignedPair],
    half: Sequence[int],
    erasures: _OF_PLACES,
    members: Sequence[str],
) -> Tensor:
    """``[row, piece, dim]`` without the value at some places, by the erasures of the other half of the clusters."""
    changed = state.clone()
    for name in members:
        for of_half in (0, 1):
            at = [
                (row, piece)
                for row, one in enumerate(rows)
                if half[row] == of_half and name in one.places
                for piece in one.places[name].tolist()
            ]
            if at and (1 - of_half, name) in erasures:
                index = torch.tensor(at).unbind(1)
                changed[index] = erasures[1 - of_half, name].layer(layer)(changed[index])
    return changed
