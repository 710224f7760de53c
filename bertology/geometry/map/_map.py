"""The words of a map: which of a text are drawn, and where they lie in each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found
from bertology._page import framed, write_page
from bertology.errors import CorpusError
from bertology.geometry._occurrences import Integers, Occurrence, SearchedText
from bertology.geometry._vectors import Floats32
from bertology.geometry.map._page import Layout, MapContent, render_page
from bertology.geometry.map._projection import MOST_TSNE, Block, Planes, principal_planes, tsne_planes

Projection = Literal["pca", "tsne"]
MOST_POINTS = 50_000
_LEAST_OF_FORM = 5
"""Occurrences of a form that have a layout of their own."""
_HEIGHT = 860


@dataclass(frozen=True, eq=False)
class OccurrenceMap:
    """A page on which words of a text lie in two dimensions, by layer; shows itself in a notebook."""

    content: MapContent

    @property
    def planes(self) -> tuple[Planes, ...]:
        """Where all points lie; and, where there are five of them, the occurrences of the word's form by themselves."""
        return tuple(layout.planes for layout in self.content.layouts)

    @property
    def words(self) -> Integers:
        """``[point]`` numbers of the words in the searched text; −1 for the first one, which need not be there."""
        return self.content.words

    @cached_property
    def html(self) -> str:
        """The page as text."""
        return render_page(self.content)

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file that needs no other file and no network.

        Raises:
            StoreError: the file cannot be written.
        """
        return write_page(path, self.html)

    def _repr_html_(self) -> str:
        return framed(self.html, title="Map of occurrences", height=_HEIGHT)

    def __repr__(self) -> str:
        return f"<OccurrenceMap of {self.content.query.word!r}: {len(self.words)} points>"


def occurrence_map(
    query: Occurrence,
    vectors: Floats32,
    text: SearchedText,
    *,
    layers: Sequence[int],
    near: Integers,
    cosines: NDArray[np.float64],
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
        vectors: ``[layer, dim]`` of it.
        text: what was searched.
        layers: numbers of the layers.
        near: ``[layer, k]`` its nearest words in the text.
        cosines: ``[layer, k]`` of these.
        itself: words of the text that are the word itself.
        points: how many at most; 50,000 by default, and 5,000 for t-SNE.
        others: whether words of other forms are drawn as well, a random sample of them.
        projection: ``pca``, or ``tsne`` for few points.
        seed: of the sample, and of t-SNE.
        names: of the ``model`` and the ``corpus``.

    Raises:
        CorpusError: no such number of points.
        BertologyError: no such projection.
    """
    if projection not in get_args(Projection):
        raise name_not_found("projection", projection, list(get_args(Projection)))
    most = MOST_POINTS if projection == "pca" else MOST_TSNE
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
    same = np.flatnonzero(text.forms.same(query.word.lower())[words])
    if _LEAST_OF_FORM <= len(same) + 1 <= len(words):
        layouts.append(Layout("form", np.concatenate([[0], same + 1]), planes(words[same])))
    content = MapContent(
        query=query, words=np.concatenate([[-1], words]), text=text, layers=tuple(layers), layouts=tuple(layouts),
        near=near, cosines=cosines, projection=projection, n_of_form=n_of_form, names=dict(names or {}),
    )  # fmt: skip
    return OccurrenceMap(content)


def _chosen(
    query: Occurrence, text: SearchedText, near: Integers, itself: Sequence[int], *, most: int, others: bool, seed: int
) -> tuple[Integers, int]:
    """Words to draw, in order of the text, and how many of the word's form there are: neighbours first, then the form.

    Of what is too much a random sample is taken.
    """
    dice = np.random.default_rng(seed)
    everything = np.setdiff1d(text.words, itself)
    chosen = np.unique(near)
    of_form = everything[text.forms.same(query.word.lower())[everything]]
    for more in (of_form, everything if others else everything[:0]):
        new = np.setdiff1d(more, chosen)
        room = most - len(chosen)
        chosen = np.union1d(chosen, new if len(new) <= room else dice.choice(new, room, replace=False))
    return chosen, len(of_form)


def _unit(vectors: Floats32) -> Floats32:
    lengths = np.linalg.norm(vectors, axis=2, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))
