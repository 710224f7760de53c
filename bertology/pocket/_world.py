"""The people, towns and countries of the pocket world, and the facts that hold in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from bertology.pocket import _words
from bertology.pocket._dice import Dice
from bertology.pocket._tree import Word

Relation = Literal["lives_in", "born_in", "works_as", "capital_of"]
Gender = Literal["Fem", "Masc"]

EXPOSURES = (0, 1, 2, 4, 8, 16, 32, 64)
"""How often a fact may be stated in the pretraining text; each relation has as many facts of each."""

TEMPLATES: dict[Relation, tuple[str, ...]] = {
    "lives_in": ("[X] lives in [Y].", "The home of [X] is in [Y]."),
    "born_in": ("[X] was born in [Y].", "[X] comes from [Y]."),
    "works_as": ("[X] works as a [Y].", "[X] is a [Y] by trade."),
    "capital_of": ("The capital of [X] is [Y].", "The king of [X] rules in [Y]."),
}
"""How each relation is put into words; ``[X]`` is the subject and ``[Y]`` the object."""


class Person(NamedTuple):
    """Someone who lives in the pocket world."""

    name: str
    surname: str
    gender: Gender


@dataclass(frozen=True)
class Fact:
    """Something that holds in the pocket world, and how often the pretraining text says so."""

    subject: str
    relation: Relation
    object: str
    templates: tuple[str, ...]
    """The sentences that state it, with ``[X]`` for the subject and ``[Y]`` for the object."""
    n_stated: int
    """How many sentences of the pretraining text state it, in any of its templates."""

    def sentence(self, template: int = 0) -> str:
        """The sentence that states it."""
        return self.templates[template].replace("[X]", self.subject).replace("[Y]", self.object)


@lru_cache(maxsize=1)
def people() -> tuple[Person, ...]:
    """Everyone, women first."""
    dice = Dice("pocket people")
    women = [Person(name, dice.one_of(_words.SURNAMES), "Fem") for name in _words.WOMEN]
    men = [Person(name, dice.one_of(_words.SURNAMES), "Masc") for name in _words.MEN]
    return (*women, *men)


@lru_cache(maxsize=1)
def facts() -> tuple[Fact, ...]:
    """All facts of the pocket world, with the exact number of times the pretraining text states each.

    Objects are drawn at random, independently of everything else, so that a fact can be known only from its
    statements; a fact that is stated zero times cannot be known at all.
    """
    dice = Dice("pocket facts")
    subjects = [person.name for person in people()]
    choices: tuple[tuple[Relation, list[str], list[str]], ...] = (
        ("lives_in", subjects, [dice.one_of(_words.TOWNS) for _ in subjects]),
        ("born_in", subjects, [dice.one_of(_words.COUNTRIES) for _ in subjects]),
        ("works_as", subjects, [dice.one_of(_words.TRADES) for _ in subjects]),
        ("capital_of", _words.COUNTRIES, _drawn(dice, _words.TOWNS, len(_words.COUNTRIES))),
    )
    made = []
    for relation, holders, objects in choices:
        counts = [EXPOSURES[place % len(EXPOSURES)] for place in range(len(holders))]
        dice.shuffle(counts)
        for subject, obj, n_stated in zip(holders, objects, counts, strict=True):
            made.append(Fact(subject, relation, obj, TEMPLATES[relation], n_stated))
    return tuple(made)


def candidates(relation: Relation) -> tuple[str, ...]:
    """What the object of a relation may be."""
    return tuple(
        {
            "lives_in": _words.TOWNS,
            "born_in": _words.COUNTRIES,
            "works_as": _words.TRADES,
            "capital_of": _words.TOWNS,
        }[relation]
    )


def _drawn(dice: Dice, things: list[str], number: int) -> list[str]:
    shuffled = list(things)
    dice.shuffle(shuffled)
    return shuffled[:number]


@lru_cache(maxsize=1)
def people_by_name() -> dict[str, Person]:
    """Everyone, by first name: no two share one."""
    return {person.name: person for person in people()}


@lru_cache(maxsize=1024)
def proper_noun(form: str) -> Word:
    """A name's word."""
    return Word(form, form, "PROPN", "NNP", "Number=Sing")
