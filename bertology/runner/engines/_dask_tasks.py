"""What the workers of a dask cluster do: find out what an extraction lacks, write shards of it, compute units.

What goes wrong with the work itself is returned, as everywhere in a run; an exception means that the worker itself
cannot work.
"""

from __future__ import annotations

import contextlib
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
from bertology.families.model_corpus import Splits, StoredSignal, texts_read
from bertology.runner._compute import Context, Outcome, close_encoder, compute_units, open_encoder
from bertology.runner._plan import Plan, Unit
from bertology.runner.engines._sending import loaded

if TYPE_CHECKING:
    from bertology.activations import Extraction

EntryKey = tuple[StoredSignal, str]
"""An entry of the store for a model and corpus: what is read, and of which split."""
_one_at_a_time = threading.Lock()
"""Threads of one process share the numbers of BLAS threads and the model that is open."""


@dataclass(frozen=True)
class WorkerContext:
    """What all tasks of a run have in common."""

    run: Path
    cache: Path
    token: str  # name of a file in both folders, by which a worker knows that they are those of the run
    device: str
    version: str = __version__


@dataclass(frozen=True)
class MissingShards:
    """What there is of one split's vectors."""

    entry: Entry | None  # not whole; None where all vectors are in the store
    pieces: tuple[int, ...]  # [shard] number of pieces of text that it is computed from
    checksums: tuple[str | None, ...]  # [shard] None where it has to be written
    notes: tuple[str, ...]


def compute(context: WorkerContext, units: Sequence[Unit], splits: Splits, wait: bool) -> list[Outcome | Exception]:
    """Compute units that stand together, whose plan comes without its sentences."""
    with _at_work(context) as device:
        _extractions.clear()
        close_encoder()
        units = [loaded(unit, splits) for unit in units]
        for unit in units:
            for read in unit.reads:
                pair = read.pair(unit.plan.pair)
                for sentences in texts_read(splits, read.signal).values():
                    look_afresh(pair.recipe(read.weights, sentences, read.signal).folder(pair.layers))
        outcomes = compute_units(units, Context(context.run, device, wait))
        return [_portable(outcome) if isinstance(outcome, Exception) else outcome for outcome in outcomes]


def missing_shards(
    context: WorkerContext, plan: Plan, reads: Sequence[StoredSignal], splits: Splits
) -> dict[EntryKey, MissingShards] | Exception:
    """Which shards of which entries are missing. The locks of the entries are held by the process of the run."""
    with _at_work(context) as device:
        try:
            keys: dict[str, EntryKey] = {}
            for read in reads:
                for split, sentences in texts_read(splits, read.signal).items():
                    # A reference may be the same as the model.
                    recipe = read.pair(plan.pair).recipe(read.weights, sentences, read.signal)
                    keys.setdefault(recipe.key, (read, split))
            return {key: _missing(plan, key, splits, device) for key in keys.values()}
        except Exception as error:
            return _portable(error)


def write_shard(
    context: WorkerContext,
    plan: Plan,
    key: EntryKey,
    splits: Splits,
    layers: tuple[int, ...],
    number: int,
) -> str | Exception:
    """Write one shard, unless it is there; its checksum."""
    with _at_work(context) as device:
        try:
            extraction = _opened(plan, key, splits, layers, device)
            if (checksum := extraction.checksum(number)) is not None:
                return checksum
            with extraction.workers:
                vectors = extraction.read(number)
            return extraction.write(number, vectors)
        except Exception as error:
            return _portable(error)


def _missing(plan: Plan, key: EntryKey, splits: Splits, device: str) -> MissingShards:
    from bertology.activations import Extraction

    read, split = key
    pair = read.pair(plan.pair)
    recipe, progress = pair.recipe(read.weights, splits.by_name[split], read.signal), _Notes()
    entry = recipe.find(pair.layers)
    layers = entry.manifest.layers if entry is not None else pair.layers
    if Extraction.finished(recipe, layers, progress) is not None:
        return MissingShards(None, (), (), ())
    extraction = _opened(plan, key, splits, layers, device, progress)
    checksums = tuple(extraction.prepare())
    return MissingShards(extraction.entry, extraction.pieces, checksums, tuple(progress.notes))


_extractions: dict[tuple[int, str, tuple[int, ...]], Extraction] = {}
"""The texts of the open model, cut into shards."""


def _opened(
    plan: Plan,
    key: EntryKey,
    splits: Splits,
    layers: tuple[int, ...],
    device: str,
    progress: Progress = silent,
) -> Extraction:
    """The extraction of a split; the model is kept for its other shards and splits."""
    from bertology.activations import Extraction

    read, split = key
    pair, sentences = read.pair(plan.pair), splits.by_name[split]
    encoder = open_encoder(pair, read.weights, device)
    recipe = pair.recipe(read.weights, sentences, read.signal)
    name = id(encoder), recipe.key, layers
    if name not in _extractions:
        for other in [other for other in _extractions if other[0] != id(encoder)]:
            del _extractions[other]
        _extractions[name] = Extraction(encoder, sentences, recipe=recipe, layers=layers, progress=progress)
    return _extractions[name]


class _Notes(Progress):
    """Keeps notes, which are shown on another machine."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@contextlib.contextmanager
def _at_work(context: WorkerContext) -> Iterator[str]:
    """One task at a time in this process, in the folders of the run; the device to compute on."""
    from bertology._workers import choose_device

    worker = f"the worker on {socket.gethostname()}"
    with _one_at_a_time:
        if context.version != __version__:
            versions = f"has bertology {__version__}, this is {context.version}"
            raise BertologyError(f"{worker} {versions}: install one version everywhere")
        for folder, name, option in (
            (context.run / "locks", f"run folder {context.run}", "--out"),
            (context.cache, f"cache {context.cache}", "BERTOLOGY_CACHE"),
        ):
            if not (folder / context.token).exists():
                remedy = f"name one by {option} on a file system that all workers share"
                raise BertologyError(f"{worker} does not see the {name}: {remedy}")
        os.environ["BERTOLOGY_CACHE"] = str(context.cache)
        yield str(choose_device(context.device))


def look_afresh(folder: Path) -> None:
    """Open a folder, by which a network file system forgets that a file was not there a moment ago."""
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
