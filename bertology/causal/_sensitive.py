"""Minimal pairs as texts to patch: masked is the shared word that the model predicts most differently in the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bertology.causal._agreement import named_places
from bertology.causal._pairs import PatchPair
from bertology.cloze import MASK, Prompt, ask
from bertology.corpora import Sentence, as_sentences
from bertology.errors import ClozeError

if TYPE_CHECKING:
    from bertology.encoders import Encoder


@dataclass(frozen=True)
class SensitivePairs:
    """Minimal pairs in which a model predicts a word that both sentences share better in the grammatical one."""

    pairs: tuple[PatchPair, ...]
    """Texts in which that word is masked. Values are the group and the word, with ``grammatical`` or ``ungrammatical``:
    texts of one value share the word and what decides about it."""
    falls: tuple[float, ...]
    """By how much the word's log-probability (nats) is lower in the ungrammatical sentence."""
    rises: tuple[float, ...]
    """Of the same pairs, by how much that of another shared word is higher there, of the one that rises most; 0 where
    none does. A model that knows nothing of grammar has falls and rises of one size."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the other pairs, and why they are left out."""


def sensitive_pairs(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    *,
    clusters: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    language: str | None = None,
) -> SensitivePairs:
    """Turn minimal pairs into texts with a mask, for :func:`patch`.

    A minimal pair such as *the author laughs* and *the author laugh* has no mask. Here each word that both sentences
    share and that is a single piece is masked in turn in both; of these words the one is chosen whose log-probability
    falls most from the grammatical to the ungrammatical sentence: *author*, which *laughs* calls for and *laugh* does
    not. The choice is made on passes in which nothing is patched, so that it selects pairs and words, not places. A
    pair in which no word's log-probability falls is left out: the model does not tell its sentences apart.

    Places of the pairs returned are ``before``, ``changed`` (the words that differ), ``between``, ``mask`` and
    ``after``.

    Args:
        encoder: a masked language model.
        pairs: the grammatical and the ungrammatical sentence of each, without masks.
        clusters: what is resampled together, one name for each pair; each pair by itself when left out.
        groups: of each pair the phenomenon; one for all when left out.
        language: of the sentences, by whose rules words are found.

    Raises:
        ClozeError: no pair, or a sentence with a mask.
        ModelError: no masked-LM head.
    """
    if not pairs:
        raise ClozeError("no pair: give at least one")
    texts = list(as_sentences([text for pair in pairs for text in pair], language=language))
    reasons: dict[int, str] = {}
    asked: list[tuple[int, int]] = []
    prompts: list[Prompt] = []
    for number, sides in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        shared = _shared_words(*sides)
        if isinstance(shared, str):
            reasons[number] = shared
            continue
        for place in shared:
            asked.append((number, place))
            prompts += [Prompt(_masked(side, place), (side.words[place],)) for side in sides]
    best: dict[int, tuple[float, int]] = {}
    rises: dict[int, float] = {}
    if prompts:
        values = ask(encoder, prompts).values[-1].reshape(-1, 2)
        for (number, place), fall in zip(asked, (values[:, 0] - values[:, 1]).tolist(), strict=True):
            if np.isfinite(fall):
                best[number] = max(best.get(number, (fall, place)), (fall, place))
                rises[number] = max(rises.get(number, 0.0), -fall)
    made: dict[int, PatchPair] = {}
    for number in (n for n in range(len(pairs)) if n not in reasons):
        if number not in best:
            reasons[number] = "no shared word is a single piece"
        elif best[number][0] <= 0:
            reasons[number] = "no shared word is less probable in the ungrammatical sentence"
        else:
            cluster = f"pair {number}" if clusters is None else clusters[number]
            group = "" if groups is None else groups[number]
            made[number] = replace(
                _pair(texts[2 * number], texts[2 * number + 1], best[number][1], cluster, group), language=language
            )
    falls, of_made = tuple(best[number][0] for number in made), tuple(rises[number] for number in made)
    return SensitivePairs(tuple(made.values()), falls, of_made, tuple(sorted(reasons.items())))


def _shared_words(one: Sentence, other: Sentence) -> list[int] | str:
    """Places of shared words that stand by themselves, or why the sentences cannot be patched into one another."""
    if len(one) != len(other):
        return "sentences of different numbers of words"
    differ = _differing(one, other)
    if not differ:
        return "the two sentences are the same"
    if differ[-1] - differ[0] >= len(differ):
        return "sentences that differ in several places"
    return [place for place, word in enumerate(one.words) if place not in differ and any(map(str.isalpha, word))]


def _differing(one: Sentence, other: Sentence) -> list[int]:
    """Places of words that differ."""
    return [place for place in range(len(one)) if one.words[place] != other.words[place]]


def _masked(sentence: Sentence, place: int) -> str:
    start, end = sentence.spans[place]
    return f"{sentence.text[:start]}{MASK}{sentence.text[end:]}"


def _pair(one: Sentence, other: Sentence, place: int, cluster: str, group: str) -> PatchPair:
    word, differ = one.words[place], _differing(one, other)
    words = ["[MASK]" if number == place else form for number, form in enumerate(one.words)]
    places = named_places(words, ["" if n in differ else form for n, form in enumerate(words)], "changed")
    values = f"{group} {word}, grammatical", f"{group} {word}, ungrammatical"
    return PatchPair(_masked(one, place), _masked(other, place), word, "", cluster, places, values)
