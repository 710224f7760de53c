"""Baselines and controls: majority labels, a lexical baseline of spans, control tasks, and less training data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertology._lazy import sklearn

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Labels = NDArray[np.int64] | NDArray[np.bool_]
"""``[item]`` one code each, −1 for none; or ``[item, label]`` whether an item has each."""
Times = NDArray[np.int64] | None

STRENGTHS: Final = (1.0, 10.0)
"""Inverse L2 strengths among which dev chooses. Weaker penalties change nothing; stronger ones lose rare words."""
_FAR, _LONG, _LATE = 15, 12, 25
_MANTISSA_BITS = 53


def majority(train_labels: ArrayLike, times: Times = None) -> Labels:
    """The most frequent label in training, or the labels that more than half of the items have.

    Args:
        train_labels: ``int [item]`` codes, of which −1 is no label; or ``bool [item, label]``.
        times: ``[item]`` of codes that are all labels, how often each counts; once where left out.

    Returns:
        Of codes one code, the lowest of equally frequent ones; of label sets ``bool [label]``.

    Raises:
        ValueError: there is no label.
    """
    labels = np.asarray(train_labels)
    kept = labels[labels >= 0] if labels.ndim == 1 else labels.astype(np.bool_)
    if not len(kept):
        raise ValueError("there are no training labels")
    if labels.ndim == 1:
        return np.asarray(np.bincount(kept, times).argmax(), dtype=np.int64)
    return np.asarray(2 * kept.sum(axis=0) > len(kept))


def word_majority(
    train_words: ArrayLike, train_labels: ArrayLike, test_words: ArrayLike, *, n_words: int, times: Times = None
) -> Labels:
    """Predict for each word the label most frequent for its form in training; for an unseen form, the majority label.

    Of a form's equally frequent labels, the one more frequent overall is taken, then the lowest. Where an item has any
    number of labels, those are predicted that more than half of the items of the form have.

    Args:
        train_words: ``int [item]`` number of the word form (case counts), 0 … ``n_words`` − 1.
        train_labels: ``int [item]``, of which −1 is no label; or ``bool [item, label]``.
        test_words: ``int [item]`` in the same numbering; −1 is a form that is absent from training.
        n_words: number of forms; ``times`` as of :func:`majority`.
    """
    words, labels = np.asarray(train_words, dtype=np.int64), np.asarray(train_labels)
    test = np.asarray(test_words, dtype=np.int64)
    if len(words) != len(labels):
        raise ValueError(f"shapes do not fit: train_words {words.shape}, train_labels {labels.shape}")
    if test.size and not (test.min() >= -1 and test.max() < n_words):
        raise ValueError(f"test_words has numbers outside -1…{n_words - 1}")
    if labels.ndim == 1:
        kept, labels = labels >= 0, labels.astype(np.int64)
        n_labels = int(labels.max(initial=0)) + 1
        overall = np.bincount(labels[kept], times, n_labels)
        pairs, of_item = np.unique(words[kept] * n_labels + labels[kept], return_inverse=True)
        word, label = np.divmod(pairs, n_labels)
        # The last of each word in this order is its most frequent label.
        order = np.lexsort((-label, overall[label], np.bincount(of_item, times), word))
        by_form: Labels = np.full(n_words, majority(labels, times), dtype=np.int64)
        by_form[word[order]] = label[order]
    else:
        n_having = np.zeros((n_words, labels.shape[1]), dtype=np.int64)
        np.add.at(n_having, words, labels)
        n_items = np.bincount(words, minlength=n_words)[:, None]
        by_form = np.where(n_items > 0, 2 * n_having > n_items, majority(labels))
    predicted = by_form[test]
    predicted[test < 0] = majority(labels, times)
    return predicted


@dataclass(frozen=True)
class SpanWords:
    """The words of some items and their positions."""

    words: Sequence[str]
    """All words of the split, as spelled."""
    starts: NDArray[np.int64]
    """``[sentence]`` the first word of each, in ascending order."""
    spans: NDArray[np.int64]
    """``[item, span, 2]`` words of each span, numbered through the split, end exclusive."""

    def features(self) -> Iterator[dict[str, float]]:
        """Features of each item: words of its spans, bigrams, first and last word, length, position, and of two spans
        their distance and order, and their last words, which in English are mostly their heads."""
        begins = self.starts[np.searchsorted(self.starts, self.spans[:, :, 0], side="right") - 1]  # [item, span]
        lower = [word.lower() for word in self.words]
        for spans, of_spans in zip(self.spans.tolist(), begins.tolist(), strict=True):
            names = []
            for number, ((start, end), begin) in enumerate(zip(spans, of_spans, strict=True)):
                of_span = [f"word {word}" for word in lower[start:end]]
                of_span += [f"first {lower[start]}", f"last {lower[end - 1]}"]
                of_span += [f"pair {one} {other}" for one, other in pairwise(lower[start:end])]
                of_span += [f"length {min(end - start, _LONG)}", f"place {min(start - begin, _LATE)}"]
                of_span += ["capital"] if self.words[start][:1].isupper() else []
                names += [f"{number} {name}" for name in of_span]
            if len(spans) == 2:
                one, other = spans
                names.append(f"distance {max(-_FAR, min(_FAR, other[0] - one[0]))}")
                names += ["second in first"] if one[0] <= other[0] and other[1] <= one[1] else []
                names += ["first in second"] if other[0] <= one[0] and one[1] <= other[1] else []
                names.append(f"both {lower[one[1] - 1]} {lower[other[1] - 1]}")
            yield dict.fromkeys(names, 1.0)


@dataclass(frozen=True)
class LexicalAnswers:
    """Labels that the lexical baseline predicts for the test items."""

    labels: Labels
    """``[item]`` codes, or ``[item, label]`` truth values."""
    strength: float
    """Inverse L2 strength chosen on dev."""
    dev_score: float
    """Accuracy on dev; of items with several labels micro F1."""


def lexical_labels(
    train: SpanWords, labels: Labels, *, dev: SpanWords, dev_labels: Labels, test: SpanWords
) -> LexicalAnswers:
    """Predict labels of test items from words and positions: the lexical baseline of tasks about spans.

    A logistic regression for each label (scikit-learn's, liblinear) on :meth:`SpanWords.features`, its strength chosen
    on dev. It has no word outside the spans, as layer 0 of an encoder has none. Yet on text of an open vocabulary layer
    0 may beat it: vectors of pieces carry over to words absent from training. Labels are ``int [item]``, of dev −1 for
    one that train lacks, or ``bool [item, label]``.

    Raises:
        ValueError: numbers of items and labels differ, or train has fewer than two labels.
    """
    if len(train.spans) != len(labels) or len(dev.spans) != len(dev_labels):
        raise ValueError("numbers of items and labels differ")
    vectorizer = sklearn.feature_extraction.DictVectorizer(dtype=np.float32)
    fitted_on = _narrow(vectorizer.fit_transform(train.features()))
    on_dev, on_test = (_narrow(vectorizer.transform(items.features())) for items in (dev, test))
    fits, scores = [_fitted(fitted_on, labels, strength) for strength in STRENGTHS], []
    for predict in fits:
        predicted = predict(on_dev)
        if dev_labels.ndim == 1:
            scores.append(float((predicted == dev_labels).mean()))
        else:
            n_claimed = max(float(predicted.sum() + dev_labels.sum()), 1.0)
            scores.append(2 * float((predicted & dev_labels).sum()) / n_claimed)
    best = int(np.argmax(scores))
    return LexicalAnswers(fits[best](on_test), STRENGTHS[best], scores[best])


def _fitted(features: csr_matrix, labels: Labels, strength: float) -> Callable[[csr_matrix], Labels]:
    """A function from features to the likeliest label of each item, or to those that are likelier than not.

    There is a model for each label, none where all training items have the label, or no item has.
    """
    one_each = labels.ndim == 1
    if one_each:
        kept = labels >= 0
        features, codes = features[kept], labels[kept]
        if len(np.unique(codes)) < 2:
            raise ValueError("train has fewer than two labels")
        labels = codes[:, None] == np.arange(codes.max() + 1)
    # liblinear ignores the seed here; it is fixed in case another solver is used
    how: Any = {"C": strength, "solver": "liblinear", "random_state": 0}
    models = {
        label: sklearn.linear_model.LogisticRegression(**how).fit(features, column)
        for label, column in enumerate(labels.T)
        if column.any() and not column.all()
    }
    constants = np.where(labels.all(axis=0), np.inf, -np.inf)

    def predict(items: csr_matrix) -> Labels:
        scores = np.tile(constants, (items.shape[0], 1))
        for label, model in models.items():
            scores[:, label] = model.decision_function(items)
        return np.asarray(scores.argmax(axis=1) if one_each else scores > 0)

    return predict


def _narrow(features: csr_matrix) -> csr_matrix:
    """The matrix with the 32-bit indices that liblinear requires."""
    features.indices, features.indptr = features.indices.astype(np.int32), features.indptr.astype(np.int32)
    return features


def control_labels(
    word_codes: ArrayLike, vocabulary: Sequence[str], label_distribution: ArrayLike, *, seed: int
) -> NDArray[np.int64]:
    """``[item]`` a random label for each word *type*, the same wherever it occurs (Hewitt & Liang 2019, §2.1).

    A readout can do well on such labels only by memorising them. A label depends on the seed and the word's spelling
    alone, so that splits with different vocabularies, in any order, agree on it.

    Args:
        word_codes: ``int [item]`` place of each item's form in ``vocabulary``, of word forms as spelled (case counts).
        vocabulary: the word forms.
        label_distribution: ``[label]`` counts or shares of the task's own labels in training: what is drawn from.
        seed: of the whole assignment.

    Raises:
        ValueError: the distribution is empty, negative or all zero.
    """
    cumulative = np.cumsum(np.asarray(label_distribution, dtype=np.float64))
    if not cumulative.size or cumulative[-1] <= 0 or np.any(np.diff(cumulative, prepend=0.0) < 0):
        raise ValueError("label_distribution needs at least one positive share and no negative one")
    how = {"digest_size": 8, "key": seed.to_bytes(8, "little", signed=True), "person": b"control task"}
    digests = b"".join(blake2b(word.encode("utf-8", "surrogatepass"), **how).digest() for word in vocabulary)  # type: ignore[arg-type]
    # a number in [0, 1) for each form
    uniform = (np.frombuffer(digests, dtype="<u8") >> np.uint64(64 - _MANTISSA_BITS)).astype(np.float64)
    places = uniform / 2.0**_MANTISSA_BITS * cumulative[-1]
    of_type: NDArray[np.int64] = np.searchsorted(cumulative, places, side="right")
    return np.asarray(of_type[np.asarray(word_codes, dtype=np.int64)])


def fraction_mask(clusters: ArrayLike, fraction: float, *, seed: int) -> NDArray[np.bool_]:
    """``bool [item]`` a random portion of whole clusters, numbered ``[item]``, with about ``fraction`` of the items.

    Clusters are put in a random order; those that begin in the first ``fraction`` of the items make up the portion.
    Portions of one seed are nested, and none is empty.

    Raises:
        ValueError: the fraction is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"the fraction of training data is {fraction}: give a number above 0, at most 1")
    numbers = np.asarray(clusters, dtype=np.int64)
    _, cluster, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    before = np.empty(len(sizes), dtype=np.int64)
    before[order] = np.cumsum(sizes[order]) - sizes[order]
    return np.asarray(before[cluster] / max(1, len(numbers)) < fraction)
