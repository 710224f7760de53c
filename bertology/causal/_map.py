"""Effects of patching by layer and place, with intervals over pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertology._names import aligned, decimals, folder_name, layer_label, signed
from bertology._page import PageAndFigure, full_page, number_cell
from bertology.causal._pairs import PatchPair, word_names
from bertology.measures.intervals import intervals_over_clusters

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure

Floats = NDArray[np.float64]
_MOST_SHOWN = 200
"""Pairs whose texts stand on a page."""
_WHENCE = {
    "pair": "",
    "unrelated": ", states of unrelated texts of its value",
    "same_value": ", states of unrelated texts of the same value",
    "mean_difference": ", moved by the difference of means",
}


@dataclass(frozen=True, eq=False)
class PatchingMap(PageAndFigure):
    """Effects on a prediction of taking one place of one layer from another text; returned by :func:`patch`.

    The effect of a place is the change of the score (difference of the two logits, or log-probability of the one word)
    ÷ the change that the whole other text makes, both summed over pairs: 0 where patching changes nothing, 1 where it
    changes all. A notebook displays the page of :meth:`to_html`; ``.save(path)`` writes it (``.html``) or the figure
    (``.svg``, ``.pdf`` or ``.png``).
    """

    page_title: ClassVar[str] = "Effects of exchanged states"
    page_height: ClassVar[int] = 720

    model: str
    site: str
    direction: str
    source: str
    """Where states come from: ``pair``, ``unrelated``, ``same_value``, ``mean_difference``; or ``noise``, of a pass
    over the same text into one whose subject is noised (:func:`trace`)."""
    layers: tuple[int, ...]
    places: tuple[str, ...]
    """Names of places; of the site ``head`` the heads."""
    changes: Floats
    """``[layer, place, pair]`` change of the score; NaN where a pair has no such place."""
    whole: Floats
    """``[pair]`` the change that the whole other text makes."""
    base: Floats
    """``[pair]`` the score in the text that is patched, as it is."""
    pairs: tuple[PatchPair, ...]
    """``[pair]`` the texts and their two words; of :func:`trace` the fact in both, with its object."""
    clusters: tuple[str, ...]
    """``[pair]`` clusters that are resampled."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that could not be patched, and why; they are in no array."""

    @cached_property
    def effects(self) -> Floats:
        """``[layer, place]`` effect; NaN where the whole text changes nothing."""
        changes, whole = np.nansum(self.changes, axis=2), self._denominators.sum(axis=2)
        unknown = np.full(whole.shape, np.nan)
        return np.asarray(np.divide(changes, whole, out=unknown, where=whole != 0), dtype=np.float64)

    @property
    def _denominators(self) -> Floats:
        """``[layer, place, pair]`` the whole change of pairs that have the place."""
        return np.where(np.isnan(self.changes), 0.0, self.whole)

    @cached_property
    def right(self) -> Floats:
        """``[layer, place, pair]`` of two words, 1 where the one chosen is that which the source's value calls for; NaN
        where a pair has no such place. Its mean is interchange-intervention accuracy (Geiger et al. 2021, section 3.2).
        """
        wanted = (1 if self.direction == "denoise" else -1) * (-1 if self.source == "same_value" else 1)
        right = (np.sign(self.base + self.changes) == wanted).astype(np.float64)
        return np.where(np.isnan(self.changes), np.nan, right)

    def to_pandas(self) -> pd.DataFrame:
        """A line for each layer and place: ``layer``, ``place``, ``effect``, ``ci_low``, ``ci_high``, ``n_pairs``.

        Intervals of 95 % are by bootstrap over clusters of pairs; NaN for fewer than two clusters. In every line are
        the scores between which the effects lie, means over pairs: ``base_score`` where the effect is 0,
        ``source_score`` where it is 1, and their ``measure`` in words.
        """
        import pandas as pd

        low, high = self._intervals
        n_pairs = np.isfinite(self.changes).sum(axis=2)
        index = pd.MultiIndex.from_product([self.layers, self.places], names=["layer", "place"])
        columns = {"effect": self.effects, "ci_low": low, "ci_high": high, "n_pairs": n_pairs}
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index).reset_index()
        base, source = self._ends
        return frame.assign(base_score=base, source_score=source, measure=self._measure)

    @property
    def _ends(self) -> tuple[float, float]:
        """The scores of effect 0 and of effect 1, means over pairs."""
        return float(self.base.mean()), float((self.base + self.whole).mean())

    @cached_property
    def _intervals(self) -> tuple[Floats, Floats]:
        return intervals_over_clusters(np.nan_to_num(self.changes), self._denominators, self.clusters)

    def __str__(self) -> str:
        rows = zip(self.layers, self.effects.tolist(), strict=True)
        lines = [[str(layer), *(f"{decimals(value):>5}" for value in row)] for layer, row in rows]
        return "\n".join([*aligned([["layer", *self.places], *lines], right=0), "", self.about, self.scores])

    @property
    def about(self) -> str:
        """Meaning of the numbers, in one line."""
        zero, one = (
            ("brings back nothing", "all that noise took") if self._is_noised else ("changes nothing", "changes all")
        )
        return f"{self.model}, {self._exchange}; 0 {zero}, 1 {one}"

    @property
    def scores(self) -> str:
        """The scores of both texts, between which the effects lie: ``logit of are − logit of is: …``."""
        (base, source), (zero, one, _) = map(signed, self._ends), self._texts_compared
        mean = "" if len(self.pairs) == 1 else ", means over pairs"
        return f"{self._measure}: {base} {zero} (effect 0), {source} {one} (effect 1){mean}"

    @property
    def _is_noised(self) -> bool:
        return self.source == "noise"

    @property
    def _texts_compared(self) -> tuple[str, str, str]:
        """The text of effect 0, that of effect 1, and what is done with the states of a place."""
        if self._is_noised:
            return "with the subject noised", "as it is", "restoring"
        return "in the base text, which is patched", "in the source text", "exchanging"

    @property
    def _exchange(self) -> str:
        """The states that are exchanged, and the number of pairs."""
        n_pairs, site = len(self.whole), self.site.replace("_", " ")
        pairs = "one pair" if n_pairs == 1 else f"{n_pairs} pairs"
        left_out = f", {len(self.excluded)} left out" if self.excluded else ""
        if self._is_noised:
            return f"{site} restored: {pairs.replace('pair', 'fact')}"
        into = "other text into text" if self.direction == "noise" else "text into other text"
        return f"{site}, {into}{_WHENCE[self.source]}: {pairs}{left_out}"

    def plot(self) -> ShownFigure:
        """The effects as a heatmap, layers from the bottom up; the figure has ``.save("patching.svg")``."""
        from bertology._figures import draw_cells

        layers = [str(layer) for layer in self.layers]
        return draw_cells(
            self.effects, rows=layers, columns=self.places, caption=self.about, row_title="layer", origin="lower"
        )

    def to_html(self) -> str:
        """A page with the texts and the effects, as a table of shaded cells; it makes no request."""
        reasons = Counter(reason for _, reason in self.excluded).most_common()
        values = {
            "heading": f"Effects of {'restored' if self._is_noised else 'exchanged'} states",
            "model": escape(folder_name(self.model)),
            "exchange": escape(self._exchange),
            "meaning": escape(self._meaning),
            "place": "head" if self.site == "head" else "place",
            "open": "open" if len(self.pairs) == 1 else "",
            "more": f"The first {_MOST_SHOWN} of {len(self.pairs)} pairs." if len(self.pairs) > _MOST_SHOWN else "",
            "is_complete": "" if reasons else "hidden",
            "n_left_out": str(len(self.excluded)),
            "reasons": "".join(f"<li>{n} × {escape(reason)}</li>" for reason, n in reasons),
        }
        return full_page(
            "causal/assets/patch.html",
            title=f"{self.page_title}: {self.pairs[0].text}",
            styles=["assets/cells.css"],
            scripts=["assets/cells.js"],
            values=values,
            data={"tables": {"texts": self._texts(), "effects": self._cells()}},
        )

    @property
    def _measure(self) -> str:
        """Name of the score at the mask."""
        if self._is_noised:
            return "probability of the object"
        words = {(pair.good, pair.bad) for pair in self.pairs}
        if not any(pair.bad for pair in self.pairs):
            return f"log-probability of {self.pairs[0].good if len(words) == 1 else 'the masked word'}"
        first, second = words.pop() if len(words) == 1 else ("the first word", "the second")
        return f"logit of {first} − logit of {second}"

    @property
    def _meaning(self) -> str:
        """Meaning of effects of 0 and 1, with the numbers of the texts."""
        (base, source), (zero, one, change) = map(signed, self._ends), self._texts_compared
        one = "in the text as it is" if self._is_noised else one
        mean = "" if len(self.pairs) == 1 else "; all values are means over pairs of texts"
        return (
            f"An effect of 0 means that {change} the states of a place leaves the {self._measure} at {base}, its value "
            f"{zero}; an effect of 1 that it becomes {source}, its value {one}{mean}. Effects below 0 or above 1 go "
            "beyond."
        )

    def _texts(self) -> dict[str, Any]:
        """The texts as the page's script fills their table: of each pair that of effect 0, then that of effect 1."""
        shown = self.pairs[:_MOST_SHOWN]
        names = ("0 · subject noised", "1 · as it is") if self._is_noised else ("0 · base", "1 · source")
        cells = []
        for pair, base, whole in zip(shown, self.base, self.whole, strict=False):
            words = {"text": " / ".join(dict.fromkeys(filter(None, (pair.good, pair.bad))))}
            texts = _marked(pair)[:: -1 if self.direction == "denoise" else 1]
            cells += [[{"parts": texts[0]}, words, {"text": signed(base)}]]
            cells += [[{"parts": texts[1]}, words, {"text": signed(base + whole)}]]
        columns = ["text", "words", self._measure]
        return {"corner": "effect", "columns": columns, "rows": names * len(shown), "cells": cells}

    def _cells(self) -> dict[str, Any]:
        """The effects as the page's script fills their table, the embeddings at the bottom."""
        words = [one.words for one in self.pairs[0].sentences()]
        differ = {name for name, a, b in zip(word_names(words), *words, strict=True) if a != b}
        return {
            "corner": "layer",
            "columns": self.places,
            "marked": [number for number, place in enumerate(self.places) if place in differ | {"changed"}],
            "rows": [layer_label(layer) for layer in reversed(self.layers)],
            "cells": [[self._cell(i, j) for j in range(len(self.places))] for i in reversed(range(len(self.layers)))],
        }

    def _cell(self, i: int, j: int) -> dict[str, Any] | None:
        effect, (low, high) = self.effects[i, j], self._intervals
        cell = number_cell(effect, low[i, j], high[i, j])
        if cell is None:
            return None
        after = (self.base + self.changes[i, j])[np.isfinite(self.changes[i, j])]
        mean = "" if len(self.pairs) == 1 else f", the mean of {len(after)} pairs"
        says = f"Layer {layer_label(self.layers[i])}, {self.places[j]}: effect {cell['text']} {cell['more']}".rstrip()
        return {**cell, "share": effect, "says": f"{says}; the {self._measure} becomes {signed(after.mean())}{mean}."}


def _marked(pair: PatchPair) -> list[list[tuple[str, bool]]]:
    """Both texts in parts, each with whether it is a word that differs."""
    texts = pair.sentences()
    found = []
    for one, other in (texts, texts[::-1]):
        ends = [0, *(stop for _, stop in one.spans)]
        parts = []
        for (start, stop), end, is_same in zip(one.spans, ends, map(str.__eq__, one.words, other.words), strict=False):
            parts += [(one.text[end:start], False), (one.text[start:stop], not is_same)]
        found.append([*parts, (one.text[ends[-1] :], False)])
    return found
