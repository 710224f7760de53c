"""Closed classes: determiners, pronouns, prepositions, conjunctions, auxiliaries, punctuation."""

from dataclasses import replace
from typing import NamedTuple

from bertology.pocket._trees import Number, Word
from bertology.pocket._words import AGREEMENTS, PLURAL, SINGULAR, Agreement, Verb


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
    """The third-person pronoun that agrees with a mention in number and gender."""
    return THEY if number == "Plur" else {"Fem": SHE, "Masc": HE, "Neut": IT}[gender]


def _words(forms: str, upos: str, xpos: str, feats: str | None = None, lemma: str | None = None) -> dict[str, Word]:
    """Words by form, each its own lemma if none is given."""
    return {form: Word(form, lemma or form, upos, xpos, feats) for form in forms.split()}


_DEMONSTRATED = (
    *(("this", "this", SINGULAR), ("that", "that", SINGULAR)),
    *(("these", "this", PLURAL), ("those", "that", PLURAL)),
)
DET = {
    **_words("the", "DET", "DT", "Definite=Def|PronType=Art"),
    **_words("a an", "DET", "DT", "Definite=Ind|PronType=Art", "a"),
    **{
        form: Word(form, lemma, "DET", "DT", f"Number={agreement.number}|PronType=Dem")
        for form, lemma, agreement in _DEMONSTRATED
    },
    **_words("every each all", "DET", "DT", "PronType=Tot"),
    **_words("some", "DET", "DT", "PronType=Ind"),
    **_words("no", "DET", "DT", "PronType=Neg"),
    **_words("which what", "DET", "WDT", "PronType=Int"),
}
QUANTIFIERS = _words("many few", "ADJ", "JJ", "Degree=Pos")
NUMERALS = tuple(_words("two three four five", "NUM", "CD", "NumForm=Word|NumType=Card").values())
DEMONSTRATIVES = tuple(
    (Word(form, lemma, "PRON", "DT", f"Number={agreement.number}|PronType=Dem"), agreement)
    for form, lemma, agreement in _DEMONSTRATED
)
RELATIVE = {
    **_words("that which", "PRON", "WDT", "PronType=Rel"),
    **_words("who", "PRON", "WP", "PronType=Rel"),
    **_words("whom", "PRON", "WP", "Case=Acc|PronType=Rel"),
}
WHO, WHAT = _words("who what", "PRON", "WP", "PronType=Int").values()
WHERE, WHEN, WHY = _words("where when why", "ADV", "WRB", "PronType=Int").values()
WHERE_RELATIVE = Word("where", "where", "ADV", "WRB", "PronType=Rel")
EXISTENTIAL = Word("there", "there", "PRON", "EX")

_PREPOSITIONS = """in on at to near by with from of about behind under over across through past before after during
without for like as around inside outside down up beside since until"""
PREPOSITIONS = _words(_PREPOSITIONS, "ADP", "IN")
PARTICLES = _words("up down on off", "ADP", "RP") | _words("away back", "ADV", "RB")
SUBORDINATORS = _words("because if while before after since until although", "SCONJ", "IN")
THAT = Word("that", "that", "SCONJ", "IN")
TO = Word("to", "to", "PART", "TO")
AND, OR, BUT = _words("and or but", "CCONJ", "CC").values()
POSSESSIVE = Word("'s", "'s", "PART", "POS", glued=True)
POSSESSIVE_PLURAL = Word("'", "'s", "PART", "POS", glued=True)
NOT = Word("not", "not", "PART", "RB", "Polarity=Neg")
NT = Word("n't", "not", "PART", "RB", "Polarity=Neg", glued=True)

COMMA = Word(",", ",", "PUNCT", ",", glued=True)
PERIOD, QUESTION_MARK, EXCLAMATION = (Word(mark, mark, "PUNCT", ".", glued=True) for mark in ".?!")


def _finite(form: str, lemma: str, xpos: str, tense: str, agreement: Agreement) -> Word:
    feats = f"Mood=Ind|Number={agreement.number}|Person={agreement.person}|Tense={tense}|VerbForm=Fin"
    return Word(form, lemma, "AUX", xpos, feats)


def _auxiliary(lemma: str, third: str, plain: str, past: str) -> Verb:
    present = {a: _finite(plain, lemma, "VBP", "Pres", a) for a in AGREEMENTS}
    present[SINGULAR] = _finite(third, lemma, "VBZ", "Pres", SINGULAR)
    pasts = {a: Word(past, lemma, "AUX", "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin") for a in AGREEMENTS}
    base = Word(lemma, lemma, "AUX", "VB", "VerbForm=Inf")
    return Verb(lemma, base, base, base, base, pasts, present, present)


def _be() -> Verb:
    plain, first = _auxiliary("be", "is", "are", "were"), Agreement(1, "Sing")
    past = {a: _finite("was" if a in (first, SINGULAR) else "were", "be", "VBD", "Past", a) for a in AGREEMENTS}
    present = {**plain.present, first: _finite("am", "be", "VBP", "Pres", first)}
    forms = {first: "'m", SINGULAR: "'s"}
    short = {a: word._replace(form=forms.get(a, "'re"), glued=True) for a, word in present.items()}
    been = Word("been", "be", "AUX", "VBN", "Tense=Past|VerbForm=Part")
    being = Word("being", "be", "AUX", "VBG", "Tense=Pres|VerbForm=Part")
    return replace(plain, participle=been, gerund=being, past=past, present=present, short=short)


BE = _be()
HAVE = _auxiliary("have", "has", "have", "had")
DO = _auxiliary("do", "does", "do", "did")
_MODALS = _words("can will may must should could would", "AUX", "MD", "VerbForm=Fin")
MODALS = tuple(_MODALS.values())
CONTRACTED_MODALS = {form: _MODALS[form]._replace(form=short) for form, short in (("can", "ca"), ("will", "wo"))}
EXISTENTIAL_BE = {
    (past, number): word._replace(upos="VERB")
    for past, forms in ((False, BE.present), (True, BE.past))
    for (person, number), word in forms.items()
    if person == 3
}
"""*is*, *are*, *was*, *were* after *there*: verbs in Universal Dependencies, for nothing else is the predicate."""
