"""R² and Spearman's correlation from sums over clusters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import r2_score

from bertology.measures import bootstrap, count_numbers, mean_numbers


def test_values_are_those_of_scikit_learn_and_scipy() -> None:
    rng = np.random.default_rng(0)
    gold = np.round(rng.normal(1e4, 3, size=300), 1)  # far from zero, with ties
    pred = np.stack([gold + rng.normal(0, scale, size=300) for scale in (0.1, 2, 50)])
    cluster = rng.integers(0, 40, size=300)
    scores = bootstrap(count_numbers(gold, pred, cluster, n_clusters=40), ("r2", "spearman"), n_resamples=400)
    for layer, numbers in enumerate(pred):
        assert scores["r2"].values[layer] == pytest.approx(r2_score(gold, numbers), abs=1e-9)
        assert scores["spearman"].values[layer] == pytest.approx(spearmanr(gold, numbers).statistic, abs=1e-9)
    for name, score in scores.items():
        assert (score.ci_low[:2] < score.values[:2]).all(), name
        assert (score.values[:2] < score.ci_high[:2]).all(), name


def test_a_resample_of_clusters_has_the_r2_of_its_items() -> None:
    rng = np.random.default_rng(1)
    gold, cluster = rng.normal(size=60), np.repeat(np.arange(12), 5)
    pred = gold + rng.normal(size=60)
    counts = count_numbers(gold, pred[None], cluster, n_clusters=12)
    score = bootstrap(counts, ("r2",), n_resamples=10)["r2"]
    for left_out in range(12):
        kept = cluster != left_out
        assert score.jackknife[left_out, 0] == pytest.approx(r2_score(gold[kept], pred[kept]), abs=1e-9)


def test_constant_numbers_have_no_score() -> None:
    counts = count_numbers(np.ones(6), np.arange(6.0)[None], np.arange(6), n_clusters=6)
    assert np.isnan(bootstrap(counts, ("r2",), n_resamples=5)["r2"].values).all()


def test_means_by_word_and_of_all_for_unknown_words() -> None:
    mean, by_word = mean_numbers([0, 0, 1], np.array([1.0, 3.0, 8.0]), [0, 1, -1], n_words=2)
    assert mean.tolist() == [4, 4, 4]
    assert by_word.tolist() == [2, 8, 4]
