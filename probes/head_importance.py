"""Importance of attention heads: what does the model lose without each of them?

After Michel et al. (2019), *Are Sixteen Heads Really Better than One?*, asked of the model's own task: some words of
every sentence are masked, always the same ones, and the loss is that of restoring them.

- ``importance`` (their equation 2): the expected magnitude of the loss's gradient at a gate on the head, divided by the
  ℓ2 norm of its layer; ``gradient_bits`` is that magnitude undivided.
- ``delta_loss_bits`` and ``delta_accuracy`` (their §3.2): what changes when the head is off, or attends to every piece
  alike (Kovaleva et al. 2019, §4.4); and of whole layers, when all heads are off or all but the most important one
  (their §3.3; it is named by the same sentences, which flatters it a little).
- ``loss_bits`` and ``accuracy`` of the model as more and more heads are off (their §4.2): the least important first,
  the most important first, or at random, and their differences from the whole model. Half of the sentences rank the
  heads for the other half.
- ``attention_gradient_bits`` (Clark et al. 2019, §3.3): how much the loss would change with the attention to
  ``[SEP]``, to other special tokens, to punctuation and to everything else; ``attention_effect_bits``: with a gate on
  the attention that there is to them.

``head_importance:one_head`` leaves each layer one head alone, in turn (their §3.3): ``delta_accuracy`` and
``delta_loss_bits`` of every head on dev, and on test those of the layer with the head whose loss on dev is the lowest.

A head that is not missed alone may be missed together with another that does the same, which is what the curves are
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from bertology.attention import GateProbe
from bertology.corpora import Sentences
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import HeadRatios
from bertology.probing import ProbeFamily

if TYPE_CHECKING:
    from bertology.activations.progress import Progress
    from bertology.encoders import Encoder
    from bertology.encoders.alignment import OnLong


@dataclass(frozen=True)
class HeadImportance(GateProbe):
    """What does the model lose, in restoring masked words, without each of its heads?"""

    task = "head_importance"
    reference = "Michel et al. 2019"
    metrics = (
        sum_metric("importance", "mean |gradient| of the loss by the head's gate, divided by its layer's ℓ2 norm"),
        sum_metric("gradient_bits", "mean |gradient| of the loss by a gate of 1 on the head"),
        sum_metric("delta_loss_bits", "loss of a masked word without the head, minus that with it"),
        sum_metric(
            "delta_accuracy", "share of masked words predicted, without minus with the head", higher_is_better=False
        ),
        sum_metric("loss_bits", "cross-entropy of a masked word with some heads off", higher_is_better=False),
        share_metric("accuracy", "share of masked words predicted with some heads off"),
        sum_metric("attention_gradient_bits", "mean |gradient| of the loss by an attention weight"),
        sum_metric("attention_effect_bits", "mean |gradient| of the loss by a gate on attention to a kind of subword"),
    )
    share: float = 0.15
    """Share of the words of a sentence that are masked."""
    seed: int = 0
    """Seed of the choice of words."""
    ways: tuple[Literal["off", "uniform"], ...] = ("off", "uniform")
    """How single heads are disabled; ``uniform`` in families whose values are projected apart, as BERT's are."""
    order_seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the random orders in which heads are taken out."""

    def measure(
        self, encoder: Encoder, sentences: Sentences, *, layers: Sequence[int], on_long: str, progress: Progress
    ) -> tuple[HeadRatios, ...]:
        """Gradients and curves of all heads, and what the model loses without those of ``layers``.

        Raises:
            ModelError: the model restores no masked words, or its heads cannot be gated.
        """
        # What computes needs torch, which listing the tasks should not wait for.
        from bertology.attention import importance

        task = importance.MaskedWords(
            encoder, sentences, share=self.share, seed=self.seed, on_long=cast("OnLong", on_long)
        )
        found = importance.head_importance(task, progress=progress)
        return (
            found,
            *importance.without_heads(
                task, found, ways=self.ways, layers=layers, seeds=self.order_seeds, progress=progress
            ),
            *importance.attention_gradients(task, progress=progress),
        )


@dataclass(frozen=True)
class OneHead(GateProbe):
    """What does the model lose, in restoring masked words, when one layer keeps its best head alone?"""

    reads = ("dev", "test")
    task = "head_importance:one_head"
    reference = "Michel et al. 2019, §3.3"
    metrics = (
        sum_metric("delta_accuracy", "share of masked words predicted with one head in the layer, minus with all"),
        sum_metric(
            "delta_loss_bits",
            "loss of a masked word with one head in the layer, minus with all",
            higher_is_better=False,
        ),
    )
    share: float = 0.15
    """Share of the words of a sentence that are masked."""
    seed: int = 0
    """Seed of the choice of words."""

    def measure(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        layers: Sequence[int],
        on_long: str,
        progress: Progress,
        dev: Sentences | None = None,
    ) -> Mapping[str, Sequence[HeadRatios]]:
        """The head of each of ``layers`` that is kept is chosen on ``dev``; on the sentences themselves without it."""
        from bertology.attention import importance

        how: dict[str, Any] = {"share": self.share, "seed": self.seed, "on_long": on_long}
        texts = (sentences if dev is None else dev, sentences)
        tasks = [importance.MaskedWords(encoder, text, **how) for text in texts]
        of_heads, of_layers = importance.one_head_layers(*tasks, layers=layers, progress=progress)
        return {"dev": of_heads, "test": of_layers}


PROBE = ProbeFamily.among([OneHead()], argument="question about heads", default=HeadImportance())
