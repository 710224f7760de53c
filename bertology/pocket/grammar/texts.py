"""Texts of the pocket world: statements of facts, sentences of the probing corpus, and documents for pretraining."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from bertology.corpora import Corpus, Sentence, Sentences
from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.annotation import Line, read, text
from bertology.pocket.grammar.clauses import Clauses
from bertology.pocket.grammar.lexicon import SINGULAR, Reach, lexicon, make_verb
from bertology.pocket.grammar.nominals import indefinite_article
from bertology.pocket.grammar.tree import Dice, Part, Phrase, Tree, Word, head, phrase
from bertology.pocket.grammar.verbs import Style, verbal_group
from bertology.pocket.grammar.world import N_THEMES, Fact, Scene, facts, people_by_name, proper_noun

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


SIZES: Mapping[str, int] = MappingProxyType({"train": 3000, "dev": 500, "test": 800, "unseen": 300})
"""Sentences in each split."""
_STATEMENT_SHARE = 0.07
_MOST_WORDS = 40
"""Words; longer sentences are left out, for the model reads 64 pieces at a time."""


def generate_corpus(*, seed: int = 0, sizes: Mapping[str, int] = SIZES) -> Corpus:
    """The pocket corpus from its grammar.

    Args:
        seed: of the random choice of sentences.
        sizes: number of sentences by split; the split ``unseen`` has only sentences with a word that no other split
            has.
    """
    used: set[str] = set()
    splits = {}
    for split, size in sizes.items():
        sentences = sentences_of(split, seed, used)
        splits[split] = Sentences(next(sentences) for _ in range(size))
    return corpus_of(splits)


def corpus_of(splits: Mapping[str, Sentences]) -> Corpus:
    """The corpus of these splits, with its metadata."""
    return Corpus(
        name="pocket",
        splits=splits,
        language="en",
        licence="Apache-2.0",
        notes={
            "source": "made by the grammar in bertology.pocket, annotation and all",
            "unseen": "every sentence holds a content word that no other split holds",
        },
    )


def sentences_of(split: str, seed: int, used: set[str]) -> Iterator[Sentence]:
    """An endless stream of sentences of a split; texts in ``used`` are skipped, and new texts are added to it."""
    reach: Reach = "unseen" if split == "unseen" else "known"
    dice = Dice(f"pocket {split} {seed}")
    words = lexicon(reach)
    known_facts = facts()
    number = 0
    while True:
        if reach == "known" and dice.chance(_STATEMENT_SHARE):
            fact = dice.one_of(known_facts)
            line = statement(fact, dice.below(len(fact.templates)))
        else:
            line = Line(Clauses(Scene(dice, words)).sentence())
        sentence = read(line, id=f"{split}-{number + 1}")
        if sentence.text in used or len(sentence) > _MOST_WORDS:
            continue
        if reach == "unseen" and "misc" not in sentence.layers:
            continue
        used.add(sentence.text)
        number += 1
        yield sentence


_SHORTEST, _LONGEST = 5, 9
"""Sentences in a document."""


def pretraining_documents(
    n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> Iterator[list[str]]:
    """The pretraining text, document by document.

    Facts are spread over the documents at random; each is stated exactly ``n_stated`` times in all, however many
    documents there are, in its templates by turns.

    Args:
        n_documents: number of documents.
        seed: of the text.
        stated: the facts to state (:func:`~bertology.pocket.facts` when left out; none for held-out text).

    Yields:
        The sentences of a document, in order.
    """
    schedule = _schedule(facts() if stated is None else stated, n_documents, seed)
    words = lexicon("all")
    for number in range(n_documents):
        dice = Dice(f"pocket document {seed} {number}")
        due = schedule.get(number, [])
        hero = people_by_name().get(due[0][0].subject) if due else None
        scene = Scene(dice, words, hero=hero, theme=dice.below(N_THEMES))
        clauses = Clauses(scene)
        length = _SHORTEST + dice.below(_LONGEST - _SHORTEST + 1)
        sentences = [text(clauses.sentence(1 if dice.chance(0.35) else 2)) for _ in range(length)]
        for fact, template in due:
            sentences.insert(dice.below(len(sentences) + 1), text(statement(fact, template).tree))
        yield sentences


def _schedule(stated: Sequence[Fact], n_documents: int, seed: int) -> dict[int, list[tuple[Fact, int]]]:
    """The statements of each document, by its number."""
    due = [(fact, turn % len(fact.templates)) for fact in stated for turn in range(fact.n_stated)]
    dice = Dice(f"pocket schedule {seed}")
    dice.shuffle(due)
    schedule: dict[int, list[tuple[Fact, int]]] = defaultdict(list)
    for place, statement_due in enumerate(due):
        schedule[place * n_documents // len(due)].append(statement_due)
    return schedule
