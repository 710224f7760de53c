"""Any annotation of pairs of texts by its name: which label does each pair have in a column?

``pair_label:COLUMN`` asks it of every pair of texts, read as one text, that is labelled under the name COLUMN: does one
follow from the other, do they mean the same? A linear readout has the vectors u and v of both, each the mean over the
words of its text, their difference |u − v| and their product u · v by dimension (Conneau et al. 2017, *Supervised
Learning of Universal Sentence Representations from Natural Language Inference Data*, §3.1): of u and v alone, no linear
readout can tell whether they are alike. A readout of spans has the words of both instead.

What to compare with: the most frequent label, a logistic regression on words and bigrams of both texts (``lexical``),
the same encoder with random weights, and a control task that can only be memorised.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.probing import Examples, ProbeFamily, SentenceProbe

from ._columns import classes, pair_column

_QUESTION = "Which label does each pair of texts have in a column of the corpus?"
_REFERENCE = "Conneau et al. 2017, §3"


@dataclass(frozen=True)
class PairLabel(SentenceProbe):
    """Which label does each pair of texts have in a column?"""

    column: str
    version = 1
    subject = "labels of your own"
    question = _QUESTION
    reference = _REFERENCE
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    @property
    def task(self) -> str:
        """``pair_label:`` and the column."""
        return f"pair_label:{self.column}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every pair that has a label in the column."""
        return classes(pair_column(sentences, self.column), self.column)


PROBE = ProbeFamily(
    argument="column of labels of pairs",
    instances=("COLUMN", "label"),
    question=_QUESTION,
    reference=_REFERENCE,
    make=PairLabel,
)
