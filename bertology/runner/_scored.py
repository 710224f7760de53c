"""From finished cells to scores with intervals: of counts of labels, or of codelengths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertology.measures import (
    METRICS,
    Bootstrap,
    CountKind,
    Metric,
    bootstrap,
    bootstrap_ratio,
    count_label_sets,
    count_labels,
    count_trees,
    find_metric,
    mean_over_seeds,
    over_runs,
)
from bertology.probing import ClozeItems, ClozeProbe
from bertology.results import ClozeOutcomes, read_labels, read_outcomes, read_predictions, read_scores, split_sets
from bertology.runner._cells import Cell, CellRecord, read_cell
from bertology.runner._plan import BaselineCells, Group
from bertology.runner._prompts import by_frequency, counts_of

_ACCURACY = find_metric("accuracy")
# Bytes of the counts of several seeds that are scored together.
_TOGETHER = 1 << 26


class Scored(Protocol):
    """What scores are called, and which way is up."""

    @property
    def name(self) -> str:
        """As in the column ``metric``."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better."""
        ...


@dataclass(frozen=True)
class _Code:
    """A measure of codelength, which is not made of counts of labels."""

    name: str
    higher_is_better: bool


COMPRESSION, BITS = _Code("compression", True), _Code("codelength_bits", False)


@dataclass(frozen=True)
class Column:
    """Finished cells that share their items, scored together: the layers of one control and seed."""

    cells: tuple[Cell, ...]
    layers: tuple[int | None, ...]
    records: tuple[CellRecord, ...]
    scores: Mapping[str, Bootstrap]
    by_group: Mapping[tuple[str, str], Bootstrap] = field(default_factory=dict)
    """Of items that stand in groups, by metric and group."""
    n_entering: Mapping[str, int] = field(default_factory=dict)
    """By metric how many sentences enter it, of metrics that not every sentence enters."""


@dataclass(frozen=True)
class Mean:
    """The mean over several runs of the same cells, and its intervals over runs and sentences."""

    n_runs: int
    scores: Mapping[str, Bootstrap]
    by_group: Mapping[tuple[str, str], Bootstrap] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Sequence[Sequence[Column]]) -> Mean | None:
        """Of columns by draw of weights and seed; None of a single one.

        Several seeds of each of several draws are averaged within the draw, which is then what is resampled.
        """
        n_runs = sum(map(len, columns))
        if n_runs < 2:
            return None

        def mean(found: Sequence[Sequence[Bootstrap]]) -> Bootstrap:
            return over_runs(found[0] if len(found) == 1 else [mean_over_seeds(runs) for runs in found])

        first = columns[0][0]
        return cls(
            n_runs,
            {name: mean([[one.scores[name] for one in of_draw] for of_draw in columns]) for name in first.scores},
            {key: mean([[one.by_group[key] for one in of_draw] for of_draw in columns]) for key in first.by_group},
        )


@dataclass(frozen=True)
class Scorer:
    """Scores the finished cells of folder ``run``."""

    run: Path
    n_resamples: int
    """Of the bootstrap over sentences."""
    seed: int
    """Of the resampling."""

    def group(self, group: Group, *, one_of_several: bool = False) -> dict[tuple[str, int], Column]:
        """The cells of a group, by control and seed; those that are one draw of several keep all that a mean takes."""
        if isinstance(group.probe, ClozeProbe):
            return self._cloze(group, group.probe, keep=one_of_several)
        return self._codes(group) if group.reading.codelength else self._labels(group)

    def baselines(self, found: BaselineCells) -> dict[str, Column]:
        """The baselines of a task, by name."""
        if isinstance(found.probe, ClozeProbe):
            return {
                control: self._outcomes(
                    read_outcomes(self.run, [cell.id]),
                    self._records((cell,)),
                    (cell,),
                    (None,),
                    found.probe,
                    only="answers",
                )
                for control, cell in found.cells.items()
            }
        metrics = _with_accuracy(found.probe.scores)
        return {control: next(self._scored([(cell,)], (None,), metrics)) for control, cell in found.cells.items()}

    def majority_of_asked(self, group: Group, items: ClozeItems) -> Column | None:
        """The baseline ``majority`` of a cloze task, counted and scored on the items that the layers are scored on.

        Args:
            group: finished cells of the task.
            items: all items of the task.

        Returns:
            A column that belongs to the group's first cell; None where all items were scored, so that the baseline of
            all items is the one.
        """
        assert isinstance(group.probe, ClozeProbe)
        cell = group.cells["none", 0, group.layers[0]]
        outcomes = read_outcomes(self.run, [cell.id])
        by_name = {item.id: item for item in items.items}
        if len(outcomes.item_ids) == len(by_name):
            return None
        answers = by_frequency(replace(items, items=tuple(by_name[name] for name in outcomes.item_ids)))
        (record,) = self._records((cell,))
        settings = {"settings": group.reading.changes} if group.reading.changes else {}
        record = replace(record, facts={**record.facts, "params": settings})
        outcomes = replace(outcomes, rank=answers.rank)
        return self._outcomes(outcomes, (record,), (cell,), (None,), group.probe, only="answers")

    def _cloze(self, group: Group, probe: ClozeProbe, *, keep: bool) -> dict[tuple[str, int], Column]:
        """The cells of a group, those of a control on none but the items that the layers themselves are scored on."""
        columns: dict[tuple[str, int], Column] = {}
        scored: tuple[str, ...] | None = None
        for control, seed in dict.fromkeys((control, seed) for control, seed, _ in group.cells):
            cells = tuple(group.cells[control, seed, layer] for layer in group.layers)
            ids, records = [cell.id for cell in cells], self._records(cells)
            outcomes = read_outcomes(self.run, ids, among=scored)
            if scored is None:
                scored = outcomes.item_ids
            elif len(outcomes.item_ids) < records[0].facts["n_items"]:
                counts = self._recounted(ids[0], among=group.cells["none", seed, group.layers[0]].id)
                records = tuple(replace(record, facts={**record.facts, **counts}) for record in records)
            columns[control, seed] = self._outcomes(outcomes, records, cells, group.layers, probe, keep=keep)
        return columns

    def _recounted(self, cell_id: str, *, among: str) -> dict[str, Any]:
        """How many items of a cell are scored, and why not the others, among the items scored in another cell."""
        kept, others = (read_predictions(self.run, name) for name in (cell_id, among))
        left_out = dict(zip(others.item_ids, others.extra["reason"], strict=True))
        own = zip(kept.item_ids, kept.extra["reason"], strict=True)
        groups = {name: place for place, name in enumerate(dict.fromkeys(kept.extra["group"]))}
        return counts_of(
            [reason or left_out[item] for item, reason in own],
            np.asarray(kept.cluster, dtype=np.int64),
            np.array([groups[name] for name in kept.extra["group"]], dtype=np.int64),
            tuple(groups),
        )

    def _labels(self, group: Group) -> dict[tuple[str, int], Column]:
        layers, scores = group.layers, group.probe.scores
        columns: dict[tuple[str, int], Column] = {}
        for control in dict.fromkeys(control for control, _, _ in group.cells):
            seeds = tuple(dict.fromkeys(seed for found, seed, _ in group.cells if found == control))
            cells = [tuple(group.cells[control, seed, layer] for layer in layers) for seed in seeds]
            # A control task has labels of its own, of which only the share of right ones means anything.
            metrics = _with_accuracy(scores) if control == "none" else (_ACCURACY,)
            for seed, column in zip(seeds, self._scored(cells, layers, metrics), strict=True):
                columns[control, seed] = column
        return columns

    def _outcomes(
        self,
        found: ClozeOutcomes,
        records: tuple[CellRecord, ...],
        cells: tuple[Cell, ...],
        layers: tuple[int | None, ...],
        probe: ClozeProbe,
        *,
        only: CountKind | None = None,
        keep: bool = False,
    ) -> Column:
        """A column of what was said of texts, by each tally that the metrics ask for, in all groups and in each.

        Args:
            found: what was said of them.
            records: of the cells.
            cells: of the same items.
            layers: of the cells.
            probe: whose metrics they are scored by.
            only: the one tally of a baseline.
            keep: whether the replicates of single groups are wanted.
        """
        scores: dict[str, Bootstrap] = {}
        by_group: dict[tuple[str, str], Bootstrap] = {}
        for tally in dict.fromkeys(metric.count_kind for metric in probe.scores):
            if only not in (None, tally):
                continue
            metrics = [metric for metric in probe.scores if metric.count_kind == tally]
            counts = found.counts(tally)
            of_all = [metric for metric in metrics if metric.which is None]
            scores |= self._resampled_outcomes(counts, of_all, found.groups)
            for metric in [metric for metric in metrics if metric.which is not None]:
                members = [n for n, group in enumerate(found.groups) if metric.which and metric.which(group)]
                # Only the clusters of those groups are drawn: how many there are says how sure it is.
                clusters = found.clusters_of(*members)
                if len(clusters):
                    own = counts[:, clusters][:, :, members]
                    labels = [found.groups[member] for member in members]
                    scores |= self._resampled_outcomes(own, [metric], labels)
            # Of a metric over all items, or over some groups, one group has nothing that the others do not say.
            alone = [metric for metric in metrics if metric.name in METRICS and not metric.name.startswith("micro_")]
            for number, group in enumerate(found.groups if len(found.groups) > 1 else ()):
                # A group is drawn from its own clusters alone: how many there are says how sure it is.
                own = counts[:, found.clusters_of(number), number : number + 1]
                of_group = self._resampled_outcomes(own, alone) if own.shape[1] else {}
                by_group |= {(name, group): score if keep else _lean(score) for name, score in of_group.items()}
        ordered = {metric.name: scores[metric.name] for metric in probe.scores if metric.name in scores}
        return Column(cells, layers, records, ordered, by_group)

    def _resampled_outcomes(
        self, counts: NDArray[Any], metrics: Sequence[Metric], groups: Sequence[str] = ()
    ) -> dict[str, Bootstrap]:
        return bootstrap(counts, metrics, labels=groups, n_resamples=self.n_resamples, seed=self.seed)

    def _codes(self, group: Group) -> dict[tuple[str, int], Column]:
        """Columns of codelengths: what is kept by item is kept by training sentence."""
        columns: dict[tuple[str, int], Column] = {}
        for control, seed in dict.fromkeys((control, seed) for control, seed, _ in group.cells):
            cells = tuple(group.cells[control, seed, layer] for layer in group.layers)
            log_probs, n_items = read_scores(self.run, [cell.id for cell in cells])
            records = self._records(cells)
            bits = -log_probs / math.log(2)
            facts = records[0].facts
            # Where a cell does not say what an item takes, each has one label.
            item_bits = facts["params"]["details"].get("item_bits", math.log2(facts["n_classes"]))
            uniform = np.array(n_items, dtype=np.float64) * item_bits
            chosen = {"n_resamples": self.n_resamples, "seed": self.seed}
            columns[control, seed] = Column(
                cells,
                group.layers,
                records,
                {
                    COMPRESSION.name: bootstrap_ratio(uniform, bits, metric=COMPRESSION.name, **chosen),
                    BITS.name: bootstrap_ratio(
                        bits, np.full(bits.shape[1], 1 / bits.shape[1]), metric=BITS.name, **chosen
                    ),
                },
            )
        return columns

    def _records(self, cells: Sequence[Cell]) -> tuple[CellRecord, ...]:
        found = [(cell, read_cell(self.run, cell)) for cell in cells]
        for cell, record in found:
            if record is None:
                raise RuntimeError(f"cell {cell.id} is not finished")
        return tuple(record for _, record in found if record is not None)

    def _scored(
        self, cells: Sequence[tuple[Cell, ...]], layers: tuple[int | None, ...], metrics: Sequence[Metric]
    ) -> Iterator[Column]:
        """A column for each of several problems; those that are counted alike are resampled together."""
        waiting: list[_Counted] = []
        for found in cells:
            counted = self._count(found, metrics)
            if waiting and not waiting[0].goes_with(counted, len(waiting) + 1):
                yield from self._resampled(waiting, layers, metrics)
                waiting = []
            waiting.append(counted)
        yield from self._resampled(waiting, layers, metrics)

    def _resampled(
        self, counted: Sequence[_Counted], layers: tuple[int | None, ...], metrics: Sequence[Metric]
    ) -> Iterator[Column]:
        counts = np.concatenate([found.counts for found in counted])
        labels = counted[0].labels
        scores = bootstrap(counts, metrics, labels=labels, n_resamples=self.n_resamples, seed=self.seed)
        for number, found in enumerate(counted):
            places = slice(number * len(layers), (number + 1) * len(layers))
            own = {name: _columns_of(whole, places) for name, whole in scores.items()}
            entering = {
                metric.name: int(metric.enters(found.counts[0], labels).sum()) for metric in metrics if metric.enters
            }
            yield Column(found.cells, layers, found.records, own, n_entering=entering)

    def _count(self, cells: tuple[Cell, ...], metrics: Sequence[Metric]) -> _Counted:
        records = self._records(cells)
        ids = [cell.id for cell in cells]
        found = read_labels(self.run, ids)
        if (kind := metrics[0].count_kind) != "labels":
            agreement, _ = read_scores(self.run, ids)
            trees, lengths = count_trees(found.gold, found.pred, found.labels, agreement, count_kind=kind)
            return _Counted(cells, records, trees, lengths)
        labels = found.labels
        if found.label_sets:
            labels, members = split_sets(found.labels)
            counts = count_label_sets(
                found.gold, found.pred, found.cluster, members=members, n_clusters=found.n_clusters
            )
        else:
            counts = count_labels(
                found.gold, found.pred, found.cluster, n_labels=len(labels), n_clusters=found.n_clusters
            )
        if tuple(metrics) == (_ACCURACY,):
            # It asks how many were right, and not of which label.
            return _Counted(cells, records, counts.sum(axis=2, keepdims=True), ())
        return _Counted(cells, records, counts, labels)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Finished cells that share their items, and what was found, claimed and missed in each."""

    cells: tuple[Cell, ...]
    records: tuple[CellRecord, ...]
    counts: NDArray[Any]
    """``[layer, cluster, label, kind]``"""
    labels: tuple[str, ...]

    def goes_with(self, other: _Counted, n: int) -> bool:
        """Whether both are resampled in one go, ``n`` of their size."""
        alike = self.labels == other.labels and self.counts.shape == other.counts.shape
        return alike and n * self.counts.nbytes <= _TOGETHER


def _lean(scores: Bootstrap) -> Bootstrap:
    """Without replicates, of which many groups would have very many."""
    return replace(scores, replicates=scores.replicates[:0], jackknife=scores.jackknife[:0])


def _columns_of(scores: Bootstrap, places: slice) -> Bootstrap:
    """Some of the columns of a bootstrap."""
    return replace(
        scores,
        values=scores.values[places],
        stderr=scores.stderr[places],
        ci_low=scores.ci_low[places],
        ci_high=scores.ci_high[places],
        ci_methods=scores.ci_methods[places],
        replicates=scores.replicates[:, places],
        jackknife=scores.jackknife[:, places],
    )


def _with_accuracy(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Metrics, and of labels accuracy among them: control tasks know no other."""
    known = any(metric.name == _ACCURACY.name or metric.count_kind != "labels" for metric in metrics)
    return metrics if known else (*metrics, _ACCURACY)


def metrics_of(group: Group) -> tuple[Scored, ...]:
    """What the cells of a group are scored by, the main metric first."""
    return (COMPRESSION, BITS) if group.reading.codelength else group.probe.scores
