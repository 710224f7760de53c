"""Base phrases in the manner of CoNLL-2000, derived from dependencies."""

from __future__ import annotations

from collections.abc import Sequence

from bertology.pocket._tree import Word

_INSIDE_NP = frozenset({"det", "amod", "nummod", "compound", "flat"})
_VERBAL = frozenset({"aux", "aux:pass", "cop"})


def chunks(words: Sequence[Word], heads: Sequence[int], relations: Sequence[str]) -> tuple[str, ...]:
    """The chunk of each word, in IOB2.

    Noun phrases end at their head noun; a possessive *'s* opens the phrase of what is possessed. Verbal groups hold
    auxiliaries, negation, *to* and adverbs before the main verb; prepositions, conjunctions that introduce a clause
    (``SBAR``), particles (``PRT``), adverbs and predicative adjectives make chunks of their own.

    Args:
        words: the words of a sentence.
        heads: 1-based heads, 0 for the root.
        relations: dependency relations.
    """
    tops = [head - 1 for head in heads]
    kinds = [_kind(place, words, tops, relations) for place in range(len(words))]
    tags = []
    for place, kind in enumerate(kinds):
        if kind is None:
            tags.append("O")
            continue
        label, group = kind
        continued = place > 0 and kinds[place - 1] == (label, group)
        tags.append(f"{'I' if continued else 'B'}-{label}")
    return tuple(tags)


def _kind(place: int, words: Sequence[Word], tops: Sequence[int], relations: Sequence[str]) -> tuple[str, int] | None:
    """The label of a word's chunk, and the word that the chunk is built around."""
    word, relation, top = words[place], relations[place], tops[place]
    if relation in ("cc", "punct"):
        return None
    if word.xpos == "POS":
        return "NP", tops[top]
    if relation == "case":
        return "PP", place
    if relation == "compound:prt":
        return "PRT", place
    if relation == "mark":
        return ("VP", top) if word.upos == "PART" else ("SBAR", place)
    if relation in _VERBAL or word.upos == "VERB":
        return "VP", top if relation in _VERBAL else place
    if (
        word.xpos == "RB"
        and relation == "advmod"
        and (word.upos == "PART" or _before_verb(place, words, tops, relations))
    ):
        return "VP", top
    if relation in _INSIDE_NP or word.xpos == "PRP$":
        return "NP", top
    if word.upos in ("NOUN", "PROPN", "PRON", "NUM"):
        return "NP", place
    if relation == "advmod" and words[top].upos == "ADJ":
        return ("NP", tops[top]) if relations[top] == "amod" else ("ADJP", top)
    return ("ADJP", place) if word.upos == "ADJ" else ("ADVP", place)


def _before_verb(place: int, words: Sequence[Word], tops: Sequence[int], relations: Sequence[str]) -> bool:
    """Whether an adverb stands directly before its verb, with nothing but the verbal group between."""
    top = tops[place]
    between = range(place + 1, top + 1)
    return (
        place < top
        and words[top].upos == "VERB"
        and all(other == top or relations[other] in _VERBAL or words[other].xpos == "RB" for other in between)
    )
