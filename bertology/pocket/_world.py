"""The people, towns and countries of the pocket world, the facts that hold in it, and what a text is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from bertology.pocket._words import (
    COUNTRIES,
    KINDS,
    MEN,
    SURNAMES,
    TOWNS,
    TRADES,
    WOMEN,
    Agreement,
    Dice,
    Lexicon,
    Noun,
    Phrase,
    Word,
)

Relation = Literal["lives_in", "born_in", "works_as", "capital_of"]

EXPOSURES = (0, 1, 2, 4, 8, 16, 32, 64)
"""Numbers of statements that a fact may have in the pretraining text; each relation has as many facts of each."""

TEMPLATES: dict[Relation, tuple[str, ...]] = {
    "lives_in": ("[X] lives in [Y].", "The home of [X] is in [Y]."),
    "born_in": ("[X] was born in [Y].", "[X] comes from [Y]."),
    "works_as": ("[X] works as a [Y].", "[X] is a [Y] by trade."),
    "capital_of": ("The capital of [X] is [Y].", "The king of [X] rules in [Y]."),
}
"""Sentences that express each relation; ``[X]`` is the subject and ``[Y]`` the object."""


class Person(NamedTuple):
    """Someone who lives in the pocket world."""

    name: str
    surname: str
    gender: Literal["Fem", "Masc"]


@dataclass(frozen=True)
class Fact:
    """A fact of the pocket world, and how often the pretraining text states it."""

    subject: str
    relation: Relation
    object: str
    templates: tuple[str, ...]
    """The sentences that state it, with ``[X]`` for the subject and ``[Y]`` for the object."""
    n_stated: int
    """Number of sentences of the pretraining text that state it, in any of its templates."""

    def sentence(self, template: int = 0) -> str:
        """The sentence that states it."""
        return self.templates[template].replace("[X]", self.subject).replace("[Y]", self.object)


@lru_cache(maxsize=1)
def people() -> tuple[Person, ...]:
    """Everyone, women first."""
    dice = Dice("pocket people")
    women = tuple(Person(name, dice.one_of(SURNAMES), "Fem") for name in WOMEN)
    return women + tuple(Person(name, dice.one_of(SURNAMES), "Masc") for name in MEN)


@lru_cache(maxsize=1)
def facts() -> tuple[Fact, ...]:
    """All facts of the pocket world, with the exact number of times the pretraining text states each.

    Objects are drawn at random, independently of everything else, so that a fact can be known only from its
    statements; a fact that is stated zero times cannot be known at all.
    """
    dice = Dice("pocket facts")
    subjects = [person.name for person in people()]
    choices: tuple[tuple[Relation, list[str], list[str]], ...] = (
        ("lives_in", subjects, [dice.one_of(TOWNS) for _ in subjects]),
        ("born_in", subjects, [dice.one_of(COUNTRIES) for _ in subjects]),
        ("works_as", subjects, [dice.one_of(TRADES) for _ in subjects]),
        ("capital_of", COUNTRIES, dice.shuffled(TOWNS)[: len(COUNTRIES)]),
    )
    made: list[Fact] = []
    for relation, holders, objects in choices:
        counts = dice.shuffled(EXPOSURES[place % len(EXPOSURES)] for place in range(len(holders)))
        stated = zip(holders, objects, counts, strict=True)
        made += (Fact(subject, relation, obj, TEMPLATES[relation], n) for subject, obj, n in stated)
    return tuple(made)


def candidates(relation: Relation) -> tuple[str, ...]:
    """All possible objects of a relation."""
    return tuple({"born_in": COUNTRIES, "works_as": TRADES}.get(relation, TOWNS))


@lru_cache(maxsize=1024)
def proper_noun(form: str) -> Word:
    """A name's word."""
    return Word(form, form, "PROPN", "NNP", "Number=Sing")


class Nominal(NamedTuple):
    """A noun phrase with the properties that the rest of the sentence depends on."""

    tree: Phrase
    agreement: Agreement
    kind: str
    gender: str | None = None
    """``Fem``, ``Masc``, ``Neut``, or ``None`` for a person of either gender."""
    referent: int = 0
    pronominal: bool = False
    heavy: bool = False
    """Ends in a clause, so that what follows could be taken as part of it."""


N_THEMES = 6
"""Every theme has its own share of the people and nouns. Texts of one theme have words in common even where they do
not repeat one, as stories from a farm or a harbour do; this distinguishes the next sentence from any."""
_FAITHFUL = 0.85
"""Share of nouns outside the cast that are of the theme."""


class Scene:
    """The people, places and things that recur in a text, and the random decisions about the rest.

    The ``hero`` is a person who must occur; a ``theme`` is numbered from 0, ``None`` for all themes.
    """

    def __init__(self, dice: Dice, lexicon: Lexicon, *, hero: Person | None = None, theme: int | None = None) -> None:
        self.dice = dice
        self.lexicon = lexicon
        self._theme = theme
        cast = people() if theme is None else people()[theme::N_THEMES]
        self.people: list[Person] = [hero or dice.one_of(cast), dice.one_of(cast)]
        self.town = dice.one_of(TOWNS)
        self.country = dice.one_of(COUNTRIES)
        self.nouns: dict[str, Noun] = {kind: self._any_noun(kind) for kind in KINDS}
        self.noun_words = lexicon.noun_words
        self.mentions: list[Nominal] = []
        self._referents = 0
        self._speakers: dict[Agreement, int] = {}

    def begin_sentence(self) -> None:
        """Clear all mentions: coreference is annotated within a sentence."""
        self.mentions.clear()
        self._speakers.clear()
        self._referents = 0

    def new_referent(self) -> int:
        """A number for something not mentioned before."""
        self._referents += 1
        return self._referents

    def speaker(self, agreement: Agreement) -> int:
        """The number of *I*, *you* or *we*, the same throughout a sentence."""
        if agreement not in self._speakers:
            self._speakers[agreement] = self.new_referent()
        return self._speakers[agreement]

    def remember(self, nominal: Nominal) -> Nominal:
        """Record a mention, so that pronouns can refer to it."""
        self.mentions.append(nominal)
        return nominal

    def noun(self, kind: str) -> Noun:
        """A noun of a kind, often one that recurs in the text; the lemma of a noun is a kind with that noun only."""
        if kind in self.nouns and self.dice.chance(0.5):
            return self.nouns[kind]
        return self._any_noun(kind)

    def _any_noun(self, kind: str) -> Noun:
        menu = self.lexicon.nouns[kind]
        if self._theme is not None and len(menu) >= N_THEMES and self.dice.chance(_FAITHFUL):
            return self.dice.one_of(menu.items[self._theme :: N_THEMES])
        return self.dice.choose(menu)

    def person(self) -> Person:
        """A person, mostly one of those who recur in the text."""
        return self.dice.one_of(self.people if self.dice.chance(0.85) else people())

    def antecedent(self, kinds: tuple[str, ...]) -> Nominal | None:
        """A mention of this sentence that a third-person pronoun would refer to unambiguously."""
        for mention in self.mentions:
            is_fit = mention.kind in kinds and mention.referent and mention.agreement.person == 3
            if is_fit and len({m.referent for m in self.mentions if _compatible(m, mention)}) == 1:
                return mention
        return None


def _compatible(one: Nominal, other: Nominal) -> bool:
    genders = {one.gender, other.gender}
    may_agree = one.agreement.number == "Plur" or len(genders) == 1 or (None in genders and "Neut" not in genders)
    return one.agreement == other.agreement and may_agree
