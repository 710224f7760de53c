"""Samples of a text's words, and counts of the items that statistics are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences

if TYPE_CHECKING:
    from bertology.activations.layers import LayerVectors


Splits = Mapping[str, Sentences]
"""Sentences by split."""
SplitWords = Mapping[str, NDArray[np.int64]]
"""``[word]`` numbers of words by split, ascending."""
SplitVectors = Mapping[str, "LayerVectors"]
"""Vectors of words by split."""


@dataclass(frozen=True)
class GeometryCounts:
    """Counts of the items of a probe's statistics, and of those left out."""

    n_items: int
    n_train: int = 0
    n_classes: int = 0
    n_unseen_label: int = 0  # items that train has no example of; they are scored
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Items that are left out, by reason, but for words that the model cannot read."""
    unit: str = "items"  # display name of the items, in the plural: subwords


def sampled_words(sentences: Sentences, most: int) -> NDArray[np.int64]:
    """Numbers of the words of as many random sentences as have ``most`` words at most; of all of a smaller text."""
    lengths = np.diff(sentences.starts)
    if lengths.sum() <= most:
        return np.arange(sentences.n_words)
    order = np.random.default_rng(0).permutation(len(lengths))
    chosen = np.zeros(len(lengths), dtype=bool)
    chosen[order[: max(1, int(np.searchsorted(lengths[order].cumsum(), most, side="right")))]] = True
    return np.flatnonzero(np.repeat(chosen, lengths))


def sampled_sentences(sentences: Sentences, most_words: int) -> Sentences:
    """The sentences of :func:`sampled_words`, in their order."""
    words = sampled_words(sentences, most_words)
    return Sentences(sentences[number] for number in np.unique(sentences.sentence_of_word[words]).tolist())


def is_punctuation(sentences: Sentences, words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """``[word]`` whether words are tagged as punctuation, or without tags have no letter and no digit."""
    if "upos" in sentences.layers:
        tags = sentences.layers["upos"]
        kinds = np.array([*(tag in ("PUNCT", "SYM") for tag in tags.values), False])
        return np.asarray(kinds[tags.codes[words]])
    forms = sentences.forms
    kinds = np.array([not any(letter.isalnum() for letter in form) for form in (*forms.values, "a")])
    return np.asarray(kinds[forms.codes[words]])
