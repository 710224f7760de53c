"""Stored words and spans as features, chunk by chunk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from bertology.activations import Entry, Recipe, SpanVectors, WordVectors, extract
from bertology.activations import _vectors as module
from bertology.activations import _vectors as vectors_module
from bertology.activations.store import StoredType, write_shard
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import FitError, NameNotFoundError
from bertology.readouts._sources import SpanSource


@pytest.fixture
def entry(encoder: Encoder, sentences: Sentences, recipe: Recipe, small_shards: None) -> Entry:
    return extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 1, 2, 3))


def test_chosen_words_in_the_order_they_were_given(entry: Entry) -> None:
    everything = WordVectors(entry, np.arange(entry.manifest.n_words)).array()
    chosen = np.random.default_rng(1).permutation(entry.manifest.n_words)[:77]
    some = WordVectors(entry, chosen, layers=(3, 1))
    assert (some.n_layers, some.n_items, some.dim) == (2, 77, entry.manifest.dim)
    assert np.array_equal(some.array(), everything[[3, 1]][:, chosen])


def test_all_of_them_on_a_device(entry: Entry, device: str) -> None:
    chosen = np.random.default_rng(1).permutation(entry.manifest.n_words)[:77]
    some = WordVectors(entry, chosen, layers=(3, 1))
    on_device = some.on(torch.device(device))
    assert on_device.device.type == torch.device(device).type
    assert np.array_equal(on_device.cpu().numpy(), some.array())


@pytest.mark.parametrize("memory", [0, 20_000, 1 << 30])
def test_every_item_once_a_pass_whatever_is_kept_in_memory(
    entry: Entry, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "vectors_at_once", lambda dim: 50)
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
    assert (tmp_path / "shard").read_bytes() == save(tensors, metadata={"crc32": checksum})


def random_spans(entry: Entry, n: int, n_spans: int = 2) -> np.ndarray:
    random = np.random.default_rng(4)
    starts = random.integers(0, entry.manifest.n_words - 6, size=(n, n_spans))
    return np.stack([starts, starts + random.integers(1, 7, size=starts.shape)], axis=2)


def words_of(source: SpanVectors) -> dict[tuple[int, int], np.ndarray]:
    """The vectors ``[layer, word, dim]`` of each item and span."""
    found = {}
    for chunk in source.chunks():
        for item, spans in zip(chunk.items.tolist(), chunk.spans.tolist(), strict=True):
            for span, (low, high) in enumerate(spans):
                assert (item, span) not in found
                found[item, span] = chunk.words[:, low:high].numpy()
    return found


@pytest.mark.parametrize("chunk_words", [1, 20, 2048])
def test_words_of_spans_by_direct_indexing(entry: Entry, chunk_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans anywhere, over sentence and shard borders, as where a sentence was read in windows."""
    monkeypatch.setattr(module, "vectors_at_once", lambda dim: chunk_words)
    assert len(entry.manifest.shards) > 2
    everything = WordVectors(entry, np.arange(entry.manifest.n_words)).array()
    spans = random_spans(entry, 150)
    source = SpanVectors(entry, spans, layers=(3, 1))
    assert isinstance(source, SpanSource)
    assert (source.n_layers, source.n_items, source.n_spans, source.layers) == (2, 150, 2, (3, 1))
    found = words_of(source)
    assert len(found) == 300
    for (item, span), vectors in found.items():
        low, high = spans[item, span]
        assert np.array_equal(vectors, everything[[3, 1], low:high])
    crossing = entry.place[spans[:, 0, 0], 0] != entry.place[spans[:, 0, 1] - 1, 0]
    assert crossing.any()


def test_sentences_read_in_windows(tiny_bert: Path, sentences: Sentences, recipe: Recipe, small_shards: None) -> None:
    narrow = load_encoder(str(tiny_bert), device="cpu", max_pieces=12)
    windowed = extract(lambda: narrow, sentences, recipe=replace(recipe, max_pieces=12), layers=(0, 1, 2, 3))
    everything = WordVectors(windowed, np.arange(windowed.manifest.n_words)).array()
    whole = np.stack([sentences.starts[:-1], sentences.starts[1:]], axis=1)
    scattered = [(np.diff(windowed.place[low:high].astype(int), axis=0) != [0, 1]).any() for low, high in whole]
    assert any(scattered)
    source = SpanVectors(windowed, whole[:, None])
    for (item, _), vectors in words_of(source).items():
        assert np.array_equal(vectors, everything[:, slice(*whole[item])])


@pytest.mark.parametrize("span", [[4, 4], [6, 4], [-1, 2], [0, 10**6]])
def test_spans_without_words_are_refused(entry: Entry, span: list[int]) -> None:
    with pytest.raises(FitError, match=rf"item 1: span 1 is \[{span[0]}, {span[1]}\): give a start below its end"):
        SpanVectors(entry, np.array([[[0, 1]], [span]]))


def test_other_mistakes(entry: Entry) -> None:
    with pytest.raises(FitError, match=r"spans have shape \[2, 2\]: give \[item, span, 2\]"):
        SpanVectors(entry, np.array([[0, 1], [1, 2]]))
    with pytest.raises(NameNotFoundError, match="unknown layer of the stored vectors '7'"):
        SpanVectors(entry, np.array([[[0, 1]]]), layers=(7,))
    entry.place[5] = -1
    with pytest.raises(ValueError, match="without vectors"):
        SpanVectors(entry, np.array([[[4, 7]]]))
    assert SpanVectors(entry, np.array([[[0, 5], [6, 9]]])).n_items == 1
