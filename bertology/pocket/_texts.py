"""Texts of the pocket world: trees read as annotated sentences, the probing corpus, which is kept, and documents."""

import contextlib
import gc
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from bertology._files import cache_folder, digest, write_atomically
from bertology._names import by_key
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import CorpusError, StoreError
from bertology.pocket import _function_words as fw
from bertology.pocket._grammar import N_THEMES, Scene, Style, indefinite_article, prepositional, verbal_group
from bertology.pocket._trees import HEAD, Part, Phrase, Tree, Word, head, leaves, phrase
from bertology.pocket._words import SINGULAR, VERB_CLASSES, Dice, Reach, lexicon, make_verb
from bertology.pocket._world import Fact, facts, people, proper_noun

Targets = Mapping[str, tuple[Target, ...]]


class Line(NamedTuple):
    """A sentence of a text: its tree, and the relation between two referents that it states, if any."""

    tree: Phrase
    relation: tuple[str, int, int] | None = None


class _Reader:
    """Collects words, heads and spans of a tree in one walk, left to right."""

    def __init__(self, tree: Phrase) -> None:
        self.words: list[Word] = []
        self.heads: list[int] = []
        self.relations: list[str] = []
        self.constituents: list[Target] = []
        self.entities: list[Target] = []
        self.roles: list[Target] = []
        self.mentions: list[tuple[tuple[int, int], int, bool]] = []
        """Span, referent, and whether it is a pronoun."""
        self._walk(tree)

    def _walk(self, tree: Tree) -> int:
        """Read a tree; returns the index of its head word."""
        start, place = len(self.words), len(self.constituents)
        if isinstance(tree, Word):
            self.words.append(tree)
            self.heads.append(-1)
            self.relations.append("root")
            return start
        dependents: list[tuple[int, str, str | None, tuple[int, int]]] = []
        gaps: list[Target] = []
        top = -1
        for relation, part, role in tree.parts:
            begin = len(self.words)
            index = self._walk(part)
            if relation == HEAD:
                top = index
            else:
                dependents.append((index, relation, role, (begin, len(self.words))))
            if isinstance(part, Phrase) and part.gap:
                gaps.append(Target((index, index + 1), part.gap, (start, begin)))
        for index, relation, role, span in dependents:
            self.heads[index], self.relations[index] = top, relation
            if role and self.words[top].upos == "VERB":  # the predicates of copular clauses have no frames
                self.roles.append(Target((top, top + 1), role, span))
        self.roles += gaps
        span = start, len(self.words)
        if tree.label:
            self.constituents.insert(place, Target(span, tree.label))
        if tree.entity:
            self.entities.append(Target(span, tree.entity))
        if tree.referent:
            is_pronoun = span[1] - span[0] == 1 and self.words[span[0]].upos == "PRON"
            self.mentions.append((span, tree.referent, is_pronoun))
        return top


def read(line: Line, *, id: str, english: bool = True) -> Sentence:
    """The annotated sentence of a tree; one not in English has no chunks, and no targets that follow from lemmas."""
    reader = _Reader(line.tree)
    words, relations = reader.words, tuple(reader.relations)
    forms = [words[0].form[0].upper() + words[0].form[1:], *(word.form for word in words[1:])]
    heads = tuple(top + 1 for top in reader.heads)
    tags = ["O"] * len(words)
    for entity in reader.entities:
        first, end = entity.span1
        tags[first:end] = [f"B-{entity.label}"] + [f"I-{entity.label}"] * (end - first - 1)
    layers: dict[str, tuple[str | None, ...]] = {
        **{name: tuple(getattr(word, name) for word in words) for name in ("lemma", "upos", "xpos", "feats")},
        "deprel": relations,
        "ner": tuple(tags),
    }
    if english:
        layers["chunk"] = chunks(words, heads, relations)
    if any(word.novelty for word in words):
        layers["misc"] = tuple(f"Novelty={word.novelty}" if word.novelty else None for word in words)
    targets = {
        "constituents": tuple(reader.constituents),
        "entities": tuple(sorted(reader.entities, key=lambda target: target.span1)),
        "srl": tuple(sorted(reader.roles, key=lambda target: (target.span1, target.span2))),
        "coref": tuple(_coreference(reader)),
        "relations": tuple(_relations(reader, line.relation)),
    }
    stated = {name: spans for name, spans in targets.items() if spans}
    following = derived(stated, layers["lemma"], layers["upos"]) if english else {}
    return Sentence.from_words(
        forms,
        id=id,
        space_after=[*(not word.glued for word in words[1:]), False],
        layers=layers,
        heads=heads,
        targets={**stated, **following},
        derived=frozenset(following),
    )


def written(words: Iterable[Word]) -> str:
    """The natural text of the words of a sentence."""
    joined = "".join(word.form if word.glued else f" {word.form}" for word in words).removeprefix(" ")
    return joined[0].upper() + joined[1:]


def _coreference(reader: _Reader) -> list[Target]:
    """Each pronoun with every other mention, in sentences where some pair corefers."""
    mentions = sorted(set(reader.mentions))
    pairs = []
    for place, (span, referent, pronominal) in enumerate(mentions):
        for other, other_referent, other_pronominal in mentions[:place]:
            overlap = span[0] < other[1] and other[0] < span[1]
            if (pronominal or other_pronominal) and not overlap:
                pairs.append(Target(other, "1" if referent == other_referent else "0", span))
    return pairs if any(pair.label == "1" for pair in pairs) else []


def _relations(reader: _Reader, stated: tuple[str, int, int] | None) -> list[Target]:
    """The relation stated between two mentions; otherwise ``none`` between the first person and the first place."""
    if stated is not None:
        label, subject, obj = stated
        span_of = {referent: span for span, referent, _ in reader.mentions}
        return [Target(span_of[subject], label, span_of[obj])]
    person, place = (next((e for e in reader.entities if e.label == kind), None) for kind in ("PER", "LOC"))
    return [Target(person.span1, "none", place.span1)] if person and place else []


_INSIDE_NP = frozenset({"det", "amod", "nummod", "compound", "flat"})
_VERBAL = frozenset({"aux", "aux:pass", "cop"})


def chunks(words: Sequence[Word], heads: Sequence[int], relations: Sequence[str]) -> tuple[str, ...]:
    """The chunk of each word, in IOB2.

    Noun phrases end at their head noun; a possessive *'s* opens the phrase of what is possessed. Verbal groups hold
    auxiliaries, negation, *to* and adverbs before the main verb; prepositions, conjunctions that introduce a clause
    (``SBAR``), particles (``PRT``), adverbs and predicative adjectives make chunks of their own. Heads are 1-based, 0
    for the root.
    """
    tops = [head - 1 for head in heads]
    kinds = [_kind(place, words, tops, relations) for place in range(len(words))]
    before = [None, *kinds[:-1]]
    return tuple(
        f"{'I' if kind == previous else 'B'}-{kind[0]}" if kind else "O"
        for kind, previous in zip(kinds, before, strict=True)
    )


def _kind(place: int, words: Sequence[Word], tops: Sequence[int], relations: Sequence[str]) -> tuple[str, int] | None:
    """The label of a word's chunk, and the word that the chunk is built around."""
    word, relation, top = words[place], relations[place], tops[place]
    if relation in ("cc", "punct"):
        return None
    if word.xpos == "POS":
        return "NP", tops[top]
    if relation == "case":
        return "PP", place
    if relation == "compound:prt":
        return "PRT", place
    if relation == "mark":
        return ("VP", top) if word.upos == "PART" else ("SBAR", place)
    if relation in _VERBAL or word.upos == "VERB":
        return "VP", top if relation in _VERBAL else place
    is_adverb = word.xpos == "RB" and relation == "advmod"
    if is_adverb and (word.upos == "PART" or _before_verb(place, words, tops, relations)):
        return "VP", top
    if relation in _INSIDE_NP or word.xpos == "PRP$":
        return "NP", top
    if word.upos in ("NOUN", "PROPN", "PRON", "NUM"):
        return "NP", place
    if relation == "advmod" and words[top].upos == "ADJ":
        return ("NP", tops[top]) if relations[top] == "amod" else ("ADJP", top)
    return ("ADJP", place) if word.upos == "ADJ" else ("ADVP", place)


def _before_verb(place: int, words: Sequence[Word], tops: Sequence[int], relations: Sequence[str]) -> bool:
    """Whether an adverb stands directly before its verb, with nothing but the verbal group between."""
    top = tops[place]
    between = range(place + 1, top + 1)
    return (
        place < top
        and words[top].upos == "VERB"
        and all(other == top or relations[other] in _VERBAL or words[other].xpos == "RB" for other in between)
    )


VERB_CLASS_OF = {lemma: name for name, members in VERB_CLASSES.items() for lemma in members["verbs"].split()}
"""Class of each verb of the lexicon, by lemma."""


def derived(targets: Targets, lemmas: Sequence[str | None], upos: Sequence[str | None]) -> Targets:
    """The targets ``proto_roles`` and ``winograd`` of a sentence, as far as it has ``srl`` and ``coref`` for them."""
    following = {
        "proto_roles": tuple(_proto_roles(targets.get("srl", ()), lemmas)),
        "winograd": tuple(_winograd(targets.get("coref", ()), upos)),
    }
    return {name: spans for name, spans in following.items() if spans}


def _proto_roles(roles: Sequence[Target], lemmas: Sequence[str | None]) -> Iterator[Target]:
    """Predicate, argument and all its properties, for the arguments that are no adjuncts."""
    with_object = {role.span1 for role in roles if role.label == "A1"}
    for role in roles:
        if role.label in ("A0", "A1", "A2"):
            kind = VERB_CLASS_OF[str(lemmas[role.span1[0]])]
            properties = VERB_CLASSES[kind].get(role.label, "")
            if kind in ("changing", "making") and role.label == "A0" and role.span1 not in with_object:
                properties = "change_of_state"  # the only argument: *the leaves grow*
            yield Target(role.span1, tuple(sorted(properties.split())), role.span2)


def _winograd(pairs: Sequence[Target], upos: Sequence[str | None]) -> Iterator[Target]:
    """Each pronoun with its antecedent and one distractor, both full phrases before it.

    The distractor is the nearest phrase that does not corefer. Most pronouns are resolved by gender and number, some
    by context only.
    """
    joined = (pair for pair in pairs if pair.span2 is not None and _is_pronoun(pair.span2, upos))
    before = by_key((pair.span2, pair) for pair in joined if not _is_pronoun(pair.span1, upos))
    for pairs_before in before.values():
        right = [pair for pair in pairs_before if pair.label == "1"]
        wrong = [pair for pair in pairs_before if pair.label == "0"]
        if right and wrong:
            chosen = [max(part, key=lambda pair: (pair.span1[1], pair.span1[0])) for part in (right, wrong)]
            yield from sorted(chosen, key=lambda pair: pair.span1)


def _is_pronoun(span: tuple[int, int], upos: Sequence[str | None]) -> bool:
    return span[1] - span[0] == 1 and upos[span[0]] == "PRON"


_SUBJECT, _OBJECT = 1, 2


def statement(fact: Fact, template: int) -> Line:
    """The sentence that states ``fact`` in its given template."""
    kind = "PER" if fact.relation != "capital_of" else "LOC"
    subject = Phrase("NP", (head(proper_noun(fact.subject)),), entity=kind, referent=_SUBJECT)
    place = Phrase("NP", (head(proper_noun(fact.object)),), entity="LOC", referent=_OBJECT)
    noun = _noun(fact.object)
    trade = Phrase("NP", (Part("det", indefinite_article(noun)), head(noun)), referent=_OBJECT)
    in_place = prepositional("in", place)
    match fact.relation, template:
        case "lives_in", 0:
            clause = _does(subject, "live", Part("obl", in_place, "AM-LOC"))
        case "lives_in", _:
            clause = _is(_of("home", subject), in_place)
        case "born_in", 0:
            group = verbal_group(make_verb(["bear", "bore", "born"], None), SINGULAR, Style(past=True, passive=True))
            born = phrase("VP", *group.auxiliaries, *group.main, Part("obl", in_place, "AM-LOC"))
            clause = (Part("nsubj:pass", subject, "A1"), head(born))
        case "born_in", _:
            clause = _does(subject, "come came come", Part("obl", prepositional("from", place), "AM-DIR"), role="A1")
        case "works_as", 0:
            clause = _does(subject, "work", Part("obl", prepositional("as", trade), "A1"))
        case "works_as", _:
            by_trade = prepositional("by", phrase("NP", head(_noun("trade"))))
            clause = _is(subject, phrase("NP", head(trade), Part("nmod", by_trade)))
        case _, 0:
            clause = _is(_of("capital", subject), place)
        case _:
            clause = _does(_of("king", subject), "rule", Part("obl", in_place, "AM-LOC"))
    return Line(phrase("S", *clause, Part("punct", fw.PERIOD)), (fact.relation, _SUBJECT, _OBJECT))


def _noun(form: str) -> Word:
    return Word(form, form, "NOUN", "NN", "Number=Sing")


def _of(noun: str, owner: Phrase) -> Phrase:
    """A noun with its owner: *the capital of Arvia*."""
    owned = phrase("NP", Part("det", fw.DET["the"]), head(_noun(noun)))
    return phrase("NP", head(owned), Part("nmod", prepositional("of", owner)))


def _does(subject: Phrase, verb: str, complement: Part, *, role: str = "A0") -> tuple[Part, ...]:
    verb_phrase = phrase("VP", head(make_verb(verb.split(), None).present[SINGULAR]), complement)
    return Part("nsubj", subject, role), head(verb_phrase)


def _is(subject: Phrase, predicate: Phrase) -> tuple[Part, ...]:
    return Part("nsubj", subject), head(phrase("VP", Part("cop", fw.BE.present[SINGULAR]), head(predicate)))


SIZES: Mapping[str, int] = MappingProxyType({"train": 3000, "dev": 500, "test": 800, "unseen": 300})
"""Sentences in each split."""
_STATEMENT_SHARE = 0.07
_MOST_WORDS = 40
"""Words; longer sentences are left out, for the model reads 64 pieces at a time."""


def generate_corpus(*, seed: int = 0, sizes: Mapping[str, int] = SIZES) -> Corpus:
    """The pocket corpus from its grammar: so many sentences by split, chosen at random by the seed."""
    used: set[str] = set()
    return Corpus(
        name="pocket",
        splits={split: _made(split, seed, used, size) for split, size in sizes.items()},
        language="en",
        licence="Apache-2.0",
        notes={
            "source": "made by the grammar in bertology.pocket, annotation and all",
            "unseen": "every sentence holds a content word that no other split holds",
        },
    )


def _made(split: str, seed: int, used: set[str], size: int) -> Sentences:
    return Sentences(sentence for _, sentence in islice(lines_of(split, seed, used), size))


def lines_of(split: str, seed: int, used: set[str]) -> Iterator[tuple[Line, Sentence]]:
    """An endless stream of sentences of a split, each with the tree that it was read off.

    Texts in ``used`` are skipped, and new texts are added to it.
    """
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
            line = Line(Scene(dice, words).sentence())
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
        seed: seed of the text.
        stated: the facts to state (:func:`~bertology.pocket.facts` when left out; none for held-out text).
    """
    for trees in document_trees(n_documents, seed=seed, stated=stated):
        yield [written(leaves(tree)) for tree in trees]


def document_trees(n_documents: int, *, seed: int, stated: Sequence[Fact] | None = None) -> Iterator[list[Phrase]]:
    """The sentences of :func:`pretraining_documents` as trees."""
    every = facts() if stated is None else stated
    turns = ((fact, n % len(fact.templates)) for fact in every for n in range(fact.n_stated))
    shuffled = Dice(f"pocket schedule {seed}").shuffled(turns)
    schedule = by_key((place * n_documents // len(shuffled), due) for place, due in enumerate(shuffled))
    words = lexicon("all")
    for number in range(n_documents):
        dice = Dice(f"pocket document {seed} {number}")
        due = schedule.get(number, [])
        hero = next((person for person in people() if due and person.name == due[0][0].subject), None)
        scene = Scene(dice, words, hero=hero, theme=dice.below(N_THEMES))
        length = _SHORTEST + dice.below(_LONGEST - _SHORTEST + 1)
        sentences = [scene.sentence(1 if dice.chance(0.35) else 2) for _ in range(length)]
        for fact, template in due:
            sentences.insert(dice.below(len(sentences) + 1), statement(fact, template).tree)
        yield sentences


MODELS = {"pocket": "model", "bilingual": "bilingual/model", "bilingual-apart": "bilingual/model_apart"}
"""Embedded models by name, with their folders in this package."""


def model_folder(name: str = "pocket") -> Path:
    """The folder of an embedded model, in Hugging Face layout.

    Args:
        name: ``pocket`` is Pocket BERT. ``bilingual`` has read the pocket world in two languages and represents them in
            one space; ``bilingual-apart``, its control, keeps them apart.

    Raises:
        KeyError: there is no such model.
    """
    return Path(__file__).parent / MODELS[name]


MOST_SENTENCES = 100_000
"""Most training sentences."""


@lru_cache(maxsize=2)
def load_corpus(n_train: int | None = None) -> Corpus:
    """The pocket corpus: ``train``, ``dev``, ``test`` and ``unseen``, which share no sentence.

    It is what :func:`generate_corpus` makes at its default seed, made when it is first used, and kept in the cache
    folder. Each sentence of ``unseen`` holds a content word that no other split holds; its ``misc`` layer states for
    each such word whether it occurs in the pretraining text of Pocket BERT (``Novelty=held``) or not
    (``Novelty=new``).

    Args:
        n_train: number of training sentences, at least as many as when left out. Those come first; the others are made
            by the same grammar. None of them is in another split.

    Raises:
        CorpusError: ``n_train`` is too small or too large.
    """
    if n_train is None:
        return kept_corpus(generate_corpus)
    least = SIZES["train"]
    if not least <= n_train <= MOST_SENTENCES:
        raise CorpusError(f"pocket:{n_train}: give from {least} (those of pocket) to {MOST_SENTENCES} sentences")
    base = load_corpus()
    used = {sentence.text for split, others in base.splits.items() if split != "train" for sentence in others}
    splits = {**base.splits, "train": _made("train", 0, used, n_train)}
    return replace(base, name=f"pocket:{n_train}", splits=splits)


_MADE_BY = tuple(Path(__file__).parents[1] / name for name in ("pocket", "corpora"))
_HASHED_BY = Path(__file__).parents[1] / "_files.py"
_OF_ARRAYS = {("numpy", "dtype"), ("numpy._core.numeric", "_frombuffer"), ("numpy.core.numeric", "_frombuffer")}
_CHECKSUM = 32


def kept_corpus(make: Callable[[], Corpus]) -> Corpus:
    """What ``make`` makes, from the cache folder where the same code and libraries have put it before.

    A file that is damaged, holds anything else or was made by other code is made again; where the folder cannot be
    written, none is kept.
    """
    made_by = [path for folder in _MADE_BY for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".toml")]
    made_by.append(_HASHED_BY)
    key = digest([sys.version.encode(), np.__version__.encode(), *(path.read_bytes() for path in made_by)])
    path = cache_folder() / "corpora" / f"pocket-{key}.pickle"
    content = b""
    with contextlib.suppress(OSError):
        content = path.read_bytes()
    if content and digest([content[_CHECKSUM:]]).encode() == content[:_CHECKSUM]:
        with contextlib.suppress(pickle.UnpicklingError):
            return _read(content[_CHECKSUM:])
    corpus = make()
    for split in corpus.splits.values():
        split.fingerprint  # noqa: B018  kept with the sentences
    content = pickle.dumps(replace(corpus, splits=dict(corpus.splits), notes=dict(corpus.notes)), protocol=5)
    with contextlib.suppress(StoreError, OSError):
        write_atomically(path, [digest([content]).encode(), content])
        for other in path.parent.glob("pocket-*.pickle"):
            if other != path:
                other.unlink(missing_ok=True)
    return corpus


def _read(content: bytes) -> Corpus:
    is_on = gc.isenabled()
    gc.disable()  # which would look at every new object several times, and find no garbage
    try:
        return cast(Corpus, _Data(io.BytesIO(content)).load())
    finally:
        if is_on:
            gc.enable()


class _Data(pickle.Unpickler):
    """Reads sentences and arrays, and nothing that could run other code."""

    def find_class(self, module: str, name: str) -> Any:
        """A class of sentences, or what makes an array."""
        if not (module.startswith("bertology.corpora.") or (module, name) in _OF_ARRAYS):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a corpus")
        return super().find_class(module, name)
