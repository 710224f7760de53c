"""Whether vectors tell the senses of a word apart, and kinds of spans such as chunks: neighbours, clusters, pairs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import sklearn, torch
from bertology._names import by_key
from bertology.activations.layers import Floats32, LayerVectors, span_means, unit_vectors
from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.measures import sums
from bertology.measures.sums import Floats, Integers, LayerSums

NEIGHBOURS = tuple(range(1, 11))
"""Numbers of neighbours that are tried on dev (Wiedemann et al. 2019)."""
_MOST_CLUSTERS = 8
_UNITS, _ROWS = 10**6, 256  # in which cosines are compared; of a matrix of cosines that are sorted at a time
_STEP = 1e-4  # weight by which a cell of a table is changed for a derivative
_NO_SENSES = (
    "no word has a sense: give CoarseWSD-20, a lexical sample of Senseval, a table with columns such as "
    "text=sentence,label=sense,at=place, or pseudowords:CORPUS"
)


@dataclass(frozen=True, eq=False)
class SpanItems:
    """Items of one split: a span of words, or several, with a label. Words are numbered in the split.

    The label is which of its word's senses a word has, the most frequent in training first, −1 for one that training
    lacks; the kind of a span; or whether both spans of a pair have the same sense.
    """

    spans: Any  # [item, span, 2] the first word of each and the one after its last
    labels: Any  # [item]
    clusters: Any  # [item] its sentence
    bounds: Any = None  # [item, span, 2] the texts that spans stand in
    words: Any = None  # [item] which word of the lexicon it is, of senses

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Any) -> "SpanItems":
        """Some of the items."""
        return SpanItems(*(None if one is None else one[chosen] for one in vars(self).values()))

    def readable(self, words: Integers) -> "SpanItems":
        """The items all of whose words are among ``words``, ascending."""
        is_whole = np.diff(np.searchsorted(words, self.spans)) == np.diff(self.spans)
        return self.take(is_whole.all(axis=(1, 2)))

    def means(self, vectors: Floats32, words: Integers) -> Floats32:
        """``[item, span, dim]`` means over spans of the vectors of ``words``, which hold all of them."""
        means = span_means(vectors, np.searchsorted(words, self.spans.reshape(-1, 2)))
        return means.reshape(*self.spans.shape[:2], means.shape[1])


def words_of_spans(items: Mapping[str, SpanItems]) -> dict[str, NDArray[np.int64]]:
    """Numbers of all words of spans by split, ascending."""

    def words(spans: Integers) -> NDArray[np.int64]:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(np.arange(*span) for span in spans)]))

    return {split: words(of_split.spans.reshape(-1, 2)) for split, of_split in items.items()}


def context_vectors(items: Mapping[str, SpanItems], sentences: Mapping[str, Sentences]) -> dict[str, Any]:
    """Sparse ``[item · span, word]`` TF-IDF weights by split, of the other words around spans, rows of length 1.

    Frequencies are those of train; case is folded.
    """
    contexts = {}
    for split, some in items.items():
        both = zip(some.bounds.reshape(-1, 2).tolist(), some.spans.reshape(-1, 2).tolist(), strict=True)
        contexts[split] = [
            [sentences[split].word(word).casefold() for word in (*range(start, first), *range(last, end))]
            for (start, end), (first, last) in both
        ]
    weights = sklearn.feature_extraction.text.TfidfVectorizer(analyzer=list)
    weights.fit([*contexts["train"], ["a"]])  # of which there is one word at least
    return {split: weights.transform(of_split).astype(np.float32) for split, of_split in contexts.items()}


# Occurrences of words with senses.


class SenseData(NamedTuple):
    """Items of each split, of words with several senses."""

    items: Mapping[str, SpanItems]
    words: tuple[str, ...]
    n_senses: int
    skipped: Mapping[str, int]  # occurrences of test that are left out, by reason


class SenseOccurrence(NamedTuple):
    """One word with its sense."""

    span: tuple[int, int]
    sense: tuple[str, str]  # the word and its sense
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
            yield SenseOccurrence((start + first, start + last), (word, sense), number)


def sense_data(
    sentences: Mapping[str, Sentences], *, known: str, words: Mapping[str, Integers] | None = None
) -> SenseData:
    """The items of each split, of words that have several senses in the split ``known``."""
    found = {split: list(occurrences(text)) for split, text in sentences.items()}
    if not any(found.values()):
        raise CorpusError(_NO_SENSES)
    counts = {word: Counter(senses) for word, senses in by_key(one.sense for one in found[known]).items()}
    of_test = Counter(one.sense[0] for one in found["test"])
    names = tuple(sorted(word for word in of_test if len(counts.get(word, ())) > 1))
    if not names:
        such = f", such as {quoted(next(iter(of_test)))}," if of_test else ""
        remedy = "give words with two senses or more, each in both splits"
        raise CorpusError(f"no word with a sense in test{such} has two senses in {known}: {remedy}")
    number = {word: place for place, word in enumerate(names)}
    # The most frequent sense first, of equals by name.
    ranked = {word: sorted((-n, sense) for sense, n in counts[word].items()) for word in names}
    code = {(word, sense): place for word in names for place, (_, sense) in enumerate(ranked[word])}
    items = {}
    for split, of_split in found.items():
        some = [one for one in of_split if one.sense[0] in number]
        rows = [(*one.span, code.get(one.sense, -1), one.sentence, number[one.sense[0]]) for one in some]
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        _, _, labels, clusters, of_words = table.T
        bounds = np.stack([sentences[split].starts[clusters], sentences[split].starts[clusters + 1]], axis=1)
        items[split] = SpanItems(table[:, None, :2], labels, clusters, bounds[:, None], of_words)
        if words is not None:
            items[split] = items[split].readable(words[split])
    skipped = {
        "word with one sense": sum(n for word, n in of_test.items() if len(counts.get(word, ())) == 1),
        f"word not in {known}": sum(n for word, n in of_test.items() if word not in counts),
    }
    return SenseData(items, names, len(code), {reason: n for reason, n in skipped.items() if n})


# Senses by neighbours.


def nearest_centroids(train: Any, senses: Integers, other: Any) -> Integers:
    """``[item]`` the sense whose centroid has the largest cosine, the lowest number of equals (Loureiro et al. 2021).

    A centroid is the mean of the training vectors of a sense. Vectors ``[item, dim]`` have length 1; they may be
    sparse.
    """
    known = np.unique(senses)
    means = (known[:, None] == senses).astype(np.float32) @ train
    cosines = other @ unit_vectors(means, may_vanish=True).T
    return np.asarray(known[_rounded(cosines).argmax(axis=1)])


def nearest_neighbours(train: Any, senses: Integers, other: Any, numbers: Sequence[int] = NEIGHBOURS) -> Integers:
    """``[number, item]`` the most frequent sense of as many nearest training vectors, the lowest number of equals."""
    from bertology._products import product  # imports torch, which naming the task need not

    if hasattr(train, "toarray"):
        cosines = (other @ train.T).toarray()
    else:
        cosines = product(torch.from_numpy(other), torch.from_numpy(train)).numpy()
    order = _nearest(cosines, max(numbers))
    votes = (senses[order][:, :, None] == np.arange(senses.max() + 1)).cumsum(axis=1)  # [item, neighbour, sense]
    return np.stack([votes[:, min(number, order.shape[1]) - 1].argmax(axis=1) for number in numbers])


def _nearest(cosines: Any, k: int) -> Integers:
    """``[row, k]`` places of the largest of ``[row, place]`` rounded cosines, in order, the lowest of equals first."""
    n = cosines.shape[1]
    k, found = min(k, n), np.empty((len(cosines), min(k, n)), dtype=np.int64)
    for first in range(0, len(cosines), _ROWS):
        rows = cosines[first : first + _ROWS]
        some = np.argpartition(rows, max(0, n - 2 * k), axis=1)[:, max(0, n - 2 * k) :]
        keys = _keys(np.take_along_axis(rows, some, axis=1), some, n)
        order = np.argsort(keys, axis=1)[:, :k]
        found[first : first + _ROWS] = np.take_along_axis(some, order, axis=1)
        # Where the last of these could be equal to one that was left out, all are looked at.
        last = np.take_along_axis(keys, order[:, -1:], axis=1)[:, 0]
        unsure = np.flatnonzero((last // n >= keys.max(axis=1) // n) & (2 * k < n))
        found[first : first + _ROWS][unsure] = np.argsort(_keys(rows[unsure], np.arange(n), n), axis=1)[:, :k]
    return found


def _keys(cosines: Any, places: Integers, n: int) -> Integers:
    """A number for each cosine at one of ``n`` places, lower for the nearer and, of equals, for the lower place."""
    return np.asarray(places - n * np.rint(_rounded(cosines) * _UNITS).astype(np.int64))


def _rounded(cosines: Any) -> Floats:
    """Cosines without the last digits, so that vectors which are the same are equally near."""
    return np.asarray(np.round(np.asarray(cosines, dtype=np.float64), 6), dtype=np.float64)


class SensePredictions(NamedTuple):
    """Senses ``[item]`` predicted for the test items in one layer."""

    centroid: Integers
    occurrences: Integers  # by as many neighbours as do best on dev
    n_neighbours: int | None  # None where none are looked at


def predict_senses(vectors: Mapping[str, Any], items: Mapping[str, SpanItems]) -> SensePredictions:
    """Senses of test items by those of training items of the same word, from vectors ``[item, dim]`` of length 1.

    The number of neighbours is that of 1 to 10 with the best mean accuracy over words on dev, the smallest of equals.
    """
    train, dev, test = (items[split] for split in ("train", "dev", "test"))
    centroid = np.full(len(test), -1)
    neighbours = {split: np.full((len(NEIGHBOURS), len(items[split])), -1) for split in ("dev", "test")}
    for word in np.unique(test.words):
        known = np.flatnonzero(train.words == word)
        for split, predicted in neighbours.items():
            asked = np.flatnonzero(items[split].words == word)
            if len(asked):
                some = vectors["train"][known], train.labels[known], vectors[split][asked]
                predicted[:, asked] = nearest_neighbours(*some)
                if split == "test":
                    centroid[asked] = nearest_centroids(*some)
    best = 0
    if len(dev):
        weights = _word_weights(dev)
        accuracies = ((neighbours["dev"] == dev.labels) * weights).sum(axis=1) / weights.sum()
        best = int(np.round(accuracies, 9).argmax())
    return SensePredictions(centroid, neighbours["test"][best], NEIGHBOURS[best])


def _word_weights(items: SpanItems) -> Floats:
    """``[item]`` one divided by the number of items of the word: words are weighted alike."""
    _, inverse, counts = np.unique(items.words, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[inverse])


def sense_scores(predicted: SensePredictions, test: SpanItems, names: Sequence[str]) -> Iterator[LayerSums]:
    """Accuracies and macro-F1 of predicted senses, as means over words; accuracies of single words, by their names."""
    _, clusters = np.unique(test.clusters, return_inverse=True)
    for rule in ("centroid", "occurrences"):
        labels = getattr(predicted, rule)
        right = (labels == test.labels).astype(np.float64)
        yield sums.mean_sums(f"accuracy_by_{rule}", right, clusters, weights=_word_weights(test))
        yield sums.item_jackknife(f"macro_f1_by_{rule}", mean_macro_f1(test.words, test.labels, labels), clusters)
        yield sums.mean_sums(f"micro_accuracy_by_{rule}", right, clusters)
        for word in np.unique(test.words):
            yield sums.mean_sums(f"accuracy_by_{rule}", right, clusters, weights=test.words == word, group=names[word])
    if predicted.n_neighbours is not None:
        yield sums.ratio_sums("chosen_neighbours", np.full(clusters.max() + 1, float(predicted.n_neighbours)))


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

    of_senses, of_clusters = entropy(rows), entropy(columns)
    shared = of_senses + of_clusters - entropy(table.ravel())
    homogeneity = shared / of_senses if of_senses > 0 else 1.0
    completeness = shared / of_clusters if of_clusters > 0 else 1.0
    both = homogeneity + completeness
    return max(0.0, 2 * homogeneity * completeness / both) if both > 1e-12 else 0.0


def adjusted_rand(table: Floats) -> float:
    """Adjusted Rand index of weights ``[sense, cluster]`` (Hubert & Arabie 1985): 0 in expectation at random."""
    counts = table.sum(axis=1), table.sum(axis=0), table.sum(), table
    rows, columns, every, cells = (float((weights * (weights - 1) / 2).sum()) for weights in counts)
    expected, most = rows * columns / every, (rows + columns) / 2
    return (cells - expected) / (most - expected) if most != expected else 1.0


_AGREEMENT: Mapping[str, Callable[[Floats], float]] = {"v_measure": v_measure, "adjusted_rand": adjusted_rand}


def agreement(senses: Integers, labels: Integers, suffix: str = "") -> dict[str, tuple[float, Floats]]:
    """V-measure and Rand index of clusters ``[item]``, with ``[item]`` derivatives by weights, clusters held fixed."""
    table = np.zeros((senses.max() + 1, labels.max() + 1))
    np.add.at(table, (senses, labels), 1.0)
    found = {}
    for name, score in _AGREEMENT.items():
        derivatives = np.zeros_like(table)
        for cell in zip(*np.nonzero(table), strict=True):
            lower, upper = table.copy(), table.copy()
            lower[cell] -= _STEP
            upper[cell] += _STEP
            derivatives[cell] = (score(upper) - score(lower)) / (2 * _STEP)
        found[f"{name}{suffix}"] = score(table), derivatives[senses, labels]
    return found


def sense_clusters(vectors: LayerVectors, items: SpanItems, names: Sequence[str]) -> Iterator[LayerSums]:
    """Agreement of k-means on unit vectors with the senses of each word, as means over words.

    With as many clusters as the word has senses among the items, and with the number of 2 to 8 of the highest mean
    silhouette. Clusters are held fixed where sentences are resampled.
    """
    _, clusters = np.unique(items.clusters, return_inverse=True)
    of_words = {word: np.flatnonzero(items.words == word) for word in np.unique(items.words)}

    def measure(layer: int, of_layer: Floats32) -> Iterator[LayerSums]:
        unit, scores = unit_vectors(items.means(of_layer, vectors.words)[:, 0], layer), {}
        for word, here in of_words.items():
            senses = np.unique(items.labels[here], return_inverse=True)[1]
            scores[word] = _clustered(unit[here], senses)
        for name in next(iter(scores.values())):
            by_item = np.zeros(len(items))
            for word, here in of_words.items():
                by_item[here] = scores[word][name][1]
            mean = np.array([of_word[name][0] for of_word in scores.values()]).mean()
            yield sums.jackknife_sums(name, mean, sums.cluster_sums(by_item / len(scores), clusters))
            for word, here in of_words.items():
                numbers = np.unique(clusters[here], return_inverse=True)[1]
                yield sums.item_jackknife(name, scores[word][name], numbers, group=names[word])

    return vectors.statistics(measure)


def _clustered(unit: Floats32, senses: Integers) -> dict[str, tuple[float, Floats]]:
    """The scores of one word in one layer, each with its derivatives by the weights of items."""
    n_different = len(np.unique(unit, axis=0))

    def fitted(number: int) -> Integers:
        return np.asarray(sklearn.cluster.KMeans(min(number, n_different), n_init=10, random_state=0).fit_predict(unit))

    def silhouettes(labels: Integers) -> Floats:
        n_labels = len(np.unique(labels))
        is_defined = 1 < n_labels < len(unit)
        return np.asarray(sklearn.metrics.silhouette_samples(unit, labels)) if is_defined else np.zeros(len(unit))

    labels = fitted(senses.max() + 1)
    tried = [fitted(number) for number in range(2, min(_MOST_CLUSTERS, n_different - 1) + 1)] or [labels]
    chosen = max(tried, key=lambda some: float(np.round(silhouettes(some).mean(), 9)))
    own = silhouettes(labels)
    return {
        **agreement(senses, labels),
        "silhouette": (float(own.mean()), (own - own.mean()) / len(own)),
        **agreement(senses, chosen, "_chosen"),
        "chosen_clusters": (float(chosen.max() + 1), np.zeros(len(unit))),
    }


def span_clusters(vectors: Mapping[str, LayerVectors], items: Mapping[str, SpanItems]) -> Iterator[LayerSums]:
    """Agreement of clusters of span vectors with their labels (Jawahar et al. 2019, §3), by layer.

    The vector of an item is those of its two spans, its first and its last word, their product and their difference.
    k-means with as many clusters as labels is fitted to the items of train; those of the test belong to the nearest
    centre. V-measure is what the paper calls normalised mutual information. Intervals hold the clusters fixed.
    """
    train, test = items["train"], items["test"]
    _, clusters = np.unique(test.clusters, return_inverse=True)

    def measure(layer: int) -> Iterator[LayerSums]:
        of_split = {}
        for split, some in (("train", train), ("test", test)):
            first, last = some.means(vectors[split].of(layer), vectors[split].words).swapaxes(0, 1)
            of_split[split] = np.concatenate([first, last, first * last, first - last], axis=1)
        means = sklearn.cluster.KMeans(len(np.unique(train.labels)), n_init=10, random_state=0).fit(of_split["train"])
        for name, found in agreement(test.labels, means.predict(of_split["test"])).items():
            yield sums.item_jackknife(name, found, clusters)

    return sums.by_layer((layer, measure(layer)) for layer in vectors["test"].layers)


# Pairs of occurrences.

_SAME, _OTHER = frozenset({"t", "true", "1", "yes", "same"}), frozenset({"f", "false", "0", "no", "different"})


def read_pairs(sentences: Sentences, column: str) -> SpanItems:
    """Pairs of occurrences in one sentence, or in two that follow one another as ``apart:CORPUS`` parts them."""
    pairs, same, clusters = [], [], []
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
            of_second = start + target.span2[0], start + target.span2[1]
            pairs.append(((of_first, (start, middle)), (of_second, (middle, end))))
        elif half == "2" and waiting is not None and waiting[:2] == (number - 1, name):
            pairs.append((waiting[2], (of_first, (start, end))))
        else:
            waiting = number, name, (of_first, (start, end))
            continue
        label = target.labels[0].casefold()
        if label not in _SAME | _OTHER:
            problem = f"sentence {sentences.id(number)}: label {quoted(target.labels[0])} in {quoted(column)}"
            raise CorpusError(f"{problem} is none of {listed(sorted(_SAME | _OTHER))}")
        same.append(label in _SAME)
        clusters.append(number)
    if not same:
        remedy = "give WiC, or a table with columns such as text=s1,text2=s2,at=i,at2=j,label=same"
        raise CorpusError(f"no pair of words has a label in column {quoted(column)}: {remedy}")
    both = np.array(pairs, dtype=np.int64)  # [pair, span, span or text, 2]
    return SpanItems(both[:, :, 0], np.array(same), np.array(clusters), both[:, :, 1])


def pair_statistics(
    vectors: Mapping[str, LayerVectors], pairs: Mapping[str, SpanItems], test: Sentences
) -> Iterator[LayerSums]:
    """Scores of the cosine of the vectors of a pair, raw and in standardised dimensions, by layer."""

    def measure(layer: int) -> Iterator[LayerSums]:
        both = {split: pairs[split].means(read.of(layer), read.words) for split, read in vectors.items()}
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

    return sums.by_layer((layer, measure(layer)) for layer in vectors["test"].layers)


def lexical_pair_statistics(
    sentences: Mapping[str, Sentences], pairs: Mapping[str, SpanItems], *, by_context: bool
) -> Iterator[LayerSums]:
    """The same scores of the cosine of the other words of both contexts (TF-IDF), or of cosines that are all alike."""
    cosines: dict[str, Any] = {split: np.zeros(len(of_split)) for split, of_split in pairs.items()}
    if by_context:
        for split, weights in context_vectors(pairs, sentences).items():
            cosines[split] = np.asarray(weights[::2].multiply(weights[1::2]).sum(axis=1)).ravel()
    return pair_scores(cosines, pairs, sentences["test"])


def pair_scores(
    cosines: Mapping[str, Floats], pairs: Mapping[str, SpanItems], sentences: Sentences, *, suffix: str = ""
) -> Iterator[LayerSums]:
    """Whether the cosine of two occurrences tells that they have the same sense (Pilehvar & Camacho-Collados 2019).

    Accuracy is that of the threshold that does best on train, of all pairs and of those that are written alike or not;
    the area under the curve needs none.
    """
    test = pairs["test"]
    _, clusters = np.unique(test.clusters, return_inverse=True)
    threshold = best_threshold(cosines["train"], pairs["train"].labels)
    right = ((cosines["test"] >= threshold) == test.labels).astype(np.float64)
    forms = [
        [[sentences.word(word).casefold() for word in range(*span)] for span in both] for both in test.spans.tolist()
    ]
    alike = np.array([first == second for first, second in forms], dtype=bool)
    yield sums.mean_sums(f"accuracy{suffix}", right, clusters)
    for name, which in {"same form": alike, "other form": ~alike}.items():
        if which.any():
            yield sums.mean_sums(f"accuracy{suffix}", right, clusters, weights=which, group=name)
    yield sums.item_jackknife(f"area_under_curve{suffix}", area_under_curve(cosines["test"], test.labels), clusters)


def best_threshold(scores: Floats, positive: Any) -> float:
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


def area_under_curve(scores: Floats, positive: Any) -> tuple[float, Floats]:
    """The share of pairs of a positive and a negative item that scores put in order, ties as half; and ``[item]`` its
    derivative by the weight of each item; NaN unless there are items of both kinds."""
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not (len(above) and len(below)):
        return float("nan"), np.zeros(len(scores))
    over, under = (
        (np.searchsorted(others, scores, side="left") + np.searchsorted(others, scores, side="right"))
        / (2 * len(others))
        for others in (below, above)
    )
    shares = np.where(positive, over, 1 - under)
    area = float(shares[positive].mean())
    return area, (shares - area) / np.where(positive, len(above), len(below))


# Sentences that are followed by one with another sense.

_FORMS = ("alone", "other", "same")


def concatenated(
    sentences: Mapping[str, Sentences], words: Mapping[str, Integers] | None = None
) -> dict[str, SpanItems]:
    """The words with senses in train, and those of test sentences that are followed by one with another sense.

    All of their words are among ``words``. Of the test, spans are those in each form of the sentence, −1 for none, and
    labels the word's own sense and its sense in the sentence that follows in the form ``other``, ``[item, 2]``.
    """

    def is_read(one: SenseOccurrence, split: str) -> bool:
        return words is None or bool(np.isin(np.arange(*one.span), words[split]).all())

    known = [one for one in occurrences(sentences["train"]) if is_read(one, "train")]
    code = {sense: number for number, sense in enumerate(dict.fromkeys(one.sense for one in known))}
    test, added = sentences["test"], dict(sentences["test"].targets("added"))
    spans: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    own, other = dict[str, tuple[str, str]](), dict[str, tuple[str, str]]()
    for one in occurrences(test):
        name, _, kind = test.id(one.sentence).rpartition("/")
        if kind in _FORMS and is_read(one, "test"):
            spans[name][kind], own[name] = one.span, one.sense
        if kind == "other" and one.sentence in added:
            word, _, sense = added[one.sentence][0].labels[0].partition(":")
            other[name] = word, sense
    if not other:
        remedy = "give concatenated:CORPUS, such as concatenated:path/to/CoarseWSD-20"
        raise CorpusError(f"no sentence of the test is followed by one with another sense of its word: {remedy}")
    names = [
        name for name in other if {"alone", "other"} <= spans[name].keys() and own[name] in code and other[name] in code
    ]
    if not names:
        such = ":".join(next(iter(own.values())))
        raise CorpusError(f"train has no example of senses of the test, such as {such}: give a train with them")
    of_test = np.array([[spans[name].get(kind, (-1, -1)) for kind in _FORMS] for name in names])
    labels = np.array([[code[own[name]], code[other[name]]] for name in names])
    _, of_word = np.unique([own[name][0] for name in names], return_inverse=True)
    of_train, senses = np.array([[one.span] for one in known]), np.array([code[one.sense] for one in known])
    train = SpanItems(of_train, senses, np.array([one.sentence for one in known]))
    return {"train": train, "test": SpanItems(of_test, labels, np.arange(len(names)), words=of_word)}


def concatenation_statistics(
    vectors: Mapping[str, LayerVectors], items: Mapping[str, SpanItems]
) -> Iterator[LayerSums]:
    """Ratios of cosines to the centroids of two senses in each form of the sentence, and their differences, by layer.

    They are means over words of means over items, of those that have the form.
    """
    train, test = items["train"], items["test"]
    order = np.argsort(train.labels, kind="stable")
    starts = np.searchsorted(train.labels[order], np.arange(train.labels.max() + 1))

    def unit(split: str, spans: Integers, layer: int) -> Floats32:
        means = span_means(vectors[split].of(layer), np.searchsorted(vectors[split].words, spans))
        return unit_vectors(means, layer)

    def mean(name: str, values: Floats) -> LayerSums:
        has = np.isfinite(values)
        counts = np.bincount(test.words[has], minlength=int(test.words.max()) + 1)
        weights = np.where(has, 1.0 / np.maximum(counts[test.words], 1), 0.0)
        return sums.ratio_sums(name, np.where(has, values, 0.0) * weights, weights)

    def measure(layer: int) -> Iterator[LayerSums]:
        centroids = unit_vectors(np.add.reduceat(unit("train", train.spans[order, 0], layer), starts, axis=0), layer)
        ratios, nearer = np.full((2, len(_FORMS), len(test)), np.nan)
        for form in range(len(_FORMS)):
            has = np.flatnonzero(test.spans[:, form, 0] >= 0)
            if len(has):
                found = unit("test", test.spans[has, form], layer)
                own, other = ((found * centroids[test.labels[has, which]]).sum(axis=1) for which in (0, 1))
                ratios[form, has], nearer[form, has] = own / other, own > other
        alone, followed, same = ratios
        yield mean("fall", alone - followed)
        for kind, of_kind, is_own in zip(_FORMS, ratios, nearer, strict=True):
            if np.isfinite(of_kind).any():
                yield mean(f"ratio_{kind}", of_kind)
                yield mean(f"own_share_{kind}", is_own)
        if np.isfinite(same).any():
            yield mean("fall_beyond_same", same - followed)

    return sums.by_layer((layer, measure(layer)) for layer in vectors["test"].layers)
