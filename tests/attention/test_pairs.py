"""Sentences read with the one after them: what the model is given, what comes out, and which go together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from bertology.attention import stream_maps
from bertology.attention.maps import MapText
from bertology.attention.measured import Masses
from bertology.attention.viewer import read_attention
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import ModelError
from tests.attention.recorder import Recorder

PAIRED = ("bert", "roberta", "xlm-roberta", "electra", "distilbert", "deberta-v2", "mpnet", "t5")


@pytest.mark.parametrize("family", PAIRED)
@pytest.mark.parametrize("level", ["piece", "word"])
def test_maps_are_those_of_the_pair(
    family: str, level: str, encoder: Callable[..., Encoder], sentences: Sentences
) -> None:
    loaded, odd = encoder(family), sentences[:7]
    read = stream_maps(loaded, odd, [Recorder], level=level, pairs=True)  # type: ignore[arg-type]
    assert (read.n_pairs, read.n_apart, read.n_windows, read.n_sentences) == (3, 0, 4, 7)
    seen = []
    for batch in read.results[0]:
        for place, first in enumerate(batch.units.sentences.tolist()):
            together = sentences[first : min(first + 2, 7)]
            expected = read_attention(loaded, list(together))
            units = expected.units(level)  # type: ignore[arg-type]
            own = slice(len(units.word))
            found = batch.maps[place, :, own, own]
            maps = torch.from_numpy(expected.maps(batch.layer, level=level))  # type: ignore[arg-type]
            torch.testing.assert_close(found, maps, rtol=1e-5, atol=1e-6)
            base = int(sentences.starts[first])
            words = [word + base if word >= 0 else -1 for word in units.word]
            assert batch.units.word[place, own].tolist() == words
            special = batch.units.is_cls[place, own] | batch.units.is_sep[place, own]
            assert special.tolist() == list(units.special)
            seen.append((batch.layer, first))
    assert sorted(seen) == [(layer, first) for layer in range(1, loaded.n_layers + 1) for first in (0, 2, 4, 6)]


def test_segments_are_set(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    loaded = encoder("bert")
    text = MapText(loaded, sentences[:2], level="piece", on_long="error", pairs=True)
    (batch,) = text.batches()
    inputs = text.inputs(batch)
    both = loaded.tokenizer(sentences[0].text, sentences[1].text)
    assert inputs.ids[0].tolist() == both["input_ids"]
    assert inputs.types is not None
    assert inputs.types[0].tolist() == both["token_type_ids"]
    assert set(both["token_type_ids"]) == {0, 1}


def test_two_that_are_too_long_are_read_apart_and_counted(
    encoder: Callable[..., Encoder], sentences: Sentences
) -> None:
    loaded = encoder("bert")
    lengths = loaded.tokenize(sentences).window_lengths
    together = (lengths[::2] + lengths[1::2] - 1).tolist()
    most = sorted(together)[1]
    read = stream_maps(encoder("bert", max_pieces=most), sentences, [Recorder], level="piece", layers=[1], pairs=True)
    assert (read.n_pairs, read.n_apart) == (2, 2)
    counted = torch.cat([batch.units.word[batch.units.word_rows] for batch in read.results[0]])
    assert sorted(set(counted.tolist())) == list(range(sentences.n_words)), "every word is read"
    longest = max(int(batch.units.lengths.max()) for batch in read.results[0])
    assert longest <= most
    fits = [first for first, length in zip(range(0, len(sentences), 2), together, strict=True) if length <= most]
    starts = [first for batch in read.results[0] for first in batch.units.sentences.tolist()]
    assert [starts.count(first) for first in fits] == [1, 1]
    assert not {first + 1 for first in fits} & set(starts)


def test_models_without_a_separator(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    with pytest.raises(ModelError, match=r"no separator between two sentences.*texts: sentences"):
        stream_maps(encoder("gpt2"), sentences, [Masses], pairs=True)
