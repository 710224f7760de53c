"""Trees of phrases and words, which the grammar builds."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

Number = Literal["Sing", "Plur"]
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
    sure: tuple[int, ...] = ()
    """Places of the words that this one translates, in a translation."""
    possible: tuple[int, ...] = ()
    """Places of grammatical words that this one has suffixes for, in a translation."""


class Part(NamedTuple):
    """A part of a phrase, and its relation to the head word of the phrase."""

    relation: str
    tree: "Tree"
    role: str | None = None
    """The semantic role of this part, when the head word is a predicate: ``A0``, ``A1``, ``AM-LOC`` …"""


class Phrase(NamedTuple):
    """A constituent. With the label ``None`` it only groups its parts and is no constituent."""

    label: str | None
    parts: tuple[Part, ...]
    entity: str | None = None
    """The kind of entity that the whole phrase names: ``PER``, ``LOC``, ``ORG``."""
    referent: int = 0
    """Number of the referent in its sentence; mentions of one number corefer. 0 for none."""
    gap: str | None = None
    """Role of the modified noun phrase in a relative clause."""


Tree: TypeAlias = Word | Phrase


def head(tree: Tree) -> Part:
    """The part that gives a phrase its head word."""
    return Part(HEAD, tree)


def phrase(label: str | None, *parts: Part) -> Phrase:
    """A phrase of these parts, exactly one of which is its :func:`head`."""
    return Phrase(label, parts)


def leaves(tree: Tree) -> Iterator[Word]:
    """The words of a tree, in order."""
    if isinstance(tree, Word):
        yield tree
    else:
        for part in tree.parts:
            yield from leaves(part.tree)


def mapped(tree: Phrase, change: Callable[[Word], Word]) -> Phrase:
    """The tree with each word changed, in order."""
    parts = (
        part._replace(tree=change(part.tree) if isinstance(part.tree, Word) else mapped(part.tree, change))
        for part in tree.parts
    )
    return tree._replace(parts=tuple(parts))


def first_word(tree: Tree) -> Word:
    """The leftmost word of a tree."""
    return next(leaves(tree))
