"""Where units are computed: here, one after the other, in threads or processes of this machine, or on a cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from bertology.encoders.sources import MemorySource
from bertology.errors import ModelError
from bertology.runner._plan import Plan, Unit
from bertology.runner.engines._cluster import ClusterChoice
from bertology.runner.engines._local import Engine, local_engine

EngineName = Literal["joblib", "threads", "serial", "dask"]


def device_of(name: EngineName, units: Sequence[Unit], *, device: str, cluster: ClusterChoice) -> str:
    """The device that an engine computes on; raises where it is missing, or a readout has no such setting."""
    held = held_models(unit.plan for unit in units)
    if held and name in ("joblib", "dask"):
        raise ModelError(
            f"model {held[0]} is in the memory of this process alone: run it here, with engine 'threads' or 'serial', "
            "or save it and give the folder"
        )
    for unit in units:
        for group in unit.draws[:1]:
            unit.family.check_settings(unit.probe, [cells.config for cells in group.members])
    from bertology._workers import choose_device

    # This machine does not know what the workers of a cluster have.
    return device if name == "dask" and not cluster.is_local else str(choose_device(device))


def default_engine(plans: Iterable[Plan]) -> EngineName:
    """Threads where a model is in the memory of this process alone, else processes of this machine."""
    return "threads" if held_models(plans) else "joblib"


def held_models(plans: Iterable[Plan]) -> list[str]:
    """What tables call the models that are in the memory of this process alone."""
    pairs = [pair for plan in plans for pair in (plan.pair, plan.pair.reference) if pair is not None]
    return [pair.source.title for pair in pairs if isinstance(pair.source, MemorySource)]


@contextlib.contextmanager
def open_engine(
    name: EngineName, *, jobs: int | None, device: str, cluster: ClusterChoice, run: Path, echo: Callable[[str], None]
) -> Iterator[Engine]:
    """The engine of that name, while in the ``with`` block; without ``jobs`` there are as many as processors, or one
    where a GPU computes."""
    n_processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_jobs = jobs or (n_processors if device == "cpu" else 1)
    if name == "dask":
        from bertology.runner.engines._dask import dask_engine
        from bertology.runner.engines._dask_pool import open_pool

        with open_pool(cluster, jobs=n_jobs, run=run, echo=echo) as pool:
            yield partial(dask_engine, pool)
    else:
        yield local_engine(name, n_jobs)
