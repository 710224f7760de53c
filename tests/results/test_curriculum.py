"""A curriculum: of two features of words one is in the vectors from the first step on, the other from a later one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import Corpus, Sentence, probe
from bertology.corpora import Sentences

STEPS = (0, 10, 100, 1000)
BEGINS = {"early": 10, "late": 1000}
"""By feature the first step at which the vectors have it; None of it is there before."""
N_WORDS = 24


@pytest.fixture(scope="module")
def words(tiny_bert: Path) -> list[str]:
    """Words of one piece."""
    vocabulary = AutoTokenizer.from_pretrained(tiny_bert).get_vocab()
    return sorted(piece for piece in vocabulary if piece.isalpha() and piece.islower() and len(piece) > 2)[:N_WORDS]


@pytest.fixture(scope="module")
def labels(words: list[str]) -> dict[str, dict[str, str]]:
    """By feature and word a label: the features are independent of each other."""
    numbers = np.random.default_rng(5).permutation(N_WORDS)
    return {
        name: {word: f"{name}-{(number // step) % 2}" for word, number in zip(words, numbers, strict=True)}
        for name, step in (("early", 1), ("late", 2))
    }


@pytest.fixture(scope="module")
def training(
    tiny_bert: Path, words: list[str], labels: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Checkpoints by hand: embeddings of words are a constant, and for each feature that is there a direction, longer
    with each step."""
    folder = tmp_path_factory.mktemp("curriculum")
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bert), AutoModelForMaskedLM.from_pretrained(tiny_bert)
    generator = torch.Generator().manual_seed(2)
    constant, *directions = torch.randn(3, model.config.hidden_size, generator=generator)
    embeddings = model.bert.embeddings
    for step in STEPS:
        with torch.no_grad():
            embeddings.position_embeddings.weight.zero_()
            for word in words:
                vector = constant.clone()
                for (name, begins), direction in zip(BEGINS.items(), directions, strict=True):
                    if step >= begins:
                        sign = 1 if labels[name][word].endswith("1") else -1
                        vector += sign * math.log10(step) * direction
                embeddings.word_embeddings.weight[tokenizer.convert_tokens_to_ids(word)] = vector
        checkpoint = folder / "checkpoints" / f"step-{step}"
        model.save_pretrained(checkpoint)
        tokenizer.save_pretrained(checkpoint)
    return folder


@pytest.fixture(scope="module")
def curves(
    training: Path, words: list[str], labels: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> pd.DataFrame:
    """By step, the accuracy of each feature in layer 0."""
    dice = np.random.default_rng(7)

    def sentence() -> Sentence:
        drawn = dice.choice(words, size=6).tolist()
        return Sentence.from_words(
            drawn, layers={name: tuple(of[word] for word in drawn) for name, of in labels.items()}
        )

    corpus = Corpus(
        "made up", {n: Sentences(sentence() for _ in range(k)) for n, k in (("train", 60), ("dev", 20), ("test", 60))}
    )
    tasks = [f"word_label:{name}" for name in BEGINS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = probe(tasks, model=training, checkpoints="all", corpus=corpus, layers="0", controls="none", seeds=1)
    view = found.over_steps(n_resamples=200)
    frame = view.to_pandas()
    return frame.assign(feature=frame["task"].str.partition(":")[2]).set_index(["feature", "step"])


@pytest.mark.parametrize("feature", BEGINS)
def test_a_curve_rises_where_its_feature_begins_and_not_before(curves: pd.DataFrame, feature: str) -> None:
    curve = curves.loc[feature]
    assert list(curve.index) == list(STEPS)
    for step, row in curve.iterrows():
        if step >= BEGINS[feature]:
            assert row["value"] > 0.99, step
        else:
            assert row["ci_low"] < 0.6, step
            assert row["value"] < 0.75, step
