"""The map: one page on which the occurrences of words lie in two dimensions, layer by layer, and can be searched.

:func:`occurrence_map` chooses the words and lays them out, by principal components or t-SNE, each layer turned so that
it lies as the one before; :class:`OccurrenceMap` packs places and sentences into one HTML document.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertology._names import folder_name, name_not_found
from bertology._page import framed, full_page, write_page
from bertology.activations.layers import Floats32
from bertology.errors import CorpusError, ModelError
from bertology.geometry._occurrences import KINDS, Codes, Integers, Occurrence, SearchedText
from bertology.measures.sums import Floats

Projection = Literal["pca", "tsne"]
Block = tuple[Integers, Floats32]
"""Numbers ``[m]`` of points and their vectors ``[layer, m, dim]``."""
_MOST: Mapping[Projection, int] = {"pca": 50_000, "tsne": 5000}
"""Points at most: the time of t-SNE grows faster than their number, to half a minute a layer and more for so many."""
_PERPLEXITY = 30.0
_LEAST_OF_FORM = 5
"""Occurrences of a form that have a layout of their own."""
_HEIGHT = 860
_HERE = "geometry/assets/"
_STYLES = "attention/assets/viewer.css", _HERE + "map.css"
# In this order, for each uses those before it.
_SCRIPTS = ("assets/drawn.js", *(f"{_HERE}{name}.js" for name in ("start", "view", "paint", "words", "controls")))
_NONE = 65_535
_LEVELS = 65_535
_WIDTH = 300
"""Characters of a long sentence that are kept on each side of the word."""


@dataclass(frozen=True, eq=False)
class Planes:
    """Points of every layer in two dimensions."""

    places: Floats32
    """``[layer, point, 2]``, centred; the root mean square of the distances from the centre is 1 in every layer."""
    shares: Floats | None
    """``[layer]`` share of the variance that the two dimensions hold; None where these are not linear."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Some of the points and where they lie."""

    name: str
    """``all``, or ``form`` for the occurrences of the query's form."""
    points: Integers
    """``[place]`` numbers of points."""
    planes: Planes
    """Their places."""

    @property
    def limit(self) -> float:
        """The largest absolute coordinate."""
        return max(float(np.abs(self.planes.places).max()), 1e-6)

    def packed(self) -> bytes:
        """``[place]`` 32-bit numbers of points, then their ``[layer, axis, place]`` coordinates in 16 bits."""
        levels = np.round((self.planes.places.astype(np.float64) / self.limit + 1) / 2 * _LEVELS).astype("<u2")
        return self.points.astype("<u4").tobytes() + np.ascontiguousarray(levels.transpose(0, 2, 1)).tobytes()

    def about(self) -> dict[str, Any]:
        """Name, size and scale of the layout, as the page's script reads them."""
        shown = None if self.planes.shares is None else self.planes.shares.round(6).tolist()
        return {"name": self.name, "n": len(self.points), "limit": self.limit, "shares": shown}


@dataclass(frozen=True, eq=False)
class OccurrenceMap:
    """A page on which words of a text lie in two dimensions, by layer; shows itself in a notebook."""

    query: Occurrence
    words: Integers
    """``[point]`` numbers of the words in the searched text; −1 for the first, the query, which need not be there."""
    text: SearchedText
    layers: tuple[int, ...]
    layouts: tuple[Layout, ...]
    """The layout of all points; and, where there are five of them, that of the occurrences of the query's form."""
    near: Integers
    """``[layer, k]`` the nearest words."""
    cosines: Floats
    projection: str
    n_of_form: int
    """Number of words of the query's form in the text."""
    names: Mapping[str, str]
    """Names of the ``model`` and the ``corpus``."""

    @property
    def planes(self) -> tuple[Planes, ...]:
        """Where the points of each layout lie."""
        return tuple(layout.planes for layout in self.layouts)

    @cached_property
    def html(self) -> str:
        """The page as text; it makes no request, and its content security policy allows none."""
        values, packed = self.payload()
        query = self.query
        before, after = query.context(_WIDTH)
        parts = (f'<script type="text/plain" id="packed-{name}">{text}</script>' for name, text in packed.items())
        return full_page(
            _HERE + "map.html",
            title=f"Neighbours of {query.word}: {query.text[:60]}{'…' if len(query.text) > 60 else ''}",
            styles=_STYLES,
            scripts=_SCRIPTS,
            values={
                "sentence": f"{escape(before)}<mark>{escape(query.word)}</mark>{escape(after)}",
                "model": escape(folder_name(self.names.get("model", "the model"))),
                "corpus": escape(self.names.get("corpus", "the text")),
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

    def payload(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The data of the page: values, and ``points`` and ``texts`` packed by gzip, in base64.

        ``points`` is, without gaps and little-endian: each :meth:`Layout.packed`, coordinates from −``limit`` at 0 to
        ``limit`` at 65,535; then ``[point]`` 32-bit numbers of texts; then 16-bit begins and ends of words in their
        texts, in UTF-16 units as JavaScript counts; then 16-bit values of each kind, 65,535 for none.
        """
        query, words = self.query, self.words[1:]
        own = {"word": query.word.lower(), "tag": query.tag, "sense": query.sense}
        codes = {kind: self.text.codes[kind] for kind in KINDS}
        kinds = {kind: _coded(some, own[kind], words) for kind, some in codes.items() if some.values}
        texts, numbers, spans = self._sentences()
        points = b"".join(
            [
                *(layout.packed() for layout in self.layouts),
                numbers.astype("<u4").tobytes(),
                np.ascontiguousarray(spans.T).astype("<u2").tobytes(),
                *(codes.astype("<u2").tobytes() for _, codes in kinds.values()),
            ]
        )
        rows = zip(self.layers, np.searchsorted(words, self.near) + 1, self.cosines.round(4), strict=True)
        values = {
            "word": query.word,
            "nPoints": len(self.words),
            "nTexts": len(texts),
            "layouts": [layout.about() for layout in self.layouts],
            "layers": [{"layer": layer, "near": near.tolist(), "cosines": some.tolist()} for layer, near, some in rows],
            "kinds": {name: names for name, (names, _) in kinds.items()},
            "projection": self.projection,
            "nWords": len(self.text.words),
            "nOfForm": self.n_of_form,
        }
        packed_texts = json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()
        return values, {"points": _packed(points), "texts": _packed(packed_texts)}

    def _sentences(self) -> tuple[list[list[str]], Integers, Integers]:
        """Texts with where they are from, ``[point]`` the text of each point, and ``[point, 2]`` its place there."""
        place: dict[tuple[str, str], int] = {}
        numbers, spans = [], []
        for word in self.words.tolist():
            one = self.query if word < 0 else self.text.occurrence(word)
            text, (start, end) = one.text, one.span
            if len(text) > 2 * _WIDTH:
                before, after = one.context(_WIDTH)
                text = f"{before}{text[start:end]}{after}"
                start, end = len(before), len(before) + end - start
            where = f"{one.split} · {one.sentence}" if one.split else ""
            numbers.append(place.setdefault((text, where), len(place)))
            spans.append((_units(text[:start]), _units(text[:end])))
        return [list(one) for one in place], np.array(numbers), np.array(spans)


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _coded(codes: Codes, own: str | None, words: Integers) -> tuple[list[str], NDArray[np.int64]]:
    """The values that points have, the most frequent first, and ``[point]`` their numbers; the query comes first."""
    used, inverse, counts = np.unique(codes.codes[words], return_inverse=True, return_counts=True)
    names = [None if code < 0 else codes.values[code] for code in used.tolist()]
    if own is not None and own not in names:
        names.append(own)
        counts = np.append(counts, 0)
    ranked = [int(place) for place in np.argsort(-counts, kind="stable") if names[place] is not None]
    number = np.full(len(names), _NONE)
    number[ranked] = np.arange(len(ranked))
    first = _NONE if own is None else number[names.index(own)]
    return [str(names[place]) for place in ranked], np.concatenate([[first], number[inverse]])


def _units(text: str) -> int:
    """Length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)


def occurrence_map(
    query: Occurrence,
    vectors: Floats32,
    text: SearchedText,
    *,
    layers: Sequence[int],
    near: Integers,
    cosines: Floats,
    itself: Sequence[int] = (),
    points: int | None = None,
    others: bool = True,
    projection: Projection = "pca",
    seed: int = 0,
    names: Mapping[str, str] | None = None,
) -> OccurrenceMap:
    """Lay out a word, its nearest occurrences, all occurrences of its form and a sample of other words.

    Occurrences of the form are laid out by themselves as well, where its senses may part: the two principal components
    of all words show what all words differ in.

    Vectors are brought to length 1 first, so that the nearer two are, the higher is their cosine.

    Args:
        query: the word.
        vectors: ``[layer, dim]`` its vectors.
        text: what was searched.
        layers: numbers of the layers.
        near: ``[layer, k]`` its nearest words in the text.
        cosines: ``[layer, k]`` their cosines.
        itself: words of the text that are the word itself.
        points: how many at most; 50,000 by default, and 5,000 for t-SNE.
        others: whether words of other forms are drawn as well, a random sample of them.
        projection: ``pca``, or ``tsne`` for few points.
        seed: random seed of the sample and of t-SNE.
        names: names of the ``model`` and the ``corpus``.

    Raises:
        CorpusError: no such number of points.
        BertologyError: no such projection.
    """
    if projection not in get_args(Projection):
        raise name_not_found("projection", projection, list(get_args(Projection)))
    most = _MOST[projection]
    n_near = len(np.unique(near))
    least = max(3, n_near + 1)
    points = most if points is None else points
    if not least <= points <= most:
        why = f"the word and its {n_near:,} neighbours" if points < least else f"what {projection} takes"
        raise CorpusError(f"{points:,} points: give from {least:,} to {most:,}, {why}")
    words, n_of_form = _chosen(query, text, near, itself, most=points - 1, others=others, seed=seed)

    def planes(drawn: Integers) -> Planes:
        def blocks() -> Iterator[Block]:
            yield np.array([0]), _unit(vectors[:, None])
            for items, values in text.chunks(drawn):
                yield items + 1, _unit(values)

        n_points = len(drawn) + 1
        return principal_planes(blocks, n_points) if projection == "pca" else tsne_planes(blocks, n_points, seed=seed)

    layouts = [Layout("all", np.arange(len(words) + 1), planes(words))]
    same = np.flatnonzero(text.codes["word"].same(query.word.lower())[words])
    if _LEAST_OF_FORM <= len(same) + 1 <= len(words):
        layouts.append(Layout("form", np.concatenate([[0], same + 1]), planes(words[same])))
    return OccurrenceMap(
        query=query, words=np.concatenate([[-1], words]), text=text, layers=tuple(layers), layouts=tuple(layouts),
        near=near, cosines=cosines, projection=projection, n_of_form=n_of_form, names=dict(names or {}),
    )  # fmt: skip


def _chosen(
    query: Occurrence, text: SearchedText, near: Integers, itself: Sequence[int], *, most: int, others: bool, seed: int
) -> tuple[Integers, int]:
    """Words to draw, in order of the text, and how many of the word's form there are: neighbours first, then the form.

    A random sample is drawn where there are too many.
    """
    dice = np.random.default_rng(seed)
    everything = np.setdiff1d(text.words, itself)
    chosen = np.unique(near)
    of_form = everything[text.codes["word"].same(query.word.lower())[everything]]
    for more in (of_form, everything if others else everything[:0]):
        new = np.setdiff1d(more, chosen)
        room = most - len(chosen)
        chosen = np.union1d(chosen, new if len(new) <= room else dice.choice(new, room, replace=False))
    return chosen, len(of_form)


def _unit(vectors: Floats32) -> Floats32:
    lengths = np.linalg.norm(vectors, axis=2, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def principal_planes(blocks: Callable[[], Iterable[Block]], n_points: int) -> Planes:
    """The two principal components of each layer, from covariances summed over blocks.

    Blocks are read twice, once for the covariances and once for the places, and none is kept, so that memory grows with
    two numbers a point and layer, not with the vectors. The coefficient of largest absolute value of each component is
    positive, and the plane of each layer is turned (or mirrored) onto the one before by orthogonal Procrustes, so that
    points move as little as they can from layer to layer.

    Args:
        blocks: gives the blocks of vectors, every point in exactly one of them, the same ones at each call.
        n_points: number of points.

    Raises:
        ModelError: a vector is not finite.
    """
    from scipy.linalg import eigh

    mean, covariance = _moments(blocks, n_points)
    directions, shares = [], []
    for of_layer in covariance:
        dim = len(of_layer)
        values, vectors = eigh(of_layer, subset_by_index=[dim - 2, dim - 1])
        first_two = vectors[:, ::-1]
        largest = np.abs(first_two).argmax(axis=0)
        directions.append(first_two * np.sign(first_two[largest, [0, 1]]))
        total = float(np.trace(of_layer))
        shares.append(float(np.clip(values, 0, None).sum()) / total if total > 0 else 1.0)
    axes = np.stack(directions)
    places = np.empty((len(axes), n_points, 2))
    for items, vectors in blocks():
        places[:, items] = (vectors - mean) @ axes
    return Planes(_aligned(places), np.array(shares))


def _moments(blocks: Callable[[], Iterable[Block]], n_points: int) -> tuple[Floats, Floats]:
    """``[layer, 1, dim]`` means and ``[layer, dim, dim]`` covariances."""
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
    covariance = np.asarray(products) / n_points - off[:, :, None] * off[:, None, :]
    return shift + off[:, None, :], covariance


def tsne_planes(blocks: Callable[[], Iterable[Block]], n_points: int, *, seed: int = 0) -> Planes:
    """t-SNE of each layer (van der Maaten and Hinton 2008) by scikit-learn, which starts at the layer before.

    The first layer starts at its principal components, each further one at the places of the layer before it.

    Args:
        blocks: as for :func:`principal_planes`.
        n_points: number of points.
        seed: random seed.

    Raises:
        ModelError: a vector is not finite.
    """
    from sklearn.manifold import TSNE

    start = principal_planes(blocks, n_points).places[0]
    found: list[Floats] = []
    for layer in range(next(len(vectors) for _, vectors in blocks())):
        # One layer at a time, for all its points are in memory.
        parts = [(items, vectors[layer]) for items, vectors in blocks()]
        whole = np.empty((n_points, parts[0][1].shape[1]), dtype=np.float32)
        for items, vectors in parts:
            whole[items] = vectors
        perplexity = min(_PERPLEXITY, (n_points - 1) / 3)
        # As wide as scikit-learn's own start by principal components.
        near = (start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
        tsne = TSNE(perplexity=perplexity, init=near, random_state=seed)
        places = np.asarray(tsne.fit_transform(whole), dtype=np.float64)
        found.append(places - places.mean(axis=0))
        start = found[-1].astype(np.float32)
    return Planes(_aligned(np.stack(found)), None)


def _aligned(places: Floats) -> Floats32:
    """Places ``[layer, point, 2]`` of one size, each layer turned onto the one before."""
    sizes = np.sqrt((places**2).sum(axis=2).mean(axis=1))
    places = places / np.where(sizes > 0, sizes, 1.0)[:, None, None]
    for before, now in pairwise(places):
        left, _, right = np.linalg.svd(now.T @ before)
        now[:] = now @ (left @ right)
    return np.asarray(places, dtype=np.float32)
