"""Baselines and controls: majority labels, words, random labels, and a lexical model of spans."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from bertology.measures import majority
from bertology.measures.baselines import SpanWords, control_labels, lexical_labels, word_majority


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


Decides = Callable[[SpanWords], NDArray[np.int64]]
WORDS = ("run", "watch", "light", "saw", "that", "her", "to", "Anna")


def items(n: int, seed: int, *, n_spans: int = 1) -> SpanWords:
    """Sentences of six words drawn by lot, in each one item of spans of one or two words."""
    random = np.random.default_rng(seed)
    words = [WORDS[place] for place in random.integers(0, len(WORDS), 6 * n)]
    first = random.integers(1, 4, (n, n_spans)) + 6 * np.arange(n)[:, None]
    spans = np.stack([first, first + random.integers(1, 3, first.shape)], axis=2)
    return SpanWords(words, np.arange(0, 6 * n + 1, 6), spans)


def splits(n_spans: int = 1) -> tuple[SpanWords, SpanWords, SpanWords]:
    train, dev, test = (items(n, seed, n_spans=n_spans) for n, seed in ((600, 1), (100, 2), (400, 3)))
    return train, dev, test


def accuracy(decides: Decides, *, n_spans: int = 1) -> float:
    train, dev, test = splits(n_spans)
    labels, dev_labels = decides(train), decides(dev)
    found = lexical_labels(train, labels, dev=dev, dev_labels=dev_labels, test=test)
    on_dev = by_scikit_learn(train, labels, dev, found.strength) == dev_labels
    assert found.dev_score == pytest.approx(on_dev.mean())
    return float((found.labels == decides(test)).mean())


def by_scikit_learn(
    train: SpanWords, labels: NDArray[np.int64], asked: SpanWords, strength: float
) -> NDArray[np.int64]:
    """scikit-learn's own way to one regression for each label."""
    vectorizer = DictVectorizer()
    known = vectorizer.fit_transform(train.features()).toarray()
    model = OneVsRestClassifier(LogisticRegression(C=strength, solver="liblinear"))
    return np.asarray(model.fit(known, labels).predict(vectorizer.transform(asked.features()).toarray()))


def last_word(of: SpanWords) -> NDArray[np.int64]:
    return np.array([WORDS.index(of.words[end - 1]) for end in of.spans[:, 0, 1].tolist()]) % 3


def word_before(of: SpanWords) -> NDArray[np.int64]:
    return np.array([WORDS.index(of.words[start - 1]) for start in of.spans[:, 0, 0].tolist()]) % 3


def place(of: SpanWords) -> NDArray[np.int64]:
    return of.spans[:, 0, 0] % 6 - 1


def which_is_first(of: SpanWords) -> NDArray[np.int64]:
    return np.sign(of.spans[:, 1, 0] - of.spans[:, 0, 0]) + 1


@pytest.mark.parametrize(("decides", "n_spans"), [(last_word, 1), (place, 1), (place, 2), (which_is_first, 2)])
def test_finds_what_words_and_places_decide(decides: Decides, n_spans: int) -> None:
    assert accuracy(decides, n_spans=n_spans) > 0.98


def test_sees_nothing_outside_the_spans() -> None:
    most_frequent = np.bincount(word_before(splits()[2])).max() / 400
    assert accuracy(word_before) < most_frequent + 0.06


def test_labels_of_which_an_item_may_have_several() -> None:
    train, dev, test = splits()
    wanted = [
        np.stack(
            [last_word(of) == 0, place(of) > 0, place(of) >= 0, place(of) < 0], axis=1
        )  # the last two are constant
        for of in (train, dev, test)
    ]
    found = lexical_labels(train, wanted[0], dev=dev, dev_labels=wanted[1], test=test)
    assert found.labels.shape == (400, 4)
    assert (found.labels == wanted[2]).mean(axis=0).min() > 0.98
    assert found.labels[:, 2].all()
    assert not found.labels[:, 3].any()


def test_items_without_a_label_are_not_learnt_from() -> None:
    train, dev, test = splits()
    labels = last_word(train)
    marred = np.where(np.arange(600) < 300, -1, labels)
    found = lexical_labels(train, marred, dev=dev, dev_labels=last_word(dev), test=test)
    half = SpanWords(train.words, train.starts, train.spans[300:])
    alone = lexical_labels(half, labels[300:], dev=dev, dev_labels=last_word(dev), test=test)
    # features that only items without a label have are there, and weigh nothing
    assert (found.labels == alone.labels).mean() > 0.98


def test_what_does_not_fit_is_told() -> None:
    train, dev = items(20, 1), items(10, 2)
    with pytest.raises(ValueError, match="numbers of items and labels differ"):
        lexical_labels(train, np.zeros(3, int), dev=dev, dev_labels=np.zeros(10, int), test=dev)
    with pytest.raises(ValueError, match="train has fewer than two labels"):
        lexical_labels(train, np.zeros(20, int), dev=dev, dev_labels=np.zeros(10, int), test=dev)
