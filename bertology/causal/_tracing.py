"""Causal tracing of facts: the subject is noised, and states of the clean pass are restored one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bertology.causal._facts import Fact, subject_pairs
from bertology.causal._map import PatchingMap
from bertology.causal._pairs import AlignedPair, PatchPair, align_pairs
from bertology.causal._passes import Cell, LogitDifference, Passes, WordProbability, batches_of_one_length
from bertology.cloze import Prompt, ask
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import Site
from bertology.errors import ClozeError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_SUBJECT = "subject"
_LAST = "last piece of subject"


@dataclass(frozen=True)
class KnownFacts:
    """Facts that a model completes with the right word, and where their pieces are."""

    facts: tuple[Fact, ...]
    aligned: tuple[AlignedPair, ...]
    n_asked: int
    """Facts that were asked until as many were known as are wanted."""
    n_known: int
    """How many of these the model knows."""


def known_facts(encoder: Encoder, facts: Sequence[Fact], *, most: int = 300, seed: int = 0) -> KnownFacts:
    """Facts whose object is the most probable word at the mask, in random order, and its pieces.

    Args:
        encoder: a masked language model.
        facts: such as those of :func:`read_facts`.
        most: at most so many.
        seed: of the order in which they are asked.

    Returns:
        They may be none, as of random weights.
    """
    order = np.random.default_rng(seed).permutation(len(facts)).tolist()
    found: list[tuple[Fact, AlignedPair]] = []
    n_asked = n_known = 0
    while n_asked < len(order) and len(found) < most:
        some = [facts[number] for number in order[n_asked : n_asked + 4 * most]]
        scores = ask(encoder, [Prompt(fact.text, (fact.answer,)) for fact in some], ranks=True)
        assert scores.ranks is not None
        pairs = subject_pairs(some)
        unscored = {one.item for one in scores.excluded}
        known = [n for n in range(len(some)) if n not in unscored and scores.ranks_of(n)[-1, 0] == 1 and pairs[n]]
        aligned = align_pairs(encoder, [pair for n in known if (pair := pairs[n])], by_word=False)
        n_known += len(known)
        found += [(some[n], one) for n, one in zip(known, aligned, strict=True) if isinstance(one, AlignedPair)]
        n_asked += len(some)
    found = found[:most]
    return KnownFacts(tuple(fact for fact, _ in found), tuple(one for _, one in found), n_asked, n_known)


def known_pairs(
    encoder: Encoder, pairs: Sequence[PatchPair], *, most: int = 300, seed: int = 0
) -> tuple[list[PatchPair], list[str]]:
    """Pairs in both texts of which a model prefers the right one of the two words, in random order.

    Args:
        encoder: a masked language model.
        pairs: such as those of :func:`fact_pairs`.
        most: at most so many; no more are asked than are needed for them.
        seed: of the order in which they are asked.

    Returns:
        The pairs, and why each of the others that were asked is left out.
    """
    order = np.random.default_rng(seed).permutation(len(pairs)).tolist()
    kept: list[PatchPair] = []
    reasons: list[str] = []
    n_asked = 0
    while n_asked < len(order) and len(kept) < most:
        some = [pairs[number] for number in order[n_asked : n_asked + 4 * most]]
        n_asked += len(some)
        aligned = align_pairs(encoder, some, by_word=False)
        reasons += [one for one in aligned if isinstance(one, str)]
        fitting = {number: one for number, one in enumerate(aligned) if isinstance(one, AlignedPair)}
        numbers, lengths = list(fitting), [len(one.ids[0]) for one in fitting.values()]
        for batch in batches_of_one_length(lengths, 2, pieces_in_batch(encoder.device)):
            of_batch = [fitting[numbers[place]] for place in batch]
            masks, words = (torch.tensor([getattr(one, name) for one in of_batch]) for name in ("mask", "candidates"))
            score, rows = LogitDifference(encoder, masks, words), torch.arange(len(batch))
            differences = []
            for side in (0, 1):
                ids = torch.from_numpy(np.stack([one.ids[side] for one in of_batch]))
                differences.append(
                    score(encoder.hidden_states(ids, layers=(encoder.n_layers,))[encoder.n_layers], rows)
                )
            is_known = (differences[0] > 0) & (differences[1] < 0)
            kept += [some[numbers[place]] for place, known in zip(batch, is_known.tolist(), strict=True) if known]
            reasons += ["the model does not know both facts"] * int((~is_known).sum())
    return kept[:most], reasons


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
    """How much of a fact comes back when one state of the clean pass is put into a pass whose subject is noise?

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
        n_draws: of the noise, whose mean is taken.
        n_deviations: deviation of the noise, in those of the components of embeddings.
        seed: of the noise.

    Returns:
        Effects by layer and place; the subject's pieces are told apart. Clusters are subjects.

    Raises:
        ClozeError: no fact is known.
    """
    if not known.facts:
        raise ClozeError(f"the model knows none of the {known.n_asked} facts: their object is never its first word")
    lowest = 0 if site == "hidden_state" else 1
    chosen = tuple(range(lowest, encoder.n_layers + 1)) if layers is None else tuple(layers)
    deviation = n_deviations * _deviation(encoder, known.aligned)
    cells = [_cells(one) for one in known.aligned]
    every = list(dict.fromkeys(cell.name for some in cells for cell in some))
    ends = [name for name in (_SUBJECT, "special", "all") if name in every]
    names = tuple([name for name in every if name not in ends] + ends)
    n_facts = len(known.aligned)
    changes, whole, base = np.full((len(chosen), len(names), n_facts), np.nan), np.zeros(n_facts), np.zeros(n_facts)
    lengths = [len(one.ids[0]) for one in known.aligned]
    rows = n_draws * len(names)
    for batch in batches_of_one_length(lengths, rows, pieces_in_batch(encoder.device)):
        some = [known.aligned[number] for number in batch for _ in range(n_draws)]
        ids = torch.from_numpy(np.stack([one.ids[0] for one in some]))
        noise = torch.cat([_noise(known.aligned[n], encoder.dim, n_draws, deviation, (seed, n)) for n in batch])
        answers = torch.tensor([one.candidates[0] for one in some])
        score = WordProbability(encoder, torch.tensor([one.mask for one in some]), answers, logarithm=False)
        passes = Passes(encoder, ids, ids, score, site=site, noise=noise, window=window)
        of_fact = (-1, n_draws)
        base[batch] = passes.base_scores.reshape(of_fact).mean(1).numpy()
        whole[batch] = (passes.source_scores - passes.base_scores).reshape(of_fact).mean(1).numpy()
        of_batch = [
            replace(cell, row=place * n_draws + draw)
            for place, number in enumerate(batch)
            for cell in cells[number]
            for draw in range(n_draws)
        ]
        for layer_place, layer in enumerate(chosen):
            means = passes.changes(layer, of_batch).reshape(of_fact).mean(1).tolist()
            for cell, change in zip(of_batch[::n_draws], means, strict=True):
                changes[layer_place, names.index(cell.name), batch[cell.row // n_draws]] = change
    pairs = tuple(
        PatchPair(fact.text, fact.text, fact.answer, fact.answer, fact.subject, language=fact.language)
        for fact in known.facts
    )
    clusters = tuple(fact.subject for fact in known.facts)
    return PatchingMap(
        encoder.source.title, site, "denoise", "noise", chosen, names, changes, whole, base, pairs, clusters, ()
    )


def _cells(one: AlignedPair) -> list[Cell]:
    """Places, with the pieces of the subject told apart and together."""
    cells: list[Cell] = []
    for name, pieces in one.places.items():
        if name == _SUBJECT:
            first, between, last = pieces[:-1][:1], pieces[1:-1], pieces[-1:]
            parts = {"first piece of subject": first, "pieces between": between, _LAST: last}
            cells += [Cell(0, part, chosen) for part, chosen in parts.items() if len(chosen)]
        cells.append(Cell(0, name, pieces))
    return [*cells, Cell(0, "all", np.arange(len(one.ids[0])))]


def _deviation(encoder: Encoder, aligned: Sequence[AlignedPair]) -> float:
    """Standard deviation of the components of the embeddings of all subjects' pieces."""
    values = []
    for batch in batches_of_one_length([len(one.ids[0]) for one in aligned], 1, pieces_in_batch(encoder.device)):
        ids = torch.from_numpy(np.stack([aligned[number].ids[0] for number in batch]))
        states = encoder.hidden_states(ids, layers=(0,))[0].float().cpu()
        values += [states[row, torch.from_numpy(aligned[n].places[_SUBJECT])].flatten() for row, n in enumerate(batch)]
    return float(torch.cat(values).std())


def _noise(one: AlignedPair, dim: int, n_draws: int, deviation: float, seed: tuple[int, int]) -> Tensor:
    """``[draw, piece, dim]`` noise at the subject, zero elsewhere; the same whatever the batch."""
    random = np.random.default_rng(seed)
    pieces = one.places[_SUBJECT]
    noise = np.zeros((n_draws, len(one.ids[0]), dim), dtype=np.float32)
    noise[:, pieces] = deviation * random.standard_normal((n_draws, len(pieces), dim))
    return torch.from_numpy(noise)
