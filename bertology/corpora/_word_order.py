"""Sentences of a treebank in which a word is the first of its kind, and others in which it is so by structure alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Final

from bertology.corpora._corpus import Corpus
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.errors import CorpusError

MAIN_AUXILIARY, SUBJECT_NOUN = "main_auxiliary", "subject_noun"
"""Names of the targets over auxiliaries and nouns, with the label ``yes`` for the main or the subject one, or ``no``.
"""


def word_order(corpus: Corpus) -> Corpus:
    """A treebank divided by whether linear order and structure agree (``word_order:CORPUS``).

    Every auxiliary (``AUX``) of a sentence is a target ``main_auxiliary``, with the label ``yes`` for the one that
    belongs to the root, of several the first, and ``no`` for others; every noun (``NOUN``) a target ``subject_noun``,
    ``yes`` for the root's subject. Where there is no such word, there are no targets. Sentences of train and dev in
    which the first auxiliary is not the main one, or the first noun not the subject, are moved to test, where
    they alternate with its own: nothing in the rest shows that order and structure may part (Lin, Tan & Frank 2019).

    Raises:
        CorpusError: no sentence has a tree with parts of speech, or there is no train or test.
    """
    for split in ("train", "test"):
        if split not in corpus:
            raise CorpusError(f"word_order:{corpus.name}: no split {split}; give a corpus with train and test")
    marked = {name: list(map(_marked, text)) for name, text in corpus.splits.items()}
    if not any(sentence.targets.keys() & _ASKED.keys() for some in marked.values() for sentence in some):
        remedy = "give a treebank with upos, heads and deprel"
        raise CorpusError(f"word_order:{corpus.name}: no sentence has an auxiliary or a subject noun; {remedy}")
    moved: list[Sentence] = []
    for name in ("train", "dev"):
        if name in marked:
            moved += filter(_parts, marked[name])
            marked[name] = [sentence for sentence in marked[name] if not _parts(sentence)]
    marked["test"] = list(alternating(moved, marked["test"]))
    splits = {name: Sentences(sentences) for name, sentences in marked.items()}
    return replace(corpus, name=f"word_order:{corpus.name}", splits=splits)


def alternating(*some: Iterable[Sentence]) -> Iterator[Sentence]:
    """The first of each, the second of each, and so on, until the longest ends."""
    return (one for one in chain.from_iterable(zip_longest(*some)) if one is not None)


def _marked(sentence: Sentence) -> Sentence:
    tags, relations = sentence.layers.get("upos"), sentence.layers.get("deprel")
    if sentence.heads is None or tags is None or relations is None:
        return sentence
    targets = dict(sentence.targets)
    for name, (tag, is_asked_for) in _ASKED.items():
        places = [place for place, one in enumerate(tags) if one == tag]
        asked = (place for place in places if is_asked_for(sentence.heads, place, relations[place] or ""))
        if (gold := next(asked, None)) is not None:
            targets[name] = tuple(Target((place, place + 1), "yes" if place == gold else "no") for place in places)
    return replace(sentence, targets=targets)


def _is_main(heads: tuple[int, ...], place: int, relation: str) -> bool:
    return heads[place] == 0 or (heads[heads[place] - 1] == 0 and relation.partition(":")[0] in ("aux", "cop"))


def _is_subject(heads: tuple[int, ...], place: int, relation: str) -> bool:
    return heads[place] > 0 and heads[heads[place] - 1] == 0 and relation.partition(":")[0] == "nsubj"


_ASKED: Final[dict[str, tuple[str, Callable[[tuple[int, ...], int, str], bool]]]] = {
    MAIN_AUXILIARY: ("AUX", _is_main),
    SUBJECT_NOUN: ("NOUN", _is_subject),
}
"""By name of targets the part of speech, and which of its words is the one."""


def _parts(sentence: Sentence) -> bool:
    """Whether the first word of a kind is not the one."""
    return any(sentence.targets[name][0].label == "no" for name in _ASKED if name in sentence.targets)
