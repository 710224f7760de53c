"""Closed classes: determiners, pronouns, prepositions, conjunctions, auxiliaries, punctuation."""

from __future__ import annotations

from typing import NamedTuple

from bertology.pocket.grammar.lexicon import PLURAL, SINGULAR, Agreement, Number, agreements
from bertology.pocket.grammar.tree import Word


class Pronoun(NamedTuple):
    """A personal pronoun in all its shapes."""

    subject: Word
    object: Word
    possessive: Word
    reflexive: Word
    agreement: Agreement
    gender: str | None


def _pronoun(forms: str, person: int, number: Number, gender: str | None = None) -> Pronoun:
    subject, obj, possessive, reflexive = forms.split()
    agree = f"Number={number}|Person={person}|"
    gendered = f"Gender={gender}|" if gender else ""

    def word(form: str, lemma: str, xpos: str, case: str, extra: str) -> Word:
        return Word(form, lemma, "PRON", xpos, f"Case={case}|{gendered}{agree}{extra}")

    return Pronoun(
        word(subject, subject, "PRP", "Nom", "PronType=Prs"),
        word(obj, subject, "PRP", "Acc", "PronType=Prs"),
        word(possessive, possessive, "PRP$", "Gen", "Poss=Yes|PronType=Prs"),
        word(reflexive, reflexive, "PRP", "Acc", "PronType=Prs|Reflex=Yes"),
        Agreement(person, number),
        gender,
    )


I = _pronoun("I me my myself", 1, "Sing")  # noqa: E741
YOU = _pronoun("you you your yourself", 2, "Sing")
WE = _pronoun("we us our ourselves", 1, "Plur")
HE = _pronoun("he him his himself", 3, "Sing", "Masc")
SHE = _pronoun("she her her herself", 3, "Sing", "Fem")
IT = _pronoun("it it its itself", 3, "Sing", "Neut")
THEY = _pronoun("they them their themselves", 3, "Plur")


def third_person_pronoun(number: Number, gender: str) -> Pronoun:
    """The pronoun that takes up a mention."""
    return THEY if number == "Plur" else {"Fem": SHE, "Masc": HE, "Neut": IT}[gender]


def _determiners(forms: str, xpos: str, feats: str | None, lemma: str | None = None) -> dict[str, Word]:
    return {form: Word(form, lemma or form, "DET", xpos, feats) for form in forms.split()}


_DEMONSTRATED = (
    *(("this", "this", SINGULAR), ("that", "that", SINGULAR)),
    *(("these", "this", PLURAL), ("those", "that", PLURAL)),
)
DET = {
    **_determiners("the", "DT", "Definite=Def|PronType=Art"),
    **_determiners("a an", "DT", "Definite=Ind|PronType=Art", "a"),
    **{
        form: Word(form, lemma, "DET", "DT", f"Number={agreement.number}|PronType=Dem")
        for form, lemma, agreement in _DEMONSTRATED
    },
    **_determiners("every each all", "DT", "PronType=Tot"),
    **_determiners("some", "DT", "PronType=Ind"),
    **_determiners("no", "DT", "PronType=Neg"),
    **_determiners("which what", "WDT", "PronType=Int"),
}
QUANTIFIERS = {form: Word(form, form, "ADJ", "JJ", "Degree=Pos") for form in ("many", "few")}
NUMERALS = tuple(Word(n, n, "NUM", "CD", "NumForm=Word|NumType=Card") for n in ("two", "three", "four", "five"))

DEMONSTRATIVES = tuple(
    (Word(form, lemma, "PRON", "DT", f"Number={agreement.number}|PronType=Dem"), agreement)
    for form, lemma, agreement in _DEMONSTRATED
)
RELATIVE = {
    "that": Word("that", "that", "PRON", "WDT", "PronType=Rel"),
    "which": Word("which", "which", "PRON", "WDT", "PronType=Rel"),
    "who": Word("who", "who", "PRON", "WP", "PronType=Rel"),
    "whom": Word("whom", "whom", "PRON", "WP", "Case=Acc|PronType=Rel"),
}
WHO = Word("who", "who", "PRON", "WP", "PronType=Int")
WHAT = Word("what", "what", "PRON", "WP", "PronType=Int")
WHERE = Word("where", "where", "ADV", "WRB", "PronType=Int")
WHERE_RELATIVE = Word("where", "where", "ADV", "WRB", "PronType=Rel")
WHEN = Word("when", "when", "ADV", "WRB", "PronType=Int")
WHY = Word("why", "why", "ADV", "WRB", "PronType=Int")
EXISTENTIAL = Word("there", "there", "PRON", "EX")


_PREPOSITIONS = """in on at to near by with from of about behind under over across through past before after during
without for like around inside outside down up beside since until"""
PREPOSITIONS = {form: Word(form, form, "ADP", "IN") for form in _PREPOSITIONS.split()}
PARTICLES = {form: Word(form, form, "ADP", "RP") for form in ("up", "down", "away", "back", "on", "off")} | {
    form: Word(form, form, "ADV", "RB") for form in ("away", "back")
}
_SUBORDINATORS = ("because", "if", "while", "before", "after", "since", "until", "although")
SUBORDINATORS = {form: Word(form, form, "SCONJ", "IN") for form in _SUBORDINATORS}
THAT = Word("that", "that", "SCONJ", "IN")
TO = Word("to", "to", "PART", "TO")
AND = Word("and", "and", "CCONJ", "CC")
OR = Word("or", "or", "CCONJ", "CC")
BUT = Word("but", "but", "CCONJ", "CC")
POSSESSIVE = Word("'s", "'s", "PART", "POS", glued=True)
POSSESSIVE_PLURAL = Word("'", "'s", "PART", "POS", glued=True)
NOT = Word("not", "not", "PART", "RB", "Polarity=Neg")
NT = Word("n't", "not", "PART", "RB", "Polarity=Neg", glued=True)

COMMA = Word(",", ",", "PUNCT", ",", glued=True)
PERIOD = Word(".", ".", "PUNCT", ".", glued=True)
QUESTION_MARK = Word("?", "?", "PUNCT", ".", glued=True)
EXCLAMATION = Word("!", "!", "PUNCT", ".", glued=True)


class Auxiliary(NamedTuple):
    """An auxiliary's forms, all ``AUX``."""

    lemma: str
    base: Word
    past: dict[Agreement, Word]
    present: dict[Agreement, Word]
    participle: Word | None
    short: dict[Agreement, Word]
    """Contracted presents: *'s*, *'re*, *'m*."""


def _finite(form: str, lemma: str, xpos: str, tense: str, agreement: Agreement, *, glued: bool = False) -> Word:
    feats = f"Mood=Ind|Number={agreement.number}|Person={agreement.person}|Tense={tense}|VerbForm=Fin"
    return Word(form, lemma, "AUX", xpos, feats, glued)


def _auxiliary(lemma: str, third: str, plain: str, past: str, participle: str | None) -> Auxiliary:
    present = {
        a: _finite(third, lemma, "VBZ", "Pres", a) if a == SINGULAR else _finite(plain, lemma, "VBP", "Pres", a)
        for a in agreements()
    }
    return Auxiliary(
        lemma,
        Word(lemma, lemma, "AUX", "VB", "VerbForm=Inf"),
        {a: Word(past, lemma, "AUX", "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin") for a in agreements()},
        present,
        Word(participle, lemma, "AUX", "VBN", "Tense=Past|VerbForm=Part") if participle else None,
        {},
    )


def _be() -> Auxiliary:
    plain, first = _auxiliary("be", "is", "are", "were", "been"), Agreement(1, "Sing")
    past = {a: _finite("was" if a in (first, SINGULAR) else "were", "be", "VBD", "Past", a) for a in agreements()}
    present = plain.present | {first: _finite("am", "be", "VBP", "Pres", first)}
    forms = {first: "'m", SINGULAR: "'s"}
    short = {a: word._replace(form=forms.get(a, "'re"), glued=True) for a, word in present.items()}
    return plain._replace(past=past, present=present, short=short)


BE = _be()
BEING = Word("being", "be", "AUX", "VBG", "Tense=Pres|VerbForm=Part")
HAVE = _auxiliary("have", "has", "have", "had", None)
DO = _auxiliary("do", "does", "do", "did", None)
MODALS = tuple(
    Word(form, form, "AUX", "MD", "VerbForm=Fin") for form in ("can", "will", "may", "must", "should", "could", "would")
)
CONTRACTED_MODALS = {
    "can": Word("ca", "can", "AUX", "MD", "VerbForm=Fin"),
    "will": Word("wo", "will", "AUX", "MD", "VerbForm=Fin"),
}
EXISTENTIAL_BE = {
    (past, number): word._replace(upos="VERB")
    for past, forms in ((False, BE.present), (True, BE.past))
    for (person, number), word in forms.items()
    if person == 3
}
"""*is*, *are*, *was*, *were* after *there*: verbs in Universal Dependencies, for nothing else is the predicate."""
