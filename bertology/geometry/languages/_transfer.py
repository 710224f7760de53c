"""Transfer between languages: a readout fitted to the words of one language, and put to those of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.geometry._sums import Floats, Integers, LayerSums
from bertology.geometry._vectors import Floats32, LayerVectors
from bertology.geometry.languages._sentences import of_clusters, sums_of

_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class LabelledWords:
    """Words of a split that have a label, and the vectors that stand for them."""

    places: Integers
    """``[item]`` the place of the word's vector among those that are read."""
    language: Integers
    """``[item]``"""
    codes: NDArray[np.int64]
    """``[item]`` the label of each, numbered through all splits."""

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class TransferItems:
    """The items of a question about words in several languages."""

    names: tuple[str, ...]
    """Of the languages."""
    n_labels: int
    splits: Mapping[str, LabelledWords]
    """``train``, ``dev`` and ``test``."""
    clusters: Integers
    """``[item]`` of test: what is resampled together, a sentence with its translations."""

    @property
    def sources(self) -> tuple[int, ...]:
        """The languages of which there are two labels to learn from, and words of dev to choose the strength by."""
        train, dev = self.splits["train"], self.splits["dev"]
        known = (n for n in range(len(self.names)) if len(np.unique(train.codes[train.language == n])) > 1)
        return tuple(n for n in known if (dev.language == n).any())

    @property
    def n_clusters(self) -> int:
        """Number of :attr:`clusters`."""
        return int(self.clusters.max()) + 1

    def scores(self, metric: str, layers: tuple[int | None, ...], right: Mapping[int, Floats]) -> Iterator[LayerSums]:
        """Accuracy by source and target, and over all pairs of two languages.

        Args:
            metric: its name.
            layers: those of the values.
            right: by source ``[layer, item]`` whether each item of test is right.
        """
        test, pairs = self.splits["test"], {}
        for source, hits in right.items():
            for target in np.unique(test.language).tolist():
                if target != source:
                    pairs[f"{self.names[source]} → {self.names[target]}"] = self._sums(hits, test.language == target)
        yield from sums_of(metric, layers, pairs)

    def own_scores(
        self, metric: str, layers: tuple[int | None, ...], right: Mapping[int, Floats]
    ) -> Iterator[LayerSums]:
        """Accuracy in the language of the source itself; arguments as of :meth:`scores`."""
        test = self.splits["test"]
        known = [source for source in right if (test.language == source).any()]
        if known:
            values = {self.names[source]: self._sums(right[source], test.language == source) for source in known}
            yield from sums_of(metric, layers, values)

    def _sums(self, hits: Floats, which: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        counted = which.astype(np.float64)
        over, under = (of_clusters(one, self.clusters, self.n_clusters) for one in (hits * counted, counted[None]))
        return over, under


def transfer(vectors: Mapping[str, LayerVectors], items: TransferItems) -> Iterator[LayerSums]:
    """Accuracy of logistic regression fitted to one language, in the others (cf. Pires et al. 2019, §3).

    One fit for each language, of all layers in the same passes; its strength is chosen on dev of the same language.
    Three ways to put it to another language: to the vectors as they are; after moving them by the difference of the
    means of both languages (``_centred``); and after giving them the mean and the spread, dimension by dimension, of
    the language it was fitted to (``_standardised``). Features of a fit are standardised, so that it is the fit to
    centred or standardised vectors too. Means and spreads are those of unlabelled train words of each language, or of
    its test words where it has no train. ``own`` is the accuracy of each fit in its own language.

    Args:
        vectors: ``train``, ``dev`` and ``test``.
        items: the words with their labels and languages.

    Yields:
        ``transfer``, ``transfer_centred``, ``transfer_standardised`` and ``own``, by pair of languages.
    """
    from bertology.readouts import ArrayFeatures, Targets, get_readout  # imports torch, which naming them need not

    layers = vectors["test"].layers
    values = {split: _stacked(vectors[split], of_split.places) for split, of_split in items.splits.items()}
    means, spreads = _moments(items, values)
    gold, language = items.splits["test"].codes, items.splits["test"].language
    right: dict[str, dict[int, Floats]] = {"": {}, "_centred": {}, "_standardised": {}}
    for source in items.sources:
        (train, train_labels), (dev, dev_labels) = (
            (ArrayFeatures(values[split][:, own], layers=layers), Targets(of_split.codes[None, own], items.n_labels))
            for split, of_split in items.splits.items()
            if split != "test" and (own := of_split.language == source).any()
        )
        fitted = get_readout("linear").fit(train, train_labels, dev=dev, dev_targets=dev_labels)
        for way, of_way in right.items():
            moved = values["test"]
            if way == "_centred":
                moved = moved - means[:, language] + means[:, source, None]
            elif way == "_standardised":
                moved = (moved - means[:, language]) / spreads[:, language]
                moved = moved * spreads[:, source, None] + means[:, source, None]
            of_way[source] = np.asarray(fitted.predict(ArrayFeatures(moved, layers=layers)).labels[0] == gold, float)
    for way, of_way in right.items():
        yield from items.scores(f"transfer{way}", layers, of_way)
    yield from items.own_scores("own", layers, right[""])


def _stacked(vectors: LayerVectors, places: Integers) -> Floats32:
    """``[layer, item, dim]`` the vectors of items."""
    return np.stack(vectors.each(lambda _, of_layer: of_layer[places]))


def _moments(items: TransferItems, values: Mapping[str, Floats32]) -> tuple[Floats32, Floats32]:
    """``[layer, language, dim]`` means and standard deviations, which are at least a trifle."""
    train, test = items.splits["train"], items.splits["test"]
    means, spreads = [], []
    for number in range(len(items.names)):
        own = train.language == number
        some = values["train"][:, own] if own.any() else values["test"][:, test.language == number]
        means.append(some.mean(axis=1))
        spreads.append(np.maximum(some.std(axis=1), _LEAST_SPREAD))
    return np.stack(means, axis=1), np.stack(spreads, axis=1)
