"""Translation of words in context: whether the nearest word of the other language is what a word was translated by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import ParallelText
from bertology.errors import CorpusError
from bertology.geometry._sums import Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32, LayerVectors, unit_vectors
from bertology.geometry.languages._sentences import group_means, of_clusters, sums_of


@dataclass(frozen=True, eq=False)
class TranslatedWords:
    """Words of one language with one sure link, and all words of the other."""

    title: str
    """``en → de``."""
    source: NDArray[np.int64]
    """``[word]`` numbers of all words of its own language, ascending."""
    words: NDArray[np.int64]
    """``[query]`` number of the word in its text."""
    forms: Integers
    """``[query]`` its own type."""
    gold: Integers
    """``[query]`` the type of the word that it is linked with."""
    units: Integers
    """``[query]`` what its sentence has in common with its translation."""
    candidates: NDArray[np.int64]
    """``[candidate]`` numbers of the words of the other language, ascending."""
    types: Integers
    """``[candidate]`` the type of each."""
    candidate_units: Integers
    """``[candidate]``."""

    @classmethod
    def of(cls, text: ParallelText, source: str, target: str, types: Integers) -> TranslatedWords | None:
        """The words of a text with one sure link, which is their link's only one; None where no link is known.

        Args:
            text: sentences of two languages with gold links.
            source: the language of the queries.
            target: that of the candidates.
            types: ``[word]`` the type of every word of the text, −1 for words that do not count.
        """
        starts, rows = text.sentences.starts, []
        some = zip(text.pairs(source, target).tolist(), text.links(source, target), strict=True)
        known = [(pair, links) for pair, links in some if links is not None]
        for (first, second), links in known:
            own, others = ([pair[side] for pair in sorted(links.sure | links.possible)] for side in (0, 1))
            for i, j in sorted(links.sure):
                if own.count(i) == 1 and others.count(j) == 1:
                    rows.append((starts[first] + i, starts[second] + j, text.unit[first]))
        if not known:
            return None
        words, linked, units = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        every = [[np.arange(starts[pair[side]], starts[pair[side] + 1]) for pair, _ in known] for side in (0, 1)]
        own_words, candidates = (some[types[some] >= 0] for some in map(np.sort, map(np.concatenate, every)))
        of_candidates = text.unit[text.sentences.sentence_of_word[candidates]]
        counted = (types[words] >= 0) & (types[linked] >= 0)
        queries = words, types[words], types[linked], units
        whole = cls(f"{source} → {target}", own_words, *queries, candidates, types[candidates], of_candidates)
        return whole.queries(counted)

    def __len__(self) -> int:
        return len(self.words)

    def queries(self, chosen: NDArray[np.bool_] | Integers) -> TranslatedWords:
        """Some of the queries, with all candidates."""
        fields = {name: getattr(self, name)[chosen] for name in ("words", "forms", "gold", "units")}
        return replace(self, **fields)

    def readable(self, words: NDArray[np.int64]) -> TranslatedWords:
        """Queries and candidates that are among ``words``."""
        kept = np.isin(self.candidates, words)
        fields = {name: getattr(self, name)[kept] for name in ("candidates", "types", "candidate_units")}
        source = self.source[np.isin(self.source, words)]
        return replace(self.queries(np.isin(self.words, words)), source=source, **fields)

    def folds(self, number: int, *, seed: int = 0) -> tuple[Integers, Integers]:
        """``[query]`` and ``[candidate]`` the part of so many, drawn at random, that its sentence is in."""
        units = np.unique(np.concatenate([self.units, self.candidate_units]))
        parts = np.random.default_rng(seed).permutation(len(units)) % number
        return parts[np.searchsorted(units, self.units)], parts[np.searchsorted(units, self.candidate_units)]

    def answerable(self, folds: int, *, seed: int = 0) -> TranslatedWords:
        """The queries whose translation occurs in the sentences of another part, where it is looked for.

        Raises:
            CorpusError: there is none.
        """
        of_queries, of_candidates = self.folds(folds, seed=seed)
        elsewhere = np.zeros(len(self), dtype=bool)
        for fold in range(folds):
            elsewhere |= (of_queries == fold) & np.isin(self.gold, self.types[of_candidates != fold])
        if not elsewhere.any():
            raise CorpusError(f"{self.title}: no word has a translation that occurs in other sentences: give more text")
        return self.queries(elsewhere)

    @property
    def is_ambiguous(self) -> NDArray[np.bool_]:
        """``[query]`` whether its type is linked with two types or more, each of them twice."""
        pairs, times = np.unique(np.stack([self.forms, self.gold]), axis=1, return_counts=True)
        own, n_senses = np.unique(pairs[0, times > 1], return_counts=True)
        return np.isin(self.forms, own[n_senses > 1])


def by_dictionary(words: TranslatedWords, folds: int, *, seed: int = 0) -> Floats:
    """``[query]`` whether the type that the word's own is most often linked with in other folds is the translation.

    What a dictionary knows without the context; a type that is linked in no other fold is mistaken.
    """
    of_queries, _ = words.folds(folds, seed=seed)
    right = np.zeros(len(words))
    for fold in np.unique(of_queries):
        known, asked = of_queries != fold, np.flatnonzero(of_queries == fold)
        pairs, times = np.unique(np.stack([words.forms, words.gold])[:, known], axis=1, return_counts=True)
        order = np.lexsort((-times, pairs[0]))
        forms, first = np.unique(pairs[0][order], return_index=True)
        best = dict(zip(forms.tolist(), pairs[1][order][first].tolist(), strict=True))
        right[asked] = [best.get(words.forms[query]) == words.gold[query] for query in asked]
    return right


def translation(
    read: LayerVectors, directions: list[TranslatedWords], *, folds: int = 5, seed: int = 0
) -> Iterator[LayerSums]:
    """Share of words whose nearest word of the other language, by cosine, is the one that they are linked with.

    What is looked for is in other sentences than the word's own: sentences are divided into folds, and the candidates
    of a word are those of the other folds, so that neither a shared context nor the translation itself is found.
    ``type``: the nearest mean of a type's occurrences; ``occurrence``: the type of the nearest occurrence. Vectors are
    less the mean of their language, but for ``type_raw``.

    Args:
        read: vectors of queries and candidates.
        directions: of each, :meth:`TranslatedWords.answerable` queries.
        folds: as there.
        seed: as there.

    Yields:
        Each of these, of all directions, by direction, and of words with several translations.
    """

    def of_layer(layer: int, vectors: Floats32) -> list[dict[str, Floats]]:
        return [_of_direction(layer, vectors, read.words, words, folds, seed) for words in directions]

    by_layer = read.each(of_layer)
    for name in by_layer[0][0]:
        right = [np.stack([one[place][name] for one in by_layer]) for place in range(len(directions))]
        yield from translation_scores(name, read.layers, right, directions)


def translation_scores(
    metric: str, layers: tuple[int | None, ...], right: list[Floats], directions: list[TranslatedWords]
) -> Iterator[LayerSums]:
    """Whether queries ``[direction][layer, query]`` are right: of all, by direction, and of ambiguous words."""
    every = np.unique(np.concatenate([words.units for words in directions]))
    values, ambiguous = dict[str, tuple[Floats, Floats]](), dict[str, tuple[Floats, Floats]]()
    for words, of_direction in zip(directions, right, strict=True):
        clusters = np.searchsorted(every, words.units)
        for which, to in ((np.ones(len(words), dtype=bool), values), (words.is_ambiguous, ambiguous)):
            some = of_direction * which, which[None].astype(np.float64)
            over, under = (of_clusters(one, clusters, len(every)) for one in some)
            to[words.title] = over, under
    yield from sums_of(metric, layers, values)
    over, under = (np.sum([both[part] for both in ambiguous.values()], axis=0) for part in (0, 1))
    if under.any():
        yield LayerSums(metric, layers, over, under, "sentences", "several translations")


def _of_direction(
    layer: int, vectors: Floats32, read: NDArray[np.int64], words: TranslatedWords, folds: int, seed: int
) -> dict[str, Floats]:
    asked, candidates = (vectors[np.searchsorted(read, some)] for some in (words.words, words.candidates))
    of_queries, of_candidates = words.folds(folds, seed=seed)
    right = {name: np.zeros(len(words)) for name in ("type", "type_raw", "occurrence")}
    means = [vectors[np.searchsorted(read, some)].mean(axis=0) for some in (words.source, words.candidates)]
    spaces = {"_raw": (asked, candidates), "": (asked - means[0], candidates - means[1])}
    for fold in np.unique(of_queries):
        queries, known = of_queries == fold, of_candidates != fold
        types = np.unique(words.types[known])
        for suffix, (own, others) in spaces.items():
            unit = unit_vectors(own[queries], layer, may_vanish=True)
            of_types = unit_vectors(group_means(others[known], words.types[known])[0], layer, may_vanish=True)
            nearest = types[(unit @ of_types.T).argmax(axis=1)]
            right[f"type{suffix}"][queries] = nearest == words.gold[queries]
        near = (unit @ unit_vectors(others[known], layer, may_vanish=True).T).argmax(axis=1)
        right["occurrence"][queries] = words.types[known][near] == words.gold[queries]
    return right
