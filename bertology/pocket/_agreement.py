"""Minimal pairs of subject–verb agreement, with nouns of the other number between subject and verb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bertology.pocket import _function_words as fw
from bertology.pocket._dice import Dice
from bertology.pocket._lexicon import PLURAL, SINGULAR, Agreement, Lexicon, Verb, lexicon

Structure = Literal["simple", "prepositional", "subject_relative", "object_relative"]

TEST_VERBS = ("see", "like", "watch", "run", "walk", "play", "want", "know", "say", "work", "talk", "dance")
"""Lexical verbs whose two present forms the test set compares; *be* and *have* come besides."""
_PREPOSITIONS = ("near", "behind", "beside")
_MAX_ATTRACTORS = 3


def tested_forms() -> list[str]:
    """Every verb form that the test set asks for."""
    verbs = lexicon("known").verbs(TEST_VERBS)
    forms = [
        be_or_verb for number in (SINGULAR, PLURAL) for be_or_verb in (fw.BE.present[number], fw.HAVE.present[number])
    ]
    return [word.form for word in forms] + [
        verb.present(number).form for verb in verbs for number in (SINGULAR, PLURAL)
    ]


@dataclass(frozen=True)
class AgreementItem:
    """A sentence up to its verb, and the two forms of the verb."""

    text: str
    """The sentence with ``[MASK]`` where the verb stands."""
    good: str
    """The form that agrees with the subject."""
    bad: str
    """The form of the other number."""
    structure: Structure
    """What stands between subject and verb."""
    n_attractors: int
    """How many nouns of the other number do."""
    plural: bool
    """Whether the subject is plural."""


def agreement_items(n_items: int = 600, *, seed: int = 0) -> tuple[AgreementItem, ...]:
    """A balanced test set: singular and plural subjects, 0 to 3 attractors, four structures.

    Args:
        n_items: how many items, all different.
        seed: which items.
    """
    items = _items(Dice(f"pocket agreement {seed}"), lexicon("known"))
    found: dict[str, AgreementItem] = {}
    while len(found) < n_items:
        item = next(items)
        found.setdefault(item.text, item)
    return tuple(found.values())


def _items(dice: Dice, words: Lexicon) -> Iterator[AgreementItem]:
    structures: tuple[tuple[Structure, int], ...] = (
        ("simple", 0),
        ("prepositional", 1),
        ("prepositional", 2),
        ("prepositional", 3),
        ("subject_relative", 1),
        ("object_relative", 1),
        ("subject_relative", 2),
        ("object_relative", 2),
    )
    while True:
        for structure, n_attractors in structures:
            for subject in (SINGULAR, PLURAL):
                yield _item(dice, words, structure, n_attractors, subject)


def _item(dice: Dice, words: Lexicon, structure: Structure, n_attractors: int, subject: Agreement) -> AgreementItem:
    other = PLURAL if subject == SINGULAR else SINGULAR
    kind = dice.one_of(("person", "animal"))
    opening = _noun_phrase(dice, words, kind, subject)
    if structure == "prepositional":
        opening += _prepositional(dice, words, other, n_attractors)
    elif structure != "simple":
        verb = dice.one_of(words.verbs(("see", "like", "watch", "help", "follow", "fear")))
        relative = dice.one_of(("that", "who" if kind == "person" else "which"))
        attractor = _noun_phrase(dice, words, "person", other) + _prepositional(dice, words, other, n_attractors - 1)
        if structure == "subject_relative":
            opening += f" {relative} {verb.present(subject).form} {attractor}"
        else:
            opening += f" {relative} {attractor} {verb.present(other).form}"
    good, bad, rest = _verb_and_rest(dice, words, subject, other)
    text = f"{opening} [MASK] {rest}."
    return AgreementItem(text[0].upper() + text[1:], good, bad, structure, n_attractors, subject == PLURAL)


def _prepositional(dice: Dice, words: Lexicon, agreement: Agreement, number: int) -> str:
    phrases = ""
    for _ in range(number):
        preposition = dice.one_of(_PREPOSITIONS)
        kind = dice.one_of(("person", "place", "animal"))
        phrases += f" {preposition} {_noun_phrase(dice, words, kind, agreement)}"
    return phrases


def _noun_phrase(dice: Dice, words: Lexicon, kind: str, agreement: Agreement) -> str:
    while True:
        noun = dice.choose(words.nouns[kind])
        if noun.plural and noun.plural.form != noun.singular.form:
            break
    form = noun.plural.form if agreement == PLURAL else noun.singular.form
    adjective = f"{dice.choose(words.adjectives).form} " if dice.chance(0.25) else ""
    return f"the {adjective}{form}"


def _verb_and_rest(dice: Dice, words: Lexicon, subject: Agreement, other: Agreement) -> tuple[str, str, str]:
    share = dice.below(4)
    if share == 0:
        return fw.BE.present[subject].form, fw.BE.present[other].form, dice.choose(words.adjectives).form
    if share == 1:
        verb: Verb = dice.one_of(words.verbs(("see", "like", "watch")))
        return fw.HAVE.present[subject].form, fw.HAVE.present[other].form, f"{verb.participle.form} the dog"
    verb = dice.one_of(words.verbs(TEST_VERBS))
    rest = {
        "see": "the dog", "like": "the song", "watch": "the game", "want": "the book", "know": "the story",
        "say": "that the dog runs", "work": "well", "talk": "about the king", "dance": "slowly", "walk": "to the park",
        "run": "to the house", "play": "outside",
    }[verb.lemma]  # fmt: skip
    return verb.present(subject).form, verb.present(other).form, rest
