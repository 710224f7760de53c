"""Shallow phrases (chunks): does a word begin, continue or stand outside a noun, verb, prepositional … chunk?

Word-level labels in IOB2 read off by a linear readout, after Liu et al. (2019), §4 (chunking on CoNLL 2000; Tjong Kim
Sang & Buchholz 2000). The main metric is micro F1 over the labels other than ``O``; it scores words, not whole chunks.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, layer_examples


@dataclass(frozen=True)
class Chunks(RepresentationProbe):
    """Which part of which kind of chunk is each word?"""

    task = "chunk"
    version = 1
    subject = "syntax"
    question = "Which part of which kind of chunk is each word?"
    reference = "Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("micro_f1", "macro_f1", "accuracy")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its ``chunk`` label."""
        return layer_examples(sentences, "chunk")


PROBE = Chunks()
