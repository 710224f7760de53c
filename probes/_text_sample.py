"""A sample of running text for statistics of vectors: whole sentences, drawn at random, and what their words are."""

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences


def words_of_sentences(sentences: Sentences, most: int) -> NDArray[np.int64]:
    """Numbers of the words of as many random sentences as have ``most`` words at most; of all of a smaller text."""
    lengths = np.diff(sentences.starts)
    if lengths.sum() <= most:
        return np.arange(sentences.n_words)
    order = np.random.default_rng(0).permutation(len(lengths))
    chosen = np.zeros(len(lengths), dtype=bool)
    chosen[order[: max(1, int(np.searchsorted(lengths[order].cumsum(), most, side="right")))]] = True
    return np.flatnonzero(np.repeat(chosen, lengths))


def is_punctuation(sentences: Sentences, words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """``[word]`` whether words are tagged as punctuation, or without tags have no letter and no digit."""
    if "upos" in sentences.layers:
        tags = sentences.layers["upos"]
        kinds = np.array([*(tag in ("PUNCT", "SYM") for tag in tags.values), False])
        return np.asarray(kinds[tags.codes[words]])
    forms = sentences.forms
    kinds = np.array([not any(letter.isalnum() for letter in form) for form in (*forms.values, "a")])
    return np.asarray(kinds[forms.codes[words]])


def sampled_sentences(sentences: Sentences, most_words: int) -> Sentences:
    """The sentences of :func:`words_of_sentences`, in their order."""
    words = words_of_sentences(sentences, most_words)
    return Sentences(sentences[number] for number in np.unique(sentences.sentence_of_word[words]).tolist())
