"""Prompts about the pocket world whose truth is known: facts and their negations, who does what to what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bertology.pocket._dice import Dice
from bertology.pocket._lexicon import Frame, Lexicon, Noun, Verb, lexicon
from bertology.pocket._world import Fact, Relation, candidates, facts

_COPULAR: dict[Relation, int] = {"lives_in": 1, "born_in": 0, "works_as": 1, "capital_of": 0}
"""Which template of a relation has *is* or *was*, which takes *not* with no other change."""
_KINDS = ("person", "animal", "food", "stuff", "object", "tool", "place", "plant", "event")
_SENTENCES_OF_A_VERB = 4


@dataclass(frozen=True)
class FactPrompt:
    """A fact as a prompt, and its negation."""

    fact: Fact
    text: str
    """*The home of Anna is in {mask}.*"""
    negated: str
    """*The home of Anna is not in {mask}.*"""
    rival: str
    """What the object could be and is not: it makes the negation true. Drawn by chance, whatever the text says."""


@dataclass(frozen=True)
class RolePrompt:
    """Someone does something to something, and not the other way about: no rule of the grammar allows that."""

    verb: str
    """The base form that stands at the mask."""
    text: str
    """*The woman will {mask} the bread.*"""
    reversed: str
    """*The bread will {mask} the woman.*"""
    without_subject: str
    """A pronoun for it: *They will {mask} the bread.*"""
    without_object: str
    """A pronoun for it: *The woman will {mask} them.*"""


def fact_prompts(*, least_stated: int = 16) -> tuple[FactPrompt, ...]:
    """Facts that the pretraining text states often enough to be known, each with its negation.

    Args:
        least_stated: how often the text must state a fact.
    """
    dice = Dice("pocket negations")
    found = []
    for fact in facts():
        rival = dice.one_of([name for name in candidates(fact.relation) if name != fact.object])
        if fact.n_stated >= least_stated:
            text = fact.templates[_COPULAR[fact.relation]].replace("[X]", fact.subject).replace("[Y]", "{mask}")
            copula = " was " if " was " in text else " is "
            found.append(FactPrompt(fact, text, text.replace(copula, f"{copula}not ", 1), rival))
    return tuple(found)


def role_prompts() -> tuple[RolePrompt, ...]:
    """Sentences whose two roles cannot be exchanged: four for every verb of the grammar that has such.

    A verb is taken with a kind of subject and a kind of object if no frame of it allows these kinds the other way
    about. Nouns that belong to several kinds are not used.
    """
    words = lexicon("known")
    dice = Dice("pocket roles")
    nouns = _plain_nouns(words)
    found: dict[str, RolePrompt] = {}
    for verb, kinds in _asymmetric(words):
        subjects = [(kind, noun) for kind in sorted({one for one, _ in kinds}) for noun in nouns[kind]]
        before = len(found)
        for _ in range(20 * _SENTENCES_OF_A_VERB):
            kind, subject = dice.one_of(subjects)
            target = dice.one_of(sorted(other for one, other in kinds if one == kind))
            prompt = _role_prompt(verb, subject, dice.one_of(nouns[target]))
            found.setdefault(prompt.text + verb.lemma, prompt)
            if len(found) - before == _SENTENCES_OF_A_VERB:
                break
    return tuple(found.values())


def _plain_nouns(words: Lexicon) -> dict[str, list[Noun]]:
    """The nouns of each kind that are of no other."""
    counts: dict[str, int] = {}
    for kind in _KINDS:
        for noun in words.nouns[kind].items:
            counts[noun.lemma] = counts.get(noun.lemma, 0) + 1
    return {kind: [noun for noun in words.nouns[kind].items if counts[noun.lemma] == 1] for kind in _KINDS}


def _asymmetric(words: Lexicon) -> Iterator[tuple[Verb, set[tuple[str, str]]]]:
    """Verbs with the kinds of subject and object that they allow in this order only."""
    by_lemma: dict[str, list[Frame]] = {}
    for frame in words.frames.items:
        if frame.pattern == "transitive":
            by_lemma.setdefault(frame.verb.lemma, []).append(frame)
    for frames in by_lemma.values():
        pairs = {(one, other) for frame in frames for one in frame.subjects for other in frame.objects}
        kept = {(one, other) for one, other in pairs if one in _KINDS and other in _KINDS}
        kept = {(one, other) for one, other in kept if one != other and (other, one) not in pairs}
        if kept:
            yield frames[0].verb, kept


def _role_prompt(verb: Verb, subject: Noun, thing: Noun) -> RolePrompt:
    one, other = f"the {subject.singular.form}", f"the {thing.singular.form}"
    return RolePrompt(
        verb.base.form,
        f"{one.capitalize()} will {{mask}} {other}.",
        f"{other.capitalize()} will {{mask}} {one}.",
        f"They will {{mask}} {other}.",
        f"{one.capitalize()} will {{mask}} them.",
    )
