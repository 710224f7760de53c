"""Parts of speech as edge probing asks for them: one span, one word long, and a label.

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: the same question as ``pos``, put by the edge
readout that all nine tasks share, so that their profiles can be compared. The labels are the universal ones; the
paper's are those of the Penn Treebank.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, layer_examples


@dataclass(frozen=True)
class EdgePartsOfSpeech(RepresentationProbe):
    """Which universal part of speech does a word have, asked as an edge probe?"""

    task = "edge_pos"
    version = 1
    subject = "word classes"
    question = "As an edge probe: which universal part of speech does each word have?"
    reference = "Tenney et al. 2019a, §2.1"
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its ``upos`` label."""
        return layer_examples(sentences, "upos")


PROBE = EdgePartsOfSpeech()
