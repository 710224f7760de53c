"""The structural probe: do squared distances between mapped vectors recover distances in the parse tree?

After Hewitt & Manning (2019), *A Structural Probe for Finding Syntax in Word Representations*, §2.2: one linear map a
layer, fitted so that the squared distance of any two words of a sentence is the number of edges between them in its
tree. An item is a sentence. UUAS is the share of gold edges that the minimum spanning tree of the predicted distances
has (punctuation left out), DSpr how distances rank by word, averaged over sentences of 5 to 50 words (§4.2).

What to compare with: the chain of neighbouring words, layer 0 (word vectors without context), the same encoder with
random weights, and its pretrained embeddings under random blocks (Proj0).
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import RepresentationProbe, TreeExamples, tree_examples


@dataclass(frozen=True)
class StructuralDistance(RepresentationProbe):
    """Are squared distances between mapped vectors distances in the parse tree?"""

    task = "structural_distance"
    version = 1
    subject = "syntax"
    question = "Are squared distances between mapped vectors distances in the parse tree?"
    reference = "Hewitt & Manning 2019, §2.2"
    readout = "structural.v1"
    metrics = ("uuas", "dspr")

    def examples(self, sentences: Sentences) -> TreeExamples:
        """Every sentence with the distances of its tree."""
        return tree_examples(sentences, "distances")


PROBE = StructuralDistance()
