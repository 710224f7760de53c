"""The size and cost of an experiment before anything is computed: cells, progress, time, memory and disk."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from bertology._machine import memory_for_vectors, size_in_words
from bertology._names import short_names
from bertology.errors import BertologyError
from bertology.readouts import Readout, make_readout
from bertology.results.cells import all_finished
from bertology.runner._folder import RunFolder, failure_of
from bertology.runner.engines import together
from bertology.runner.plan import Plan, Unit, Work

# What times are made of. Only the speed of the processor is measured; the others are what the embedded model and a
# BERT of usual size came to, so that a time is rough.
_SHARE_OF_PEAK = 0.4
_SECONDS_A_CELL = 0.03
_LIBRARIES = 600e6
_BYTES_A_PREDICTION = 6
_WORDS_AN_ITEM, _CLASSES, _PRODUCTS = 20, 20, 8.0  # of products of all vectors with their dimensions


@dataclass(frozen=True)
class PairEstimate:
    """Estimated cost of one model on one corpus."""

    model: str
    corpus: str
    layers: int
    n_cells: int
    n_finished: int
    n_failed: int
    problems: tuple[str, ...]  # tasks that cannot be computed on this corpus, and why
    vectors: float  # bytes of vectors that it reads
    vectors_missing: float  # bytes of those that are not in the store yet
    flops: float  # of what is left: forward passes and fits
    memory: float  # bytes that a fit takes
    result_bytes: float


@dataclass(frozen=True)
class Estimate:
    """All of an experiment."""

    name: str
    folder: Path
    pairs: tuple[PairEstimate, ...]
    n_cells: int
    seconds: float  # on one thread; rough

    def to_text(self) -> str:
        """The estimate as text for a terminal."""
        names = ("n_finished", "n_failed", "vectors_missing", "result_bytes")
        n_finished, n_failed, to_store, results = (sum(getattr(pair, name) for pair in self.pairs) for name in names)
        failed = f", {n_failed:,} failed when last tried" if n_failed else ""
        lines = [f"{self.name}: {self.n_cells:,} cells, {n_finished:,} finished{failed}, in {self.folder}"]
        called = short_names(pair.model for pair in self.pairs)
        for pair in self.pairs:
            missing = pair.vectors_missing
            cached = f"{size_in_words(missing)} to be read" if missing else "all in the store"
            lines.append(
                f"  {called[pair.model]} on {pair.corpus}: {pair.layers} layers, {pair.n_cells:,} cells, "
                f"{pair.n_finished:,} finished; {size_in_words(pair.vectors)} of vectors, {cached}"
            )
            lines += [f"    cannot be computed: {problem}" for problem in pair.problems]
        if n_finished == sum(pair.n_cells for pair in self.pairs):
            return "\n".join([*lines, "nothing is left to do", ""])
        most, left = max(pair.memory for pair in self.pairs), self.seconds
        units = ((90, 1, ".0f", "s"), (5400, 60, ".0f", "min"), (float("inf"), 3600, ".1f", "h"))
        time_left = next(f"{left / unit:{digits}} {name}" for most, unit, digits, name in units if left < most)
        return "\n".join(
            [
                *lines,
                f"time    about {time_left} on one thread, less on several (rough)",
                f"memory  about {size_in_words(most)} for each process that fits (rough)",
                f"disk    {size_in_words(to_store)} of vectors in the cache, about {size_in_words(results)} of results",
                "",
            ]
        )


def estimate(work: Work, folder: Path) -> Estimate:
    """Estimate what is left to do of an experiment in a run's folder; computes nothing, imports no torch."""
    if folder.is_dir() and any(folder.iterdir()):
        RunFolder(folder).record()
    # Names of cells take longer than all else, where there are very many; without a cell there is none to look up.
    is_begun = any((folder / "cells").glob("*.jsonl"))
    of_plan: dict[int, list[Unit]] = {id(plan): [] for plan in work.plans}
    for unit in work.units if is_begun else work.units_of_all:
        of_plan[id(unit.plan)].append(unit)
    pairs = tuple(_pair(plan, of_plan[id(plan)], folder if is_begun else None) for plan in work.plans)
    flops, n_left = sum(pair.flops for pair in pairs), sum(pair.n_cells - pair.n_finished for pair in pairs)
    seconds = flops / (_measured_flops() * _SHARE_OF_PEAK) + n_left * _SECONDS_A_CELL
    return Estimate(work.experiment.name, folder, pairs, work.n_cells, seconds)


def _pair(plan: Plan, units: Sequence[Unit], folder: Path | None) -> PairEstimate:
    pair = plan.pair
    left = [unit for unit in units if folder is None or not all_finished(folder, unit.cells)]
    failed = [unit for unit in left if folder is not None and failure_of(folder, unit) is not None]
    # What is left, where it can be computed, and why some tasks cannot be.
    problems, flops, memory, result_bytes, needs_vectors = dict[str, None](), 0.0, 0.0, 0.0, False
    for load in together(enumerate(unit for unit in left if not unit.is_baseline)):
        family, probe = load[0][1].family, load[0][1].probe
        members = [member for _, unit in load for group in unit.draws for member in group]
        try:
            family.check(pair, probe, [member.config for member in members])
        except BertologyError as error:
            problems[str(error)] = None
            continue
        items, n_cells = pair.splits.items.get(probe.task), sum(len(member.cells) for member in members)
        n_items = pair.splits.test.n_words if items is None else len(items)
        n_words = sum(pair.splits.by_name[name].n_words for name in probe.reads) or _WORDS_AN_ITEM * n_items
        if not load[0][1].reads:  # by passes over the text: one for all cells, or one for each
            n_passes = 1 if family.pass_key(load[0][1].draws[0]) is not None else n_cells
            flops += n_passes * pair.pass_flops(n_words)
        elif family.keeps_items:
            itemsize = float(np.dtype(pair.request.stored_dtype).itemsize)
            n_train, n_layers, width = pair.splits.train.n_words, len(pair.layers), pair.shape.dim
            for one in members:
                readout = make_readout(one.readout, **one.config.settings)
                if isinstance(readout, Readout):
                    flops += len(one.cells) * readout.training_flops(n_train, width, _CLASSES)
                else:  # of trees: products of the vectors with one map, in each epoch
                    flops += len(one.cells) * _PRODUCTS * n_train * width**2
            memory = max(memory, min(memory_for_vectors(), itemsize * n_train * n_layers * width))
        else:
            flops += n_cells * _PRODUCTS * n_words * pair.shape.dim**2
        needs_vectors = needs_vectors or bool(load[0][1].reads)
        result_bytes += _BYTES_A_PREDICTION * float(n_cells * n_items) * family.keeps_items
    # Vectors are read for families that need them alone.
    vectors = missing = reading = 0.0
    for read in dict.fromkeys(read for unit in units for read in unit.reads):
        of, texts = read.texts(pair)
        for text, recipe in texts.values():
            n_bytes = read.n_bytes(of, text)
            vectors += n_bytes
            if left and recipe.find(of.layers) is None:
                missing += n_bytes
                reading += of.pass_flops(text.n_words)
    n_cells, n_left, n_failed = (sum(len(unit.cells) for unit in some) for some in (units, left, failed))
    flops *= max(1, len(pair.splits.folds))
    return PairEstimate(
        model=pair.source.name,
        corpus=pair.corpus.name,
        layers=len(pair.layers),
        n_cells=n_cells,
        n_finished=n_cells - n_left,
        n_failed=n_failed,
        problems=tuple(problems),
        vectors=vectors,
        vectors_missing=missing,
        flops=flops + reading * needs_vectors,
        memory=_LIBRARIES + memory,
        result_bytes=result_bytes,
    )


def _measured_flops() -> float:
    """Floating-point operations a second of one matrix product on one thread: the best of a few."""
    size = 384
    matrix, best = np.ones((size, size), dtype=np.float32), float("inf")
    with threadpool_limits(1):
        for _ in range(8):
            started = time.perf_counter()
            _ = matrix @ matrix
            best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best
