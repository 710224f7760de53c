"""Coreference: do two mentions in a sentence mean the same?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: all pairs of mentions of a sentence, ``1`` if
they corefer and ``0`` if not. Most do not, so the main metric is F1 of ``1`` alone, as the paper scores it.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.measures.metrics import micro_f1
from bertology.probing import Examples, RepresentationProbe, target_examples


@dataclass(frozen=True)
class EdgeCoreference(RepresentationProbe):
    """Do two mentions mean the same?"""

    task = "edge_coreference"
    version = 1
    question = "Do two mentions in a sentence mean the same?"
    reference = "Tenney et al. 2019a, §2.1"
    readout = "edge.v1"
    metrics = (micro_f1(without=("0",)), "accuracy")

    def examples(self, sentences: Sentences) -> Examples:
        """Every pair of mentions with ``1`` or ``0``."""
        return target_examples(sentences, "coref", spans=2)


PROBE = EdgeCoreference()
