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

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bertology import readouts
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.corpora import Sentences
from bertology.corpora.prompts import sets
from bertology.errors import CorpusError, quoted
from bertology.geometry import GeometryProbe
from bertology.geometry.probes import TextItems
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums, mean_sums, ratio_sums
from bertology.probing import Examples, GeometryCounts, ProbeFamily, RepresentationProbe, Splits, layer_examples
from bertology.probing.items import SplitVectors, SplitWords

_RANGE = 100  # numbers that are compared with each other, and resampled together


@dataclass(frozen=True)
class MadeItems(ClozeProbe):
    """Does the model choose the right word in items that are made by rule?"""

    task: str = ""
    question: str = ""
    make: Callable[[], tuple[ClozeItem, ...]] = tuple
    clusters: str = "pairs of objects"
    """Name of the clusters: items about one thing, so that clusters are independent draws."""
    about: str = "The items of the kind. No object stands in two clusters, so that clusters are independent draws."
    reference: str = "Forbes & Choi 2017; Forbes et al. 2019"
    metrics: tuple[str, ...] = ("choice_accuracy", "micro_choice_accuracy")
    pocket: str = "things of the pocket world have no size, weight or use"
    """Reason why the pocket world has no such items."""
    asks = "choices"
    fixed_fields = ("make", "clusters", "pocket")

    def items(self, source: str) -> ClozeItems:
        """The items of the kind."""
        sets.check_made(source, pocket=self.pocket)
        return ClozeItems.of(self.make(), clusters=self.clusters)


_of_numbers = partial(
    MadeItems,
    about="The items of the kind, in clusters of one number, one list or one sum.",
    reference="Wallace et al. 2019, §3",
    metrics=("choice_accuracy", "micro_choice_accuracy", "p_at_1"),
    pocket="the pocket world has no numbers but two, three, four and five, which count nothing",
)


@dataclass(frozen=True)
class NumberValue(RepresentationProbe):
    """How much of the value of a number can be predicted from its vector?"""

    task = "numeracy:value"
    reference = "Wallace et al. 2019, §3"
    readout = "ridge_regression.v1"
    metrics = ("r2", "rmse")

    def examples(self, sentences: Sentences) -> Examples:
        """Every number of the corpus with its value."""
        if "number" not in sentences.layers:
            remedy = "give numbers:digits or numbers:words, or a corpus with a layer number"
            raise CorpusError(f"no word has the value of a number: {remedy}")
        return layer_examples(sentences, "number")


@dataclass(frozen=True)
class NumberSubwords(GeometryProbe):
    """Are neighbouring numbers cut unlike each other, and is the value of such numbers harder to read off?"""

    task = "numeracy:subwords"
    subject = "meaning"
    reference = "cf. Wallace et al. 2019, §3"
    reads = ("train", "dev", "test")
    counts_subwords = True
    fits = "ridge regression of the values of numbers on their vectors, as in numeracy:value"
    metrics = (
        sum_metric(
            "additional_error",
            "mean absolute error of numbers with another number of subwords than their successor, less that of other "
            "numbers of the same hundred, in the unit of the numbers",
            higher_is_better=False,
        ),
        sum_metric(
            "absolute_error", "mean absolute error of predicted values, in the unit of the numbers",
            higher_is_better=False,
        ),
        share_metric(
            "uneven_neighbours",
            "share of integers with another number of subwords than their successor; of the tokenizer, whatever layer",
            higher_is_better=False,
        ),
    )  # fmt: skip

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """Every number of the corpus with its value, a whole number."""
        examples = {split: NumberValue().examples(text) for split, text in sentences.items()}
        for split, of_split in examples.items():
            if wrong := next((value for value in of_split.values if not re.fullmatch(r"-?\d+", value)), None):
                raise CorpusError(f"{split} split, layer number: found {quoted(wrong)}; give whole numbers")
        words = words or {split: of_split.words for split, of_split in examples.items()}
        values = {
            split: np.array(list(map(int, of_split.values)))[of_split.codes[np.isin(of_split.words, words[split])]]
            for split, of_split in examples.items()
        }
        return TextItems(words, GeometryCounts(len(words["test"]), len(words["train"])), values)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Errors of each layer, by whether a number has as many subwords as its successor."""
        values, lengths = items.data, dict[int, int]()
        for split, of_split in values.items():
            of_words = items.n_subwords[split][items.words[split]]
            lengths |= zip(of_split.tolist(), of_words.tolist(), strict=True)
        layers, test = vectors["test"].layers, values["test"]
        pairs = np.array([value for value in lengths if value + 1 in lengths], dtype=np.int64)
        if not len(pairs):
            raise CorpusError("no number of the corpus has its successor there: give neighbouring numbers")
        uneven = np.array([lengths[value] != lengths[value + 1] for value in pairs.tolist()])
        _, ranges = np.unique(pairs // _RANGE, return_inverse=True)
        yield mean_sums("uneven_neighbours", np.tile(uneven, (len(layers), 1)), ranges, kind="ranges", layers=layers)
        predicted = []  # by ridge regression whose strength does best on dev
        gold, of_dev = (values[split][None].astype(np.float64) for split in ("train", "dev"))
        targets, features = readouts.linear.NumberTargets(gold), readouts.ArrayFeatures
        for layer in layers:
            train, dev, read = (features(vectors[split].of(layer)[None]) for split in ("train", "dev", "test"))
            fitted = readouts.linear.RidgeRegression().fit(train, targets, dev=dev, dev_values=of_dev, device="cpu")
            predicted.append(fitted.predict(read)[0, 0])
        errors = np.abs(np.stack(predicted) - test)
        _, ranges = np.unique(test // _RANGE, return_inverse=True)
        about: Any = {"n_clusters": int(ranges.max()) + 1, "kind": "ranges", "layers": layers}
        yield mean_sums("absolute_error", errors, ranges, **about)
        groups = {"another number of subwords than n + 1": pairs[uneven], "as many subwords as n + 1": pairs[~uneven]}
        parts = [
            mean_sums("absolute_error", errors, ranges, weights=np.isin(test, members), group=name, **about)
            for name, members in groups.items()
        ]
        yield from (part for part in parts if part.under.any())
        # In each range the difference of both means, weighted as such a difference of so many numbers is certain.
        (over, n_uneven), (other_over, n_even) = ((part.over, part.under) for part in parts)
        n = np.maximum(n_uneven + n_even, 1)
        additional = over - n_uneven * (over + other_over) / n
        yield ratio_sums("additional_error", additional, n_uneven * n_even / n, "ranges", layers=layers)


COMPARISONS = ProbeFamily.among(
    [
        MadeItems("comparisons:size", "Which of two things is larger?", partial(sets.comparison_items, "size")),
        MadeItems("comparisons:weight", "Which of two things is heavier?", partial(sets.comparison_items, "weight")),
        MadeItems("comparisons:affordance", "What can one do with a thing?", sets.affordance_items),
    ],
    argument="kind of question",
    question="Does it know how large and heavy things are, and what one does with them?",
)
_LARGEST = "Which number of a list is the largest, or the smallest?"
NUMERACY = ProbeFamily.among(
    [
        _of_numbers("numeracy:decode", "Which digits are those of a number word?", sets.decode_items, "numbers"),
        _of_numbers("numeracy:maximum", _LARGEST, sets.maximum_items, "lists"),
        _of_numbers("numeracy:addition", "What is the sum of two numbers?", sets.addition_items, "sums"),
        NumberValue(),
        NumberSubwords(),
    ],
    argument="kind of question",
    question="Does it know numbers: their digits, which is the largest, their sum, their value?",
)
