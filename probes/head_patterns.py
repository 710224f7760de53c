"""Patterns of attention: what does the map of a head look like, and how often?

After Kovaleva et al. (2019), *Revealing the Dark Secrets of BERT*, §4.1: a map between pieces is vertical (attention to
few columns, mostly `[CLS]`, `[SEP]` or punctuation), diagonal (to the previous, the next or the same piece), vertical +
diagonal, block (within each sentence of a pair) or heterogeneous (no such structure). Their maps and network are not
public; these classes are told by classifiers that were trained on synthetic maps and held against real ones, labelled
by a written rule. The model card, `benchmarks/head_patterns/README.md`, says how far they can be trusted.

A score is the share of a head's maps that are of one class; a map of which no class is likely enough is heterogeneous.
As in the paper, texts are pairs of sentences: the first of a split with the second, the third with the fourth, and so
on. Of sentences that are read one by one no map is block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bertology import attention
from bertology.attention import AttentionProbe
from bertology.corpora import Sentences
from bertology.measures import share_metric


@dataclass(frozen=True)
class HeadPatterns(AttentionProbe):
    """What does each head's map look like: vertical, diagonal, both, block, or none of these?"""

    classifier: Literal["features", "cnn"] = "features"
    """``features``, or ``cnn``, which takes several times as long as the model itself."""
    confidence: float = 0.5
    """The least probability at which a map is put into a class other than ``heterogeneous``."""
    texts: Literal["pairs", "sentences"] = "pairs"
    """``pairs`` of neighbours with the model's separator between, two too long for it one by one; or ``sentences``."""
    task = "head_patterns"
    reference = "Kovaleva et al. 2019, §4.1"
    metrics = (share_metric("pattern_share", "share of the head's maps that have a pattern, such as vertical"),)
    level = "piece"

    @property
    def pairs(self) -> bool:
        """Whether neighbouring sentences are read as pairs."""
        return self.texts == "pairs"

    def statistics(self, sentences: Sentences) -> "Sequence[attention.maps.MakeStatistic]":
        """The share of every class."""
        return (partial(attention.PatternShares, classifier=self.classifier, confidence=self.confidence),)


PROBE = HeadPatterns()
