"""Targets that follow from others: proto-roles from roles and classes of verbs, hard pronouns from coreference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from bertology.corpora import Target

_ACTING = ("awareness", "instigation", "volition")
_CLASSES = {
    "minding": """see have know hear like love want need hope wish guess believe think mean fear hate dream forget learn
    find lose""",
    "watching": "watch look listen search visit face eye wait guard meet follow",
    "saying": """say tell talk shout answer question call show laugh smile cry thank note voice sing greet whisper
    judge""",
    "moving": "run walk swim march fly ride leave arrive jump race duck dance leaf climb wander stumble",
    "falling": "fall rise come",
    "resting": "lie sleep live camp",
    "changing": """cook light cut break clean dry empty warm cool calm tidy paint open close change stop slow start wake
    dress coat free tame turn butter salt oil water square iron paper seed train nail polish""",
    "making": "make build draw grow plant book map flower branch root",
    "using up": "eat drink swallow",
    "touching": """hit hold bite saw hammer brush comb hook box bag bottle rock ring wheel card milk plow shovel drum
    field pick""",
    "giving": "give send hand bring ship sell buy trade take",
    "placing": "throw put park pilot carry bear juggle house bank",
    "treating": "help back nurse arm hunt chase fight hound tail guide",
    "doing": "do work play try fish plan shop bridge farm crow head rule",
}
"""Verbs by what they do to whom; each is in one class."""

_PROPERTIES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("minding", "A0"): ("awareness", "sentient"),
    ("watching", "A0"): (*_ACTING, "sentient"),
    ("saying", "A0"): (*_ACTING, "sentient"),
    ("saying", "A2"): ("awareness", "sentient"),
    ("moving", "A0"): (*_ACTING, "change_of_location"),
    ("moving", "A1"): ("stationary",),
    ("falling", "A0"): ("change_of_location",),
    ("falling", "A1"): ("change_of_location",),
    ("resting", "A0"): ("stationary",),
    ("changing", "A0"): _ACTING,
    ("changing", "A1"): ("change_of_state", "manipulated"),
    ("making", "A0"): _ACTING,
    ("making", "A1"): ("created", "manipulated"),
    ("using up", "A0"): (*_ACTING, "physical_contact"),
    ("using up", "A1"): ("change_of_state", "destroyed", "physical_contact"),
    ("touching", "A0"): (*_ACTING, "physical_contact"),
    ("touching", "A1"): ("manipulated", "physical_contact"),
    ("giving", "A0"): (*_ACTING, "changes_possession"),
    ("giving", "A1"): ("change_of_location", "changes_possession", "manipulated"),
    ("giving", "A2"): ("awareness", "changes_possession", "sentient"),
    ("placing", "A0"): (*_ACTING, "physical_contact"),
    ("placing", "A1"): ("change_of_location", "manipulated", "physical_contact"),
    ("treating", "A0"): _ACTING,
    ("treating", "A1"): ("awareness", "sentient"),
    ("doing", "A0"): _ACTING,
}
"""Which proto-role properties (Dowty 1991; names after Reisinger et al. 2015) an argument has by class and role."""

_ONLY_CHANGES = ("change_of_state",)
"""What its one argument has where a verb of changing or making takes no other (*the leaves grow*)."""

Targets = Mapping[str, tuple[Target, ...]]


@lru_cache(maxsize=1)
def verb_classes() -> Mapping[str, str]:
    """Class of each verb of the lexicon, by lemma."""
    return {lemma: name for name, lemmas in _CLASSES.items() for lemma in lemmas.split()}


def derived(targets: Targets, lemmas: Sequence[str | None], upos: Sequence[str | None]) -> Targets:
    """The targets ``proto_roles`` and ``winograd`` of a sentence, as far as it has any.

    Args:
        targets: what the grammar says: ``srl`` and ``coref``.
        lemmas: of all words.
        upos: parts of speech of all words.
    """
    found = {
        "proto_roles": tuple(_proto_roles(targets.get("srl", ()), lemmas)),
        "winograd": tuple(_winograd(targets.get("coref", ()), upos)),
    }
    return {name: made for name, made in found.items() if made}


def _proto_roles(roles: Sequence[Target], lemmas: Sequence[str | None]) -> Iterator[Target]:
    """Predicate, argument and all its properties, for the arguments that are no adjuncts."""
    with_object = {role.span1 for role in roles if role.label == "A1"}
    for role in roles:
        if role.label in ("A0", "A1", "A2"):
            kind = verb_classes()[str(lemmas[role.span1[0]])]
            properties = _PROPERTIES.get((kind, role.label), ())
            if kind in ("changing", "making") and role.label == "A0" and role.span1 not in with_object:
                properties = _ONLY_CHANGES
            yield Target(role.span1, tuple(sorted(properties)), role.span2)


def _winograd(pairs: Sequence[Target], upos: Sequence[str | None]) -> Iterator[Target]:
    """Each pronoun with what it means and one rival, both full phrases before it.

    The rival is the phrase nearest to the pronoun that means something else. The grammar uses no pronoun that could
    be taken for another by its form, so most of these are decided by gender and number, some by context alone.
    """
    before: dict[tuple[int, int], list[Target]] = {}
    for pair in pairs:
        if pair.span2 is not None and _is_pronoun(pair.span2, upos) and not _is_pronoun(pair.span1, upos):
            before.setdefault(pair.span2, []).append(pair)
    for found in before.values():
        right = [pair for pair in found if pair.label == "1"]
        wrong = [pair for pair in found if pair.label == "0"]
        if right and wrong:
            chosen = [max(part, key=lambda pair: (pair.span1[1], pair.span1[0])) for part in (right, wrong)]
            yield from sorted(chosen, key=lambda pair: pair.span1)


def _is_pronoun(span: tuple[int, int], upos: Sequence[str | None]) -> bool:
    return span[1] - span[0] == 1 and upos[span[0]] == "PRON"
