"""What the workers of a dask cluster do: they look what an extraction lacks, write shards of it, compute units.

What goes wrong with the work itself is returned, as everywhere in a run. What is raised says that the worker cannot
work at all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import socket
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertology import __version__
from bertology.activations import Entry, Progress, silent
from bertology.errors import BertologyError
from bertology.families.splits import Splits
from bertology.families.tasks import Weights
from bertology.runner._compute import Context, Outcome, compute_units
from bertology.runner._plan import Plan, Unit
from bertology.runner._signals import close_encoder, open_encoder
from bertology.runner.engines._sending import loaded

if TYPE_CHECKING:
    from bertology.activations import Extraction

_one_at_a_time = threading.Lock()
"""Threads of one process share the numbers of BLAS threads and the model that is open."""


@dataclass(frozen=True)
class Errand:
    """What all tasks of a run have in common."""

    run: Path
    cache: Path
    token: str
    """Name of a file in both folders, by which a worker knows that they are those of the run."""
    device: str
    version: str = __version__


@dataclass(frozen=True)
class Survey:
    """What there is of one split's vectors."""

    entry: Entry | None
    """Not whole; ``None`` where all vectors are in the store."""
    pieces: tuple[int, ...]
    """Of each shard, how many pieces of text it is computed from."""
    checksums: tuple[str | None, ...]
    """Of each shard, ``None`` where it has to be written."""
    notes: tuple[str, ...]


def unpack(content: bytes) -> Splits:
    """Sentences as they were sent: kept by dask on each worker that asked for them."""
    splits = pickle.loads(content)
    assert isinstance(splits, Splits)
    return splits


def compute(errand: Errand, units: Sequence[Unit], splits: Splits, wait: bool) -> list[Outcome | Exception]:
    """Compute units that stand together, whose plan comes without its sentences."""
    with _at_work(errand) as device:
        _extractions.clear()
        close_encoder()
        units = [loaded(unit, splits) for unit in units]
        for unit in units:
            if unit.reads_vectors:
                for weights, sentences in itertools.product(unit.weights, splits.by_name.values()):
                    pair = unit.plan.pair
                    _look_afresh(pair.recipe(weights, sentences).folder(pair.layers))
        outcomes = compute_units(units, Context(errand.run, device, wait))
        return [_portable(outcome) if isinstance(outcome, Exception) else outcome for outcome in outcomes]


def survey(
    errand: Errand, plan: Plan, draws: Sequence[Weights], splits: Splits
) -> dict[tuple[Weights, str], Survey] | Exception:
    """Say by weights and split what of the vectors is missing. The locks of the entries are held by who sent this."""
    with _at_work(errand) as device:
        try:
            return {
                (weights, name): _survey(plan, weights, splits, name, device)
                for weights, name in itertools.product(draws, splits.by_name)
            }
        except Exception as error:
            # A model that cannot be read is no bar to the others.
            return _portable(error)


def write_shard(
    errand: Errand, plan: Plan, weights: Weights, splits: Splits, split: str, layers: tuple[int, ...], number: int
) -> str | Exception:
    """Write one shard, unless it is there; its checksum."""
    with _at_work(errand) as device:
        try:
            extraction = _opened(plan, weights, splits, split, layers, device)
            already = extraction.checksum(number)
            if already is not None:
                return already
            with extraction.workers:
                vectors = extraction.read(number)
            return extraction.write(number, vectors)
        except Exception as error:
            return _portable(error)


def _survey(plan: Plan, weights: Weights, splits: Splits, split: str, device: str) -> Survey:
    from bertology.activations import Extraction

    recipe, progress = plan.pair.recipe(weights, splits.by_name[split]), _Notes()
    entry = recipe.find(plan.pair.layers)
    layers = entry.manifest.layers if entry is not None else plan.pair.layers
    if Extraction.finished(recipe, layers, progress) is not None:
        return Survey(None, (), (), ())
    extraction = _opened(plan, weights, splits, split, layers, device, progress)
    checksums = tuple(extraction.prepare())
    return Survey(extraction.entry, extraction.pieces, checksums, tuple(progress.notes))


_extractions: dict[str, Extraction] = {}
"""The texts of the open model, cut into shards."""


def _opened(
    plan: Plan,
    weights: Weights,
    splits: Splits,
    split: str,
    layers: tuple[int, ...],
    device: str,
    progress: Progress = silent,
) -> Extraction:
    """The extraction of a split; the model is kept for its other shards and splits."""
    from bertology.activations import Extraction

    encoder = open_encoder(plan.pair, weights, device)
    recipe = plan.pair.recipe(weights, splits.by_name[split])
    key = f"{recipe.key} {layers} {id(encoder)}"
    if key not in _extractions:
        if len(_extractions) == len(splits.by_name):
            _extractions.clear()  # those of another model
        _extractions[key] = Extraction(encoder, splits.by_name[split], recipe=recipe, layers=layers, progress=progress)
    return _extractions[key]


class _Notes(Progress):
    """Keeps what a person should know, who sits at another machine."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep the note."""
        self.notes.append(text)


@contextlib.contextmanager
def _at_work(errand: Errand) -> Iterator[str]:
    """One task at a time in this process, in the folders of the run; the device to compute on."""
    from bertology._workers import choose_device

    with _one_at_a_time:
        if errand.version != __version__:
            raise BertologyError(
                f"the worker on {socket.gethostname()} has bertology {__version__}, this is {errand.version}: "
                "install one version everywhere"
            )
        for folder, name, option in (
            (errand.run / "locks", f"run folder {errand.run}", "--out"),
            (errand.cache, f"cache {errand.cache}", "BERTOLOGY_CACHE"),
        ):
            if not (folder / errand.token).exists():
                raise BertologyError(
                    f"the worker on {socket.gethostname()} does not see the {name}: name one by {option} on a file "
                    "system that all workers share"
                )
        os.environ["BERTOLOGY_CACHE"] = str(errand.cache)
        yield str(choose_device(errand.device))


def _look_afresh(folder: Path) -> None:
    """Let a network file system forget that something was not there a moment ago."""
    if folder.is_dir():
        os.listdir(folder)  # noqa: PTH208  opening the folder is what counts


def _portable(error: Exception) -> Exception:
    """An error that can be sent; where it happened goes with it as a note."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        # Some errors cannot be made again from what they say of themselves.
        return BertologyError(f"{type(error).__name__}: {' '.join(str(error).split())}")
    return error
