"""Numbers: does a masked language model find the digits of a number word, the largest of a list, a sum?

After Wallace et al. (2019), *Do NLP Models Know Numbers? Probing Numeracy in Embeddings*, §3: decoding, list maximum
and addition. They train a probe on word vectors, so that a score says what could be read off them; here nothing is
trained, and the model must choose the number itself at a mask. What a model fails to say it may still represent:
scores are not to be compared with theirs, and low ones do not contradict them. Items and rivals are made by rule.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bertology.corpora.prompts import (
    TableItem,
    addition_items,
    check_made,
    decode_items,
    maximum_items,
)
from bertology.errors import BertologyError
from bertology.probing import ClozeItem, ClozeItems, ClozeProbe, ProbeFamily

_QUESTION = "Does it know numbers: their digits, which is the largest, their sum?"
_REFERENCE = "Wallace et al. 2019, §3"
_KINDS: dict[str, tuple[str, Callable[[], tuple[TableItem, ...]], str]] = {
    "decode": ("Which digits are those of a number word?", decode_items, "numbers"),
    "maximum": ("Which number of a list is the largest, or the smallest?", maximum_items, "lists"),
    "addition": ("What is the sum of two numbers?", addition_items, "sums"),
}
_POCKET = "the pocket world has no numbers but two, three, four and five, which count nothing"


@dataclass(frozen=True)
class Numeracy(ClozeProbe):
    """Does the model know one thing about numbers?"""

    kind: str
    version = 1
    reference = _REFERENCE
    asks = "choices"
    metrics = ("choice_accuracy", "micro_choice_accuracy", "p_at_1")

    @property
    def task(self) -> str:
        """``numeracy:decode``, ``numeracy:maximum``, ``numeracy:addition``."""
        return f"numeracy:{self.kind}"

    @property
    def question(self) -> str:
        """That of its kind."""
        return _KINDS[self.kind][0]

    def items(self, source: str) -> ClozeItems:
        """The items of the kind, in clusters of one number, one list or one sum."""
        check_made(source, pocket=_POCKET)
        _, make, clusters = _KINDS[self.kind]
        items = (ClozeItem(i.id, i.cluster, i.group, i.text, i.good, rivals=i.bad, blind=i.blind) for i in make())
        return ClozeItems(tuple(items), clusters=clusters)


def _make(argument: str) -> Numeracy:
    if argument not in _KINDS:
        raise BertologyError(f"task numeracy:{argument}: it should be one of {', '.join(_KINDS)}")
    return Numeracy(argument)


PROBE = ProbeFamily(
    argument="kind of question", instances=tuple(_KINDS), question=_QUESTION, reference=_REFERENCE, make=_make
)
