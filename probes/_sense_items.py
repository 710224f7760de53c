"""Occurrences of words with their senses, and the words of their contexts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import CorpusError, quoted
from bertology.geometry import SenseItems

_NO_SENSES = (
    "no word has a sense: give CoarseWSD-20, a lexical sample of Senseval, a table with columns such as "
    "text=sentence,label=sense,at=place, or pseudowords:CORPUS"
)


@dataclass(frozen=True)
class Occurrence:
    """One word with its sense."""

    span: tuple[int, int]
    """Numbers of its words in the split, the last not included."""
    word: str
    sense: str
    sentence: int


@dataclass(frozen=True)
class SenseData:
    """Items of each split, of words with several senses."""

    items: Mapping[str, SenseItems]
    words: tuple[str, ...]
    n_senses: int
    skipped: Mapping[str, int]
    """Of test."""


def occurrences(sentences: Sentences) -> Iterator[Occurrence]:
    """Every target ``sense``, with the label ``word:sense``, or ``sense`` alone of the word as it is written.

    Raises:
        CorpusError: one has several senses, or covers no word.
    """
    for number, targets in sentences.targets("sense"):
        sentence, start = sentences[number], int(sentences.starts[number])
        for target in targets:
            first, last = target.span1
            if len(target.labels) != 1 or first >= last:
                what = "several senses" if first < last else "a sense of no word"
                raise CorpusError(
                    f"sentence {sentence.id or number + 1} has {what} in column 'sense': give one of one word"
                )
            word, colon, sense = target.labels[0].partition(":")
            if not colon:
                word, sense = " ".join(sentence.words[first:last]).casefold(), word
            yield Occurrence((start + first, start + last), word, sense, number)


def sense_data(sentences: Mapping[str, Sentences], *, known: str) -> SenseData:
    """The items of each split, of words that have several senses in the split ``known``.

    Raises:
        CorpusError: there are none.
    """
    found = {split: list(occurrences(text)) for split, text in sentences.items()}
    if not any(found.values()):
        raise CorpusError(_NO_SENSES)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found[known]:
        counts[one.word][one.sense] += 1
    of_test = Counter(one.word for one in found["test"])
    words = tuple(sorted(word for word in of_test if len(counts[word]) > 1))
    if not words:
        _refuse(counts, of_test, known)
    # The most frequent sense first, of equals by name.
    order = {word: [sense for _, sense in sorted((-n, sense) for sense, n in counts[word].items())] for word in words}
    code = {(word, sense): place for word, senses in order.items() for place, sense in enumerate(senses)}
    number = {word: place for place, word in enumerate(words)}
    skipped = Counter(
        {
            "word with one sense": sum(n for word, n in of_test.items() if len(counts[word]) == 1),
            f"word not in {known}": sum(n for word, n in of_test.items() if not counts[word]),
        }
    )
    items = {
        split: _items([one for one in of_split if one.word in number], number, code)
        for split, of_split in found.items()
    }
    return SenseData(items, words, len(code), {reason: n for reason, n in skipped.items() if n})


def _refuse(counts: Mapping[str, Counter[str]], of_test: Mapping[str, int], known: str) -> None:
    if not of_test:
        raise CorpusError("no word has a sense in test: give a test split with senses")
    if not any(counts[word] for word in of_test):
        word = quoted(next(iter(of_test)))
        raise CorpusError(
            f"no word with a sense in test, such as {word}, has one in {known}: split each word's occurrences"
        )
    word = quoted(next(word for word in of_test if counts[word]))
    raise CorpusError(f"every word has a single sense in {known}, such as {word}: give words with two senses or more")


def _items(some: Iterable[Occurrence], number: Mapping[str, int], code: Mapping[tuple[str, str], int]) -> SenseItems:
    some = list(some)
    return SenseItems(
        np.array([one.span for one in some], dtype=np.int64).reshape(-1, 2),
        np.array([number[one.word] for one in some], dtype=np.int64),
        np.array([code.get((one.word, one.sense), -1) for one in some], dtype=np.int64),
        np.array([one.sentence for one in some], dtype=np.int64),
    )


def context_vectors(contexts: Mapping[str, list[list[str]]]) -> dict[str, Any]:
    """By split ``[item, word]`` TF-IDF weights of contexts, of length 1 and sparse; frequencies are those of train."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(analyzer=list)
    weights.fit([*contexts["train"], ["a"]])  # of which there is one word at least
    return {split: weights.transform(of_split).astype(np.float32) for split, of_split in contexts.items()}


def context(sentences: Sentences, bounds: tuple[int, int], span: tuple[int, int]) -> list[str]:
    """The words between two bounds but for those of a span, all numbered in the split, in lower case."""
    places = [*range(bounds[0], span[0]), *range(span[1], bounds[1])]
    forms = sentences.forms
    return [str(forms.values[forms.codes[place]]).casefold() for place in places]
