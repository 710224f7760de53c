"""Baselines that look at no vector, and labels that can only be learnt by heart."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from bertology.measures import control_labels, majority, word_majority


def test_majority_is_the_mode_and_leaves_out_unlabelled_items():
    assert majority([2, 1, 2, 1, 1, -1, -1, -1, -1]) == 1
    assert majority([3, 0, 3, 0]) == 0
    with pytest.raises(ValueError, match="no training labels"):
        majority([-1, -1])


def test_word_majority_is_what_counting_by_hand_gives():
    rng = np.random.default_rng(0)
    words, labels = rng.integers(0, 60, 900), rng.choice(5, 900, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    test = rng.integers(-1, 80, 300)
    overall = Counter(labels.tolist())
    by_word = {w: Counter(labels[words == w].tolist()) for w in set(words.tolist())}
    expected = [
        min(by_word[w], key=lambda label: (-by_word[w][label], -overall[label], label))
        if w in by_word
        else majority(labels)
        for w in test.tolist()
    ]
    np.testing.assert_array_equal(word_majority(words, labels, test, n_words=80), expected)


def test_word_majority_breaks_ties_by_overall_frequency():
    assert word_majority([0, 0, 1, 1], [1, 2, 2, 2], [0], n_words=2).tolist() == [2]
    assert word_majority([0, 0], [2, 1], [0], n_words=1).tolist() == [1]


def test_word_majority_leaves_out_unlabelled_training_items():
    assert word_majority([0, 0, 0, 1], [-1, -1, 1, 0], [0, 1, -1], n_words=2).tolist() == [1, 0, 0]


@pytest.mark.parametrize(("words", "labels", "test"), [([0], [0, 1], [0]), ([0], [0], [5])])
def test_word_majority_refuses_impossible_input(words, labels, test):
    with pytest.raises(ValueError, match=r"shapes do not fit|outside"):
        word_majority(words, labels, test, n_words=2)


VOCABULARY = tuple(f"word{number}" for number in range(5000))


def test_control_labels_follow_the_distribution():
    shares = np.array([0.5, 0.0, 0.3, 0.2])
    labels = control_labels(np.arange(5000), VOCABULARY, shares, seed=0)
    observed = np.bincount(labels, minlength=4)
    assert observed[1] == 0
    assert stats.chisquare(observed[[0, 2, 3]], 5000 * shares[[0, 2, 3]]).pvalue > 0.001
    np.testing.assert_array_equal(control_labels(np.arange(5000), VOCABULARY, shares * 1234, seed=0), labels)


def test_control_labels_depend_on_the_spelling_alone():
    rng = np.random.default_rng(1)
    counts = [10, 5, 3, 1]
    whole = control_labels(np.arange(5000), VOCABULARY, counts, seed=3)
    order = rng.permutation(5000)[:700]
    part = control_labels(np.arange(700), [VOCABULARY[i] for i in order], counts, seed=3)
    np.testing.assert_array_equal(part, whole[order])
    tokens = rng.integers(0, 5000, 2000)
    np.testing.assert_array_equal(control_labels(tokens, VOCABULARY, counts, seed=3), whole[tokens])


def test_control_labels_of_two_seeds_are_independent():
    a, b = (control_labels(np.arange(5000), VOCABULARY, [1, 1], seed=seed) for seed in (0, 1))
    assert stats.chi2_contingency(np.histogram2d(a, b, bins=2)[0]).pvalue > 0.001


def test_control_labels_are_the_same_everywhere():
    """The label follows from the word's hash by hand: a change of them would change published scores."""
    from hashlib import blake2b

    word = "d’été"
    hashed = blake2b(word.encode(), digest_size=8, key=(11).to_bytes(8, "little"), person=b"control task").digest()
    share = (int.from_bytes(hashed, "little") >> 11) / 2**53
    assert control_labels([0], [word], np.ones(1000), seed=11).tolist() == [int(share * 1000)]


@pytest.mark.parametrize("shares", [[], [0, 0], [1, -1, 3]])
def test_control_labels_need_a_distribution(shares):
    with pytest.raises(ValueError, match="label_distribution"):
        control_labels([0], ["a"], shares, seed=0)
