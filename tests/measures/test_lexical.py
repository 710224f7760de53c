"""The lexical baseline finds what words and their places decide, and nothing that is decided outside the spans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from bertology.measures import SpanWords, lexical_labels

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
