"""Sentences read with the one after them: what the model is given, what comes out, and which go together."""

from collections.abc import Callable

import pytest
import torch

from bertology.attention import stream_maps
from bertology.attention.maps import MapText
from bertology.attention.measured import Masses
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import ModelError
from tests.attention.recorder import Recorder


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
