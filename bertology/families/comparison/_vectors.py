"""Comparisons of stored vectors: the same words in a model and in its reference."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bertology.corpora import Sentences
from bertology.families.cells import Stopwatch
from bertology.families.comparison._cells import pairs_by_depth, reference_of, write_sums
from bertology.families.request import ReadoutConfig
from bertology.families.tasks import FitCells, Job
from bertology.geometry import LayerVectors, most_alike
from bertology.probing import LayerPair, Probe, VectorComparison


def configured_vectors(probe: Probe, config: ReadoutConfig) -> VectorComparison:
    """The question with the settings of a configuration."""
    chosen = probe.with_settings(config.settings)
    assert isinstance(chosen, VectorComparison)
    return chosen


def measure_vectors(cells: FitCells, job: Job) -> None:
    """Compute the statistics of the vectors of all layers and write the cells."""
    watch, probe, other = Stopwatch(), configured_vectors(cells.probe, cells.config), reference_of(job)
    texts: dict[str, Sentences] = {name: job.pair.splits.by_name[name] for name in probe.reads}
    asked = probe.words(texts)
    read = {name: _in_both(asked[name], job, other, name) for name in texts}
    model = _vectors(job, read, cells.layers_read)
    reference = _vectors(other, read, other.pair.layers)
    # On one thread every engine computes the same bits.
    with threadpool_limits(1):
        pairs = _pairs(probe, cells, job, model, reference)
        found = list(probe.statistics(model, reference, texts, layers=pairs))
    test, words = texts["test"], read["test"]
    why = ChainMap(*(dict(one.pair.unreadable.get("test", {})) for one in (job, other)))
    write_sums(
        cells,
        job,
        found,
        pairs=pairs,
        counts=probe.counts(texts, read),
        n_clusters=len(np.unique(test.sentence_of_word[words])),
        skipped=Counter(why[word] for word in np.setdiff1d(asked["test"], words).tolist()),
        watch=watch,
        device="cpu",
    )


def _in_both(words: NDArray[np.int64], job: Job, other: Job, split: str) -> NDArray[np.int64]:
    """The words that both models can read, without those that are left out."""
    return words[~np.isin(words, [word for one in (job, other) for word in one.pair.unreadable.get(split, ())])]


def _vectors(job: Job, words: Mapping[str, NDArray[np.int64]], layers: tuple[int, ...]) -> dict[str, LayerVectors]:
    n_threads = job.n_threads
    return {
        name: LayerVectors.stored(job.entries[name], chosen, layers, n_threads=n_threads)
        for name, chosen in words.items()
    }


def _pairs(
    probe: VectorComparison,
    cells: FitCells,
    job: Job,
    model: Mapping[str, LayerVectors],
    reference: Mapping[str, LayerVectors],
) -> tuple[LayerPair, ...]:
    """Which layers are compared: by depth, or by likeness on dev, or on test where there is no dev."""
    if probe.match == "depth":
        return pairs_by_depth(cells.layers_read, job.pair, reference_of(job).pair)
    split = "dev" if "dev" in model and len(model["dev"]) else "test"
    return most_alike(model[split], reference[split])
