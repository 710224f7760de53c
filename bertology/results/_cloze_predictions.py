"""What a masked language model said of every item of a cell: the columns that are not there for labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertology.errors import ResultsError
from bertology.measures import CountKind, Grouped
from bertology.results._predictions import CLOZE, Predictions, read_columns


@dataclass(frozen=True, eq=False)
class ClozePredictions:
    """The items of one cell, by column: those that were scored, and those that could not be."""

    item_ids: Sequence[str]
    cluster: NDArray[np.integer]
    """``[item]`` place in ``cluster_ids``"""
    cluster_ids: Sequence[str]
    group: NDArray[np.integer]
    """``[item]`` place in ``groups``"""
    groups: Sequence[str]
    gold: Sequence[str]
    """``[item]`` what is right."""
    pred: Sequence[str]
    """``[item]`` what the model puts first, or chooses; empty where an item was not scored."""
    score: NDArray[np.floating]
    """``[item]`` natural logarithm of the probability of what is right; NaN where an item was not scored."""
    rival: NDArray[np.floating]
    """``[item]`` that of what it is compared with; NaN where there is none."""
    rank: NDArray[np.integer]
    """``[item]`` place of what is right, 1 for the first; 0 where it has none."""
    reason: Sequence[str]
    """``[item]`` why an item was not scored; empty where it was."""

    def plain(self) -> Predictions:
        """As they are kept."""
        labels = {text: code for code, text in enumerate(dict.fromkeys((*self.gold, *self.pred)))}
        gold, pred = (np.array([labels[text] for text in texts], dtype=np.int64) for texts in (self.gold, self.pred))
        extra = {
            "group": [self.groups[code] for code in np.asarray(self.group).tolist()],
            "rival": np.asarray(self.rival, dtype=np.float32),
            "rank": np.asarray(self.rank, dtype=np.int32),
            "reason": list(self.reason),
        }
        return Predictions(
            self.item_ids, self.cluster, self.cluster_ids, gold, pred, self.score, tuple(labels), extra=extra
        )


@dataclass(frozen=True, eq=False)
class ClozeOutcomes:
    """What several cells say of the very same items, those left out that could not be scored."""

    item_ids: tuple[str, ...]
    """``[item]``"""
    items: Grouped
    groups: tuple[str, ...]
    pred: NDArray[np.int64]
    """``[cell, item]`` number of what the model puts first."""
    score: NDArray[np.float64]
    """``[cell, item]``"""
    rival: NDArray[np.float64]
    rank: NDArray[np.int64]

    def clusters_of(self, *groups: int) -> NDArray[np.int64]:
        """The clusters that have items in some of the groups."""
        return np.unique(self.items.cluster[np.isin(self.items.group, groups)])

    def counts(self, tally: CountKind) -> NDArray[np.float64]:
        """``[cell, cluster, group, kind]`` what metrics of a tally are made of."""
        if tally == "answers":
            return self.items.count_answers(self.rank)
        if tally == "changes":
            return self.items.count_changes(self.rank, self.score, self.rival)
        if tally == "agreement":
            return self.items.count_agreement(self.pred, self.rank)
        return self.items.count_choices(self.score, self.rival)


def read_outcomes(folder: Path, cell_ids: Sequence[str], *, among: Collection[str] | None = None) -> ClozeOutcomes:
    """The outcomes of cells that were asked about the very same items.

    Args:
        folder: of the run.
        cell_ids: the cells.
        among: names of items, to which the outcomes are restricted; all that were scored when left out.

    Raises:
        ResultsError: a file is missing or broken.
    """
    shared = read_columns(folder, cell_ids[0], ("item_id", "cluster_id", "group", "reason"))
    item_ids, reasons = shared["item_id"].to_pylist(), shared["reason"].to_pylist()
    scored = (not reason and (among is None or item in among) for item, reason in zip(item_ids, reasons, strict=True))
    kept = np.array(list(scored), dtype=bool)
    clusters: dict[str, int] = {}
    groups: dict[str, int] = {}
    words: dict[str, int] = {}

    def coded(values: Sequence[str], numbers: dict[str, int]) -> NDArray[np.int64]:
        return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)

    cluster, group = coded(shared["cluster_id"].to_pylist(), clusters), coded(shared["group"].to_pylist(), groups)
    pred, score, rival, rank = [], [], [], []
    for cell_id in cell_ids:
        table = read_columns(folder, cell_id, ("pred", "score", "rival", "rank"))
        if len(table) != len(kept):
            raise ResultsError(f"{folder}: cells {cell_ids[0]} and {cell_id} were not asked about the same items")
        pred.append(coded(table["pred"].to_pylist(), words)[kept])
        score.append(table["score"].to_numpy().astype(np.float64)[kept])
        rival.append(table["rival"].to_numpy().astype(np.float64)[kept])
        rank.append(table["rank"].to_numpy().astype(np.int64)[kept])
    # Clusters without a scored item are none: they would widen nothing and be drawn all the same.
    used, cluster = np.unique(cluster[kept], return_inverse=True)
    items = Grouped(cluster, group[kept], len(used), len(groups))
    names = tuple(item for item, is_kept in zip(item_ids, kept.tolist(), strict=True) if is_kept)
    return ClozeOutcomes(names, items, tuple(groups), np.stack(pred), np.stack(score), np.stack(rival), np.stack(rank))


def is_cloze(predictions: Predictions) -> bool:
    """Whether predictions have the columns of a cloze task."""
    return set(CLOZE) <= set(predictions.extra)
