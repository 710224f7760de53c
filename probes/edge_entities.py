"""Entities: given a name, of what kind is it?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: the readout sees the span of a name and says
whether it is that of a person, a place, an organisation … Where names begin and end is given; ``ner`` asks for that as
well.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, target_examples


@dataclass(frozen=True)
class EdgeEntities(RepresentationProbe):
    """Of what kind is the thing that a name names?"""

    task = "edge_entities"
    version = 1
    question = "Of what kind is the thing that a name names?"
    reference = "Tenney et al. 2019a, §2.1"
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every name with its kind."""
        return target_examples(sentences, "entities", spans=1)


PROBE = EdgeEntities()
