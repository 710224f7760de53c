"""Scores of words by several methods, and how faithful they are to what the model does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.causal._masked_words import masked_differences
from bertology.causal._pairs import AlignedPair, PatchPair

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
_LARGEST_ERROR = 0.05


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
class Attributions:
    """Scores of the words of texts; returned by :func:`attribute`."""

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

        Args:
            most: of the highest words, at most so many are masked or kept.
        """
        from scipy.stats import kendalltau

        parts: dict[tuple[str, int], list[tuple[float, float, float]]] = {key: [] for key in self.methods}
        for one in self.found:
            words = [word for word in range(len(one.words)) if word != one.mask]
            masked: dict[Any, list[int]] = {("alone", word): [word] for word in words}
            for key in self.methods:
                order = one.ranked(*key)
                for k in range(1, min(most, len(order)) + 1):
                    masked[key, k, "without"], masked[key, k, "only"] = order[:k], order[k:]
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
        widest = max(len(_title(*key)) for key in one.scores)
        widths = [max(len(word), 6) for word in one.words]
        lines = [" " * widest + "  " + "  ".join(f"{word:>{w}}" for word, w in zip(one.words, widths, strict=True))]
        for key, scores in one.scores.items():
            cells = (f"{score:>{width}.3f}" for score, width in zip(scores.tolist(), widths, strict=True))
            lines.append(f"{_title(*key):<{widest}}  " + "  ".join(cells))
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

    def plot(self) -> Figure:
        """Words by methods, each in shares of its largest score; of the first text; has ``.save("words.svg")``."""
        from bertology._figures import DARK_SHADE, SHADES, new_figure, write_caption

        one = self.found[0]
        figure = new_figure(1.6 + 0.62 * len(one.words), 1.7 + 0.34 * len(one.scores))
        axes: Any = figure.subplots()
        shares = np.stack([scores / (np.abs(scores).max() or 1) for scores in one.scores.values()])
        axes.imshow(np.clip(shares, 0, 1), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(one.words)), one.words, rotation=40, ha="right")
        axes.set_yticks(range(len(one.scores)), [_title(*key) for key in one.scores])
        for (i, j), value in np.ndenumerate(shares):
            color = "white" if value > DARK_SHADE else "black"
            axes.text(j, i, f"{round(float(value), 2) + 0.0:.2f}", ha="center", va="center", fontsize=7, color=color)
        write_caption(figure, f"{self.notes(one)[0]}; each method in shares of its largest score")
        return figure

    def save(self, path: str | Path) -> Path:
        """Write the figure (``.svg``, ``.pdf`` or ``.png``).

        Raises:
            StoreError: the name ends otherwise, or the file cannot be written.
        """
        saved: Path = self.plot().save(path)  # type: ignore[attr-defined]
        return saved


def _probability(difference: float) -> float:
    """Of the good word among the two."""
    return float(1 / (1 + np.exp(-difference)))


def _title(method: str, layer: int) -> str:
    name = method.replace("_", " ").replace(" times ", " × ")
    return f"{name}, layer {layer}" if layer or method.startswith("gradient") else name


def hits(found: Sequence[Attributed], causes: Sequence[Sequence[int]], key: tuple[str, int]) -> Floats:
    """``[text]`` 1 where the word with the highest score is among those that are the cause."""
    return np.array([float(one.ranked(*key)[0] in of_text) for one, of_text in zip(found, causes, strict=True)])
