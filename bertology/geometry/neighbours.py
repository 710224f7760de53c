"""The nearest occurrences of one occurrence of a word in a text, by the cosine of their vectors, in every layer.

Reif et al. (2019) and Coenen et al. (2019), *Visualizing and Measuring the Geometry of BERT*, §4.1: occurrences of a
word lie together by sense, which shows in what an occurrence has around it. :class:`SearchedText` is the text;
:class:`OccurrenceMap` one page on which occurrences lie in two dimensions, by principal components or t-SNE, each layer
turned so that it lies as the one before.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bertology._lazy import scipy, sklearn
from bertology._names import check_name, folder_name, place_of_layer
from bertology._page import ShownPage, full_page
from bertology.activations.layers import Floats32, LayerVectors, unit_vectors
from bertology.corpora import Sentence, Sentences
from bertology.errors import CorpusError, ModelError, quoted
from bertology.measures.sums import Floats, Integers

Projection = Literal["pca", "tsne"]
Block = tuple[Integers, Floats32]  # numbers [m] of points and their vectors [layer, m, dim]
Kind = Literal["word", "tag", "sense"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_TAGS = ("upos", "xpos")  # layers of tags, of which the first that a text has is taken
_SENSE = "sense"  # name of the targets, or of the layer of words, that hold senses
_DIGITS = 6  # decimals of cosines; equal ones, as of a word's vectors before any context, are in order of the text
_MOST: Mapping[Projection, int] = {"pca": 50_000, "tsne": 5000}
"""Points at most: the time of t-SNE grows faster than their number, to half a minute a layer and more for so many."""
_PERPLEXITY = 30.0
_LEAST_OF_FORM = 5  # occurrences of a form that have a layout of their own
_HERE = "geometry/assets/"
_STYLES = "attention/assets/viewer.css", _HERE + "map.css"
# In this order, for each uses those before it.
_SCRIPTS = ("assets/drawn.js", *(f"{_HERE}{name}.js" for name in ("start", "view", "paint", "words", "controls")))
_LEVELS = 65_535
_WIDTH = 300  # characters of a long sentence that are kept on each side of the word


class Occurrence(NamedTuple):
    """One word where it stands."""

    split: str
    sentence: str  # id of its sentence
    text: str
    span: tuple[int, int]  # place of the word in the text (code points, end exclusive)
    word: str
    tag: str | None
    sense: str | None

    def context(self, width: int) -> tuple[str, str]:
        """The text before and after the word, each cut to a number of characters; ``…`` marks a cut."""
        before, after = self.text[: self.span[0]], self.text[self.span[1] :]
        if len(before) > width:
            before = "…" + before[len(before) - width + 1 :]
        if len(after) > width:
            after = after[: width - 1] + "…"
        return before, after


def word_annotations(text: Sentences) -> dict[Kind, NDArray[np.object_]]:
    """``[word]`` forms in lower case, tags and senses, None where there is none.

    Tags are of the first of the layers ``upos`` and ``xpos`` that there is; senses of the targets ``sense`` or that
    layer.
    """

    def of_layer(name: str) -> NDArray[np.object_]:
        if name not in text.layers:
            return np.full(text.n_words, None, dtype=object)
        return np.array([*text.layers[name].values, None], dtype=object)[text.layers[name].codes]

    senses, targets = of_layer(_SENSE), [(number, one) for number, every in text.targets(_SENSE) for one in every]
    for number, target in targets:
        first, last = (int(text.starts[number]) + at for at in target.span1)
        senses[first:last] = target.labels[0] if target.labels else None
    forms = np.array([form.lower() for form in text.forms.values], dtype=object)[text.forms.codes]
    return {"word": forms, "tag": of_layer(next((name for name in _TAGS if name in text.layers), "")), "sense": senses}


class SearchedText:
    """The words of some splits, numbered through, with their vectors.

    Args:
        splits: the sentences by the name of their split.
        read: for each split gives the vectors of chosen words, by their numbers ``[word]`` in the split; those
            without any are left out. Layers are the same in all splits.
        shared: for each split the words that share all their subwords with another word, as both of French *du*: their
            vectors are not those of the words, and they are not searched.
    """

    def __init__(
        self,
        splits: Mapping[str, Sentences],
        read: Mapping[str, Callable[[Integers], LayerVectors]],
        shared: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        self.splits, self._read = dict(splits), dict(read)
        self.starts = np.cumsum([0, *(sentences.n_words for sentences in splits.values())])
        """``[split + 1]`` number of the first word of each split, and the number of words."""
        self._whole = []
        for name, sentences in splits.items():
            left_out = np.array(sorted(shared.get(name, ())), dtype=np.int64)
            self._whole.append(read[name](np.setdiff1d(np.arange(sentences.n_words), left_out)))
        whole = zip(self._whole, self.starts, strict=False)
        self.words: Integers = np.concatenate([start + some.words for some, start in whole])
        """Numbers of the words that are searched: those with a vector of their own."""
        self.n_shared = sum(map(len, shared.values()))
        self.n_skipped = int(self.starts[-1]) - self.n_shared - len(self.words)
        """Number of words without a vector."""

    def chunks(self) -> Iterator[Block]:
        """All words with a vector once, in chunks: their numbers ``[m]``, and their vectors ``[layer, m, dim]``."""
        for whole, start in zip(self._whole, self.starts, strict=False):
            for items, values in whole.chunks():
                yield start + whole.words[items], values

    def layers_of(self, words: Integers) -> Iterator[Floats32]:
        """``[word, dim]`` vectors of chosen words, layer by layer."""
        parts = []
        for name, (start, end) in zip(self.splits, pairwise(self.starts), strict=True):
            here = np.flatnonzero((words >= start) & (words < end))
            parts.append((here, self._read[name](words[here] - start)))
        for layer in parts[0][1].layers:
            vectors = np.empty((len(words), parts[0][1].dim), dtype=np.float32)
            for here, read in parts:
                vectors[here] = read.of(layer)
            yield vectors

    @cached_property
    def codes(self) -> Mapping[Kind, Any]:
        """``[word]`` categoricals: :func:`word_annotations` of all words, missing where there is none."""
        texts = list(map(word_annotations, self.splits.values()))
        every = {kind: pd.factorize(np.concatenate([text[kind] for text in texts])) for kind in KINDS}
        return {kind: pd.Categorical.from_codes(codes, pd.Index(values)) for kind, (codes, values) in every.items()}

    def value(self, kind: Kind, word: int) -> str | None:
        """The form in lower case, tag or sense of a word."""
        code = int(self.codes[kind].codes[word])
        return None if code < 0 else str(self.codes[kind].categories[code])

    def occurrence(self, word: int) -> Occurrence:
        """A word where it stands."""
        part = int(np.searchsorted(self.starts, word, side="right")) - 1
        (name, sentences), place = list(self.splits.items())[part], int(word - self.starts[part])
        number, (first, last) = int(sentences.sentence_of_word[place]), sentences.char_spans[place].tolist()
        where = name, sentences.id(number), sentences.text(number), (first, last), sentences.word(place)
        return Occurrence(*where, self.value("tag", word), self.value("sense", word))

    def places_of(self, sentence: Sentence, place: int) -> list[int]:
        """Numbers of words that stand where the word at ``place`` of ``sentence`` does, in sentences of that text."""
        found = []
        for sentences, start in zip(self.splits.values(), self.starts.tolist(), strict=False):
            for number in range(len(sentences)):
                if sentences.text(number) == sentence.text:
                    first, last = sentences.starts[number : number + 2].tolist()
                    is_same = (sentences.char_spans[first:last] == sentence.spans[place]).all(axis=1)
                    found += (start + first + np.flatnonzero(is_same)).tolist()
        return found


def nearest_occurrences(
    chunks: Iterable[Block], query: Floats32, *, k: int, left_out: Collection[int] = ()
) -> tuple[Integers, Floats]:
    """``[layer, k]`` numbers and cosines of the vectors nearest to a query ``[layer, dim]``, by exact search in blocks.

    Memory does not grow with the number of vectors. Of equal cosines (to six decimals) the lowest number is first; a
    vector of zeros has the cosine 0. Vectors that are ``left_out``, such as the query itself, are not looked at.
    """
    lengths = np.linalg.norm(query, axis=1)
    if not (np.isfinite(query).all() and (lengths > 0).all()):
        raise ModelError("the vector of the word is zero or not finite in a layer: it has no direction to compare")
    unit = (query / lengths[:, None]).astype(np.float32)
    best = [(np.empty(0, dtype=np.int64), np.empty(0)) for _ in query]
    for items, vectors in chunks:
        kept = ~np.isin(items, list(left_out)) if left_out else np.ones(len(items), dtype=np.bool_)
        # By einsum, whose sums do not depend on the size of a block; a product by BLAS is no faster.
        products = np.einsum("lmd,ld->lm", vectors, unit).astype(np.float64)
        norms = np.sqrt(np.einsum("lmd,lmd->lm", vectors, vectors).astype(np.float64))
        if not np.isfinite(norms).all():
            raise ModelError("vectors of words of the corpus are not finite; give a model that computes them")
        for layer, found in enumerate(np.round(products / np.where(norms > 0, norms, 1.0), _DIGITS)):
            numbers, cosines = best[layer]
            # Of a block after the first few are among the highest.
            near = np.flatnonzero(kept & (found >= (cosines[-1] if len(cosines) == k else -np.inf)))
            if len(near):
                numbers, cosines = np.append(numbers, items[near]), np.append(cosines, found[near])
                order = np.lexsort((numbers, -cosines))[:k]
                best[layer] = numbers[order], cosines[order]
    return np.stack([numbers for numbers, _ in best]), np.stack([cosines for _, cosines in best])


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours:
    """The nearest occurrences of an occurrence of a word, by layer; shows as a table in a notebook."""

    sentence: Sentence
    place: int  # place of the word in its sentence, from 0
    tag: str | None  # the word's own tag, where it is known; its neighbours are compared with it
    sense: str | None  # the word's own sense, where it is known
    model: str
    corpus: str
    layers: tuple[int, ...]
    numbers: Integers  # [layer, k] the nearest words of the text, the nearest first
    cosines: Floats  # [layer, k]
    text: SearchedText  # the text that was searched
    vectors: Floats32  # [layer, dim] of the word
    itself: tuple[int, ...] = ()  # words of the text that are the word itself, which is no neighbour of its own
    n_layers: int | None = None
    """Number of blocks of the model, from whose last negative layers are counted; the last layer that was read when
    left out."""
    n_words: int = 1
    """Number of words: several of a phrase, whose vector is the mean of theirs. Its neighbours are words, none of which
    has its form."""

    @property
    def span(self) -> tuple[int, int]:
        """Place of the word or phrase in the text (code points, end exclusive)."""
        return self.sentence.spans[self.place][0], self.sentence.spans[self.place + self.n_words - 1][1]

    @property
    def word(self) -> str:
        """The word as it stands in its sentence, or the phrase."""
        start, end = self.span
        return self.sentence.words[self.place] if self.n_words == 1 else self.sentence.text[start:end]

    @property
    def occurrence(self) -> Occurrence:
        """The word where it stands."""
        one = self.sentence
        return Occurrence("", one.id, one.text, self.span, self.word, self.tag, self.sense)

    @property
    def k(self) -> int:
        """Number of neighbours of a layer."""
        return int(self.numbers.shape[1])

    @property
    def annotated(self) -> tuple[Kind, ...]:
        """The annotations, tag or sense, that the searched text has."""
        return tuple(kind for kind in KINDS[1:] if len(self.text.codes[kind].categories))

    def own(self, kind: Kind) -> str | None:
        """The word's own form in lower case, tag or sense; None where it is not known."""
        return {"word": self.word.lower(), "tag": self.tag, "sense": self.sense}[kind]

    def _compared(self, kind: Kind) -> str | None:
        """The form, tag or sense that neighbours are compared with; no form of a phrase."""
        return None if kind == "word" and self.n_words > 1 else self.own(kind)

    def at(self, layer: int) -> list[tuple[Occurrence, float]]:
        """The neighbours in a layer with their cosines, the nearest first.

        Raises:
            NameNotFoundError: the layer was not read.
        """
        row = place_of_layer(layer, self.layers, max(self.layers) if self.n_layers is None else self.n_layers)
        words = map(self.text.occurrence, self.numbers[row].tolist())
        return list(zip(words, self.cosines[row].tolist(), strict=True))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a neighbour: layer, rank, cosine, word, tag, sense, whether these are the word's own, and where."""
        frame = pd.DataFrame(map(self.text.occurrence, self.numbers.ravel().tolist()))
        frame["layer"], frame["cosine"] = np.repeat(self.layers, self.k), self.cosines.ravel()
        frame["rank"] = np.tile(np.arange(1, self.k + 1), len(self.layers))
        frame["start"], frame["end"] = zip(*frame["span"], strict=True)
        for kind in KINDS:
            own, theirs = self._compared(kind), frame["word"].str.lower() if kind == "word" else frame[kind]
            frame[f"same_{kind}"] = None if own is None else theirs == own
        same = [f"same_{kind}" for kind in KINDS]
        return frame[["layer", "rank", "cosine", *KINDS, *same, "split", "sentence", "start", "end", "text"]]

    @cached_property
    def shares(self) -> pd.DataFrame:
        """One row a layer: the share of the neighbours with the same word form, tag and sense, missing where these are
        unknown.

        ``tag``, ``tag_share``, ``sense`` and ``sense_share`` are the most frequent ones among the neighbours and their
        shares.
        """
        rows = []
        for layer, near in zip(self.layers, self.numbers, strict=True):
            line: dict[str, int | float | str | None] = {"layer": layer}
            for kind in KINDS:
                own = self._compared(kind)
                line[f"same_{kind}"] = None if own is None else float((self.text.codes[kind][near] == own).mean())
            for kind in KINDS[1:]:
                values = [value for word in near.tolist() if (value := self.text.value(kind, word)) is not None]
                value = max(values, key=values.count, default=None)
                line |= {kind: value, f"{kind}_share": values.count(str(value)) / self.k}
            rows.append(line)
        return pd.DataFrame(rows)

    def map(
        self, *, points: int | None = None, others: bool = True, projection: Projection = "pca", seed: int = 0
    ) -> "OccurrenceMap":
        """The page of the word, its neighbours, all occurrences of its form and a sample of other words.

        Occurrences of the form are laid out by themselves as well, where its senses may part: the two principal
        components of all words show what all words differ in. Vectors are of length 1: the nearer two are, the higher
        is their cosine.

        Args:
            points: maximum number of words on the map; 50,000 when left out, and 5,000 for t-SNE.
            others: whether words of other forms are drawn as well.
            projection: the two principal components of each layer, ``pca``, or ``tsne``.
            seed: random seed of the sample and of t-SNE.

        Raises:
            CorpusError: there are too few points for the neighbours, or too many for the projection.
            NameNotFoundError: no such projection.
        """
        check_name("projection", projection, get_args(Projection))
        most, words = _MOST[projection], np.unique(self.numbers)
        least, points = max(3, len(words) + 1), most if points is None else points
        if not least <= points <= most:
            why = f"the word and its {len(words):,} neighbours" if points < least else f"what {projection} takes"
            raise CorpusError(f"{points:,} points: give from {least:,} to {most:,}, {why}")
        # Neighbours come first, then the form; of what there are too many a random sample is drawn.
        dice, every = np.random.default_rng(seed), np.setdiff1d(self.text.words, self.itself)
        is_form = np.asarray(self.text.codes["word"] == self.word.lower())
        for more in (every[is_form[every]], every if others else every[:0]):
            new, room = np.setdiff1d(more, words), points - 1 - len(words)
            words = np.union1d(words, new if len(new) <= room else dice.choice(new, room, replace=False))

        def layout(name: str, places: Integers) -> Layout:
            both = zip(self.vectors, self.text.layers_of(words[places]), strict=True)
            layers = (unit_vectors(np.concatenate([own[None], others]), may_vanish=True) for own, others in both)
            return Layout(name, np.append(0, places + 1), *planes(layers, projection=projection, seed=seed))

        layouts, same = [layout("all", np.arange(len(words)))], np.flatnonzero(is_form[words])
        if _LEAST_OF_FORM <= len(same) + 1 <= len(words):
            layouts.append(layout("form", same))
        return OccurrenceMap(self, np.append(-1, words), tuple(layouts), projection, int(is_form[every].sum()))

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write the page of :meth:`map`, with its ``options``, as one HTML file that needs no network.

        Raises:
            StoreError: the file cannot be written.
        """
        return self.map(**options).save(path)

    def _repr_html_(self) -> str:
        columns = ["layer", "rank", "cosine", "word", "tag", "sense", "text"]
        return str(self.frame[columns].to_html(index=False, float_format="{:.3f}".format, na_rep="–", max_rows=60))


def find_neighbours(
    sentence: Sentence,
    place: int,
    vectors: Floats32,
    text: SearchedText,
    *,
    layers: tuple[int, ...],
    k: int = 10,
    tag: str | None = None,
    sense: str | None = None,
    model: str = "",
    corpus: str = "",
    n_layers: int | None = None,
    n_words: int = 1,
) -> Neighbours:
    """The nearest occurrences in a text of the word at a place of a sentence, which need not be in the text.

    Of a phrase of ``n_words`` from there, none of them is a neighbour, and tag and sense are not known unless given.
    Where the sentence is one of the text, the word is not its own neighbour, and its tag and sense are known from
    there. ``vectors`` are ``[layer, dim]`` of the word; ``tag`` and ``sense`` its own, where the sentence has none.

    Raises:
        CorpusError: there are fewer than ``k`` other words, or the text has no such tag or sense.
        ModelError: a vector has no direction.
    """
    if k < 1:
        raise CorpusError(f"k is {k}: give a number of neighbours of at least 1")
    places = range(place, place + n_words)
    itself, name = tuple(one for at in places for one in text.places_of(sentence, at)), corpus or "the text"
    n_others = len(text.words) - int(np.isin(itself, text.words).sum())
    if n_others < k:
        raise CorpusError(f"k is {k}, but {name} has {n_others} other words with vectors; give a lower k")
    here = word_annotations(Sentences([sentence]))

    def own(kind: Literal["tag", "sense"], stated: str | None) -> str | None:
        known = list(text.codes[kind].categories)
        if stated is not None and stated not in known:
            names = f"; there is {', '.join(sorted(known)[:8])}" if known else ", nor any other"
            raise CorpusError(f"no word of {name} has the {kind} {quoted(stated)}{names}")
        if n_words > 1:
            return stated
        return (stated or here[kind][place] or next((text.value(kind, one) for one in itself), None)) if known else None

    numbers, cosines = nearest_occurrences(text.chunks(), vectors, k=k, left_out=itself)
    facts = own("tag", tag), own("sense", sense), model, corpus, layers
    return Neighbours(sentence, place, *facts, numbers, cosines, text, vectors, itself, n_layers, n_words)


# The map.


@dataclass(frozen=True, eq=False)
class Layout:
    """Some of the points, and where they lie in every layer."""

    name: str  # "all", or "form" for the occurrences of the query's form
    points: Integers  # [place] numbers of points
    places: Floats32
    """``[layer, place, 2]``, centred; the root mean square of the distances from the centre is 1 in every layer."""
    shares: Floats | None  # [layer] share of the variance that the two dimensions hold; None where these are not linear


@dataclass(frozen=True, eq=False, repr=False)
class OccurrenceMap(ShownPage):
    """A page on which words of a text lie in two dimensions, by layer; shows itself in a notebook."""

    query: Neighbours
    words: Integers
    """``[point]`` numbers of the words in the searched text; −1 for the first, the query, which need not be there."""
    layouts: tuple[Layout, ...]
    """The layout of all points; and, where there are five of them, that of the occurrences of the query's form."""
    projection: str
    n_of_form: int  # number of words of the query's form in the text
    page_title, page_height = "Map of occurrences", 860

    @cached_property
    def html(self) -> str:
        """The page as text; it makes no request, and its content security policy allows none."""
        values, packed = self._payload()
        query = self.query.occurrence
        before, after = query.context(_WIDTH)
        content = json.dumps(packed, ensure_ascii=False, separators=(",", ":")).encode()
        text = base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
        return full_page(
            _HERE + "map.html",
            title=f"Neighbours of {query.word}: {query.text[:60]}{'…' if len(query.text) > 60 else ''}",
            styles=_STYLES,
            scripts=_SCRIPTS,
            values={
                "sentence": f"{escape(before)}<mark>{escape(query.word)}</mark>{escape(after)}",
                "model": escape(folder_name(self.query.model or "the model")),
                "corpus": escape(self.query.corpus or "the text"),
                "packed": f'<script type="text/plain" id="packed-points">{text}</script>',
            },
            data=values,
        )

    def _payload(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The data of the page: values, and what the page has packed by gzip, in base64.

        Packed are of each layout the numbers of its points and ``[layer, axis, place]`` their coordinates, from
        −``limit`` at 0 to ``limit`` at 65,535; by ``[point]`` the number of its text, begin and end of its word there
        in UTF-16 units, and numbers of values of each kind, −1 for none; and the texts, each with where it stands.
        """
        query, words, layouts, places = self.query, self.words[1:], list[dict[str, Any]](), []
        for one in self.layouts:
            limit = max(float(np.abs(one.places).max()), 1e-6)
            shares = None if one.shares is None else one.shares.round(6).tolist()
            layouts.append({"name": one.name, "limit": limit, "shares": shares})
            levels = np.round((one.places.astype(np.float64) / limit + 1) / 2 * _LEVELS).astype(int)
            places.append({"points": one.points.tolist(), "places": levels.transpose(0, 2, 1).tolist()})
        codes = query.text.codes.items()
        coded = {kind: _coded(some, query.own(kind), words) for kind, some in codes if len(some.categories)}
        texts, of_points = dict[tuple[str, str], int](), []
        for word in self.words.tolist():
            found = query.occurrence if word < 0 else query.text.occurrence(word)
            before, after = found.context(_WIDTH if len(found.text) > 2 * _WIDTH else len(found.text))
            where = f"{found.split} · {found.sentence}" if found.split else ""
            number = texts.setdefault((f"{before}{found.word}{after}", where), len(texts))
            begin = len(before.encode("utf-16-le")) // 2
            of_points.append((number, begin, begin + len(found.word.encode("utf-16-le")) // 2))
        text_of, begin_of, end_of = zip(*of_points, strict=True)
        rows = zip(query.layers, np.searchsorted(words, query.numbers) + 1, query.cosines.round(4), strict=True)
        values = {
            "word": query.word,
            "nPoints": len(self.words),
            "nTexts": len(texts),
            "layouts": layouts,
            "layers": [{"layer": layer, "near": near.tolist(), "cosines": some.tolist()} for layer, near, some in rows],
            "kinds": {kind: names for kind, (names, _) in coded.items()},
            "projection": self.projection,
            "nWords": len(query.text.words),
            "nOfForm": self.n_of_form,
        }
        packed = {"layouts": places, "textOf": text_of, "begin": begin_of, "end": end_of, "texts": list(texts)}
        return values, packed | {"values": {kind: numbers for kind, (_, numbers) in coded.items()}}


def _coded(some: Any, own: str | None, words: Integers) -> tuple[list[str], list[int]]:
    """The values that points have, the most frequent first, and ``[point]`` their numbers; the query comes first."""
    values = some[words]
    names = [str(name) for name, _ in Counter(values.dropna()).most_common()]
    if own not in (None, *names):
        names.append(str(own))
    number = {name: place for place, name in enumerate(names)}
    return names, [number.get(value, -1) for value in (own, *values)]


def planes(
    layers: Iterable[Floats32], *, projection: Projection = "pca", seed: int = 0
) -> tuple[Floats32, Floats | None]:
    """``[layer, point, 2]`` places in each layer, and ``[layer]`` the share of the variance that they hold (not t-SNE).

    The coefficient of largest absolute value of each principal component is positive. t-SNE (van der Maaten and Hinton
    2008) is that of scikit-learn and starts at the places of the layer before, the first at principal components. Of
    one layer after the other the places are of one size, and turned (or mirrored) onto those before by orthogonal
    Procrustes, so that points move as little as they can from layer to layer.
    """
    found: list[Floats] = []
    shares: list[float] = []
    for vectors in layers:
        if projection == "pca" or not found:
            places, share = _principal_plane(vectors)
            shares.append(share)
        if projection == "tsne":
            # As wide as scikit-learn's own start by principal components.
            near = (places / max(float(places[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
            perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
            tsne = sklearn.manifold.TSNE(perplexity=perplexity, init=near, random_state=seed)
            places = np.asarray(tsne.fit_transform(vectors), dtype=np.float64)
        places = places - places.mean(axis=0)
        size = np.sqrt((places**2).sum(axis=1).mean())
        placed = places / (size if size > 0 else 1.0)
        if found:
            left, _, right = np.linalg.svd(placed.T @ found[-1])
            placed = placed @ (left @ right)
        found.append(placed)
    return np.stack(found).astype(np.float32), np.array(shares) if projection == "pca" else None


def _principal_plane(vectors: Floats32) -> tuple[Floats, float]:
    """``[point, 2]`` places on the two principal components, and the share of the variance that they hold."""
    centred, dim = vectors - vectors.mean(axis=0), vectors.shape[1]
    products = (centred.T @ centred).astype(np.float64)
    values, axes = scipy.linalg.eigh(products, subset_by_index=[dim - 2, dim - 1])
    axes, total = axes[:, ::-1], float(np.trace(products))
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return centred @ axes, float(np.clip(values, 0, None).sum()) / total if total > 0 else 1.0
