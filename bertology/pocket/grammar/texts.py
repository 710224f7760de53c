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
from bertology.pocket.grammar.world import N_THEMES, Fact, Scene, facts, people, proper_noun

_SUBJECT, _OBJECT = 1, 2
_AS = Word("as", "as", "ADP", "IN")


def statement(fact: Fact, template: int) -> Line:
    """The sentence that states ``fact`` in its given template."""
    kind = "PER" if fact.relation != "capital_of" else "LOC"
    subject = Phrase("NP", (head(proper_noun(fact.subject)),), entity=kind, referent=_SUBJECT)
    place = Phrase("NP", (head(proper_noun(fact.object)),), entity="LOC", referent=_OBJECT)
    noun = _noun(fact.object)
    trade = Phrase("NP", (Part("det", indefinite_article(noun)), head(noun)), referent=_OBJECT)
    match fact.relation, template:
        case "lives_in", 0:
            clause = _does(subject, "live", Part("obl", _pp("in", place), "AM-LOC"))
        case "lives_in", _:
            clause = _is(_of("home", subject), _pp("in", place))
        case "born_in", 0:
            bear = make_verb(["bear", "bore", "born"], None)
            born = verbal_group(bear, SINGULAR, Style(past=True, passive=True))
            verb_phrase = phrase("VP", *born.auxiliaries, *born.main, Part("obl", _pp("in", place), "AM-LOC"))
            clause = (Part("nsubj:pass", subject, "A1"), head(verb_phrase))
        case "born_in", _:
            clause = _does(subject, "come came come", Part("obl", _pp("from", place), "AM-DIR"), role="A1")
        case "works_as", 0:
            clause = _does(subject, "work", Part("obl", _pp("as", trade), "A1"))
        case "works_as", _:
            by_trade = _pp("by", phrase("NP", head(_noun("trade"))))
            clause = _is(subject, phrase("NP", head(trade), Part("nmod", by_trade)))
        case _, 0:
            clause = _is(_of("capital", subject), place)
        case _:
            clause = _does(_of("king", subject), "rule", Part("obl", _pp("in", place), "AM-LOC"))
    return Line(phrase("S", *clause, Part("punct", fw.PERIOD)), (fact.relation, _SUBJECT, _OBJECT))


def _noun(form: str) -> Word:
    return Word(form, form, "NOUN", "NN", "Number=Sing")


def _pp(preposition: str, nominal: Tree) -> Phrase:
    marker = _AS if preposition == "as" else fw.PREPOSITIONS[preposition]
    return phrase("PP", Part("case", marker), head(nominal))


def _of(noun: str, owner: Phrase) -> Phrase:
    """What is of someone: *the capital of Arvia*."""
    return phrase(
        "NP", head(phrase("NP", Part("det", fw.DET["the"]), head(_noun(noun)))), Part("nmod", _pp("of", owner))
    )


def _does(subject: Phrase, verb: str, complement: Part, *, role: str = "A0") -> tuple[Part, ...]:
    verb_phrase = phrase("VP", head(make_verb(verb.split(), None).present[SINGULAR]), complement)
    return Part("nsubj", subject, role), head(verb_phrase)


def _is(subject: Phrase, predicate: Phrase) -> tuple[Part, ...]:
    copula = Part("cop", fw.BE.present[SINGULAR])
    return Part("nsubj", subject), head(phrase("VP", copula, head(predicate)))


SIZES: Mapping[str, int] = MappingProxyType({"train": 3000, "dev": 500, "test": 800, "unseen": 300})
"""Sentences in each split."""
_STATEMENT_SHARE = 0.07
_MOST_WORDS = 40
"""Words; longer sentences are left out, for the model reads 64 pieces at a time."""


def generate_corpus(*, seed: int = 0, sizes: Mapping[str, int] = SIZES) -> Corpus:
    """The pocket corpus from its grammar: so many sentences by split, chosen at random by the seed."""
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
    return (sentence for _, sentence in lines_of(split, seed, used))


def lines_of(split: str, seed: int, used: set[str]) -> Iterator[tuple[Line, Sentence]]:
    """The sentences of :func:`sentences_of`, each with the tree that it was read off."""
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
        is_right = reach == "known" or "misc" in sentence.layers
        if is_right and sentence.text not in used and len(sentence) <= _MOST_WORDS:
            used.add(sentence.text)
            number += 1
            yield line, sentence


_SHORTEST, _LONGEST = 5, 9
"""Sentences in a document."""


def pretraining_documents(
    n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> Iterator[list[str]]:
    """The pretraining text, document by document: the sentences of each, in order.

    Facts are spread over the documents at random; each is stated exactly ``n_stated`` times in all, however many
    documents there are, in its templates by turns.

    Args:
        n_documents: number of documents.
        seed: of the text.
        stated: the facts to state (:func:`~bertology.pocket.facts` when left out; none for held-out text).
    """
    for trees in document_trees(n_documents, seed=seed, stated=stated):
        yield list(map(text, trees))


def document_trees(n_documents: int, *, seed: int, stated: Sequence[Fact] | None = None) -> Iterator[list[Phrase]]:
    """The sentences of :func:`pretraining_documents` as trees."""
    schedule = _schedule(facts() if stated is None else stated, n_documents, seed)
    words = lexicon("all")
    for number in range(n_documents):
        dice = Dice(f"pocket document {seed} {number}")
        due = schedule.get(number, [])
        hero = next((person for person in people() if due and person.name == due[0][0].subject), None)
        scene = Scene(dice, words, hero=hero, theme=dice.below(N_THEMES))
        clauses = Clauses(scene)
        length = _SHORTEST + dice.below(_LONGEST - _SHORTEST + 1)
        sentences = [clauses.sentence(1 if dice.chance(0.35) else 2) for _ in range(length)]
        for fact, template in due:
            sentences.insert(dice.below(len(sentences) + 1), statement(fact, template).tree)
        yield sentences


def _schedule(stated: Sequence[Fact], n_documents: int, seed: int) -> dict[int, list[tuple[Fact, int]]]:
    """The statements of each document, by its number."""
    turns = ((fact, turn % len(fact.templates)) for fact in stated for turn in range(fact.n_stated))
    due = Dice(f"pocket schedule {seed}").shuffled(turns)
    schedule: dict[int, list[tuple[Fact, int]]] = defaultdict(list)
    for place, statement_due in enumerate(due):
        schedule[place * n_documents // len(due)].append(statement_due)
    return schedule
