"""Minimal pairs: of two sentences that hardly differ, is the grammatical one more probable as a whole?

After Warstadt et al. (2020), *BLiMP: The Benchmark of Linguistic Minimal Pairs for English*, with the
pseudo-log-likelihood of Salazar et al. (2020), *Masked Language Model Scoring*: each piece of a sentence is masked in
turn, and the logarithms of its probabilities are summed. Groups are BLiMP's paradigms, and its score the mean over
these. Marvin & Linzen's (2018) sentences are read as well, by case; negative polarity items, which are no agreement,
are asked only here. Twice the same sentence, as in seven pairs of BLiMP, is left out.

MultiBLiMP's tables (Jumelet et al. 2025) are read as they are. For any other language:

- ``minimal_pairs:from_treebank`` makes pairs of a treebank with features: one word of an attested sentence is exchanged
  for an attested form of its lemma that does not agree (subject and verb in number and person, adjective and noun in
  gender, number and case), where the treebank shows that the language agrees.
- ``minimal_pairs:perturbed`` scrambles the words of a sentence, exchanges one with its head, or writes all as lemmas.

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
from bertology.corpora import load_corpus
from bertology.corpora.prompts.pairs import read_minimal_pairs
from bertology.corpora.prompts.violations import agreement_pairs, perturbed_pairs
from bertology.probing import ProbeFamily


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


@dataclass(frozen=True)
class FromTreebank(MinimalPairs):
    """Is an attested sentence more probable than the same with one word that does not agree?"""

    task = "minimal_pairs:from_treebank"
    reference = "cf. Jumelet et al. 2025"

    def items(self, source: str) -> ClozeItems:
        """Every word of test whose violation the treebank's own forms can spell, by what should agree."""
        return ClozeItems.of(agreement_pairs(load_corpus(source)), clusters="sentences", language=None)


@dataclass(frozen=True)
class Perturbed(MinimalPairs):
    """Is an attested sentence more probable than the same with its words in another order, or as lemmas?"""

    task = "minimal_pairs:perturbed"
    reference = "cf. Sinha et al. 2021"

    def items(self, source: str) -> ClozeItems:
        """Every sentence of test in up to three pairs."""
        return ClozeItems.of(perturbed_pairs(load_corpus(source)), clusters="sentences", language=None)


def _pocket() -> Iterator[ClozeItem]:
    for pair in pocket.agreement_items():
        good, bad = (pair.text.replace("{mask}", form) for form in (pair.answer, *pair.rivals))
        yield ClozeItem(pair.id, pair.cluster, pair.group, good, other=bad)


PAIRS = MinimalPairs()
PROBE = ProbeFamily.among([FromTreebank(), Perturbed()], argument="making of pairs", default=PAIRS)
