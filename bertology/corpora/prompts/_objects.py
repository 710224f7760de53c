"""Everyday objects: how large and heavy they are, and what people can do with them. Tables of our own writing.

Sizes and weights are typical ones, given to about a power of ten; only pairs at least a factor of ten apart are
compared, so that nothing hangs on the exact value. The questions are those of Forbes & Choi (2017), *Verb Physics*,
and Forbes et al. (2019), *Do Neural Language Representations Learn Physical Commonsense?*; the items are ours.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bertology.corpora.prompts._numbers import drawn_order

LEAST_RATIO = 10
"""Least ratio of the sizes or weights of a pair."""
_FAR = 100

_TABLES: Final[dict[str, str]] = tomllib.loads(Path(__file__).with_name("objects.toml").read_text(encoding="utf-8"))

_EXCHANGED = (("eat", "read"), ("drink", "drive"), ("wear", "sing"), ("climb", "spend"), ("play", "cook"))
"""Actions that rival one another: no thing of the one is a thing of the other."""
_COMPARED = (
    ("{A} is {mask} than {b}.", "One thing is {mask} than another."),
    ("Compared with {b}, {a} is {mask}.", "Compared with one thing, another is {mask}."),
    ("Next to {b}, {a} looks {mask}.", "Next to one thing, another looks {mask}."),
)
_DONE = (
    "The {thing} is something that you can {mask}.",
    "If they have the {thing}, people can {mask} it.",
    "What shall we do with the {thing}? We could {mask} it.",
)
_PLURAL = frozenset({"stairs", "savings", "profits", "wages", "drums", "beans", "noodles"})


@dataclass(frozen=True, slots=True)
class Thing:
    """An everyday object."""

    name: str
    size: float
    """Longest side, in metres."""
    weight: float
    """In kilograms."""


@dataclass(frozen=True, slots=True)
class ObjectItem:
    """A prompt with a correct word and a distractor."""

    id: str
    frame: str
    """Identifier shared by items that are not independent: the two objects."""
    group: str
    text: str
    answer: str
    rival: str
    blind: str
    """The prompt without the objects; its last mask is the one to predict."""


def things() -> tuple[Thing, ...]:
    """All objects with their size and weight."""
    rows = [row.split() for line in _TABLES["things"].strip().splitlines() for row in line.split("|")]
    return tuple(Thing(name, float(size), float(weight)) for name, size, weight in rows)


def comparison_items(by: Literal["size", "weight"]) -> tuple[ObjectItem, ...]:
    """Which of two objects is the larger, or the heavier.

    Objects are paired by chance that a fixed seed decides, each used once, with one at least :data:`LEAST_RATIO` times
    as large as the other. Every pair is asked in both orders, in three wordings: the answer is *larger* as often as
    *smaller*, so that a constant answer is right half the time. Groups tell how far apart the two are.
    """
    more, less = {"size": ("larger", "smaller"), "weight": ("heavier", "lighter")}[by]
    items = []
    for one, other in _pairs(by):
        group = f"over {_FAR} times" if _ratio(one, other, by) >= _FAR else f"{LEAST_RATIO} to {_FAR} times"
        for first, second in ((one, other), (other, one)):
            greater = first.size > second.size if by == "size" else first.weight > second.weight
            answer, rival = (more, less) if greater else (less, more)
            for place, (wording, blind) in enumerate(_COMPARED):
                a, b = _with_article(first.name), _with_article(second.name)
                text = wording.replace("{A}", a.capitalize()).replace("{a}", a).replace("{b}", b)
                name = f"{first.name}-{second.name}-{place}"
                frame = f"{one.name} {other.name}"
                items.append(ObjectItem(name, frame, group, text, answer, rival, blind))
    return tuple(items)


def affordance_items() -> tuple[ObjectItem, ...]:
    """What people can do with an object: 80 objects of ten actions, three wordings, 240 items.

    Actions rival one another in pairs (*eat* and *read*), and so do their objects: *apple* is asked with *eat* for
    right and *read* for wrong, *book* the other way about. A constant answer is right half the time.
    """
    objects = dict(line.split(": ") for line in _TABLES["affordances"].strip().splitlines())
    items = []
    for one, other in _EXCHANGED:
        for thing, counterpart in zip(objects[one].split(), objects[other].split(), strict=True):
            frame = f"{thing} {counterpart}"
            for name, answer, rival in ((thing, one, other), (counterpart, other, one)):
                for place, wording in enumerate(_DONE):
                    text = _fitting(wording, name)
                    items.append(
                        ObjectItem(
                            f"{name}-{place}",
                            frame,
                            f"{one} or {other}",
                            text.replace("{thing}", name),
                            answer,
                            rival,
                            text.replace("{thing}", "{mask}"),
                        )
                    )
    return tuple(items)


def _pairs(by: Literal["size", "weight"]) -> list[tuple[Thing, Thing]]:
    """Every object of a drawn order with the first one left that is far enough from it.

    Pairs over and under :data:`_FAR` times are sought by turns, so that there are about as many of both.
    """
    left = drawn_order(things(), f"pairs by {by}")
    found: list[tuple[Thing, Thing]] = []
    while left:
        one = left.pop(0)
        apart = {place: _ratio(one, other, by) for place, other in enumerate(left)}
        enough = [place for place, ratio in apart.items() if ratio >= LEAST_RATIO]
        wanted = [place for place in enough if (apart[place] >= _FAR) == len(found) % 2]
        if enough:
            found.append((one, left.pop((wanted or enough)[0])))
    return found


def _ratio(one: Thing, other: Thing, by: Literal["size", "weight"]) -> float:
    """How many times the one is as large or heavy as the other, the larger over the smaller."""
    measures = (one.size, other.size) if by == "size" else (one.weight, other.weight)
    return max(measures) / min(measures)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _fitting(wording: str, name: str) -> str:
    """The wording in the number of the object."""
    if name not in _PLURAL:
        return wording
    return wording.replace("{thing} is something", "{thing} are something").replace("{mask} it.", "{mask} them.")
