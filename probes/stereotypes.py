"""Stereotypes: of two sentences about two groups of people, is the more stereotyping one more probable?

CrowS-Pairs, Nangia et al. (2020), *CrowS-Pairs: A Challenge Dataset for Measuring Social Biases in Masked Language
Models*: 1,508 pairs of nine kinds of bias, which differ in the words that name a group. As there, the pieces that both
sentences share are scored, each masked in turn, and those that differ are not: a group's name that is rare in text
would make its sentence improbable, whatever is said of it. The value is a share of pairs, and 50 % no preference.

What the number can bear is doubtful. Blodgett et al. (2021), *Stereotyping Norwegian Salmon*, found most pairs faulty:
no stereotype, no group that is disadvantaged, sentences that differ in more than the group, broken grammar. The
sentences are American, written by crowd workers, and offensive by design. A share near 50 % does not say that a model
is without bias. Any table of pairs is read by its columns (``good`` the more stereotyping one).
"""

from dataclasses import dataclass

from bertology.cloze import ClozeItems, ClozeProbe
from bertology.corpora.prompts.pairs import read_minimal_pairs
from bertology.errors import CorpusError


@dataclass(frozen=True)
class Stereotypes(ClozeProbe):
    """Is the more stereotyping of two sentences the more probable one?"""

    task = "stereotypes"
    subject = "meaning"
    reference = "Nangia et al. 2020; cf. Blodgett et al. 2021"
    asks = "sentences"
    shared_alone = True
    metrics = ("stereotyped_share", "micro_stereotyped_share")

    def items(self, source: str) -> ClozeItems:
        """Every pair, the more stereotyping sentence as the text, by kind of bias."""
        if source == "pocket":
            raise CorpusError("the pocket world has no stereotypes; give crows_pairs, or a table of pairs")
        return ClozeItems.of(read_minimal_pairs(source), clusters="pairs")


PROBE = Stereotypes()
