"""Statistics of heads: what does each look at, how sharply, and how far away?

Clark et al. (2019), *What Does BERT Look At?*, §3: mean attention to special tokens, punctuation, the word itself, its
neighbours and words of the same form, and entropy; Voita et al. (2019), §4 and §5.1: confidence, the mean of the
largest weight, and at which offset it lies; Vig & Belinkov (2019), §4.3: mean distance. With the setting
``with_norms`` also what heads add to words, by ‖αf(x)‖ (Kobayashi et al. 2020), of models built as BERT is: a large
weight on a vector that is mapped to nearly nothing has no effect.

Nothing is gold here, so there is no best head and no baseline but a model with random weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertology.attention import AttentionProbe
from bertology.corpora import Sentences
from bertology.measures import share_metric, sum_metric

if TYPE_CHECKING:
    from bertology.attention.maps import MakeStatistic


@dataclass(frozen=True)
class Statistics(AttentionProbe):
    """What does each head look at?"""

    with_norms: bool = False
    """Also shares of ‖αf(x)‖."""
    task = "head_statistics"
    question = "What does each head look at, how sharply, and how far away?"
    reference = "Clark et al. 2019, §3"
    metrics = (
        share_metric("attention_mass", "mean attention of words to a kind of unit, over words that have such a unit"),
        share_metric("argmax_share", "share of words whose most attended word stands at an offset, in words"),
        share_metric("confidence", "mean over words of the largest weight to a word"),
        sum_metric("entropy_nats", "mean entropy of the attention of words, in nats", higher_is_better=False),
        sum_metric("cls_entropy_nats", "mean entropy of attention of the first token, in nats", higher_is_better=False),
        sum_metric("distance", "mean distance of attention between words, in words, weighted by attention"),
        share_metric("norm_share", "share of ‖αf(x)‖ of words that comes from a kind of unit"),
    )

    @property
    def norms(self) -> bool:
        """Whether norms were asked for."""
        return self.with_norms

    def statistics(self, sentences: Sentences) -> Sequence[MakeStatistic]:
        """All statistics that are made in one pass."""
        from bertology.attention.measured import head_measures

        return head_measures(norms=self.with_norms)


PROBE = Statistics()
