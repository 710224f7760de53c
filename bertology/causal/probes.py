"""Questions about what a model computes with, answered by interventions on its forward pass, and the sums over clusters
of texts that their answers are made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertology._files import digest
from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.measures.intervals import sums_over_clusters
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, Probe, RunningModel
from bertology.probing.probes import SplitName, Subject

if TYPE_CHECKING:
    from bertology.causal.patching import PatchingMap


@dataclass(frozen=True)
class CausalItems:
    """Texts of a probe's own, such as pairs that differ in one word.

    Raises:
        CorpusError: there is none.
    """

    items: tuple[Any, ...]
    """Each a dataclass of strings and tuples of strings, which the fingerprint is made of."""
    language: str | None = None
    """Language of the texts, by whose rules words are found, where items do not state it themselves."""

    def __post_init__(self) -> None:
        if not self.items:
            raise CorpusError("no text to ask about")

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all items."""
        language = [] if self.language is None else [self.language.encode()]
        return digest([*(repr(item).encode() for item in self.items), *language])

    def some(self, most: int | None) -> CausalItems:
        """A random sample of at most ``most`` items, which is the same on every machine."""
        if most is None or most >= len(self.items):
            return self
        names = {repr(item): number for number, item in enumerate(self.items)}
        chosen = sorted(names, key=lambda name: digest([name.encode()]))[:most]
        return replace(self, items=tuple(self.items[number] for number in sorted(names[name] for name in chosen)))


class CausalProbe(Probe):
    """A question put to a running model: what happens to its predictions when states of one layer are changed?

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    A model of random weights predicts nothing that it could lose, which one initialisation shows.
    """

    subject: ClassVar[Subject] = "causes"

    asked_by = "counts"
    family = "causal"
    most_draws = 1
    reads: tuple[SplitName, ...] = ()
    """The splits that are read; none where the probe has texts of its own."""

    def items(self, source: str, *, columns: str | None = None) -> CausalItems | None:
        """Texts of the probe's own, of a corpus or of a table with named columns; None where it reads splits."""
        return None

    def sources(self) -> Mapping[str, str]:
        """Hashes by name of what settings name and the probe reads besides, such as a file of pairs."""
        return {}

    def counts(self, sentences: Mapping[str, Sentences], items: CausalItems | None) -> GeometryCounts:
        """Counts of the items; a :class:`CorpusError` where the text has none."""
        return GeometryCounts(0 if items is None else len(items))

    @abstractmethod
    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """The statistics of each layer; and counts in place of those of :meth:`counts`, where the model tells more.

        Raises:
            ModelError: the model has no masked-LM head, or not what is changed.
            FitError: there is nothing to change.
        """


def cluster_sums(
    metric: str,
    layers: Sequence[int],
    over: NDArray[np.float64],
    under: NDArray[np.float64] | None,
    clusters: Sequence[str],
    group: str = "",
) -> LayerSums:
    """``[layer, item]`` numerators and denominators, added up over the items of each cluster.

    Without denominators a mean over items: NaN where an item has no value.
    """
    if under is None:
        has_value = np.isfinite(over)
        over, under = np.where(has_value, over, 0.0), has_value.astype(np.float64)
    above, below = (sums_over_clusters(part, clusters) for part in (over, under))
    return LayerSums(metric, tuple(layers), above, below, "frames", group)


def effect_sums(metric: str, found: PatchingMap, whole: str) -> Iterator[LayerSums]:
    """The effect of the place ``whole``, which is the statistic itself, and of each place as a group."""
    for number, place in enumerate(found.places):
        change = found.changes[:, number]
        under = np.where(np.isfinite(change), found.whole, 0.0)
        for group in ("", place) if place == whole else (place,):
            yield cluster_sums(metric, found.layers, np.nan_to_num(change), under, found.clusters, group)


def share_sums(metric: str, maps: Sequence[PatchingMap], place: str) -> LayerSums:
    """The share of texts, of all maps together, in which the word is chosen that the new state of a place calls for."""
    right = np.concatenate([one.right[:, one.places.index(place)] for one in maps], axis=1)
    return cluster_sums(metric, maps[0].layers, right, None, [cluster for one in maps for cluster in one.clusters])


def title(method: str) -> str:
    """Name of a method in tables."""
    return method.replace("_times_", " × ").replace("_", " ")


def pair_reason(reason: str) -> str:
    """Why a pair is left out, without its words."""
    if "single piece" in reason:
        return "an answer of several pieces"
    if "pieces" in reason:
        return "words of different numbers of pieces"
    return "texts of different numbers of words" if "give two of the same number" in reason else reason
