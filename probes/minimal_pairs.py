"""Minimal pairs: of two sentences that hardly differ, is the grammatical one more probable as a whole?

After Warstadt et al. (2020), *BLiMP: The Benchmark of Linguistic Minimal Pairs for English*, with the
pseudo-log-likelihood of Salazar et al. (2020), *Masked Language Model Scoring*: each piece of a sentence is masked in
turn, and the logarithms of its probabilities are summed. Groups are BLiMP's paradigms, and its score the mean over
these. Marvin & Linzen's (2018) sentences are read as well, by case; negative polarity items, which are no agreement,
are asked only here. Twice the same sentence, as in seven pairs of BLiMP, is left out.

Marvin & Linzen's sentences are given a final period, as for ``agreement``: theirs have none, and an encoder expects
that text goes on. BLiMP's have theirs.

Intervals: each pair of BLiMP is drawn anew by its grammar, so pairs are what is drawn. Marvin & Linzen's are a few
words crossed with one another and drawn by subject and the words that differ; ``agreement`` says why. In the pocket
world, whose sentences are those of ``agreement`` with either form, each is an independent draw. A whole sentence has
no version without what decides: there is no ``blind`` baseline.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bertology import pocket
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.corpora.prompts.pairs import read_minimal_pairs


@dataclass(frozen=True)
class MinimalPairs(ClozeProbe):
    """Is the grammatical one of two sentences that hardly differ more probable?"""

    task = "minimal_pairs"
    subject = "syntax"
    reference = "Warstadt et al. 2020; Salazar et al. 2020; Marvin & Linzen 2018"
    asks = "sentences"
    metrics = ("choice_accuracy", "micro_choice_accuracy")

    def items(self, source: str) -> ClozeItems:
        """Every pair, the grammatical sentence as the text and the other one as the other."""
        if source == "pocket":
            return ClozeItems.of(_pocket(), clusters="pairs")
        return ClozeItems.of(read_minimal_pairs(source), clusters="frames")


def _pocket() -> Iterator[ClozeItem]:
    for pair in pocket.agreement_items():
        good, bad = (pair.text.replace("{mask}", form) for form in (pair.answer, *pair.rivals))
        yield ClozeItem(pair.id, pair.cluster, pair.group, good, other=bad)


PROBE = MinimalPairs()
