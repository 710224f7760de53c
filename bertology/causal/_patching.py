"""Interchange interventions: states of one text put into the forward pass over another, place by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from bertology._names import name_not_found
from bertology.causal._map import PatchingMap
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, refused
from bertology.causal._passes import Cell, LogitDifference, Passes, Score, WordProbability, batches_of_one_length
from bertology.causal._sources import MEAN_DIFFERENCE, SOURCES, MeanDifferences, Source, donors
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import SITES, Intervention, Site
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
    source: Source = "pair",
) -> PatchingMap:
    """Which states carry what decides about a word at a mask: layer × place, or layer × head.

    For each layer and place the pass over one text goes on with other states at that place alone (Vig et al. 2020;
    Geiger et al. 2021; Meng et al. 2022, section 2). Blocks below the layer are computed once.

    Args:
        encoder: a masked language model.
        pairs: one or several; of several, those that do not fit the model are left out and listed.
        site: what is exchanged; with ``head`` the output of each head at all pieces, so that places are heads.
        layers: all when left out: from 0 for hidden states, else from 1.
        direction: ``denoise`` puts states of ``text`` into the pass over ``other``, ``noise`` the other way round.
        by_word: each word is a place of its own; that is so of one pair when left out.
        source: where states come from. ``pair``: the other text of the pair. ``unrelated``: a text of another cluster
            that has the same value of what decides, such as a plural subject, its places where this one has them, and
            other words there.
            ``same_value``: such a text with the value of the text that is patched, so that nothing should change.
            ``mean_difference``: the text itself, moved by the difference of the mean states of texts of either value,
            of a half of the clusters that it is not in; of hidden states alone.

    Raises:
        ClozeError: no pair fits the model, or pairs do not have the values that ``source`` needs.
        ModelError: no masked-LM head, a layer that the model does not have, or a site that is not known of its family.
        NameNotFoundError: no such site, direction or source.
    """
    asked = [pairs] if isinstance(pairs, PatchPair) else list(pairs)
    chosen = _checked(encoder, asked, site, layers, direction, source)
    by_word = len(asked) == 1 if by_word is None else by_word
    aligned = align_pairs(encoder, asked, by_word=by_word)
    reasons = {number: one for number, one in enumerate(aligned) if isinstance(one, str)}
    kept = {number: one for number, one in enumerate(aligned) if not isinstance(one, str)}
    from_, into = (0, 1) if direction == "denoise" else (1, 0)
    sources = {number: one.ids[from_] for number, one in kept.items()}
    if source in ("unrelated", "same_value"):
        wanted = from_ if source == "unrelated" else into
        found = donors(asked, kept, wanted)
        without = "no other pair with its words in the same places has the same value"
        reasons |= {number: without for number in kept if number not in found}
        kept, sources = {number: kept[number] for number in found}, found
    if not kept:
        first = min(reasons)
        raise refused(asked[first], reasons[first])
    places = [_places(one, site, encoder.n_heads) for one in kept.values()]
    names = tuple(dict.fromkeys(cell.name for of_pair in places for cell in of_pair))
    last = tuple(name for name in (SPECIAL, _ALL_PIECES) if name in names)
    names = tuple(name for name in names if name not in last) + last
    moves = MeanDifferences(encoder, asked, kept, from_, into, chosen) if source == MEAN_DIFFERENCE else None
    numbers, ones = list(kept), list(kept.values())
    changes, whole, base = (
        np.full((len(chosen), len(names), len(kept)), np.nan),
        np.empty(len(kept)),
        np.empty(len(kept)),
    )
    for batch in batches_of_one_length([len(one.ids[0]) for one in ones], len(names), pieces_in_batch(encoder.device)):
        some = [ones[place] for place in batch]
        score = _score(encoder, some)
        own = torch.from_numpy(np.stack([one.ids[from_] for one in some]))
        base_ids = torch.from_numpy(np.stack([one.ids[into] for one in some]))
        source_ids = torch.from_numpy(np.stack([sources[numbers[place]] for place in batch]))
        passes = Passes(encoder, source_ids, base_ids, score, site=site)
        if source == "pair":
            of_own = passes.source_scores
        else:
            states = encoder.hidden_states(own, layers=(encoder.n_layers,))[encoder.n_layers]
            of_own = score(states, torch.arange(len(some)))
        if moves is not None:
            passes.move(moves.shifts([numbers[place] for place in batch]))
        base[batch], whole[batch] = passes.base_scores.numpy(), (of_own - passes.base_scores).numpy()
        cells = [replace(cell, row=row) for row, place in enumerate(batch) for cell in places[place]]
        for number, layer in enumerate(chosen):
            for cell, change in zip(cells, passes.changes(layer, cells).tolist(), strict=True):
                changes[number, names.index(cell.name), batch[cell.row]] = change
    of_map = tuple(asked[number] for number in kept)
    clusters = tuple(asked[number].cluster or f"pair {number}" for number in kept)
    excluded = tuple(sorted(reasons.items()))
    return PatchingMap(
        encoder.source.title, site, direction, source, chosen, names, changes, whole, base, of_map, clusters, excluded
    )


def _checked(
    encoder: Encoder,
    asked: Sequence[PatchPair],
    site: Site,
    layers: Sequence[int] | None,
    direction: Direction,
    source: Source,
) -> tuple[int, ...]:
    """The layers that are asked about."""
    if site not in SITES:
        raise name_not_found("site of an intervention", site, SITES)
    if direction not in ("denoise", "noise"):
        raise name_not_found("direction of patching", direction, ("denoise", "noise"))
    if source not in SOURCES:
        raise name_not_found("source of states", source, SOURCES)
    if source == MEAN_DIFFERENCE and site != "hidden_state":
        raise ModelError(f"source {source}: it moves hidden states: leave the site out, or take another source")
    if encoder.is_gated:
        raise ModelError("heads are gated: patch outside of gated_heads")
    encoder.masked_head  # noqa: B018 - raises where there is none
    if not asked:
        raise ClozeError("no pair: give at least one")
    if len({bool(pair.bad) for pair in asked}) > 1:
        raise ClozeError("pairs with one word and with two: give all of them a second word (bad), or none")
    lowest = 0 if site == "hidden_state" else 1
    chosen = tuple(range(lowest, encoder.n_layers + 1)) if layers is None else tuple(layers)
    for layer in chosen:
        Intervention(layer, _same, site).check(n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    return chosen


def _same(state: Tensor) -> Tensor:
    return state


def _score(encoder: Encoder, some: Sequence[AlignedPair]) -> Score:
    """What is read at the masks of pairs that all have one word, or all two."""
    masks, candidates = (torch.tensor(one) for one in ([one.mask for one in some], [one.candidates for one in some]))
    if candidates.shape[1] == 1:
        return WordProbability(encoder, masks, candidates[:, 0], logarithm=True)
    return LogitDifference(encoder, masks, candidates)


def _places(pair: AlignedPair, site: Site, n_heads: int) -> list[Cell]:
    """What is exchanged of a pair, one after the other."""
    every = np.arange(len(pair.ids[0]))
    whole = Cell(0, _ALL_PIECES, every)
    if site == "head":
        return [*(Cell(0, f"H{head}", every, head) for head in range(1, n_heads + 1)), whole]
    return [*(Cell(0, name, pieces) for name, pieces in pair.places.items()), whole]
