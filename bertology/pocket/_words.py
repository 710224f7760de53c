"""The lexicon of the pocket world: inflected words and the frames of verbs, chosen at random by their weights."""

import random
import re
import tomllib
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from bertology.pocket._trees import Number, Word

T = TypeVar("T")


class Menu(Generic[T]):
    """Things to choose from by weight."""

    __slots__ = ("_bounds", "items", "total")

    def __init__(self, weighted: Iterable[tuple[T, float]]) -> None:
        pairs = list(weighted)
        self.items = [item for item, _ in pairs]
        self._bounds = list(accumulate(weight for _, weight in pairs))
        self.total = self._bounds[-1] if pairs else 0.0

    def __len__(self) -> int:
        return len(self.items)

    def at(self, share: float) -> T:
        """The thing at ``share`` (0 to 1) of the total weight."""
        return self.items[bisect(self._bounds, share * self.total, 0, len(self.items) - 1)]


class Dice:
    """A stream of random decisions determined by a seed."""

    __slots__ = ("_uniform",)

    def __init__(self, seed: str) -> None:
        self._uniform = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._uniform() < probability

    def below(self, bound: int) -> int:
        """An integer from 0 to ``bound`` − 1."""
        return int(self._uniform() * bound)

    def one_of(self, things: Sequence[T]) -> T:
        """One of them, all equally likely."""
        return things[int(self._uniform() * len(things))]

    def choose(self, menu: Menu[T]) -> T:
        """One thing of a menu, by weight."""
        return menu.at(self._uniform())

    def shuffled(self, things: Iterable[T]) -> list[T]:
        """The things in random order."""
        order = list(things)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order


WORDS: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
"""The word lists; the file documents how they are written."""
_ADVERBS: Mapping[str, str] = WORDS["adverbs"]
_NOUNS: Mapping[str, str] = {**WORDS["nouns"], "person": f"{WORDS['trades']} {WORDS['nouns']['person']}"}
VERB_CLASSES: Mapping[str, Mapping[str, str]] = WORDS["verb_classes"]
"""Semantic classes of verbs: their ``verbs``, and the proto-role properties of their arguments by role."""

Form = Literal["finite", "base", "participle", "passive_participle", "gerund"]
Pattern = Literal["intransitive", "transitive", "ditransitive", "prepositional", "particle", "that", "to"]
Reach = Literal["known", "all", "unseen"]
"""Words that a text may use: those of the probing splits, held-out ones besides, or all and mostly unseen ones."""

KINDS = ("person", "animal", "food", "stuff", "object", "tool", "place", "plant", "part", "event", "role")
_GROUPS = {
    "animate": ("person", "person", "animal"),
    "thing": ("object", "food", "tool", "plant"),
    "any": ("person", "animal", "food", "stuff", "object", "tool", "place", "plant", "event"),
}
_HELD_MARKS = {"~": "held", "~~": "new"}
_PATTERNS: Mapping[str, Pattern] = {"-": "intransitive", "that": "that", "to": "to"}


class Agreement(NamedTuple):
    """Person and number that a finite verb agrees with."""

    person: int
    number: Number


_NUMBERS: tuple[Number, ...] = ("Sing", "Plur")
AGREEMENTS = tuple(Agreement(person, number) for number in _NUMBERS for person in (1, 2, 3))
SINGULAR, PLURAL = Agreement(3, "Sing"), Agreement(3, "Plur")


@dataclass(frozen=True, eq=False)
class Noun:
    """A common noun. Mass nouns have no plural."""

    lemma: str
    kind: str
    singular: Word
    plural: Word | None


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb or auxiliary and its forms; finite ones agree."""

    lemma: str
    base: Word
    participle: Word
    passive_participle: Word
    gerund: Word
    past: Mapping[Agreement, Word]
    present: Mapping[Agreement, Word]
    short: Mapping[Agreement, Word]
    """Contracted presents: *'s*, *'re*, *'m*; of others the present."""

    def inflected(self, form: Form, agreement: Agreement, *, past: bool, short: bool = False) -> Word:
        """One form; a finite one agrees, and may be contracted in the present."""
        if form != "finite":
            word: Word = getattr(self, form)
            return word
        return (self.past if past else self.short if short else self.present)[agreement]


@dataclass(frozen=True, eq=False)
class Frame:
    """One way to use a verb: who does it, and what it takes."""

    verb: Verb
    pattern: Pattern
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    """Kinds or single nouns that the object may be."""
    particle: str = ""
    """The preposition of its object, or the particle of the verb."""
    stative: bool = False
    """A place named after the object belongs to the object (*knew the man in the park*)."""
    instrumental: bool = False
    """Takes an instrument (*cut the bread with a knife*)."""


def make_verb(parts: list[str], novelty: str | None) -> Verb:
    """A verb from its principal parts: base, and past and participle where they are irregular."""
    base = parts[0]
    past, participle = parts[1:] if len(parts) == 3 else (with_ed(base), with_ed(base))

    def form(spelling: str, xpos: str, feats: str) -> Word:
        return Word(spelling, base, "VERB", xpos, feats, novelty=novelty)

    def finite(agreement: Agreement) -> Word:
        third = agreement == SINGULAR
        feats = f"Mood=Ind|Number={agreement.number}|Person={agreement.person}|Tense=Pres|VerbForm=Fin"
        return form(third_person(base) if third else base, "VBZ" if third else "VBP", feats)

    present = {agreement: finite(agreement) for agreement in AGREEMENTS}
    return Verb(
        lemma=base,
        base=form(base, "VB", "VerbForm=Inf"),
        participle=form(participle, "VBN", "Tense=Past|VerbForm=Part"),
        passive_participle=form(participle, "VBN", "Tense=Past|VerbForm=Part|Voice=Pass"),
        gerund=form(with_ing(base), "VBG", "Tense=Pres|VerbForm=Part"),
        past=dict.fromkeys(AGREEMENTS, form(past, "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin")),
        present=present,
        short=present,
    )


def _make_frames(line: str, novelty: str | None) -> Iterator[Frame]:
    parts, subject, frames = (column.strip() for column in line.split("|"))
    verb = make_verb(parts.split(), novelty)
    for written in frames.split(","):
        *words, thing = (word for word in written.replace("!", "").split() if word != "state")
        marker = words[0] if words else ""
        pattern: Pattern = "transitive"
        if not marker:
            pattern = _PATTERNS.get(thing, pattern)
        else:
            pattern = "ditransitive" if marker == "2" else "particle" if marker[0] == "+" else "prepositional"
        particle = "" if marker == "2" else marker.removeprefix("+")
        subjects, objects = (_GROUPS.get(kind, (kind,)) for kind in (subject, thing))
        yield Frame(verb, pattern, subjects, objects, particle, "state" in written.split(), "!" in written)


def _ranked(entries: Iterable[str], reach: Reach) -> Iterator[tuple[str, str | None, float]]:
    """Entries that a text may use, each with its novelty and its weight: rank decides, and novelty where wanted."""
    novelty: str | None = None
    for rank, entry in enumerate(entries):
        if entry in _HELD_MARKS:
            novelty = _HELD_MARKS[entry]
            continue
        weight = 1.0 / (rank + 6)
        if novelty is None:
            yield entry, None, weight
        elif reach == "unseen":
            yield entry, novelty, 12 * weight
        elif reach == "all" and novelty == "held":
            yield entry, novelty, weight


def _adverb(form: str, novelty: str | None) -> Word:
    if form in ("today", "yesterday"):
        return Word(form, form, "NOUN", "NN", "Number=Sing", novelty=novelty)
    feats = "PronType=Dem" if form in ("here", "there", "then", "now") else None
    return Word(form, form, "ADV", "RB", feats, novelty=novelty)


def _verb_lines() -> Iterator[str]:
    """The verb table line by line, with a mark of its own before each held-out verb."""
    mark = None
    for line in filter(None, WORDS["verbs"].split("\n")):
        sign, _, rest = line.partition(" ")
        if sign in _HELD_MARKS and sign != mark:
            mark = sign
            yield sign
        yield rest if sign in _HELD_MARKS else line


class Lexicon:
    """Menus of words, by what they mean and how they combine."""

    def __init__(self, reach: Reach) -> None:
        self.nouns: dict[str, Menu[Noun]] = {}
        for kind, listed in _NOUNS.items():
            made: list[tuple[Noun, float]] = []
            for entry, novelty, weight in _ranked(listed.split(), reach):
                lemma, slash, stated = entry.partition("/")
                word = Word(lemma, lemma, "NOUN", "NN", "Number=Sing", novelty=novelty)
                plural = stated if slash else with_s(lemma)
                several = word._replace(form=plural, xpos="NNS", feats="Number=Plur") if plural else None
                made.append((Noun(lemma, kind, word, several), weight))
            self.nouns[kind] = Menu(made)
            for noun, weight in made:
                self.nouns.setdefault(noun.lemma, Menu([(noun, weight)]))
        self.noun_words = frozenset(
            word for menu in self.nouns.values() for noun in menu.items for word in (noun.singular, noun.plural) if word
        )
        frames: list[tuple[Frame, float]] = []
        for line, novelty, weight in _ranked(_verb_lines(), reach):
            made_frames = list(_make_frames(line, novelty))
            frames += [(frame, weight / len(made_frames)) for frame in made_frames]
        self.frames = Menu(frames)
        self._verbs = {frame.verb.lemma: frame.verb for frame, _ in reversed(frames)}
        self.frames_by_subject = {
            kind: Menu((frame, weight) for frame, weight in frames if kind in frame.subjects) for kind in KINDS
        }
        self.frames_by_object = {
            kind: Menu((f, weight) for f, weight in frames if kind in f.objects and f.pattern == "transitive")
            for kind in KINDS
        }
        adjectives = _ranked(WORDS["adjectives"].split(), reach)
        self.adjectives = Menu((Word(e, e, "ADJ", "JJ", "Degree=Pos", novelty=n), w) for e, n, w in adjectives)
        self.adverbs = {
            use: Menu((_adverb(e, n), w) for e, n, w in _ranked(listed.split(), reach))
            for use, listed in _ADVERBS.items()
        }

    def verbs(self, lemmas: Sequence[str]) -> list[Verb]:
        """The verbs of these lemmas."""
        return [self._verbs[lemma] for lemma in lemmas]


@lru_cache(maxsize=3)
def lexicon(reach: Reach) -> Lexicon:
    """The lexicon of all words within reach, made once."""
    return Lexicon(reach)


_SIBILANT = re.compile(r"(s|x|z|ch|sh|[^aeiou]o)$")
_SHORT = re.compile(r"^[^aeiou]*[aeiou][^aeiouwxy]$")
_THIRD_PERSON = {"have": "has", "do": "does", "be": "is"}
_DOUBLING = {"forget"}


def with_s(base: str) -> str:
    """The plural of a regular noun: *box* → *boxes*, *story* → *stories*."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if _SIBILANT.search(base) else "s")


def third_person(base: str) -> str:
    """The third person singular present of a verb."""
    return _THIRD_PERSON.get(base) or with_s(base)


def with_ed(base: str) -> str:
    """The regular past: *stop* → *stopped*, *try* → *tried*, *like* → *liked*."""
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return _doubled(base) + "ed"


def with_ing(base: str) -> str:
    """The present participle: *run* → *running*, *lie* → *lying*, *like* → *liking*."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) and base != "be":
        return base[:-1] + "ing"
    return _doubled(base) + "ing"


def _doubled(base: str) -> str:
    return base + base[-1] if _SHORT.match(base) or base in _DOUBLING else base
