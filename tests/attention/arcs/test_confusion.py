"""Confusion of heads and layers about candidates, in bits."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bertology.attention import stream_maps
from bertology.attention.arcs.heads import CandidateConfusion
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from tests.attention.arcs.test_hits import drawn_candidates, looked_at

METRICS = "bits", "above"


def test_bits_are_those_of_the_maps(
    encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded, asked = encoder("bert"), drawn_candidates(sentences)
    maps = [word_maps(loaded, sentence) for sentence in sentences]
    bits, layer_bits, chance = [], [], []
    for _, weights, right in looked_at(asked, sentences, maps):
        bits.append(-np.log2(weights[..., right].sum(-1) / weights.sum(-1)))
        mean = weights.mean(axis=1)
        layer_bits.append(-np.log2(mean[..., right].sum(-1) / mean.sum(-1)))
        chance.append(-np.log2(right.mean()))
    found = stream_maps(loaded, sentences, [partial(CandidateConfusion, arcs=asked, metrics=METRICS)]).results[0]
    assert [(one.metric, one.unit) for one in found] == [
        ("bits", "head"), ("above", "head"), ("bits", "layer"), ("above", "layer"),
    ]  # fmt: skip
    for group, name in enumerate(asked.names):
        which = asked.groups == group
        of_heads, of_layers, by_chance = (np.array(some)[which].mean(0) for some in (bits, layer_bits, chance))
        np.testing.assert_allclose(found[0].of(name), of_heads, atol=1e-5)
        np.testing.assert_allclose(found[1].of(name), of_heads - by_chance, atol=1e-5)
        np.testing.assert_allclose(found[2].of(name)[:, 0], of_layers, atol=1e-5)
        np.testing.assert_allclose(found[3].of(name)[:, 0], of_layers - by_chance, atol=1e-5)
