"""Universal parts of speech: which word class does each word have in its sentence?

Probing for parts of speech by a linear readout at every layer follows Liu et al. (2019), *Linguistic Knowledge and
Transferability of Contextual Representations*, §4. The labels are the 17 universal ones (UPOS; Nivre et al. 2020). An
item is a word, its vector the mean of its subwords' vectors; multinomial logistic regression is fitted on train, its
regularisation chosen on dev, its accuracy measured once on test.

What to compare with: the most frequent label, the label that the word's form has most often in train (no context at
all), the same encoder with random weights, and a control task of the same shape that can only be memorised (Hewitt &
Liang 2019).
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe
from bertology.probing.items import layer_examples


@dataclass(frozen=True)
class PartsOfSpeech(RepresentationProbe):
    """Which universal part of speech does each word have?"""

    task = "pos"
    subject = "word classes"
    reference = "Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its ``upos`` label."""
        return layer_examples(sentences, "upos")


PROBE = PartsOfSpeech()
