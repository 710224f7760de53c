"""The pocket world: its people and places, and the facts about them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from bertology.pocket._trees import Word
from bertology.pocket._words import WORDS, Dice

COMPANIES, COUNTRIES, MEN, SURNAMES, TOWNS, TRADES, WOMEN = (
    WORDS[name].split() for name in ("companies", "countries", "men", "surnames", "towns", "trades", "women")
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
