"""Verbal groups by affix hopping (Chomsky 1957): each auxiliary decides the form of the verb after it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.lexicon import Agreement, Verb
from bertology.pocket.grammar.tree import Dice, Part, Word, head

Form = Literal["finite", "base", "participle", "passive participle", "gerund"]
_UNCONTRACTED = ("am", "may")


class Style(NamedTuple):
    """The tense, aspect, voice and polarity of a clause."""

    past: bool = False
    modal: Word | None = None
    perfect: bool = False
    progressive: bool = False
    passive: bool = False
    negated: bool = False
    inverted: bool = False
    """The first auxiliary stands before the subject, as in questions."""
    form: Form = "finite"
    """The form of the first word of the group."""
    contracted: bool = False
    """*n't* for *not*, and *'s*, *'re*, *'m* after a pronoun."""


class VerbalGroup(NamedTuple):
    """Auxiliaries with their relations, and the main verb (none after a copula)."""

    fronted: tuple[Part, ...]
    auxiliaries: tuple[Part, ...]
    main: tuple[Part, ...]


_Link: TypeAlias = tuple[str, fw.Auxiliary | Word, Form]
"""The relation of one auxiliary of the chain, the auxiliary, and the form that it demands of the next verb."""


def verbal_group(verb: Verb | None, agreement: Agreement, style: Style, *, after_pronoun: bool = False) -> VerbalGroup:
    """The verbal group of a clause; without a verb, of one with a copula and another predicate.

    A short form may be glued to a pronoun that precedes (``after_pronoun``).
    """
    form: Form = style.form
    parts: list[Part] = []
    for relation, lexeme, next_form in _chain(verb, style):
        short = style.contracted and after_pronoun and not parts and not (style.negated or style.inverted)
        role = "AM-MOD" if isinstance(lexeme, Word) else None
        parts.append(Part(relation, _auxiliary_form(lexeme, form, agreement, style, short=short), role))
        form = next_form
    main = () if verb is None else (head(_verb_form(verb, form, agreement, past=style.past)),)
    if style.negated:
        parts[0:1] = _negated(parts[0], contracted=style.contracted)
    n_fronted = (2 if style.negated and style.contracted else 1) if style.inverted else 0
    return VerbalGroup(tuple(parts[:n_fronted]), tuple(parts[n_fronted:]), main)


def _chain(verb: Verb | None, style: Style) -> list[_Link]:
    """The auxiliaries in order: modal, perfect *have*, progressive *be*, passive *be*, copula; *do* where none is."""
    do: _Link = ("aux", fw.DO, "base")
    links: tuple[tuple[object, _Link], ...] = (
        (style.modal, ("aux", style.modal or fw.DO, "base")),
        (style.perfect, ("aux", fw.HAVE, "participle")),
        (style.progressive and verb, ("aux", fw.BE, "gerund")),
        (style.passive, ("aux:pass", fw.BE, "passive participle")),
        (verb is None, ("cop", fw.BE, "base")),
    )
    needs_do = style.form != "gerund" and (style.negated or style.inverted)
    return [link for is_there, link in links if is_there] or [do] * needs_do


def _negated(first: Part, *, contracted: bool) -> list[Part]:
    """The first auxiliary with its negation: *is not*, *isn't*, *can't*."""
    word = first.tree
    if not contracted or not isinstance(word, Word) or word.form in _UNCONTRACTED:
        return [first, Part("advmod", fw.NOT, "AM-NEG")]
    return [first._replace(tree=fw.CONTRACTED_MODALS.get(word.form, word)), Part("advmod", fw.NT, "AM-NEG")]


def _auxiliary_form(
    lexeme: fw.Auxiliary | Word, form: Form, agreement: Agreement, style: Style, *, short: bool
) -> Word:
    if isinstance(lexeme, Word):
        return lexeme
    if form == "finite":
        if style.past:
            return lexeme.past[agreement]
        return lexeme.short[agreement] if short and lexeme.short else lexeme.present[agreement]
    if form == "participle" and lexeme.participle is not None:
        return lexeme.participle
    if form == "gerund":
        return fw.BEING
    return lexeme.base


def _verb_form(verb: Verb, form: Form, agreement: Agreement, *, past: bool) -> Word:
    if form == "finite":
        return verb.past if past else verb.present[agreement]
    return {
        "base": verb.base,
        "participle": verb.participle,
        "passive participle": verb.passive_participle,
        "gerund": verb.gerund,
    }[form]


def random_style(dice: Dice, *, inverted: bool = False, passive: bool = False) -> Style:
    """A finite style: mostly simple present or past, sometimes modal, perfect, progressive, negated."""
    draw = dice.below(100)
    return Style(
        past=dice.chance(0.25),
        modal=dice.one_of(fw.MODALS) if draw < 14 else None,
        perfect=14 <= draw < 24,
        progressive=24 <= draw < 38 and not passive,
        passive=passive,
        negated=dice.chance(0.12),
        inverted=inverted,
        contracted=dice.chance(0.5),
    )
