"""The model of a plan, opened when it is needed, and the stored vectors of its corpus."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bertology._memory import give_back_freed_memory
from bertology.activations import Entry, Progress, silent
from bertology.families.tasks import Pair, Weights

if TYPE_CHECKING:
    from bertology.encoders import Encoder

ProgressFor = Callable[[str], Progress]
"""Gives the progress display of a job from its label."""
_open: dict[str, Encoder] = {}
"""The model that this process has open: one at most."""


def open_encoder(pair: Pair, weights: Weights, device: str) -> Encoder:
    """The model with these weights; it stays open until another one is, or :func:`close_encoder`."""
    from bertology.encoders import load_encoder

    request = pair.request
    key = repr((pair.fingerprints[weights], pair.source, request.dtype, request.max_pieces, device))
    if key not in _open:
        _open.clear()
        _open[key] = load_encoder(
            pair.source,
            init=weights.init,
            seed=weights.seed,
            dtype=request.dtype,
            device=device,
            trust_remote_code=request.trust_remote_code,
            max_pieces=request.max_pieces,
        )
    return _open[key]


def close_encoder() -> None:
    """Give the memory of the open model back: a process holds a model or what a fit needs, not both."""
    _open.clear()
    give_back_freed_memory()


def extract_splits(pair: Pair, weights: Weights, device: str, progress: ProgressFor) -> dict[str, Entry]:
    """The stored vectors of every split, extracted where they are not stored yet."""
    from bertology.activations import extract

    return {
        split: extract(
            lambda: open_encoder(pair, weights, device),
            sentences,
            recipe=pair.recipe(weights, sentences),
            layers=pair.layers,
            progress=progress(f"{pair.called(weights)}, {split}"),
        )
        for split, sentences in pair.splits.by_name.items()
    }


def stored_splits(pair: Pair, weights: Weights, device: str) -> dict[str, Entry]:
    """The same, where the vectors have been extracted and compared with their checksums by this run.

    Comparing them for each unit would read all of them twice. Should someone have deleted them since, they are
    extracted again.
    """
    entries = {}
    for split, sentences in pair.splits.by_name.items():
        entry = pair.recipe(weights, sentences).find(pair.layers)
        if entry is None:
            return extract_splits(pair, weights, device, lambda _: silent)
        entries[split] = entry
    return entries


_spread = threading.local()


@contextlib.contextmanager
def all_threads() -> Iterator[None]:
    """Let :func:`one_thread` pass in this thread: for forward passes that have the machine to themselves."""
    _spread.is_wanted = True
    try:
        yield
    finally:
        _spread.is_wanted = False


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: sums then come out the same whatever engine computes them, and units share the cores."""
    import torch
    from threadpoolctl import threadpool_limits

    if getattr(_spread, "is_wanted", False):
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
