"""Any annotation of sentences by its name: which label does each sentence have in a column?

``sentence_label:COLUMN`` asks it of every sentence that is labelled as a whole under the name COLUMN, such as the
sentiment of a review. A linear readout of one vector for each sentence, the mean over its words, follows Conneau et al.
(2018), *What you can cram into a single vector: Probing sentence embeddings for linguistic properties*.

What to compare with: the most frequent label, a logistic regression on words and bigrams of the sentence (``lexical``),
the same encoder with random weights, and a control task, in which each text has a label drawn at random. As few texts
occur twice, nothing that helps on test can be memorised: selectivity is about as much as accuracy is above chance.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, ProbeFamily, SentenceProbe

from ._columns import classes, sentence_column

_QUESTION = "Which label does each sentence have in a column of the corpus?"
_REFERENCE = "Conneau et al. 2018"


@dataclass(frozen=True)
class SentenceLabel(SentenceProbe):
    """Which label does each sentence have in a column?"""

    column: str
    version = 1
    subject = "labels of your own"
    question = _QUESTION
    reference = _REFERENCE
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    @property
    def task(self) -> str:
        """``sentence_label:`` and the column."""
        return f"sentence_label:{self.column}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every sentence that has a label in the column."""
        return classes(sentence_column(sentences, self.column), self.column, numbers="sentence_number")


PROBE = ProbeFamily(
    argument="column of labels of sentences",
    instances=("COLUMN", "label"),
    question=_QUESTION,
    reference=_REFERENCE,
    make=SentenceLabel,
)
