"""The structural probe of depth: do squared lengths of mapped vectors recover depths in the parse tree?

After Hewitt & Manning (2019), *A Structural Probe for Finding Syntax in Word Representations*, §2.3: one linear map a
layer, fitted so that the squared length of a word's vector is the number of edges between it and the root. An item is a
sentence. Root accuracy is the share of sentences whose root is least deep (punctuation left out), NSpr how depths rank
in a sentence, averaged over sentences of 5 to 50 words (§4.2).
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import RepresentationProbe, TreeExamples, tree_examples


@dataclass(frozen=True)
class StructuralDepth(RepresentationProbe):
    """Are squared lengths of mapped vectors depths in the parse tree?"""

    task = "structural_depth"
    version = 1
    subject = "syntax"
    question = "Are squared lengths of mapped vectors depths in the parse tree?"
    reference = "Hewitt & Manning 2019, §2.3"
    readout = "structural.v1"
    metrics = ("root_accuracy", "nspr")

    def examples(self, sentences: Sentences) -> TreeExamples:
        """Every sentence with the depths of its words."""
        return tree_examples(sentences, "depths")


PROBE = StructuralDepth()
