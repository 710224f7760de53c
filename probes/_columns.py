"""Labels of words, sentences and pairs of texts under the name of a column of the corpus."""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from difflib import get_close_matches

from bertology.corpora import IGNORED, Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.probing import Examples, layer_examples, sentence_examples, target_examples

_MOST_NUMBERS = 20
"""Distinct whole numbers that may still be classes, such as ratings."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(inf|nan)", re.IGNORECASE | re.ASCII)

_WHOLE = re.compile(r"[-+]?\d+(\.0)?", re.ASCII)
"""A whole number; of those with gaps pandas makes floats, ``1.0``."""


def word_column(sentences: Sentences, column: str) -> Examples:
    """Every word that has a label in a layer of the corpus.

    Raises:
        CorpusError: no word has one.
    """
    if column not in sentences.layers:
        raise _no_column(column, "word", sentences.layers, others=sentences.target_layers)
    return layer_examples(sentences, column)


def sentence_column(sentences: Sentences, column: str) -> Examples:
    """Every sentence that is labelled as a whole.

    Raises:
        CorpusError: none is, parts of sentences are, or a sentence has several labels.
    """
    labels: list[str | None] = [None] * len(sentences)
    for number, targets in sentences.targets(column):
        name, n_words = sentences.id(number) or number + 1, sentences.starts[number + 1] - sentences.starts[number]
        if len(targets) > 1 or not isinstance(targets[0].label, str):
            raise CorpusError(f"sentence {name} has several labels in column {quoted(column)}: give one a sentence")
        if targets[0].span2 is not None:
            raise CorpusError(f"column {quoted(column)} labels pairs of texts, not sentences: take pair_label")
        if targets[0].span1 != (0, n_words):
            raise CorpusError(f"column {quoted(column)} labels parts of sentences (sentence {name}): label whole ones")
        labels[number] = targets[0].label
    if all(label is None for label in labels):
        raise _no_column(column, "sentence", sentences.target_layers, others=sentences.layers)
    n_without = labels.count(None)
    examples = sentence_examples(sentences, labels)
    return replace(examples, skipped={f"no {column} label": n_without} if n_without else {})


def pair_column(sentences: Sentences, column: str) -> Examples:
    """Every labelled pair of texts, or of other spans of one sentence.

    Raises:
        CorpusError: there is none, single spans are labelled, or a pair has several labels.
    """
    if column not in sentences.target_layers:
        raise _no_column(column, "pair of texts", sentences.target_layers, others=sentences.layers)
    examples = target_examples(sentences, column, spans=2)
    if examples.is_multi_label:
        raise CorpusError(f"column {quoted(column)} has several labels a pair: give one")
    n_without = len(sentences) - len(set(examples.clusters.tolist()))
    return replace(examples, skipped={f"no {column} label": n_without} if n_without else {})


def _no_column(column: str, what: str, known: Iterable[str], *, others: Collection[str]) -> CorpusError:
    """The error for a column that no word, sentence or pair has a label in, with the nearest ones there are."""
    names = sorted(known)
    near = get_close_matches(column, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the columns of labels of that kind are {listed(names)}"
    if column in others:
        hint = f"it labels {'sentences or spans' if what == 'word' else 'words'}; {hint}"
    return CorpusError(f"no {what} has a label in column {quoted(column)}: {hint}")


def classes(examples: Examples, column: str, *, numbers: str | None = None) -> Examples:
    """The same items, whose labels are classes.

    Args:
        examples: the items.
        column: what their labels are called.
        numbers: the task for numbers of such items, if there is one.

    Raises:
        CorpusError: the labels are numbers, more than 20 distinct ones or some that are not whole.
    """
    examples = examples.without_ignored()
    values = [value for value in examples.values if value not in IGNORED]
    if values and all(map(_NUMBER.fullmatch, values)):
        fraction = next((value for value in values if not _WHOLE.fullmatch(value)), None)
        if fraction is not None or len(values) > _MOST_NUMBERS:
            what = f"{quoted(fraction)} among them" if fraction is not None else f"{len(values):,} distinct ones"
            remedy = f"take {numbers}:{column}" if numbers else "name classes in the column, such as low and high"
            raise CorpusError(f"column {quoted(column)} holds numbers ({what}), not classes: {remedy}")
    return examples
