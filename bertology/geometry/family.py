"""Statistics of stored vectors by layer, to which nothing is fitted (``bertology.geometry`` computes them)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from bertology.corpora import Sentences
from bertology.encoders import ModelShape
from bertology.families.contract import CellGrid, FitCells, Resources, named_task
from bertology.families.model_corpus import Alignment, ModelCorpus, Reasons, Signal
from bertology.families.request import Init, ReadoutConfig
from bertology.families.sums import PACKAGES, SumsFamily, own_readout, write_baseline_sums, write_sums
from bertology.geometry.probes import GeometryProbe, TextItems, WordsProbe
from bertology.probing import Probe
from bertology.results.predictions import Stopwatch

OfWords = TypeVar("OfWords", bound=WordsProbe)


class WordsFamily(SumsFamily[OfWords]):
    """Family of probes that are asked by words: their texts are checked, and layers may be compared with each other."""

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """Check that the text has the annotation that the task needs."""
        for config in configs:
            with named_task(probe):
                self.configured(probe, config).items(pair.texts(probe.reads))

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; where layers are compared, the content of a cell depends on which others are read."""
        grid = super().cells(pair, probe, config, init)
        is_compared = self.configured(probe, config).compares_layers
        return replace(grid, identity={**grid.identity, "layers": list(grid.columns)}) if is_compared else grid


class _Geometry(WordsFamily[GeometryProbe]):
    """Family of probes that compute statistics of the vectors of a text in each layer."""

    has_settings_in_baselines = True

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        assert isinstance(probe, GeometryProbe)
        return own_readout(probe, asked, self.readout, about=self.about, pools=probe.pools)

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Vectors of words, in the encodings of the probe too, and of special tokens that are vectors of sentences."""
        others = (one for config in configs for one in self.configured(probe, config).encodings.values())
        pools: tuple[Signal, ...] = ("cls",) if any(config.pool == "cls" for config in configs) else ()
        return ("words", *dict.fromkeys(others), *pools)

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        super().check(pair, probe, configs)
        if any(config.pool == "cls" for config in configs):
            pair.check_cls()

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Compute the statistics of all layers."""
        watch, probe, layers = Stopwatch(), self.configured(cells.probe, cells.config), cells.layers_read
        texts, others = job.pair.texts(probe.reads), probe.encodings
        unreadable = {name: dict(job.pair.unreadable.get(name, {})) for name in texts}
        for encoding in others.values():
            unreadable["test"] = {**Alignment.of_entry(job.stored[encoding]["test"]).skipped, **unreadable["test"]}
        with named_task(probe):
            items, n_clusters = items_read(probe, texts, unreadable)
            if probe.counts_subwords:
                pieces = {name: job.get_encoder().tokenize(text) for name, text in texts.items()}
                lengths = {name: (one.word_last - one.word_first).astype(np.int64) for name, one in pieces.items()}
                items = replace(items, n_subwords=lengths)
            vectors = {name: job.vectors(name, layers, words) for name, words in items.words.items()}
            test = items.words["test"]
            vectors |= {name: job.vectors("test", layers, test, signal=one) for name, one in others.items()}
            if cells.config.pool == "cls":
                for name, text in texts.items():
                    vectors[f"cls:{name}"] = job.vectors(name, layers, np.arange(len(text)), signal="cls")
            # Decompositions of small matrices on two threads that share a core with another job take 150 times as long;
            # and on one thread every engine computes the same bits.
            with threadpool_limits(1):
                found = list(probe.statistics(vectors, texts, items))
        aligned = job.pair.alignment_counts()
        provenance = watch.provenance(*PACKAGES, device="cpu", n_cells=len(cells.cells))
        write_sums(cells, job, found, items.counts, n_clusters=n_clusters, provenance=provenance, aligned=aligned)

    def compute_baselines(self, baselines: FitCells, job: Resources) -> None:
        """Compute what needs no vector, on the words that the model can read."""
        probe = self.configured(baselines.probe, baselines.config)
        texts = job.pair.texts(probe.reads)
        with named_task(probe):
            items, n_clusters = items_read(probe, texts, baselines.unreadable)
        measure = partial(probe.baseline, sentences=texts, items=items)
        write_baseline_sums(baselines, job, measure, items.counts, n_clusters, "numpy", "scikit-learn")


def items_read(
    probe: WordsProbe, texts: Mapping[str, Sentences], unreadable: Mapping[str, Reasons]
) -> tuple[TextItems, int]:
    """The items and words that can be read, with counts of all that is left out of test, and the number of sentences.

    Their words are all that are asked about and can be read.
    """
    asked = probe.items(texts).words
    read = {name: asked[name][~np.isin(asked[name], list(unreadable.get(name, ())))] for name in texts}
    items, left_out = probe.items(texts, read), np.setdiff1d(asked["test"], read["test"]).tolist()
    skipped = Counter(items.counts.skipped) + Counter(unreadable["test"][word] for word in left_out)
    n_sentences = len(np.unique(texts["test"].sentence_of_word[read["test"]]))
    counts = replace(items.counts, skipped=dict(sorted(skipped.items())))
    return replace(items, words=read, counts=counts), n_sentences


FAMILY = _Geometry()
