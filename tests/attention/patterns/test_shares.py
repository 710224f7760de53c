from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.head_patterns.maps import PieceMap, layout_of, read_maps, stacked
from bertology.attention import MapBatch, stream_maps
from bertology.attention.maps import Units
from bertology.attention.patterns import CLS, PATTERNS, PUNCTUATION, SEP, PatternShares, load_classifier
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import BertologyError
from bertology.measures.sums import Scope


def batch_of(maps: list[list[PieceMap]], layer: int = 1) -> MapBatch:
    """Texts with one planted map a head, as a pass would show them."""
    kinds = layout_of([heads[0] for heads in maps]).kinds
    lengths = (kinds >= 0).sum(-1)
    is_word = (kinds >= 0) & (kinds != CLS) & (kinds != SEP)
    place = torch.arange(kinds.shape[1]).expand_as(kinds)
    weights = torch.zeros(len(maps), len(maps[0]), kinds.shape[1], kinds.shape[1])
    for row, heads in enumerate(maps):
        own = stacked(heads)[:, 0]
        weights[row, :, : own.shape[-1], : own.shape[-1]] = own
    units = Units(
        sentences=np.arange(len(maps)),
        windows=np.arange(len(maps)),
        lengths=lengths.numpy(),
        word=torch.where(is_word, place, -1),
        position=place,
        form=torch.where(is_word, place, -1),
        is_word=is_word,
        is_cls=kinds == CLS,
        is_sep=kinds == SEP,
        is_punctuation=kinds == PUNCTUATION,
        counts=kinds >= 0,
    )
    return MapBatch(layer, weights, None, units)


@pytest.mark.parametrize("classifier", ["features", "cnn"])
def test_planted_heads_are_found(plant, classifier):
    patterns = ("vertical", "diagonal", "vertical+diagonal", "even")
    texts = [[plant(pattern, n) for pattern in patterns] for n in (11, 18, 30, 47)]
    statistic = PatternShares(Scope(4, (1,), 4, "piece"), classifier=classifier)
    statistic.update(batch_of(texts))
    (found,) = statistic.finish()
    assert (found.names, found.metric) == (PATTERNS, "pattern_share")
    for head, pattern in enumerate(("vertical", "diagonal", "vertical+diagonal", "heterogeneous")):
        assert found.of(pattern)[0, head] == 1
    assert found.under[:, 0, 0].tolist() == [[1] * 4] * 5


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
