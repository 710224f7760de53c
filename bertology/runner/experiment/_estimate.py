"""What an experiment comes to before anything is computed: cells, what is there, time, memory and disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertology._memory import size_in_words
from bertology._names import short_names
from bertology.activations import find_entry
from bertology.errors import BertologyError
from bertology.probing import AttentionProbe, HeadProbe, RepresentationProbe
from bertology.runner._draws import Weights, asked_words
from bertology.runner._plan import Group, Plan
from bertology.runner._run import recipe_of
from bertology.runner._sources import TRAIN_MEMORY
from bertology.runner._task_data import TaskData
from bertology.runner.experiment._compute import together
from bertology.runner.experiment._folder import RunFolder, failure_of, finished
from bertology.runner.experiment._work import Unit, Work

# What times are made of. Only the speed of the processor is measured; the others are what the embedded model and a
# BERT of usual size came to, so that a time is right within a factor of about three.
_PIECES_A_WORD = 1.3
_SHARE_OF_PEAK = 0.4
_PASSES = 100
# Of structural probes: passes over the data, and the rank unless another is asked for.
_EPOCHS, _RANK = 30, 64
_SECONDS_A_CELL = 0.03
_LIBRARIES = 600e6
_BYTES_A_PREDICTION = 6


@dataclass(frozen=True)
class PairEstimate:
    """One model on one corpus."""

    model: str
    corpus: str
    layers: int
    n_cells: int
    n_finished: int
    n_failed: int
    problems: tuple[str, ...]
    """Tasks that cannot be computed on this corpus, and why."""
    vectors: int
    """Bytes of vectors that it reads."""
    vectors_missing: int
    """Bytes of those that are not in the store yet."""
    reading_flops: float
    fitting_flops: float
    memory: float
    """Bytes that a fit takes."""
    result_bytes: float


@dataclass(frozen=True)
class Estimate:
    """All of an experiment."""

    name: str
    folder: Path
    pairs: tuple[PairEstimate, ...]
    n_cells: int
    flops_a_second: float
    """Of one thread of this processor, measured."""

    @property
    def seconds(self) -> float:
        """Time on one thread; rough."""
        flops = sum(pair.reading_flops + pair.fitting_flops for pair in self.pairs)
        left = sum(pair.n_cells - pair.n_finished for pair in self.pairs)
        return flops / (self.flops_a_second * _SHARE_OF_PEAK) + left * _SECONDS_A_CELL

    def to_text(self) -> str:
        """For a terminal."""
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        finished_cells = sum(pair.n_finished for pair in self.pairs)
        failed = sum(pair.n_failed for pair in self.pairs)
        of_failed = f", {failed:,} failed when last tried" if failed else ""
        yield f"{self.name}: {self.n_cells:,} cells, {finished_cells:,} finished{of_failed}, in {self.folder}"
        called = short_names(pair.model for pair in self.pairs)
        for pair in self.pairs:
            missing = pair.vectors_missing
            cached = f"{size_in_words(missing)} to be read" if missing else "all in the store"
            yield (
                f"  {called[pair.model]} on {pair.corpus}: {pair.layers} layers, {pair.n_cells:,} cells, "
                f"{pair.n_finished:,} finished; {size_in_words(pair.vectors)} of vectors, {cached}"
            )
            for problem in pair.problems:
                yield f"    cannot be computed: {problem}"
        if finished_cells == sum(pair.n_cells for pair in self.pairs):
            yield "nothing is left to do"
            return
        yield f"time    about {_duration(self.seconds)} on one thread, less on several (rough: within a factor of 3)"
        most = max(pair.memory for pair in self.pairs)
        yield f"memory  about {size_in_words(most)} for each process that fits (rough)"
        missing, results = (sum(getattr(p, name) for p in self.pairs) for name in ("vectors_missing", "result_bytes"))
        yield f"disk    {size_in_words(missing)} of vectors in the cache, about {size_in_words(results)} of results"


def estimate(work: Work, folder: Path) -> Estimate:
    """What is left to do of an experiment in a run's folder; computes nothing, imports no torch."""
    if folder.is_dir() and any(folder.iterdir()):
        RunFolder(folder).record()
    # Names of cells take longer than all else, where there are very many; without a cell there is none to look up.
    is_begun = any((folder / "cells").glob("*.json"))
    of_plan: dict[int, list[Unit]] = {id(plan): [] for plan in work.plans}
    for unit in work.units if is_begun else work.units_of_all:
        of_plan[id(unit.plan)].append(unit)
    tasks = _Tasks()
    pairs = tuple(_pair(plan, of_plan[id(plan)], folder if is_begun else None, tasks) for plan in work.plans)
    return Estimate(work.experiment.name, folder, pairs, work.n_cells, _measured_flops())


def _pair(plan: Plan, units: Sequence[Unit], folder: Path | None, tasks: _Tasks) -> PairEstimate:
    done = [unit for unit in units if folder is not None and finished(folder, unit)]
    left = [unit for unit in units if unit not in done]
    failed = [unit for unit in left if folder is not None and failure_of(folder, unit) is not None]
    data, problems = tasks.of(plan)
    # Of tasks that are asked of the model itself no vectors are read.
    reads = any(isinstance(probe, RepresentationProbe) for probe in plan.probes)
    draws = dict.fromkeys(weights for unit in units for weights in unit.weights)
    missing = {weights: _missing_words(plan, weights) if reads else 0 for weights in draws}
    n_words = sum(split.n_words for split in plan.splits.by_name.values()) if reads else 0
    width = np.dtype(plan.request.stored_dtype).itemsize * len(plan.layers) * plan.shape.dim
    block = 24 * plan.shape.dim**2
    groups = [group for unit in left for group in unit.groups if group.probe.task in data]
    items = max((len(found.train) for found in data.values()), default=0)
    return PairEstimate(
        model=plan.source.name,
        corpus=plan.corpus.name,
        layers=len(plan.layers),
        n_cells=_count(units),
        n_finished=_count(done),
        n_failed=_count(failed),
        problems=problems,
        vectors=n_words * width * len(missing),
        vectors_missing=sum(missing.values()) * width if left else 0,
        reading_flops=sum(missing.values()) * _PIECES_A_WORD * block * max(plan.layers) if groups else 0.0,
        fitting_flops=float(sum(_fit_flops(group, data[group.probe.task], plan) for group in groups))
        + sum(_asking_flops(found, plan) for found in _asked_together(left)),
        memory=_LIBRARIES + min(TRAIN_MEMORY, items * len(plan.layers) * plan.shape.dim * 4),
        result_bytes=float(sum(len(unit.cells) * _n_items(unit, data) for unit in left) * _BYTES_A_PREDICTION),
    )


def _n_items(unit: Unit, data: Mapping[str, TaskData]) -> int:
    """How many items a cell of a unit keeps predictions of."""
    task, prompts = unit.part.probe.task, unit.plan.splits.prompts
    if task in prompts:
        return len(prompts[task])
    return len(data[task].test) if task in data else 0


def _asked_together(units: Sequence[Unit]) -> Iterator[list[Group]]:
    """What is asked of the model itself, by what is asked in one pass."""
    for load in together(enumerate(units)):
        if groups := [group for _, unit in load for group in unit.groups if not unit.reads_vectors]:
            yield groups


def _asking_flops(groups: Sequence[Group], plan: Plan) -> float:
    """What it takes to put texts to a model: sentences are read once for each of their pieces."""
    group = groups[0]
    if isinstance(group.probe, HeadProbe):
        return _heads_flops(groups, plan)
    items = plan.splits.prompts[group.probe.task]
    pieces = asked_words(group.probe, items, pieces=_PIECES_A_WORD)
    n_passes = len({(one.weights, control) for one in groups for control, _, _ in one.cells})
    return pieces * n_passes * 24 * plan.shape.dim**2 * max(plan.layers, default=0)


def _heads_flops(groups: Sequence[Group], plan: Plan) -> float:
    """What it takes to look at heads: once at the text for all maps, and once for each head that is closed."""
    splits, reads_maps = plan.splits.by_name, isinstance(groups[0].probe, AttentionProbe)
    chooses = any(isinstance(group.probe, AttentionProbe) and group.probe.chooses for group in groups)
    once = splits["test"].n_words + (splits["dev"].n_words if chooses else 0)
    times = 1 if reads_maps else len(groups[0].layers) * plan.shape.n_heads
    return once * times * _PIECES_A_WORD * 24 * plan.shape.dim**2 * max(plan.layers, default=0)


class _Tasks:
    """The items of tasks, which models share."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], TaskData | str] = {}

    def of(self, plan: Plan) -> tuple[dict[str, TaskData], tuple[str, ...]]:
        """Those of a plan's tasks that can be had, and why the others cannot."""
        data: dict[str, TaskData] = {}
        problems: list[str] = []
        for probe in plan.probes:
            if not isinstance(probe, RepresentationProbe):
                continue
            key = (id(plan.splits), probe.task)
            if key not in self._found:
                try:
                    self._found[key] = TaskData.of(probe, plan.splits)
                except BertologyError as error:
                    self._found[key] = str(error)
            found = self._found[key]
            if isinstance(found, TaskData):
                data[probe.task] = found
            else:
                problems.append(found)
        return data, tuple(problems)


def _missing_words(plan: Plan, weights: Weights) -> int:
    """How many words' vectors are not in the store."""
    splits = plan.splits.by_name.values()
    return sum(split.n_words for split in splits if find_entry(recipe_of(plan, weights, split), plan.layers) is None)


def _fit_flops(group: Group, data: TaskData, plan: Plan) -> float:
    if data.trees is not None:
        spans = data.train.spans[:, 0]
        rank = int(group.reading.settings.get("rank", _RANK))
        return 4.0 * _EPOCHS * int((spans[:, 1] - spans[:, 0]).sum()) * plan.shape.dim * rank * len(group.cells)
    return 4.0 * _PASSES * len(data.train) * plan.shape.dim * len(data.labels) * len(group.cells)


def _count(units: Sequence[Unit]) -> int:
    return sum(len(unit.cells) for unit in units)


def _measured_flops() -> float:
    """Floating-point operations a second of one matrix product on one thread: the best of a few."""
    from threadpoolctl import threadpool_limits

    size = 384
    matrix = np.ones((size, size), dtype=np.float32)
    best = float("inf")
    with threadpool_limits(1):
        for _ in range(8):
            started = time.perf_counter()
            _ = matrix @ matrix
            best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
