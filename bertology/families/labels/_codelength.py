"""Codelength of label tasks: how short a code tells the training labels, given the vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.families.cells import Stopwatch, write_cell
from bertology.families.items import Problem, counts_of, sentence_names, targets_of
from bertology.families.task_data import TaskData
from bertology.families.tasks import FitCells, Job
from bertology.results import Predictions

if TYPE_CHECKING:
    from bertology.readouts import Codelength, Targets


def write_codes(cells: FitCells, data: TaskData, sources: Mapping[str, Any], job: Job) -> None:
    """Measure the codelength of all layers, controls and seeds and write the cells.

    The predictions of a cell are kept by training sentence: the number of its labels, and the natural logarithm of the
    probability that the code gives to all of them.

    Args:
        cells: of one readout configuration.
        data: the items of the task.
        sources: vectors of each split's items.
        job: what computing needs.

    Raises:
        FitError: the labels cannot be coded.
    """
    watch = Stopwatch()
    problems = list(dict.fromkeys(Problem(control, seed) for control, seed, _ in cells.cells))
    clusters, of_item = np.unique(data.train.clusters, return_inverse=True)
    by_seed = {}
    for seed in dict.fromkeys(problem.seed for problem in problems):
        # A code tells each label once: what a seed changes is the order in which they are told.
        ours = [problem for problem in problems if problem.seed == seed]
        by_seed[seed] = _code_of(
            cells,
            sources,
            targets_of(data, ours, "train", fraction=cells.config.fraction, resampled=False),
            dev_targets=targets_of(data, ours, "dev"),
            clusters=of_item,
            seed=seed,
            device=job.device,
            progress=job.progress.say,
        )
    job.progress.finish()
    packages = ("torch", "transformers", "numpy", "scikit-learn")
    provenance = watch.provenance(*packages, device=job.device, n_cells=len(cells.cells))
    told = {
        "n_skipped": sum(data.train.skipped.values()),
        "skip_reasons": dict(data.train.skipped),
        "n_unseen_label": 0,
    }
    names = sentence_names(data.splits.train, clusters.tolist())
    for problem in problems:
        code = by_seed[problem.seed]
        place = [other for other in problems if other.seed == problem.seed].index(problem)
        n_items = code.cluster_items[place]
        counts = {"n_items": int(n_items.sum()), "n_clusters": int(np.count_nonzero(n_items)), **told}
        for column, layer in enumerate(cells.layers):
            write_cell(
                job.run,
                cells.cells[problem.control, problem.seed, layer],
                _by_sentence(names, code.cluster_items[place], code.cluster_bits[place, column]),
                facts={
                    **counts_of(data, seed=problem.seed, fraction=cells.config.fraction),
                    **counts,
                    "n_params": 0,
                    "params": _params(cells, code, place, column),
                },
                provenance=provenance,
                notes=data.splits.notes,
            )


def _code_of(
    cells: FitCells, sources: Mapping[str, Any], targets: Targets, *, dev_targets: Targets, **chosen: Any
) -> Codelength:
    """The code that the reading asks for."""
    from bertology.readouts import get_readout, online_codelength, variational_codelength

    readout = get_readout(cells.readout, **cells.config.settings)
    train, dev = sources["train"], sources["dev"]
    if cells.config.codelength == "online":
        return online_codelength(readout, train, targets, dev=dev, dev_targets=dev_targets, **chosen)
    return variational_codelength(readout, train, targets, dev=dev, dev_targets=dev_targets, **chosen)


def _by_sentence(names: Sequence[str], n_items: NDArray[np.int64], bits: NDArray[np.float64]) -> Predictions:
    used = np.flatnonzero(n_items)
    numbers, codes = np.unique(n_items[used], return_inverse=True)
    ids = [names[place] for place in used.tolist()]
    score = -bits[used] * math.log(2)
    return Predictions(ids, np.arange(len(used)), ids, codes, codes, score, tuple(map(str, numbers.tolist())))


def _params(cells: FitCells, code: Codelength, place: int, column: int) -> dict[str, Any]:
    return {
        "converged": True,
        "details": {
            "method": code.method,
            "bits": round(float(code.bits[place, column]), 3),
            "item_bits": code.item_bits,
            "uniform_bits": round(float(code.uniform_bits[place]), 3),
            "model_bits": round(float(code.model_bits[place, column]), 3),
            "block_bits": [round(float(bits), 3) for bits in code.block_bits[place, column]],
            "block_items": [int(number) for number in code.block_items[place]],
        },
        "settings": cells.config.changes,
    }
