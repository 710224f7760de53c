"""One finished run that many tests read, and ways to compare runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bertology.activations import WordVectors
from bertology.corpora import Corpus
from bertology.families.contract import FitCells
from bertology.families.model_corpus import StoredSignal
from bertology.families.request import ReadoutConfig
from bertology.families.vectors import TaskData
from bertology.results import Results
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.engines import Context, extract_splits
from bertology.runner.plan import Plan
from tests import commands
from tests.probes.conftest import planted as planted
from tests.probes.conftest import planted_spans as planted_spans
from tests.runner.tree_runs import ran as ran


@dataclass(frozen=True)
class Finished:
    """A run that ended well."""

    request: ProbeRequest
    cache: Path
    out: Path
    results: Results

    def copy(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
        """The same run in a folder of one's own, its cache too."""
        cache, out = folder / "cache-copy", folder / "out-copy"
        shutil.copytree(self.cache, cache)
        shutil.copytree(self.out, out)
        monkeypatch.setenv("BERTOLOGY_CACHE", str(cache))
        return Finished(self.request, cache, out, self.results)


@pytest.fixture(scope="session")
def finished(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two tasks on all layers, with two seeds and every control."""
    folder = tmp_path_factory.mktemp("finished")
    request = ProbeRequest(
        tasks=("pos", "feats:Number"),
        model=str(tiny_bert),
        corpus=str(tiny_corpus),
        layers="all",
        seeds=2,
        random_draws=1,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        results = run_probes(request, out=folder / "out")
    return Finished(request, folder / "cache", folder / "out", results)


@pytest.fixture(scope="session")
def forked() -> Iterator[commands.Commands]:
    """Commands in processes of their own."""
    with commands.commands() as found:
        yield found


@pytest.fixture(scope="session")
def scores() -> Callable[[Path], pa.Table]:
    """The table of a run's folder without what differs between two runs of the same: when, and how long."""
    return commands.scores


@pytest.fixture
def counted_forwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of windows of every forward pass from here on."""
    from bertology.encoders import Encoder

    passes: list[int] = []

    def counted(read):  # type: ignore[no-untyped-def]
        def forward(self, input_ids, *args, **options):  # type: ignore[no-untyped-def]
            passes.append(len(input_ids))
            return read(self, input_ids, *args, **options)

        return forward

    # Masked-LM features have a pass of their own, which ends at the places asked for.
    for name in ("hidden_states", "masked_features"):
        monkeypatch.setattr(Encoder, name, counted(getattr(Encoder, name)))
    return passes


@pytest.fixture(scope="session")
def one_thread() -> dict[str, str]:
    """The environment of a process started by a test: offline, with one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def toy(planted: Callable[..., Corpus]) -> Corpus:
    """Words with one of three tags each, which the word itself gives away."""
    return planted("upos", ("NOUN", "VERB", "ADJ"), signal=True)


@pytest.fixture
def noise(planted: Callable[..., Corpus]) -> Corpus:
    """Words with one of three tags each, drawn anew wherever they stand."""
    return planted("upos", ("NOUN", "VERB", "ADJ"), signal=False)


Asking = Callable[..., ProbeRequest]


@pytest.fixture
def asking(tiny_bert: Path) -> Asking:
    """A request for one task, read in several ways off the first two layers unless others are named."""

    def request(*readings: ReadoutConfig, task: str = "pos", **chosen: Any) -> ProbeRequest:
        given = {"layers": "0-1", "controls": (), **chosen}
        return ProbeRequest(tasks=(task,), model=str(tiny_bert), configs={task: readings}, **given)

    return request


def fits_of(plan: Plan) -> tuple[FitCells, ...]:
    """What a plan fits: each readout configuration on each draw of weights."""
    return tuple(cells for of_task in plan.fits.values() for draws in of_task for group in draws for cells in group)


Vectors = Callable[[Plan, TaskData], dict[str, WordVectors]]


@pytest.fixture
def vectors() -> Vectors:
    """By split the stored vectors of a task's words under the plan's own model."""

    def read(plan: Plan, data: TaskData) -> dict[str, WordVectors]:
        (weights,) = plan.pair.fingerprints
        entries = extract_splits(plan.pair, StoredSignal(weights, "words"), Context(Path(), "cpu"))
        return {
            split: WordVectors(entries[split], items.words, layers=plan.pair.layers)
            for split, items in data.items.items()
        }

    return read
