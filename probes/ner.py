"""Named entities, word by word: is a word inside a person's, place's or organisation's name, and does it begin it?

Word-level labels in IOB2 read off by a linear readout, after Liu et al. (2019), §4 (named entity recognition on CoNLL
2003). Nearly all words are outside names, so the main metric is micro F1 over the labels other than ``O``; it scores
words, not whole names.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, layer_examples


@dataclass(frozen=True)
class NamedEntities(RepresentationProbe):
    """Which part of which kind of name is each word?"""

    task = "ner"
    version = 1
    question = "Which part of which kind of name is each word?"
    reference = "Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("micro_f1", "macro_f1", "accuracy")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its ``ner`` label."""
        return layer_examples(sentences, "ner")


PROBE = NamedEntities()
