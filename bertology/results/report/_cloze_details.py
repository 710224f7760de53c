"""What lies behind one table of a cloze task: scores by group, prompts that one layer got wrong, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import CountKind
from bertology.results.report._details import (
    NoDetailsError,
    chosen_items,
    kept_predictions,
    rounded,
    rounded_score,
    wrong_right,
)
from bertology.results.report._runs import Entry
from bertology.results.tables.predictions import Predictions
from bertology.results.tables.rows import clusters_of
from bertology.results.views.across import group_tables
from bertology.results.views.frames import tally_of

MOST_EXCLUDED = 300
"""Items listed that were not scored."""
_SEVERAL_NUMBERS = 4
"""That are kept of an item, where of words there is one."""
_HIDDEN = "right text", "other text"


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
        layers, kept, _ = kept_predictions(entry)
    except NoDetailsError as reason:
        groups = _groups(entry, ())
        of_table = [line.layer for line in entry.table.lines]
        alone = {**named, "layers": of_table, "groups": groups, "noItems": str(reason)}
        return alone if groups else {"missing": str(reason)}
    columns: dict[str, NDArray[Any]] = {
        "rank": np.stack([np.asarray(one.extra["rank"], dtype=np.int64) for one in kept]),
        "score": np.stack([np.asarray(one.score, dtype=np.float64) for one in kept]),
        "rival": np.stack([np.asarray(one.extra["rival"], dtype=np.float64) for one in kept]),
    }
    scored = np.array([not reason for reason in kept[0].extra["reason"]], dtype=bool)
    wrong = _wrong(tally, scored, columns["rank"], columns["score"], columns["rival"])
    chosen = chosen_items(wrong, max(1, most_items // _SEVERAL_NUMBERS))
    names = list(dict.fromkeys(kept[0].extra["group"]))
    return {
        **named,
        "layers": list(layers),
        "nItems": int(scored.sum()),
        "names": names,
        "groups": _groups(entry, names),
        "wrongRight": wrong_right(wrong),
        "nWrong": int(wrong.any(axis=0).sum()),
        **_items(kept, chosen, wrong, names, columns, with_text=with_text),
        **_excluded(kept[0]),
    }


def _wrong(
    tally: CountKind,
    scored: NDArray[np.bool_],
    rank: NDArray[np.int64],
    score: NDArray[np.float64],
    rival: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """``[layer, item]`` whether an item is wrong; of changes, whether its best word moved."""
    if tally == "choices":
        with np.errstate(invalid="ignore"):
            # A tie is no choice, neither a right one nor a wrong one.
            return np.asarray(score < rival)
    return np.asarray((rank != 1) & scored[None])


def _groups(entry: Entry, order: Sequence[str]) -> list[dict[str, Any]]:
    """Counts and scores of each group, in the order of the task; none where all items are one group."""
    tables = group_tables(entry.run.results.rows, [entry.table])
    if not tables:
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
            "scores": [rounded_score(line.by_layer.get(layer)) for layer in layers],
        }
        for line in sorted(tables[0].lines, key=lambda line: place.get(line.name, len(place)))
    ]


def _items(
    kept: Sequence[Predictions],
    chosen: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    names: Sequence[str],
    columns: Mapping[str, NDArray[Any]],
    *,
    with_text: bool,
) -> dict[str, Any]:
    """The chosen items by column; what is predicted for them by layer, words by their place in ``words``."""
    words: dict[str, int] = {}

    def coded(one: Predictions, codes: NDArray[np.integer], hidden: Sequence[str]) -> list[int]:
        texts = [one.labels[code] for code in codes[chosen].tolist()]
        if not with_text:
            # One word is an answer; several may be a sentence of a corpus.
            texts = [other if " " in text else text for text, other in zip(texts, hidden, strict=True)]
        return [words.setdefault(text, len(words)) for text in texts]

    gold, pred = [], []
    for layer, one in enumerate(kept):
        gold.append(coded(one, one.gold, [_HIDDEN[0]] * len(chosen)))
        pred.append(coded(one, one.pred, [_HIDDEN[int(no)] for no in wrong[layer, chosen]]))
    items = chosen.tolist()
    return {
        "ids": [kept[0].item_ids[item] for item in items],
        "group": [names.index(kept[0].extra["group"][item]) for item in items],
        # What is right is the same at all layers, unless it is what a layer itself predicts for another text.
        "gold": gold if any(row != gold[0] for row in gold) else gold[:1],
        "pred": pred,
        "wrong": wrong[:, chosen].astype(int).tolist(),
        "rank": columns["rank"][:, chosen].tolist(),
        "score": [rounded(row) for row in columns["score"][:, chosen]],
        "rival": [rounded(row) for row in columns["rival"][:, chosen]],
        "words": list(words),
    }


def _excluded(kept: Predictions) -> dict[str, Any]:
    """Items that were not scored, evenly spread where they are many, each with its reason."""
    reasons, group = kept.extra["reason"], kept.extra["group"]
    left = [item for item, reason in enumerate(reasons) if reason]
    step = max(1, -(-len(left) // MOST_EXCLUDED))
    return {
        "excluded": [[kept.item_ids[item], group[item], reasons[item]] for item in left[::step]],
        "nExcluded": len(left),
    }
