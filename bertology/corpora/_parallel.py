"""Texts of several languages in one: which language a sentence is of, what it translates, and gold links of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.errors import CorpusError, listed, quoted

LANGUAGE: Final = "language"
"""The target over a whole sentence whose label is its language, such as ``de``."""
TRANSLATION: Final = "translation"
"""The target over a whole sentence whose label names what it has in common with its translations, such as ``n01001``.
"""
_LINKS = "links:"
_POSSIBLE = "p"
Pairs = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Links:
    """A gold word alignment of two sentences: pairs of places of words, each from 0.

    A word in no pair is linked with none; one may be in many. Where annotators were not of one mind a link is only
    *possible* (Och & Ney 2003): an aligner need not find it, and may.
    """

    sure: Pairs
    possible: Pairs = frozenset()
    """Those that are possible without being sure."""

    def turned(self) -> Links:
        """The same links from the second sentence to the first."""
        return Links(*(frozenset((j, i) for i, j in pairs) for pairs in (self.sure, self.possible)))

    def fits(self, n_first: int, n_second: int) -> bool:
        """Whether every pair is of words that sentences of so many words have."""
        return all(0 <= i < n_first and 0 <= j < n_second for i, j in self.sure | self.possible)


def translations(
    sentences: Mapping[str, Sentence], *, unit: str | None = None, links: Mapping[tuple[str, str], Links] | None = None
) -> list[Sentence]:
    """Sentences of several languages as a corpus of several languages holds them: one after the other, and marked.

    Every sentence gets the target ``language`` and, where they translate each other, ``translation``, both over the
    whole of it, and the id ``UNIT/LANGUAGE``. Gold links of two languages become a layer of the second: ``links:en``
    holds for each word the places of the English words that it is linked with (``"3"``, ``"2 3"``; of possible links
    ``"p4"``), and ``""`` where it is linked with none.

    Args:
        sentences: by language.
        unit: names what they have in common; None for sentences that do not translate each other.
        links: by pair of languages.

    Raises:
        ValueError: links of a language that is not there, or of words that are not.
    """
    marked = {}
    for language, sentence in sentences.items():
        whole = (0, len(sentence))
        marks = {LANGUAGE: (Target(whole, language),)}
        if unit is not None:
            marks[TRANSLATION] = (Target(whole, unit),)
        name = sentence.id if unit is None else unit
        marked[language] = replace(sentence, id=f"{name}/{language}", targets={**sentence.targets, **marks})
    for (first, second), of_pair in (links or {}).items():
        if first not in marked or second not in marked:
            raise ValueError(f"links of {first} and {second}, but sentences of {listed(marked)}")
        one, other = marked[first], marked[second]
        if not of_pair.fits(len(one), len(other)):
            raise ValueError(f"{one.id}, {other.id}: links of words that these sentences do not have")
        marked[second] = replace(other, layers={**other.layers, _LINKS + first: _written(of_pair, len(other))})
    return list(marked.values())


def _written(links: Links, n_second: int) -> tuple[str, ...]:
    cells: list[list[str]] = [[] for _ in range(n_second)]
    for prefix, pairs in (("", links.sure), (_POSSIBLE, links.possible - links.sure)):
        for i, j in sorted(pairs):
            cells[j].append(f"{prefix}{i}")
    return tuple(map(" ".join, cells))


def _read(cells: Iterable[str | None]) -> Links:
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for j, cell in enumerate(cells):
        for one in (cell or "").split():
            (possible if one.startswith(_POSSIBLE) else sure).add((int(one.removeprefix(_POSSIBLE)), j))
    return Links(frozenset(sure), frozenset(possible))


@dataclass(frozen=True, eq=False)
class ParallelText:
    """The sentences of a split by language, and those that translate each other."""

    sentences: Sentences
    languages: tuple[str, ...]
    """In order of first appearance."""
    language: NDArray[np.int64]
    """``[sentence]`` number of its language, −1 for none."""
    unit: NDArray[np.int64]
    """``[sentence]`` number of what it has in common with its translations, −1 for none."""

    @classmethod
    def of(cls, sentences: Sentences) -> ParallelText:
        """The text of a split.

        Raises:
            CorpusError: no sentence states its language, or one states two; fewer than two languages, one with a single
                sentence, or two sentences of a language that translate the same.
        """
        language, languages = _labels(sentences, LANGUAGE)
        unit, units = _labels(sentences, TRANSLATION)
        if len(languages) < 2:
            what = f"all sentences are {languages[0]}" if languages else "no sentence states its language"
            raise CorpusError(f"{what}: give parallel:en=path/to/one,de=path/to/other, or multilingual:… alike")
        counts = np.bincount(language[language >= 0], minlength=len(languages))
        if (counts < 2).any():
            lone = languages[int(counts.argmin())]
            raise CorpusError(f"language {lone} has one sentence: give two or more")
        both = np.stack([language, unit])[:, (language >= 0) & (unit >= 0)]
        distinct, times = np.unique(both, axis=1, return_counts=True)
        if (times > 1).any():
            where, what = distinct[:, times.argmax()]
            raise CorpusError(
                f"{times.max()} sentences of {languages[where]} have the translation {quoted(units[what])}: give one"
            )
        return cls(sentences, languages, language, unit)

    def numbers(self, language: str) -> NDArray[np.int64]:
        """``[sentence]`` numbers of the sentences of a language."""
        return np.flatnonzero(self.language == self.languages.index(language))

    def alone(self, language: str) -> Sentences:
        """The sentences of a language, with the id that they have in common with their translations."""
        texts = (self.sentences[number] for number in self.numbers(language).tolist())
        return Sentences(replace(text, id=text.id.removesuffix(f"/{language}")) for text in texts)

    def pairs(self, source: str, target: str) -> NDArray[np.int64]:
        """``[pair, 2]`` numbers of a sentence and its translation, in order of the first; none where none is known."""
        first, second = (one[self.unit[one] >= 0] for one in map(self.numbers, (source, target)))
        _, ours, theirs = np.intersect1d(self.unit[first], self.unit[second], return_indices=True)
        pairs = np.stack([first[ours], second[theirs]], axis=1)
        return np.asarray(pairs[np.argsort(pairs[:, 0])])

    def links(self, source: str, target: str) -> list[Links | None]:
        """The gold alignment of each of :meth:`pairs`, None where there is none."""
        return [self._links(source, target, *pair) for pair in self.pairs(source, target).tolist()]

    def _links(self, source: str, target: str, first: int, second: int) -> Links | None:
        if (cells := self._cells(second, source)) is not None:
            return _read(cells)
        return None if (cells := self._cells(first, target)) is None else _read(cells).turned()

    def _cells(self, number: int, language: str) -> tuple[str | None, ...] | None:
        layer = self.sentences.layers.get(_LINKS + language)
        start, end = self.sentences.starts[number : number + 2].tolist()
        cells = layer.decoded(start, end) if layer is not None else (None,)
        return None if cells[0] is None else cells


def _labels(sentences: Sentences, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """``[sentence]`` the number of the label of each, −1 for none, and the labels."""
    numbers, known = np.full(len(sentences), -1, dtype=np.int64), dict[str, Any]()
    for number, targets in sentences.targets(name):
        if len(targets) > 1 or len(targets[0].labels) != 1:
            raise CorpusError(f"sentence {quoted(sentences.id(number))} has several labels in {quoted(name)}: give one")
        numbers[number] = known.setdefault(targets[0].labels[0], len(known))
    return numbers, tuple(known)
