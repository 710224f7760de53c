from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from bertology.activations import Entry, Recipe, WordVectors, extract
from bertology.activations import _vectors as vectors_module
from bertology.activations._store import StoredType, write_shard
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
    whole = sum(x.nbytes for _, x in passes[0]) // 4 * source.dtype.itemsize
    assert kept == (whole if whole <= memory else 0)


@pytest.mark.parametrize(("stored", "width"), [("float16", 2), ("float32", 4)])
def test_what_is_kept_is_in_float32_where_there_is_room_else_as_on_disk(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, stored: StoredType, width: int
) -> None:
    entry = extract(lambda: encoder, sentences, recipe=replace(recipe, stored_dtype=stored), layers=(0, 2))
    n_bytes = 2 * entry.manifest.n_words * entry.manifest.dim * width
    assert entry.manifest.n_bytes == n_bytes
    for memory, expected in ((1 << 30, n_bytes * 4 // width), (n_bytes, n_bytes), (n_bytes - 1, 0)):
        source = WordVectors(entry, np.arange(entry.manifest.n_words), memory=memory)
        passes = [list(source.chunks()) for _ in range(2)]
        assert all(vectors.dtype == torch.float32 for chunks in passes for _, vectors in chunks)
        assert source.dtype == getattr(torch, stored)
        assert sum(vectors.nbytes for _, vectors in source._kept.values()) == expected


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists the maps of a process")
def test_no_shard_stays_mapped(entry: Entry) -> None:
    for _ in WordVectors(entry, np.arange(entry.manifest.n_words), memory=0).chunks():
        assert entry.folder.name not in Path("/proc/self/maps").read_text(encoding="utf-8")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_shard_is_what_safetensors_writes(tmp_path: Path, dtype: type[np.generic]) -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 37, 5)).astype(dtype)
    checksum = write_shard(tmp_path / "shard", vectors, [0, 3, 12])
    tensors = {"layer_00": vectors[0], "layer_03": vectors[1], "layer_12": vectors[2]}
    assert (tmp_path / "shard").read_bytes() == save(tensors, metadata={"blake2b": checksum})


def test_a_layer_that_is_not_stored(entry: Entry) -> None:
    with pytest.raises(NameNotFoundError, match="unknown layer of the stored vectors '7'"):
        WordVectors(entry, np.arange(3), layers=(7,))


def test_words_without_vectors_cannot_be_chosen(entry: Entry) -> None:
    entry.place[5] = -1
    with pytest.raises(ValueError, match="without vectors"):
        WordVectors(entry, np.arange(10))
