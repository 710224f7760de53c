"""What the page's script is given, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bertology.results._grid import answers_itself, baseline_owners, decimals, is_fraction, metric_title, strength_text
from bertology.results._view import BASELINE_LABELS, LayerLine, Score
from bertology.results.report._cloze_details import cloze_details
from bertology.results.report._details import details_of, item_budget
from bertology.results.report._runs import Entry, Question
from bertology.results.report._text import SentenceTexts

_DIGITS = 6


def payload(questions: Sequence[Question], texts: SentenceTexts) -> dict[str, Any]:
    """Everything that is drawn or listed on demand: scores of layers, details, sentences."""
    sentences: list[str] = []
    budget = item_budget(sum(len(entry.table.lines) for question in questions for entry in question.entries))
    plain = []
    for question in questions:
        table = question.first
        tables = [[(entry.label, entry.table) for entry in question.entries]]
        owned = frozenset(label for label in BASELINE_LABELS if baseline_owners(label, tables) != (None,))
        plain.append(
            {
                "label": question.label,
                "task": table.task,
                "metric": metric_title(table.metric),
                "percent": is_fraction(table.metric),
                "decimals": decimals(table.metric),
                "isAccuracy": table.metric == "accuracy",
                "higherIsBetter": table.higher_is_better,
                "entries": [_entry(entry, texts, sentences, budget, owned) for entry in question.entries],
            }
        )
    return {"questions": plain, "sentences": sentences}


def _entry(
    entry: Entry, texts: SentenceTexts, sentences: list[str], budget: int, owned: Collection[str]
) -> dict[str, Any]:
    """The table of one reader; of the baselines in ``owned`` each reader has its own."""
    table = entry.table
    own_head = answers_itself(table)
    details = (
        cloze_details(entry, most_items=budget, with_text=texts.allowed)
        if own_head
        else details_of(entry, texts, sentences, most_items=budget)
    )
    return {
        "label": entry.label,
        "run": entry.run.name,
        "second": metric_title(table.second_metric) if table.second_metric else None,
        "secondPercent": is_fraction(table.second_metric or ""),
        "secondDecimals": decimals(table.second_metric or ""),
        "seeds": table.n_seeds,
        "compared": table.compared,
        "lines": [_line(line) for line in table.lines],
        "baselines": [
            {
                "name": f"{line.label}, {entry.label}" if line.label in owned else line.label,
                "main": _score(line.main),
                "second": _score(line.second),
            }
            for line in table.baselines
        ],
        "ownHead": own_head,
        "details": details,
    }


def _line(line: LayerLine) -> dict[str, Any]:
    return {
        "layer": line.layer,
        "main": _score(line.main),
        "second": _score(line.second),
        "random": _score(line.random_init),
        "control": _score(line.control_task),
        "selectivity": _score(line.selectivity),
        "blind": _score(line.blind),
        "spread": None if line.seed_spread is None else round(line.seed_spread, _DIGITS),
        "best": line.in_best_set,
        "strength": strength_text(line),
    }


def _score(score: Score | None) -> list[float | None] | None:
    """Value, lower and upper bound."""
    if score is None:
        return None
    return [None if value is None else round(value, _DIGITS) for value in (score.value, score.low, score.high)]
