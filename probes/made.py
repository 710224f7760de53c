"""Items made by rule, for what a model knows from text alone: physical common sense, and numbers.

- ``comparisons``: which of two things is larger or heavier, and what can one do with a thing? After Forbes & Choi
  (2017), *Verb Physics*, and Forbes et al. (2019), *Do Neural Language Representations Learn Physical Commonsense?*
  Their models are trained on people's judgements; here the model chooses between two words at a mask, untrained. Items
  are made from tables of everyday objects, in such a way that a constant answer is right half the time.
- ``numeracy``: the digits of a number word, the largest of a list, a sum. After Wallace et al. (2019), *Do NLP Models
  Know Numbers? Probing Numeracy in Embeddings*, §3. They train a probe on word vectors, so that a score states what
  could be read off them; here the model must choose the number itself at a mask. What a model fails to predict it may
  still represent: scores are not to be compared with theirs, and low ones do not contradict them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.corpora import Sentences
from bertology.corpora.prompts.sets import (
    addition_items,
    affordance_items,
    check_made,
    comparison_items,
    decode_items,
    maximum_items,
)
from bertology.errors import CorpusError
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, layer_examples


@dataclass(frozen=True)
class _Kind:
    question: str
    make: Callable[[], tuple[ClozeItem, ...]]
    clusters: str
    """Name of the clusters: items about one thing, so that clusters are independent draws."""


_OBJECTS = "pairs of objects"
_KINDS = {
    "comparisons:size": _Kind("Which of two things is larger?", lambda: comparison_items("size"), _OBJECTS),
    "comparisons:weight": _Kind("Which of two things is heavier?", lambda: comparison_items("weight"), _OBJECTS),
    "comparisons:affordance": _Kind("What can one do with a thing?", affordance_items, _OBJECTS),
    "numeracy:decode": _Kind("Which digits are those of a number word?", decode_items, "numbers"),
    "numeracy:maximum": _Kind("Which number of a list is the largest, or the smallest?", maximum_items, "lists"),
    "numeracy:addition": _Kind("What is the sum of two numbers?", addition_items, "sums"),
}


@dataclass(frozen=True)
class _Made(ClozeProbe):
    task: str = ""
    asks = "choices"
    pocket = ""

    @property
    def question(self) -> str:
        """The question of its kind."""
        return _KINDS[self.task].question

    def items(self, source: str) -> ClozeItems:
        """The items of the kind."""
        check_made(source, pocket=self.pocket)
        kind = _KINDS[self.task]
        return ClozeItems.of(kind.make(), clusters=kind.clusters)


class Comparisons(_Made):
    """Does the model know one thing about everyday objects?"""

    reference = "Forbes & Choi 2017; Forbes et al. 2019"
    metrics = ("choice_accuracy", "micro_choice_accuracy")
    about = "The items of the kind. No object stands in two clusters, so that clusters are independent draws."
    pocket = "things of the pocket world have no size, weight or use"


class Numeracy(_Made):
    """Does the model know one thing about numbers?"""

    reference = "Wallace et al. 2019, §3"
    metrics = ("choice_accuracy", "micro_choice_accuracy", "p_at_1")
    about = "The items of the kind, in clusters of one number, one list or one sum."
    pocket = "the pocket world has no numbers but two, three, four and five, which count nothing"


@dataclass(frozen=True)
class NumberValue(RepresentationProbe):
    """How much of the value of a number can be predicted from its vector?"""

    task = "numeracy:value"
    question = "How much of the value of a number can be predicted from its vector?"
    reference = "Wallace et al. 2019, §3"
    readout = "ridge_regression.v1"
    metrics = ("r2", "rmse")

    def examples(self, sentences: Sentences) -> Examples:
        """Every number of the corpus with its value."""
        if "number" not in sentences.layers:
            remedy = "give numbers:digits or numbers:words, or a corpus with a layer number"
            raise CorpusError(f"no word has the value of a number: {remedy}")
        return layer_examples(sentences, "number")


COMPARISONS = ProbeFamily.among(
    [Comparisons(task=name) for name in _KINDS if name.startswith("comparisons:")],
    argument="kind of question",
    question="Does it know how large and heavy things are, and what one does with them?",
)
NUMERACY = ProbeFamily.among(
    [*(Numeracy(task=name) for name in _KINDS if name.startswith("numeracy:")), NumberValue()],
    argument="kind of question",
    question="Does it know numbers: their digits, which is the largest, their sum, their value?",
)
