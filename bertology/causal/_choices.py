"""Choices between two words at a mask with the states of one layer changed: does the erased property decide?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.causal._erased_predictions import StateChange
from bertology.causal._masked_states import Kind
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, check_choices, refused
from bertology.causal._passes import batches_of_one_length
from bertology.encoders import Encoder
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import starting_from

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ChangedChoices:
    """Whether the word that a text calls for is the more probable one; both texts of a pair are asked."""

    plain: Floats
    """``[1, pair]`` number of right choices of the two, as the model is."""
    changed: Mapping[str, Floats]
    """``[layer, pair]`` by name of the change."""
    clusters: NDArray[np.int64]
    """``[pair]`` numbers of what is resampled together."""
    n_excluded: int
    """Pairs that do not fit the model."""


def choose_changed(
    encoder: Encoder,
    pairs: Sequence[PatchPair],
    changes: Mapping[str, StateChange],
    *,
    layers: Sequence[int],
    places: Sequence[str] | None = None,
) -> ChangedChoices:
    """Choose between the two words of each pair, in both of its texts, with states of each layer changed.

    Args:
        encoder: a masked language model.
        pairs: such as those of :func:`agreement_pairs`.
        changes: by name.
        layers: each is changed by itself.
        places: whose states are changed, such as ``subject`` and ``mask``; those of all words when left out.

    Raises:
        ClozeError: no pair fits the model, or a pair has one word alone.
    """
    check_choices(pairs)
    aligned = align_pairs(encoder, pairs, by_word=False)
    kept = [(number, one) for number, one in enumerate(aligned) if isinstance(one, AlignedPair)]
    if not kept:
        raise refused(pairs[0], str(aligned[0]))
    names = [pairs[number].cluster or f"pair {number}" for number, _ in kept]
    clusters = np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)
    plain = np.zeros((1, len(kept)))
    changed = {name: np.zeros((len(layers), len(kept))) for name in changes}
    top = encoder.n_layers
    lengths = [len(one.ids[0]) for _, one in kept]
    for batch, numbers in enumerate(batches_of_one_length(lengths, 2, pieces_in_batch(encoder.device))):
        some = [kept[number][1] for number in numbers for _ in (0, 1)]
        ids = torch.from_numpy(np.stack([one.ids[side] for one in some[::2] for side in (0, 1)]))
        columns = torch.tensor([one.mask for one in some])
        wanted = torch.tensor([one.candidates[:: 1 - 2 * (row % 2)] for row, one in enumerate(some)])
        kinds = _kinds(some, ids.shape[1], places)
        states = encoder.hidden_states(ids, layers=sorted({*layers, top}))
        plain[0, numbers] = number_right(encoder, states[top], columns, wanted)
        for place, layer in enumerate(layers):
            for name, change in changes.items():
                state = change(states[layer], kinds, layer=layer, batch=batch)
                with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                    last = encoder.hidden_states(ids, layers=(top,))[top]
                changed[name][place, numbers] = number_right(encoder, last, columns, wanted)
    return ChangedChoices(plain, changed, clusters, len(pairs) - len(kept))


def _kinds(rows: Sequence[AlignedPair], length: int, places: Sequence[str] | None) -> dict[Kind, torch.Tensor]:
    masked, visible = (torch.zeros(len(rows), length, dtype=torch.bool) for _ in (0, 1))
    for row, one in enumerate(rows):
        for name, pieces in one.places.items():
            if name != SPECIAL and (places is None or name in places):
                visible[row, torch.from_numpy(pieces)] = True
        masked[row, one.mask] = visible[row, one.mask]
        visible[row, one.mask] = False
    return {"masked": masked, "visible": visible}


def number_right(encoder: Encoder, last: torch.Tensor, columns: torch.Tensor, wanted: torch.Tensor) -> Floats:
    """``[pair]`` how many of its two texts, which are neighbouring rows, have the right word above the other."""
    entries, index = torch.unique(wanted, return_inverse=True)
    with torch.inference_mode():
        features = encoder.masked_head.features(last[torch.arange(len(last)), columns.to(last.device)])
    logits = encoder.vocabulary_logits(features, entries.to(features.device), layer=encoder.n_layers).cpu()
    chosen = logits.gather(1, index)
    return (chosen[:, 0] > chosen[:, 1]).double().reshape(-1, 2).sum(1).numpy()
