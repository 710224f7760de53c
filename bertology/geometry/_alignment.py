"""Words and their translations: links that vectors find, and whether the nearest word of the other language is one.

Jalili Sabet et al. (2020), *SimAlign*, for links; :class:`AlignedTexts` shows those of two texts by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertology._names import folder_name, layer_number, name_not_found, place_of_layer
from bertology._page import PageAndFigure, full_page
from bertology.activations.layers import Floats32, Groups, LayerVectors, unit_vectors
from bertology.corpora import Links, ParallelText, Sentence, Sentences
from bertology.errors import CorpusError, FitError
from bertology.measures.sums import (
    Bools,
    Floats,
    Integers,
    Layers,
    LayerSums,
    cluster_sums,
    grouped_sums,
    left_out_sums,
    weighted_sums,
)

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure
    from bertology.encoders import Encoder

_ONE_SIDE_LINKED = 0.9
"""Factor of itermax for the similarity of two words one of which is linked already; it is 0 where both are."""
_FEW = 2
"""Words of the shorter sentence up to which itermax adds nothing."""
_PAIRS = 128
"""Pairs of texts that are read at a time."""
_HEIGHT, _WIDTH, _GAP = 2.0, 0.095, 0.25
"""Sizes in a figure, in inches: between the texts, of a character, and between words."""


def word_similarity(source: Floats32, target: Floats32, *, distortion: float = 0.0) -> Floats:
    """``[source, target]`` similarity of words, (cosine + 1) / 2, from 0 to 1.

    Args:
        source: ``[source, dim]`` vectors of the words of a sentence.
        target: ``[target, dim]`` of its translation.
        distortion: κ, by which similarity falls with the distance of relative places, sim · (1 − κ (i/m − j/n)²), i and
            j from 0 and m and n the last places (Jalili Sabet et al. 2020, §2.2).
    """
    own, other = (unit_vectors(some, may_vanish=True).astype(np.float64) for some in (source, target))
    similar = (own @ other.T + 1) / 2
    if distortion and min(similar.shape) > 1:
        rows, columns = (np.linspace(0, 1, n) for n in similar.shape)
        similar = similar * (1 - distortion * np.square(rows[:, None] - columns))
    return np.asarray(similar)


def _mutual(similar: Floats) -> Bools:
    """Cells that are the highest of their row and of their column, the first of equals."""
    linked = np.zeros(similar.shape, dtype=bool)
    best, of_columns = np.argmax(similar, axis=1), np.argmax(similar, axis=0)
    rows = np.flatnonzero(of_columns[best] == np.arange(len(similar)))
    linked[rows, best[rows]] = True
    return linked


def _itermax(similar: Floats) -> Bools:
    linked = _mutual(similar)
    has_row, has_column = (np.asarray(linked.any(axis=axis)) for axis in (1, 0))
    if min(similar.shape) <= _FEW or has_row.all() or has_column.all():
        return linked
    n_linked = has_row[:, None].astype(int) + has_column
    factors = np.array([1.0, _ONE_SIDE_LINKED, 0.0])[n_linked]
    return np.asarray(linked | (_mutual(similar * factors) & (n_linked < 2)))


def _match(similar: Floats) -> Bools:
    from scipy.optimize import linear_sum_assignment

    linked = np.zeros(similar.shape, dtype=bool)
    linked[linear_sum_assignment(similar, maximize=True)] = True
    return linked


METHODS: Final[Mapping[str, Callable[[Floats], Bools]]] = {"argmax": _mutual, "itermax": _itermax, "match": _match}
"""The three methods of SimAlign."""


def align_words(similar: Floats, method: str) -> Bools:
    """``[source, target]`` which words are linked, by a method of SimAlign (Jalili Sabet et al. 2020, §2.1).

    ``argmax``: words that are the most similar to each other in both directions. ``itermax``: those, and one more round
    among the cells of which not both words are linked yet, with 0.9 of the similarity where one of them is; none where
    a sentence has two words or fewer or all of its words are linked. ``match``: the one-to-one links of as many words
    as possible with the largest sum.

    Args:
        similar: ``[source, target]`` similarities, 0 or more.
        method: one of :data:`METHODS`.
    """
    return METHODS[method](similar)


class LinkCounts(NamedTuple):
    """Counts of links found and of gold ones: |A|, |A ∩ S|, |A ∩ P| (sure ones included) and |S|."""

    found: int
    found_sure: int
    found_possible: int
    sure: int


def count_links(linked: Bools, gold: Links) -> LinkCounts:
    """Count links ``[source, target]`` of two sentences against gold ones."""
    pairs = set(zip(*(places.tolist() for places in np.nonzero(linked)), strict=True))
    n_sure = len(pairs & gold.sure)
    return LinkCounts(len(pairs), n_sure, len(pairs & (gold.sure | gold.possible)), len(gold.sure))


def scores_of_links(
    prefix: str, layers: Layers, counts: Sequence[Sequence[LinkCounts]], clusters: Integers
) -> Iterator[LayerSums]:
    """Precision against possible links, recall of sure ones, their F1, and the alignment error rate.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|) (Och & Ney 2003, §4).

    Args:
        prefix: prefix of the names of metrics, such as ``argmax``.
        layers: layers of the counts.
        counts: ``[layer][pair]``.
        clusters: ``[pair]`` what is resampled.
    """
    table = np.array(counts, dtype=float)
    by_cluster = np.stack([cluster_sums(table[..., kind], clusters) for kind in range(4)], axis=2)
    found, found_sure, found_possible, sure = np.moveaxis(by_cluster, 2, 0)
    total = by_cluster.sum(axis=1, keepdims=True)
    values = np.concatenate([_f1(total), _f1(total - by_cluster)], axis=1)
    yield left_out_sums(f"{prefix}_f1", layers, values, "sentences")
    yield LayerSums(f"{prefix}_precision", layers, found_possible, found, "sentences")
    yield LayerSums(f"{prefix}_recall", layers, found_sure, sure, "sentences")
    both = found + sure
    yield LayerSums(f"{prefix}_error", layers, both - found_sure - found_possible, both, "sentences")


def _f1(counts: Floats) -> Floats:
    """Harmonic mean of precision and recall of counts ``[..., 4]``; 0 where nothing is found."""
    found, found_sure, found_possible, sure = np.moveaxis(counts, -1, 0)
    precision, recall = found_possible / np.maximum(found, 1), found_sure / np.maximum(sure, 1)
    return np.asarray(2 * precision * recall / np.maximum(precision + recall, 1e-12))


@dataclass(frozen=True, eq=False)
class AlignedPairs:
    """Sentences with gold links of their words."""

    title: str
    """The two languages."""
    words: Sequence[tuple[Integers, Integers]]
    """``[pair]`` the places among the words that are read of those of both sentences."""
    places: Sequence[tuple[Integers, Integers]]
    """``[pair]`` the places of the same words in their sentences."""
    gold: Sequence[Links]
    """``[pair]``."""

    @classmethod
    def of(cls, text: ParallelText, words: NDArray[np.int64]) -> AlignedPairs:
        """The pairs of a text that have gold links, of the first two languages of which any has.

        Args:
            text: sentences of several languages.
            words: ``[word]`` numbers of the words that are read, ascending.

        Raises:
            CorpusError: no pair has gold links.
        """
        for source, target in combinations(text.languages, 2):
            some = zip(text.pairs(source, target).tolist(), text.links(source, target), strict=True)
            known = [(pair, links) for pair, links in some if links is not None]
            if known:
                break
        else:
            raise CorpusError("no sentence has gold links of words: give parallel:en=PATH,fr=PATH,links=path/to/gold")
        starts = text.sentences.starts
        read, places = [], []
        for pair, _ in known:
            own, other = (np.arange(*np.searchsorted(words, starts[number : number + 2])) for number in pair)
            read.append((own, other))
            places.append((words[own] - starts[pair[0]], words[other] - starts[pair[1]]))
        return cls(f"{source} – {target}", read, places, [links for _, links in known])

    def __len__(self) -> int:
        return len(self.gold)

    def counts(self, pair: int, linked: Bools) -> LinkCounts:
        """Count links among the words of a pair that are read; gold links of others are missed."""
        own, other = self.places[pair]
        whole = np.zeros((int(own.max(initial=-1)) + 1, int(other.max(initial=-1)) + 1), dtype=bool)
        whole[np.ix_(own, other)] = linked
        return count_links(whole, self.gold[pair])


def alignment_scores(read: LayerVectors, pairs: AlignedPairs, *, distortion: float = 0.0) -> Iterator[LayerSums]:
    """How well each method of :func:`align_words` finds gold links, by layer.

    F1 is also of vectors less the mean of their language (``_centred``; Libovický et al. 2019).

    Args:
        read: vectors of the words of the pairs.
        pairs: sentences with gold links.
        distortion: as for :func:`word_similarity`.

    Yields:
        F1, precision, recall and alignment error rate of each method.
    """
    sides = [np.concatenate([pair[side] for pair in pairs.words]) for side in (0, 1)]

    def of_layer(_: int, vectors: Floats32) -> dict[str, list[LinkCounts]]:
        means = [vectors[side].mean(axis=0) for side in sides]
        counts = defaultdict[str, list[LinkCounts]](list)
        for number, (own, other) in enumerate(pairs.words):
            for suffix, shift in (("", (0.0, 0.0)), ("_centred", means)):
                some = vectors[own] - shift[0], vectors[other] - shift[1]
                similar = word_similarity(*some, distortion=distortion)
                for method, align in METHODS.items():
                    linked = align(similar) if similar.size else similar > 0
                    counts[f"{method}{suffix}"].append(pairs.counts(number, linked))
        return dict(counts)

    by_layer = read.each(of_layer)
    clusters = np.arange(len(pairs))
    for name in by_layer[0]:
        for sums in scores_of_links(name, read.layers, [one[name] for one in by_layer], clusters):
            if not name.endswith("_centred") or sums.metric.endswith("_f1"):
                yield sums


@dataclass(frozen=True, eq=False)
class TranslatedWords:
    """Words of one language with one sure link, and all words of the other."""

    title: str
    """``en → de``."""
    source: NDArray[np.int64]
    """``[word]`` numbers of all words of its own language, ascending."""
    words: NDArray[np.int64]
    """``[query]`` number of the word in its text."""
    forms: Integers
    """``[query]`` its own type."""
    gold: Integers
    """``[query]`` the type of the word that it is linked with."""
    units: Integers
    """``[query]`` the unit that its sentence shares with its translation."""
    candidates: NDArray[np.int64]
    """``[candidate]`` numbers of the words of the other language, ascending."""
    types: Integers
    """``[candidate]`` the type of each."""
    candidate_units: Integers
    """``[candidate]``."""

    @classmethod
    def of(cls, text: ParallelText, source: str, target: str, types: Integers) -> TranslatedWords | None:
        """The words of a text with one sure link, which is their link's only one; None where no link is known.

        Args:
            text: sentences of two languages with gold links.
            source: the language of the queries.
            target: that of the candidates.
            types: ``[word]`` the type of every word of the text, −1 for words that do not count.
        """
        starts, rows = text.sentences.starts, []
        some = zip(text.pairs(source, target).tolist(), text.links(source, target), strict=True)
        known = [(pair, links) for pair, links in some if links is not None]
        for (first, second), links in known:
            own, others = ([pair[side] for pair in sorted(links.sure | links.possible)] for side in (0, 1))
            for i, j in sorted(links.sure):
                if own.count(i) == 1 and others.count(j) == 1:
                    rows.append((starts[first] + i, starts[second] + j, text.unit[first]))
        if not known:
            return None
        words, linked, units = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        every = [[np.arange(starts[pair[side]], starts[pair[side] + 1]) for pair, _ in known] for side in (0, 1)]
        own_words, candidates = (some[types[some] >= 0] for some in map(np.sort, map(np.concatenate, every)))
        of_candidates = text.unit[text.sentences.sentence_of_word[candidates]]
        counted = (types[words] >= 0) & (types[linked] >= 0)
        queries = words, types[words], types[linked], units
        whole = cls(f"{source} → {target}", own_words, *queries, candidates, types[candidates], of_candidates)
        return whole.queries(counted)

    def __len__(self) -> int:
        return len(self.words)

    def queries(self, chosen: Bools | Integers) -> TranslatedWords:
        """Some of the queries, with all candidates."""
        fields = {name: getattr(self, name)[chosen] for name in ("words", "forms", "gold", "units")}
        return replace(self, **fields)

    def readable(self, words: NDArray[np.int64]) -> TranslatedWords:
        """Queries and candidates that are among ``words``."""
        kept = np.isin(self.candidates, words)
        fields = {name: getattr(self, name)[kept] for name in ("candidates", "types", "candidate_units")}
        source = self.source[np.isin(self.source, words)]
        return replace(self.queries(np.isin(self.words, words)), source=source, **fields)

    def folds(self, number: int, *, seed: int = 0) -> tuple[Integers, Integers]:
        """``[query]`` and ``[candidate]`` the part of so many, drawn at random, that its sentence is in."""
        units = np.unique(np.concatenate([self.units, self.candidate_units]))
        parts = np.random.default_rng(seed).permutation(len(units)) % number
        return parts[np.searchsorted(units, self.units)], parts[np.searchsorted(units, self.candidate_units)]

    def answerable(self, folds: int, *, seed: int = 0) -> TranslatedWords:
        """The queries whose translation occurs in the sentences of another part, where it is looked for.

        Raises:
            CorpusError: there is none.
        """
        of_queries, of_candidates = self.folds(folds, seed=seed)
        elsewhere = np.zeros(len(self), dtype=bool)
        for fold in range(folds):
            elsewhere |= (of_queries == fold) & np.isin(self.gold, self.types[of_candidates != fold])
        if not elsewhere.any():
            raise CorpusError(f"{self.title}: no word has a translation that occurs in other sentences: give more text")
        return self.queries(elsewhere)

    @property
    def is_ambiguous(self) -> Bools:
        """``[query]`` whether its type is linked with two types or more, each of them twice."""
        pairs, times = np.unique(np.stack([self.forms, self.gold]), axis=1, return_counts=True)
        own, n_senses = np.unique(pairs[0, times > 1], return_counts=True)
        return np.isin(self.forms, own[n_senses > 1])


def by_dictionary(words: TranslatedWords, folds: int, *, seed: int = 0) -> Floats:
    """``[query]`` whether the type that the word's own is most often linked with in other folds is the translation.

    What a dictionary knows without the context; a type that is linked in no other fold is mistaken.
    """
    of_queries, _ = words.folds(folds, seed=seed)
    right = np.zeros(len(words))
    for fold in np.unique(of_queries):
        known, asked = of_queries != fold, np.flatnonzero(of_queries == fold)
        pairs, times = np.unique(np.stack([words.forms, words.gold])[:, known], axis=1, return_counts=True)
        order = np.lexsort((-times, pairs[0]))
        forms, first = np.unique(pairs[0][order], return_index=True)
        best = dict(zip(forms.tolist(), pairs[1][order][first].tolist(), strict=True))
        right[asked] = [best.get(words.forms[query]) == words.gold[query] for query in asked]
    return right


def translation(
    read: LayerVectors, directions: list[TranslatedWords], *, folds: int = 5, seed: int = 0
) -> Iterator[LayerSums]:
    """Share of words whose nearest word of the other language, by cosine, is the one that they are linked with.

    What is looked for is in other sentences than the word's own: sentences are divided into folds, and the candidates
    of a word are those of the other folds, so that neither a shared context nor the translation itself is found.
    ``type``: the nearest mean of a type's occurrences; ``occurrence``: the type of the nearest occurrence. Vectors are
    less the mean of their language, but for ``type_raw``.

    Args:
        read: vectors of queries and candidates.
        directions: by direction, :meth:`TranslatedWords.answerable` queries.
        folds: as there.
        seed: as there.

    Yields:
        Each of these, of all directions, by direction, and of words with several translations.
    """

    def of_layer(_: int, vectors: Floats32) -> list[dict[str, Floats]]:
        return [_of_direction(vectors, read.words, words, folds, seed) for words in directions]

    by_layer = read.each(of_layer)
    for name in by_layer[0][0]:
        right = [np.stack([one[place][name] for one in by_layer]) for place in range(len(directions))]
        yield from translation_scores(name, read.layers, right, directions)


def translation_scores(
    metric: str, layers: Layers, right: list[Floats], directions: list[TranslatedWords]
) -> Iterator[LayerSums]:
    """The share of queries ``[direction][layer, query]`` that are right: all, by direction, and of ambiguous words."""
    every = np.unique(np.concatenate([words.units for words in directions]))
    values, ambiguous = dict[str, tuple[Floats, Floats]](), dict[str, tuple[Floats, Floats]]()
    for words, of_direction in zip(directions, right, strict=True):
        clusters = np.searchsorted(every, words.units)
        values[words.title] = weighted_sums(of_direction, clusters, n_clusters=len(every))
        ambiguous[words.title] = weighted_sums(of_direction, clusters, words.is_ambiguous, len(every))
    yield from grouped_sums(metric, layers, values)
    over, under = (np.sum([both[part] for both in ambiguous.values()], axis=0) for part in (0, 1))
    if under.any():
        yield LayerSums(metric, layers, over, under, "sentences", "several translations")


def _of_direction(
    vectors: Floats32, read: NDArray[np.int64], words: TranslatedWords, folds: int, seed: int
) -> dict[str, Floats]:
    asked, candidates = (vectors[np.searchsorted(read, some)] for some in (words.words, words.candidates))
    of_queries, of_candidates = words.folds(folds, seed=seed)
    right = {name: np.zeros(len(words)) for name in ("type", "type_raw", "occurrence")}
    means = [vectors[np.searchsorted(read, some)].mean(axis=0) for some in (words.source, words.candidates)]
    spaces = {"_raw": (asked, candidates), "": (asked - means[0], candidates - means[1])}
    for fold in np.unique(of_queries):
        queries, known = of_queries == fold, of_candidates != fold
        types = np.unique(words.types[known])
        for suffix, (own, others) in spaces.items():
            unit = unit_vectors(own[queries], may_vanish=True)
            of_types = unit_vectors(Groups(words.types[known]).means(others[known]), may_vanish=True)
            nearest = types[(unit @ of_types.T).argmax(axis=1)]
            right[f"type{suffix}"][queries] = nearest == words.gold[queries]
        near = (unit @ unit_vectors(others[known], may_vanish=True).T).argmax(axis=1)
        right["occurrence"][queries] = words.types[known][near] == words.gold[queries]
    return right


@dataclass(frozen=True, eq=False, repr=False)
class AlignedTexts(PageAndFigure):
    """A text and its translation, and how similar their words are in each layer.

    It shows as the links of one layer in ``print`` and as the page of :meth:`to_html` in a notebook; ``.save(path)``
    writes the page (``.html``) or the picture of that layer (``.svg``, ``.pdf`` or ``.png``).
    """

    page_title: ClassVar[str] = "Words aligned"
    page_height: ClassVar[int] = 460

    first: Sentence
    second: Sentence
    layers: tuple[int, ...]
    similarity: Floats
    """``[layer, word, word]`` from 0 to 1, as of :func:`word_similarity`."""
    method: str
    model: str
    layer: int
    """The one whose links are shown where none is named."""
    n_layers: int
    """Number of blocks of the model, from whose last negative layers are counted."""

    @cached_property
    def linked(self) -> tuple[Bools, ...]:
        """``[word, word]`` masks of linked words by layer."""
        return tuple(align_words(similar, self.method) for similar in self.similarity)

    def links(self, layer: int | None = None) -> list[tuple[int, int, float]]:
        """The places of linked words in both texts, from 0, and their similarity.

        Args:
            layer: that which is shown when left out; negative ones are counted from the model's last.

        Raises:
            NameNotFoundError: the layer was not read.
        """
        place = self._place(layer)
        return [(int(i), int(j), float(self.similarity[place, i, j])) for i, j in np.argwhere(self.linked[place])]

    def pharaoh(self, layer: int | None = None) -> str:
        """The links as ``0-0 1-2 …``, as aligners write them."""
        return " ".join(f"{i}-{j}" for i, j, _ in self.links(layer))

    def to_pandas(self) -> pd.DataFrame:
        """A row for each link of each layer: ``layer``, ``first``, ``second``, their words, and ``similarity``."""
        import pandas as pd

        rows = [
            (layer, i, j, self.first.words[i], self.second.words[j], similar)
            for layer in self.layers
            for i, j, similar in self.links(layer)
        ]
        return pd.DataFrame(rows, columns=["layer", "first", "second", "first_word", "second_word", "similarity"])

    def plot(self, layer: int | None = None) -> ShownFigure:
        """Both texts, one above the other, and lines between linked words, the stronger the more similar."""
        from bertology._figures import BLUE, TEXT, new_figure, write_caption

        centres = [self._centres(one) for one in (self.first, self.second)]
        width = max(ends[-1] for _, ends in centres)
        figure = new_figure(max(3.0, width), _HEIGHT)
        axes = figure.add_subplot()
        for height, one, (middles, _) in zip((1.0, 0.0), (self.first, self.second), centres, strict=True):
            for word, x in zip(one.words, middles, strict=True):
                axes.text(x, height, word, ha="center", va="bottom" if height else "top", fontsize=9, color=TEXT)
        for i, j, similar in self.links(layer):
            axes.plot(
                [centres[0][0][i], centres[1][0][j]], [0.97, 0.03], color=BLUE, alpha=max(0.15, similar), linewidth=1.4
            )
        axes.set(xlim=(0, width), ylim=(-0.2, 1.2))
        axes.set_axis_off()
        write_caption(figure, self._about(self.layers[self._place(layer)]))
        return figure

    def to_html(self) -> str:
        """A page with both texts, whose links change with a layer that is chosen; it makes no request."""
        folder = "geometry/assets/align."
        data = {
            "first": list(self.first.words),
            "second": list(self.second.words),
            "layers": list(self.layers),
            "layer": self._place(None),
            "links": [[[i, j, round(similar, 3)] for i, j, similar in self.links(layer)] for layer in self.layers],
        }
        values = {
            "model": escape(folder_name(self.model)),
            "method": escape(self.method),
            "text": escape(self.first.text),
            "translation": escape(self.second.text),
        }
        return full_page(
            folder + "html",
            title=f"{self.first.text} — words aligned",
            styles=[folder + "css"],
            scripts=["assets/cells.js", folder + "js"],
            values=values,
            data=data,
        )

    def __str__(self) -> str:
        return self.text()

    def text(self, layer: int | None = None) -> str:
        """A line for each word of the first text with the words linked with it, then words without a link."""
        of_word: dict[int, list[str]] = {}
        linked = self.links(layer)
        for i, j, similar in linked:
            of_word.setdefault(i, []).append(f"{self.second.words[j]} {similar:.2f}")
        widest = max(map(len, self.first.words))
        lines = [
            f"{number:>3} {word:<{widest}}  {', '.join(of_word.get(place, ['–']))}"
            for place, (number, word) in enumerate(zip(range(1, len(self.first) + 1), self.first.words, strict=True))
        ]
        rest = [word for place, word in enumerate(self.second.words) if place not in {j for _, j, _ in linked}]
        lines += ["", f"linked with none: {' '.join(rest) or '–'}", self._about(self.layers[self._place(layer)])]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"AlignedTexts({self.first.text!r}, {self.second.text!r}, layer {self.layer})"

    def _place(self, layer: int | None) -> int:
        return place_of_layer(self.layer if layer is None else layer, self.layers, self.n_layers)

    def _about(self, layer: int) -> str:
        name = "layer 0 (embeddings)" if layer == 0 else f"layer {layer}"
        return f"{folder_name(self.model)}, {name}, {self.method}; similarity is (cosine + 1) / 2"

    def _centres(self, one: Sentence) -> tuple[Floats, Floats]:
        widths = np.array([len(word) * _WIDTH for word in one.words])
        ends = np.cumsum(widths + _GAP)
        return ends - _GAP / 2 - widths / 2, ends


def aligned_texts(
    encoder: Encoder,
    firsts: Sequence[Sentence],
    seconds: Sequence[Sentence],
    *,
    layers: Sequence[int],
    layer: int | None = None,
    method: str = "argmax",
    distortion: float = 0.0,
    pooling: str = "mean",
) -> list[AlignedTexts]:
    """Link the words of texts with those of their translations, by the vectors of an encoder.

    Args:
        encoder: the model.
        firsts: the texts.
        seconds: the translation of each.
        layers: layers that are read.
        layer: the one of them that is shown; that nearest to two thirds of the way up when left out.
        method: as for :func:`align_words`.
        distortion: as for :func:`word_similarity`.
        pooling: a word's vector from its pieces'.

    Raises:
        CorpusError: there are not as many translations as texts.
        FitError: there is no such method, or the distortion is not from 0 to 1.
    """
    from bertology.activations import read_words

    if len(firsts) != len(seconds):
        raise CorpusError(f"{len(firsts)} texts and {len(seconds)} translations: give one translation of each text")
    if method not in METHODS:
        raise name_not_found("method of alignment", method, list(METHODS))
    if not 0 <= distortion <= 1:
        raise FitError(f"distortion={distortion}: give a number from 0 to 1")
    layers = [layer_number(one, encoder.n_layers) for one in layers]
    shown = round(2 * encoder.n_layers / 3) if layer is None else layer_number(layer, encoder.n_layers)
    if layer is None:
        shown = min(layers, key=lambda one: abs(one - shown))
    found = []
    for start in range(0, len(firsts), _PAIRS):
        pairs = list(zip(firsts[start : start + _PAIRS], seconds[start : start + _PAIRS], strict=True))
        texts = Sentences(one for pair in pairs for one in pair)
        vectors = read_words(encoder, texts, layers=layers, pooling=pooling).numpy()
        of_text = [vectors[:, texts.starts[number] : texts.starts[number + 1]] for number in range(len(texts))]
        for pair, own, other in zip(pairs, of_text[::2], of_text[1::2], strict=True):
            similar = [word_similarity(a, b, distortion=distortion) for a, b in zip(own, other, strict=True)]
            by_layer = tuple(layers), np.stack(similar)
            found.append(AlignedTexts(*pair, *by_layer, method, encoder.source.title, shown, encoder.n_layers))
    return found
