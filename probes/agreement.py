"""Agreement: is the form that agrees with its subject more probable at the mask than that of the other number?

After Goldberg (2019), *Assessing BERT's Syntactic Abilities*: the form is masked, and of its two forms the encoder
should find the right one more probable. Three sets are read, after Linzen et al. (2016), Gulordava et al. (2018) and
Marvin & Linzen (2018), and, from the pocket world, sentences with up to three nouns of the other number (attractors)
between subject and verb. Of negative polarity items no form agrees with anything: they are left to ``minimal_pairs``,
as are pairs that differ in more than one word. Of Gulordava's set Goldberg leaves out *is* and *are*, and so do we.

Groups are what the authors tell items apart by: constructions in Marvin & Linzen's set, named as in Goldberg's Table 3
with animate and inanimate subjects together, numbers of attractors elsewhere. ``agreement:structure`` and
``agreement:attractors`` choose the one or the other.

Intervals: Marvin & Linzen's sentences are a few words crossed with one another, 22,400 from some thirty. They are drawn
by subject noun and verb, singular and plural and all constructions together, some 170 draws in all and 20 to 67 in a
construction. To draw sentences would call the result hundreds of times as sure as it is: a frame that is right is right
in all its copies. To draw the noun alone, or the verb, would be stricter still, as frames share either; but three or
four draws bear no interval. What the intervals tell is hence about other frames of such words, at best. Gulordava's
are drawn by construction, of which nine nonce sentences were made from one that occurred. The pocket world's are
independent draws from all the words there are.

The baseline ``blind`` masks the subject, too, and the words before the form that agree with it (*the [MASK] that
[MASK] the guard [MASK].*). Attractors stay: in the pocket world they are all of the other number, so that who goes by
them is below one half. In natural and nonce sentences more than is marked may tell the number: they have no such text.
"""

from dataclasses import dataclass, replace
from typing import Literal

from bertology import pocket
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.corpora.prompts.pairs import read_agreement
from bertology.probing import LeftOut, ProbeFamily

_COPULA = ("is", "are")


@dataclass(frozen=True)
class Agreement(ClozeProbe):
    """Does a verb agree with its subject, whatever stands between them?"""

    by: Literal["source", "structure", "attractors"] = "source"
    """Property by which items are grouped; ``source`` is the authors' grouping."""
    subject = "syntax"
    reference = "Goldberg 2019; Linzen et al. 2016; Gulordava et al. 2018; Marvin & Linzen 2018"
    asks = "choices"
    metrics = ("choice_accuracy", "micro_choice_accuracy")

    @property
    def task(self) -> str:
        """``agreement``, ``agreement:structure`` or ``agreement:attractors``."""
        return "agreement" if self.by == "source" else f"agreement:{self.by}"

    def items(self, source: str) -> ClozeItems:
        """Every sentence with its good and its bad form."""
        if source == "pocket":
            return ClozeItems.of(map(self._item, pocket.agreement_items()), clusters="sentences")
        return ClozeItems.of(map(self._item, read_agreement(source)), clusters="frames")

    def _item(self, pair: ClozeItem | LeftOut) -> ClozeItem | LeftOut:
        if isinstance(pair, LeftOut):
            return pair
        by_structure = self.by == "structure" or (self.by == "source" and pair.kind == "marvin_linzen")
        if not (group := pair.group if by_structure else pair.attractors):
            return LeftOut(pair.id, "", f"the source tells no {self.by}")
        if pair.kind == "gulordava" and pair.answer in _COPULA:
            return LeftOut(pair.id, group, "is and are, which Goldberg (2019) leaves out of this set")
        return replace(pair, group=group)


PROBE = ProbeFamily.among(
    [Agreement(by="structure"), Agreement(by="attractors")], argument="choice of groups", default=Agreement()
)
