"""Translation of a tree into the second pocket language, with the links between the words of both.

The second language has objects before verbs, postpositions, nouns before their adjectives, and subordinators at the end
of their clause. It has suffixes where the first has words: definiteness for *the*, cases for objects and possessors,
tense, aspect and voice for auxiliaries. It has no word for *a*, *there* in *there is*, and *do* without content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

from bertology.pocket.bilingual.dictionary import SUFFIXES, alike, dictionary, leaves, sense_of, transliterated
from bertology.pocket.grammar.tree import HEAD, Part, Phrase, Tree, Word

Order = Literal["same", "own", "reversed"]
"""Of words in the second language: as in the first, its own, or that of the first backwards."""

# What comes before the head (negative) and after it; parts of one rank keep their order.
_RANKS = {
    **{
        "nsubj": -9,
        "nsubj:pass": -9,
        "obl:agent": -7,
        "iobj": -6,
        "obl": -5,
        "obl:unmarked": -5,
        "obj": -4,
        "xcomp": -3,
    },
    **{"advmod": -2, "det": -2, "nmod:poss": -1},
    **{"cop": 1, "aux": 2, "flat": 1, "compound": 1, "nummod": 2, "amod": 2, "nmod": 3, "acl:relcl": 4},
    **{"case": 5, "ccomp": 5, "mark": 6, "advcl": 7, "conj": 8},
}
_FIRST, _LAST = -10, 10
_ABSORBED = {"have": "Perf", "be": "Prog"}
_CASES = {"obj": "Acc", "iobj": "Dat", "nmod:poss": "Gen"}
_SUFFIX_ORDER = tuple(SUFFIXES)
_VERBAL = frozenset({"Pass", "Perf", "Prog", "Inf", "Past", "Pres", "Agr"})


class Translated(NamedTuple):
    """A sentence of the second language."""

    tree: Phrase
    sure: frozenset[tuple[int, int]]
    """Places of a word and of its translation."""
    possible: frozenset[tuple[int, int]]
    """Places of a grammatical word, and of the word that has a suffix for it."""


class _Marks(NamedTuple):
    """What is to be expressed at the head word of a phrase."""

    suffixes: frozenset[str] = frozenset()
    sure: tuple[int, ...] = ()
    possible: tuple[int, ...] = ()
    particle: str = ""

    def with_suffix(self, *suffixes: str, by: int | None = None) -> _Marks:
        """These marks and more suffixes, which stand for the word at place ``by``."""
        possible = self.possible if by is None else (*self.possible, by)
        return self._replace(suffixes=self.suffixes | {*suffixes}, possible=possible)

    def only_verbal(self) -> _Marks:
        """What is expressed at the verb or copula of a clause."""
        return _Marks(self.suffixes & _VERBAL, possible=self.possible if self.suffixes & _VERBAL else ())

    def without_verbal(self) -> _Marks:
        """What is expressed at a predicate that has a copula."""
        return self._replace(
            suffixes=self.suffixes - _VERBAL, possible=() if self.suffixes & _VERBAL else self.possible
        )


@dataclass(frozen=True)
class Translator:
    """Translates trees."""

    order: Order = "own"
    anchors: float = 0.0
    """Share of names and towns spelled alike."""
    shifted: bool = False
    """Every word is that of the first language in the letters of the second, in the same place."""

    def __call__(self, tree: Phrase) -> Translated:
        """The translation of a whole sentence."""
        numbered = _numbered(tree, count())
        made = _shifted(numbered) if self.shifted else self._phrase(numbered, _Marks())
        words = list(leaves(made))
        return Translated(
            made,
            frozenset((source, place) for place, word in enumerate(words) for source in word.sure),
            frozenset((source, place) for place, word in enumerate(words) for source in word.possible),
        )

    def _tree(self, tree: Tree, marks: _Marks) -> Tree:
        return self._word(tree, marks) if isinstance(tree, Word) else self._phrase(tree, marks)

    def _phrase(self, tree: Phrase, marks: _Marks) -> Phrase:
        kept, marks = _absorbed(tree.parts, marks)
        case = marks.suffixes & {*_CASES.values()}
        has_copula = any(part.relation == "cop" for part in kept)
        parts = []
        for part in kept:
            if part.relation == HEAD:
                own = marks.without_verbal() if has_copula else marks
            elif part.relation == "cop":
                own = marks.only_verbal()
            elif part.relation == "conj" and case:
                own = _Marks(frozenset(case))
            else:
                own = _Marks(frozenset({_CASES[part.relation]} if part.relation in _CASES else ()))
            parts.append(part._replace(tree=self._tree(part.tree, own)))
        if self.order == "own":
            parts = _ordered(parts)
        return tree._replace(parts=tuple(reversed(parts) if self.order == "reversed" else parts))

    def _word(self, word: Word, marks: _Marks) -> Word:
        sure = (*word.sure, *marks.sure)
        if word.upos == "PUNCT":
            mark = transliterated(word.form)
            return word._replace(form=mark, lemma=mark, xpos=mark, sure=sure)
        suffixes = marks.suffixes | _inflection(word, marks.suffixes)
        chosen = [name for name in _SUFFIX_ORDER if name in suffixes]
        stem, ending = dictionary()[sense_of(word, marks.particle)], "".join(SUFFIXES[name] for name in chosen)
        if word.lemma in alike(self.anchors):
            lemma = word.lemma
        else:
            lemma = transliterated(stem.capitalize() if word.upos == "PROPN" else stem)
        form, feats = lemma + transliterated(ending), "|".join(sorted(_FEATS[name] for name in chosen)) or None
        return Word(form, lemma, word.upos, word.upos, feats, novelty=word.novelty, sure=sure, possible=marks.possible)


_FEATS = {
    **{"Plur": "Number=Plur", "Def": "Definite=Def", "Acc": "Case=Acc", "Dat": "Case=Dat", "Gen": "Case=Gen"},
    **{"Pass": "Voice=Pass", "Perf": "Aspect=Perf", "Prog": "Aspect=Prog", "Inf": "VerbForm=Inf"},
    **{"Past": "Tense=Past", "Pres": "Tense=Pres", "Agr": "Number=Plur"},
}


def _numbered(tree: Phrase, places: count[int]) -> Phrase:
    """The tree with the place of each word in the sentence."""
    return tree._replace(
        parts=tuple(
            part._replace(
                tree=part.tree._replace(sure=(next(places),))
                if isinstance(part.tree, Word)
                else _numbered(part.tree, places)
            )
            for part in tree.parts
        )
    )


def _shifted(tree: Phrase) -> Phrase:
    """The tree with each word in the letters of the second language."""
    parts = []
    for part in tree.parts:
        if isinstance(part.tree, Word):
            form, lemma = transliterated(part.tree.form), transliterated(part.tree.lemma)
            parts.append(part._replace(tree=part.tree._replace(form=form, lemma=lemma)))
        else:
            parts.append(part._replace(tree=_shifted(part.tree)))
    return tree._replace(parts=tuple(parts))


def _absorbed(parts: Sequence[Part], marks: _Marks) -> tuple[list[Part], _Marks]:
    """The parts that have words of their own, and the marks of the head word, with those of all other parts.

    Tense and agreement are those of the first auxiliary that is not kept, which is the finite one.
    """
    kept: list[Part] = []
    for part in parts:
        relation, tree = part.relation, part.tree
        if relation == "compound:prt":
            word = next(leaves(tree))
            marks = marks._replace(particle=word.lemma, sure=(*marks.sure, *word.sure))
            continue
        if isinstance(tree, Word):
            place = tree.sure[0]
            if tree.upos == "AUX" and tree.xpos != "MD" and relation in ("aux", "aux:pass"):
                name = "Pass" if relation == "aux:pass" else _ABSORBED.get(tree.lemma)
                marks = marks.with_suffix(*filter(None, (name, *_finite(tree))), by=place)
                continue
            if (relation, tree.lemma) == ("det", "the"):
                marks = marks.with_suffix("Def", by=place)
                continue
            if relation == "case" and tree.upos == "PART":
                marks = marks.with_suffix("Gen", by=place)
                continue
            if relation == "mark" and tree.upos == "PART":
                marks = marks.with_suffix("Inf", by=place)
                continue
            if (relation, tree.lemma) == ("det", "a"):
                continue
        if relation != "expl":
            kept.append(part)
    return kept, marks


def _finite(word: Word) -> tuple[str, ...]:
    """Tense of a finite form of the first language, and agreement with a plural in the present."""
    feats = set((word.feats or "").split("|"))
    if "VerbForm=Fin" not in feats or word.xpos == "MD":
        return ()
    if "Tense=Past" in feats:
        return ("Past",)
    return ("Pres", "Agr") if "Number=Plur" in feats else ("Pres",)


def _inflection(word: Word, marked: frozenset[str]) -> frozenset[str]:
    """The suffixes of a word by its own form; an auxiliary before it has taken tense already."""
    if word.upos == "NOUN" and "Number=Plur" in (word.feats or ""):
        return frozenset({"Plur"})
    return frozenset(_finite(word)) if word.upos in ("VERB", "AUX") and not marked & {"Past", "Pres"} else frozenset()


def _ordered(parts: Sequence[Part]) -> list[Part]:
    """The parts in the order of the second language; what a comma follows stands first, with its comma."""
    ranks: list[int] = []
    commas = {place for place, part in enumerate(parts[:-1]) if part.relation == "punct"}
    for place, part in enumerate(parts):
        if part.relation == "punct":
            rank = _LAST if place == len(parts) - 1 else ranks[-1] if ranks else _FIRST
        elif part.relation == HEAD:
            rank = 0
        elif part.relation == "cc" or _is_wh(part.tree) or place + 1 in commas:
            rank = _FIRST
        else:
            rank = _RANKS[part.relation]
        ranks.append(rank)
    return [parts[place] for place in sorted(range(len(parts)), key=ranks.__getitem__)]


def _is_wh(tree: Tree) -> bool:
    """Whether a part is an interrogative or relative phrase."""
    return isinstance(tree, Phrase) and (tree.label or "").startswith("WH")
