"""Numbers of sentences: length, depth, a rating, or any other number annotated to whole sentences.

``sentence_number:COLUMN`` regresses the numbers of a column called COLUMN on the sentence's vector, by ridge
regression; R² is on sentences of the test split. Similarity was read off sentence vectors by regression in Conneau &
Kiela (2018), *SentEval*.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, ProbeFamily, RepresentationProbe

from ._columns import sentence_column

_QUESTION = "How much of a number of each sentence can be predicted from its vector?"
_REFERENCE = "ridge regression; Conneau & Kiela 2018"


@dataclass(frozen=True)
class SentenceNumber(RepresentationProbe):
    """How much of a number of each sentence can be predicted from its vector?"""

    column: str
    version = 1
    subject = "labels of your own"
    question = _QUESTION
    reference = _REFERENCE
    readout = "ridge_regression.v1"
    metrics = ("r2", "spearman")

    @property
    def task(self) -> str:
        """``sentence_number:`` and the column."""
        return f"sentence_number:{self.column}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every sentence that has a number in the column."""
        return sentence_column(sentences, self.column)


PROBE = ProbeFamily(
    argument="column of numbers", instances=("length",), question=_QUESTION, reference=_REFERENCE, make=SentenceNumber
)
