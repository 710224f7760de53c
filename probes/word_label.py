"""Any annotation of words by its name: which label does each word have in a column?

``word_label:COLUMN`` asks it of every word that has a label in the layer COLUMN of the corpus: tags of one's own, or
any annotation that a corpus comes with (``word_label:lemma``). The method is that of ``pos`` (Liu et al. 2019,
*Linguistic Knowledge and Transferability of Contextual Representations*, §4): logistic regression on the mean of a
word's pieces, beside the most frequent label, the label of the word's form, random weights and a control task.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, ProbeFamily, RepresentationProbe

from ._columns import classes, word_column

_QUESTION = "Which label does each word have in a column of the corpus?"
_REFERENCE = "Liu et al. 2019, §4"


@dataclass(frozen=True)
class WordLabel(RepresentationProbe):
    """Which label does each word have in a column?"""

    column: str
    version = 1
    subject = "labels of your own"
    question = _QUESTION
    reference = _REFERENCE
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    @property
    def task(self) -> str:
        """``word_label:`` and the column."""
        return f"word_label:{self.column}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has a label in the column."""
        return classes(word_column(sentences, self.column), self.column, numbers="word_number")


PROBE = ProbeFamily(
    argument="column of labels of words",
    instances=("COLUMN", "upos"),
    question=_QUESTION,
    reference=_REFERENCE,
    make=WordLabel,
)
