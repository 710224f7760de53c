"""Structural probes: do squared distances and lengths of mapped vectors recover the parse tree?

After Hewitt & Manning (2019), *A Structural Probe for Finding Syntax in Word Representations*: one linear map a layer.
An item is a sentence.

- ``structural_distance`` (§2.2): the squared distance of any two words of a sentence is the number of edges between
  them. UUAS is the share of gold edges that the minimum spanning tree of the predicted distances has (punctuation left
  out), DSpr how distances rank by word, averaged over sentences of 5 to 50 words (§4.2).
- ``structural_depth`` (§2.3): the squared length of a word's vector is the number of edges between it and the root.
  Root accuracy is the share of sentences whose root is least deep, NSpr how depths rank in a sentence.
- ``structural_parse``: the spanning tree of distances, hung up at the least deep word. The relation of a word to its
  head is read off the word's own vector by logistic regression, as ``deprel`` does, the root's being ``root``. UAS and
  LAS are scored without punctuation, and without what languages add to a relation after a colon. This is no parser to
  use but a measure of how much of a parse is linear in a layer.

What to compare with: the chain of neighbouring words, layer 0 (word vectors without context), the same encoder with
random weights, and its pretrained embeddings under random blocks (Proj0).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from bertology.corpora import Sentences
from bertology.probing import RepresentationProbe, tree_examples
from bertology.probing.items import TreeExamples


@dataclass(frozen=True)
class _Structural(RepresentationProbe):
    readout = "structural.v1"
    subject = "syntax"
    _asks: ClassVar[Literal["distances", "depths", "arcs"]]

    def examples(self, sentences: Sentences) -> TreeExamples:
        """Every sentence with its tree."""
        return tree_examples(sentences, self._asks)


class StructuralDistance(_Structural):
    """Are squared distances between mapped vectors distances in the parse tree?"""

    task, _asks = "structural_distance", "distances"
    question = "Are squared distances between mapped vectors distances in the parse tree?"
    about = "Every sentence with the distances of its tree."
    reference = "Hewitt & Manning 2019, §2.2"
    metrics = ("uuas", "dspr")


class StructuralDepth(_Structural):
    """Are squared lengths of mapped vectors depths in the parse tree?"""

    task, _asks = "structural_depth", "depths"
    question = "Are squared lengths of mapped vectors depths in the parse tree?"
    about = "Every sentence with the depths of its words."
    reference = "Hewitt & Manning 2019, §2.3"
    metrics = ("root_accuracy", "nspr")


class StructuralParse(_Structural):
    """Which head and relation does each word have, by linear readouts alone?"""

    task, _asks = "structural_parse", "arcs"
    question = "Which head and relation does each word have, by linear readouts alone?"
    about = "Every sentence with the heads and relations of its words."
    reference = "Hewitt & Manning 2019, §2"
    metrics = ("uas", "las")


DISTANCE, DEPTH, PARSE = StructuralDistance(), StructuralDepth(), StructuralParse()
