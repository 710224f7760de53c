"""States of other texts, or of clean ones, put into the forward pass over a text, layer by layer and place by place.

:func:`patch` exchanges states of two texts (interchange intervention), :func:`trace` restores states of a text whose
subject is noised. Both read a :class:`Target` off the last layer of :class:`Passes` and fill one kind of map.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import name_not_found
from bertology.causal._map import PatchingMap
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, refused
from bertology.causal.items import Fact, subject_pairs
from bertology.cloze import Prompt, ask
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import SITES, Change, Intervention, Site, intervening, starting_from
from bertology.errors import ClozeError, ModelError, listed

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
Item = TypeVar("Item")
Direction = Literal["denoise", "noise"]
Source = Literal["pair", "unrelated", "same_value", "mean_difference"]
_ALL_PIECES, _SUBJECT = "all", "subject"


@dataclass(frozen=True)
class Target:
    """The prediction at the masks of texts: a choice between two words, or one word.

    Of two words it is the logit of the first minus that of the second; of one its log-probability, or its probability.
    """

    encoder: Encoder
    masks: Tensor  # [row] the piece that is masked
    words: Tensor  # [row, 1 or 2] vocabulary numbers
    is_probability: bool = False

    @classmethod
    def of(cls, encoder: Encoder, rows: Sequence[AlignedPair]) -> Target:
        """The target of pairs that all have one word, or all two."""
        masks, words = (torch.tensor(one) for one in ([one.mask for one in rows], [one.candidates for one in rows]))
        return cls(encoder, masks, words)

    def __call__(self, last: Tensor, rows: Tensor | None = None) -> Tensor:
        """``[cell]`` scores from ``[cell, piece, dim]`` states of the last layer, and the row that each is of."""
        encoder, rows = self.encoder, torch.arange(len(last)) if rows is None else rows
        with torch.inference_mode():
            features = encoder.masked_head.features(last[torch.arange(len(rows)), self.masks[rows]])
        if self.words.shape[1] == 1:
            logits = encoder.vocabulary_logits(features, layer=encoder.n_layers).float()
            found = logits.log_softmax(1).cpu().double().gather(1, self.words[rows])[:, 0]
            return found.exp() if self.is_probability else found
        entries, index = torch.unique(self.words[rows], return_inverse=True)
        logits = encoder.vocabulary_logits(features, entries.to(features.device), layer=encoder.n_layers)
        chosen = logits.cpu().double().gather(1, index)
        return chosen[:, 0] - chosen[:, 1]

    def of_texts(self, ids: Tensor) -> Tensor:
        """``[row]`` scores of texts ``[row, piece]`` as they are."""
        return self(last_states(self.encoder, ids))


def last_states(encoder: Encoder, ids: Tensor, *, resumed: tuple[int, Tensor] | None = None) -> Tensor:
    """``[row, piece, dim]`` states of the last layer; the pass may be resumed from the states of another one."""
    if resumed is not None:
        with starting_from(encoder.model.body, encoder.model.blocks, *resumed):
            return last_states(encoder, ids)
    return encoder.hidden_states(ids, layers=(encoder.n_layers,))[encoder.n_layers]


def batches(encoder: Encoder, aligned: Sequence[AlignedPair], n_rows: int) -> Iterator[list[int]]:
    """Batches of indices of pairs of equal length, given the number of rows for each pair."""
    by_length: dict[int, list[int]] = {}
    for number, one in enumerate(aligned):
        by_length.setdefault(len(one.ids[0]), []).append(number)
    for length, numbers in by_length.items():
        size = max(1, pieces_in_batch(encoder.device) // (length * max(n_rows, 1)))
        yield from (numbers[start : start + size] for start in range(0, len(numbers), size))


def ids_of(rows: Sequence[AlignedPair], side: int) -> Tensor:
    """``[row, piece]`` the texts of pairs of one length, or the other texts."""
    return torch.from_numpy(np.stack([one.ids[side] for one in rows]))


def place_states(
    encoder: Encoder, aligned: Sequence[AlignedPair], layers: Sequence[int]
) -> Iterator[tuple[int, int, str, Tensor]]:
    """``[layer, piece, dim]`` states of each place of both texts of pairs, with number of the pair, side and name."""
    for batch in batches(encoder, aligned, 1):
        for side in (0, 1):
            states = encoder.hidden_states(ids_of([aligned[number] for number in batch], side), layers=layers)
            stacked = torch.stack([states[layer].float().cpu() for layer in layers])  # [layer, pair, piece, dim]
            for row, number in enumerate(batch):
                for name, pieces in aligned[number].places.items():
                    yield number, side, name, stacked[:, row, torch.from_numpy(pieces)]


class Cell(NamedTuple):
    """A place whose states are exchanged."""

    name: str
    pieces: NDArray[np.int64]
    head: int | None = None  # number from 1; all heads when left out


class Passes:
    """The plain passes over source and base texts of one length, and patched ones that start from the base.

    Blocks below what is patched are computed once.

    Args:
        encoder: a masked language model.
        source: ``[row, piece]`` the texts whose states are put in.
        base: ``[row, piece]`` the texts that they are put into.
        score: the target, which is read off the last layer.
        site: what is exchanged.
        noise: ``[row, piece, dim]`` added to the embeddings of the base.
        window: number of layers in which what a block computes is exchanged together, around the one named.
    """

    def __init__(
        self,
        encoder: Encoder,
        source: Tensor,
        base: Tensor,
        score: Target,
        *,
        site: Site,
        noise: Tensor | None = None,
        window: int = 1,
    ) -> None:
        self._encoder, self._site, self._ids, self._score, self._window = encoder, site, base, score, window
        self._of_source: dict[int, Tensor] = {}
        last, every = encoder.n_layers, range(encoder.n_layers + 1)
        keeping = [Intervention(n, self._keep(n), site) for n in every[1:]] if site != "hidden_state" else []
        with intervening_in(encoder, keeping):
            of_source = encoder.hidden_states(source, layers=every)
        self.source_scores = score(of_source[last])
        """``[row]`` of the source texts."""
        if site == "hidden_state":
            self._of_source = of_source
        if noise is None:
            self._states = encoder.hidden_states(base, layers=every)
        else:  # the base is the source
            start = of_source[0] + noise.to(of_source[0])
            with starting_from(encoder.model.body, encoder.model.blocks, 0, start):
                self._states = encoder.hidden_states(base, layers=every)
        self.base_scores = score(self._states[last])
        """``[row]`` of the base texts."""

    def move(self, shifts: dict[int, Tensor]) -> None:
        """Set the source to the base shifted by ``[row, piece, dim]`` in each layer."""
        states = self._states
        self._of_source = {layer: states[layer] + shift.to(states[layer]) for layer, shift in shifts.items()}

    def changes(self, layer: int, cells: Sequence[tuple[int, Cell]]) -> Tensor:
        """``[cell]`` changes of the score of a row of the base by patching a cell at a layer."""
        encoder, rows = self._encoder, torch.tensor([row for row, _ in cells])
        is_state, (_, *shape) = self._site == "hidden_state", self._states[0].shape
        is_patched = torch.zeros(len(cells), *shape, dtype=torch.bool)
        width = shape[1] // encoder.n_heads
        for number, (_, cell) in enumerate(cells):
            dims = slice(None) if cell.head is None else slice((cell.head - 1) * width, cell.head * width)
            is_patched[number, torch.from_numpy(cell.pieces), dims] = True
        is_patched = is_patched.to(self._states[0].device)
        lowest = layer - (self._window - 1) // 2
        layers = [] if is_state else range(max(lowest, 1), min(lowest + self._window, encoder.n_layers + 1))
        begin = layer if is_state else layers[0] - 1
        start = self._states[begin][rows]
        if is_state:
            start = torch.where(is_patched, self._of_source[layer][rows], start)
        exchanged = [Intervention(n, self._exchange(n, rows, is_patched), self._site) for n in layers]
        with intervening_in(encoder, exchanged):
            last = last_states(encoder, self._ids[rows], resumed=(begin, start))
        return self._score(last, rows) - self.base_scores[rows]

    def _exchange(self, layer: int, rows: Tensor, is_patched: Tensor) -> Change:
        source = self._of_source[layer][rows]
        return lambda values: torch.where(is_patched, source, values)

    def _keep(self, layer: int) -> Change:
        def keep(values: Tensor) -> Tensor:
            self._of_source[layer] = values.clone()
            return values

        return keep


def intervening_in(encoder: Encoder, interventions: Sequence[Intervention]) -> AbstractContextManager[None]:
    """Changes of what an encoder computes, in passes inside the context."""
    body, blocks = encoder.model.body, encoder.model.blocks
    return intervening(body, blocks, interventions, n_heads=encoder.n_heads, family=encoder.family)


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
    """Find the states that decide about a word at a mask: layer × place, or layer × head.

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
        sources = donors(asked, kept, from_ if source == "unrelated" else into)
        without = "no other pair with its words in the same places has the same value"
        reasons |= {number: without for number in kept if number not in sources}
        kept = {number: kept[number] for number in sources}
    if not kept:
        first = min(reasons)
        raise refused(asked[first], reasons[first])
    shifts = mean_differences(encoder, asked, kept, from_, into, chosen) if source == "mean_difference" else None
    numbers, ones = list(kept), list(kept.values())

    def start(batch: Sequence[int]) -> tuple[Passes, Tensor]:
        some = [ones[place] for place in batch]
        target = Target.of(encoder, some)
        of_source = torch.from_numpy(np.stack([sources[numbers[place]] for place in batch]))
        passes = Passes(encoder, of_source, ids_of(some, into), target, site=site)
        if shifts is not None:
            passes.move(shifts([numbers[place] for place in batch]))
        return passes, passes.source_scores if source == "pair" else target.of_texts(ids_of(some, from_))

    cells = [_cells(one, encoder.n_heads if site == "head" else 0) for one in ones]
    return PatchingMap(
        encoder.source.title, site, direction, source, chosen,
        *_measured(encoder, ones, cells, chosen, start, last=(SPECIAL, _ALL_PIECES)),
        tuple(asked[number] for number in kept),
        tuple(asked[number].cluster or f"pair {number}" for number in kept),
        tuple(sorted(reasons.items())),
    )  # fmt: skip


def _checked(
    encoder: Encoder,
    asked: Sequence[PatchPair],
    site: Site,
    layers: Sequence[int] | None,
    direction: Direction,
    source: Source,
) -> tuple[int, ...]:
    """Check the arguments and give the chosen layers."""
    if site not in SITES:
        raise name_not_found("site of an intervention", site, SITES)
    if direction not in ("denoise", "noise"):
        raise name_not_found("direction of patching", direction, ("denoise", "noise"))
    if source not in get_args(Source):
        raise name_not_found("source of states", source, get_args(Source))
    if source == "mean_difference" and site != "hidden_state":
        raise ModelError(f"source {source}: it moves hidden states: leave the site out, or take another source")
    if encoder.is_gated:
        raise ModelError("heads are gated: patch outside of gated_heads")
    encoder.masked_head  # noqa: B018 - raises where there is none
    if not asked:
        raise ClozeError("no pair: give at least one")
    if len({bool(pair.bad) for pair in asked}) > 1:
        raise ClozeError("pairs with one word and with two: give all of them a second word (bad), or none")
    chosen = _layers(encoder, site, layers)
    for layer in chosen:
        Intervention(layer, lambda state: state, site).check(n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    return chosen


def _layers(encoder: Encoder, site: Site, layers: Sequence[int] | None) -> tuple[int, ...]:
    """The chosen layers: all when left out, from 1 for outputs inside blocks."""
    return tuple(range(site != "hidden_state", encoder.n_layers + 1)) if layers is None else tuple(layers)


def _cells(pair: AlignedPair, n_heads: int) -> list[Cell]:
    """Places of a pair, or heads at all pieces, and all of them."""
    every = np.arange(len(pair.ids[0]))
    heads = [Cell(f"H{head}", every, head) for head in range(1, n_heads + 1)]
    return [*(heads or [Cell(name, pieces) for name, pieces in pair.places.items()]), Cell(_ALL_PIECES, every)]


def _measured(
    encoder: Encoder,
    ones: Sequence[AlignedPair],
    cells: Sequence[Sequence[Cell]],
    layers: Sequence[int],
    start: Callable[[Sequence[int]], tuple[Passes, Tensor]],
    *,
    last: Sequence[str],
    n_draws: int = 1,
) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    """Names of places, changes ``[layer, place, pair]``, the whole changes ``[pair]`` and the scores of the base.

    Of ``[pair]`` cells, one after the other, in each layer by itself; ``start`` makes for numbers of pairs the passes,
    with ``n_draws`` rows for each, whose mean is taken, and the scores of the source. The names ``last`` come last.
    """
    every = dict.fromkeys(cell.name for of_pair in cells for cell in of_pair)
    names = tuple([name for name in every if name not in last] + [name for name in last if name in every])
    changes, (whole, base) = np.full((len(layers), len(names), len(ones)), np.nan), np.zeros((2, len(ones)))

    def means(scores: Tensor) -> Floats:
        return np.asarray(scores.reshape(-1, n_draws).mean(1).numpy())

    for batch in batches(encoder, ones, n_draws * len(names)):
        passes, of_source = start(batch)
        base[batch], whole[batch] = means(passes.base_scores), means(of_source - passes.base_scores)
        of_batch = [(place, cell) for place, number in enumerate(batch) for cell in cells[number]]
        rows = [(place * n_draws + draw, cell) for place, cell in of_batch for draw in range(n_draws)]
        for at, layer in enumerate(layers):
            for (place, cell), change in zip(of_batch, means(passes.changes(layer, rows)), strict=True):
                changes[at, names.index(cell.name), batch[place]] = change
    return names, changes, whole, base


class NoOtherTextError(ClozeError):
    """No pair has a text of another cluster with the value that is wanted."""


def donors(
    pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair], side: int, *, seed: int = 0
) -> dict[int, NDArray[np.int64]]:
    """The pieces of a text of another cluster, by number of each pair that has one: as long, each place in the same
    pieces, with the value of the pair's text (``side`` 0) or of its other one.

    Where the texts of the pair differ it has other words than the text of that value: with the same words there would
    be nothing to find out. A :class:`NoOtherTextError` where there is none for any pair.
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
    """The two values that pairs have of what decides; a :class:`ClozeError` where there are not just two."""
    values = sorted({value for number in aligned for value in pairs[number].values})
    if len(values) != 2 or not all(values):
        raise ClozeError(f"{len(values)} values of what decides ({listed(values)}): there should be two")
    return values


def halves_of_clusters(pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair]) -> dict[int, int]:
    """Half of the clusters, 0 or 1, by number of the pair: fits to the texts of one half are applied to the other."""
    clusters = list(dict.fromkeys(_cluster(pairs, number) for number in aligned))
    if len(clusters) < 2:
        raise ClozeError("all pairs are of one cluster: what changes a text is fitted to those of other clusters")
    half = {cluster: place % 2 for place, cluster in enumerate(clusters)}
    return {number: half[_cluster(pairs, number)] for number in aligned}


def mean_differences(
    encoder: Encoder,
    pairs: Sequence[PatchPair],
    aligned: Mapping[int, AlignedPair],
    source: int,
    base: int,
    layers: Sequence[int],
) -> Callable[[Sequence[int]], dict[int, Tensor]]:
    """A function that gives, for numbers of pairs, ``[pair, piece, dim]`` by layer how far the texts are moved.

    Each place is moved by the difference between its mean states in texts of the two values, of the half of the
    clusters that the pair is not in. All texts are read once.
    """
    values, half, numbers = two_values(pairs, aligned), halves_of_clusters(pairs, aligned), list(aligned)
    sums: dict[tuple[int, str, int], Tensor] = {}  # by half, place and value
    counts: dict[tuple[int, str, int], int] = defaultdict(int)
    for at, side, name, states in place_states(encoder, list(aligned.values()), layers):
        key = half[numbers[at]], name, values.index(pairs[numbers[at]].values[side])
        sums[key] = sums.get(key, 0) + states.double().mean(1)
        counts[key] += 1

    def shifts(asked: Sequence[int]) -> dict[int, Tensor]:
        moved = torch.zeros(len(layers), len(asked), len(aligned[asked[0]].ids[base]), encoder.dim, dtype=torch.float64)
        for row, number in enumerate(asked):
            sign = 1.0 if pairs[number].values[source] == values[1] else -1.0
            for name, pieces in aligned[number].places.items():
                low, high = ((1 - half[number], name, value) for value in (0, 1))
                if low in sums and high in sums:
                    move = sums[high] / counts[high] - sums[low] / counts[low]
                    moved[:, row, torch.from_numpy(pieces)] = (sign * move)[:, None]
        return dict(zip(layers, moved, strict=True))

    return shifts


class KnownFacts(NamedTuple):
    """Facts that a model completes with the right word, and where their pieces are."""

    facts: tuple[Fact, ...]
    aligned: tuple[AlignedPair, ...]
    n_asked: int  # facts that were asked until as many were known as are wanted
    n_known: int  # how many of these the model knows


def known_facts(encoder: Encoder, facts: Sequence[Fact], *, most: int = 300, seed: int = 0) -> KnownFacts:
    """Up to ``most`` facts, in random order, whose object is ranked first at the mask, with their aligned subwords.

    There may be none, for instance with random weights.
    """
    found: list[tuple[Fact, AlignedPair]] = []
    n_asked = n_known = 0
    for some in _in_random_order(facts, 4 * most, seed):
        scores = ask(encoder, [Prompt(fact.text, (fact.answer,)) for fact in some], ranks=True)
        pairs, unscored = subject_pairs(some), {one.item for one in scores.excluded}
        known = [n for n in range(len(some)) if n not in unscored and scores.ranks_of(n)[-1, 0] == 1 and pairs[n]]
        aligned = align_pairs(encoder, [pair for n in known if (pair := pairs[n])], by_word=False)
        found += [(some[n], one) for n, one in zip(known, aligned, strict=True) if isinstance(one, AlignedPair)]
        n_known, n_asked = n_known + len(known), n_asked + len(some)
        if len(found) >= most:
            break
    found = found[:most]
    return KnownFacts(tuple(fact for fact, _ in found), tuple(one for _, one in found), n_asked, n_known)


def known_pairs(
    encoder: Encoder, pairs: Sequence[PatchPair], *, most: int = 300, seed: int = 0
) -> tuple[list[PatchPair], list[str]]:
    """At most so many pairs, in random order, in both texts of which a model prefers the right one of the two words;
    and why each of the others that were asked is left out. No more are asked than are needed."""
    kept: list[PatchPair] = []
    reasons: list[str] = []
    for some in _in_random_order(pairs, 4 * most, seed):
        aligned = align_pairs(encoder, some, by_word=False)
        reasons += [one for one in aligned if isinstance(one, str)]
        fitting = [(pair, one) for pair, one in zip(some, aligned, strict=True) if isinstance(one, AlignedPair)]
        for batch in batches(encoder, [one for _, one in fitting], 2):
            rows = [fitting[place][1] for place in batch]
            differences = [Target.of(encoder, rows).of_texts(ids_of(rows, side)) for side in (0, 1)]
            is_known = (differences[0] > 0) & (differences[1] < 0)
            kept += [fitting[place][0] for place, known in zip(batch, is_known.tolist(), strict=True) if known]
            reasons += ["the model does not know both facts"] * int((~is_known).sum())
        if len(kept) >= most:
            break
    return kept[:most], reasons


def _in_random_order(items: Sequence[Item], n: int, seed: int) -> Iterator[list[Item]]:
    """All items in random order, ``n`` at a time."""
    order = np.random.default_rng(seed).permutation(len(items)).tolist()
    return ([items[number] for number in order[start : start + n]] for start in range(0, len(order), n))


def trace(
    encoder: Encoder,
    known: KnownFacts,
    *,
    site: Site = "hidden_state",
    layers: Sequence[int] | None = None,
    window: int = 1,
    n_draws: int = 10,
    n_deviations: float = 3.0,
    seed: int = 0,
) -> PatchingMap:
    """Measure how much of a fact comes back when a state of the clean pass is put into a pass with a noised subject.

    Meng et al. (2022), *Locating and Editing Factual Associations in GPT*, section 2.1, put to encoders. Noise is
    normal; here it is added to what leaves the embeddings (layer 0), in the paper to word vectors, and its deviation is
    three times that of the components of the subjects' embeddings. What comes back is given as a share of what noise
    takes away, with probabilities of the answer summed over facts.

    Args:
        encoder: a masked language model.
        known: the facts.
        site: ``hidden_state``, ``attention_output`` or ``feed_forward_output``.
        layers: all when left out.
        window: for what blocks compute, the number of layers restored together, around the one named.
        n_draws: number of draws of the noise, whose mean is taken.
        n_deviations: deviation of the noise, in those of the components of embeddings.
        seed: random seed of the noise.

    Returns:
        Effects by layer and place; the subject's pieces are told apart. Clusters are subjects.
    """
    if not known.facts:
        raise ClozeError(f"the model knows none of the {known.n_asked} facts: their object is never its first word")
    chosen = _layers(encoder, site, layers)
    deviation = n_deviations * _deviation(encoder, known.aligned)

    def start(batch: Sequence[int]) -> tuple[Passes, Tensor]:
        some = [known.aligned[number] for number in batch for _ in range(n_draws)]
        ids, target = ids_of(some, 0), Target.of(encoder, some)
        noise = torch.cat([_noise(known.aligned[n], encoder.dim, n_draws, deviation, (seed, n)) for n in batch])
        target = replace(target, words=target.words[:, :1], is_probability=True)
        passes = Passes(encoder, ids, ids, target, site=site, noise=noise, window=window)
        return passes, passes.source_scores

    cells, last = [_subject_cells(one) for one in known.aligned], (_SUBJECT, SPECIAL, _ALL_PIECES)
    return PatchingMap(
        encoder.source.title, site, "denoise", "noise", chosen,
        *_measured(encoder, known.aligned, cells, chosen, start, last=last, n_draws=n_draws),
        tuple(fact.as_pair() for fact in known.facts), tuple(fact.subject for fact in known.facts), (),
    )  # fmt: skip


def _subject_cells(one: AlignedPair) -> list[Cell]:
    """Places, with the subject's subwords distinguished by position and also taken together."""
    cells: list[Cell] = []
    for cell in _cells(one, 0):
        if cell.name == _SUBJECT:
            first, between, last = cell.pieces[:-1][:1], cell.pieces[1:-1], cell.pieces[-1:]
            parts = {"first piece of subject": first, "pieces between": between, "last piece of subject": last}
            cells += [Cell(part, chosen) for part, chosen in parts.items() if len(chosen)]
        cells.append(cell)
    return cells


def _deviation(encoder: Encoder, aligned: Sequence[AlignedPair]) -> float:
    """Standard deviation of the components of the embeddings of all subjects' pieces."""
    values = []
    for batch in batches(encoder, aligned, 1):
        states = encoder.hidden_states(ids_of([aligned[n] for n in batch], 0), layers=(0,))[0].float().cpu()
        values += [states[row, torch.from_numpy(aligned[n].places[_SUBJECT])].flatten() for row, n in enumerate(batch)]
    return float(torch.cat(values).std())


def _noise(one: AlignedPair, dim: int, n_draws: int, deviation: float, seed: tuple[int, int]) -> Tensor:
    """``[draw, piece, dim]`` noise at the subject, zero elsewhere; the same whatever the batch."""
    random = np.random.default_rng(seed)
    pieces = one.places[_SUBJECT]
    noise = np.zeros((n_draws, len(one.ids[0]), dim), dtype=np.float32)
    noise[:, pieces] = deviation * random.standard_normal((n_draws, len(pieces), dim))
    return torch.from_numpy(noise)
