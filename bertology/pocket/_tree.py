"""Trees that the grammar builds: every annotation of a sentence is read off one of these.

A phrase names, for each of its parts, the Universal Dependencies relation that the part's head word bears to the
phrase's own head word. Constituents are the phrases; dependencies follow from the heads; roles, entities and
reference are marked where the grammar decides them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

HEAD = "head"
"""The relation of the part that a phrase takes its head word from."""


class Word(NamedTuple):
    """A word form with its morphology: the same object wherever the form is used."""

    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str | None = None
    glued: bool = False
    """Written without a space before it: punctuation, *n't*, *'s*."""
    novelty: str | None = None
    """``held`` for words kept out of the probing splits, ``new`` for words kept out of pretraining too."""


class Part(NamedTuple):
    """A part of a phrase, and what it is to the phrase's head word."""

    relation: str
    tree: Tree
    role: str | None = None
    """The semantic role of this part, when the head word is a predicate: ``A0``, ``A1``, ``AM-LOC`` …"""


class Phrase(NamedTuple):
    """A constituent. A label of ``None`` makes it a mere grouping, which is no constituent of its own."""

    label: str | None
    parts: tuple[Part, ...]
    entity: str | None = None
    """The kind of entity that the whole phrase names: ``PER``, ``LOC``, ``ORG``."""
    referent: int = 0
    """Number of what the phrase refers to in its sentence; mentions that share it corefer. 0: nothing."""
    gap: str | None = None
    """In a relative clause, the role that the modified noun phrase plays in it."""


Tree: TypeAlias = Word | Phrase


def head(tree: Tree) -> Part:
    """The part that gives a phrase its head word."""
    return Part(HEAD, tree)


def phrase(label: str | None, *parts: Part) -> Phrase:
    """A phrase of these parts, exactly one of which is its :func:`head`."""
    return Phrase(label, parts)


def first_word(tree: Tree) -> Word:
    """The leftmost word of a tree."""
    while isinstance(tree, Phrase):
        tree = tree.parts[0].tree
    return tree
