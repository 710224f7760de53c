"""Constituents: given a phrase, which category does it have?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: the readout sees the span of a phrase and names
its category (``NP``, ``VP``, ``SBAR`` …), without grammatical functions. Which spans are phrases is given.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, target_examples


@dataclass(frozen=True)
class EdgeConstituents(RepresentationProbe):
    """Which category does a phrase have?"""

    task = "edge_constituents"
    version = 1
    subject = "syntax"
    question = "Which category does each phrase have?"
    reference = "Tenney et al. 2019a, §2.1"
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every phrase with its category."""
        return target_examples(sentences, "constituents", spans=1)


PROBE = EdgeConstituents()
