"""Every statistic against loops over Hugging Face's maps of one sentence at a time, in every family."""

import string
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

from bertology.attention import stream_maps
from bertology.attention.measured import Divergences, EffectiveMasses, Masses, NormShares, Offsets, Sharpness
from bertology.attention.viewer import read_attention
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.interventions import find_part
from bertology.measures.sums import HeadRatios

MARKS = {*string.punctuation, "“", "”", "…"}


class Ratios:
    """Numerators and denominators by name, each ``[layer, head]``."""

    def __init__(self) -> None:
        self.over: dict[str, Any] = defaultdict(float)
        self.under: dict[str, Any] = defaultdict(float)

    def add(self, name: str, over: Any, under: Any = 1.0) -> None:
        self.over[name] = self.over[name] + over
        self.under[name] = self.under[name] + under


def entropy(row: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = row / row.sum(-1, keepdims=True)
    return np.asarray(-np.sum(shares * np.log(np.where(shares > 0, shares, 1)), -1))


def add_sentence(ratios: Ratios, found: Any, forms: list[str]) -> None:
    """One sentence, row by row."""
    word_columns = [i for i, word in enumerate(found.words) if word >= 0]
    for row, word in enumerate(found.words):
        maps = found.maps[:, :, row]  # [layer, head, unit]
        if found.is_cls[row]:
            ratios.add("cls_entropy_nats", entropy(maps))
        if word < 0:
            continue
        groups = {
            "cls": [i for i, flag in enumerate(found.is_cls) if flag],
            "sep": [i for i, flag in enumerate(found.is_sep) if flag],
            "self": [row],
            "previous": [i for i in word_columns if found.words[i] == word - 1],
            "next": [i for i in word_columns if found.words[i] == word + 1],
            "same_word": [i for i in word_columns if i != row and forms[found.words[i]].lower() == forms[word].lower()],
        }
        for name, columns in groups.items():
            if columns:
                ratios.add(name, maps[:, :, columns].sum(-1))
        marks = [i for i in word_columns if set(forms[found.words[i]]) <= MARKS]
        ratios.add("punctuation", maps[:, :, marks].sum(-1))
        ratios.add("entropy_nats", entropy(maps))
        to_words = maps[:, :, word_columns]
        ratios.add("confidence", to_words.max(-1))
        gaps = np.array([found.words[i] - word for i in word_columns])
        ratios.add("distance", (to_words * np.abs(gaps)).sum(-1), to_words.sum(-1))
        best = gaps[to_words.argmax(-1)]
        for name in Offsets.names:
            place = name.removeprefix("argmax_")
            hit = best < -3 if place == "before" else best > 3 if place == "after" else best == int(place)
            ratios.add(name, hit.astype(float))


def test_all_statistics(
    family: str, encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded = encoder(family)
    expected = Ratios()
    for sentence in sentences:
        add_sentence(expected, word_maps(loaded, sentence), list(sentence.words))
    read = stream_maps(loaded, sentences, [Masses, Sharpness, Offsets])
    found: list[HeadRatios] = [part for parts in read.results for part in parts]
    names = [name for part in found for name in part.names]
    assert names == [*Masses.names, *Sharpness.names, *Offsets.names]
    assert read.n_words == sentences.n_words
    for part in found:
        for name in part.names:
            if name in expected.over:
                quotient = expected.over[name] / expected.under[name]
                np.testing.assert_allclose(part.of(name), quotient, rtol=1e-6, atol=1e-6, err_msg=name)
            else:
                assert name in {"cls", "sep", "cls_entropy_nats"}
                assert np.isnan(part.of(name)).all()


def test_maps_of_single_sentences(
    family: str, encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded = encoder(family)
    for sentence in (sentences[0], sentences[3]):
        expected = word_maps(loaded, sentence)
        found = loaded.attention(sentence)
        np.testing.assert_allclose(found.values, expected.maps, atol=1e-6)
        words = [unit for unit, word in zip(found.labels["to"], expected.words, strict=True) if word >= 0]
        assert words == list(sentence.words)


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert", "gpt2"])
def test_divergences(
    family: str, encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded = encoder(family)
    rows = []
    for sentence in sentences:
        found = word_maps(loaded, sentence)
        flat = found.maps.reshape(-1, *found.maps.shape[2:])
        rows += [flat[:, row] for row, word in enumerate(found.words) if word >= 0]
    expected = np.mean([[[jensenshannon(a, b) ** 2 for a in row] for b in row] for row in rows], axis=0)
    read = stream_maps(loaded, sentences, [partial(Divergences, rows=None), Divergences])
    np.testing.assert_allclose(read.results[0].matrix, expected, atol=1e-6)
    assert read.results[0].n_rows == sentences.n_words
    assert read.results[1].n_rows == sum(min(8, len(sentence)) for sentence in sentences)
    assert np.abs(read.results[1].matrix - expected).max() < 0.1


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra", "albert", "distilbert", "mpnet"])
def test_norms(family: str, encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    loaded = encoder(family)
    sentence = sentences[0]
    ids = torch.tensor([loaded.tokenize([sentence]).window(0).tolist()])
    maps = loaded.attentions(ids, layers=range(1, loaded.n_layers + 1))
    states = loaded.hidden_states(ids, layers=range(loaded.n_layers))
    found = read_attention(loaded, [sentence], norms=True).labelled(level="piece", weights="norm").values
    for layer in range(1, loaded.n_layers + 1):
        block = loaded.model.blocks[layer - 1]
        mixed: Any = find_part(block, loaded.family, "head")
        with torch.inference_mode():
            values = find_part(block, loaded.family, "values")(states[layer - 1])[0]
            for head in range(loaded.n_heads):
                own = slice(head * (loaded.dim // loaded.n_heads), (head + 1) * (loaded.dim // loaded.n_heads))
                moved = values[:, own] @ mixed.weight[:, own].T  # [piece, dim]
                added = maps[layer][0, head][:, :, None] * moved[None]  # [piece, piece, dim]
                expected = added.norm(dim=-1).numpy()
                np.testing.assert_allclose(found[layer - 1, head], expected, rtol=1e-5, atol=1e-6)


def test_norm_shares(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    loaded = encoder("bert")
    over: Any = np.zeros((4, loaded.n_layers, loaded.n_heads))
    under: Any = 0.0
    for sentence in sentences:
        norms = read_attention(loaded, [sentence], norms=True).labelled(weights="norm").values
        marks = [i for i, form in enumerate(sentence.words, start=1) if set(form) <= MARKS]
        for row in range(1, len(sentence) + 1):
            for kind, columns in enumerate(([0], [len(sentence) + 1], marks, [row])):
                over[kind] += norms[:, :, row, columns].sum(-1)
            under = under + norms[:, :, row].sum(-1)
    (found,) = stream_maps(loaded, sentences, [NormShares], norms=True).results[0]
    np.testing.assert_allclose(found.values, over / under, atol=1e-6)


def test_effective_attention(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    """By numpy's singular values, one sentence and head at a time; it leaves what heads add as it is."""
    loaded, size = encoder("bert"), encoder("bert").dim // encoder("bert").n_heads
    shape = loaded.n_layers, loaded.n_heads
    over, under, squares, whole = (np.zeros(shape) for _ in range(4))
    for sentence in sentences:
        ids = torch.tensor([loaded.tokenize([sentence]).window(0).tolist()])
        pieces, states = loaded.tokenize([sentence]), loaded.hidden_states(ids, layers=range(loaded.n_layers))
        maps = {n: one[0].double().numpy() for n, one in loaded.attentions(ids, layers=range(1, shape[0] + 1)).items()}
        for layer, head in np.ndindex(shape):
            block, own = loaded.model.blocks[layer], slice(head * size, (head + 1) * size)
            mixed: Any = find_part(block, loaded.family, "head")
            with torch.inference_mode():
                values = find_part(block, loaded.family, "values")(states[layer])[0, :, own]
                moved = (values @ mixed.weight[:, own].T).double().numpy()  # [piece, dim]
            basis, sizes, _ = np.linalg.svd(moved, full_matrices=False)
            basis, raw = basis[:, sizes > 1e-5 * sizes[0]], maps[layer + 1][head]
            effective = raw @ basis @ basis.T
            np.testing.assert_allclose(effective @ moved, raw @ moved, atol=1e-5)
            if len(raw) <= size:
                np.testing.assert_allclose(effective, raw, atol=1e-5)
            for first, last in zip(pieces.word_first, pieces.word_last, strict=True):
                rows = slice(first, last)
                over[layer, head] += effective[rows, -1].mean()
                squares[layer, head] += (effective[rows] ** 2).sum(-1).mean()
                whole[layer, head] += (raw[rows] ** 2).sum(-1).mean()
        under += len(sentence)
    masses, share = stream_maps(loaded, sentences, [EffectiveMasses], norms=True).results[0]
    np.testing.assert_allclose(masses.of("effective_sep"), over / under, atol=1e-5)
    np.testing.assert_allclose(share.of("effective_share"), squares / whole, atol=1e-5)
    assert share.of("effective_share").max() < 0.999


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pieces(family: str, encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    loaded = encoder(family)
    over: Any = defaultdict(float)
    under: Any = defaultdict(float)
    for sentence in sentences:
        maps = loaded.attention(sentence, level="piece").values
        pieces = loaded.tokenize([sentence])
        of_piece = dict.fromkeys(range(maps.shape[-1]), -1)
        for word in reversed(range(len(sentence))):
            of_piece |= dict.fromkeys(range(pieces.word_first[word], pieces.word_last[word]), word)
        rows = [piece for piece, word in of_piece.items() if word >= 0]
        for row in rows:
            cells = {"sep": [maps.shape[-1] - 1], "previous": [row - 1] if row - 1 in rows else []}
            form = sentence.words[of_piece[row]].lower()
            cells["same_word"] = [
                i for i in rows if sentence.words[of_piece[i]].lower() == form and of_piece[i] != of_piece[row]
            ]
            for name, columns in cells.items():
                over[name] += maps[:, :, row, columns].sum(-1) if columns else 0
                under[name] += bool(columns)
    found = stream_maps(loaded, sentences, [Masses], level="piece").results[0][0]
    for name in ("sep", "previous", "same_word"):
        np.testing.assert_allclose(found.of(name), over[name] / under[name], atol=1e-6, err_msg=name)
