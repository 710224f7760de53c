"""Lenses: what would the model predict if it stopped at a layer?

The logit lens gives hidden states of lower layers to the masked-LM head as they are; what they say is then read by a
head that never learned to read them. The tuned lens translates them first, by an affine map fitted to masked
subwords of train (Belrose et al. 2023, *Eliciting Latent Predictions from Transformers with the Tuned Lens*).

Measured on the subwords of masked words of test, each of which is an item: the divergence from what the model predicts
in the end (the main number; less is nearer), bits of the subword itself, the share of subwords of which the first guess
is already that of the last layer, and the share whose guess stays from this layer on (``settled``: prediction depth,
cumulated).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology import cloze
from bertology.causal import CausalItems, CausalProbe
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import LayerSums, mean_sums
from bertology.probing import GeometryCounts, RunningModel, Splits
from bertology.probing.items import sampled_splits

_NAMES = {"tuned": "with the tuned lens", "logit": "with the logit lens"}


def _metrics(lens: str) -> Iterator[Metric]:
    how = _NAMES[lens]
    yield sum_metric(f"{lens}_divergence_bits", f"KL divergence from final prediction, {how}", higher_is_better=False)
    yield share_metric(f"{lens}_agreement", f"share of masked subwords whose top prediction is the final one, {how}")
    yield share_metric(f"{lens}_settled", f"share of masked subwords whose top prediction no longer changes, {how}")
    yield sum_metric(f"{lens}_bits", f"mean cross-entropy of a masked subword, {how}", higher_is_better=False)


@dataclass(frozen=True)
class Lens(CausalProbe):
    """What would the model predict if it stopped at a layer?"""

    steps: int = 400
    """Steps of the fit of the tuned lens."""
    most_words: int = 20_000
    """Words of train at most, in random sentences, of which some are masked; of test half as many."""
    task = "lens"
    subject = "vectors"
    reference = "Belrose et al. 2023b; nostalgebraist 2020"
    reads = ("train", "test")
    metrics = (*_metrics("tuned"), *_metrics("logit"))

    def counts(self, sentences: Splits, items: CausalItems | None) -> GeometryCounts:
        """Words of the samples, until subwords are masked."""
        texts = sampled_splits(sentences, self.most_words)
        return GeometryCounts(texts["test"].n_words, texts["train"].n_words)

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Divergences of each layer, by sentence; items are the subwords of masked words."""
        texts = sampled_splits(model.sentences, self.most_words)
        train, test = texts["train"], texts["test"]
        lens = cloze.fit_lens(model.encoder, train, steps=self.steps, on_long=model.on_long)
        for name, read_by in (("tuned", lens), ("logit", None)):
            found = cloze.lens.lens_measures(model.encoder, test, read_by, seed=1, on_long=model.on_long)
            settled = found.depth[None] <= np.arange(len(found.bits))[:, None]
            if name == "tuned":
                yield GeometryCounts(len(found.sentence), train.n_words, unit="subwords")
            about: Any = {"n_clusters": len(test), "layers": tuple(model.layers)}
            values: dict[str, Any] = {"divergence_bits": found.divergence, "agreement": found.agrees}
            for metric, of_places in {**values, "settled": settled, "bits": found.bits}.items():
                yield mean_sums(f"{name}_{metric}", of_places[list(model.layers)], found.sentence, **about)


PROBE = Lens()
