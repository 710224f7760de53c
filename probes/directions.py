"""Directions: does one direction of a state carry what decides between two words, and which method finds it?

A subspace of the states of one place is exchanged between two texts, where ``patching`` exchanges whole states: learned
for the decision (DAS; Geiger et al. 2024), or found in the states alone, and always in texts that it was not fitted to.
The main number is that of the first method at the words that differ; groups are places with methods. Selectivity is the
log odds-ratio less that of a control task with arbitrary words as answers (Arora et al. 2024), which DAS fits too where
a state is close to the prediction. ``directions:agreement`` exchanges the number of the subject, ``directions:facts``
what tells the subjects of two facts apart, which takes more than one dimension.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertology import causal
from bertology.causal import CausalItems, CausalProbe
from bertology.causal.probes import cluster_sums, pair_reason
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, ProbeFamily, RunningModel

from .patching import Patching


@dataclass(frozen=True)
class ExchangedDirections(CausalProbe):
    """Does one direction of a state carry what decides about a word at a mask?"""

    of: Literal["agreement", "facts"] = "agreement"
    """Source of the pairs of texts."""
    dims: int = 1
    """Number of dimensions that are exchanged."""
    methods: tuple[str, ...] = ("das", "mean_difference", "linear_probe", "leace", "pca", "random")
    """Methods of finding directions."""
    most_pairs: int = 100
    """Largest number of pairs, drawn at random."""
    task_form = "directions:{of}"
    about = "Pairs; which of them the model cannot read is seen when it reads them."
    reference = "Geiger et al. 2024; Arora et al. 2024"
    metrics = (
        share_metric("exchange_accuracy", "share of texts that take the choice of the text a direction comes from"),
        sum_metric("exchange_effect", "share of the other text's effect that a direction carries"),
        sum_metric("log_odds_ratio_nats", "fall of ln p(own word) ÷ p(the other text's word) by the exchange"),
        sum_metric("selectivity_nats", "log odds-ratio minus that of a control task with arbitrary words"),
        share_metric("search_converged", "share of the searches of DAS that ended before their last round"),
    )

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Pairs of texts, those of ``patching``."""
        return Patching(of=self.of).items(source, columns=columns)

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Effects of each layer, by pair."""
        items, layers = model.items, model.layers
        reasons, methods, pairs = list[str](), self.methods, list(items.some(self.most_pairs).items)
        if self.of == "facts":
            pairs, reasons = causal.patching.known_pairs(model.encoder, items.items, most=self.most_pairs)
            if not pairs:  # as of random weights
                yield GeometryCounts(0, skipped=Counter(map(pair_reason, reasons)))
                yield cluster_sums("exchange_accuracy", layers, np.zeros((len(layers), 1)), np.zeros((1, 1)), [""])
                return
        found = causal.exchange_directions(model.encoder, pairs, layers=layers, methods=methods, dims=self.dims)  # type: ignore[arg-type]
        reasons += [reason for _, reason in found.excluded]
        yield GeometryCounts(len(found.base) // 2, skipped=Counter(map(pair_reason, reasons)))
        if "das" in methods:
            ended = found.converged.mean(axis=(0, 2))[:, None]
            yield cluster_sums("search_converged", found.layers, ended, np.ones_like(ended), [""])
        for metric, parts in found.sums().items():
            for method, place in np.ndindex(len(methods), len(found.places)):
                over, under = (part[method, :, place] for part in parts)
                is_main = method == 0 and found.places[place] == "subject"
                for group in [""] * is_main + [f"{found.places[place]}: {methods[method]}"]:
                    yield cluster_sums(metric, found.layers, over, under, found.clusters, group)


PROBE = ProbeFamily.among([ExchangedDirections(), ExchangedDirections("facts", dims=16)], argument="source of pairs")
