"""The labelling rule in numbers: how likely an eye is to say yes to its questions, by what is measured of a map.

``labels/README.md`` asks three questions of a map: is there a column, is there a line, are there squares? Each is here
a logistic function of two features. Its numbers are a logistic regression on the labelled maps of the part ``adjust``,
and so is how unsteady the eye is: the flatter a function, the more maps near a boundary are found on both sides of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bertology.attention.patterns import FEATURES, PATTERNS
from bertology.errors import FitError

Floats = NDArray[np.float64]
_INVERSE_PENALTY = 10.0
_SURE = 30.0
_IS_PAIR = FEATURES.index("is_pair")


@dataclass(frozen=True)
class Question:
    """One question of the rule."""

    features: tuple[str, ...]
    weights: tuple[float, ...]
    """Of each feature."""
    bias: float

    def likely(self, measured: NDArray[np.floating]) -> Floats:
        """``[map]`` how likely an eye says yes, of ``[map, feature]``."""
        chosen = measured[:, [FEATURES.index(name) for name in self.features]].astype(np.float64)
        logits = (chosen * np.array(self.weights)).sum(1) + self.bias
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -_SURE, _SURE))))


COLUMN: Final = Question(("column_height", "column_part"), (3.27, 6.44), -5.58)
LINE: Final = Question(("line_height", "line_rows_ratio_1.1"), (3.23, 10.29), -12.82)
SQUARES: Final = Question(("block_height", "column_height"), (6.77, -2.2), -3.26)
"""As :func:`fit_questions` finds them, rounded."""


def likely_classes(
    measured: NDArray[np.floating], *, questions: tuple[Question, Question, Question] = (COLUMN, LINE, SQUARES)
) -> Floats:
    """How likely each class is by the rule.

    Args:
        measured: ``[map, feature]`` in the order of :data:`FEATURES`.
        questions: for a column, for a line, for squares.

    Returns:
        ``[map, class]``: with a line ``vertical+diagonal`` or ``diagonal``, by whether there is a column; without one
        ``block`` where there are squares; then ``vertical`` or ``heterogeneous``.
    """
    column, line, squares = (question.likely(measured) for question in questions)
    squares = squares * (measured[:, _IS_PAIR] > 0)
    by_name = {
        "vertical": (1 - line) * (1 - squares) * column,
        "diagonal": line * (1 - column),
        "vertical+diagonal": line * column,
        "block": (1 - line) * squares,
        "heterogeneous": (1 - line) * (1 - squares) * (1 - column),
    }
    return np.stack([by_name[name] for name in PATTERNS], axis=1)


def fit_questions(measured: NDArray[np.floating], labels: Sequence[str]) -> tuple[Question, Question, Question]:
    """The three questions from labelled maps, by penalised logistic regressions on standardised features.

    Args:
        measured: ``[map, feature]``
        labels: the class of each.

    Returns:
        For a column (of maps that are not ``block``), for a line, and for squares (of pairs without a line).

    Raises:
        FitError: a question has the same answer for all maps.
    """
    given = np.array(labels)
    has_column, has_line = np.char.startswith(given, "vertical"), np.char.endswith(given, "diagonal")
    is_block = given == "block"
    asked = (
        (COLUMN, ~is_block, has_column),
        (LINE, np.ones(len(given), dtype=bool), has_line),
        (SQUARES, (measured[:, _IS_PAIR] > 0) & ~has_line, is_block),
    )
    column, line, squares = (_fitted(question.features, measured[of], yes[of]) for question, of, yes in asked)
    return column, line, squares


def _fitted(names: tuple[str, ...], measured: NDArray[np.floating], yes: NDArray[np.bool_]) -> Question:
    from sklearn.linear_model import LogisticRegression

    if len(set(yes.tolist())) < 2:
        raise FitError(f"all maps have the same answer to the question of {names[0]}: give maps of every class")
    chosen = measured[:, [FEATURES.index(name) for name in names]].astype(np.float64)
    mean, scale = chosen.mean(0), chosen.std(0)
    model = LogisticRegression(C=_INVERSE_PENALTY).fit((chosen - mean) / scale, yes)
    weights = model.coef_[0] / scale
    return Question(names, tuple(weights.tolist()), float(model.intercept_[0] - weights @ mean))
