"""Codelength of label tasks: how short a code tells the training labels, given the vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.families.cells import Stopwatch, write_cell
from bertology.families.item_vectors import items_param
from bertology.families.items import Problem, counts_of, sentence_names, targets_of
from bertology.families.task_data import TaskData
from bertology.families.tasks import FitCells, Job
from bertology.results import Predictions

if TYPE_CHECKING:
    from bertology.readouts import Codelength


def write_codes(cells: FitCells, data: TaskData, sources: Mapping[str, Any], job: Job) -> None:
    """Measure the codelength of all layers, controls and seeds, from the vectors of each split, and write the cells.

    The predictions of a cell are kept by training sentence: the number of its labels, and the natural logarithm of the
    probability that the code gives to all of them.
    """
    from bertology.readouts import get_readout, online_codelength, variational_codelength

    watch, fraction = Stopwatch(), cells.config.fraction
    encode: Any = online_codelength if cells.config.codelength == "online" else variational_codelength
    problems = list(dict.fromkeys(Problem(control, seed) for control, seed, _ in cells.cells))
    clusters, of_item = np.unique(data.train.clusters, return_inverse=True)
    # A code holds each label once: a seed changes only their order.
    by_seed: dict[int, list[Problem]] = {}
    for problem in problems:
        by_seed.setdefault(problem.seed, []).append(problem)
    codes: dict[Problem, tuple[Codelength, int]] = {}
    for seed, of_seed in by_seed.items():
        code = encode(
            get_readout(cells.readout, **cells.config.settings),
            sources["train"],
            targets_of(data, of_seed, "train", fraction=fraction, resampled=False),
            dev=sources["dev"],
            dev_targets=targets_of(data, of_seed, "dev"),
            clusters=of_item,
            seed=seed,
            device=job.device,
            progress=job.progress.say,
        )
        codes |= {problem: (code, place) for place, problem in enumerate(of_seed)}
    job.progress.finish()
    packages = ("torch", "transformers", "numpy", "scikit-learn")
    provenance = watch.provenance(*packages, device=job.device, n_cells=len(cells.cells))
    names = sentence_names(data.splits.train, clusters.tolist())
    for problem in problems:
        code, place = codes[problem]
        n_items, skipped = code.cluster_items[place], data.train.skipped
        facts = {
            **counts_of(data, seed=problem.seed, fraction=fraction),
            "n_items": int(n_items.sum()),
            "n_clusters": int(np.count_nonzero(n_items)),
            "n_skipped": sum(skipped.values()),
            "skip_reasons": dict(skipped),
            "n_unseen_label": 0,
            "n_params": 0,
            **job.pair.alignment_counts("train"),
        }
        for column, layer in enumerate(cells.layers):
            write_cell(
                job.run,
                cells.cells[problem.control, problem.seed, layer],
                _by_sentence(names, n_items, code.cluster_bits[place, column]),
                facts={**facts, "params": _params(cells, code, place, column) | items_param(data)},
                provenance=provenance,
                notes=data.splits.notes,
            )


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
