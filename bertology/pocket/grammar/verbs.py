"""Verbal groups by affix hopping (Chomsky 1957): each auxiliary decides the form of the verb after it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.lexicon import Agreement, Verb
from bertology.pocket.grammar.tree import Dice, Part, Word

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
    """Auxiliaries with their relations, and the main word (none after a copula)."""

    fronted: tuple[Part, ...]
    auxiliaries: tuple[Part, ...]
    main: Word | None


class _Link(NamedTuple):
    """One auxiliary of the chain, and the form that it demands of the next verb."""

    relation: str
    lexeme: fw.Auxiliary | Word
    demands: Form


def verbal_group(verb: Verb | None, agreement: Agreement, style: Style, *, after_pronoun: bool = False) -> VerbalGroup:
    """The verbal group of a clause.

    Args:
        verb: the lexical verb; ``None`` for a clause with a copula and another predicate.
        agreement: what the finite verb agrees with.
        style: tense, aspect, voice, polarity, inversion.
        after_pronoun: whether a pronoun precedes, to which a short form may be glued.
    """
    chain = _chain(verb, style)
    form: Form = style.form
    parts: list[Part] = []
    for link in chain:
        short = style.contracted and after_pronoun and not parts and not (style.negated or style.inverted)
        role = "AM-MOD" if isinstance(link.lexeme, Word) else None
        parts.append(Part(link.relation, _auxiliary_form(link.lexeme, form, agreement, style, short=short), role))
        form = link.demands
    main = None if verb is None else _verb_form(verb, form, agreement, past=style.past)
    if style.negated:
        parts[0:1] = _negated(parts[0], contracted=style.contracted)
    n_fronted = (2 if style.negated and style.contracted else 1) if style.inverted else 0
    return VerbalGroup(tuple(parts[:n_fronted]), tuple(parts[n_fronted:]), main)


def _chain(verb: Verb | None, style: Style) -> list[_Link]:
    """The auxiliaries in order: modal, perfect *have*, progressive *be*, passive *be*, copula; *do* where none is."""
    chain = []
    if style.modal:
        chain.append(_Link("aux", style.modal, "base"))
    if style.perfect:
        chain.append(_Link("aux", fw.HAVE, "participle"))
    if style.progressive and verb is not None:
        chain.append(_Link("aux", fw.BE, "gerund"))
    if style.passive:
        chain.append(_Link("aux:pass", fw.BE, "passive participle"))
    if verb is None:
        chain.append(_Link("cop", fw.BE, "base"))
    if not chain and style.form != "gerund" and (style.negated or style.inverted):
        chain.append(_Link("aux", fw.DO, "base"))
    return chain


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
        return verb.past if past else verb.present(agreement)
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
