"""Encodings, batches, negative layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertology.activations import Recipe, read_words
from bertology.corpora import as_sentences
from bertology.encoders import Encoder, Encoding
from bertology.encoders.batching import join_batches, plan_batches
from bertology.errors import ModelError
from tests.encoders.test_hidden_states import reference

Encoders = Callable[[str], Encoder]
TEXTS = ["nobody knows the lazy fox and why they jump", "she said a day", "the dogs"]
FIRST = "what a day"
RELATIVE = ("deberta-v3", "modernbert", "t5")
ABSOLUTE = ("bert", "roberta", "distilbert", "albert", "electra", "deberta-v2", "mpnet", "gpt2")


def read(encoder: Encoder, encoding: Encoding | None = None) -> torch.Tensor:
    return read_words(encoder, TEXTS, layers=range(encoder.n_layers + 1), encoding=encoding)


def of_first_text(encoder: Encoder, folder: Path, inputs: dict[str, Any]) -> torch.Tensor:
    """``[layer, word, dim]`` of the words of the first text, read from the end of the one row of these inputs."""
    with torch.no_grad():
        states = torch.stack(reference(folder)(**inputs, output_hidden_states=True).hidden_states)[:, 0]
    pieces = encoder.tokenize(TEXTS[:1])
    before = states.shape[1] - int(pieces.window_lengths[0])
    spans = zip(pieces.word_first + before, pieces.word_last + before, strict=True)
    return torch.stack([states[:, first:last].mean(dim=1) for first, last in spans], dim=1)


@pytest.mark.parametrize("family", ABSOLUTE)
def test_a_shift_adds_to_the_positions_of_the_model(family: str, encoder: Encoders, tiny: Any) -> None:
    own = encoder(family)
    row = torch.from_numpy(own.tokenize(TEXTS[:1]).window(0).astype(np.int64))[None]
    first = 2 if family in ("roberta", "mpnet") else 0
    plain = of_first_text(own, tiny(family), {"input_ids": row})
    positions = torch.arange(row.shape[1])[None] + first
    same = of_first_text(own, tiny(family), {"input_ids": row, "position_ids": positions})
    torch.testing.assert_close(same, plain, rtol=1e-5, atol=1e-5)
    expected = of_first_text(own, tiny(family), {"input_ids": row, "position_ids": positions + 9})
    shifted = read(own, Encoding(shift=9))[:, : expected.shape[1]]
    torch.testing.assert_close(shifted, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(shifted, plain, atol=1e-2)
    opened = positions + 9
    opened[:, : own.n_prefix] = positions[:, : own.n_prefix]
    expected = of_first_text(own, tiny(family), {"input_ids": row, "position_ids": opened})
    shifted = read(own, Encoding(shift=9, is_opened_at_0=True))[:, : expected.shape[1]]
    torch.testing.assert_close(shifted, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", RELATIVE)
def test_relative_positions_stay_as_they_are(family: str, encoder: Encoders) -> None:
    moved = read(encoder(family), Encoding(shift=9)) - read(encoder(family))
    assert float(moved.abs().max()) <= (1e-4 if family == "modernbert" else 0)


def test_positions_that_cannot_be_named_are_refused(encoder: Encoders) -> None:
    with pytest.raises(ModelError, match="BartEncoder takes no position_ids"):
        read(encoder("bart"), Encoding(shift=1))


@pytest.mark.parametrize("family", ["bert", "albert", "electra"])
def test_segments_are_exchanged(family: str, encoder: Encoders, tiny: Any) -> None:
    own = encoder(family)
    row = torch.from_numpy(own.tokenize(TEXTS[:1]).window(0).astype(np.int64))[None]
    expected = of_first_text(own, tiny(family), {"input_ids": row, "token_type_ids": torch.ones_like(row)})
    exchanged = read(own, Encoding(other_segment=True))[:, : expected.shape[1]]
    torch.testing.assert_close(exchanged, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(exchanged, read(own)[:, : expected.shape[1]], atol=1e-2)


@pytest.mark.parametrize("family", ["distilbert", "mpnet", "modernbert", "deberta-v3", "t5", "bart"])
def test_a_model_without_segments_reads_both_alike(family: str, encoder: Encoders) -> None:
    assert encoder(family).n_segments == 1
    assert torch.equal(read(encoder(family), Encoding(other_segment=True)), read(encoder(family)))


def test_the_second_of_a_pair_is_what_the_tokenizer_makes(encoder: Encoders, tiny: Any) -> None:
    own = encoder("bert")
    pair = own.tokenizer(FIRST, TEXTS[0], return_tensors="pt")
    assert set(pair["token_type_ids"][0].tolist()) == {0, 1}
    expected = of_first_text(own, tiny("bert"), dict(pair))
    second = read(own, Encoding(after=FIRST))[:, : expected.shape[1]]
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-4)
    hidden = dict(pair)
    hidden["attention_mask"] = torch.where(pair["token_type_ids"] == 1, 1, 0)
    hidden["attention_mask"][:, 0] = 1
    expected = of_first_text(own, tiny("bert"), hidden)
    second = read(own, Encoding(after=FIRST, is_hidden=True))[:, : expected.shape[1]]
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-4)


def test_a_hidden_text_is_no_context(encoder: Encoders) -> None:
    """Of relative positions nothing but the context is left, and that is hidden."""
    own = encoder("t5")
    plain = read(own)
    assert not torch.allclose(read(own, Encoding(after=FIRST)), plain, atol=1e-2)
    hidden = read(own, Encoding(after=FIRST, is_hidden=True))
    torch.testing.assert_close(hidden, plain, rtol=1e-4, atol=1e-4)


def test_what_becomes_too_long_is_skipped(encoder: Encoders) -> None:
    own = encoder("bert")
    lengths = own.tokenize(TEXTS).window_lengths
    assert lengths[0] > lengths[1] > lengths[2]
    encoded = own.tokenize(TEXTS, encoding=Encoding(shift=own.max_pieces - int(lengths[1])))
    assert encoded.n_windows == 2
    assert [one.form for one in encoded.skipped] == TEXTS[0].split()
    assert "is longer than the 80 that the model takes" in encoded.skipped[0].reason
    short = own.tokenize(TEXTS[1:])
    assert encoded.ids.tolist() == short.ids.tolist()
    n_skipped = len(TEXTS[0].split())
    assert encoded.word_window[n_skipped:].tolist() == short.word_window.tolist()
    assert (encoded.word_window[:n_skipped] == -1).all()
    with pytest.raises(ModelError, match="no sentence fits into the 80 positions"):
        own.tokenize(TEXTS, encoding=Encoding(shift=79))
    with pytest.raises(ModelError, match="position 80 of 5 pieces is not among its 80 positions"):
        own.hidden_states(torch.ones(1, 5, dtype=torch.long), layers=[0], position_shift=76)
    assert own.tokenize([], encoding=Encoding(shift=79)).n_windows == 0


def test_a_tokenizer_that_joins_no_texts_is_refused(encoder: Encoders) -> None:
    with pytest.raises(ModelError, match="puts no separator between two texts"):
        encoder("gpt2").tokenize(TEXTS, encoding=Encoding(after=FIRST))


def test_encodings_are_stored_apart() -> None:
    text = as_sentences(TEXTS).text_fingerprint
    plain, shifted = Recipe("model", text), Recipe("model", text, encoding=Encoding(shift=3))
    assert len({plain.key, shifted.key, Recipe("model", text, encoding=Encoding(shift=4)).key}) == 3
    assert str(Encoding(shift=3, is_opened_at_0=True)) == "positions of the text + 3"
    assert str(Encoding(shift=3, other_segment=True, after="a", is_hidden=True)) == (
        "positions + 3, segments exchanged, after 'a', which is hidden"
    )


@given(st.lists(st.integers(3, 600), min_size=1, max_size=300), st.integers(16, 4096))
def test_each_window_is_read_once_and_padding_stays_small(lengths: list[int], pieces: int) -> None:
    batches = plan_batches(np.array(lengths), pieces=pieces)
    assert sorted(window for batch in batches for window in batch.windows.tolist()) == list(range(len(lengths)))
    for batch in batches:
        own = np.array(lengths)[batch.windows]
        assert batch.length == own.max()
        assert batch.is_padded == (own.min() < own.max())
        assert own.min() >= 0.87 * own.max()
        assert batch.length * len(own) <= max(pieces, batch.length)


@given(st.lists(st.integers(3, 600), min_size=1, max_size=300), st.integers(64, 8192))
def test_joined_batches_keep_the_order_of_windows(lengths: list[int], pieces: int) -> None:
    planned = plan_batches(np.array(lengths), pieces=64)
    joined = join_batches(planned, pieces=pieces)
    assert len(joined) <= len(planned)
    np.testing.assert_array_equal(*(np.concatenate([batch.windows for batch in each]) for each in (planned, joined)))
    for batch in joined:
        own = np.array(lengths)[batch.windows]
        assert batch.length == own.max()
        assert batch.is_padded == (own.min() < own.max())
        assert own.min() >= 0.75 * own.max()
        assert batch.length * len(own) <= max(pieces, 64, batch.length)
