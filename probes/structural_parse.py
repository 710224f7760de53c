"""A parse from three linear readouts: distance makes the tree, depth its root, and each arc gets its relation.

After Hewitt & Manning (2019), *A Structural Probe for Finding Syntax in Word Representations*: the minimum spanning
tree of the predicted distances (§2.2), hung up at the least deep word (§2.3). The relation of a word to its head is
read off the word's own vector by logistic regression, as ``deprel`` does, the root's being ``root``. UAS and LAS are
scored without punctuation, and without what languages add to a relation after a colon. This is no parser to use but a
measure of how much of a parse is linear in a layer.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import RepresentationProbe, TreeExamples, tree_examples


@dataclass(frozen=True)
class StructuralParse(RepresentationProbe):
    """Which head and relation does each word have, by linear readouts alone?"""

    task = "structural_parse"
    version = 1
    subject = "syntax"
    question = "Which head and relation does each word have, by linear readouts alone?"
    reference = "Hewitt & Manning 2019, §2"
    readout = "structural.v1"
    metrics = ("uas", "las")

    def examples(self, sentences: Sentences) -> TreeExamples:
        """Every sentence with the heads and relations of its words."""
        return tree_examples(sentences, "arcs")


PROBE = StructuralParse()
