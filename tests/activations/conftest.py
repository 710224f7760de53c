"""A tiny encoder, some sentences, and the plain way of reading them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertology.activations import Recipe
from bertology.corpora import Sentence, Sentences, load_corpus
from bertology.encoders import Encoder, load_encoder

Reference = Callable[..., NDArray[np.float32]]


@pytest.fixture(scope="session")
def encoder(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert), device="cpu")


@pytest.fixture(scope="session")
def sentences() -> Sentences:
    return load_corpus("pocket")["dev"][:60]


@pytest.fixture
def recipe(encoder: Encoder, sentences: Sentences) -> Recipe:
    return Recipe(encoder.fingerprint, sentences.text_fingerprint, stored_dtype="float32")


@pytest.fixture(scope="session")
def plain_vectors(encoder: Encoder) -> Reference:
    """Each sentence alone through Hugging Face's own forward, words pooled in a loop: ``[layer, word, dim]``."""

    def read(sentences: Sentences, pooling: str = "mean") -> NDArray[np.float32]:
        found = []
        for sentence in sentences:
            found += _words_of(encoder, sentence, pooling)
        return np.stack(found, axis=1)

    return read


def _words_of(encoder: Encoder, sentence: Sentence, pooling: str) -> list[NDArray[np.float32]]:
    coded = encoder.tokenizer(sentence.text, return_tensors="pt", return_offsets_mapping=True)
    with torch.inference_mode():
        body = encoder.model.body
        hidden = body(coded["input_ids"], attention_mask=coded["attention_mask"], output_hidden_states=True)
    layers = torch.stack(hidden.hidden_states)[:, 0]
    words = []
    for start, end in sentence.spans:
        places = [i for i, (a, b) in enumerate(coded["offset_mapping"][0].tolist()) if a < end and b > start and a < b]
        own = layers[:, places]
        words.append({"mean": own.mean(1), "first": own[:, 0], "last": own[:, -1]}[pooling].numpy())
    return words


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a few hundred words, so that a small text has several."""
    monkeypatch.setattr("bertology.activations._extract.SHARD_BYTES", 60_000)
    monkeypatch.setattr("bertology.activations._extract.PIECES_IN_BATCH", 128)


@pytest.fixture
def half(recipe: Recipe) -> Recipe:
    return replace(recipe, stored_dtype="float16")
