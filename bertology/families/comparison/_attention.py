"""Comparisons of attention maps: the same sentences in a model and in its reference, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bertology.attention import HeadRatios, Scope
from bertology.encoders import OnLong
from bertology.errors import CorpusError
from bertology.families.cells import Stopwatch
from bertology.families.comparison._cells import pairs_by_depth, reference_of, write_sums
from bertology.families.head_sums import kept_ratios
from bertology.families.tasks import FitCells, Job
from bertology.probing import AttentionComparison, GeometryCounts, LayerPair

_LEFT_OUT = "in a sentence that is not read whole by both models"


def measure_attention(cells: FitCells, job: Job) -> None:
    """Compare the maps of each head, and their mean over the heads of a layer, and write the cells."""
    from bertology.attention import paired_maps

    watch, other, text = Stopwatch(), reference_of(job), job.pair.splits.test
    probe = cells.probe.with_settings(cells.config.settings)
    assert isinstance(probe, AttentionComparison)
    pairs = pairs_by_depth(cells.layers_read, job.pair, other.pair)
    model, reference = job.get_encoder(), other.get_encoder()
    scope = Scope(len(text), tuple(layer for layer, _ in pairs), model.n_heads, "word")
    clusters, sums, n_words = scope.clusters(np.arange(len(text))), _Sums(scope), 0
    n_sentences = 0
    on_long = cast(OnLong, job.pair.request.on_long)
    for maps in paired_maps(model, reference, text, layers=pairs, on_long=on_long, progress=job.progress):
        sums.add(int(clusters[maps.sentence]), probe.of_sentence(maps.model, maps.reference))
        n_words += maps.model.shape[2]
        n_sentences += 1
    if not n_words:
        raise CorpusError("there is no word to compare attention by")
    write_sums(
        cells,
        job,
        lambda layer: [one for ratios in sums.finish(pairs) for one in kept_ratios(ratios, "test", layer)],
        pairs=pairs,
        counts=GeometryCounts(n_words),
        n_clusters=n_sentences,
        skipped={_LEFT_OUT: left} if (left := text.n_words - n_words) else {},
        watch=watch,
        device=job.device,
    )


class _Sums:
    """Numerators ``[layer, head, cluster]`` and denominators ``[cluster]`` of each metric."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._over: dict[str, NDArray[np.float64]] = {}
        self._under: dict[str, NDArray[np.float64]] = {}

    def add(self, cluster: int, found: Mapping[str, tuple[NDArray[np.float64], float]]) -> None:
        """What one sentence adds."""
        scope = self._scope
        for name, (over, under) in found.items():
            shape = len(scope.layers), scope.n_heads, scope.n_clusters
            self._over.setdefault(name, np.zeros(shape))[..., cluster] += over
            self._under.setdefault(name, np.zeros(scope.n_clusters))[cluster] += under

    def finish(self, pairs: tuple[LayerPair, ...]) -> tuple[HeadRatios, ...]:
        """Of each head, and their means over the heads of a layer."""
        names, layers = tuple(self._over), tuple(layer for layer, _ in pairs)
        over = np.stack([self._over[name] for name in names])
        under = np.stack([self._under[name] for name in names])[:, None, None]
        means = over.mean(axis=2, keepdims=True)
        return (HeadRatios(names, layers, over, under), HeadRatios(names, layers, means, under, unit="layer"))
