"""Two texts that translate each other, with the links of words that each layer of an encoder finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bertology._names import folder_name, layer_number, name_not_found, place_of_layer
from bertology._page import PageAndFigure
from bertology.corpora import Links, Sentence, Sentences
from bertology.errors import CorpusError, FitError
from bertology.geometry._sums import Floats
from bertology.geometry.languages._alignment import METHODS, Linked, align_words, count_links, word_similarity

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure
    from bertology.encoders import Encoder

_PAIRS = 128
"""Pairs of texts that are read at a time."""
_HEIGHT, _WIDTH, _GAP = 2.0, 0.095, 0.25
"""Of a figure, in inches: between the texts, of a character, and between words."""


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
    def linked(self) -> tuple[Linked, ...]:
        """By layer ``[word, word]`` which words are linked."""
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

    def error_rate(self, gold: Links, layer: int | None = None) -> float:
        """Alignment error rate (Och & Ney 2003) of a layer, against gold links."""
        counts = count_links(self.linked[self._place(layer)], gold)
        return 1 - (counts.found_sure + counts.found_possible) / (counts.found + counts.sure)

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
        from bertology._page import full_page

        folder = "geometry/languages/assets/"
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
            folder + "page.html",
            title=f"{self.first.text} — words aligned",
            styles=[folder + "align.css"],
            scripts=["assets/cells.js", folder + "align.js"],
            values=values,
            data=data,
        )

    def __str__(self) -> str:
        return self.text()

    def text(self, layer: int | None = None) -> str:
        """A line for each word of the first text with what it is linked with, then words that are linked with none."""
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
        layers: those that are read.
        layer: of these the one that is shown; that nearest to two thirds of the way up when left out.
        method: as of :func:`align_words`.
        distortion: as of :func:`word_similarity`.
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
