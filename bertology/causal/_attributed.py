"""Scores of words by several methods, and how faithful they are to what the model does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertology._names import folder_name
from bertology._page import PageAndFigure, full_page, number_cell
from bertology._text import aligned
from bertology.causal._masked_words import masked_differences
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair
from bertology.measures.intervals import intervals_over_clusters

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_LARGEST_ERROR = 0.05
_SIGNED = ("integrated_gradients", "leave_one_out", "gradient_times_input")
"""Methods whose scores are positive where a word is evidence for the good one, negative where for the bad one."""


@dataclass(frozen=True, eq=False)
class Attributed:
    """One text and the scores of its words."""

    number: int
    """Of the question."""
    words: tuple[str, ...]
    difference: float
    """By how much the logit of the good word is above that of the bad one."""
    scores: dict[tuple[str, int], Floats]
    """``[word]`` by method and layer."""
    completeness_error: float
    """Of integrated gradients, as a share of what the text adds to the baseline; NaN where they were not asked for."""
    aligned: AlignedPair

    @property
    def mask(self) -> int:
        """The word that is masked."""
        places = list(self.aligned.places.values())
        return next(number for number, pieces in enumerate(places) if self.aligned.mask in pieces)

    def subwords(self, words: Sequence[int]) -> Integers:
        """The places of all subwords of some words in the text's input."""
        places = [chosen for name, chosen in self.aligned.places.items() if name != SPECIAL]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(places[word] for word in words)]))

    def ranked(self, method: str, layer: int) -> list[int]:
        """Words but for the mask, the one with the highest score first."""
        order = np.argsort(-self.scores[method, layer], kind="stable").tolist()
        return [word for word in order if word != self.mask]


@dataclass(frozen=True)
class Faithfulness:
    """How well the scores of one method tell what the model does, text by text."""

    comprehensiveness: Floats
    """``[text]`` how much of the probability of the good word, of the two, is lost when the highest words are masked:
    mean of the first one, two and three (DeYoung et al. 2020, section 4.2; masked instead of deleted)."""
    sufficiency: Floats
    """``[text]`` how much of it is lost when all others are masked; less is better."""
    rank_correlation: Floats
    """``[text]`` Kendall's τ with leave-one-out; NaN where one of them is constant."""


@dataclass(frozen=True, eq=False)
class Attributions(PageAndFigure):
    """Scores of the words of texts; returned by :func:`attribute`.

    A notebook displays the page of :meth:`to_html`; ``.save(path)`` writes it (``.html``) or the figure (``.svg``,
    ``.pdf`` or ``.png``).
    """

    page_title: ClassVar[str] = "Words that a choice rests on"
    page_height: ClassVar[int] = 720

    encoder: Encoder
    questions: tuple[PatchPair, ...]
    found: tuple[Attributed, ...]
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the questions that could not be asked, and why."""

    @property
    def methods(self) -> tuple[tuple[str, int], ...]:
        """Methods with their layers."""
        return tuple(self.found[0].scores)

    def faithfulness(self, *, most: int = 3) -> dict[tuple[str, int], Faithfulness]:
        """By method and layer; texts with words masked are read for it, so that nothing is unlike what the model knows.
        All is NaN for a text that is but a mask.

        Args:
            most: of the highest words, at most so many are masked or kept.
        """
        from scipy.stats import kendalltau

        parts: dict[tuple[str, int], list[tuple[float, float, float]]] = {key: [] for key in self.methods}
        for one in self.found:
            words = [word for word in range(len(one.words)) if word != one.mask]
            if not words:
                for of_key in parts.values():
                    of_key.append((np.nan, np.nan, np.nan))
                continue
            masked: dict[Any, Integers] = {("alone", word): one.subwords([word]) for word in words}
            for key in self.methods:
                order = one.ranked(*key)
                for k in range(1, min(most, len(order)) + 1):
                    masked[key, k, "without"] = highest = one.subwords(order[:k])
                    # A subword that is shared with a word that is kept is kept.
                    masked[key, k, "only"] = np.setdiff1d(one.subwords(order[k:]), highest)
            scores = masked_differences(self.encoder, one.aligned, masked)
            whole = _probability(one.difference)
            left_out = [one.difference - scores["alone", word] for word in words]
            for key in self.methods:
                steps = range(1, min(most, len(words)) + 1)
                lost = [
                    np.mean([whole - _probability(scores[key, k, kind]) for k in steps]) for kind in ("without", "only")
                ]
                tau = kendalltau(one.scores[key][words], left_out).statistic if len(words) > 1 else np.nan
                parts[key].append((float(lost[0]), float(lost[1]), float(tau)))
        return {key: Faithfulness(*np.array(of_key).T) for key, of_key in parts.items()}

    def to_pandas(self) -> pd.DataFrame:
        """A line for each text, method, layer and word: ``question``, ``method``, ``layer``, ``place``, ``word``,
        ``score``."""
        import pandas as pd

        rows = [
            {"question": one.number, "method": method, "layer": layer, "place": place, "word": word, "score": score}
            for one in self.found
            for (method, layer), scores in one.scores.items()
            for place, (word, score) in enumerate(zip(one.words, scores.tolist(), strict=True), 1)
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        return "\n\n".join(self._table(one) for one in self.found)

    def _table(self, one: Attributed) -> str:
        rows = [(_title(*key), *(f"{score:>6.3f}" for score in scores)) for key, scores in one.scores.items()]
        lines = aligned([("", *one.words), *rows], right=1)
        return "\n".join([*lines, "", *self.notes(one)])

    def notes(self, one: Attributed) -> list[str]:
        """What the numbers of a text are, a line each."""
        question = self.questions[one.number]
        notes = [
            f"{self.encoder.source.title}: logit of {question.good} − logit of {question.bad} = {one.difference:.2f}",
            "scores of one method are of one kind: compare words within a line, not lines",
        ]
        if np.isfinite(one.completeness_error):
            missed = f"integrated gradients miss {100 * one.completeness_error:.1f} %"
            notes.append(
                f"{missed} of what the text adds to the baseline"
                + (": take more steps" if one.completeness_error > _LARGEST_ERROR else "")
            )
        return notes

    def plot(self) -> ShownFigure:
        """Words by methods, each in shares of its largest score; of the first text; has ``.save("words.svg")``."""
        from bertology._figures import draw_cells

        one = self.found[0]
        shares = np.stack([scores / (np.abs(scores).max() or 1) for scores in one.scores.values()])
        caption = f"{self.notes(one)[0]}; each method in shares of its largest score"
        return draw_cells(shares, rows=[_title(*key) for key in one.scores], columns=one.words, caption=caption)

    def to_html(self) -> str:
        """A page with the words of each text, shaded by the scores of a method that is chosen; it makes no request.

        How faithful the methods are is measured for it, see :meth:`faithfulness`.
        """
        folder = "causal/assets/attribute."
        n_texts = len(self.found)
        return full_page(
            f"{folder}html",
            title=f"{self.page_title}: {' '.join(self.found[0].words)}",
            styles=["assets/cells.css", f"{folder}css"],
            scripts=["assets/cells.js", f"{folder}js"],
            values={
                "model": escape(folder_name(self.encoder.source.title)),
                "n_texts": "" if n_texts == 1 else f"Means over {n_texts} texts, in brackets 95 % intervals.",
            },
            data={
                "methods": [
                    {"name": name, "layer": layer, "title": _title(name, layer), "isSigned": name in _SIGNED}
                    for name, layer in self.methods
                ],
                "texts": [self._text(one) for one in self.found],
                "tables": {"faithfulness": self._faithfulness_table},
            },
        )

    def _text(self, one: Attributed) -> dict[str, Any]:
        question, (difference, _, *completeness) = self.questions[one.number], self.notes(one)
        return {
            "words": one.words,
            "mask": one.mask,
            "good": question.good,
            "bad": question.bad,
            "difference": difference.removeprefix(f"{self.encoder.source.title}: "),
            "completeness": "".join(completeness),
            "scores": [scores.tolist() for scores in one.scores.values()],
        }

    @cached_property
    def _faithfulness_table(self) -> dict[str, Any]:
        """As the page's script fills it: means over texts, with intervals."""
        by_method = self.faithfulness().values()
        values = np.array([(one.comprehensiveness, one.sufficiency, one.rank_correlation) for one in by_method])
        has_value = np.isfinite(values).astype(np.float64)
        clusters = [self.questions[one.number].cluster or f"text {one.number}" for one in self.found]
        means, sums = np.full(values.shape[:2], np.nan), np.nan_to_num(values)
        np.divide(sums.sum(axis=2), has_value.sum(axis=2), out=means, where=has_value.any(axis=2))
        numbers = np.stack([means, *intervals_over_clusters(sums, has_value, clusters)], axis=2).tolist()
        return {
            "corner": "method",
            "columns": ["comprehensiveness", "sufficiency", "rank correlation"],
            "rows": [_title(*key) for key in self.methods],
            "cells": [[number_cell(*cell) for cell in of_method] for of_method in numbers],
        }


def _probability(difference: float) -> float:
    """Of the good word among the two."""
    return float(1 / (1 + np.exp(-difference)))


def _title(method: str, layer: int) -> str:
    name = method.replace("_", " ").replace(" times ", " × ")
    return f"{name}, layer {layer}" if layer or method.startswith("gradient") else name


def hits(found: Sequence[Attributed], causes: Sequence[Sequence[int]], key: tuple[str, int]) -> Floats:
    """``[text]`` 1 where the word with the highest score is among those that are the cause."""
    return np.array([float(one.ranked(*key)[0] in of_text) for one, of_text in zip(found, causes, strict=True)])
