"""Reads a sentence and all its annotation off a tree."""

from __future__ import annotations

from typing import NamedTuple

from bertology.corpora import Sentence, Target
from bertology.pocket._chunks import chunks
from bertology.pocket._derived import derived
from bertology.pocket._tree import HEAD, Phrase, Tree, Word


class Line(NamedTuple):
    """A sentence of a text: its tree, and the relation between two referents that it states, if any."""

    tree: Phrase
    relation: tuple[str, int, int] | None = None


class _Reader:
    """Walks a tree once, left to right, noting words, heads and spans."""

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


def read(line: Line, *, id: str) -> Sentence:
    """The annotated sentence of a tree."""
    reader = _Reader()
    root = reader.walk(line.tree)
    words = reader.words
    first = words[0].form
    forms = [first[0].upper() + first[1:], *(word.form for word in words[1:])]
    relations = tuple(reader.relations)
    heads = tuple(top + 1 for top in reader.heads)
    layers: dict[str, tuple[str | None, ...]] = {
        "lemma": tuple(word.lemma for word in words),
        "upos": tuple(word.upos for word in words),
        "xpos": tuple(word.xpos for word in words),
        "feats": tuple(word.feats for word in words),
        "deprel": relations,
        "ner": _iob(reader.entities, len(words)),
        "chunk": chunks(words, heads, relations),
    }
    if any(word.novelty for word in words):
        layers["misc"] = tuple(f"Novelty={word.novelty}" if word.novelty else None for word in words)
    assert reader.heads[root] == -1, "the root has no head"
    stated = _targets(reader, line.relation)
    following = derived(stated, layers["lemma"], layers["upos"])
    return Sentence.from_words(
        forms,
        id=id,
        space_after=[not word.glued for word in words[1:]] + [False],
        layers=layers,
        heads=heads,
        targets={**stated, **following},
        derived=frozenset(following),
    )


def text(tree: Phrase) -> str:
    """The natural text of a tree, without annotation."""
    parts: list[str] = []

    def walk(node: Tree) -> None:
        if isinstance(node, Word):
            parts.append(node.form if node.glued or not parts else " " + node.form)
        else:
            for part in node.parts:
                walk(part.tree)

    walk(tree)
    joined = "".join(parts)
    return joined[0].upper() + joined[1:]


def _iob(entities: list[Target], length: int) -> tuple[str, ...]:
    tags = ["O"] * length
    for entity in entities:
        first, end = entity.span1
        tags[first] = f"B-{entity.label}"
        for place in range(first + 1, end):
            tags[place] = f"I-{entity.label}"
    return tuple(tags)


def _targets(reader: _Reader, stated: tuple[str, int, int] | None) -> dict[str, tuple[Target, ...]]:
    targets = {
        "constituents": tuple(reader.constituents),
        "entities": tuple(sorted(reader.entities, key=lambda target: target.span1)),
        "srl": tuple(sorted(reader.roles, key=lambda target: (target.span1, target.span2))),
        "coref": tuple(_coreference(reader)),
        "relations": tuple(_relations(reader, stated)),
    }
    return {name: found for name, found in targets.items() if found}


def _coreference(reader: _Reader) -> list[Target]:
    """Each pronoun with every other mention, in sentences where some pair corefers."""
    mentions = sorted(set(reader.mentions))
    pairs = []
    for place, (span, referent, pronominal) in enumerate(mentions):
        for other, other_referent, other_pronominal in mentions[:place]:
            if (pronominal or other_pronominal) and not _overlap(span, other):
                pairs.append(Target(other, "1" if referent == other_referent else "0", span))
    return pairs if any(pair.label == "1" for pair in pairs) else []


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _relations(reader: _Reader, stated: tuple[str, int, int] | None) -> list[Target]:
    """The relation stated between two mentions; otherwise ``none`` between the first person and the first place."""
    if stated is not None:
        label, subject, obj = stated
        span_of = {referent: span for span, referent, _ in reader.mentions}
        return [Target(span_of[subject], label, span_of[obj])]
    person = next((e for e in reader.entities if e.label == "PER"), None)
    place = next((e for e in reader.entities if e.label == "LOC"), None)
    return [Target(person.span1, "none", place.span1)] if person and place else []
