"""What the words of spans and their places tell by themselves: a classifier that is given no vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Labels = NDArray[np.int64] | NDArray[np.bool_]
"""``[item]`` one code each, −1 for none; or ``[item, label]`` whether an item has each."""

STRENGTHS: Final = (1.0, 10.0)
"""Inverse strengths of L2 of which dev chooses. Weaker penalties change nothing; stronger ones forget rare words."""
_FAR = 15
_LONG = 12
_LATE = 25


@dataclass(frozen=True)
class SpanWords:
    """The words of some items and where they stand.

    Args:
        words: of the whole split, as they are written.
        starts: ``[sentence]`` the first word of each, in ascending order.
        spans: ``[item, span, 2]`` words of each span, numbered through the split, end exclusive.
    """

    words: Sequence[str]
    starts: NDArray[np.int64]
    spans: NDArray[np.int64]

    def features(self) -> Iterator[dict[str, float]]:
        """Of each item: the words of its spans, singly, in pairs of neighbours, first and last, and their places."""
        begins = self.starts[np.searchsorted(self.starts, self.spans[:, :, 0], side="right") - 1]  # [item, span]
        words = [word.lower() for word in self.words]
        for spans, of_spans in zip(self.spans.tolist(), begins.tolist(), strict=True):
            found: dict[str, float] = {}
            for number, ((start, end), begin) in enumerate(zip(spans, of_spans, strict=True)):
                of_span = [*self._of_words(words[start:end]), *self._of_place(start, end, begin)]
                found |= {f"{number} {name}": 1.0 for name in of_span}
            if len(spans) == 2:
                found |= dict.fromkeys(_between(words, *spans), 1.0)
            yield found

    def _of_words(self, words: Sequence[str]) -> Iterator[str]:
        yield from (f"word {word}" for word in words)
        yield f"first {words[0]}"
        yield f"last {words[-1]}"
        yield from (f"pair {one} {other}" for one, other in pairwise(words))

    def _of_place(self, start: int, end: int, begin: int) -> Iterator[str]:
        yield f"length {min(end - start, _LONG)}"
        yield f"place {min(start - begin, _LATE)}"
        if self.words[start][:1].isupper():
            yield "capital"


@dataclass(frozen=True)
class LexicalAnswers:
    """What the words alone say of the test items."""

    labels: Labels
    """``[item]`` codes, or ``[item, label]`` truth values."""
    strength: float
    """The inverse strength of L2 that dev chose."""
    dev_score: float
    """The share of dev that is right; of items with several labels micro F1."""


def lexical_labels(
    train: SpanWords, labels: Labels, *, dev: SpanWords, dev_labels: Labels, test: SpanWords
) -> LexicalAnswers:
    """Label test items by their words and places: the lexical baseline of tasks about spans.

    A logistic regression for each label (scikit-learn's, liblinear) on the words of the spans, pairs of neighbours, the
    first and the last word, length, place in the sentence, and of two spans their distance, order and last words
    together. No word outside the spans is seen, as none is at layer 0 of an encoder. A majority by form says little of
    spans, which hardly ever recur as a whole.

    Layer 0 should not beat it where training has every word of the test, as in the pocket world. On text of an open
    vocabulary it may, without any context: it reads pieces, and what it knows of them carries over to words that
    training lacks, of which this baseline knows only length, place and capital.

    Args:
        train: items to fit on.
        labels: of them, ``int [item]`` or ``bool [item, label]``.
        dev: items to choose the strength by.
        dev_labels: of them, in the same numbering; −1 for a label that train does not have.
        test: items to label.

    Raises:
        ValueError: numbers of items and labels differ, or train has fewer than two labels.
    """
    from sklearn.feature_extraction import DictVectorizer

    if len(train.spans) != len(labels) or len(dev.spans) != len(dev_labels):
        raise ValueError("numbers of items and labels differ")
    vectorizer = DictVectorizer(dtype=np.float32)
    fitted_on = _narrow(vectorizer.fit_transform(train.features()))
    chosen_by, asked = (_narrow(vectorizer.transform(items.features())) for items in (dev, test))
    best: tuple[float, float, _Regressions] | None = None
    for strength in STRENGTHS:
        found = _Regressions.fit(fitted_on, labels, strength)
        score = _score(found.predict(chosen_by), dev_labels)
        if best is None or score > best[0]:
            best = score, strength, found
    assert best is not None, "there are strengths to choose from"
    return LexicalAnswers(best[2].predict(asked), best[1], best[0])


@dataclass(frozen=True)
class _Regressions:
    """One for each label; None where all training items have it, or none."""

    models: tuple[Any, ...]
    constants: NDArray[np.bool_]
    """``[label]`` what is said where there is no regression."""
    one_each: bool

    @classmethod
    def fit(cls, features: csr_matrix, labels: Labels, strength: float) -> _Regressions:
        from sklearn.linear_model import LogisticRegression

        one_each = labels.ndim == 1
        if one_each:
            kept = labels >= 0
            features, codes = features[kept], labels[kept]
            if len(np.unique(codes)) < 2:
                raise ValueError("train has fewer than two labels")
            labels = codes[:, None] == np.arange(codes.max() + 1)
        some, every = np.atleast_1d(labels.any(axis=0)), np.atleast_1d(labels.all(axis=0))
        # the seed is of no use to this solver, and is asked for so that no other ever depends on chance
        models = tuple(
            LogisticRegression(C=strength, solver="liblinear", random_state=0).fit(features, labels[:, label])
            if some[label] and not every[label]
            else None
            for label in range(labels.shape[1])
        )
        return cls(models, every, one_each)

    def predict(self, features: csr_matrix) -> Labels:
        """``[item]`` the likeliest label, or ``[item, label]`` those that are likelier than not."""
        scores = np.full((features.shape[0], len(self.models)), -np.inf)
        for label, model in enumerate(self.models):
            if model is not None:
                scores[:, label] = model.decision_function(features)
            elif self.constants[label]:
                scores[:, label] = np.inf
        return scores.argmax(axis=1) if self.one_each else scores > 0


def _between(words: Sequence[str], one: Sequence[int], other: Sequence[int]) -> Iterator[str]:
    """How two spans stand to each other, and their last words, which in English are mostly their heads."""
    yield f"distance {max(-_FAR, min(_FAR, other[0] - one[0]))}"
    if one[0] <= other[0] and other[1] <= one[1]:
        yield "second in first"
    if other[0] <= one[0] and one[1] <= other[1]:
        yield "first in second"
    yield f"both {words[one[1] - 1]} {words[other[1] - 1]}"


def _narrow(features: csr_matrix) -> csr_matrix:
    """With the narrow indices that liblinear wants."""
    features.indices, features.indptr = features.indices.astype(np.int32), features.indptr.astype(np.int32)
    return features


def _score(predicted: Labels, labels: Labels) -> float:
    if labels.ndim == 1:
        return float((predicted == labels).mean())
    right = float((predicted & labels).sum())
    return 2 * right / max(float(predicted.sum() + labels.sum()), 1.0)
