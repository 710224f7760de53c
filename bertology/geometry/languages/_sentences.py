"""Vectors of sentences by language, and what is done to them so that languages can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import ParallelText
from bertology.errors import CorpusError
from bertology.geometry._layers import group_sums
from bertology.geometry._sums import Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32

Direction = tuple[int, int]


@dataclass(frozen=True, eq=False)
class LanguageItems:
    """Sentences of several languages that have vectors."""

    names: tuple[str, ...]
    """Of the languages."""
    language: Integers
    """``[item]`` the language of each."""
    units: Integers
    """``[item]`` what it has in common with its translations, −1 for none."""
    bounds: Integers
    """``[item + 1]`` the place of the first vector of each sentence, and the number of vectors."""

    @classmethod
    def of(cls, text: ParallelText, of_vector: Integers) -> LanguageItems:
        """The sentences of a text that have vectors.

        Args:
            text: the sentences.
            of_vector: ``[vector]`` the number of the sentence of each, ascending: of its words, or of itself.

        Raises:
            CorpusError: fewer than two sentences of some language have vectors.
        """
        numbers, starts = np.unique(of_vector, return_index=True)
        language = text.language[numbers]
        counts = np.bincount(language[language >= 0], minlength=len(text.languages))
        if (counts < 2).any():
            lone = text.languages[int(counts.argmin())]
            raise CorpusError(f"fewer than two sentences of {lone} can be read: give more, or another model")
        return cls(text.languages, language, text.unit[numbers], np.append(starts, len(of_vector)))

    def __len__(self) -> int:
        return len(self.language)

    def means(self, vectors: Floats32) -> Floats32:
        """``[item, dim]`` the mean of the vectors ``[vector, dim]`` of each sentence."""
        return np.asarray(group_sums(vectors, self.bounds) / np.diff(self.bounds)[:, None].astype(np.float32))

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """``[item]`` what is resampled: a sentence with all its translations."""
        own = np.where(self.units >= 0, self.units, self.units.max() + 1 + np.arange(len(self)))
        return np.asarray(np.unique(own, return_inverse=True)[1])

    @property
    def n_clusters(self) -> int:
        """Number of :attr:`clusters`."""
        return int(self.clusters.max()) + 1

    def folds(self, number: int, *, seed: int = 0) -> NDArray[np.int64]:
        """``[item]`` one of so many parts, drawn at random, which divide no sentence from its translations."""
        order = np.random.default_rng(seed).permutation(self.n_clusters)
        return np.asarray((order % number)[self.clusters])

    def pairs(self) -> Iterator[tuple[Direction, Integers, Integers]]:
        """Every two languages, with the places of the sentences that translate each other in both."""
        for first, second in combinations(range(len(self.names)), 2):
            own, other = (np.flatnonzero((self.language == one) & (self.units >= 0)) for one in (first, second))
            _, ours, theirs = np.intersect1d(self.units[own], self.units[other], return_indices=True)
            if len(ours):
                yield (first, second), own[ours], other[theirs]

    def title(self, direction: Direction, arrow: str = "→") -> str:
        """A pair of languages as tables name it."""
        return f"{self.names[direction[0]]} {arrow} {self.names[direction[1]]}"


def group_means(vectors: Floats32, groups: Integers) -> tuple[Floats32, Integers]:
    """``[group, dim]`` the mean vector of each group, and ``[vector]`` the groups numbered from 0."""
    _, numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(numbers, kind="stable")
    sums = group_sums(vectors, np.append(0, counts.cumsum()), order=order)
    return np.asarray(sums / counts[:, None].astype(np.float32)), numbers


def centred(vectors: Floats32, language: Integers) -> Floats32:
    """Vectors ``[item, dim]`` less the mean of their language."""
    means, groups = group_means(vectors, language)
    return np.asarray(vectors - means[groups])


def erased(vectors: Floats32, language: Integers, *, fitted_on: NDArray[np.bool_] | None = None) -> Floats32:
    """Vectors ``[item, dim]`` after LEACE of their language (Belrose et al. 2023), fitted to some or to all of them."""
    import torch  # imports a lot, which naming the statistics need not

    from bertology.readouts import ArrayFeatures, fit_erasure

    which = np.ones(len(vectors), dtype=bool) if fitted_on is None else fitted_on
    _, labels = np.unique(language[which], return_inverse=True)
    erasure = fit_erasure(ArrayFeatures(vectors[None, which]), labels, int(labels.max()) + 1)
    return np.asarray(erasure.erase(torch.from_numpy(vectors.astype(np.float64))[None])[0].numpy())


def sums_of(
    metric: str, layers: tuple[int | None, ...], values: Mapping[str, tuple[Floats, Floats]]
) -> Iterator[LayerSums]:
    """One statistic over all of some groups, and by group.

    Args:
        metric: its name.
        layers: those of the values.
        values: by group numerators ``[layer, cluster]`` and denominators ``[1, cluster]``.
    """
    over, under = (np.sum([both[part] for both in values.values()], axis=0) for part in (0, 1))
    yield LayerSums(metric, layers, over, under, "sentences")
    if len(values) > 1:
        for group, both in values.items():
            yield LayerSums(metric, layers, *both, "sentences", group)


def of_clusters(values: Floats, clusters: Integers, n_clusters: int) -> Floats:
    """``[layer, cluster]`` sums of values ``[layer, item]``."""
    return np.stack([np.bincount(clusters, one, minlength=n_clusters) for one in values]).astype(np.float64)
