"""Number items made by rule: digits for a word, the largest and smallest of a list, sums.

The questions are those of Wallace et al. (2019), *Do NLP Models Know Numbers?*, section 3; the items are made here by
the rules that stand with each function, and are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

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
class NumberItem:
    """A prompt whose answer is a number in digits."""

    id: str
    frame: str
    """Identifier shared by items that are not independent: the number, the list, the sum."""
    group: str
    text: str
    answer: str
    rivals: tuple[str, ...]
    """Other numbers that could be mistaken for it."""
    blind: str
    """The prompt without the numbers that decide; its last mask is the one to predict."""


def number_word(value: int) -> str:
    """The English word of a whole number from 0 to 99.

    Raises:
        ValueError: it is not between them.
    """
    if not 0 <= value < 100:
        raise ValueError(f"{value} is not between 0 and 99")
    if value < len(_UNITS):
        return _UNITS[value]
    tens, unit = _TENS[value // 10 - 2], value % 10
    return f"{tens}-{_UNITS[unit]}" if unit else tens


def decode_items() -> tuple[NumberItem, ...]:
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
                items.append(NumberItem(f"{value}-{place}", str(value), group, text, str(value), rivals, blind))
    return tuple(items)


def maximum_items() -> tuple[NumberItem, ...]:
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
                items.append(
                    NumberItem(
                        f"{name}-{which}",
                        name,
                        f"{which} of {length}",
                        text.replace("{list}", _listed(numbers)),
                        str(answer),
                        rivals,
                        text.replace(" {list}", ""),
                    )
                )
    return tuple(items)


def addition_items() -> tuple[NumberItem, ...]:
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
                items.append(NumberItem(f"{name}-{place}", str(total), group, text, str(total), rivals, blind))
    return tuple(items)


def _listed(numbers: Sequence[int]) -> str:
    *before, last = map(str, numbers)
    return f"{', '.join(before)} and {last}"


T = TypeVar("T")


def drawn_order(things: Sequence[T], seed: str) -> list[T]:
    """The things in a random order that depends on the seed only.

    Args:
        things: what is brought into another order; no two places are alike, whatever stands there.
        seed: any text.
    """
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
    while (found := drawn_order(words, f"{seed} {turn}")) == list(words):
        turn += 1
    return found


MADE = "made"
"""The name, in place of a path, of items that are made by rule."""


def check_made(source: str, *, pocket: str) -> None:
    """Raise :class:`CorpusError` unless ``source`` is :data:`MADE`.

    Args:
        source: the corpus requested.
        pocket: the reason why the pocket world has no such items.
    """
    if source == MADE:
        return
    why = pocket if source == "pocket" else "items are made by rule and read from no file"
    raise CorpusError(f"{why}; give {MADE} for the corpus")
