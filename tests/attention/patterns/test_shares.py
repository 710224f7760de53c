from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from benchmarks.head_patterns.maps import layout_of, read_maps, stacked
from bertology.attention import stream_maps
from bertology.attention.patterns import PATTERNS, PatternShares, load_classifier
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import BertologyError


def test_shares_by_looking_at_each_map(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    loaded = encoder("bert")
    found = stream_maps(loaded, sentences, [PatternShares], level="piece").results[0][0]
    heads = [(layer, head) for layer in range(1, 4) for head in range(1, 5)]
    expected = np.zeros((len(PATTERNS), 3, 4, len(sentences)))
    for number, sentence in enumerate(sentences):
        for (layer, head), one in zip(heads, read_maps(loaded, [sentence], heads), strict=True):
            if len(one) >= 5:
                layout = layout_of([one])
                own = int(load_classifier().classes(stacked([one]), layout)[0, 0])
                expected[own, layer - 1, head - 1, number] += 1
    np.testing.assert_array_equal(found.over, expected)
    np.testing.assert_allclose(found.values.sum(0), 1)
    assert (found.under[0, 0, 0] == 0).any()  # of one word


def test_settings_that_cannot_be(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    with pytest.raises(BertologyError, match="level 'piece'"):
        stream_maps(encoder("bert"), sentences, [PatternShares])
    with pytest.raises(BertologyError, match="0 to 1"):
        stream_maps(encoder("bert"), sentences, [partial(PatternShares, confidence=7)], level="piece")
