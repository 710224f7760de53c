"""Scores of trees against the papers' definitions, computed word by word, and against trees counted by hand."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from bertology.measures import METRICS, bootstrap, count_trees, read_heads

MARKS = ("2 0 2 _", "2 3 0 _", "0 1", "2 0", "2:nsubj 0:root 2:obj", "2:nsubj 0:root 1:obj", "3:obj 0:root 2:obj")


def scores(gold, pred, marks, correlation, *, count_kind):
    counts, lengths = count_trees(
        np.asarray(gold), np.asarray(pred), marks, np.asarray(correlation, dtype=float), count_kind=count_kind
    )
    names = [metric.name for metric in METRICS.values() if metric.count_kind == count_kind]
    return {name: found.values for name, found in bootstrap(counts, names, labels=lengths, n_resamples=20).items()}


def test_undirected_edges_by_hand():
    """Of the three edges of both sentences, one layer finds all, one only that of the short sentence and 2–3."""
    found = scores([0, 2], [[0, 3], [1, 2]], MARKS, np.zeros((2, 2)), count_kind="edges")
    assert found["uuas"] == pytest.approx([1.0, 1.0])
    found = scores([0, 2], [[0, 3]], ("2 0 2 _", "x", "0 1", "2 0"), np.zeros((1, 2)), count_kind="edges")
    assert found["uuas"] == pytest.approx([1.0])
    # the chain 1–2–3 for the star around 1
    found = scores([0], [[1]], ("0 1 1", "0 1 2"), np.zeros((1, 1)), count_kind="edges")
    assert found["uuas"] == pytest.approx([0.5])


def test_an_edge_to_punctuation_does_not_count():
    """The second word hangs from a comma in gold: one edge is left."""
    found = scores([0], [[1]], ("0 3 _ 1", "0 1 _ 1"), np.zeros((1, 1)), count_kind="edges")
    assert found["uuas"] == pytest.approx([1.0])
    assert read_heads("0 3 _ 1:obj") == (0, 3, -1, 1)


def test_roots_by_hand():
    marks = ("1 0 1", "1.02 0.2 0.9", "0.1 0.2 0.9", "_ 0 1", "_ 0.5 0.4", "_ 1 1")
    found = scores([0, 0, 3, 5], [[1, 2, 4, 5], [1, 1, 3, 5]], marks, np.zeros((2, 4)), count_kind="roots")
    # the root of the last is punctuation: there is none to be found
    assert found["root_accuracy"] == pytest.approx([1 / 3, 1.0])


def test_arcs_by_hand():
    found = scores([4], [[4], [5], [6]], MARKS, np.zeros((3, 1)), count_kind="arcs")
    assert found["uas"] == pytest.approx([1, 2 / 3, 2 / 3])
    assert found["las"] == pytest.approx([1, 2 / 3, 2 / 3])
    found = scores([0], [[1]], ("2:nsubj 0:root _", "2:obj 0:root _"), np.zeros((1, 1)), count_kind="arcs")
    assert found["uas"] == pytest.approx([1.0])
    assert found["las"] == pytest.approx([0.5])


def test_correlations_are_means_of_means_over_lengths():
    """The definition, word by word: correlations of all words of one length, their mean, the mean of these."""
    draw = np.random.default_rng(0)
    lengths = [3, 5, 5, 6, 9, 50, 51]
    by_word = [
        [spearmanr(draw.random(n), draw.random(n)).statistic for _ in range(n)] if n > 2 else [] for n in lengths
    ]
    expected = np.mean(
        [np.mean([rho for n, words in zip(lengths, by_word, strict=True) if n == length for rho in words])
         for length in (5, 6, 9, 50)]
    )  # fmt: skip
    marks = [" ".join(["0", *["1"] * (n - 1)]) for n in lengths]
    texts = tuple(dict.fromkeys(marks))
    codes = np.array([texts.index(mark) for mark in marks])
    found = scores(codes, codes[None], texts, [[np.mean(words) for words in by_word]], count_kind="edges")
    assert found["dspr"] == pytest.approx([expected])
    # a sentence without a correlation is no zero
    unknown = [[np.mean(words) for words in by_word[:-2]] + [np.nan, 0.3]]
    without = np.mean([np.mean([np.mean(by_word[1]), np.mean(by_word[2])]), np.mean(by_word[3]), np.mean(by_word[4])])
    assert scores(codes, codes[None], texts, unknown, count_kind="edges")["dspr"] == pytest.approx([without])


def test_intervals_of_a_mean_of_means_match_resampling_by_hand():
    draw = np.random.default_rng(1)
    rho = draw.uniform(-0.2, 1.0, 60)
    lengths = draw.integers(5, 8, 60)
    texts = tuple(" ".join(["0", *["1"] * (n - 1)]) for n in range(5, 8))
    counts, names = count_trees(lengths - 5, (lengths - 5)[None], texts, rho[None], count_kind="edges")
    found = bootstrap(counts, ["dspr"], labels=names, n_resamples=2000)["dspr"]

    def mean_of_means(sample):
        return np.mean([rho[sample][lengths[sample] == n].mean() for n in set(lengths[sample].tolist())])

    by_hand = [mean_of_means(draw.integers(0, 60, 60)) for _ in range(2000)]
    assert found.stderr[0] == pytest.approx(np.std(by_hand), rel=0.1)
    assert found.ci_low[0] < found.values[0] < found.ci_high[0]
