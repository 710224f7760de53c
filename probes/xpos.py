"""Treebank-specific tags: the finer word classes of one treebank (Penn Treebank tags for English).

As ``pos``, with the language-specific tag (XPOS), after Liu et al. (2019), §4, whose parts of speech are Penn
Treebank tags.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, layer_examples


@dataclass(frozen=True)
class TreebankTags(RepresentationProbe):
    """Which treebank-specific tag does each word have?"""

    task = "xpos"
    version = 1
    subject = "word classes"
    question = "Which treebank-specific tag does each word have?"
    reference = "Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its ``xpos`` label."""
        return layer_examples(sentences, "xpos")


PROBE = TreebankTags()
