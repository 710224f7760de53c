"""Interchange interventions: states of one text put into the forward pass over another, place by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import name_not_found
from bertology.causal._map import PatchingMap
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, refused
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import SITES, Change, Intervention, Site, intervening, starting_from
from bertology.errors import ClozeError, ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Direction = Literal["denoise", "noise"]
_ALL_PIECES = "all"


def patch(
    encoder: Encoder,
    pairs: PatchPair | Sequence[PatchPair],
    *,
    site: Site = "hidden_state",
    layers: Sequence[int] | None = None,
    direction: Direction = "denoise",
    by_word: bool | None = None,
) -> PatchingMap:
    """Which states carry what decides between two words at a mask: layer × place, or layer × head.

    For each layer and place the pass over one text goes on with the states of the other text at that place alone
    (Vig et al. 2020; Geiger et al. 2021; Meng et al. 2022, section 2). Blocks below the layer are computed once.

    Args:
        encoder: a masked language model.
        pairs: one or several; of several, those that do not fit the model are left out and listed.
        site: what is exchanged; with ``head`` the output of each head at all pieces, so that places are heads.
        layers: all when left out: from 0 for hidden states, else from 1.
        direction: ``denoise`` puts states of ``text`` into the pass over ``other``, ``noise`` the other way round.
        by_word: each word is a place of its own; that is so of one pair when left out.

    Raises:
        ClozeError: no pair fits the model.
        ModelError: no masked-LM head, a layer that the model does not have, or a site that is not known of its family.
        NameNotFoundError: no such site or direction.
    """
    if site not in SITES:
        raise name_not_found("site of an intervention", site, SITES)
    if direction not in ("denoise", "noise"):
        raise name_not_found("direction of patching", direction, ("denoise", "noise"))
    if encoder.is_gated:
        raise ModelError("heads are gated: patch outside of gated_heads")
    encoder.masked_head  # noqa: B018 - raises where there is none
    asked = [pairs] if isinstance(pairs, PatchPair) else list(pairs)
    if not asked:
        raise ClozeError("no pair: give at least one")
    lowest = 0 if site == "hidden_state" else 1
    chosen = tuple(range(lowest, encoder.n_layers + 1)) if layers is None else tuple(layers)
    for layer in chosen:
        Intervention(layer, _same, site).check(n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    by_word = len(asked) == 1 if by_word is None else by_word
    aligned = align_pairs(encoder, asked, by_word=by_word)
    excluded = tuple((number, one) for number, one in enumerate(aligned) if isinstance(one, str))
    kept = [(number, one) for number, one in enumerate(aligned) if not isinstance(one, str)]
    if not kept:
        raise refused(asked[excluded[0][0]], excluded[0][1])
    columns = [_columns(one, site, encoder.n_heads) for _, one in kept]
    names = tuple(dict.fromkeys(name for of_pair in columns for name in of_pair))
    last = tuple(name for name in (SPECIAL, _ALL_PIECES) if name in names)
    names = tuple(name for name in names if name not in last) + last
    changes, whole = np.full((len(chosen), len(names), len(kept)), np.nan), np.empty(len(kept))
    for numbers in _batches([len(one.ids[0]) for _, one in kept], len(names), pieces_in_batch(encoder.device)):
        some = [kept[number][1] for number in numbers]
        passes = _Passes(encoder, some, site, direction)
        whole[numbers] = passes.whole
        for place, layer in enumerate(chosen):
            of_pair = passes.changes(layer, [columns[number] for number in numbers])
            for number, effects in zip(numbers, of_pair, strict=True):
                for name, change in effects.items():
                    changes[place, names.index(name), number] = change
    clusters = tuple(asked[number].cluster or f"pair {number}" for number, _ in kept)
    return PatchingMap(encoder.source.title, site, direction, chosen, names, changes, whole, clusters, excluded)


def _same(state: Tensor) -> Tensor:
    return state


def _columns(pair: AlignedPair, site: Site, n_heads: int) -> Mapping[str, tuple[int | None, NDArray[np.int64]]]:
    """By name of the column the head, if any, and the pieces that are exchanged."""
    every = np.arange(len(pair.ids[0]))
    if site == "head":
        return {f"H{head}": (head, every) for head in range(1, n_heads + 1)}
    places = {name: (None, pieces) for name, pieces in pair.places.items()}
    return {**places, _ALL_PIECES: (None, every)}


def _batches(lengths: Sequence[int], n_places: int, most: int) -> Iterator[list[int]]:
    """Numbers of pairs of one length, as many as fill a batch when each has a row for every place."""
    by_length: dict[int, list[int]] = {}
    for number, length in enumerate(lengths):
        by_length.setdefault(length, []).append(number)
    for length, numbers in by_length.items():
        size = max(1, most // (length * max(n_places, 1)))
        yield from (numbers[start : start + size] for start in range(0, len(numbers), size))


class _Passes:
    """The plain passes over both texts of some pairs of one length, and patched ones that start from them."""

    def __init__(self, encoder: Encoder, pairs: Sequence[AlignedPair], site: Site, direction: Direction) -> None:
        self._encoder, self._site = encoder, site
        source, base = (0, 1) if direction == "denoise" else (1, 0)
        ids = [torch.from_numpy(np.stack([pair.ids[side] for pair in pairs])) for side in (source, base)]
        self._ids = ids[1]
        self._mask = torch.tensor([pair.mask for pair in pairs])
        self._candidates = torch.tensor([pair.candidates for pair in pairs])
        rows = torch.arange(len(pairs))
        self._of_source: dict[int, Tensor] = {}
        states_of_source, self._states = (
            self._plain(side, keep) for side, keep in zip(ids, (True, False), strict=True)
        )
        if site == "hidden_state":
            self._of_source = states_of_source
        last = encoder.n_layers
        self._base = self._difference(self._states[last], rows)
        self.whole = (self._difference(states_of_source[last], rows) - self._base).numpy()
        """``[pair]`` what the whole source text changes."""

    def _plain(self, ids: Tensor, keep: bool) -> dict[int, Tensor]:
        """Hidden states of every layer, and for the source what the site holds."""
        encoder = self._encoder
        observed: list[Intervention] = []
        if keep and self._site != "hidden_state":
            observed = [Intervention(layer, self._keep(layer), self._site) for layer in range(1, encoder.n_layers + 1)]
        with self._intervening(observed):
            return encoder.hidden_states(ids, layers=range(encoder.n_layers + 1))

    def _intervening(self, interventions: Sequence[Intervention]) -> AbstractContextManager[None]:
        encoder = self._encoder
        body, blocks = encoder.model.body, encoder.model.blocks
        return intervening(body, blocks, interventions, n_heads=encoder.n_heads, family=encoder.family)

    def _keep(self, layer: int) -> Change:
        def keep(values: Tensor) -> Tensor:
            self._of_source[layer] = values.clone()
            return values

        return keep

    def _difference(self, last: Tensor, rows: Tensor) -> Tensor:
        """``[row]`` by how much the first word is above the second at the mask, from states of the last layer."""
        encoder, places = self._encoder, self._mask[rows]
        entries, index = torch.unique(self._candidates[rows], return_inverse=True)
        with torch.inference_mode():
            features = encoder.masked_head.features(last[torch.arange(len(rows)), places])
        logits = encoder.vocabulary_logits(features, entries.to(features.device), layer=encoder.n_layers)
        chosen = logits.cpu().double().gather(1, index)
        return chosen[:, 0] - chosen[:, 1]

    def changes(
        self, layer: int, columns: Sequence[Mapping[str, tuple[int | None, NDArray[np.int64]]]]
    ) -> list[dict[str, float]]:
        """Of each pair by column what patching it at a layer changes."""
        encoder = self._encoder
        cells = [(row, name, head, pieces) for row, some in enumerate(columns) for name, (head, pieces) in some.items()]
        rows, source = torch.tensor([row for row, *_ in cells]), self._of_source[layer]
        is_patched = torch.zeros(len(cells), *source.shape[1:], dtype=torch.bool)
        width = source.shape[2] // encoder.n_heads
        for number, (_, _, head, pieces) in enumerate(cells):
            dims = slice(None) if head is None else slice((head - 1) * width, head * width)
            is_patched[number, torch.from_numpy(pieces), dims] = True
        is_patched, source = is_patched.to(source.device), source[rows]
        is_state = self._site == "hidden_state"
        begin = layer if is_state else layer - 1
        start = self._states[begin][rows]
        if is_state:
            start = torch.where(is_patched, source, start)
        exchange = Intervention(layer, lambda values: torch.where(is_patched, source, values), self._site)
        with (
            starting_from(encoder.model.body, encoder.model.blocks, begin, start),
            self._intervening([] if is_state else [exchange]),
        ):
            last = encoder.hidden_states(self._ids[rows], layers=(encoder.n_layers,))[encoder.n_layers]
        change = self._difference(last, rows) - self._base[rows]
        found: list[dict[str, float]] = [{} for _ in columns]
        for (row, name, _, _), value in zip(cells, change.tolist(), strict=True):
            found[row][name] = value
        return found
