"""What a text is about: its cast, and what has been mentioned so far."""

from __future__ import annotations

from typing import NamedTuple

from bertology.pocket import _words
from bertology.pocket._dice import Dice
from bertology.pocket._lexicon import KINDS, Agreement, Lexicon, Noun
from bertology.pocket._tree import Phrase
from bertology.pocket._world import Person, people


class Nominal(NamedTuple):
    """A noun phrase with what the rest of the sentence must know of it."""

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
not repeat one, as stories from a farm or a harbour do; it is by this that the next sentence can be told from any."""
_FAITHFUL = 0.85
"""How often what is not of the cast is of the theme."""


class Scene:
    """The people, places and things that a text keeps coming back to, and the dice that decide the rest.

    Args:
        dice: decide.
        lexicon: the words there are.
        hero: someone who must be of the cast.
        theme: from 0, what the text is about; ``None`` for anything.
    """

    def __init__(self, dice: Dice, lexicon: Lexicon, *, hero: Person | None = None, theme: int | None = None) -> None:
        self.dice = dice
        self.lexicon = lexicon
        self._theme = theme
        cast = people() if theme is None else people()[theme::N_THEMES]
        self.people: list[Person] = [hero or dice.one_of(cast), dice.one_of(cast)]
        self.town = dice.one_of(_words.TOWNS)
        self.country = dice.one_of(_words.COUNTRIES)
        self.nouns: dict[str, Noun] = {kind: self._any_noun(kind) for kind in KINDS}
        self.noun_words = lexicon.noun_words
        self.mentions: list[Nominal] = []
        self._referents = 0
        self._speakers: dict[Agreement, int] = {}

    def begin_sentence(self) -> None:
        """Forget who was mentioned: reference is annotated inside a sentence."""
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
        """Note a mention, so that pronouns can take it up."""
        self.mentions.append(nominal)
        return nominal

    def noun(self, kind: str) -> Noun:
        """A noun of some kind, often one that the text is about; a noun's own lemma is a kind of its own."""
        if kind in self.nouns and self.dice.chance(0.5):
            return self.nouns[kind]
        return self._any_noun(kind)

    def _any_noun(self, kind: str) -> Noun:
        menu = self.lexicon.nouns[kind]
        if self._theme is not None and len(menu) >= N_THEMES and self.dice.chance(_FAITHFUL):
            return self.dice.one_of(menu.items[self._theme :: N_THEMES])
        return self.dice.choose(menu)

    def person(self) -> Person:
        """Someone by name, mostly of the cast, and not mentioned twice in a sentence by chance."""
        dice = self.dice
        return dice.one_of(self.people) if dice.chance(0.85) else dice.one_of(people())

    def antecedent(self, kinds: tuple[str, ...]) -> Nominal | None:
        """A mention of this sentence that a third-person pronoun would take up without doubt."""
        for mention in self.mentions:
            if mention.kind in kinds and mention.referent and mention.agreement.person == 3:
                rivals = {m.referent for m in self.mentions if _compatible(m, mention)}
                if len(rivals) == 1:
                    return mention
        return None


def _compatible(one: Nominal, other: Nominal) -> bool:
    if one.agreement != other.agreement:
        return False
    if one.agreement.number == "Plur" or one.gender == other.gender:
        return True
    return "Neut" not in (one.gender, other.gender) and None in (one.gender, other.gender)
