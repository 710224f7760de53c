"""Numbers of words: frequency, length, number of pieces, reading time, or any other number annotated to words.

``word_number:COLUMN`` regresses the numbers of a word layer called COLUMN on the words' vectors, by ridge regression;
R² is on words of the test split. Reading times were first read off language models' vectors this way by Toneva & Wehbe
(2019), *Interpreting and improving natural-language processing (in machines) with natural language-processing (in the
brain)*, who take ridge regression, too.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, ProbeFamily, RepresentationProbe

from ._columns import word_column

_QUESTION = "How much of a number of each word can be predicted from its vector?"
_REFERENCE = "ridge regression, as Toneva & Wehbe 2019"


@dataclass(frozen=True)
class WordNumber(RepresentationProbe):
    """How much of a number of each word can be predicted from its vector?"""

    column: str
    version = 1
    subject = "labels of your own"
    question = _QUESTION
    reference = _REFERENCE
    readout = "ridge_regression.v1"
    metrics = ("r2", "spearman")

    @property
    def task(self) -> str:
        """``word_number:`` and the column."""
        return f"word_number:{self.column}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has a number in the column."""
        return word_column(sentences, self.column)


PROBE = ProbeFamily(
    argument="word layer of numbers", instances=("length",), question=_QUESTION, reference=_REFERENCE, make=WordNumber
)
