"""Causal tracing: where in a model does a fact come from, layer by layer and place by place?

After Meng et al. (2022), *Locating and Editing Factual Associations in GPT*, put to encoders. The embeddings of the
subject of a fact are noised until its object is lost; then one state of the pass without noise is put back, and what
comes back of the object's probability, as a share of what noise took away, is the effect. Asked are facts that the
model knows: their object is its first word (``known``: the share of those it was asked). The main number is the effect
of hidden states of the subject; groups are places.
``attention_effect`` and ``feed_forward_effect`` put back what the attention, or the feed-forward part, of a few blocks
adds to states.

Two warnings. Where a fact is traced to does not tell where it can be edited (Hase et al. 2023). And noise is unlike any
text: ``patching:facts`` exchanges subjects instead (Zhang & Nanda 2024).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology import causal
from bertology.causal import CausalItems, CausalProbe
from bertology.causal.probes import cluster_sums, effect_sums
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, RunningModel

_SUBJECT = "subject"


@dataclass(frozen=True)
class Tracing(CausalProbe):
    """Which states bring a fact back when its subject is noise?"""

    most_facts: int = 300
    """Largest number of facts that the model knows."""
    draws: int = 10
    """Draws of the noise, whose mean is taken."""
    deviations: float = 3.0
    """Standard deviation of the noise, in those of the components of embeddings of subjects."""
    window: int = 1
    """Number of neighbouring blocks whose attention or feed-forward part is put back at once: in the paper 10 of 48."""
    task = "tracing"
    about = "At most so many facts; which ones the model knows is seen when it reads them."
    reference = "Meng et al. 2022"
    metrics = (
        sum_metric("effect", "share of the lost probability that the subject's hidden states restore"),
        sum_metric("attention_effect", "share of the lost probability that the subject's attention outputs restore"),
        sum_metric("feed_forward_effect", "share that the subject's feed-forward outputs restore"),
        share_metric("known", "share of facts whose object is the model's first prediction"),
        sum_metric("probability_plain", "probability of the fact's object"),
        sum_metric("probability_noised", "probability of the fact's object, subject noised", higher_is_better=False),
    )

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Facts; of the pocket world those that its training text states."""
        return CausalItems(tuple(causal.items.read_facts(source, columns=columns)))

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Effects of each layer, by subject; of the parts of a block from layer 1 on."""
        layers = model.layers
        known = causal.patching.known_facts(model.encoder, model.items.items, most=self.most_facts)
        skipped = {"not known, or in pieces of other words": known.n_asked - len(known.facts)}
        yield GeometryCounts(len(known.facts), skipped=skipped)
        share = np.zeros((len(layers), known.n_asked))
        share[:, : known.n_known] = 1
        yield LayerSums("known", tuple(layers), share, np.ones((1, known.n_asked)), "frames")
        if not known.facts:
            yield LayerSums("effect", tuple(layers), np.zeros((len(layers), 1)), np.zeros((1, 1)), "frames")
            return
        sites = {"hidden_state": "", "attention_output": "attention_", "feed_forward_output": "feed_forward_"}
        for site, prefix in sites.items():
            of_site = [layer for layer in layers if layer or not prefix]
            if not of_site:
                continue
            how: dict[str, Any] = {"site": site, "n_draws": self.draws, "n_deviations": self.deviations}
            found = causal.patching.trace(model.encoder, known, layers=of_site, window=self.window, **how)
            yield from effect_sums(f"{prefix}effect", found, _SUBJECT)
            if not prefix:
                for name, values in {"plain": found.base + found.whole, "noised": found.base}.items():
                    each = np.repeat(values[None], len(of_site), axis=0)
                    yield cluster_sums(f"probability_{name}", of_site, each, None, found.clusters)


PROBE = Tracing()
