"""Physical common sense: which of two things is larger or heavier, and what can one do with a thing?

After Forbes & Choi (2017), *Verb Physics*, and Forbes et al. (2019), *Do Neural Language Representations Learn
Physical Commonsense?*: object properties and affordances. Their models are trained on people's judgements; here the
model chooses between two words at a mask, untrained. Items are made from tables of everyday objects by rule, in such a
way that a constant answer is right half the time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bertology.corpora.prompts import TableItem, affordance_items, check_made, comparison_items
from bertology.errors import BertologyError
from bertology.probing import ClozeItem, ClozeItems, ClozeProbe, ProbeFamily

_QUESTION = "Does it know how large and heavy things are, and what one does with them?"
_REFERENCE = "Forbes & Choi 2017; Forbes et al. 2019"
_KINDS: dict[str, tuple[str, Callable[[], tuple[TableItem, ...]]]] = {
    "size": ("Which of two things is larger?", lambda: comparison_items("size")),
    "weight": ("Which of two things is heavier?", lambda: comparison_items("weight")),
    "affordance": ("What can one do with a thing?", affordance_items),
}
_POCKET = "things of the pocket world have no size, weight or use"


@dataclass(frozen=True)
class Comparisons(ClozeProbe):
    """Does the model know one thing about everyday objects?"""

    kind: str
    version = 1
    reference = _REFERENCE
    asks = "choices"
    metrics = ("choice_accuracy", "micro_choice_accuracy")

    @property
    def task(self) -> str:
        """``comparisons:size``, ``comparisons:weight``, ``comparisons:affordance``."""
        return f"comparisons:{self.kind}"

    @property
    def question(self) -> str:
        """That of its kind."""
        return _KINDS[self.kind][0]

    def items(self, source: str) -> ClozeItems:
        """The items of the kind. No object stands in two clusters, so that clusters are independent draws."""
        check_made(source, pocket=_POCKET)
        return ClozeItems(
            tuple(
                ClozeItem(i.id, i.cluster, i.group, i.text, i.good, rivals=i.bad, blind=i.blind)
                for i in _KINDS[self.kind][1]()
            ),
            clusters="pairs of objects",
        )


def _make(argument: str) -> Comparisons:
    if argument not in _KINDS:
        raise BertologyError(f"task comparisons:{argument}: it should be one of {', '.join(_KINDS)}")
    return Comparisons(argument)


PROBE = ProbeFamily(
    argument="kind of question", instances=tuple(_KINDS), question=_QUESTION, reference=_REFERENCE, make=_make
)
