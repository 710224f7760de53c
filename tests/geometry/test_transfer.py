"""Readouts put to another language: planted vectors of two languages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bertology.geometry import LayerVectors
from bertology.geometry.languages import LabelledWords, TransferItems, transfer

N, DIM, LABELS = 400, 12, 4
DICE = np.random.default_rng(3)
CENTRES = DICE.standard_normal((LABELS, DIM)) * 1.5
Map = Callable[[np.ndarray], np.ndarray]


def planted(moved: Map) -> tuple[dict[str, LayerVectors], TransferItems]:
    """Words of four labels in two languages, those of the second moved."""
    dice, vectors, splits = np.random.default_rng(0), {}, {}
    for split in ("train", "dev", "test"):
        codes, language = dice.integers(0, LABELS, N), np.arange(N) % 2
        values = CENTRES[codes] + dice.standard_normal((N, DIM))
        values[language == 1] = moved(values[language == 1])
        vectors[split] = LayerVectors.of_arrays(values[None].astype(np.float32))
        splits[split] = LabelledWords(np.arange(N), language, codes)
    return vectors, TransferItems(("en", "xx"), LABELS, splits, np.arange(N) // 4)


def scores(moved: Map) -> dict[tuple[str, str], float]:
    found = transfer(*planted(moved))
    return {(one.metric, one.group): float(one.over[0].sum() / one.under[0].sum()) for one in found}


def test_languages_in_one_space_transfer_as_if_they_were_one() -> None:
    found = scores(lambda values: values)
    assert found["own", ""] > 0.9
    assert found["transfer", ""] == pytest.approx(found["own", ""], abs=0.02)
    assert {group for metric, group in found if metric == "transfer"} == {"", "en → xx", "xx → en"}
    assert {group for metric, group in found if metric == "own"} == {"", "en", "xx"}


def test_a_shift_is_undone_by_means() -> None:
    found = scores(lambda values: values + 8 * CENTRES[0])
    assert found["transfer", ""] < 0.5
    assert found["transfer_centred", ""] == pytest.approx(found["own", ""], abs=0.03)
    assert found["transfer_standardised", ""] == pytest.approx(found["own", ""], abs=0.03)


def test_a_change_of_scale_is_undone_by_spreads() -> None:
    scale = np.geomspace(0.05, 20, DIM)
    found = scores(lambda values: values * scale)
    assert found["transfer_centred", "en → xx"] < found["transfer_standardised", "en → xx"] - 0.1
    assert found["transfer_standardised", ""] == pytest.approx(found["own", ""], abs=0.03)


def test_a_rotation_is_undone_by_neither() -> None:
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((DIM, DIM)))[0]
    found = scores(lambda values: values @ rotation)
    assert found["own", "xx"] > 0.9
    assert max(found[f"transfer{way}", "en → xx"] for way in ("", "_centred", "_standardised")) < 0.6


def test_it_is_the_fit_to_standardised_vectors_of_scikit_learn() -> None:
    vectors, items = planted(lambda values: 3 * values + 5)
    train, test = items.splits["train"], items.splits["test"]
    arrays = {split: vectors[split].of(0) for split in vectors}
    spaces = {}
    for language in (0, 1):
        own = arrays["train"][train.language == language]
        spaces[language] = own.mean(axis=0), own.std(axis=0)

    def standard(split: str, language: int) -> np.ndarray:
        return (arrays[split][items.splits[split].language == language] - spaces[language][0]) / spaces[language][1]

    model = LogisticRegression(max_iter=5000, C=1.0).fit(standard("train", 0), train.codes[train.language == 0])
    expected = (model.predict(standard("test", 1)) == test.codes[test.language == 1]).mean()
    found = {(one.metric, one.group): one.over[0].sum() / one.under[0].sum() for one in transfer(vectors, items)}
    assert found["transfer_standardised", "en → xx"] == pytest.approx(expected, abs=0.015)
