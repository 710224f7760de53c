"""Sentences through the whole run: scikit-learn on vectors exported from the same encoder comes to the same scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bertology import load_corpus, load_encoder, probe

LAYERS = (1, 4)
SIZES = {"train": 600, "dev": 150, "test": 400}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Sentences with the part of speech of their first word, and how many words they have."""
    pocket = load_corpus("pocket")
    rows = [
        {"words": list(one.words), "first": one.layers["upos"][0], "n": len(one), "split": split}
        for split, size in SIZES.items()
        for one in pocket[split][:size]
    ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def exported(frame: pd.DataFrame) -> NDArray[np.float64]:
    """``[layer, sentence, dim]`` means over the words, by the public export, kept in float16 as the run keeps them."""
    vectors = load_encoder("pocket").vectors(frame.words.tolist(), layers=LAYERS)
    words = vectors.values.astype(np.float16).astype(np.float64)
    texts = [text for text, _, _ in vectors.labels["word"]]
    return np.stack([words[:, np.equal(texts, number)].mean(1) for number in range(1, len(frame) + 1)], axis=1)


def rows_of(frame: pd.DataFrame, task: str, column: str, metric: str, **asked: Any) -> pd.DataFrame:
    columns = f"words=words,label={column},split=split"
    table = probe(task, corpus=frame, columns=columns, layers=LAYERS, controls="none", progress=False, **asked)
    return table.only(metric=metric).to_pandas().set_index("layer")


def peers(frame: pd.DataFrame, vectors: NDArray[np.float64], rows: pd.DataFrame, column: str, make: Any) -> list[float]:
    """By layer scikit-learn's score on test, at the strength that the run chose on dev."""
    parts = {split: (frame.split == split).to_numpy() for split in SIZES}
    scores = []
    for layer, of_layer in zip(LAYERS, vectors, strict=True):
        model: Pipeline = make(json.loads(rows.params_json[layer])["strength"])
        model.fit(of_layer[parts["train"]], frame[column][parts["train"]])
        scores.append(model.score(of_layer[parts["test"]], frame[column][parts["test"]]))
    return scores


def test_accuracy(frame: pd.DataFrame, exported: NDArray[np.float64]) -> None:
    def make(strength: float) -> Pipeline:
        return make_pipeline(StandardScaler(), LogisticRegression(C=strength, tol=1e-8, max_iter=5000))

    exactly = {"name": "linear", "settings": {"tolerance": 1e-6}}
    rows = rows_of(frame, "sentence_label:first", "first", "accuracy", readout=exactly)
    scores = peers(frame, exported, rows, "first", make)
    np.testing.assert_allclose(rows.value[list(LAYERS)], scores, rtol=0, atol=0.003)
    assert min(scores) > frame["first"].value_counts(normalize=True).max() + 0.2


def test_r2(frame: pd.DataFrame, exported: NDArray[np.float64]) -> None:
    def make(strength: float) -> Pipeline:
        return make_pipeline(StandardScaler(), Ridge(alpha=strength * SIZES["train"]))

    rows = rows_of(frame, "sentence_number:n", "n", "r2")
    scores = peers(frame, exported, rows, "n", make)
    np.testing.assert_allclose(rows.value[list(LAYERS)], scores, rtol=0, atol=1e-4)
    assert min(scores) > 0.5
