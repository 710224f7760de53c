"""Sentences that state a fact of the pocket world, as trees. No other rule of the grammar uses these wordings."""

from __future__ import annotations

from bertology.pocket import _function_words as fw
from bertology.pocket._lexicon import SINGULAR, make_verb
from bertology.pocket._nominals import indefinite_article
from bertology.pocket._reading import Line
from bertology.pocket._tree import Part, Phrase, Tree, Word, head, phrase
from bertology.pocket._verbs import Style, verbal_group
from bertology.pocket._world import Fact, proper_noun

_SUBJECT, _OBJECT = 1, 2
_LIVE, _COME, _WORK, _RULE = (
    make_verb(parts, None) for parts in (["live"], ["come", "came", "come"], ["work"], ["rule"])
)
_BEAR = make_verb(["bear", "bore", "born"], None)
_HOME, _CAPITAL, _KING, _TRADE = (
    Word(form, form, "NOUN", "NN", "Number=Sing") for form in ("home", "capital", "king", "trade")
)
_AS = Word("as", "as", "ADP", "IN")


def statement(fact: Fact, template: int) -> Line:
    """The sentence that states ``fact`` in its given template."""
    kind = "PER" if fact.relation != "capital_of" else "LOC"
    subject = Phrase("NP", (head(proper_noun(fact.subject)),), entity=kind, referent=_SUBJECT)
    clause = {
        "lives_in": (_lives_in, _home_of),
        "born_in": (_born_in, _comes_from),
        "works_as": (_works_as, _by_trade),
        "capital_of": (_capital_of, _king_of),
    }[fact.relation][template](subject, fact.object)
    return Line(phrase("S", *clause, Part("punct", fw.PERIOD)), (fact.relation, _SUBJECT, _OBJECT))


def _place(name: str) -> Phrase:
    return Phrase("NP", (head(proper_noun(name)),), entity="LOC", referent=_OBJECT)


def _trade(name: str) -> Phrase:
    noun = Word(name, name, "NOUN", "NN", "Number=Sing")
    return Phrase("NP", (Part("det", indefinite_article(noun)), head(noun)), referent=_OBJECT)


def _pp(preposition: str, nominal: Tree) -> Phrase:
    marker = _AS if preposition == "as" else fw.PREPOSITIONS[preposition]
    return phrase("PP", Part("case", marker), head(nominal))


def _of(noun: Word, owner: Phrase) -> Phrase:
    """What is of someone: *the capital of Arvia*."""
    return phrase("NP", head(phrase("NP", Part("det", fw.DET["the"]), head(noun))), Part("nmod", _pp("of", owner)))


def _copula() -> Part:
    return Part("cop", fw.BE.present[SINGULAR])


def _lives_in(subject: Phrase, town: str) -> tuple[Part, ...]:
    place = Part("obl", _pp("in", _place(town)), "AM-LOC")
    return Part("nsubj", subject, "A0"), head(phrase("VP", head(_LIVE.present(SINGULAR)), place))


def _home_of(subject: Phrase, town: str) -> tuple[Part, ...]:
    return Part("nsubj", _of(_HOME, subject)), head(phrase("VP", _copula(), head(_pp("in", _place(town)))))


def _born_in(subject: Phrase, country: str) -> tuple[Part, ...]:
    group = verbal_group(_BEAR, SINGULAR, Style(past=True, passive=True))
    place = Part("obl", _pp("in", _place(country)), "AM-LOC")
    return Part("nsubj:pass", subject, "A1"), head(
        phrase("VP", *group.auxiliaries, head(_BEAR.passive_participle), place)
    )


def _comes_from(subject: Phrase, country: str) -> tuple[Part, ...]:
    origin = Part("obl", _pp("from", _place(country)), "AM-DIR")
    return Part("nsubj", subject, "A1"), head(phrase("VP", head(_COME.present(SINGULAR)), origin))


def _works_as(subject: Phrase, trade: str) -> tuple[Part, ...]:
    role = Part("obl", _pp("as", _trade(trade)), "A1")
    return Part("nsubj", subject, "A0"), head(phrase("VP", head(_WORK.present(SINGULAR)), role))


def _by_trade(subject: Phrase, trade: str) -> tuple[Part, ...]:
    noun_phrase = _trade(trade)
    by = phrase("PP", Part("case", fw.PREPOSITIONS["by"]), head(phrase("NP", head(_TRADE))))
    whole = phrase("NP", head(noun_phrase), Part("nmod", by))
    return Part("nsubj", subject), head(phrase("VP", _copula(), head(whole)))


def _capital_of(subject: Phrase, town: str) -> tuple[Part, ...]:
    return Part("nsubj", _of(_CAPITAL, subject)), head(phrase("VP", _copula(), head(_place(town))))


def _king_of(subject: Phrase, town: str) -> tuple[Part, ...]:
    place = Part("obl", _pp("in", _place(town)), "AM-LOC")
    return Part("nsubj", _of(_KING, subject), "A0"), head(phrase("VP", head(_RULE.present(SINGULAR)), place))
