"""Statistics of heads: what does each look at, how sharply, and how far away?

Clark et al. (2019), *What Does BERT Look At?*, §3: mean attention to special tokens, punctuation, the word itself, its
neighbours and words of the same form, and entropy; Voita et al. (2019), §4 and §5.1: confidence, the mean of the
largest weight, and at which offset it lies; Vig & Belinkov (2019), §4.3: mean distance. With the setting
``with_norms`` also what heads add to words, by ‖αf(x)‖ (Kobayashi et al. 2020), of models built as BERT is: a large
weight on a vector that is mapped to nearly nothing has no effect. With ``with_effective`` effective attention (Brunner
et al. 2020, *On Identifiability in Transformers*, §3.2): a map without the part that cancels out in what its head adds.

Nothing is gold here, so there is no best head and no baseline but a model with random weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bertology import attention
from bertology.attention import AttentionProbe
from bertology.corpora import Sentences
from bertology.measures import share_metric, sum_metric


@dataclass(frozen=True)
class Statistics(AttentionProbe):
    """What does each head look at, how sharply, and how far away?"""

    with_norms: bool = False
    """Also shares of ‖αf(x)‖."""
    with_effective: bool = False
    """Also effective attention."""
    task = "head_statistics"
    reference = "Clark et al. 2019, §3"
    metrics = (
        share_metric("attention_mass", "mean attention to a kind of unit, such as [SEP], over words that have one"),
        share_metric("argmax_share", "share of words whose most attended word is at an offset, such as one ahead"),
        share_metric("confidence", "largest attention weight on a single word, mean over attending words"),
        sum_metric("entropy_nats", "mean entropy of a word's attention, in nats", higher_is_better=False),
        sum_metric("cls_entropy_nats", "mean entropy of the first token's attention, in nats", higher_is_better=False),
        sum_metric("distance", "mean distance in words from attending to attended word, weighted by attention"),
        share_metric("norm_share", "share of what the head adds to words, ‖αf(x)‖, from one kind of unit"),
        sum_metric("effective_mass", "mean effective attention to a kind of unit, over words that have one"),
        share_metric("effective_share", "squared weights of effective attention over those of attention"),
    )

    @property
    def norms(self) -> bool:
        """Whether values are read, for ‖αf(x)‖ or effective attention."""
        return self.with_norms or self.with_effective

    def statistics(self, sentences: Sentences) -> "Sequence[attention.maps.MakeStatistic]":
        """All statistics that are made in one pass."""
        return attention.measured.head_measures(norms=self.with_norms, effective=self.with_effective)


PROBE = Statistics()
