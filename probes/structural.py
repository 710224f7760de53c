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

from functools import partial

from bertology.probing.probes import AnnotationProbe

_structural = partial(AnnotationProbe, readout="structural.v1", subject="syntax")
DISTANCE = _structural(
    task="structural_distance",
    tree="distances",
    question="Are squared distances between mapped vectors distances in the parse tree?",
    about="Every sentence with the distances of its tree.",
    reference="Hewitt & Manning 2019, §2.2",
    metrics=("uuas", "dspr"),
)
DEPTH = _structural(
    task="structural_depth",
    tree="depths",
    question="Are squared lengths of mapped vectors depths in the parse tree?",
    about="Every sentence with the depths of its words.",
    reference="Hewitt & Manning 2019, §2.3",
    metrics=("root_accuracy", "nspr"),
)
PARSE = _structural(
    task="structural_parse",
    tree="arcs",
    question="Which head and relation does each word have, by linear readouts alone?",
    about="Every sentence with the heads and relations of its words.",
    reference="Hewitt & Manning 2019, §2",
    metrics=("uas", "las"),
)
