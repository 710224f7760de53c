"""Where the states that are put into a text come from, other than from the other text of its pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.causal._pairs import AlignedPair, PatchPair
from bertology.causal._passes import batches_of_one_length
from bertology.encoders.batching import pieces_in_batch
from bertology.errors import ClozeError, listed

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Source = Literal["pair", "unrelated", "same_value", "mean_difference"]
SOURCES: tuple[str, ...] = get_args(Source)
MEAN_DIFFERENCE: Source = "mean_difference"
_N_VALUES = 2


class NoOtherTextError(ClozeError):
    """No pair has a text of another cluster with the value that is wanted."""


def donors(
    pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair], side: int, *, seed: int = 0
) -> dict[int, NDArray[np.int64]]:
    """A text of another cluster for each pair that has one: as long, each place in the same pieces, the same value.

    Where the texts of the pair differ it has other words than the text of that value: with the same words there would
    be nothing to find out.

    Args:
        pairs: all of them.
        aligned: by number those that fit the model.
        side: whose value is wanted: 0 that of the text, 1 that of the other one.
        seed: of the choice.

    Returns:
        The pieces of the text chosen, by number of the pair.

    Raises:
        NoOtherTextError: there is none for any pair.
        ClozeError: pairs have no values.
    """
    if not all(all(pairs[number].values) for number in aligned):
        raise ClozeError("pairs without values of what decides, such as singular and plural: give each its values")
    by_layout: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for number, one in aligned.items():
        for of in (0, 1):
            by_layout[_layout(one), pairs[number].values[of]].append((number, of))
    random = np.random.default_rng(seed)
    chosen = {}
    for number, one in aligned.items():
        differ = one.ids[0] != one.ids[1]
        of_others = [
            aligned[donor].ids[of]
            for donor, of in by_layout[_layout(one), pairs[number].values[side]]
            if _cluster(pairs, donor) != _cluster(pairs, number)
        ]
        of_others = [ids for ids in of_others if (ids != one.ids[side])[differ].any()]
        if of_others:
            chosen[number] = of_others[int(random.integers(len(of_others)))]
    if aligned and not chosen:
        raise NoOtherTextError("no pair has a text of another cluster with its words in the same places and its value")
    return chosen


def _layout(pair: AlignedPair) -> object:
    return len(pair.ids[0]), pair.mask, tuple((name, tuple(pieces.tolist())) for name, pieces in pair.places.items())


def _cluster(pairs: Sequence[PatchPair], number: int) -> object:
    return pairs[number].cluster or number


def two_values(pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair]) -> list[str]:
    """The two values that pairs have of what decides.

    Raises:
        ClozeError: there are not just two.
    """
    values = sorted({value for number in aligned for value in pairs[number].values})
    if len(values) != _N_VALUES or not all(values):
        raise ClozeError(f"{len(values)} values of what decides ({listed(values)}): there should be two")
    return values


def halves_of_clusters(pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair]) -> dict[int, int]:
    """By number of the pair 0 or 1: what is fitted to the texts of one half of the clusters is applied to the other.

    Raises:
        ClozeError: all pairs are of one cluster.
    """
    clusters = list(dict.fromkeys(_cluster(pairs, number) for number in aligned))
    if len(clusters) < _N_VALUES:
        raise ClozeError("all pairs are of one cluster: what changes a text is fitted to those of other clusters")
    half = {cluster: place % 2 for place, cluster in enumerate(clusters)}
    return {number: half[_cluster(pairs, number)] for number in aligned}


class MeanDifferences:
    """Differences between the mean states of texts of two values, by layer, place and half of the clusters."""

    def __init__(
        self,
        encoder: Encoder,
        pairs: Sequence[PatchPair],
        aligned: Mapping[int, AlignedPair],
        source: int,
        base: int,
        layers: Sequence[int],
    ) -> None:
        """Read all texts once.

        Raises:
            ClozeError: there are not just two values, or all pairs are of one cluster.
        """
        values = two_values(pairs, aligned)
        self._half = halves_of_clusters(pairs, aligned)
        self._sign = {number: 1.0 if pairs[number].values[source] == values[1] else -1.0 for number in aligned}
        self._aligned, self._layers, self._base = aligned, tuple(layers), base
        self._sums: dict[tuple[int, str, int], Tensor] = {}  # of half, place and value
        self._counts: dict[tuple[int, str, int], int] = defaultdict(int)
        numbers = list(aligned)
        lengths = [len(aligned[number].ids[0]) for number in numbers]
        for batch in batches_of_one_length(lengths, 1, pieces_in_batch(encoder.device)):
            for side in (0, 1):
                ids = torch.from_numpy(np.stack([aligned[numbers[place]].ids[side] for place in batch]))
                states = encoder.hidden_states(ids, layers=self._layers)
                stacked = torch.stack([states[layer] for layer in self._layers], dim=1).cpu().double()
                for row, place in enumerate(batch):
                    number = numbers[place]
                    self._add(number, values.index(pairs[number].values[side]), stacked[row])

    def _add(self, number: int, value: int, states: Tensor) -> None:
        for name, pieces in self._aligned[number].places.items():
            key = self._half[number], name, value
            mean = states[:, torch.from_numpy(pieces)].mean(1)
            self._sums[key] = self._sums[key] + mean if key in self._sums else mean
            self._counts[key] += 1

    def shifts(self, numbers: Sequence[int]) -> dict[int, Tensor]:
        """``[pair, piece, dim]`` by layer how far each piece of the texts that are patched is moved."""
        rows = []
        for number in numbers:
            one, half = self._aligned[number], 1 - self._half[number]
            dim = next(iter(self._sums.values())).shape[-1]
            shift = torch.zeros(len(self._layers), len(one.ids[self._base]), dim, dtype=torch.float64)
            for name, pieces in one.places.items():
                low, high = ((half, name, value) for value in (0, 1))
                if low in self._sums and high in self._sums:
                    move = self._sums[high] / self._counts[high] - self._sums[low] / self._counts[low]
                    shift[:, torch.from_numpy(pieces)] = (self._sign[number] * move)[:, None]
            rows.append(shift)
        stacked = torch.stack(rows)
        return {layer: stacked[:, place] for place, layer in enumerate(self._layers)}
