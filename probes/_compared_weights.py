"""Weights of a model and of its reference: how far has each layer moved, and which part of it?

‖B − A‖ / ‖A‖ and the cosine of the weights of a layer as of one long vector, by group of its queries, keys, values,
attention outputs, feed-forward layers and norms (cf. Radiya-Dixit & Wang 2020, *How fine can fine-tuning be?*). Layer 0
is the embeddings; the score of the whole model is that of all layers, without heads. No text is read, and nothing is
sampled, so that there are no intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bertology import comparison
from bertology.corpora import Sentences
from bertology.geometry import LayerSums
from bertology.measures import sum_metric
from bertology.probing import EncoderComparison, LayerPair

if TYPE_CHECKING:
    from bertology.activations import Progress
    from bertology.encoders import Encoder


@dataclass(frozen=True)
class ComparedWeights(EncoderComparison):
    """How far have the weights moved?"""

    task = "comparison:weights"
    version = 1
    question = "How far are a model's weights from those of its reference, layer by layer?"
    reference = "cf. Radiya-Dixit & Wang 2020"
    metrics = (
        sum_metric("relative_l2", "length of the difference over that of the reference", higher_is_better=False),
        sum_metric("cosine", "cosine with the weights of the reference"),
        sum_metric("changed", "share of the weights that differ", higher_is_better=False),
    )
    columns: Literal["both"] = "both"
    reads = ()

    def check(self, sentences: Mapping[str, Sentences]) -> None:
        """There is nothing to read."""

    def measure(
        self,
        model: Encoder,
        reference: Encoder,
        sentences: Mapping[str, Sentences],
        *,
        layers: Sequence[LayerPair],
        on_long: str,
        progress: Progress,
    ) -> Iterator[LayerSums]:
        """Of tensors of the same name in the layers that are compared."""
        found = comparison.weight_changes(
            reference, model, layers=layers if model.n_layers != reference.n_layers else None
        )
        asked = {layer for layer, _ in layers}
        by_layer, by_kind = found.table("layer"), found.table("layer and kind")
        for metric in (one.name for one in self.metrics):
            for group, frame in [("", by_layer), *((str(kind), part) for kind, part in by_kind.groupby("kind"))]:
                chosen = frame[frame["layer"].isin(asked) & np.isfinite(frame[metric])]
                if len(chosen):
                    numbers = tuple(int(layer) for layer in chosen["layer"])
                    yield _certain(metric, numbers, chosen[metric].to_numpy(), group)
            whole = found.encoder_change
            yield _certain(metric, (None,), np.array([getattr(whole, metric)]), "")


def _certain(metric: str, layers: tuple[int | None, ...], values: NDArray[np.float64], group: str) -> LayerSums:
    return LayerSums(metric, layers, values[:, None], np.ones((1, 1)), "blocks", group)
