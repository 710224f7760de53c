"""Semantic proto-roles: what holds of an argument in what its predicate tells?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1, and Reisinger et al. (2015), *Semantic
Proto-Roles*: of a predicate and an argument each property (awareness, volition, change of state …) holds or not, so
that an item may have any number of labels, or none. The score counts each yes that is right.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, target_examples


@dataclass(frozen=True)
class EdgeProtoRoles(RepresentationProbe):
    """Which proto-role properties hold of an argument?"""

    task = "edge_proto_roles"
    version = 1
    question = "Which properties (volition, awareness …) hold of an argument of a predicate?"
    reference = "Tenney et al. 2019a, §2.1; Reisinger et al. 2015"
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every predicate and argument with all properties that hold."""
        return target_examples(sentences, "proto_roles", spans=2)


PROBE = EdgeProtoRoles()
