"""Relations: how are two things that a sentence names related in the world?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1, on SemEval-2010 Task 8 (Hendrickx et al. 2010):
nine directed relations (``Cause-Effect(e1,e2)`` …) and ``Other``. The main metric is the task's official one: F1 of
each relation, both directions together but right only with the right one, ``Other`` left out, and the mean over
relations.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.measures.metrics import grouped_macro_f1, micro_f1
from bertology.probing import Examples, RepresentationProbe, target_examples

_UNRELATED = ("Other", "none")


def _relation(label: str) -> str | None:
    """The relation without its direction; None where there is none."""
    return None if label in _UNRELATED else label.partition("(")[0]


@dataclass(frozen=True)
class EdgeRelations(RepresentationProbe):
    """How are two named things related?"""

    task = "edge_relations"
    version = 1
    question = "How are two things that a sentence names related?"
    reference = "Tenney et al. 2019a, §2.1; Hendrickx et al. 2010"
    readout = "edge.v1"
    metrics = (
        grouped_macro_f1(
            "macro_f1", "mean F1 over relations, both directions of one together, Other left out", group=_relation
        ),
        micro_f1(without=_UNRELATED),
    )

    def examples(self, sentences: Sentences) -> Examples:
        """Every pair of nominals with its relation."""
        return target_examples(sentences, "relations", spans=2)


PROBE = EdgeRelations()
