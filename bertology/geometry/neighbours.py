"""The nearest occurrences of one occurrence of a word in a text, by the cosine of their vectors, in every layer.

Reif et al. (2019) and Coenen et al. (2019), *Visualizing and Measuring the Geometry of BERT*, §4.1: occurrences of a
word lie together by sense, which shows in what an occurrence has around it. :class:`SearchedText` is the text;
:class:`OccurrenceMap` one page on which occurrences lie in two dimensions, by principal components or t-SNE, each layer
turned so that it lies as the one before.
"""

from __future__ import annotations

import base64
import gzip
import json
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

from bertology._names import folder_name, name_not_found, place_of_layer
from bertology._page import framed, full_page, write_page
from bertology.activations.layers import Floats32, LayerVectors
from bertology.corpora import Sentence, Sentences
from bertology.errors import CorpusError, ModelError, quoted
from bertology.measures.sums import Floats

Integers = NDArray[np.int64]
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
_HEIGHT = 860
_HERE = "geometry/assets/"
_STYLES = "attention/assets/viewer.css", _HERE + "map.css"
# In this order, for each uses those before it.
_SCRIPTS = ("assets/drawn.js", *(f"{_HERE}{name}.js" for name in ("start", "view", "paint", "words", "controls")))
_NONE = _LEVELS = 65_535
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
        self.words: Integers = np.concatenate(
            [start + some.words for some, start in zip(self._whole, self.starts, strict=False)]
        )
        """Numbers of the words that are searched: those with a vector of their own."""
        self.n_shared = sum(map(len, shared.values()))
        self.n_skipped = int(self.starts[-1]) - self.n_shared - len(self.words)
        """Number of words without a vector."""

    def chunks(self, words: Integers | None = None) -> Iterator[Block]:
        """Words with a vector once, in chunks: their numbers ``[m]``, and their vectors ``[layer, m, dim]``.

        Of chosen ``words`` their places among these are given instead of numbers.
        """
        for whole, name, (start, end) in zip(self._whole, self.splits, pairwise(self.starts), strict=True):
            if words is None:
                for items, values in whole.chunks():
                    yield start + whole.words[items], values
                continue
            here = np.flatnonzero((words >= start) & (words < end))
            if len(here):
                for items, values in self._read[name](words[here] - start).chunks():
                    yield here[items], values

    @cached_property
    def codes(self) -> Mapping[Kind, Any]:
        """``[word]`` categoricals: word forms in lower case, tags and senses of all words, missing where there is none.

        Tags are of the first of the layers ``upos`` and ``xpos`` that there is; senses of the targets ``sense`` or that
        layer.
        """
        texts = self.splits.values()
        tags = next((name for name in _TAGS if any(name in one.layers for one in texts)), "")
        found: dict[Kind, list[Any]] = {"word": [], "tag": [], "sense": []}
        for text in texts:
            senses = np.full(text.n_words, None, dtype=object)
            of_layer = {tags: senses.copy(), _SENSE: senses.copy()} | {
                name: np.array([*text.layers[name].values, None], dtype=object)[text.layers[name].codes]
                for name in (tags, _SENSE)
                if name in text.layers
            }
            for number, targets in text.targets(_SENSE):
                for target in targets:
                    if target.labels:
                        first, last = (int(text.starts[number]) + at for at in target.span1)
                        senses[first:last] = target.labels[0]
            lowered = np.array([form.lower() for form in text.forms.values], dtype=object)
            found["word"].append(lowered[text.forms.codes])
            found["tag"].append(of_layer[tags])
            found["sense"].append(senses if any(senses) else of_layer[_SENSE])
        every = {kind: pd.factorize(np.concatenate(parts)) for kind, parts in found.items()}
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


@dataclass(frozen=True, eq=False)
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

    @property
    def word(self) -> str:
        """The word as it stands in its sentence."""
        return self.sentence.words[self.place]

    @property
    def occurrence(self) -> Occurrence:
        """The word where it stands."""
        one = self.sentence
        return Occurrence("", one.id, one.text, one.spans[self.place], self.word, self.tag, self.sense)

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
            own, theirs = self.own(kind), frame["word"].str.lower() if kind == "word" else frame[kind]
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
                own = self.own(kind)
                line[f"same_{kind}"] = None if own is None else float((self.text.codes[kind][near] == own).mean())
            for kind in KINDS[1:]:
                values = [value for word in near.tolist() if (value := self.text.value(kind, word)) is not None]
                value = max(values, key=values.count, default=None)
                line |= {kind: value, f"{kind}_share": values.count(str(value)) / self.k}
            rows.append(line)
        return pd.DataFrame(rows)

    def to_pandas(self, by: Literal["neighbour", "layer"] = "neighbour") -> pd.DataFrame:
        """The data frame :attr:`frame`, a row a neighbour, or :attr:`shares`, a row a layer."""
        return self.frame if by == "neighbour" else self.shares

    def map(
        self, *, points: int | None = None, others: bool = True, projection: Projection = "pca", seed: int = 0
    ) -> OccurrenceMap:
        """The page of the word, its neighbours, all occurrences of its form and a sample of other words.

        Occurrences of the form are laid out by themselves as well, where its senses may part: the two principal
        components of all words show what all words differ in. Vectors are of length 1: the nearer two are, the higher
        is their cosine.

        Args:
            points: how many at most; 50,000 by default, and 5,000 for t-SNE.
            others: whether words of other forms are drawn as well.
            projection: the two principal components of each layer, ``pca``, or ``tsne``.
            seed: random seed of the sample and of t-SNE.

        Raises:
            CorpusError: there are too few points for the neighbours, or too many for the projection.
            NameNotFoundError: no such projection.
        """
        if projection not in get_args(Projection):
            raise name_not_found("projection", projection, list(get_args(Projection)))
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
            def blocks() -> Iterator[Block]:
                yield np.array([0]), _unit(self.vectors[:, None])
                for items, values in self.text.chunks(words[places]):
                    yield items + 1, _unit(values)

            n = len(places) + 1
            project = principal_planes(blocks, n) if projection == "pca" else tsne_planes(blocks, n, seed=seed)
            return Layout(name, np.append(0, places + 1), *project)

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

    def __repr__(self) -> str:
        return f"<Neighbours of {self.word!r}: {self.k} in each of {len(self.layers)} layers, {self.corpus}>"


def word_place(sentence: Sentence, word: str, occurrence: int | None = None) -> int:
    """The place of a word in a sentence, from 0, whatever its case; ``occurrence`` from 1 chooses among several."""
    places = [place for place, form in enumerate(sentence.words) if form.lower() == word.strip().lower()]
    if not places:
        near = f"its words are {quoted(' '.join(sentence.words))}"
        raise CorpusError(f"word {quoted(word)} is not in the text; {near}")
    if occurrence is None and len(places) > 1:
        raise CorpusError(
            f"word {quoted(word)} stands {len(places)} times in the text: choose one with --occurrence 1 to "
            f"{len(places)} (occurrence=… in Python)"
        )
    if occurrence is not None and not 1 <= occurrence <= len(places):
        times = f"{len(places)} time{'s' * (len(places) > 1)}"
        raise CorpusError(f"occurrence {occurrence} of {quoted(word)}: it stands {times} in the text, from 1")
    return places[(occurrence or 1) - 1]


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
) -> Neighbours:
    """The nearest occurrences in a text of the word at a place of a sentence, which need not be in the text.

    Where the sentence is one of the text, the word is not its own neighbour, and its tag and sense are known from
    there. ``vectors`` are ``[layer, dim]`` of the word; ``tag`` and ``sense`` its own, where the sentence has none.

    Raises:
        CorpusError: there are fewer than ``k`` other words, or the text has no such tag or sense.
        ModelError: a vector has no direction.
    """
    if k < 1:
        raise CorpusError(f"k is {k}: give a number of neighbours of at least 1")
    itself, name = tuple(text.places_of(sentence, place)), corpus or "the text"
    n_words = len(text.words) - int(np.isin(itself, text.words).sum())
    if n_words < k:
        raise CorpusError(f"k is {k}, but {name} has {n_words} other words with vectors; give a lower k")
    here = {"tag": next((sentence.layers[one][place] for one in _TAGS if one in sentence.layers), None)}
    of_sense = [one for one in sentence.targets.get(_SENSE, ()) if one.span1[0] <= place < one.span1[1]]
    if of_sense:
        here["sense"] = of_sense[0].labels[0] if of_sense[0].labels else None
    else:
        here["sense"] = sentence.layers[_SENSE][place] if _SENSE in sentence.layers else None

    def own(kind: Literal["tag", "sense"], stated: str | None) -> str | None:
        known = list(text.codes[kind].categories)
        if stated is not None and stated not in known:
            names = f"; there is {', '.join(sorted(known)[:8])}" if known else ", nor any other"
            raise CorpusError(f"no word of {name} has the {kind} {quoted(stated)}{names}")
        return (stated or here[kind] or next((text.value(kind, one) for one in itself), None)) if known else None

    numbers, cosines = nearest_occurrences(text.chunks(), vectors, k=k, left_out=itself)
    facts = own("tag", tag), own("sense", sense), model, corpus, layers
    return Neighbours(sentence, place, *facts, numbers, cosines, text, vectors, itself, n_layers)


# The map.


@dataclass(frozen=True, eq=False)
class Layout:
    """Some of the points, and where they lie in every layer."""

    name: str  # "all", or "form" for the occurrences of the query's form
    points: Integers  # [place] numbers of points
    places: Floats32
    """``[layer, place, 2]``, centred; the root mean square of the distances from the centre is 1 in every layer."""
    shares: Floats | None  # [layer] share of the variance that the two dimensions hold; None where these are not linear


@dataclass(frozen=True, eq=False)
class OccurrenceMap:
    """A page on which words of a text lie in two dimensions, by layer; shows itself in a notebook."""

    query: Neighbours
    words: Integers
    """``[point]`` numbers of the words in the searched text; −1 for the first, the query, which need not be there."""
    layouts: tuple[Layout, ...]
    """The layout of all points; and, where there are five of them, that of the occurrences of the query's form."""
    projection: str
    n_of_form: int  # number of words of the query's form in the text

    @cached_property
    def html(self) -> str:
        """The page as text; it makes no request, and its content security policy allows none."""
        values, packed = self._payload()
        query = self.query.occurrence
        before, after = query.context(_WIDTH)
        parts = []
        for name, content in packed.items():
            text = base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
            parts.append(f'<script type="text/plain" id="packed-{name}">{text}</script>')
        return full_page(
            _HERE + "map.html",
            title=f"Neighbours of {query.word}: {query.text[:60]}{'…' if len(query.text) > 60 else ''}",
            styles=_STYLES,
            scripts=_SCRIPTS,
            values={
                "sentence": f"{escape(before)}<mark>{escape(query.word)}</mark>{escape(after)}",
                "model": escape(folder_name(self.query.model or "the model")),
                "corpus": escape(self.query.corpus or "the text"),
                "packed": "\n".join(parts),
            },
            data=values,
        )

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file that needs no other file and no network.

        Raises:
            StoreError: the file cannot be written.
        """
        return write_page(path, self.html)

    def _repr_html_(self) -> str:
        return framed(self.html, title="Map of occurrences", height=_HEIGHT)

    def __repr__(self) -> str:
        return f"<OccurrenceMap of {self.query.word!r}: {len(self.words)} points>"

    def _payload(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data of the page: values, and ``points`` and ``texts``, which the page has packed by gzip, in base64.

        ``points`` is, without gaps and little-endian: of each layout ``[place]`` 32-bit numbers of points and their
        ``[layer, axis, place]`` coordinates in 16 bits, from −``limit`` at 0 to ``limit`` at 65,535; then ``[point]``
        32-bit numbers of texts; then 16-bit begins and ends of words in their texts, in UTF-16 units; then 16-bit
        values of each kind, 65,535 for none.
        """
        query, words, layouts = self.query, self.words[1:], list[dict[str, Any]]()
        points, kinds, of_kinds = b"", dict[str, list[str]](), b""
        for one in self.layouts:
            limit, shares = max(float(np.abs(one.places).max()), 1e-6), one.shares
            shown = None if shares is None else shares.round(6).tolist()
            layouts.append({"name": one.name, "n": len(one.points), "limit": limit, "shares": shown})
            levels = np.round((one.places.astype(np.float64) / limit + 1) / 2 * _LEVELS).astype("<u2")
            points += one.points.astype("<u4").tobytes() + np.ascontiguousarray(levels.transpose(0, 2, 1)).tobytes()
        for kind, some in query.text.codes.items():
            if len(some.categories):
                kinds[kind], codes = _coded(some, query.own(kind), words)
                of_kinds += codes.astype("<u2").tobytes()
        place, numbers, spans = dict[tuple[str, str], int](), [], []
        for word in self.words.tolist():
            found = query.occurrence if word < 0 else query.text.occurrence(word)
            text, (start, end) = found.text, found.span
            if len(text) > 2 * _WIDTH:
                before, after = found.context(_WIDTH)
                text = f"{before}{text[start:end]}{after}"
                start, end = len(before), len(before) + end - start
            where = f"{found.split} · {found.sentence}" if found.split else ""
            numbers.append(place.setdefault((text, where), len(place)))
            spans.append([len(text[:at].encode("utf-16-le")) // 2 for at in (start, end)])
        points += np.array(numbers, "<u4").tobytes() + np.array(spans, "<u2").T.tobytes() + of_kinds
        rows = zip(query.layers, np.searchsorted(words, query.numbers) + 1, query.cosines.round(4), strict=True)
        values = {
            "word": query.word,
            "nPoints": len(self.words),
            "nTexts": len(place),
            "layouts": layouts,
            "layers": [{"layer": layer, "near": near.tolist(), "cosines": some.tolist()} for layer, near, some in rows],
            "kinds": kinds,
            "projection": self.projection,
            "nWords": len(query.text.words),
            "nOfForm": self.n_of_form,
        }
        texts = json.dumps([list(one) for one in place], ensure_ascii=False, separators=(",", ":")).encode()
        return values, {"points": points, "texts": texts}


def _coded(some: Any, own: str | None, words: Integers) -> tuple[list[str], Integers]:
    """The values that points have, the most frequent first, and ``[point]`` their numbers; the query comes first."""
    codes = some.codes[words]
    counts = np.bincount(codes[codes >= 0], minlength=len(some.categories))
    ranked = np.flatnonzero(counts)[np.argsort(-counts[counts > 0], kind="stable")]
    names, number = [str(some.categories[code]) for code in ranked], np.full(len(counts) + 1, _NONE)
    number[ranked] = np.arange(len(ranked))
    if own is not None and own not in names:
        names.append(own)
    return names, np.append(_NONE if own is None else names.index(own), number[codes])


def _unit(vectors: Floats32) -> Floats32:
    lengths = np.linalg.norm(vectors, axis=2, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def principal_planes(blocks: Callable[[], Iterable[Block]], n_points: int) -> tuple[Floats32, Floats]:
    """The two principal components of each layer, from covariances summed over blocks, and ``[layer]`` their variance.

    Blocks are read twice, and none is kept. The coefficient of largest absolute value of each component is positive,
    and the plane of each layer is turned (or mirrored) onto the one before by orthogonal Procrustes, so that points
    move as little as they can from layer to layer.
    """
    from scipy.linalg import eigh

    shift: Floats32 | None = None
    sums: Floats | float = 0.0
    products: Floats | float = 0.0
    for _, vectors in blocks():
        if not np.isfinite(vectors).all():
            raise ModelError("vectors of words are not finite; give a model that computes them")
        # Products of single precision are exact enough near the mean, which the first block is.
        shift = vectors.mean(axis=1, keepdims=True) if shift is None else shift
        near = vectors - shift
        sums = sums + near.sum(axis=1, dtype=np.float64)
        products = products + np.matmul(near.swapaxes(1, 2), near).astype(np.float64)
    assert shift is not None
    off = np.asarray(sums) / n_points
    mean = shift + off[:, None, :]
    directions, shares = [], []
    for of_layer in np.asarray(products) / n_points - off[:, :, None] * off[:, None, :]:
        values, components = eigh(of_layer, subset_by_index=[len(of_layer) - 2, len(of_layer) - 1])
        first_two = components[:, ::-1]
        largest = np.abs(first_two).argmax(axis=0)
        directions.append(first_two * np.sign(first_two[largest, [0, 1]]))
        total = float(np.trace(of_layer))
        shares.append(float(np.clip(values, 0, None).sum()) / total if total > 0 else 1.0)
    axes = np.stack(directions)
    places = np.empty((len(axes), n_points, 2))
    for items, vectors in blocks():
        places[:, items] = (vectors - mean) @ axes
    return _aligned(places), np.array(shares)


def tsne_planes(blocks: Callable[[], Iterable[Block]], n_points: int, *, seed: int = 0) -> tuple[Floats32, None]:
    """t-SNE of each layer (van der Maaten and Hinton 2008) by scikit-learn, which starts at the places of the layer
    before.
    """
    from sklearn.manifold import TSNE

    start = principal_planes(blocks, n_points)[0][0]
    found: list[Floats] = []
    for layer in range(next(len(vectors) for _, vectors in blocks())):
        # One layer at a time, for all its points are in memory.
        parts = [(items, vectors[layer]) for items, vectors in blocks()]
        whole = np.empty((n_points, parts[0][1].shape[1]), dtype=np.float32)
        for items, vectors in parts:
            whole[items] = vectors
        # As wide as scikit-learn's own start by principal components.
        near = (start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
        tsne = TSNE(perplexity=min(_PERPLEXITY, (n_points - 1) / 3), init=near, random_state=seed)
        places = np.asarray(tsne.fit_transform(whole), dtype=np.float64)
        found.append(places - places.mean(axis=0))
        start = found[-1].astype(np.float32)
    return _aligned(np.stack(found)), None


def _aligned(places: Floats) -> Floats32:
    """Places ``[layer, point, 2]`` of one size, each layer turned onto the one before."""
    sizes = np.sqrt((places**2).sum(axis=2).mean(axis=1))
    places = places / np.where(sizes > 0, sizes, 1.0)[:, None, None]
    for before, now in pairwise(places):
        left, _, right = np.linalg.svd(now.T @ before)
        now[:] = now @ (left @ right)
    return np.asarray(places, dtype=np.float32)
