"""Choices between two words at a mask with states of one layer changed: does the model use the erased property?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, check_choices, refused
from bertology.causal._patching import Target, batches, halves_of_clusters, last_states, place_states, two_values
from bertology.encoders import Encoder
from bertology.readouts import ArrayFeatures, Erasure, fit_erasure, random_erasure

Floats = NDArray[np.float64]
Kind = Literal["masked", "visible"]
KINDS: tuple[Kind, ...] = ("masked", "visible")
"""Kinds of pieces. A mask represents its word in other directions than the word itself: each kind has an erasure."""
Key = TypeVar("Key")
_ALL_PLACES, _CAUSE_AND_MASK = "all", "subject and mask"


@dataclass(frozen=True)
class StateChange:
    """A change of the states of words in each layer; special tokens stay as they are."""

    erasures: Mapping[Kind, Erasure]
    """Erasures of masked and of visible pieces."""
    in_random_direction: int | None = None
    """Random seed; each state moves as far as the erasure would move it, in a direction drawn at random."""

    def __call__(self, state: Tensor, kinds: Mapping[Kind, Tensor], *, layer: int, batch: int = 0) -> Tensor:
        """``[window, piece, dim]`` states after the change."""
        changed = state.clone()
        for number, kind in enumerate(KINDS):
            chosen = kinds[kind].to(state.device)
            before = state[chosen]
            after = self.erasures[kind].layer(layer)(before)
            if self.in_random_direction is not None:
                seeds = np.random.SeedSequence((self.in_random_direction, layer, batch, number)).generate_state(1)
                random = torch.Generator().manual_seed(int(seeds[0]))
                drawn = torch.randn(before.shape, generator=random).to(before.device)
                length = (after - before).float().norm(dim=1, keepdim=True)
                after = (before + length * drawn / drawn.norm(dim=1, keepdim=True)).to(before.dtype)
            changed[chosen] = after
        return changed


@dataclass(frozen=True)
class Choices:
    """Right choices of the more probable of two words, in both texts of each pair."""

    layers: tuple[int, ...]
    places: tuple[str, ...]
    """Places whose states are changed: a single one, ``subject and mask``, or ``all``."""
    plain: Floats
    """``[pair]`` number of right choices of the two, nothing changed."""
    right: Mapping[str, Floats]
    """``[layer, place, pair]`` the same by name of the change; NaN where a pair has no such place."""
    clusters: tuple[str, ...]
    """``[pair]`` clusters that are resampled."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that do not fit the model, and why; they are in no array."""


def choose_changed(
    encoder: Encoder,
    pairs: Sequence[PatchPair],
    changes: Mapping[str, StateChange],
    *,
    layers: Sequence[int],
    places: Sequence[str] | None = None,
) -> Choices:
    """Choose between the two words of each pair, in both of its texts, with states of each layer changed.

    Args:
        encoder: a masked language model.
        pairs: such as those of :func:`agreement_pairs`.
        changes: changes by name.
        layers: each is changed by itself.
        places: places whose states are changed, such as ``subject`` and ``mask``; all words when left out.

    Raises:
        ClozeError: no pair fits the model, or a pair has one word alone.
    """
    kept, excluded = _fitting(encoder, pairs)
    ones = list(kept.values())

    def changed(name: str) -> _Change:
        def change(state: Tensor, layer: int, rows: Sequence[int], batch: int) -> Tensor:
            kinds = _kinds([ones[row] for row in rows], state.shape[1], places)
            return changes[name](state, kinds, layer=layer, batch=batch)

        return change

    plain, right = _choose(encoder, ones, tuple(layers), {name: changed(name) for name in changes})
    of_changes = {name: of_change[:, None] for name, of_change in right.items()}
    return Choices(tuple(layers), (_ALL_PLACES,), plain, of_changes, _clusters(pairs, kept), excluded)


_Change = Callable[[Tensor, int, Sequence[int], int], Tensor]
"""Function that changes states, given their layer, the pairs of their rows and the number of the batch."""


def _fitting(
    encoder: Encoder, pairs: Sequence[PatchPair]
) -> tuple[dict[int, AlignedPair], tuple[tuple[int, str], ...]]:
    """The pairs that fit the model by number, and the reasons why others do not."""
    check_choices(pairs)
    aligned = align_pairs(encoder, pairs, by_word=False)
    kept = {number: one for number, one in enumerate(aligned) if isinstance(one, AlignedPair)}
    if not kept:
        raise refused(pairs[0], str(aligned[0]))
    return kept, tuple((number, one) for number, one in enumerate(aligned) if isinstance(one, str))


def _clusters(pairs: Sequence[PatchPair], kept: Mapping[int, AlignedPair]) -> tuple[str, ...]:
    return tuple(pairs[number].cluster or f"pair {number}" for number in kept)


def _choose(
    encoder: Encoder, ones: Sequence[AlignedPair], layers: Sequence[int], changes: Mapping[Key, _Change]
) -> tuple[Floats, dict[Key, Floats]]:
    """``[pair]`` right choices as the model is, and by change ``[layer, pair]``; blocks below are computed once."""
    plain, top = np.zeros(len(ones)), encoder.n_layers
    right = {key: np.zeros((len(layers), len(ones))) for key in changes}
    for number, batch in enumerate(batches(encoder, ones, 2)):
        rows = [place for place in batch for _ in (0, 1)]
        some = [ones[row] for row in rows]
        ids = torch.from_numpy(np.stack([one.ids[row % 2] for row, one in enumerate(some)]))
        wanted = torch.tensor([one.candidates[:: 1 - 2 * (row % 2)] for row, one in enumerate(some)])
        target = Target(encoder, torch.tensor([one.mask for one in some]), wanted)
        states = encoder.hidden_states(ids, layers=sorted({*layers, top}))
        plain[batch] = _n_right(target(states[top]))
        for at, layer in enumerate(layers):
            for key, change in changes.items():
                state = change(states[layer], layer, rows, number)
                right[key][at, batch] = _n_right(target(last_states(encoder, ids, resumed=(layer, state))))
    return plain, right


def _n_right(differences: Tensor) -> Floats:
    """``[pair]`` how many of its two texts, which are neighbouring rows, have the right word above the other."""
    return np.asarray((differences > 0).double().reshape(-1, 2).sum(1).numpy())


def _kinds(rows: Sequence[AlignedPair], length: int, places: Sequence[str] | None) -> dict[Kind, Tensor]:
    masked, visible = (torch.zeros(len(rows), length, dtype=torch.bool) for _ in (0, 1))
    for row, one in enumerate(rows):
        for name, pieces in one.places.items():
            if name != SPECIAL and (places is None or name in places):
                visible[row, torch.from_numpy(pieces)] = True
        masked[row, one.mask] = visible[row, one.mask]
        visible[row, one.mask] = False
    return {"masked": masked, "visible": visible}


def choose_erased(encoder: Encoder, pairs: Sequence[PatchPair], *, layers: Sequence[int], seed: int = 0) -> Choices:
    """Choose between the two words of pairs once their values, such as singular and plural, are erased from a layer.

    Least-squares concept erasure (LEACE; Belrose et al. 2023) is fitted for each layer and place to the texts of one
    half of the clusters, and applied to those of the other half. The label of every word of a text is the value of the
    text: where the subject is plural, the article is too, whatever it shows. Special tokens stay as they are. The
    control removes as many random directions from the same states.

    Args:
        encoder: a masked language model.
        pairs: with two values, such as those of :func:`agreement_pairs`; those that do not fit the model are left out.
        layers: each is changed by itself, 0 for the embeddings.
        seed: random seed of the directions.

    Raises:
        ClozeError: no pair fits the model, pairs have other than two values, all are of one cluster, or a pair has one
            word alone.
    """
    layers = tuple(layers)
    kept, excluded = _fitting(encoder, pairs)
    ones = list(kept.values())
    half = list(halves_of_clusters(pairs, kept).values())
    erasures = _fit(encoder, pairs, kept, half, layers)
    random = {key: random_erasure(one, seed=seed + number) for number, (key, one) in enumerate(erasures.items())}
    singles = tuple(dict.fromkeys(name for one in ones for name in one.places if name != SPECIAL))
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in singles}
    if {"subject", "mask"} <= set(singles):
        sets[_CAUSE_AND_MASK] = ("subject", "mask")
    sets[_ALL_PLACES] = singles

    def changed(of_places: _OF_PLACES, members: Sequence[str]) -> _Change:
        def change(state: Tensor, layer: int, rows: Sequence[int], _: int) -> Tensor:
            return _erased(state, layer, [ones[row] for row in rows], [half[row] for row in rows], of_places, members)

        return change

    named = {"erased": erasures, "random": random}
    changes = {(name, place): changed(named[name], members) for name in named for place, members in sets.items()}
    plain, found = _choose(encoder, ones, layers, changes)
    has_place = np.array([[bool({*members} & {*one.places}) for one in ones] for members in sets.values()])
    right = {name: np.stack([found[name, place] for place in sets], axis=1) for name in named}
    right = {name: np.where(has_place, of_change, np.nan) for name, of_change in right.items()}
    return Choices(layers, tuple(sets), plain, right, _clusters(pairs, kept), excluded)


_OF_PLACES = Mapping[tuple[int, str], Erasure]
"""Erasures by half of the clusters that they are fitted to, and place."""


def _fit(
    encoder: Encoder,
    pairs: Sequence[PatchPair],
    kept: Mapping[int, AlignedPair],
    half: Sequence[int],
    layers: tuple[int, ...],
) -> _OF_PLACES:
    """Erasures of the value of a text from the states of each place, all layers at once."""
    values, numbers = two_values(pairs, kept), list(kept)
    vectors: dict[tuple[int, str], list[Tensor]] = defaultdict(list)
    labels: dict[tuple[int, str], list[int]] = defaultdict(list)
    for at, side, name, states in place_states(encoder, list(kept.values()), layers):
        if name != SPECIAL:
            vectors[half[at], name].append(states)
            labels[half[at], name] += [values.index(pairs[numbers[at]].values[side])] * states.shape[1]
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
