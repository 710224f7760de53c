"""Occurrences of words with their senses, pairs of them, and sentences that are followed by one with another sense."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import LayerVectors, span_means, unit_vectors
from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.geometry._senses import SenseItems, pair_scores
from bertology.measures.sums import LayerSums

Integers = NDArray[np.int64]
Span = tuple[int, int]
"""Numbers of the first word of a span in its split, and of the word after it."""

_NO_SENSES = (
    "no word has a sense: give CoarseWSD-20, a lexical sample of Senseval, a table with columns such as "
    "text=sentence,label=sense,at=place, or pseudowords:CORPUS"
)


@dataclass(frozen=True)
class Occurrence:
    """One word with its sense."""

    span: Span
    """Numbers of its words in the split, the last not included."""
    word: str
    sense: str
    sentence: int


@dataclass(frozen=True)
class SenseData:
    """Items of each split, of words with several senses."""

    items: Mapping[str, SenseItems]
    words: tuple[str, ...]
    n_senses: int
    skipped: Mapping[str, int]
    """Occurrences of test that are left out, by reason."""

    def readable(self, words: Mapping[str, Integers]) -> SenseData:
        """The items of which all words are among some."""
        return replace(self, items={split: items.readable(words[split]) for split, items in self.items.items()})


def occurrences(sentences: Sentences) -> Iterator[Occurrence]:
    """Every target ``sense``, with the label ``word:sense``, or ``sense`` alone of the word as it is written.

    Raises:
        CorpusError: one has several senses, or covers no word.
    """
    for number, targets in sentences.targets("sense"):
        sentence, start = sentences[number], int(sentences.starts[number])
        for target in targets:
            first, last = target.span1
            if len(target.labels) != 1 or first >= last:
                what = "several senses" if first < last else "a sense of no word"
                raise CorpusError(
                    f"sentence {sentence.id or number + 1} has {what} in column 'sense': give one of one word"
                )
            word, colon, sense = target.labels[0].partition(":")
            if not colon:
                word, sense = " ".join(sentence.words[first:last]).casefold(), word
            yield Occurrence((start + first, start + last), word, sense, number)


def sense_data(sentences: Mapping[str, Sentences], *, known: str) -> SenseData:
    """The items of each split, of words that have several senses in the split ``known``.

    Raises:
        CorpusError: there are none.
    """
    found = {split: list(occurrences(text)) for split, text in sentences.items()}
    if not any(found.values()):
        raise CorpusError(_NO_SENSES)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found[known]:
        counts[one.word][one.sense] += 1
    of_test = Counter(one.word for one in found["test"])
    words = tuple(sorted(word for word in of_test if len(counts[word]) > 1))
    if not words:
        _refuse(counts, of_test, known)
    # The most frequent sense first, of equals by name.
    order = {word: [sense for _, sense in sorted((-n, sense) for sense, n in counts[word].items())] for word in words}
    code = {(word, sense): place for word, senses in order.items() for place, sense in enumerate(senses)}
    number = {word: place for place, word in enumerate(words)}
    skipped = Counter(
        {
            "word with one sense": sum(n for word, n in of_test.items() if len(counts[word]) == 1),
            f"word not in {known}": sum(n for word, n in of_test.items() if not counts[word]),
        }
    )
    items = {
        split: _items([one for one in of_split if one.word in number], number, code)
        for split, of_split in found.items()
    }
    return SenseData(items, words, len(code), {reason: n for reason, n in skipped.items() if n})


def _refuse(counts: Mapping[str, Counter[str]], of_test: Mapping[str, int], known: str) -> None:
    if not of_test:
        raise CorpusError("no word has a sense in test: give a test split with senses")
    if not any(counts[word] for word in of_test):
        word = quoted(next(iter(of_test)))
        raise CorpusError(
            f"no word with a sense in test, such as {word}, has one in {known}: split each word's occurrences"
        )
    word = quoted(next(word for word in of_test if counts[word]))
    raise CorpusError(f"every word has a single sense in {known}, such as {word}: give words with two senses or more")


def _items(some: Iterable[Occurrence], number: Mapping[str, int], code: Mapping[tuple[str, str], int]) -> SenseItems:
    some = list(some)
    return SenseItems(
        np.array([one.span for one in some], dtype=np.int64).reshape(-1, 2),
        np.array([number[one.word] for one in some], dtype=np.int64),
        np.array([code.get((one.word, one.sense), -1) for one in some], dtype=np.int64),
        np.array([one.sentence for one in some], dtype=np.int64),
    )


def context_vectors(contexts: Mapping[str, list[list[str]]]) -> dict[str, Any]:
    """Sparse ``[item, word]`` TF-IDF weights of contexts by split, of length 1; frequencies are those of train."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(analyzer=list)
    weights.fit([*contexts["train"], ["a"]])  # of which there is one word at least
    return {split: weights.transform(of_split).astype(np.float32) for split, of_split in contexts.items()}


def context(sentences: Sentences, bounds: Span, span: Span) -> list[str]:
    """The words between two bounds but for those of a span, all numbered in the split, in lower case."""
    places = [*range(bounds[0], span[0]), *range(span[1], bounds[1])]
    forms = sentences.forms
    return [str(forms.values[forms.codes[place]]).casefold() for place in places]


_SAME, _OTHER = frozenset({"t", "true", "1", "yes", "same"}), frozenset({"f", "false", "0", "no", "different"})
_VARIANTS = ("", "_standardised")


@dataclass(frozen=True, eq=False)
class SensePairs:
    """Pairs of spans of one split."""

    spans: Integers
    """``[pair, 2, 2]`` both spans, numbered in the split."""
    bounds: Integers
    """``[pair, 2, 2]`` the texts that they stand in."""
    same: NDArray[np.bool_]
    clusters: Integers

    def of(self, chosen: Any) -> SensePairs:
        """Some of the pairs."""
        return SensePairs(self.spans[chosen], self.bounds[chosen], self.same[chosen], self.clusters[chosen])

    @property
    def every_word(self) -> Integers:
        """Numbers of all words of both spans."""
        return np.unique(np.concatenate([np.arange(*span) for span in self.spans.reshape(-1, 2)]))

    def readable(self, words: Integers) -> SensePairs:
        """Pairs all of whose words are among some, ascending."""
        inside = np.diff(np.searchsorted(words, self.spans), axis=2)[..., 0]
        return self.of((inside == np.diff(self.spans, axis=2)[..., 0]).all(axis=1))


def read_pairs(sentences: Sentences, column: str) -> SensePairs:
    """Pairs of occurrences in one sentence, or in two that follow one another as ``apart:CORPUS`` parts them.

    Raises:
        CorpusError: there are none, or a label is none of ``T``, ``F``, 1, 0, ``same``, ``different`` ….
    """
    spans, bounds, same, clusters = [], [], [], []
    texts = dict(sentences.targets("texts"))
    waiting: tuple[int, str, Any] | None = None
    for number, (target, *others) in sentences.targets(column):
        start, end = int(sentences.starts[number]), int(sentences.starts[number + 1])
        name, _, half = sentences.id(number).rpartition("/")
        of_first = (start + target.span1[0], start + target.span1[1])
        if others or len(target.labels) != 1:
            raise CorpusError(f"sentence {sentences.id(number)} has several labels in {quoted(column)}: give one")
        if target.span2 is not None:
            middle = start + (texts[number][1].span1[0] if number in texts else target.span2[0])
            spans.append((of_first, (start + target.span2[0], start + target.span2[1])))
            bounds.append(((start, middle), (middle, end)))
        elif half == "2" and waiting is not None and waiting[:2] == (number - 1, name):
            spans.append((waiting[2][0], of_first))
            bounds.append((waiting[2][1], (start, end)))
        else:
            waiting = number, name, (of_first, (start, end))
            continue
        same.append(_is_same(target.labels[0], column, sentences.id(number)))
        clusters.append(number)
    if not same:
        remedy = "give WiC, or a table with columns such as text=s1,text2=s2,at=i,at2=j,label=same"
        raise CorpusError(f"no pair of words has a label in column {quoted(column)}: {remedy}")
    shape = (-1, 2, 2)
    return SensePairs(
        np.array(spans, dtype=np.int64).reshape(shape),
        np.array(bounds, dtype=np.int64).reshape(shape),
        np.array(same),
        np.array(clusters),
    )


def _is_same(label: str, column: str, name: str) -> bool:
    if label.casefold() not in _SAME | _OTHER:
        known = listed(sorted(_SAME | _OTHER))
        raise CorpusError(f"sentence {name}: label {quoted(label)} in {quoted(column)} is none of {known}")
    return label.casefold() in _SAME


def pair_statistics(
    vectors: Mapping[str, LayerVectors], pairs: Mapping[str, SensePairs], test: Sentences
) -> Iterator[LayerSums]:
    """Scores of the cosine of the vectors of a pair, raw and in standardised dimensions, by layer."""
    layers = vectors["test"].layers
    cosines: dict[str, dict[str, list[Any]]] = {suffix: {"train": [], "test": []} for suffix in _VARIANTS}
    for layer in layers:
        both = {split: _both(read.of(layer), read.words, pairs[split]) for split, read in vectors.items()}
        mean = both["train"].mean(axis=(0, 1))
        deviation = both["train"].std(axis=(0, 1))
        for split, of_split in both.items():
            cosines[""][split].append(_cosines(of_split, layer))
            scaled = np.divide(of_split - mean, deviation, out=np.zeros_like(of_split), where=deviation > 0)
            cosines["_standardised"][split].append(_cosines(scaled, layer, may_vanish=True))
    for suffix, by_split in cosines.items():
        stacked = {split: np.stack(of_split) for split, of_split in by_split.items()}
        yield from _scores(layers, stacked, pairs, _groups(pairs["test"], test), suffix)


def lexical_pair_statistics(
    sentences: Mapping[str, Sentences], pairs: Mapping[str, SensePairs], *, by_context: bool
) -> Iterator[LayerSums]:
    """The same scores of the cosine of the other words of both contexts (TF-IDF), or of cosines that are all alike."""
    cosines = {split: np.zeros((1, len(of_split.same))) for split, of_split in pairs.items()}
    if by_context:
        contexts = {
            split: [
                context(sentences[split], tuple(bounds), tuple(span))
                for bounds, span in zip(some.bounds.reshape(-1, 2), some.spans.reshape(-1, 2), strict=True)
            ]
            for split, some in pairs.items()
        }
        for split, weights in context_vectors(contexts).items():
            cosines[split] = np.asarray(weights[::2].multiply(weights[1::2]).sum(axis=1)).reshape(1, -1)
    return _scores((None,), cosines, pairs, _groups(pairs["test"], sentences["test"]), "")


def _both(vectors: Any, words: Integers, pairs: SensePairs) -> Any:
    """``[pair, 2, dim]``."""
    means = span_means(vectors, np.searchsorted(words, pairs.spans.reshape(-1, 2)))
    return means.reshape(len(pairs.same), 2, -1)


def _cosines(both: Any, layer: int, *, may_vanish: bool = False) -> Any:
    unit = unit_vectors(both.reshape(-1, both.shape[2]), layer, may_vanish=may_vanish).reshape(both.shape)
    return np.einsum("pd,pd->p", unit[:, 0], unit[:, 1])


def _scores(
    layers: tuple[int | None, ...],
    cosines: Mapping[str, Any],
    pairs: Mapping[str, SensePairs],
    groups: Mapping[str, NDArray[np.bool_]],
    suffix: str,
) -> Iterator[LayerSums]:
    same = {split: some.same for split, some in pairs.items()}
    return pair_scores(layers, cosines, same, pairs["test"].clusters, suffix=suffix, groups=groups)


def _groups(pairs: SensePairs, sentences: Sentences) -> dict[str, NDArray[np.bool_]]:
    """Whether the word is written alike in both."""
    forms = [[context(sentences, tuple(span), (span[1], span[1])) for span in both] for both in pairs.spans]
    alike = np.array([first == second for first, second in forms], dtype=bool)
    groups = {"same form": alike, "other form": ~alike}
    return {name: which for name, which in groups.items() if which.any()}


_FORMS = ("alone", "other", "same")


@dataclass(frozen=True)
class Concatenated:
    """Words of test sentences that are followed by a sentence with another sense of the word, and senses in train."""

    known: Mapping[tuple[str, str], list[Span]]
    """Spans in train by word and sense."""
    items: Sequence[_Item]

    @property
    def every_word(self) -> dict[str, Integers]:
        """Numbers of all words of the spans, by split."""
        spans = {
            "train": [span for of_sense in self.known.values() for span in of_sense],
            "test": [span for item in self.items for span in item.spans.values()],
        }
        return {split: np.unique(np.concatenate([np.arange(*one) for one in some])) for split, some in spans.items()}


@dataclass(frozen=True)
class _Item:
    """A word of a test sentence."""

    own: tuple[str, str]
    """The word and its sense."""
    other: tuple[str, str]
    """The word and the sense of the sentence that follows in the form ``other``."""
    spans: Mapping[str, Span]
    """Accuracies by form of the sentence."""


def concatenated(sentences: Mapping[str, Sentences], words: Mapping[str, Integers] | None = None) -> Concatenated:
    """The spans in train, and the items of the test, of which all words are among ``words``.

    Raises:
        CorpusError: no sentence is followed by one with another sense of its word, or train has no such senses.
    """

    def is_read(split: str, span: Span) -> bool:
        return words is None or bool(np.isin(np.arange(*span), words[split]).all())

    known: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for one in occurrences(sentences["train"]):
        if is_read("train", one.span):
            known[one.word, one.sense].append(one.span)
    test, added = sentences["test"], dict(sentences["test"].targets("added"))
    spans: dict[str, dict[str, Span]] = defaultdict(dict)
    own: dict[str, tuple[str, str]] = {}
    other: dict[str, tuple[str, str]] = {}
    for one in occurrences(test):
        name, _, kind = test.id(one.sentence).rpartition("/")
        if kind in _FORMS and is_read("test", one.span):
            spans[name][kind], own[name] = one.span, (one.word, one.sense)
        if kind == "other" and one.sentence in added:
            word, _, sense = added[one.sentence][0].labels[0].partition(":")
            other[name] = word, sense
    if not other:
        remedy = "give concatenated:CORPUS, such as concatenated:path/to/CoarseWSD-20"
        raise CorpusError(f"no sentence of the test is followed by one with another sense of its word: {remedy}")
    items = [
        _Item(own[name], other[name], spans[name])
        for name in other
        if {"alone", "other"} <= spans[name].keys() and own[name] in known and other[name] in known
    ]
    if not items:
        word, sense = next(iter(own.values()))
        raise CorpusError(f"train has no example of senses of the test, such as {word}:{sense}: give a train with them")
    return Concatenated(known, items)


def concatenation_statistics(vectors: Mapping[str, LayerVectors], read: Concatenated) -> Iterator[LayerSums]:
    """Ratios of cosines to the centroids of two senses in each form of the sentence, and their differences."""
    known, items = read.known, read.items
    layers, place = vectors["test"].layers, {sense: number for number, sense in enumerate(known)}
    chosen = {kind: [n for n, item in enumerate(items) if kind in item.spans] for kind in _FORMS}
    ratios, nearer = ({kind: np.full((len(layers), len(items)), np.nan) for kind in _FORMS} for _ in range(2))
    for row, layer in enumerate(layers):
        train = _unit(vectors["train"], [span for of_sense in known.values() for span in of_sense], layer)
        starts = np.cumsum([0, *map(len, known.values())])[:-1]
        centroids = unit_vectors(np.add.reduceat(train, starts, axis=0), layer)
        for kind, numbers in chosen.items():
            if numbers:
                found = _unit(vectors["test"], [items[n].spans[kind] for n in numbers], layer)
                own, other = (
                    (found * centroids[[place[getattr(items[n], which)] for n in numbers]]).sum(axis=1)
                    for which in ("own", "other")
                )
                ratios[kind][row, numbers], nearer[kind][row, numbers] = own / other, own > other
    _, words = np.unique([item.own[0] for item in items], return_inverse=True)
    return _sums(layers, ratios, nearer, words)


def _unit(vectors: LayerVectors, spans: Sequence[Span], layer: int) -> NDArray[np.float32]:
    places = np.searchsorted(vectors.words, np.array(spans))
    return unit_vectors(span_means(vectors.of(layer), places), layer)


def _sums(
    layers: tuple[int, ...],
    ratios: Mapping[str, NDArray[np.float64]],
    nearer: Mapping[str, NDArray[np.float64]],
    words: Integers,
) -> Iterator[LayerSums]:
    """Means over words of means over items, of those that have the form."""

    def mean(name: str, values: NDArray[np.float64]) -> LayerSums:
        has = np.isfinite(values[0])
        counts = np.bincount(words[has], minlength=int(words.max()) + 1)
        weights = np.where(has, 1.0 / np.maximum(counts[words], 1), 0.0)
        over = np.where(has, values, 0.0) * weights
        return LayerSums(name, layers, over, weights[None], "sentences")

    yield mean("fall", ratios["alone"] - ratios["other"])
    for kind, of_kind in ratios.items():
        if np.isfinite(of_kind).any():
            yield mean(f"ratio_{kind}", of_kind)
            yield mean(f"own_share_{kind}", nearer[kind])
    if np.isfinite(ratios["same"]).any():
        yield mean("fall_beyond_same", ratios["same"] - ratios["other"])
