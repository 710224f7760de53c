"""The nearest occurrences of one occurrence of a word in a text, by the cosine of their vectors, in every layer.

Reif et al. (2019) and Coenen et al. (2019), *Visualizing and Measuring the Geometry of BERT*, §4.1: occurrences of a
word lie together by sense, which shows in what an occurrence has around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertology._names import place_of_layer
from bertology.activations.layers import Floats32
from bertology.corpora import Sentence
from bertology.errors import CorpusError, ModelError, quoted
from bertology.geometry._map import OccurrenceMap, Projection, occurrence_map
from bertology.geometry._occurrences import KINDS, Integers, Kind, Occurrence, SearchedText, sense_of, tag_of
from bertology.measures.sums import Floats

if TYPE_CHECKING:
    import pandas as pd

_DIGITS = 6
"""Decimals of cosines; equal ones, as of a word's vectors before any context, are in order of the text."""


def nearest_occurrences(
    chunks: Iterable[tuple[Integers, Floats32]], query: Floats32, *, k: int, left_out: Collection[int] = ()
) -> tuple[Integers, Floats]:
    """The ``k`` vectors of the highest cosine with a query, in every layer, by exact search in blocks.

    No more than a block of vectors is in memory, so that memory does not grow with their number.

    Args:
        chunks: blocks of vectors ``[layer, m, dim]`` with their numbers ``[m]``.
        query: ``[layer, dim]``.
        k: how many.
        left_out: numbers of vectors that are not looked at, such as the query itself.

    Returns:
        ``[layer, k]`` numbers and cosines, the highest first, of equal ones (to six decimals) the lowest number first;
        a vector of zeros has the cosine 0. There are fewer than ``k`` where there are fewer vectors.

    Raises:
        ModelError: a vector is not finite, or the query is zero in a layer.
    """
    lengths = np.linalg.norm(query, axis=1)
    if not (np.isfinite(query).all() and (lengths > 0).all()):
        raise ModelError("the vector of the word is zero or not finite in a layer: it has no direction to compare")
    unit = (query / lengths[:, None]).astype(np.float32)
    best = [(np.empty(0, dtype=np.int64), np.empty(0)) for _ in query]
    for items, vectors in chunks:
        kept = ~np.isin(items, list(left_out)) if left_out else np.ones(len(items), dtype=np.bool_)
        for layer, found in enumerate(_cosines(vectors, unit)):
            numbers, cosines = best[layer]
            # Of a block after the first few are among the highest.
            near = np.flatnonzero(kept & (found >= (cosines[-1] if len(cosines) == k else -np.inf)))
            if len(near):
                numbers, cosines = np.append(numbers, items[near]), np.append(cosines, found[near])
                order = np.lexsort((numbers, -cosines))[:k]
                best[layer] = numbers[order], cosines[order]
    return np.stack([numbers for numbers, _ in best]), np.stack([cosines for _, cosines in best])


def _cosines(vectors: Floats32, unit: Floats32) -> Floats:
    """``[layer, m]`` cosines of vectors ``[layer, m, dim]`` with a unit vector ``[layer, dim]``."""
    # By einsum, whose sums do not depend on the size of a block; a product by BLAS is no faster.
    products = np.einsum("lmd,ld->lm", vectors, unit).astype(np.float64)
    lengths = np.sqrt(np.einsum("lmd,lmd->lm", vectors, vectors).astype(np.float64))
    if not np.isfinite(lengths).all():
        raise ModelError("vectors of words of the corpus are not finite; give a model that computes them")
    return np.asarray(np.round(products / np.where(lengths > 0, lengths, 1.0), _DIGITS))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest occurrences of an occurrence of a word, by layer; shows as a table in a notebook."""

    sentence: Sentence
    place: int
    """Place of the word in its sentence, from 0."""
    tag: str | None
    """The word's own tag, where it is known; its neighbours are compared with it."""
    sense: str | None
    """The word's own sense, where it is known."""
    model: str
    corpus: str
    layers: tuple[int, ...]
    numbers: Integers
    """``[layer, k]`` the nearest words of :attr:`text`, the nearest first."""
    cosines: Floats
    """``[layer, k]``."""
    text: SearchedText
    """The text that was searched."""
    vectors: Floats32
    """``[layer, dim]`` of the word."""
    itself: tuple[int, ...] = ()
    """Numbers of the words of :attr:`text` that are the word itself, which is no neighbour of its own."""
    n_layers: int | None = None
    """Number of blocks of the model, from whose last negative layers are counted; the last layer that was read when
    left out."""

    @property
    def word(self) -> str:
        """The word as it stands in its sentence."""
        return self.sentence.words[self.place]

    @property
    def k(self) -> int:
        """How many neighbours a layer has."""
        return int(self.numbers.shape[1])

    @property
    def annotated(self) -> tuple[Kind, ...]:
        """Those of tag and sense that the searched text has."""
        return tuple(kind for kind in KINDS[1:] if self.text.codes[kind].values)

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
        import pandas as pd

        rows = []
        for layer in self.layers:
            for rank, (one, cosine) in enumerate(self.at(layer), 1):
                same = {
                    f"same_{kind}": None if own is None else theirs == own
                    for kind, theirs in zip(KINDS, (one.word.lower(), one.tag, one.sense), strict=True)
                    for own in [self.own(kind)]
                }
                rows.append(
                    {"layer": layer, "rank": rank, "cosine": cosine, "word": one.word, "tag": one.tag}
                    | {"sense": one.sense, **same, "split": one.split, "sentence": one.sentence}
                    | {"start": one.span[0], "end": one.span[1], "text": one.text}
                )
        return pd.DataFrame(rows)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """One row a layer: the share of the neighbours with the same word form, tag and sense.

        ``same_tag`` and ``same_sense`` are missing where the word's own are not known; ``tag``, ``tag_share``,
        ``sense`` and ``sense_share`` are the most frequent ones among the neighbours and their shares.
        """
        import pandas as pd

        rows = []
        for row, layer in enumerate(self.layers):
            line: dict[str, int | float | str | None] = {"layer": layer}
            for kind in KINDS:
                own = self.own(kind)
                same = self.text.codes[kind].same(own)[self.numbers[row]]
                line[f"same_{kind}"] = None if own is None else float(same.mean())
            for kind in KINDS[1:]:
                values = [self.text.codes[kind].of(word) for word in self.numbers[row].tolist()]
                most = Counter(one for one in values if one is not None).most_common(1)
                value, times = most[0] if most else (None, 0)
                line |= {kind: value, f"{kind}_share": times / self.k}
            rows.append(line)
        return pd.DataFrame(rows)

    def to_pandas(self, by: Literal["neighbour", "layer"] = "neighbour") -> pd.DataFrame:
        """The data frame :attr:`frame`, a row a neighbour, or :attr:`shares`, a row a layer."""
        return self.frame if by == "neighbour" else self.shares

    def map(
        self, *, points: int | None = None, others: bool = True, projection: Projection = "pca", seed: int = 0
    ) -> OccurrenceMap:
        """The page of the word and its neighbours among all occurrences of its form and a sample of other words.

        Args:
            points: how many at most; 50,000 by default, and 5,000 for t-SNE.
            others: whether words of other forms are drawn as well.
            projection: the two principal components of each layer, ``pca``, or ``tsne``.
            seed: random seed of the sample and of t-SNE.

        Raises:
            CorpusError: there are too few points for the neighbours, or too many for the projection.
        """
        sentence, span = self.sentence, self.sentence.spans[self.place]
        return occurrence_map(
            Occurrence("", sentence.id, sentence.text, span, self.word, self.tag, self.sense),
            self.vectors, self.text, layers=self.layers, near=self.numbers, cosines=self.cosines, itself=self.itself,
            points=points, others=others, projection=projection, seed=seed,
            names={"model": self.model, "corpus": self.corpus},
        )  # fmt: skip

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
    """The place of a word in a sentence, from 0, whatever case it is written in.

    Args:
        sentence: where it stands.
        word: its form.
        occurrence: which one, from 1, where it stands there several times.

    Raises:
        CorpusError: the word is not there, or more than once and it is not said which, or not so often.
    """
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
    """The nearest occurrences in a text of the word at a place of a sentence.

    Where the sentence is one of the text, the word is not its own neighbour, and its tag and sense are known from
    there.

    Args:
        sentence: where the word stands; it need not be in the text.
        place: place of the word in it.
        vectors: ``[layer, dim]`` of the word.
        text: what is searched.
        layers: their numbers.
        k: how many neighbours.
        tag: the word's own, where the sentence has none.
        sense: its sense, where the sentence has none.
        model: name of the model.
        corpus: name of the text.
        n_layers: number of blocks of the model, from whose last negative layers are counted in the result.

    Raises:
        CorpusError: there are fewer than ``k`` other words, or the text has no such tag or sense.
        ModelError: a vector has no direction.
    """
    if k < 1:
        raise CorpusError(f"k is {k}: give a number of neighbours of at least 1")
    itself = tuple(text.places_of(sentence, place))
    n_words = len(text.words) - int(np.isin(itself, text.words).sum())
    if n_words < k:
        raise CorpusError(
            f"k is {k}, but {corpus or 'the text'} has {n_words} other words with vectors; give a lower k"
        )

    def own(kind: Kind, stated: str | None, here: str | None) -> str | None:
        codes = text.codes[kind]
        value = stated or here or next((codes.of(word) for word in itself), None)
        if stated is not None and stated not in codes.values:
            names = f"; there is {', '.join(sorted(codes.values)[:8])}" if codes.values else ", nor any other"
            raise CorpusError(f"no word of {corpus or 'the text'} has the {kind} {quoted(stated)}{names}")
        return value if codes.values else None

    numbers, cosines = nearest_occurrences(text.chunks(), vectors, k=k, left_out=itself)
    return Neighbours(
        sentence=sentence,
        place=place,
        tag=own("tag", tag, tag_of(sentence, place)),
        sense=own("sense", sense, sense_of(sentence, place)),
        model=model,
        corpus=corpus,
        layers=layers,
        numbers=numbers,
        cosines=cosines,
        text=text,
        vectors=vectors,
        itself=itself,
        n_layers=n_layers,
    )
