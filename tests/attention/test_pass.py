"""The pass: batches, threads, windows, heads planted in it, and what it refuses."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from bertology.attention import stream_maps
from bertology.attention.measured import Divergences, Masses, NormShares, Offsets, Sharpness
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder
from bertology.errors import CorpusError, ModelError
from bertology.measures.sums import HeadRatios
from tests.attention.recorder import Recorder

ALL = [Masses, Sharpness, Offsets, Divergences]


def ratios(results: tuple[Any, ...]) -> list[HeadRatios]:
    return [part for parts in results if isinstance(parts, tuple) for part in parts]


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_threads_change_nothing(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    many = Sentences([*sentences] * 12)
    loaded = encoder("bert")
    with threads(1):
        alone = stream_maps(loaded, many, ALL)
    with threads(3):
        together = stream_maps(loaded, many, ALL)
        again = stream_maps(loaded, many, ALL)
    for one, three, same in zip(*(ratios(read.results) for read in (alone, together, again)), strict=True):
        np.testing.assert_allclose(three.over, one.over, rtol=1e-12)
        np.testing.assert_array_equal(three.under, one.under)
        np.testing.assert_array_equal(three.over, same.over)
    np.testing.assert_allclose(together.results[-1].matrix, alone.results[-1].matrix, rtol=1e-12)
    np.testing.assert_array_equal(together.results[-1].matrix, again.results[-1].matrix)


def test_padding_changes_nothing(family_of_padding: Encoder, sentences: Sentences) -> None:
    together = ratios(stream_maps(family_of_padding, sentences, ALL).results)
    for number, sentence in enumerate(sentences):
        alone = ratios(stream_maps(family_of_padding, [sentence], ALL).results)
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_allclose(many.over[..., number], one.over[..., 0], rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(many.under[..., number] > 0, one.under[..., 0] > 0)


@pytest.fixture(params=["bert", "modernbert", "t5"])
def family_of_padding(request: pytest.FixtureRequest, encoder: Callable[..., Encoder]) -> Encoder:
    return encoder(request.param)


def test_long_texts_are_merged_in_bands(
    encoder: Callable[..., Encoder], sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = stream_maps(encoder("bert"), sentences, [Recorder]).results[0]
    monkeypatch.setattr("bertology.attention.maps._UNITS_IN_BAND", 3)
    in_bands = stream_maps(encoder("bert"), sentences, [Recorder]).results[0]
    for one, other in zip(whole, in_bands, strict=True):
        torch.testing.assert_close(other.maps, one.maps)


def test_windows(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    whole, narrow = encoder("bert"), encoder("bert", max_pieces=16)
    pieces = narrow.tokenize(sentences)
    read = stream_maps(narrow, sentences, [Recorder, Masses, Divergences])
    assert read.n_windows > len(sentences)
    assert (read.n_words, read.n_skipped) == (sentences.n_words, 0)
    counted = torch.cat([batch.units.word[batch.units.word_rows] for batch in read.results[0] if batch.layer == 1])
    assert sorted(counted.tolist()) == list(range(sentences.n_words))
    for batch in read.results[0]:
        for place, window in enumerate(batch.units.windows.tolist()):
            ids = pieces.window(window)
            tokens = narrow.tokenizer.convert_ids_to_tokens(ids.tolist())
            full = narrow.attentions(torch.tensor([ids.tolist()]), layers=[batch.layer])[batch.layer][0]
            columns = batch.units.word[place].tolist()
            start = 1
            for unit, word in enumerate(columns):
                if word < 0:
                    continue
                # The pieces of a word spell it, and stand after those of the words before it.
                form = whole.tokenize([Sentence.from_words([sentences.word(word)])]).window(0)[1:-1]
                spelled = narrow.tokenizer.convert_ids_to_tokens(form.tolist())
                while tokens[start : start + len(spelled)] != spelled:
                    start += 1
                summed = full[:, :, start : start + len(spelled)].sum(-1)
                torch.testing.assert_close(batch.maps[place, :, 0, unit], summed[:, 0], rtol=1e-5, atol=1e-6)
                start += len(spelled)
    assert read.results[2].n_rows > 0
    assert int(read.results[1][0].under[3].sum()) == sentences.n_words


def test_long_sentences_are_skipped_and_counted(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    narrow = encoder("bert", max_pieces=16)
    long = {word.sentence_id for word in narrow.tokenize(sentences, on_long="skip").skipped}
    read = stream_maps(narrow, sentences, [Masses], on_long="skip")
    n_skipped = sum(len(sentence) for sentence in sentences if sentence.id in long)
    assert 0 < read.n_skipped == n_skipped == sum(read.skipped.values())
    assert read.n_sentences == len(sentences) - len(long)
    assert read.n_words == sentences.n_words - n_skipped
    with pytest.raises(ModelError, match=r"sentence 's0' has \d+ pieces, the model takes 14"):
        stream_maps(narrow, sentences, [Masses], on_long="error")


def test_one_word_sentences(encoder: Callable[..., Encoder]) -> None:
    words = [Sentence.from_words([form]) for form in ("fox", "dogs", "!")]
    masses, distance, sharpness, offsets = ratios(stream_maps(encoder("bert"), words, ALL).results)
    for name in ("previous", "next", "same_word"):
        assert np.isnan(masses.of(name)).all()
        assert np.isnan(masses.intervals(name).ci_low).all()
    kinds = masses.of("cls") + masses.of("sep") + masses.of("self")
    np.testing.assert_allclose(kinds, 1, rtol=1e-5)
    assert (distance.values == 0).all()
    assert (offsets.of("argmax_0") == 1).all()
    assert np.isfinite(sharpness.values).all()


@pytest.mark.parametrize("text", [[], [Sentence.from_words([])]])
def test_nothing_to_read(encoder: Callable[..., Encoder], text: list[Sentence]) -> None:
    with pytest.raises(CorpusError, match="no word to read"):
        stream_maps(encoder("bert"), text, ALL)


@pytest.mark.parametrize("layers", [[0], [1, 4], []])
def test_layers_that_are_not_there(encoder: Callable[..., Encoder], sentences: Sentences, layers: list[int]) -> None:
    with pytest.raises(ModelError, match="layers"):
        stream_maps(encoder("bert"), sentences, ALL, layers=layers)


def test_norms_of_other_families(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    with pytest.raises(ModelError, match="not for deberta-v2: take raw weights"):
        stream_maps(encoder("deberta-v2"), sentences, [NormShares], norms=True)
    with pytest.raises(ValueError, match="norms=True"):
        stream_maps(encoder("bert"), sentences, [NormShares])


def test_models_without_maps(
    encoder: Callable[..., Encoder], sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = encoder("bert")

    def refuse(implementation: str) -> None:
        raise ValueError("BertModel does not support an eager attention\nand more")

    with monkeypatch.context() as patch, threads(1):
        patch.setattr(loaded.model.body, "set_attn_implementation", refuse)
        with pytest.raises(ModelError, match=r"no plain attention.*eager attention\)$"):
            stream_maps(loaded, sentences, ALL)
    with monkeypatch.context() as patch, threads(1):
        patch.setattr(loaded, "plain_attention", contextlib.nullcontext)
        with pytest.raises(ModelError, match="BertModel gives no attention maps"):
            stream_maps(loaded, sentences, ALL)
