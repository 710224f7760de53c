"""Any annotation by its name: which label, or number, does a word, span, sentence or pair of texts have in a column?

- ``word_label:COLUMN``: every word that has a label in the layer COLUMN of the corpus: tags of one's own, or any
  annotation that a corpus comes with (``word_label:deprel``), but no open class such as lemmas. The method is that of
  ``pos`` (Liu et al. 2019, *Linguistic Knowledge and Transferability of Contextual Representations*, §4).
- ``sentence_label:COLUMN``: every sentence that is labelled as a whole, such as by the sentiment of a review, read off
  the mean over its words (Conneau et al. 2018, *What you can cram into a single vector*).
- ``span_label:COLUMN``: every span of words that is labelled, such as a phrase, by a readout of spans (Tenney et al.
  2019, *What do you learn from context?*, §2.1).
- ``pair_label:COLUMN``: every pair of texts, read as one text: does one follow from the other, do they mean the same?
  A linear readout has the vectors u and v of both, their difference |u − v| and their product u · v by dimension
  (Conneau et al. 2017, *Supervised Learning of Universal Sentence Representations from Natural Language Inference
  Data*, §3.1): of u and v alone, no linear readout can tell whether they are alike. A readout of spans has the words
  of both instead.
- ``word_number:COLUMN``, ``sentence_number:COLUMN``: numbers of words (frequency, reading time), or of sentences
  (length, a rating), by ridge regression; R² is of the test split. Reading times were first read off language models'
  vectors this way by Toneva & Wehbe (2019), *Interpreting and improving natural-language processing (in machines) with
  natural language-processing (in the brain)*; similarity off sentence vectors by Conneau & Kiela (2018), *SentEval*.

What to compare with: the most frequent label, for words that of the word's form, for texts a logistic regression on
words and bigrams (``lexical``), the same encoder with random weights, and a control task. As few texts occur twice,
nothing that helps on test can be memorised: selectivity of sentences is about as much as accuracy is above chance.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from bertology.corpora import IGNORED, Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, sentence_examples, target_examples
from bertology.probing.items import layer_examples
from bertology.probing.probes import SentenceProbe

_MOST_NUMBERS = 20
"""Distinct whole numbers that may still be classes, such as ratings."""
_OPEN_CLASS, _RARE = 300, 5
"""Labels that words may have where over a quarter of them are rare, and the occurrences below which one is rare."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(inf|nan)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"[-+]?\d+(\.0)?", re.ASCII)
"""A whole number; of those with gaps pandas makes floats, ``1.0``."""


@dataclass(frozen=True)
class _Column(RepresentationProbe):
    column: str
    subject = "labels of your own"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def _checked(self, examples: Examples, numbers: str | None = None) -> Examples:
        """The items; a CorpusError for classes that are numbers, more than 20 distinct ones or some that are not whole.

        ``numbers`` is the task for numbers of such items, if there is one.
        """
        if "accuracy" not in self.metrics:
            return examples
        examples = examples.without_ignored()
        values = [value for value in examples.values if value not in IGNORED]
        if values and all(map(_NUMBER.fullmatch, values)):
            fraction = next((value for value in values if not _WHOLE.fullmatch(value)), None)
            if fraction is not None or len(values) > _MOST_NUMBERS:
                what = f"{quoted(fraction)} among them" if fraction is not None else f"{len(values):,} distinct ones"
                other = (
                    f"take {numbers}:{self.column}" if numbers else "name classes in the column, such as low and high"
                )
                raise CorpusError(f"column {quoted(self.column)} holds numbers ({what}), not classes: {other}")
        return examples


class WordLabel(_Column):
    """Which label does each word have in a column of the corpus?"""

    task_form = "word_label:{column}"
    reference = "Liu et al. 2019, §4"

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has a label, or a number, in the column.

        Raises:
            CorpusError: no word has one.
        """
        if self.column not in sentences.layers:
            raise _no_column(self.column, "word", sentences.layers, others=sentences.target_layers)
        examples = layer_examples(sentences, self.column)
        times = np.unique(examples.codes, return_counts=True)[1]
        n_rare = int((times < _RARE).sum())
        if "accuracy" in self.metrics and len(times) > _OPEN_CLASS and n_rare > len(times) / 4:
            problem = f"holds an open class: {n_rare:,} of {len(times):,} labels occur fewer than {_RARE} times"
            remedy = "so that test has many that train lacks; take a column of few labels, or unseen_lemmas:TASK"
            raise CorpusError(f"column {quoted(self.column)} {problem}, {remedy}")
        return self._checked(examples, "word_number")


class WordNumber(WordLabel):
    """How much of a number of each word can be predicted from its vector?"""

    task_form = "word_number:{column}"
    reference = "ridge regression, as Toneva & Wehbe 2019"
    readout = "ridge_regression.v1"
    metrics = ("r2", "spearman")


class SentenceNumber(_Column):
    """How much of a number of each sentence can be predicted from its vector?"""

    task_form = "sentence_number:{column}"
    reference = "ridge regression; Conneau & Kiela 2018"
    readout = "ridge_regression.v1"
    metrics = ("r2", "spearman")

    def examples(self, sentences: Sentences) -> Examples:
        """Every sentence that as a whole has a label, or a number, in the column.

        Raises:
            CorpusError: none is labelled, parts of sentences are, or a sentence has several labels.
        """
        labels: list[str | None] = [None] * len(sentences)
        for number, targets in sentences.targets(self.column):
            name, n_words = sentences.id(number) or number + 1, sentences.starts[number + 1] - sentences.starts[number]
            of_column = f"column {quoted(self.column)}"
            if len(targets) > 1 or not isinstance(targets[0].label, str):
                raise CorpusError(f"sentence {name} has several labels in {of_column}: give one a sentence")
            if targets[0].span2 is not None:
                raise CorpusError(f"{of_column} labels pairs of texts, not sentences: take pair_label")
            if targets[0].span1 != (0, n_words):
                raise CorpusError(f"{of_column} labels parts of sentences (sentence {name}): take span_label")
            labels[number] = targets[0].label
        if all(label is None for label in labels):
            raise _no_column(self.column, "sentence", sentences.target_layers, others=sentences.layers)
        n_without = labels.count(None)
        skipped = {f"no {self.column} label": n_without} if n_without else {}
        return self._checked(replace(sentence_examples(sentences, labels), skipped=skipped), "sentence_number")


class SentenceLabel(SentenceNumber, SentenceProbe):
    """Which label does each sentence have in a column of the corpus?"""

    task_form = "sentence_label:{column}"
    reference = "Conneau et al. 2018"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")


class SpanLabel(_Column):
    """Which label does each span of words have in a column of the corpus?"""

    task_form = "span_label:{column}"
    reference = "Tenney et al. 2019a, §2.1"
    readout = "edge.v1"

    def examples(self, sentences: Sentences) -> Examples:
        """Every span of words that has a label in the column.

        Raises:
            CorpusError: there is none, pairs of spans are labelled, a span has several labels, or all spans are whole
                sentences.
        """
        if self.column not in sentences.target_layers:
            raise _no_column(self.column, "span of words", sentences.target_layers, others=sentences.layers)
        examples = target_examples(sentences, self.column, spans=1)
        if examples.is_multi_label:
            raise CorpusError(f"column {quoted(self.column)} has several labels a span: give one")
        ends = np.stack([sentences.starts[examples.clusters], sentences.starts[examples.clusters + 1]], axis=1)
        if (examples.spans[:, 0] == ends).all():
            remedy = "take sentence_label, or name the columns of their places: --columns …,start=COLUMN,end=COLUMN"
            raise CorpusError(f"column {quoted(self.column)} labels whole sentences, not spans: {remedy}")
        return self._checked(examples)


class PairLabel(_Column, SentenceProbe):
    """Which label does each pair of texts have in a column of the corpus?"""

    task_form = "pair_label:{column}"
    reference = "Conneau et al. 2017, §3"

    def examples(self, sentences: Sentences) -> Examples:
        """Every pair of texts, or of other spans of one sentence, that has a label in the column.

        Raises:
            CorpusError: there is none, single spans are labelled, or a pair has several labels.
        """
        if self.column not in sentences.target_layers:
            raise _no_column(self.column, "pair of texts", sentences.target_layers, others=sentences.layers)
        examples = target_examples(sentences, self.column, spans=2)
        if examples.is_multi_label:
            raise CorpusError(f"column {quoted(self.column)} has several labels a pair: give one")
        n_without = len(sentences) - len(set(examples.clusters.tolist()))
        skipped = {f"no {self.column} label": n_without} if n_without else {}
        return self._checked(replace(examples, skipped=skipped))


def _no_column(column: str, what: str, known: Iterable[str], *, others: Collection[str]) -> CorpusError:
    """The error for a column that no word, sentence or pair has a label in, with the nearest ones there are."""
    names = sorted(known)
    near = get_close_matches(column, names, n=3, cutoff=0.5)
    there = f"the columns of labels of that kind are {listed(names)}"
    if not names and column not in others:
        there = f"there are none; of a table, name it by --columns text=COLUMN,label={column}"
    hint = f"did you mean {' or '.join(near)}?" if near else there
    if column in others:
        hint = f"it labels {'sentences or spans' if what == 'word' else 'words'}; {hint}"
    return CorpusError(f"no {what} has a label in column {quoted(column)}: {hint}")


def _among(kind: type[_Column], argument: str, *shown: str) -> ProbeFamily:
    return ProbeFamily(argument, shown, kind(shown[0]).question, str(kind.reference), kind)


WORD_LABEL = _among(WordLabel, "column of labels of words", "COLUMN", "upos")
SENTENCE_LABEL = _among(SentenceLabel, "column of labels of sentences", "COLUMN", "label")
SPAN_LABEL = _among(SpanLabel, "column of labels of spans", "COLUMN", "entities")
PAIR_LABEL = _among(PairLabel, "column of labels of pairs", "COLUMN", "label")
WORD_NUMBER = _among(WordNumber, "word layer of numbers", "length")
SENTENCE_NUMBER = _among(SentenceNumber, "column of numbers", "length")
