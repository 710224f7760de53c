"""Batches of maps in which heads look where a test wants."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from bertology.attention.maps import HeadStatistic, MapBatch, MapText
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.batching import Batch
from bertology.measures.sums import HeadRatios, Scope
from tests.readouts.trees import random_heads

LooksAt = Callable[[int, int, int], int | None]
"""From number of the sentence, its length and a word's place to the place of the word it looks at; None for the token
that closes the text."""


def planted_ratios(
    encoder: Encoder, make: Callable[[Scope], HeadStatistic], sentences: Sentences, heads: Sequence[LooksAt]
) -> list[HeadRatios]:
    """What a statistic makes of one layer of heads that look at one unit each."""
    text = MapText(encoder, sentences, level="word", on_long="error")
    units = text.inputs(Batch(text.windows, int(text.pieces.window_lengths.max()), True)).units
    maps = torch.zeros(len(units), len(heads), *units.word.shape[1:] * 2)
    for row, sentence in enumerate(units.sentences.tolist()):
        n_words = int(units.is_word[row].sum())
        for head, looks_at in enumerate(heads):
            for place in range(n_words):
                target = looks_at(sentence, n_words, place)
                # The unit before the first word opens the text, the one after the last closes it.
                maps[row, head, 1 + place, n_words + 1 if target is None else 1 + target] = 1.0
    statistic = make(Scope(len(sentences), (1,), len(heads), "word"))
    statistic.update(MapBatch(1, maps, None, units))
    return list(statistic.finish())


def random_trees(sentences: Sentences, seed: int) -> list[list[int]]:
    """A tree by lot over the words of each sentence: heads as CoNLL-U numbers them."""
    lot = np.random.default_rng(seed)
    return [list(random_heads(len(sentence), lot)) for sentence in sentences]
