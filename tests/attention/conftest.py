"""Tiny encoders of every family, a few awkward sentences, and their maps by brute force."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, load_encoder
from tests.encoders.conftest import FAMILIES, save_model

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WordMaps:
    """All maps of one sentence, by loops over what Hugging Face gives for it alone."""

    maps: Floats
    """``[layer, head, unit, unit]``"""
    words: list[int]
    """``[unit]`` place of the word in the sentence, −1 for special tokens."""
    is_cls: list[bool]
    is_sep: list[bool]


@pytest.fixture(scope="session")
def encoder(of_family: Callable[..., Encoder]) -> Callable[..., Encoder]:
    """A family's tiny encoder, loaded once for each setting."""
    return of_family


@pytest.fixture(scope="session")
def of_family(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Encoder]:
    """The same under a name that no folder of tests gives to one encoder of its own."""
    folders: dict[str, Path] = {}
    loaded: dict[Any, Encoder] = {}

    def load(family: str, **settings: Any) -> Encoder:
        if family not in folders:
            folders[family] = save_model(tmp_path_factory.mktemp("models") / family, family)
        key = (family, *sorted(settings.items()))
        if key not in loaded:
            loaded[key] = load_encoder(str(folders[family]), device="cpu", **settings)
        return loaded[key]

    return load


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def sentences() -> Sentences:
    """Of many lengths, with punctuation, words that come twice and words of several pieces."""
    texts = [
        "The quick brown fox does n't jump over the lazy dogs , and nobody knows why they 'd care .",
        "Coffees !",
        "They knows they knows , the day the dogs jump ; well-known facts they sell .",
        "Over",
        "She said : “ What a day it was ” , e.g. at 12:30 p.m. , the fox !",
        "The lazy dogs jump .",
        "A day , a day , A day … naïve cafés in São Paulo sell ten coffees .",
        "The lazy dogs jump and jump .",
    ]
    return Sentences(Sentence.from_words(text.split(), id=f"s{i}") for i, text in enumerate(texts))


def hugging_face_maps(encoder: Encoder, ids: Sequence[int]) -> Floats:
    """``[layer, head, piece, piece]`` of one window, as Hugging Face's plain attention gives them."""
    body: Any = encoder.model.body
    before = body.config._attn_implementation
    body.set_attn_implementation("eager")
    with torch.inference_mode():
        found = body(input_ids=torch.tensor([list(ids)]), output_attentions=True, return_dict=True).attentions
    body.set_attn_implementation(before)
    return torch.cat(found).double().numpy()


def summed(maps: Floats, groups: list[range]) -> Floats:
    """To a group of pieces the sum, a shared one divided among its groups; from it the mean."""
    n_groups = np.bincount([piece for group in groups for piece in group])
    out = np.zeros((*maps.shape[:2], len(groups), len(groups)))
    for i, rows in enumerate(groups):
        for j, columns in enumerate(groups):
            for row in rows:
                for column in columns:
                    out[:, :, i, j] += maps[:, :, row, column] / len(rows) / n_groups[column]
    return out


@pytest.fixture(scope="session")
def word_maps() -> Callable[[Encoder, Sentence], WordMaps]:
    """The maps of one sentence by brute force."""

    def read(encoder: Encoder, sentence: Sentence) -> WordMaps:
        pieces = encoder.tokenize([sentence])
        ids = pieces.window(0).tolist()
        n_before, n_after = encoder.n_prefix, encoder.n_suffix
        placed = list(zip(pieces.word_first.tolist(), pieces.word_last.tolist(), strict=True))
        words = [word for word, (first, last) in enumerate(placed) if last > first]
        groups = [range(i, i + 1) for i in range(n_before)]
        groups += [range(*placed[word]) for word in words]
        groups += [range(i, i + 1) for i in range(len(ids) - n_after, len(ids))]
        return WordMaps(
            maps=summed(hugging_face_maps(encoder, ids), groups),
            words=[-1] * n_before + words + [-1] * n_after,
            is_cls=[i < n_before for i in range(len(groups))],
            is_sep=[i >= len(groups) - n_after for i in range(len(groups))],
        )

    return read
