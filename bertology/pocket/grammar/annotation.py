"""Sentences read off trees with all annotation: words, dependencies, spans, chunks, and targets derived from others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from bertology.corpora import Sentence, Target
from bertology.pocket.grammar.lexicon import VERB_CLASSES
from bertology.pocket.grammar.tree import HEAD, Phrase, Tree, Word

Layers = Mapping[str, tuple[str | None, ...]]
Targets = Mapping[str, tuple[Target, ...]]


class Line(NamedTuple):
    """A sentence of a text: its tree, and the relation between two referents that it states, if any."""

    tree: Phrase
    relation: tuple[str, int, int] | None = None


class _Reader:
    """Collects words, heads and spans of a tree in one walk, left to right."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.heads: list[int] = []
        self.relations: list[str] = []
        self.constituents: list[Target] = []
        self.entities: list[Target] = []
        self.roles: list[Target] = []
        self.mentions: list[tuple[tuple[int, int], int, bool]] = []
        """Span, referent, and whether it is a pronoun."""

    def walk(self, tree: Tree) -> int:
        """Read a tree; returns the index of its head word."""
        start = len(self.words)
        if isinstance(tree, Word):
            self.words.append(tree)
            self.heads.append(-1)
            self.relations.append("root")
            return start
        dependents: list[tuple[int, str, str | None, tuple[int, int]]] = []
        gaps: list[tuple[int, str, tuple[int, int]]] = []
        place = len(self.constituents)
        top = -1
        for relation, part, role in tree.parts:
            begin = len(self.words)
            index = self.walk(part)
            if relation == HEAD:
                top = index
            else:
                dependents.append((index, relation, role, (begin, len(self.words))))
            if isinstance(part, Phrase) and part.gap:
                gaps.append((index, part.gap, (start, begin)))
        for index, relation, role, span in dependents:
            self.heads[index] = top
            self.relations[index] = relation
            if role and self.words[top].upos == "VERB":  # the predicates of copular clauses have no frames
                self.roles.append(Target((top, top + 1), role, span))
        for index, role, span in gaps:
            self.roles.append(Target((index, index + 1), role, span))
        self._note(tree, (start, len(self.words)), place)
        return top

    def _note(self, tree: Phrase, span: tuple[int, int], place: int) -> None:
        if tree.label:
            self.constituents.insert(place, Target(span, tree.label))
        if tree.entity:
            self.entities.append(Target(span, tree.entity))
        if tree.referent:
            pronominal = span[1] - span[0] == 1 and self.words[span[0]].upos == "PRON"
            self.mentions.append((span, tree.referent, pronominal))


def read(line: Line, *, id: str, english: bool = True) -> Sentence:
    """The annotated sentence of a tree; one not in English has no chunks, and no targets that follow from lemmas."""
    reader = _Reader()
    root = reader.walk(line.tree)
    words = reader.words
    first = words[0].form
    forms = [first[0].upper() + first[1:], *(word.form for word in words[1:])]
    relations = tuple(reader.relations)
    heads = tuple(top + 1 for top in reader.heads)
    layers: dict[str, tuple[str | None, ...]] = {
        **{name: tuple(getattr(word, name) for word in words) for name in ("lemma", "upos", "xpos", "feats")},
        "deprel": relations,
        "ner": _iob(reader.entities, len(words)),
    }
    if english:
        layers["chunk"] = chunks(words, heads, relations)
    if any(word.novelty for word in words):
        layers["misc"] = tuple(f"Novelty={word.novelty}" if word.novelty else None for word in words)
    assert reader.heads[root] == -1, "the root has no head"
    glued = [word.glued for word in words[1:]]
    return annotated(forms, glued, layers, heads, _targets(reader, line.relation), id=id, english=english)


def annotated(
    forms: Sequence[str],
    glued: Iterable[bool],
    layers: Layers,
    heads: tuple[int, ...],
    stated: Targets,
    *,
    id: str,
    english: bool = True,
) -> Sentence:
    """A sentence with the targets derived from its others; ``glued`` holds whether each word but the first is."""
    following = derived(stated, layers["lemma"], layers["upos"]) if english else {}
    return Sentence.from_words(
        forms,
        id=id,
        space_after=[*(not is_glued for is_glued in glued), False],
        layers=layers,
        heads=heads,
        targets={**stated, **following},
        derived=frozenset(following),
    )


def text(tree: Phrase) -> str:
    """The natural text of a tree, without annotation."""
    return written(_words(tree))


def written(words: Iterable[Word]) -> str:
    """The natural text of the words of a sentence."""
    joined = "".join(word.form if word.glued else f" {word.form}" for word in words).removeprefix(" ")
    return joined[0].upper() + joined[1:]


def _words(tree: Tree) -> Iterator[Word]:
    if isinstance(tree, Word):
        yield tree
    else:
        for part in tree.parts:
            yield from _words(part.tree)


def _iob(entities: list[Target], length: int) -> tuple[str, ...]:
    tags = ["O"] * length
    for entity in entities:
        first, end = entity.span1
        tags[first:end] = [f"B-{entity.label}"] + [f"I-{entity.label}"] * (end - first - 1)
    return tuple(tags)


def _targets(reader: _Reader, stated: tuple[str, int, int] | None) -> dict[str, tuple[Target, ...]]:
    targets = {
        "constituents": tuple(reader.constituents),
        "entities": tuple(sorted(reader.entities, key=lambda target: target.span1)),
        "srl": tuple(sorted(reader.roles, key=lambda target: (target.span1, target.span2))),
        "coref": tuple(_coreference(reader)),
        "relations": tuple(_relations(reader, stated)),
    }
    return {name: spans for name, spans in targets.items() if spans}


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


@lru_cache(maxsize=1)
def verb_classes() -> Mapping[str, str]:
    """Class of each verb of the lexicon, by lemma."""
    return {lemma: name for name, members in VERB_CLASSES.items() for lemma in members["verbs"].split()}


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
            kind = verb_classes()[str(lemmas[role.span1[0]])]
            properties = VERB_CLASSES[kind].get(role.label, "")
            if kind in ("changing", "making") and role.label == "A0" and role.span1 not in with_object:
                properties = "change_of_state"  # the only argument: *the leaves grow*
            yield Target(role.span1, tuple(sorted(properties.split())), role.span2)


def _winograd(pairs: Sequence[Target], upos: Sequence[str | None]) -> Iterator[Target]:
    """Each pronoun with its antecedent and one distractor, both full phrases before it.

    The distractor is the nearest phrase that does not corefer. Most pronouns are resolved by gender and number, some
    by context only.
    """
    before: dict[tuple[int, int], list[Target]] = {}
    for pair in pairs:
        if pair.span2 is not None and _is_pronoun(pair.span2, upos) and not _is_pronoun(pair.span1, upos):
            before.setdefault(pair.span2, []).append(pair)
    for pairs_before in before.values():
        right = [pair for pair in pairs_before if pair.label == "1"]
        wrong = [pair for pair in pairs_before if pair.label == "0"]
        if right and wrong:
            chosen = [max(part, key=lambda pair: (pair.span1[1], pair.span1[0])) for part in (right, wrong)]
            yield from sorted(chosen, key=lambda pair: pair.span1)


def _is_pronoun(span: tuple[int, int], upos: Sequence[str | None]) -> bool:
    return span[1] - span[0] == 1 and upos[span[0]] == "PRON"
