"""What an experiment comes to before anything is computed: cells, what is there, time, memory and disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertology._memory import size_in_words
from bertology._names import short_names
from bertology.corpora import Sentences
from bertology.errors import BertologyError
from bertology.families.contract import Cost
from bertology.families.model_corpus import PIECES_A_WORD, ModelCorpus, StoredSignal, texts_read
from bertology.runner._compute import together
from bertology.runner._folder import RunFolder, failure_of, finished
from bertology.runner._plan import Plan, Unit
from bertology.runner._work import Work

# What times are made of. Only the speed of the processor is measured; the others are what the embedded model and a
# BERT of usual size came to, so that a time is right within a factor of about three.
_SHARE_OF_PEAK = 0.4
_SECONDS_A_CELL = 0.03
_LIBRARIES = 600e6
_BYTES_A_PREDICTION = 6


@dataclass(frozen=True)
class PairEstimate:
    model: str
    corpus: str
    layers: int
    n_cells: int
    n_finished: int
    n_failed: int
    problems: tuple[str, ...]  # tasks that cannot be computed on this corpus, and why
    vectors: int  # bytes of vectors that it reads
    vectors_missing: int  # bytes of those that are not in the store yet
    reading_flops: float
    fitting_flops: float
    memory: float  # bytes that a fit takes
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
        total = {
            name: sum(getattr(pair, name) for pair in self.pairs)
            for name in ("n_cells", "n_finished", "n_failed", "vectors_missing", "result_bytes")
        }
        failed = f", {total['n_failed']:,} failed when last tried" if total["n_failed"] else ""
        yield f"{self.name}: {self.n_cells:,} cells, {total['n_finished']:,} finished{failed}, in {self.folder}"
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
        if total["n_finished"] == total["n_cells"]:
            yield "nothing is left to do"
            return
        yield f"time    about {_duration(self.seconds)} on one thread, less on several (rough: within a factor of 3)"
        most = max(pair.memory for pair in self.pairs)
        yield f"memory  about {size_in_words(most)} for each process that fits (rough)"
        to_store, results = (size_in_words(total[name]) for name in ("vectors_missing", "result_bytes"))
        yield f"disk    {to_store} of vectors in the cache, about {results} of results"


def estimate(work: Work, folder: Path) -> Estimate:
    """What is left to do of an experiment in a run's folder; computes nothing, imports no torch."""
    if folder.is_dir() and any(folder.iterdir()):
        RunFolder(folder).record()
    # Names of cells take longer than all else, where there are very many; without a cell there is none to look up.
    is_begun = any((folder / "cells").glob("*.json"))
    of_plan: dict[int, list[Unit]] = {id(plan): [] for plan in work.plans}
    for unit in work.units if is_begun else work.units_of_all:
        of_plan[id(unit.plan)].append(unit)
    pairs = tuple(_pair(plan, of_plan[id(plan)], folder if is_begun else None) for plan in work.plans)
    return Estimate(work.experiment.name, folder, pairs, work.n_cells, _measured_flops())


def _pair(plan: Plan, units: Sequence[Unit], folder: Path | None) -> PairEstimate:
    def count(some: Sequence[Unit]) -> int:
        return sum(len(unit.cells) for unit in some)

    pair = plan.pair
    done = [unit for unit in units if folder is not None and finished(folder, unit)]
    left = [unit for unit in units if unit not in done]
    failed = [unit for unit in left if folder is not None and failure_of(folder, unit) is not None]
    costs, problems = _costs(pair, left)
    # Vectors are read for families that need them alone.
    needed = dict.fromkeys(read for unit in units for read in unit.reads)
    stored = [
        (read.pair(pair), split, read) for read in needed for split in texts_read(pair.splits, read.signal).values()
    ]
    missing = [
        (of, split, read)
        for of, split, read in stored
        if of.recipe(read.weights, split, read.signal).find(of.layers) is None
    ]
    possible = [unit for unit in left if unit.probe.task in costs]
    n_predictions = sum(len(unit.cells) * costs[unit.probe.task][0].items for unit in possible)
    is_fitted = any(unit.reads for unit in possible)
    every_cost = [cost for of_task in costs.values() for cost in of_task]
    return PairEstimate(
        model=pair.source.name,
        corpus=pair.corpus.name,
        layers=len(pair.layers),
        n_cells=count(units),
        n_finished=count(done),
        n_failed=count(failed),
        problems=problems,
        vectors=sum(_n_bytes(*each) for each in stored),
        vectors_missing=sum(_n_bytes(*each) for each in missing) if left else 0,
        reading_flops=sum(
            split.n_words * PIECES_A_WORD * 24 * of.shape.dim**2 * max(of.layers) for of, split, _ in missing
        )
        if is_fitted
        else 0.0,
        fitting_flops=float(max(1, len(pair.splits.folds)) * sum(cost.flops for cost in every_cost)),
        memory=_LIBRARIES + max((cost.memory for cost in every_cost), default=0.0),
        result_bytes=float(_BYTES_A_PREDICTION * n_predictions),
    )


def _n_bytes(pair: ModelCorpus, split: Sentences, read: StoredSignal) -> int:
    """Of the stored vectors of a split."""
    n_vectors = len(split) if read.signal == "cls" else split.n_words
    return n_vectors * np.dtype(pair.request.stored_dtype).itemsize * len(pair.layers) * pair.shape.dim


def _costs(pair: ModelCorpus, units: Sequence[Unit]) -> tuple[dict[str, list[Cost]], tuple[str, ...]]:
    """By task what its fits that are left will cost, and why some tasks cannot be computed."""
    costs: dict[str, list[Cost]] = {}
    problems: dict[str, None] = {}
    for load in together(enumerate(unit for unit in units if unit.draws)):
        groups = [group for _, unit in load for group in unit.draws]
        first = load[0][1]
        try:
            costs.setdefault(first.probe.task, []).append(first.family.cost(pair, groups))
        except BertologyError as error:
            costs.pop(first.probe.task)
            problems[str(error)] = None
    return costs, tuple(problems)


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
