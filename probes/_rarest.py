"""The rarest word of each sentence."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, load_corpus

Words = NDArray[np.int64]


def rarest_words(sentences: Sentences, *, frequencies: str) -> tuple[Words, Words]:
    """Every word of a sentence joined to the rarest of its sentence, itself too; of several as rare to all of them.

    Sentences of one word are left out.

    Args:
        sentences: the text.
        frequencies: name or path of the corpus in whose train split forms are counted, whatever their case; the text
            itself if empty.

    Raises:
        BertologyError: that corpus cannot be read, or has no train split.
    """
    counted = load_corpus(frequencies)["train"] if frequencies else sentences
    often: Counter[str] = Counter()
    for form, times in zip(counted.forms.values, np.bincount(counted.forms.codes).tolist(), strict=True):
        often[form.casefold()] += times
    of_word = np.array([often[form.casefold()] for form in sentences.forms.values])[sentences.forms.codes]
    pairs = []
    for first, last in zip(sentences.starts[:-1].tolist(), sentences.starts[1:].tolist(), strict=True):
        if last - first > 1:
            own = of_word[first:last]
            rarest = first + np.flatnonzero(own == own.min())
            pairs.append((np.repeat(np.arange(first, last), len(rarest)), np.tile(rarest, last - first)))
    if not pairs:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate([asked for asked, _ in pairs]), np.concatenate([found for _, found in pairs])
