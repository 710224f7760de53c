"""What lies behind one table of a cloze task: scores by group, prompts that one layer got wrong, what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import CountKind
from bertology.results._groups import group_tables
from bertology.results._predictions import Predictions
from bertology.results._rows import clusters_of
from bertology.results._tree_items import tally_of
from bertology.results._view import Score
from bertology.results.report._layers import NoDetailsError, chosen_items, kept_predictions, wrong_right
from bertology.results.report._runs import Entry

MOST_EXCLUDED = 300
"""Items listed that were not scored."""
_DIGITS = 4
_SEVERAL_NUMBERS = 4
"""That are kept of an item, where of words there is one."""
_HIDDEN = "right text", "other text"


@dataclass(frozen=True, eq=False)
class _Said:
    """What all layers say of the same items."""

    layers: tuple[int, ...]
    kept: Sequence[Predictions]
    scored: NDArray[np.bool_]
    """``[item]`` whether it was."""
    score: NDArray[np.float64]
    """``[layer, item]``"""
    rival: NDArray[np.float64]
    rank: NDArray[np.int64]

    @property
    def group(self) -> list[str]:
        """``[item]`` its group."""
        return list(self.kept[0].extra["group"])

    def wrong(self, tally: CountKind) -> NDArray[np.bool_]:
        """``[layer, item]`` whether an item is not right; of changes, whether its best word moved."""
        if tally == "choices":
            with np.errstate(invalid="ignore"):
                # A tie is no choice, neither a right one nor a wrong one.
                return np.asarray(self.score < self.rival)
        return np.asarray((self.rank != 1) & self.scored[None])


def cloze_details(entry: Entry, *, most_items: int, with_text: bool) -> dict[str, Any]:
    """All that the page shows of groups and prompts of one table, as plain values.

    Args:
        entry: the table and its run.
        most_items: how many wrong items to list.
        with_text: whether sentences may stand in the page.
    """
    tally = tally_of(entry.table.metric)
    named = {"cloze": True, "tally": tally, "clusters": clusters_of(entry.table.about)}
    try:
        said = _said(entry)
    except NoDetailsError as reason:
        groups = _groups(entry, ())
        layers = [line.layer for line in entry.table.lines]
        alone = {**named, "layers": layers, "groups": groups, "noItems": str(reason)}
        return alone if groups else {"missing": str(reason)}
    wrong = said.wrong(tally)
    items = chosen_items(wrong, max(1, most_items // _SEVERAL_NUMBERS))
    names = list(dict.fromkeys(said.group))
    return {
        **named,
        "layers": list(said.layers),
        "nItems": int(said.scored.sum()),
        "names": names,
        "groups": _groups(entry, names),
        "wrongRight": wrong_right(wrong),
        "nWrong": int(wrong.any(axis=0).sum()),
        **_items(said, items, wrong, names, with_text=with_text),
        **_excluded(said),
    }


def _said(entry: Entry) -> _Said:
    layers, kept = kept_predictions(entry)
    first = kept[0]
    scored = np.array([not reason for reason in first.extra["reason"]], dtype=bool)
    score = np.stack([np.asarray(found.score, dtype=np.float64) for found in kept])
    rival = np.stack([np.asarray(found.extra["rival"], dtype=np.float64) for found in kept])
    rank = np.stack([np.asarray(found.extra["rank"], dtype=np.int64) for found in kept])
    return _Said(layers, kept, scored, score, rival, rank)


def _groups(entry: Entry, order: Sequence[str]) -> list[dict[str, Any]]:
    """Counts and scores of each group, in the order of the task; none where all items are one group."""
    found = group_tables(entry.run.results.rows, [entry.table])
    if not found:
        return []
    place = {name: number for number, name in enumerate(order)}
    layers = [line.layer for line in entry.table.lines]
    return [
        {
            "name": line.name,
            "items": line.n_items,
            "clusters": line.n_clusters,
            "skipped": line.n_skipped,
            "chance": line.chance,
            "scores": [_score(line.by_layer.get(layer)) for layer in layers],
        }
        for line in sorted(found[0].lines, key=lambda line: place.get(line.name, len(place)))
    ]


def _score(score: Score | None) -> list[float | None] | None:
    if score is None:
        return None
    return [None if value is None else round(value, 6) for value in (score.value, score.low, score.high)]


def _items(
    said: _Said, chosen: NDArray[np.int64], wrong: NDArray[np.bool_], names: Sequence[str], *, with_text: bool
) -> dict[str, Any]:
    """The chosen items by column; what is said of them by layer, words by their place in ``words``."""
    words: dict[str, int] = {}
    group = {name: number for number, name in enumerate(names)}

    def coded(found: Predictions, codes: NDArray[np.integer], hidden: Sequence[str]) -> list[int]:
        texts = [found.labels[code] for code in codes[chosen].tolist()]
        if not with_text:
            # One word is an answer; several may be a sentence of a corpus.
            texts = [other if " " in text else text for text, other in zip(texts, hidden, strict=True)]
        return [words.setdefault(text, len(words)) for text in texts]

    gold, pred = [], []
    for layer, found in enumerate(said.kept):
        gold.append(coded(found, found.gold, [_HIDDEN[0]] * len(chosen)))
        pred.append(coded(found, found.pred, [_HIDDEN[int(no)] for no in wrong[layer, chosen]]))
    of_group = said.group
    return {
        "ids": [said.kept[0].item_ids[item] for item in chosen.tolist()],
        "group": [group[of_group[item]] for item in chosen.tolist()],
        # What is right is the same at all layers, unless it is what a layer itself said of another text.
        "gold": gold if any(row != gold[0] for row in gold) else gold[:1],
        "pred": pred,
        "wrong": wrong[:, chosen].astype(int).tolist(),
        "rank": said.rank[:, chosen].tolist(),
        "score": [_rounded(row) for row in said.score[:, chosen]],
        "rival": [_rounded(row) for row in said.rival[:, chosen]],
        "words": list(words),
    }


def _rounded(values: NDArray[np.floating]) -> list[float | None]:
    return [round(float(value), _DIGITS) if np.isfinite(value) else None for value in values]


def _excluded(said: _Said) -> dict[str, Any]:
    """Items that were not scored, evenly spread where they are many, each with its reason."""
    reasons = list(said.kept[0].extra["reason"])
    left = [item for item, reason in enumerate(reasons) if reason]
    group = said.group
    step = max(1, -(-len(left) // MOST_EXCLUDED))
    return {
        "excluded": [[said.kept[0].item_ids[item], group[item], reasons[item]] for item in left[::step]],
        "nExcluded": len(left),
    }
