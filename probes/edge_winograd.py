"""Winograd schemas: does a pronoun mean this candidate, where only the sense of the sentence tells?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1, on the definite pronouns of Rahman & Ng (2012),
*Resolving Complex Cases of Definite Pronouns*. Each candidate is an item with its pronoun, ``1`` if it is the one
meant. Half of the items are ``1``: the main metric is accuracy over all items, which stays at 50 % where nothing is
known.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, target_examples


@dataclass(frozen=True)
class EdgeWinograd(RepresentationProbe):
    """Does a hard pronoun mean this candidate?"""

    task = "edge_winograd"
    version = 1
    question = "Does a pronoun mean this candidate, where only sense can tell?"
    reference = "Tenney et al. 2019a, §2.1; Rahman & Ng 2012"
    readout = "edge.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every candidate and its pronoun with ``1`` or ``0``."""
        return target_examples(sentences, "winograd", spans=2)


PROBE = EdgeWinograd()
