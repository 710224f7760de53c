"""Items made by rule, the same on every machine: numbers, and everyday objects from tables of our own writing.

The questions on numbers are those of Wallace et al. (2019), *Do NLP Models Know Numbers?*, section 3; those on objects
of Forbes & Choi (2017), *Verb Physics*, and Forbes et al. (2019), *Do Neural Language Representations Learn Physical
Commonsense?*. Sizes and weights of objects are typical ones, given to about a power of ten; only pairs at least a
factor of ten apart are compared, so that nothing hangs on the exact value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from bertology.corpora._files import T
from bertology.corpora.prompts._item_tables import columns_of, not_items
from bertology.corpora.prompts._items import MADE
from bertology.errors import CorpusError

_UNITS, _TENS = (
    words.split()
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen",
        "twenty thirty forty fifty sixty seventy eighty ninety",
    )
)
_SIZES = ((0, 10, "0 to 9"), (10, 20, "10 to 19"), (20, 100, "20 to 99"))
_DECODE = (
    "In digits, the number {word} is {mask}.",
    "The number {word} is also written {mask}.",
    "{Word} means {mask}.",
)
_MAXIMUM = "Of the numbers {list}, the {which} is {mask}."
_ADDITION = ("{one} plus {other} equals {mask}.", "The sum of {one} and {other} is {mask}.")
_LENGTHS = (2, 3, 5)
_LISTS_OF_A_LENGTH = 60
_MOST_SUMS_OF_A_SIZE = 50
_N_RIVALS = 3


@dataclass(frozen=True, slots=True)
class MadeItem:
    """A prompt with its answer."""

    id: str
    frame: str
    """Identifier shared by items that are not independent: the number, the list, the sum, the two objects."""
    group: str
    text: str
    answer: str
    rivals: tuple[str, ...]
    """Wrong answers that could be mistaken for it."""
    blind: str
    """The prompt without the numbers or objects that decide; its last mask is the one to predict."""


def number_word(value: int) -> str:
    """The English word of a whole number from 0 to 99."""
    if not 0 <= value < 100:
        raise ValueError(f"{value} is not between 0 and 99")
    if value < len(_UNITS):
        return _UNITS[value]
    tens, unit = _TENS[value // 10 - 2], value % 10
    return f"{tens}-{_UNITS[unit]}" if unit else tens


def decode_items() -> tuple[MadeItem, ...]:
    """The digits of a number word: every number from 0 to 99 in three wordings, 300 items.

    Rivals are three numbers drawn from those of the same size (0 to 9, 10 to 19, 20 to 99), so that how many digits
    the answer has does not decide.
    """
    items = []
    for first, end, group in _SIZES:
        for value in range(first, end):
            others = [other for other in range(first, end) if other != value]
            rivals = tuple(map(str, drawn_order(others, f"decode {value}")[:_N_RIVALS]))
            word = number_word(value)
            for place, wording in enumerate(_DECODE):
                text = wording.replace("{word}", word).replace("{Word}", word.capitalize())
                blind = wording.replace("{word}", "{mask}").replace("{Word}", "{mask}")
                items.append(MadeItem(f"{value}-{place}", str(value), group, text, str(value), rivals, blind))
    return tuple(items)


def maximum_items() -> tuple[MadeItem, ...]:
    """The largest and the smallest of a list of 2, 3 or 5 numbers: 60 lists of each length, 360 items.

    The numbers of a list differ and are drawn from 0 to 99; the largest stands at each place of the list equally
    often. The rivals are the other numbers of the list. As the same list is asked for its smallest number, whoever
    always takes the larger number, or the commoner, is right half the time.
    """
    items = []
    for length in _LENGTHS:
        for turn in range(_LISTS_OF_A_LENGTH):
            name = f"{length}-{turn}"
            numbers = drawn_order(range(100), f"list {name}")[:length]
            largest = numbers.index(max(numbers))
            place = turn % length
            numbers[place], numbers[largest] = numbers[largest], numbers[place]
            for which, answer in (("largest", max(numbers)), ("smallest", min(numbers))):
                text = _MAXIMUM.replace("{which}", which)
                rivals = tuple(str(number) for number in numbers if number != answer)
                *others, last = map(str, numbers)
                prompt = text.replace("{list}", f"{', '.join(others)} and {last}")
                blind = text.replace(" {list}", "")
                group = f"{which} of {length}"
                items.append(MadeItem(f"{name}-{which}", name, group, prompt, str(answer), rivals, blind))
    return tuple(items)


def addition_items() -> tuple[MadeItem, ...]:
    """Sums of two numbers: all 36 of 2 to 9, 50 drawn of 10 to 19 and of 20 to 99, two wordings, 272 items.

    No number is 0. Rivals are three drawn from those that are 1, 2 or 10 more or less than the sum, as a slip in
    counting or in a digit would give them. Additions of one sum are one frame: they have their answer in common, and
    how common a word that is may decide them all.
    """
    items = []
    for first, end, group in _SIZES:
        pairs = [(one, total - one) for total in range(max(first, 2), end) for one in range(1, total)]
        for one, other in drawn_order(pairs, f"sums {group}")[:_MOST_SUMS_OF_A_SIZE]:
            total = one + other
            near = [total + step for step in (-10, -2, -1, 1, 2, 10) if total + step >= 0]
            name = f"{one}+{other}"
            rivals = tuple(map(str, drawn_order(near, f"near {name}")[:_N_RIVALS]))
            for place, wording in enumerate(_ADDITION):
                text = wording.replace("{one}", str(one)).replace("{other}", str(other))
                blind = wording.replace("{one}", "{mask}").replace("{other}", "{mask}")
                items.append(MadeItem(f"{name}-{place}", str(total), group, text, str(total), rivals, blind))
    return tuple(items)


def drawn_order(things: Sequence[T], seed: str) -> list[T]:
    """The things in a random order that depends on their number and the seed, any text, only."""
    places = sorted(range(len(things)), key=lambda place: sha256(f"{seed} {place}".encode()).digest())
    return [things[place] for place in places]


def shuffled_words(words: Sequence[str], seed: str) -> list[str]:
    """The words in a random order other than the given one.

    Raises:
        ValueError: they are all the same, or there are fewer than two.
    """
    if len(set(words)) < 2:
        raise ValueError(f"{' '.join(words)!r} has no other order")
    turn = 0
    while (shuffled := drawn_order(words, f"{seed} {turn}")) == list(words):
        turn += 1
    return shuffled


def check_made(source: str, *, pocket: str) -> None:
    """Raise :class:`CorpusError` unless ``source`` is :data:`MADE`; ``pocket`` is why the pocket world has no items."""
    if source != MADE:
        if (path := Path(source)).is_file() and source != "pocket":
            raise not_items(path, columns_of(path), "choices")
        why = pocket if source == "pocket" else "items are made by rule and read from no file"
        raise CorpusError(f"{why}; give {MADE} for the corpus, or a table of such items")


_LEAST_RATIO = 10
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


def things() -> tuple[Thing, ...]:
    """All objects with their size and weight."""
    rows = [row.split() for line in _TABLES["things"].strip().splitlines() for row in line.split("|")]
    return tuple(Thing(name, float(size), float(weight)) for name, size, weight in rows)


def comparison_items(by: Literal["size", "weight"]) -> tuple[MadeItem, ...]:
    """Which of two objects is the larger, or the heavier.

    Objects are paired at random by a fixed seed, each used once, with one at least ten times as large as the other.
    Every pair is asked in both orders, in three wordings: the answer is *larger* as often as *smaller*, so that a
    constant answer is right half the time. Groups state how far apart the two are.
    """
    more, less = {"size": ("larger", "smaller"), "weight": ("heavier", "lighter")}[by]
    items = []
    for one, other in _pairs(by):
        group = f"over {_FAR} times" if _ratio(one, other, by) >= _FAR else f"{_LEAST_RATIO} to {_FAR} times"
        for first, second in ((one, other), (other, one)):
            greater = first.size > second.size if by == "size" else first.weight > second.weight
            answer, rival = (more, less) if greater else (less, more)
            for place, (wording, blind) in enumerate(_COMPARED):
                a, b = _with_article(first.name), _with_article(second.name)
                text = wording.replace("{A}", a.capitalize()).replace("{a}", a).replace("{b}", b)
                name, frame = f"{first.name}-{second.name}-{place}", f"{one.name} {other.name}"
                items.append(MadeItem(name, frame, group, text, answer, (rival,), blind))
    return tuple(items)


def affordance_items() -> tuple[MadeItem, ...]:
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
                    prompt, blind = text.replace("{thing}", name), text.replace("{thing}", "{mask}")
                    group = f"{one} or {other}"
                    items.append(MadeItem(f"{name}-{place}", frame, group, prompt, answer, (rival,), blind))
    return tuple(items)


def _pairs(by: Literal["size", "weight"]) -> list[tuple[Thing, Thing]]:
    """Every object of a drawn order with the first one left that is far enough from it.

    Pairs over and under :data:`_FAR` times are sought by turns, so that there are about as many of both.
    """
    left = drawn_order(things(), f"pairs by {by}")
    pairs: list[tuple[Thing, Thing]] = []
    while left:
        one = left.pop(0)
        apart = {place: _ratio(one, other, by) for place, other in enumerate(left)}
        enough = [place for place, ratio in apart.items() if ratio >= _LEAST_RATIO]
        wanted = [place for place in enough if (apart[place] >= _FAR) == len(pairs) % 2]
        if enough:
            pairs.append((one, left.pop((wanted or enough)[0])))
    return pairs


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
