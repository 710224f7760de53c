"""The dictionary of the second pocket language: one stem for each sense of a word of the first, built from syllables.

A sense is a lemma with its part of speech (and the kind of pronoun), so that *watch* has one translation as a noun and
another as a verb. A verb with a particle (*pick up*) is one sense. The second language has another script, so that the
two have no letter, and therefore no word piece, in common but where names are spelled alike on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.lexicon import COMPANIES, COUNTRIES, SURNAMES, TOWNS, lexicon
from bertology.pocket.grammar.texts import statement
from bertology.pocket.grammar.tree import Dice, Phrase, Tree, Word
from bertology.pocket.grammar.world import facts, people, proper_noun

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_OTHER = "абцдефгхияклмнопщрстувшжыз"
_MARKS = {".": ":", ",": ";", "?": "¿", "!": "¡", "'": "’"}
_SCRIPT = str.maketrans({**dict(zip(_LATIN + _LATIN.upper(), _OTHER + _OTHER.upper(), strict=True)), **_MARKS})
_SCRIPT_LETTERS = frozenset(map(str, _SCRIPT.values()))

_CONSONANTS, _VOWELS = "bdgklmprsz", "aiou"
SUFFIXES: Mapping[str, str] = {
    **{"Plur": "fe", "Def": "te", "Acc": "ne", "Dat": "ve", "Gen": "he"},
    **{"Pass": "nef", "Perf": "hef", "Prog": "vet", "Inf": "ten", "Past": "fet", "Pres": "net", "Agr": "hen"},
}
"""Suffixes by what they mark, in Latin letters; they have vowels and consonants that stems do not have."""
_CLOSED = frozenset({"DET", "PRON", "ADP", "SCONJ", "CCONJ", "PART", "AUX"})


class Sense(NamedTuple):
    """What has a translation of its own."""

    lemma: str
    upos: str
    kind: str = ""
    """``Rel``, ``Int``, ``Dem`` …, for words that are pronouns in several ways."""


def transliterated(text: str) -> str:
    """A text in the letters and marks of the second language, letter by letter."""
    return text.translate(_SCRIPT)


def is_of_second(text: str) -> bool:
    """Whether a text has a letter or mark of the second language."""
    return not _SCRIPT_LETTERS.isdisjoint(text)


def sense_of(word: Word, particle: str = "") -> Sense:
    """The sense of a word of the first language, with the particle of a verb if it has one."""
    kind = next((part.partition("=")[2] for part in (word.feats or "").split("|") if part.startswith("PronType=")), "")
    return Sense(f"{word.lemma} {particle}" if particle else word.lemma, word.upos, kind)


@lru_cache(maxsize=1)
def dictionary() -> Mapping[Sense, str]:
    """The stem of each sense but punctuation, in Latin letters; all stems differ."""
    dice, stems, taken = Dice("pocket second language"), {}, set[str]()
    for sense in sorted(set(_senses())):
        while True:
            n_syllables = 2 if sense.upos in _CLOSED or dice.chance(0.4) else 3
            stem = "".join(dice.one_of(_CONSONANTS) + dice.one_of(_VOWELS) for _ in range(n_syllables))
            if stem not in taken:
                break
        taken.add(stem)
        stems[sense] = stem
    return stems


@lru_cache(maxsize=8)
def alike(share: float) -> frozenset[str]:
    """Names of people, towns and countries that both languages spell alike: a share of them drawn at random.

    Those of a smaller share are among those of a larger one.
    """
    names = Dice("pocket anchors").shuffled([*(person.name for person in people()), *TOWNS, *COUNTRIES])
    return frozenset(names[: round(share * len(names))])


def _senses() -> Iterator[Sense]:
    words = lexicon("unseen")  # with the words that other texts leave out
    for menu in words.nouns.values():
        yield from (sense_of(noun.singular) for noun in menu.items)
    for frame in words.frames.items:
        yield sense_of(frame.verb.base, frame.particle if frame.pattern == "particle" else "")
    for adverbs in (words.adjectives, *words.adverbs.values()):
        yield from map(sense_of, adverbs.items)
    names = [*(person.name for person in people()), *SURNAMES, *TOWNS, *COUNTRIES, *COMPANIES]
    yield from (sense_of(proper_noun(name)) for name in names)
    of_each_relation = {fact.relation: fact for fact in facts()}.values()
    trees = (statement(fact, number).tree for fact in of_each_relation for number in range(len(fact.templates)))
    for word in (*_words_in(vars(fw).values()), *(word for tree in trees for word in leaves(tree))):
        if word.upos != "PUNCT":
            yield sense_of(word)


def leaves(tree: Tree) -> Iterator[Word]:
    """The words of a tree, in order."""
    if isinstance(tree, Word):
        yield tree
    else:
        for part in tree.parts:
            yield from leaves(part.tree)


def _words_in(values: Iterable[Any]) -> Iterator[Word]:
    """All words in nested tuples and mappings."""
    for value in values:
        if isinstance(value, Word):
            yield value
        elif isinstance(value, tuple) and not isinstance(value, Phrase):
            yield from _words_in(value)
        elif isinstance(value, dict):
            yield from _words_in(value.values())
