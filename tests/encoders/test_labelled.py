"""Vectors and attention as arrays with labels, against transformers and numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from bertology import Encoder, load_encoder
from bertology.errors import CorpusError, ModelError, NameNotFoundError

TEXTS = ["The dogs chased a cat.", "A cat saw the birds near a Cat."]


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert))


def reference(folder: Path, text: str) -> tuple[np.ndarray, np.ndarray, list[str], list[tuple[int, int]]]:
    """Hidden states, maps, pieces and their offsets, as transformers gives them."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    offsets = [(a, b) for a, b in encoded.pop("offset_mapping")[0].tolist()]
    with torch.inference_mode():
        out = model(**encoded, output_hidden_states=True, output_attentions=True)
    states, maps = (torch.cat(parts).numpy() for parts in (out.hidden_states, out.attentions))
    return states, maps, tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist()), offsets


def test_vectors_are_the_means_of_hidden_states(encoder: Encoder, tiny_bert: Path) -> None:
    found = encoder.vectors(TEXTS)
    assert found.shape == (4, 6 + 9, 32)
    frame = found.to_pandas()
    assert frame.index.names == ["layer", "text", "place", "word"]
    for number, text in enumerate(TEXTS, start=1):
        states, _, _, offsets = reference(tiny_bert, text)
        end = 0
        for _, of_number, place, word in frame.loc[[2]].index:
            if of_number == number:
                start = text.index(word, end)
                end = start + len(word)
                pieces = [k for k, (a, b) in enumerate(offsets) if start <= a < b <= end]
                expected = states[2][pieces].mean(0)
                np.testing.assert_allclose(frame.loc[(2, number, place, word)].to_numpy(), expected, atol=1e-5)


def test_one_word_in_several_texts(encoder: Encoder) -> None:
    every, found = encoder.vectors(TEXTS), encoder.vectors(TEXTS, layers=[-1, 0], word="cat", pooling="first")
    assert list(found.labels["word"]) == [(1, 5, "cat"), (2, 2, "cat"), (2, 8, "Cat")]
    assert list(found.labels["layer"]) == [3, 0]
    places = [list(every.labels["word"]).index(label) for label in found.labels["word"]]
    np.testing.assert_allclose(
        found.at(layer=0).to_numpy(), np.asarray(encoder.vectors(TEXTS, pooling="first"))[0, places]
    )
    for wrong, error, message in (
        ({"layers": 4}, ModelError, "layer 4: layers are 0…3"),
        ({"layers": []}, ModelError, "no layer"),
        ({"word": "horse"}, CorpusError, "word 'horse' stands in none of the texts"),
    ):
        with pytest.raises(error, match=message):
            encoder.vectors(TEXTS, **wrong)  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match="row 1: column"):
        encoder.vectors(["a", ""])


def test_attention_is_that_of_transformers(encoder: Encoder, tiny_bert: Path) -> None:
    found = encoder.attention(TEXTS[0], level="piece")
    _, maps, pieces, _ = reference(tiny_bert, TEXTS[0])
    np.testing.assert_allclose(found.to_numpy(), maps, atol=1e-5)
    head = found.at(layer=2, head=3).to_pandas()
    assert list(head.index) == list(head.columns)
    assert [label.lower() for label in head.index] == [piece.lower() for piece in pieces]
    np.testing.assert_allclose(head.to_numpy(), maps[1, 2], atol=1e-5)
    np.testing.assert_allclose(found.to_pandas().loc[(2, 3)].to_numpy(), maps[1, 2], atol=1e-5)


def test_attention_between_words(encoder: Encoder) -> None:
    found = encoder.attention(TEXTS[0], layers=-1)
    assert list(found.labels["from"]) == ["[CLS]", "The", "dogs", "chased", "a", "cat", ".", "[SEP]"]
    np.testing.assert_allclose(np.asarray(found).sum(-1), 1, atol=1e-5)
    assert found.shape == (1, 4, 8, 8)
    pair = encoder.attention(*TEXTS, layers=[1])
    assert pair.shape[-1] == 6 + 9 + 3
    with pytest.raises(NameNotFoundError, match="unknown head '9'"):
        found.at(head=9)
    with pytest.raises(ModelError, match="layer 0: layers are 1…3"):
        encoder.attention(TEXTS[0], layers=0)


def test_negative_layers_are_counted_from_the_last_of_the_model(encoder: Encoder) -> None:
    n_layers = encoder.n_layers
    vectors, maps = encoder.vectors(TEXTS, layers=[0, n_layers]), encoder.attention(TEXTS[0], layers=[1, 2])
    np.testing.assert_array_equal(vectors.at(layer=-1).values, vectors.at(layer=n_layers).values)
    np.testing.assert_array_equal(maps.at(layer=1 - n_layers).values, maps.at(layer=2).values)
    with pytest.raises(NameNotFoundError, match="unknown layer '2'"):
        vectors.at(layer=1 - n_layers)
