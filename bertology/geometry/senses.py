"""Whether vectors tell the senses of a word apart, and kinds of spans such as chunks: neighbours, clusters, pairs.

Functions that score return the statistics of one layer, see :func:`bertology.measures.sums.by_layer`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import Floats32, LayerVectors, span_means, unit_vectors
from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.measures.sums import (
    Bools,
    Floats,
    Integers,
    LayerSums,
    by_layer,
    cluster_sums,
    item_jackknife,
    jackknife_sums,
    mean_sums,
    ratio_sums,
)

Span = tuple[int, int]
"""Numbers of the first word of a span in its split, and of the word after it."""
NEIGHBOURS = tuple(range(1, 11))
"""Numbers of neighbours that are tried on dev (Wiedemann et al. 2019)."""
_MOST_CLUSTERS = 8
_NO_SENSES = (
    "no word has a sense: give CoarseWSD-20, a lexical sample of Senseval, a table with columns such as "
    "text=sentence,label=sense,at=place, or pseudowords:CORPUS"
)


def words_of_spans(spans: Integers) -> NDArray[np.int64]:
    """Numbers of all words of spans ``[…, 2]``, ascending."""
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(np.arange(*span) for span in spans.reshape(-1, 2))]))


def _are_read(spans: Integers, words: Integers) -> Bools:
    """``[…]`` whether all words of spans ``[…, 2]`` are among some, ascending."""
    return np.asarray(np.diff(np.searchsorted(words, spans))[..., 0] == np.diff(spans)[..., 0])


# Occurrences of words with senses.


@dataclass(frozen=True, eq=False)
class SenseItems:
    """Occurrences of words with senses, in one split of a corpus."""

    spans: Integers
    """``[item, 2]`` the first word of each and the one after the last, numbered in the split."""
    words: Integers
    """``[item]`` which word of the lexicon it is."""
    senses: Integers
    """``[item]`` which of its word's senses, the most frequent in training first; −1 for one that training lacks."""
    clusters: Integers
    """``[item]`` its sentence."""

    def __len__(self) -> int:
        return len(self.words)

    def readable(self, words: Integers) -> SenseItems:
        """The items all of whose words are among ``words`` (ascending)."""
        kept = _are_read(self.spans, words)
        return SenseItems(self.spans[kept], self.words[kept], self.senses[kept], self.clusters[kept])

    def means(self, vectors: Floats32, words: Integers) -> Floats32:
        """``[item, dim]`` means over spans of the vectors of ``words``, which hold all of them."""
        return span_means(vectors, np.searchsorted(words, self.spans))


class SenseData(NamedTuple):
    """Items of each split, of words with several senses."""

    items: Mapping[str, SenseItems]
    words: tuple[str, ...]
    n_senses: int
    skipped: Mapping[str, int]
    """Occurrences of test that are left out, by reason."""


class SenseOccurrence(NamedTuple):
    """One word with its sense."""

    span: Span
    word: str
    sense: str
    sentence: int


def occurrences(sentences: Sentences) -> Iterator[SenseOccurrence]:
    """Every target ``sense``, with the label ``word:sense``, or ``sense`` alone of the word as it is written."""
    for number, targets in sentences.targets("sense"):
        sentence, start = sentences[number], int(sentences.starts[number])
        for target in targets:
            first, last = target.span1
            if len(target.labels) != 1 or first >= last:
                what = "several senses" if first < last else "a sense of no word"
                name = sentence.id or number + 1
                raise CorpusError(f"sentence {name} has {what} in column 'sense': give one of one word")
            word, colon, sense = target.labels[0].partition(":")
            if not colon:
                word, sense = " ".join(sentence.words[first:last]).casefold(), word
            yield SenseOccurrence((start + first, start + last), word, sense, number)


def sense_data(
    sentences: Mapping[str, Sentences], *, known: str, words: Mapping[str, Integers] | None = None
) -> SenseData:
    """The items of each split, of words that have several senses in the split ``known``."""
    found = {split: list(occurrences(text)) for split, text in sentences.items()}
    if not any(found.values()):
        raise CorpusError(_NO_SENSES)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found[known]:
        counts[one.word][one.sense] += 1
    of_test = Counter(one.word for one in found["test"])
    names = tuple(sorted(word for word in of_test if len(counts[word]) > 1))
    if not names:
        raise _no_items(counts, of_test, known)
    number = {word: place for place, word in enumerate(names)}
    # The most frequent sense first, of equals by name.
    code = {
        (word, sense): place
        for word in names
        for place, (_, sense) in enumerate(sorted((-n, sense) for sense, n in counts[word].items()))
    }
    items = {}
    for split, of_split in found.items():
        some = [one for one in of_split if one.word in number]
        items[split] = SenseItems(
            np.array([one.span for one in some], dtype=np.int64).reshape(-1, 2),
            np.array([number[one.word] for one in some], dtype=np.int64),
            np.array([code.get((one.word, one.sense), -1) for one in some], dtype=np.int64),
            np.array([one.sentence for one in some], dtype=np.int64),
        )
        if words is not None:
            items[split] = items[split].readable(words[split])
    skipped = {
        "word with one sense": sum(n for word, n in of_test.items() if len(counts[word]) == 1),
        f"word not in {known}": sum(n for word, n in of_test.items() if not counts[word]),
    }
    return SenseData(items, names, len(code), {reason: n for reason, n in skipped.items() if n})


def _no_items(counts: Mapping[str, Counter[str]], of_test: Mapping[str, int], known: str) -> CorpusError:
    if not of_test:
        return CorpusError("no word has a sense in test: give a test split with senses")
    with_sense = [word for word in of_test if counts[word]]
    if not with_sense:
        problem = f"no word with a sense in test, such as {quoted(next(iter(of_test)))}, has one in {known}"
        return CorpusError(f"{problem}: split each word's occurrences")
    problem = f"every word has a single sense in {known}, such as {quoted(with_sense[0])}"
    return CorpusError(f"{problem}: give words with two senses or more")


def context_vectors(contexts: Mapping[str, list[list[str]]]) -> dict[str, Any]:
    """Sparse ``[item, word]`` TF-IDF weights of contexts by split, of length 1; frequencies are those of train."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(analyzer=list)
    weights.fit([*contexts["train"], ["a"]])  # of which there is one word at least
    return {split: weights.transform(of_split).astype(np.float32) for split, of_split in contexts.items()}


def context(sentences: Sentences, bounds: Sequence[int], span: Sequence[int]) -> list[str]:
    """The words between two bounds but for those of a span, all numbered in the split, in lower case."""
    places = [*range(bounds[0], span[0]), *range(span[1], bounds[1])]
    forms = sentences.forms
    return [str(forms.values[forms.codes[place]]).casefold() for place in places]


# Senses by neighbours.


def nearest_centroids(train: Any, senses: Integers, other: Any) -> Integers:
    """``[item]`` the sense whose centroid has the largest cosine, the lowest number of equals.

    A centroid is the mean of the training vectors of a sense (Loureiro et al. 2021). Vectors ``[item, dim]``, those of
    training with their senses ``[item]``, have length 1; they may be sparse.
    """
    known = np.unique(senses)
    means = (known[:, None] == senses).astype(np.float32) @ train
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    cosines = other @ np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0).T
    return np.asarray(known[_rounded(cosines).argmax(axis=1)])


def nearest_neighbours(train: Any, senses: Integers, other: Any, numbers: Sequence[int] = NEIGHBOURS) -> Integers:
    """``[number, item]`` the most frequent sense of as many nearest training vectors, the lowest number of equals."""
    similar = other @ train.T
    cosines = _rounded(similar.toarray() if hasattr(similar, "toarray") else similar)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, : max(numbers)]
    votes = (senses[order][:, :, None] == np.arange(senses.max() + 1)).cumsum(axis=1)  # [item, neighbour, sense]
    return np.stack([votes[:, min(number, order.shape[1]) - 1].argmax(axis=1) for number in numbers])


def _rounded(cosines: Any) -> Floats:
    """Cosines without the last digits, so that vectors which are the same are equally near."""
    return np.asarray(np.round(np.asarray(cosines, dtype=np.float64), 6), dtype=np.float64)


class SensePredictions(NamedTuple):
    """Senses ``[item]`` predicted for the test items in one layer."""

    centroid: Integers
    occurrences: Integers
    """By as many neighbours as do best on dev."""
    n_neighbours: int | None
    """None where none are looked at."""


def predict_senses(vectors: Mapping[str, Any], items: Mapping[str, SenseItems]) -> SensePredictions:
    """Senses of test items by those of training items of the same word, among the word's own senses.

    The number of neighbours is that of 1 to 10 with the best mean accuracy over words on dev, the smallest of equals.
    Vectors ``[item, dim]`` of train, dev and test have length 1.
    """
    train, test = items["train"], items["test"]
    centroid = np.full(len(test), -1)
    neighbours = {split: np.full((len(NEIGHBOURS), len(items[split])), -1) for split in ("dev", "test")}
    for word in np.unique(test.words):
        known = np.flatnonzero(train.words == word)
        for split, predicted in neighbours.items():
            asked = np.flatnonzero(items[split].words == word)
            if len(asked):
                some = vectors["train"][known], train.senses[known], vectors[split][asked]
                predicted[:, asked] = nearest_neighbours(*some)
                if split == "test":
                    centroid[asked] = nearest_centroids(*some)
    best = 0
    if len(items["dev"]):
        weights = _word_weights(items["dev"].words)
        accuracies = ((neighbours["dev"] == items["dev"].senses) * weights).sum(axis=1) / weights.sum()
        best = int(np.round(accuracies, 9).argmax())
    return SensePredictions(centroid, neighbours["test"][best], NEIGHBOURS[best])


def _word_weights(words: Integers) -> Floats:
    """``[item]`` one divided by the number of items of the word: words are weighted alike."""
    _, inverse, counts = np.unique(words, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[inverse])


def sense_scores(predicted: SensePredictions, test: SenseItems, names: Sequence[str]) -> Iterator[LayerSums]:
    """Accuracies and macro-F1 of predicted senses, as means over words; accuracies of single words, by their names."""
    _, clusters = np.unique(test.clusters, return_inverse=True)
    weights = _word_weights(test.words)
    for rule in ("centroid", "occurrences"):
        labels = getattr(predicted, rule)
        right = (labels == test.senses).astype(np.float64)
        yield mean_sums(f"accuracy_by_{rule}", right, clusters, weights=weights)
        yield item_jackknife(f"macro_f1_by_{rule}", mean_macro_f1(test.words, test.senses, labels), clusters)
        yield mean_sums(f"micro_accuracy_by_{rule}", right, clusters)
        for word in np.unique(test.words):
            yield mean_sums(f"accuracy_by_{rule}", right, clusters, weights=test.words == word, group=names[word])
    if predicted.n_neighbours is not None:
        yield ratio_sums("chosen_neighbours", np.full(clusters.max() + 1, float(predicted.n_neighbours)))


def mean_macro_f1(words: Integers, gold: Integers, predicted: Integers) -> tuple[float, Floats]:
    """Macro-F1 of each word's senses, mean over words; and ``[item]`` its derivative by the weight of each item.

    A word's senses are those that occur among its items or are predicted for them.
    """
    values, influences = [], np.zeros(len(words))
    for word in np.unique(words):
        here = np.flatnonzero(words == word)
        senses = np.unique(np.concatenate([gold[here], predicted[here]]))[:, None]
        is_gold, is_predicted = senses == gold[here], senses == predicted[here]
        right, sizes = is_gold & is_predicted, is_gold.astype(np.float64) + is_predicted
        total = sizes.sum(axis=1)
        f1 = 2 * right.sum(axis=1) / total
        values.append(f1.mean())
        influences[here] = ((2 * right - f1[:, None] * sizes) / total[:, None]).mean(axis=0)
    return float(np.mean(values)), influences / len(values)


# Clusters.


def v_measure(table: Floats) -> float:
    """Harmonic mean of homogeneity and completeness of weights ``[sense, cluster]`` (Rosenberg & Hirschberg 2007)."""
    n, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)

    def entropy(weights: Floats) -> float:
        shares = weights[weights > 0] / n
        return float(-(shares * np.log(shares)).sum())

    of_senses, of_clusters, joint = entropy(rows), entropy(columns), entropy(table.ravel())
    shared = of_senses + of_clusters - joint
    homogeneity = shared / of_senses if of_senses > 0 else 1.0
    completeness = shared / of_clusters if of_clusters > 0 else 1.0
    both = homogeneity + completeness
    return max(0.0, 2 * homogeneity * completeness / both) if both > 1e-12 else 0.0


def adjusted_rand(table: Floats) -> float:
    """Adjusted Rand index of weights ``[sense, cluster]`` (Hubert & Arabie 1985): 0 in expectation at random."""

    def pairs(weights: Any) -> float:
        return float((weights * (weights - 1) / 2).sum())

    rows, columns, every = pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), pairs(table.sum())
    expected, most = rows * columns / every, (rows + columns) / 2
    return (pairs(table) - expected) / (most - expected) if most != expected else 1.0


_AGREEMENT: Mapping[str, Callable[[Floats], float]] = {"v_measure": v_measure, "adjusted_rand": adjusted_rand}


def agreement(
    senses: Integers, labels: Integers, *, suffix: str = "", step: float = 1e-4
) -> dict[str, tuple[float, Floats]]:
    """V-measure and Rand index of clusters ``[item]``, with ``[item]`` derivatives by weights, clusters held fixed."""
    table = np.zeros((senses.max() + 1, labels.max() + 1))
    np.add.at(table, (senses, labels), 1.0)
    found = {}
    for name, score in _AGREEMENT.items():
        derivatives = np.zeros_like(table)
        for cell in zip(*np.nonzero(table), strict=True):
            moved = [table.copy(), table.copy()]
            moved[0][cell] -= step
            moved[1][cell] += step
            derivatives[cell] = (score(moved[1]) - score(moved[0])) / (2 * step)
        found[f"{name}{suffix}"] = score(table), derivatives[senses, labels]
    return found


def sense_clusters(
    vectors: LayerVectors, items: SenseItems, *, seed: int = 0, names: Sequence[str] = ()
) -> Iterator[LayerSums]:
    """How well k-means on unit vectors finds the senses of each word, as means over words.

    With as many clusters as the word has senses among the items, and with the number of 2 to 8 of the highest mean
    silhouette. Clusters are held fixed where sentences are resampled.
    """
    _, clusters = np.unique(items.clusters, return_inverse=True)
    kinds = np.unique(items.words)

    def measure(layer: int, of_layer: Floats32) -> Iterator[LayerSums]:
        unit, of_words = unit_vectors(items.means(of_layer, vectors.words), layer), {}
        for word in kinds:
            here = np.flatnonzero(items.words == word)
            senses = np.unique(items.senses[here], return_inverse=True)[1]
            of_words[word] = here, _clustered(unit[here], senses, seed)
        for name in of_words[kinds[0]][1]:
            by_item, values = np.zeros(len(items)), []
            for here, scores in of_words.values():
                values.append(scores[name][0])
                by_item[here] = scores[name][1]
            influences = cluster_sums(by_item / len(kinds), clusters)
            yield jackknife_sums(name, np.array(values).mean(), influences)
            for word, (here, scores) in of_words.items():
                numbers = np.unique(clusters[here], return_inverse=True)[1]
                yield item_jackknife(name, scores[name], numbers, group=names[word])

    return vectors.statistics(measure)


def _clustered(unit: Floats32, senses: Integers, seed: int) -> dict[str, tuple[float, Floats]]:
    """The scores of one word in one layer, each with its derivatives by the weights of items."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_samples

    n_different = len(np.unique(unit, axis=0))

    def fitted(number: int) -> Integers:
        return np.asarray(KMeans(min(number, n_different), n_init=10, random_state=seed).fit_predict(unit))

    def silhouettes(labels: Integers) -> Floats:
        n_labels = len(np.unique(labels))
        return np.asarray(silhouette_samples(unit, labels)) if 1 < n_labels < len(unit) else np.zeros(len(unit))

    labels = fitted(senses.max() + 1)
    tried = [fitted(number) for number in range(2, min(_MOST_CLUSTERS, n_different - 1) + 1)] or [labels]
    chosen = max(tried, key=lambda some: float(np.round(silhouettes(some).mean(), 9)))
    own = silhouettes(labels)
    return {
        **agreement(senses, labels),
        "silhouette": (float(own.mean()), (own - own.mean()) / len(own)),
        **agreement(senses, chosen, suffix="_chosen"),
        "chosen_clusters": (float(chosen.max() + 1), np.zeros(len(unit))),
    }


@dataclass(frozen=True, eq=False)
class SpanItems:
    """Spans of words with a label."""

    first: Integers
    """``[item]`` number of the first word in its text."""
    last: Integers
    """``[item]`` number of the last word."""
    labels: Integers
    """``[item]`` place of the label among all labels."""
    sentences: Integers
    """``[item]`` the sentence of each."""

    def __len__(self) -> int:
        return len(self.first)

    def take(self, chosen: Any) -> SpanItems:
        """Some of the spans."""
        return SpanItems(self.first[chosen], self.last[chosen], self.labels[chosen], self.sentences[chosen])

    def readable(self, words: Integers) -> SpanItems:
        """The pairs both of whose ends are among ``words``."""
        return self.take(np.isin(self.first, words) & np.isin(self.last, words))

    def vectors(self, of_words: Floats32, words: Integers) -> Floats32:
        """``[item, 4 · dim]`` of each span: its first and last word, their product and their difference."""
        first, last = (of_words[np.searchsorted(words, ends)] for ends in (self.first, self.last))
        return np.concatenate([first, last, first * last, first - last], axis=1)


def span_clusters(
    vectors: Mapping[str, LayerVectors], items: Mapping[str, SpanItems], *, seed: int = 0
) -> Iterator[LayerSums]:
    """How clusters of the vectors of spans agree with their labels (Jawahar et al. 2019, §3), by layer.

    k-means with as many clusters as labels is fitted to the spans of train; those of the test belong to the nearest
    centre. V-measure is what the paper calls normalised mutual information. Intervals hold the clusters fixed.
    """
    from sklearn.cluster import KMeans

    train, test = items["train"], items["test"]
    _, clusters = np.unique(test.sentences, return_inverse=True)
    n_labels = len(np.unique(train.labels))

    def measure(layer: int) -> Iterator[LayerSums]:
        of_train, of_test = (
            items[split].vectors(vectors[split].of(layer), vectors[split].words) for split in ("train", "test")
        )
        labels = KMeans(n_labels, n_init=10, random_state=seed).fit(of_train).predict(of_test)
        for name, found in agreement(test.labels, labels).items():
            yield item_jackknife(name, found, clusters)

    return by_layer((layer, measure(layer)) for layer in vectors["test"].layers)


# Pairs of occurrences.

_SAME, _OTHER = frozenset({"t", "true", "1", "yes", "same"}), frozenset({"f", "false", "0", "no", "different"})


@dataclass(frozen=True, eq=False)
class SensePairs:
    """Pairs of spans of one split."""

    spans: Integers
    """``[pair, 2, 2]`` both spans, numbered in the split."""
    bounds: Integers
    """``[pair, 2, 2]`` the texts that they stand in."""
    same: Bools
    clusters: Integers

    def readable(self, words: Integers) -> SensePairs:
        """Pairs all of whose words are among some, ascending."""
        kept = _are_read(self.spans, words).all(axis=1)
        return SensePairs(self.spans[kept], self.bounds[kept], self.same[kept], self.clusters[kept])


def read_pairs(sentences: Sentences, column: str) -> SensePairs:
    """Pairs of occurrences in one sentence, or in two that follow one another as ``apart:CORPUS`` parts them."""
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
        label = target.labels[0].casefold()
        if label not in _SAME | _OTHER:
            problem = (
                f"label {quoted(target.labels[0])} in {quoted(column)} is none of {listed(sorted(_SAME | _OTHER))}"
            )
            raise CorpusError(f"sentence {sentences.id(number)}: {problem}")
        same.append(label in _SAME)
        clusters.append(number)
    if not same:
        remedy = "give WiC, or a table with columns such as text=s1,text2=s2,at=i,at2=j,label=same"
        raise CorpusError(f"no pair of words has a label in column {quoted(column)}: {remedy}")
    own, texts_of = (np.array(some, dtype=np.int64).reshape(-1, 2, 2) for some in (spans, bounds))
    return SensePairs(own, texts_of, np.array(same), np.array(clusters))


def pair_statistics(
    vectors: Mapping[str, LayerVectors], pairs: Mapping[str, SensePairs], test: Sentences
) -> Iterator[LayerSums]:
    """Scores of the cosine of the vectors of a pair, raw and in standardised dimensions, by layer."""

    def measure(layer: int) -> Iterator[LayerSums]:
        both = {}
        for split, read in vectors.items():
            means = span_means(read.of(layer), np.searchsorted(read.words, pairs[split].spans.reshape(-1, 2)))
            both[split] = means.reshape(len(pairs[split].same), 2, -1)
        mean, deviation = both["train"].mean(axis=(0, 1)), both["train"].std(axis=(0, 1))
        scaled = {
            split: np.divide(some - mean, deviation, out=np.zeros_like(some), where=deviation > 0)
            for split, some in both.items()
        }
        for suffix, space in {"": both, "_standardised": scaled}.items():
            cosines = {}
            for split, some in space.items():
                unit = unit_vectors(some.reshape(-1, some.shape[2]), layer, may_vanish=bool(suffix)).reshape(some.shape)
                cosines[split] = np.einsum("pd,pd->p", unit[:, 0], unit[:, 1])
            yield from pair_scores(cosines, pairs, test, suffix=suffix)

    return by_layer((layer, measure(layer)) for layer in vectors["test"].layers)


def lexical_pair_statistics(
    sentences: Mapping[str, Sentences], pairs: Mapping[str, SensePairs], *, by_context: bool
) -> Iterator[LayerSums]:
    """The same scores of the cosine of the other words of both contexts (TF-IDF), or of cosines that are all alike."""
    cosines: dict[str, Any] = {split: np.zeros(len(of_split.same)) for split, of_split in pairs.items()}
    if by_context:
        contexts = {
            split: [
                context(sentences[split], bounds, span)
                for bounds, span in zip(
                    some.bounds.reshape(-1, 2).tolist(), some.spans.reshape(-1, 2).tolist(), strict=True
                )
            ]
            for split, some in pairs.items()
        }
        for split, weights in context_vectors(contexts).items():
            cosines[split] = np.asarray(weights[::2].multiply(weights[1::2]).sum(axis=1)).ravel()
    return pair_scores(cosines, pairs, sentences["test"])


def pair_scores(
    cosines: Mapping[str, Floats], pairs: Mapping[str, SensePairs], sentences: Sentences, *, suffix: str = ""
) -> Iterator[LayerSums]:
    """Whether the cosine of two occurrences tells that they have the same sense (Pilehvar & Camacho-Collados 2019).

    Accuracy is that of the threshold that does best on train, of all pairs and of those that are written alike or not;
    the area under the curve needs none.
    """
    test = pairs["test"]
    _, clusters = np.unique(test.clusters, return_inverse=True)
    threshold = best_threshold(cosines["train"], pairs["train"].same)
    right = ((cosines["test"] >= threshold) == test.same).astype(np.float64)
    forms = [[context(sentences, span, (span[1], span[1])) for span in both] for both in test.spans.tolist()]
    alike = np.array([first == second for first, second in forms], dtype=bool)
    yield mean_sums(f"accuracy{suffix}", right, clusters)
    for name, which in {"same form": alike, "other form": ~alike}.items():
        if which.any():
            yield mean_sums(f"accuracy{suffix}", right, clusters, weights=which, group=name)
    yield item_jackknife(f"area_under_curve{suffix}", area_under_curve(cosines["test"], test.same), clusters)


def best_threshold(scores: Floats, positive: Bools) -> float:
    """The threshold from which on scores are taken for positive that makes fewest mistakes, the lowest of equals.

    It lies half-way between two scores, or below or above all.
    """
    order = np.argsort(scores, kind="stable")
    ordered, is_positive = np.asarray(scores, dtype=np.float64)[order], positive[order]
    n_right = np.append(0, (~is_positive).cumsum()) + np.append(is_positive[::-1].cumsum()[::-1], 0)
    bounds = np.concatenate([[-np.inf], ordered, [np.inf]])
    n_right[bounds[1:] == bounds[:-1]] = -1  # equal scores cannot be parted
    place = int(n_right.argmax())
    return float((bounds[place] + bounds[place + 1]) / 2)


def area_under_curve(scores: Floats, positive: Bools) -> tuple[float, Floats]:
    """The share of pairs of a positive and a negative item that scores put in order, ties as half; and ``[item]`` its
    derivative by the weight of each item; NaN unless there are items of both kinds."""
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not (len(above) and len(below)):
        return float("nan"), np.zeros(len(scores))

    def share_below(values: Floats, others: Floats) -> Floats:
        ranks = np.searchsorted(others, values, side="left") + np.searchsorted(others, values, side="right")
        return np.asarray(ranks / (2 * len(others)))

    shares = np.where(positive, share_below(scores, below), 1 - share_below(scores, above))
    area = float(shares[positive].mean())
    return area, (shares - area) / np.where(positive, len(above), len(below))


# Sentences that are followed by one with another sense.

_FORMS = ("alone", "other", "same")
_Sense = tuple[str, str]
"""A word and its sense."""


class _Item(NamedTuple):
    """A word of a test sentence, and its span by form of the sentence."""

    own: _Sense
    other: _Sense
    """Its sense in the sentence that follows in the form ``other``."""
    spans: Mapping[str, Span]


class Concatenated(NamedTuple):
    """Words of test sentences that are followed by a sentence with another sense of the word, and senses in train."""

    known: Mapping[_Sense, list[Span]]
    """Spans in train by word and sense."""
    items: Sequence[_Item]

    @property
    def every_word(self) -> dict[str, NDArray[np.int64]]:
        """Numbers of all words of the spans, by split."""
        train = [span for of_sense in self.known.values() for span in of_sense]
        test = [span for item in self.items for span in item.spans.values()]
        return {"train": words_of_spans(np.array(train)), "test": words_of_spans(np.array(test))}


def concatenated(sentences: Mapping[str, Sentences], words: Mapping[str, Integers] | None = None) -> Concatenated:
    """The spans in train, and the items of the test, of which all words are among ``words``."""

    def read(split: str) -> Iterable[SenseOccurrence]:
        every = occurrences(sentences[split])
        return every if words is None else (one for one in every if np.isin(np.arange(*one.span), words[split]).all())

    known: dict[_Sense, list[Span]] = defaultdict(list)
    for one in read("train"):
        known[one.word, one.sense].append(one.span)
    test, added = sentences["test"], dict(sentences["test"].targets("added"))
    spans: dict[str, dict[str, Span]] = defaultdict(dict)
    own: dict[str, _Sense] = {}
    for one in read("test"):
        name, _, kind = test.id(one.sentence).rpartition("/")
        if kind in _FORMS:
            spans[name][kind], own[name] = one.span, (one.word, one.sense)
    other: dict[str, _Sense] = {}
    for one in occurrences(test):
        name, _, kind = test.id(one.sentence).rpartition("/")
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
    """Ratios of cosines to the centroids of two senses in each form of the sentence, and their differences, by layer.

    They are means over words of means over items, of those that have the form.
    """
    known, items = read.known, read.items
    place = {sense: number for number, sense in enumerate(known)}
    starts = np.cumsum([0, *map(len, known.values())])[:-1]
    _, words = np.unique([item.own[0] for item in items], return_inverse=True)
    every = [span for of_sense in known.values() for span in of_sense]

    def unit(split: str, spans: Sequence[Span], layer: int) -> Floats32:
        places = np.searchsorted(vectors[split].words, np.array(spans))
        return unit_vectors(span_means(vectors[split].of(layer), places), layer)

    def mean(name: str, values: Floats) -> LayerSums:
        has = np.isfinite(values)
        counts = np.bincount(words[has], minlength=int(words.max()) + 1)
        weights = np.where(has, 1.0 / np.maximum(counts[words], 1), 0.0)
        return ratio_sums(name, np.where(has, values, 0.0) * weights, weights)

    def measure(layer: int) -> Iterator[LayerSums]:
        centroids = unit_vectors(np.add.reduceat(unit("train", every, layer), starts, axis=0), layer)
        ratios, nearer = ({kind: np.full(len(items), np.nan) for kind in _FORMS} for _ in range(2))
        for kind in _FORMS:
            numbers = [n for n, item in enumerate(items) if kind in item.spans]
            if numbers:
                found = unit("test", [items[n].spans[kind] for n in numbers], layer)
                own, other = (
                    (found * centroids[[place[getattr(items[n], which)] for n in numbers]]).sum(axis=1)
                    for which in ("own", "other")
                )
                ratios[kind][numbers], nearer[kind][numbers] = own / other, own > other
        yield mean("fall", ratios["alone"] - ratios["other"])
        for kind, of_kind in ratios.items():
            if np.isfinite(of_kind).any():
                yield mean(f"ratio_{kind}", of_kind)
                yield mean(f"own_share_{kind}", nearer[kind])
        if np.isfinite(ratios["same"]).any():
            yield mean("fall_beyond_same", ratios["same"] - ratios["other"])

    return by_layer((layer, measure(layer)) for layer in vectors["test"].layers)
