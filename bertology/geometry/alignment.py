"""Words and their translations: links that vectors find, and whether the nearest word of the other language is one.

Jalili Sabet et al. (2020), *SimAlign*, for links; :class:`AlignedTexts` shows those of two texts by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import combinations, permutations
from typing import ClassVar, Final, NamedTuple

import numpy as np

from bertology import activations, encoders
from bertology._lazy import figures, pd, scipy
from bertology._names import aligned, check_name, folder_name, layer_label, layer_number, place_of_layer
from bertology._page import PageAndFigure, full_page
from bertology.activations.layers import Floats32, Groups, LayerVectors, unit_vectors
from bertology.corpora import Links, ParallelText, Sentence, Sentences
from bertology.errors import CorpusError, FitError
from bertology.measures import sums
from bertology.measures.sums import Floats, Integers, LayerSums

_ONE_SIDE_LINKED = 0.9
"""Factor of itermax for the similarity of two words one of which is linked already; it is 0 where both are."""
_FEW = 2  # words of the shorter sentence up to which itermax adds nothing
_PAIRS = 128  # pairs of texts that are read at a time
_NO_LINKS = "no sentence has gold links of words: give parallel:en=PATH,fr=PATH,links=path/to/gold"


def word_similarity(source: Floats32, target: Floats32, *, distortion: float = 0.0) -> Floats:
    """``[source, target]`` similarity of words, (cosine + 1) / 2, from 0 to 1, by their vectors ``[word, dim]``.

    It falls with the distance of relative places by the ``distortion`` κ, sim · (1 − κ (i/m − j/n)²), i and j from 0
    and m and n the last places (Jalili Sabet et al. 2020, §2.2).
    """
    own, other = (unit_vectors(some, may_vanish=True).astype(np.float64) for some in (source, target))
    similar = (own @ other.T + 1) / 2
    if distortion and min(similar.shape) > 1:
        rows, columns = (np.linspace(0, 1, n) for n in similar.shape)
        similar = similar * (1 - distortion * np.square(rows[:, None] - columns))
    return np.asarray(similar)


def _mutual(similar: Floats) -> sums.Bools:
    """Cells that are the highest of their row and of their column, the first of equals."""
    linked = np.zeros(similar.shape, dtype=bool)
    best, of_columns = np.argmax(similar, axis=1), np.argmax(similar, axis=0)
    rows = np.flatnonzero(of_columns[best] == np.arange(len(similar)))
    linked[rows, best[rows]] = True
    return linked


def _itermax(similar: Floats) -> sums.Bools:
    linked = _mutual(similar)
    has_row, has_column = (np.asarray(linked.any(axis=axis)) for axis in (1, 0))
    if min(similar.shape) <= _FEW or has_row.all() or has_column.all():
        return linked
    n_linked = has_row[:, None].astype(int) + has_column
    factors = np.array([1.0, _ONE_SIDE_LINKED, 0.0])[n_linked]
    return np.asarray(linked | (_mutual(similar * factors) & (n_linked < 2)))


def _match(similar: Floats) -> sums.Bools:
    linked = np.zeros(similar.shape, dtype=bool)
    linked[scipy.optimize.linear_sum_assignment(similar, maximize=True)] = True
    return linked


METHODS: Final[Mapping[str, Callable[[Floats], sums.Bools]]] = {"argmax": _mutual, "itermax": _itermax, "match": _match}
"""The three methods of SimAlign."""


def align_words(similar: Floats, method: str) -> sums.Bools:
    """``[source, target]`` which words are linked, by a method of SimAlign (Jalili Sabet et al. 2020, §2.1).

    ``argmax``: words that are the most similar to each other in both directions. ``itermax``: those, and one more round
    among the cells of which not both words are linked yet, with 0.9 of the similarity where one of them is; none where
    a sentence has two words or fewer or all of its words are linked. ``match``: the one-to-one links of as many words
    as possible with the largest sum.
    """
    return METHODS[method](similar) if similar.size else np.zeros(similar.shape, dtype=bool)


# Gold links.


class AlignedPair(NamedTuple):
    """A sentence and its translation with gold links of their words."""

    words: tuple[Integers, Integers]  # places of the words of both among the words that are read
    places: tuple[Integers, Integers]  # places of the same words in their sentences
    gold: Links

    def counts(self, linked: sums.Bools) -> tuple[int, int, int, int]:
        """Counts of links ``[word, word]``: |A|, |A ∩ S|, |A ∩ P| (sure ones included) and |S|, words not read too."""
        found = zip(*(own[at].tolist() for own, at in zip(self.places, np.nonzero(linked), strict=True)), strict=True)
        links, gold = set(found), self.gold
        return len(links), len(links & gold.sure), len(links & (gold.sure | gold.possible)), len(gold.sure)


def aligned_pairs(text: ParallelText, words: Integers) -> list[AlignedPair]:
    """The sentence pairs with gold links, in the first two languages that have any."""
    starts = text.sentences.starts
    for source, target in combinations(text.languages, 2):
        found = []
        for pair, links in zip(text.pairs(source, target).tolist(), text.links(source, target), strict=True):
            if links is not None:
                own, other = (np.arange(*np.searchsorted(words, starts[number : number + 2])) for number in pair)
                places = words[own] - starts[pair[0]], words[other] - starts[pair[1]]
                found.append(AlignedPair((own, other), places, links))
        if found:
            return found
    raise CorpusError(_NO_LINKS)


def scores_of_links(prefix: str, counts: Sequence[tuple[int, ...]]) -> Iterator[LayerSums]:
    """Precision against possible links, recall of sure ones, their F1, and the alignment error rate.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|) (Och & Ney 2003, §4).
    """
    table = np.array(counts, dtype=float)
    found, found_sure, found_possible, sure = table.T
    # Of all pairs, and without each.
    n, n_sure, n_possible, n_gold = np.concatenate([[table.sum(axis=0)], table.sum(axis=0) - table]).T
    precision, recall = n_possible / np.maximum(n, 1), n_sure / np.maximum(n_gold, 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    yield sums.left_out_sums(f"{prefix}_f1", f1, "sentences")
    yield sums.ratio_sums(f"{prefix}_precision", found_possible, found)
    yield sums.ratio_sums(f"{prefix}_recall", found_sure, sure)
    yield sums.ratio_sums(f"{prefix}_error", found + sure - found_sure - found_possible, found + sure)


def alignment_scores(
    read: LayerVectors, pairs: Sequence[AlignedPair], *, distortion: float = 0.0
) -> Iterator[LayerSums]:
    """F1, precision, recall and alignment error rate of each method of :func:`align_words` on gold links, by layer.

    F1 is also of vectors less the mean of their language (``_centred``; Libovický et al. 2019).
    """
    if not 0 <= distortion <= 1:
        raise FitError(f"distortion={distortion}: give a number from 0 to 1")
    sides = [np.concatenate([pair.words[side] for pair in pairs]) for side in (0, 1)]

    def measure(_: int, vectors: Floats32) -> Iterator[LayerSums]:
        means = [vectors[side].mean(axis=0) for side in sides]
        counts = defaultdict[str, list[tuple[int, ...]]](list)
        for pair in pairs:
            own, other = (vectors[side] for side in pair.words)
            for suffix, some in (("", (own, other)), ("_centred", (own - means[0], other - means[1]))):
                similar = word_similarity(*some, distortion=distortion)
                for method in METHODS:
                    counts[f"{method}{suffix}"].append(pair.counts(align_words(similar, method)))
        for name, of_pairs in counts.items():
            for statistic in scores_of_links(name, of_pairs):
                if not name.endswith("_centred") or statistic.metric.endswith("_f1"):
                    yield statistic

    return read.statistics(measure)


def links_without_vectors(
    pairs: Sequence[AlignedPair], sentences: Sentences, words: Integers, *, by_place: bool
) -> Iterator[LayerSums]:
    """The scores of links between words at the same relative place, or that share most pairs of characters."""

    def bigrams(word: int) -> set[tuple[str, str]]:
        form = sentences.word(word).casefold()
        return set(zip(f" {form}", f"{form} ", strict=True))

    counts = []
    for pair in pairs:
        if by_place:
            similar = -np.abs(np.subtract.outer(*(np.linspace(0, 1, len(some)) for some in pair.words)))
            linked = align_words(similar, "argmax")
        else:
            own, other = ([bigrams(int(words[place])) for place in some] for some in pair.words)
            similar = np.array([[2 * len(a & b) / (len(a) + len(b)) for b in other] for a in own])
            linked = align_words(similar, "argmax") & (similar > 0)
        counts.append(pair.counts(linked))
    return scores_of_links("argmax", counts)


# Translations of words.


@dataclass(frozen=True, eq=False)
class TranslatedWords:
    """Words of one language with one sure link, and all words of the other."""

    title: str  # en → de
    source: Integers  # [word] numbers of all words of its own language, ascending
    queries: pd.DataFrame
    """``word`` asked about, its type ``form``, the type ``gold`` of the word that it is linked with, and the ``unit``
    that its sentence shares with its translation."""
    candidates: pd.DataFrame  # each word of the other language, ascending, its type and the unit of its sentence

    @classmethod
    def of(cls, text: ParallelText, source: str, target: str, types: Integers) -> TranslatedWords | None:
        """Words with exactly one link, a sure one, to a word that has no other; None if no links are annotated."""
        starts, rows = text.sentences.starts, []
        some = zip(text.pairs(source, target).tolist(), text.links(source, target), strict=True)
        known = [(pair, links) for pair, links in some if links is not None]
        if not known:
            return None
        for (first, second), links in known:
            own, others = ([pair[side] for pair in sorted(links.sure | links.possible)] for side in (0, 1))
            for i, j in sorted(links.sure):
                if own.count(i) == 1 and others.count(j) == 1:
                    rows.append((starts[first] + i, starts[second] + j, text.unit[first]))
        words, linked, units = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        queries = pd.DataFrame({"word": words, "form": types[words], "gold": types[linked], "unit": units})
        every = [[np.arange(starts[pair[side]], starts[pair[side] + 1]) for pair, _ in known] for side in (0, 1)]
        of_source, of_target = (some[types[some] >= 0] for some in map(np.sort, map(np.concatenate, every)))
        unit = text.unit[text.sentences.sentence_of_word[of_target]]
        candidates = pd.DataFrame({"word": of_target, "type": types[of_target], "unit": unit})
        queries = queries[(queries["form"] >= 0) & (queries["gold"] >= 0)]
        return cls(f"{source} → {target}", of_source, queries, candidates)

    def __len__(self) -> int:
        return len(self.queries)

    def readable(self, words: Integers) -> TranslatedWords:
        """Queries and candidates that are among ``words``."""
        tables = {name: (of := getattr(self, name))[of["word"].isin(words)] for name in ("queries", "candidates")}
        return replace(self, source=self.source[np.isin(self.source, words)], **tables)

    def folds(self, number: int) -> tuple[Integers, Integers]:
        """Random fold of the sentence of each ``[query]`` and ``[candidate]``."""
        own, others = (table["unit"].to_numpy() for table in (self.queries, self.candidates))
        units = np.unique(np.concatenate([own, others]))
        parts = np.random.default_rng(0).permutation(len(units)) % number
        return parts[np.searchsorted(units, own)], parts[np.searchsorted(units, others)]

    def answerable(self, folds: int) -> TranslatedWords:
        """The queries whose translation occurs in another fold of sentences, from which candidates come."""
        of_queries, of_candidates = self.folds(folds)
        elsewhere = np.zeros(len(self), dtype=bool)
        for fold in range(folds):
            types = self.candidates["type"][of_candidates != fold]
            elsewhere |= (of_queries == fold) & self.queries["gold"].isin(types).to_numpy()
        if not elsewhere.any():
            raise CorpusError(f"{self.title}: no word has a translation that occurs in other sentences: give more text")
        return replace(self, queries=self.queries[elsewhere])


def translated_words(sentences: Sentences, types: Integers) -> list[TranslatedWords]:
    """Words with one sure link, from each language to each other one."""
    text = ParallelText.of(sentences)
    found = (TranslatedWords.of(text, *pair, types) for pair in permutations(text.languages, 2))
    if not (known := [one for one in found if one is not None]):
        raise CorpusError(_NO_LINKS)
    return known


def by_dictionary(words: TranslatedWords, folds: int) -> Floats:
    """``[query]`` whether the target type most often linked with the word's type in other folds is its translation."""
    of_queries, _ = words.folds(folds)
    right = np.zeros(len(words))
    for fold in np.unique(of_queries):
        # Of types that are linked as often the one of the lowest number.
        times = words.queries[of_queries != fold].groupby(["form", "gold"]).size()
        best = dict(times.groupby("form").idxmax()) if len(times) else {}
        asked = words.queries[of_queries == fold]
        pairs = zip(asked["form"], asked["gold"], strict=True)
        right[of_queries == fold] = [best.get(form) == (form, gold) for form, gold in pairs]
    return right


def translation(read: LayerVectors, directions: Sequence[TranslatedWords], *, folds: int = 5) -> Iterator[LayerSums]:
    """Share of words whose nearest word of the other language, by cosine, is the one that they are linked with.

    Candidates are in other folds of sentences than the word, so that neither a shared context nor the translation
    itself is found. ``type``: the nearest mean of a type's occurrences; ``occurrence``: the type of the nearest
    occurrence. Vectors are less the mean of their language, but for ``type_raw``. Each is given of all directions, by
    direction, and of words with several translations.
    """

    def of_direction(vectors: Floats32, words: TranslatedWords) -> dict[str, Floats]:
        numbers = words.queries["word"], words.candidates["word"], words.source
        asked, candidates, source = (vectors[np.searchsorted(read.words, some)] for some in numbers)
        of_queries, of_candidates = words.folds(folds)
        gold, every = (table[name].to_numpy() for table, name in ((words.queries, "gold"), (words.candidates, "type")))
        right = {name: np.zeros(len(words)) for name in ("type", "type_raw", "occurrence")}
        spaces = {"_raw": (asked, candidates), "": (asked - source.mean(axis=0), candidates - candidates.mean(axis=0))}
        for fold in np.unique(of_queries):
            queries, known = of_queries == fold, of_candidates != fold
            types = np.unique(every[known])
            for suffix, (own, others) in spaces.items():
                unit = unit_vectors(own[queries], may_vanish=True)
                of_types = unit_vectors(Groups(every[known]).means(others[known]), may_vanish=True)
                right[f"type{suffix}"][queries] = types[(unit @ of_types.T).argmax(axis=1)] == gold[queries]
            near = (unit @ unit_vectors(others[known], may_vanish=True).T).argmax(axis=1)
            right["occurrence"][queries] = every[known][near] == gold[queries]
        return right

    def measure(_: int, vectors: Floats32) -> Iterator[LayerSums]:
        found = [of_direction(vectors, words) for words in directions]
        for name in found[0]:
            yield from translation_scores(name, [right[name] for right in found], directions)

    return read.statistics(measure)


def translation_scores(
    metric: str, right: Sequence[Floats], directions: Sequence[TranslatedWords]
) -> Iterator[LayerSums]:
    """The share of queries ``[direction][query]`` that are right: all, by direction, and of ambiguous words.

    A word is ambiguous whose type is linked with two types or more, each of them twice.
    """
    every = np.unique(np.concatenate([words.queries["unit"] for words in directions]))
    parts, ambiguous = [], []
    for words, of_words in zip(directions, right, strict=True):
        clusters, n, forms = np.searchsorted(every, words.queries["unit"]), len(every), words.queries["form"]
        parts.append(sums.mean_sums(metric, of_words, clusters, n_clusters=n, group=words.title))
        times = words.queries.groupby(["form", "gold"]).size()
        n_senses = times[times > 1].groupby("form").size()
        is_ambiguous = forms.isin(n_senses.index[n_senses > 1]).to_numpy()
        ambiguous.append(sums.mean_sums(metric, of_words, clusters, weights=is_ambiguous, n_clusters=n))
    yield from sums.total_and_groups(parts)
    several = next(sums.total_and_groups(ambiguous))
    if several.under.any():
        yield replace(several, group="several translations")


# Two texts.


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
    similarity: Floats  # [layer, word, word] from 0 to 1, as of word_similarity
    method: str
    model: str
    layer: int  # the one whose links are shown where none is named
    n_layers: int  # number of blocks of the model, from whose last negative layers are counted

    @cached_property
    def linked(self) -> tuple[sums.Bools, ...]:
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
        first, second = self.first.words, self.second.words
        rows = [(layer, i, j, first[i], second[j], one) for layer in self.layers for i, j, one in self.links(layer)]
        return pd.DataFrame(rows, columns=["layer", "first", "second", "first_word", "second_word", "similarity"])

    def plot(self, layer: int | None = None) -> figures.ShownFigure:
        """Draw the words of the first text by those of the second; linked words are shaded by their similarity."""
        from bertology.results.figures import plot_head

        place = self._place(layer)
        shades = np.where(self.linked[place], self.similarity[place], np.nan).astype(np.float32)
        words = encoders.LabelledArray(shades, {"from": self.first.words, "to": self.second.words}, {})
        return plot_head(words, title=self._about(layer), label="similarity of linked words")

    def to_html(self) -> str:
        """A page with both texts, whose links change with a layer that is chosen; it makes no request."""
        folder = "geometry/assets/align."
        data = {
            "first": list(self.first.words),
            "second": list(self.second.words),
            "layers": list(self.layers),
            "layer": self._place(None),
            "links": [[[i, j, round(similar, 6)] for i, j, similar in self.links(layer)] for layer in self.layers],
        }
        shown = {"model": folder_name(self.model), "method": self.method}
        shown |= {"text": self.first.text, "translation": self.second.text}
        return full_page(
            folder + "html",
            title=f"{self.first.text} — words aligned",
            styles=[folder + "css"],
            scripts=["assets/cells.js", folder + "js"],
            values={name: escape(text) for name, text in shown.items()},
            data=data,
        )

    def text(self, layer: int | None = None) -> str:
        """A line for each word of the first text with the words linked with it, then words without a link."""
        linked, words = self.links(layer), self.second.words
        rows = [
            (str(i + 1), word, ", ".join(f"{words[j]} {one:.2f}" for own, j, one in linked if own == i) or "–")
            for i, word in enumerate(self.first.words)
        ]
        rest = " ".join(words[j] for j in range(len(words)) if not self.linked[self._place(layer)][:, j].any())
        about = f"{self._about(layer)}; similarity is (cosine + 1) / 2"
        return "\n".join([*aligned(rows), "", f"linked with none: {rest or '–'}", about])

    __str__ = text

    def _place(self, layer: int | None) -> int:
        return place_of_layer(self.layer if layer is None else layer, self.layers, self.n_layers)

    def _about(self, layer: int | None) -> str:
        name = layer_label(self.layers[self._place(layer)])
        return f"{folder_name(self.model)}, layer {name}, {self.method}"


def aligned_texts(
    encoder: encoders.Encoder,
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

    Of the ``layers`` that are read, ``layer`` is shown; that nearest to two thirds of the way up when left out. The
    ``method`` is one of :func:`align_words`, the ``distortion`` as for :func:`word_similarity`, and ``pooling`` makes a
    word's vector from its pieces'.

    Raises:
        CorpusError: there are not as many translations as texts.
        FitError: there is no such method, or the distortion is not from 0 to 1.
    """
    if len(firsts) != len(seconds):
        raise CorpusError(f"{len(firsts)} texts and {len(seconds)} translations: give one translation of each text")
    check_name("method of alignment", method, METHODS)
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
        vectors = activations.read_words(encoder, texts, layers=layers, pooling=pooling).numpy()
        of_text = [vectors[:, texts.starts[number] : texts.starts[number + 1]] for number in range(len(texts))]
        for pair, own, other in zip(pairs, of_text[::2], of_text[1::2], strict=True):
            similar = [word_similarity(a, b, distortion=distortion) for a, b in zip(own, other, strict=True)]
            title, n_layers = encoder.source.title, encoder.n_layers
            found.append(AlignedTexts(*pair, tuple(layers), np.stack(similar), method, title, shown, n_layers))
    return found
