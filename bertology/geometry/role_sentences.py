"""Sentences whose words all have vectors, as questions about fillers in roles read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import LayerVectors, span_means
from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.geometry._roles import constituent_paths, dependency_paths

Integers = NDArray[np.int64]
_POSITIONS = 64
"""Positions in a sentence whose mean is known; later ones share the last."""


@dataclass(frozen=True, eq=False)
class ReadSentences:
    """Sentences of a split of which every word, and the special token where it is read, has a vector."""

    text: Sentences
    numbers: Integers
    """``[sentence]`` their numbers, ascending."""
    words: LayerVectors
    places: Integers
    """``[word]`` places of their words among those that are read."""
    special: LayerVectors | None

    @classmethod
    def of(cls, vectors: Mapping[str, LayerVectors], split: str, text: Sentences) -> ReadSentences:
        """The sentences of a split, by the vectors of its words, and of the special tokens under ``cls:`` and split."""
        words, special = vectors[split], vectors.get(f"cls:{split}")
        numbers = complete_sentences(text, words.words)
        if special is not None:
            numbers = np.intersect1d(numbers, special.words)
        places = np.flatnonzero(np.isin(text.sentence_of_word[words.words], numbers))
        return cls(text, numbers, words, places, special)

    @property
    def lengths(self) -> Integers:
        """``[sentence]`` numbers of words."""
        return np.asarray(np.diff(self.text.starts)[self.numbers])

    def forms(self) -> list[str]:
        """``[word]`` as they are written."""
        forms = self.text.forms
        return [str(forms.values[code]) for code in forms.codes[self.words.words[self.places]].tolist()]

    def sentence_vectors(self) -> NDArray[np.float32]:
        """``[layer, sentence, dim]`` vectors of the special token where it is read, else means over words."""
        if self.special is not None:
            chosen = np.searchsorted(self.special.words, self.numbers)
            return np.stack([self.special.of(layer)[chosen] for layer in self.special.layers])
        ends = self.lengths.cumsum()
        spans = np.stack([ends - self.lengths, ends], axis=1)
        return np.stack([span_means(self.words.of(layer)[self.places], spans) for layer in self.words.layers])


def complete_sentences(sentences: Sentences, words: Integers) -> Integers:
    """Numbers of the sentences of which all words are among some, ascending; none of them is empty."""
    numbers, counts = np.unique(sentences.sentence_of_word[words], return_counts=True)
    return np.asarray(numbers[counts == np.diff(sentences.starts)[numbers]], dtype=np.int64)


def clipped_positions(lengths: Integers) -> Integers:
    """``[word]`` positions in the sentence, of which those far from its start are one."""
    starts = np.repeat(lengths.cumsum() - lengths, lengths)
    return np.minimum(np.arange(lengths.sum()) - starts, _POSITIONS - 1)


def tree_paths(sentences: Sentences, numbers: list[int], *, trees: str) -> list[list[str]]:
    """``[sentence][word]`` paths from the root of ``trees``, which are ``dependencies`` or ``constituents``.

    Raises:
        CorpusError: a sentence has no tree.
    """
    return (_dependencies if trees == "dependencies" else _constituents)(sentences, numbers)


def _dependencies(sentences: Sentences, numbers: list[int]) -> list[list[str]]:
    paths = []
    for number in numbers:
        first, last = sentences.starts[number], sentences.starts[number + 1]
        heads = [] if sentences.heads is None else sentences.heads[first:last].tolist()
        if not heads or min(heads) < 0:
            raise _without_tree(sentences, number, "heads (a treebank in CoNLL-U), or set trees=constituents")
        paths.append(dependency_paths(heads))
    return paths


def _constituents(sentences: Sentences, numbers: list[int]) -> list[list[str]]:
    phrases = {number: [one.span1 for one in targets] for number, targets in sentences.targets("constituents")}
    paths = []
    for number in numbers:
        if number not in phrases:
            raise _without_tree(sentences, number, "phrases (a treebank in brackets, or CoNLL-2012)")
        n_words = int(sentences.starts[number + 1] - sentences.starts[number])
        paths.append(constituent_paths(n_words, phrases[number]))
    return paths


def _without_tree(sentences: Sentences, number: int, needed: str) -> CorpusError:
    name, others = sentences.id(number) or str(number + 1), "left_to_right,right_to_left,bidirectional"
    return CorpusError(f"sentence {name} has no tree: give a corpus with {needed}, or schemes={others}")
