"""Maps that do not come out even among threads are shared in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertology.readouts import StructuralReadout, fit_ranks
from bertology.readouts._structural_training import divided
from tests.readouts.trees import DIM, planted


@pytest.mark.parametrize("loads", [[], [3], [5, 5, 5], [72] * 7, [9, 12, 9, 12, 9, 12, 17], [50, 1, 1, 1], [1] * 12])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 5])
def test_work_is_divided_evenly_and_nothing_done_by_two_at_once(loads: list[int], n_workers: int) -> None:
    parts = divided(loads, n_workers)
    each = max(sum(loads) / n_workers, max(loads, default=0))
    done: dict[int, list[tuple[float, float]]] = {}
    times: dict[int, list[tuple[float, float]]] = {}
    for mine in parts:
        clock = 0.0
        # what is begun here for another worker comes first, what another has begun comes last
        for job, first, last in sorted(mine, key=lambda part: (part[1] > 0, part[2] == 1)):
            done.setdefault(job, []).append((first, last))
            times.setdefault(job, []).append((clock, clock + loads[job] * (last - first)))
            clock = times[job][-1][1]
        assert clock <= each + 1e-9
    assert sorted(done) == list(range(len(loads)))
    for job, ranges in done.items():
        assert np.allclose(sum(last - first for first, last in ranges), 1)
        assert len(ranges) <= 2
        if len(ranges) == 2:
            (_, begun), (first, last) = sorted(ranges)
            assert (begun, last) == (first, 1)
            (_, ended), (again, _) = (times[job][ranges.index(part)] for part in sorted(ranges))
            assert ended <= again + 1e-9


def test_shared_maps_learn_what_unshared_ones_do() -> None:
    """Three layers in two ranks: two threads share one of the six in time, five threads almost all of them."""
    train, dev = planted(60, 1), planted(30, 2)
    readouts = [StructuralReadout(rank=rank, learning_rate=1e-2, max_epochs=3) for rank in (DIM, 2)]
    found, before = [], torch.get_num_threads()
    try:
        for n_threads in (1, 2, 5):
            torch.set_num_threads(n_threads)
            found.append(
                fit_ranks(
                    [replace(readout, batch_sentences=7) for readout in readouts],
                    train.source,
                    train.targets("distances"),
                    dev=dev.source,
                    dev_targets=dev.targets("distances"),
                    seed=3,
                )
            )
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            torch.testing.assert_close(one.maps, other.maps, atol=1e-5, rtol=1e-4)
            np.testing.assert_allclose(one.dev_loss, other.dev_loss, rtol=1e-5)
