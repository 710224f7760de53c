"""Vectors of the special token before the text: as Hugging Face gives them, kept by sentence, in their own entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertology.activations import (
    Entry,
    Recipe,
    SpanVectors,
    WordVectors,
    export_neurox,
    extract,
    read_words,
    store_status,
)
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import ModelError, StoreError
from bertology.readouts import ArraySpans, pooled
from tests.encoders.conftest import encoder as any_encoder
from tests.encoders.conftest import tiny as tiny

ALL = (0, 1, 2, 3)
of_family = pytest.fixture(name="of_family", scope="session")(any_encoder.__wrapped__)  # type: ignore[attr-defined]


@pytest.fixture
def cls(recipe: Recipe) -> Recipe:
    return replace(recipe, pooling="cls")


def array_of(entry: Entry) -> np.ndarray:
    return WordVectors(entry, np.flatnonzero(entry.place[:, 0] >= 0)).array()


def first_of(encoder: Encoder, sentence: Sentence, most: int | None = None) -> np.ndarray:
    """``[layer, dim]`` the first hidden state of a sentence alone, in Hugging Face's own forward."""
    cut = {"truncation": True, "max_length": most} if most else {}
    coded = encoder.tokenizer(sentence.text, return_tensors="pt", **cut)
    assert coded["input_ids"][0, 0] in (encoder.tokenizer.cls_token_id, encoder.tokenizer.bos_token_id)
    with torch.inference_mode():
        states = encoder.model.body(**coded, output_hidden_states=True).hidden_states
    return torch.stack(states)[:, 0, 0].numpy()


@pytest.mark.usefixtures("small_shards")
def test_vectors_are_those_of_hugging_face(
    encoder: Encoder, sentences: Sentences, cls: Recipe, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertology.activations._extract.SHARD_BYTES", 8_000)
    read = load_encoder(encoder.source, device=device)
    entry = extract(lambda: read, sentences, recipe=cls, layers=ALL)
    assert len(entry.manifest.shards) > 1
    expected = np.stack([first_of(encoder, sentence) for sentence in sentences], axis=1)
    np.testing.assert_allclose(array_of(entry), expected, atol=1e-5)
    np.testing.assert_allclose(read_words(encoder, sentences, layers=ALL, pooling="cls"), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "mpnet"])
def test_other_models_have_it_where_they_begin(of_family: Callable[[str], Encoder], family: str) -> None:
    encoder, texts = of_family(family), Sentences([Sentence.from_words(["the", "fox"]), Sentence.from_words(["a"])])
    found = read_words(encoder, texts, layers=range(encoder.n_layers + 1), pooling="cls").numpy()
    expected = np.stack([first_of(encoder, sentence) for sentence in texts], axis=1)
    # The last state of a model with a final norm is one norm further in Hugging Face's own list.
    last = encoder.n_layers if family == "modernbert" else encoder.n_layers + 1
    np.testing.assert_allclose(found[:last], expected[:last], atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_models_without_it_refuse(of_family: Callable[[str], Encoder], family: str) -> None:
    with pytest.raises(ModelError, match=r"^the model has no special token before the text, so no cls: pool mean, max"):
        read_words(of_family(family), Sentences([Sentence.from_words(["fox"])]), layers=(1,), pooling="cls")


def test_of_a_long_sentence_it_is_the_first_window_s(encoder: Encoder, sentences: Sentences, cls: Recipe) -> None:
    narrow = load_encoder(encoder.source, device="cpu", max_pieces=8)
    entry = extract(lambda: narrow, sentences, recipe=replace(cls, max_pieces=8), layers=(2,))
    expected = np.stack([first_of(encoder, sentence, 8)[2] for sentence in sentences])
    full = np.array([len(encoder.tokenizer(sentence.text)["input_ids"]) <= 8 for sentence in sentences])
    assert 0 < full.sum() < len(sentences)
    found = array_of(entry)[0]
    np.testing.assert_allclose(found[full], expected[full], atol=1e-5)
    # Where text goes on, Hugging Face cuts as many pieces as the first window holds.
    np.testing.assert_allclose(found[~full], expected[~full], atol=1e-5)


def test_sentences_without_vectors_are_listed(encoder: Encoder, sentences: Sentences, cls: Recipe) -> None:
    narrow = load_encoder(encoder.source, device="cpu", max_pieces=8)
    entry = extract(lambda: narrow, sentences, recipe=replace(cls, max_pieces=8, on_long="skip"), layers=(1,))
    long = [i for i, one in enumerate(sentences) if len(encoder.tokenizer(one.text)["input_ids"]) > 8]
    assert [number for number, *_ in entry.manifest.skipped] == long == np.flatnonzero(entry.place[:, 0] < 0).tolist()
    number, name, text, reason = entry.manifest.skipped[0]
    assert (name, text) == (sentences.id(number), sentences.text(number))
    assert "the model takes 6" in reason
    unread = Sentences([Sentence.from_words(["\u200b"]), Sentence.from_words(["dogs"])])
    recipe = replace(cls, text_fingerprint=unread.text_fingerprint)
    entry = extract(lambda: encoder, unread, recipe=recipe, layers=(1,))
    assert entry.place[:, 0].tolist() == [-1, 0]


@pytest.mark.usefixtures("small_shards")
def test_a_deleted_shard_alone_is_read_again(
    encoder: Encoder, sentences: Sentences, cls: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertology.activations._extract.SHARD_BYTES", 8_000)
    entry = extract(lambda: encoder, sentences, recipe=cls, layers=ALL)
    assert len(entry.manifest.shards) > 2
    whole, others = array_of(entry), {path: path.stat().st_mtime_ns for path in entry.folder.glob("shard-*")}
    entry.shard_path(1).unlink()
    others.pop(entry.shard_path(1))
    again = extract(lambda: encoder, sentences, recipe=cls, layers=ALL)
    assert not again.damaged_files()
    assert {path: path.stat().st_mtime_ns for path in others} == others
    np.testing.assert_array_equal(array_of(again), whole)


def test_it_lies_next_to_words(encoder: Encoder, sentences: Sentences, recipe: Recipe, cls: Recipe) -> None:
    words = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    entry = extract(lambda: encoder, sentences, recipe=cls, layers=ALL)
    assert entry.folder != words.folder
    assert recipe.find(ALL) == words
    listed = {status.folder: status.describe() for status in store_status()}
    assert f"{len(sentences)} sentences, cls, float32" in listed[entry.folder]
    assert f"{sentences.n_words} words, mean, float32" in listed[words.folder]
    with pytest.raises(StoreError, match="one vector a sentence"):
        export_neurox(entry, sentences, Path("x.h5"))


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
@pytest.mark.parametrize("n_spans", [1, 2])
def test_words_are_pooled_as_numpy_pools_them(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, pooling: str, n_spans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertology.activations._vectors.CHUNK_WORDS", 30)
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    words, draw = array_of(entry), np.random.default_rng(2)
    starts = draw.integers(0, sentences.n_words - 8, (50, n_spans))
    spans = np.stack([starts, starts + draw.integers(1, 8, starts.shape)], axis=2)
    numpy = {"mean": lambda of: of.mean(1), "max": lambda of: of.max(1), "last": lambda of: of[:, -1]}[pooling]
    expected = np.stack([np.concatenate([numpy(words[:, a:b]) for a, b in item], axis=1) for item in spans], axis=1)
    for memory in (0, 100_000, 1 << 30):
        source = pooled(SpanVectors(entry, spans, memory=0), pooling=pooling, memory=memory)  # type: ignore[arg-type]
        for _ in range(2):  # the second time some of them, or all, from memory
            found = np.empty((source.n_layers, source.n_items, source.dim), dtype=np.float32)
            for items, vectors in source.chunks():
                found[:, items.numpy()] = vectors.numpy()
            np.testing.assert_allclose(found, expected, atol=1e-6)
    for items, vectors in pooled(ArraySpans(words, spans), pooling=pooling).chunks():  # type: ignore[arg-type]
        np.testing.assert_allclose(vectors, expected[:, items.numpy()], atol=1e-6)
