from __future__ import annotations

import numpy as np
import pytest

from bertology.activations import Entry, Recipe, WordVectors, extract
from bertology.activations import _vectors as vectors_module
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import NameNotFoundError


@pytest.fixture
def entry(encoder: Encoder, sentences: Sentences, recipe: Recipe, small_shards: None) -> Entry:
    return extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 1, 2, 3))


def test_chosen_words_in_the_order_they_were_given(entry: Entry) -> None:
    everything = WordVectors(entry, np.arange(entry.manifest.n_words)).array()
    chosen = np.random.default_rng(1).permutation(entry.manifest.n_words)[:77]
    some = WordVectors(entry, chosen, layers=(3, 1))
    assert (some.n_layers, some.n_items, some.dim) == (2, 77, entry.manifest.dim)
    assert np.array_equal(some.array(), everything[[3, 1]][:, chosen])


@pytest.mark.parametrize("memory", [0, 20_000, 1 << 30])
def test_every_item_once_a_pass_whatever_is_kept_in_memory(
    entry: Entry, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "CHUNK_WORDS", 50)
    source = WordVectors(entry, np.arange(entry.manifest.n_words), memory=memory)
    passes = [[(items.numpy(), x.numpy().copy()) for items, x in source.chunks()] for _ in range(2)]
    assert np.array_equal(np.sort(np.concatenate([items for items, _ in passes[0]])), np.arange(source.n_items))
    for (items, x), (items_again, x_again) in zip(*passes, strict=True):
        assert np.array_equal(items, items_again)
        assert np.array_equal(x, x_again)
    kept = sum(x.nbytes for _, x in source._kept.values())
    assert kept <= memory


def test_a_layer_that_is_not_stored(entry: Entry) -> None:
    with pytest.raises(NameNotFoundError, match="unknown layer of the stored vectors '7'"):
        WordVectors(entry, np.arange(3), layers=(7,))


def test_words_without_vectors_cannot_be_chosen(entry: Entry) -> None:
    entry.place[5] = -1
    with pytest.raises(ValueError, match="without vectors"):
        WordVectors(entry, np.arange(10))
