"""Layers of a fine-tuned model put back as they were in its reference: which ones does its task depend on?

After Hao et al. (2019), *Visualizing and Understanding the Effectiveness of BERT*, §5.1, and Merchant et al. (2020):
the accuracy on the task that the model was fine-tuned for (by ``bertology finetune``, to predict labels), with a layer
of the reference in place of its own, with all up to it, and with all from it on, less the accuracy of the model as it
is. Its head stays. The corpus has to have the labels of that task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertology import comparison
from bertology.corpora import Corpus, Sentences
from bertology.errors import ModelError
from bertology.geometry import LayerSums
from bertology.measures import share_metric, sum_metric
from bertology.probing import EncoderComparison, LayerPair

if TYPE_CHECKING:
    from bertology.activations import Progress
    from bertology.encoders import Encoder

_ORDERS = {"each": "restored_alone", "up_to": "restored_up_to", "from": "restored_from"}


@dataclass(frozen=True)
class RestoredLayers(EncoderComparison):
    """What does the task lose with a layer put back?"""

    task = "comparison:restoring"
    version = 1
    question = "What does a fine-tuned task lose with layers as they were before?"
    reference = "Hao et al. 2019"
    metrics = (
        sum_metric("restored_alone", "accuracy with the layer put back, less that of the model"),
        sum_metric("restored_up_to", "with all layers up to it put back, less that of the model"),
        sum_metric("restored_from", "with all layers from it on put back, less that of the model"),
        share_metric("accuracy", "accuracy of the model"),
        share_metric("accuracy_reference", "accuracy of the reference under the head of the model"),
    )
    columns: Literal["both"] = "both"
    reads = ("test",)

    def check(self, sentences: Mapping[str, Sentences]) -> None:
        """The labels are known when the model is open."""

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
        """Of every layer, and the accuracies of both models."""
        corpus = Corpus("test", {"test": sentences["test"]})
        found = comparison.restored_scores(reference, model, corpus, split="test")
        if "accuracy" not in found.metrics:
            raise ModelError(f"model {model.name} was fine-tuned for {found.task}: restoring is scored by labels alone")
        frames = found.predictions
        clusters = frames[()]["cluster_id"].to_numpy()
        n_clusters = len(sentences["test"])
        right = {
            restored: _counted(clusters[(frame["gold"] == frame["pred"]).to_numpy()], n_clusters)
            for restored, frame in frames.items()
        }
        under = _counted(clusters, n_clusters)[None]
        numbers = tuple(layer for layer, _ in layers)
        for order in get_args(comparison.Order):
            changed = [right[found.restored(order, layer)] - right[()] for layer in numbers]
            yield LayerSums(_ORDERS[order], numbers, np.stack(changed), under, "sentences")
        yield LayerSums("accuracy", (None,), right[()][None], under, "sentences")
        whole = right[found.restored("from", 0)]
        yield LayerSums("accuracy_reference", (None,), whole[None], under, "sentences")


def _counted(clusters: NDArray[np.int64], n_clusters: int) -> NDArray[np.float64]:
    return np.bincount(clusters, minlength=n_clusters).astype(np.float64)
