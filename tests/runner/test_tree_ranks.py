"""Ranks and seeds of structural probes: fitted together as one by one, resumed, and the same on every engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bertology.corpora import Corpus, load_corpus
from bertology.results import read_results
from bertology.runner import RunOptions, run_experiment, run_probes
from bertology.runner.experiment import load_experiment
from tests.cell_files import file_of
from tests.runner.tree_runs import TASKS, asking

SWEEP = """\
name: ranks
models: [{{name: {model}, id: tiny}}]
corpora: [{{name: pocket, sentences: 40, id: small}}]
tasks:
  - name: structural_distance
    readout: {{name: structural, settings: {{rank: {ranks}, max_epochs: 3}}}}
layers: [0, 2]
controls: [linear_chain]
statistics: {{resamples: 200}}
outputs: {{plots: []}}
"""


@pytest.fixture(scope="module")
def swept(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Ranks 1, 2 and 4 in one experiment: its cache and its run."""
    folder = tmp_path_factory.mktemp("sweep")
    path = folder / "ranks.yaml"
    path.write_text(SWEEP.format(model=tiny_bert, ranks="[1, 2, 4]"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        summary = run_experiment(load_experiment(path), folder / "run", options=RunOptions(engine="serial"))
    assert summary.failures == ()
    return folder / "cache", folder / "run"


@pytest.fixture
def fitted_ranks(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The ranks of every fit from here on."""
    import bertology.readouts

    seen: list[list[int]] = []
    real: Callable[..., Any] = bertology.readouts.fit_ranks

    def fit_ranks(readouts: Any, *args: Any, **options: Any) -> Any:
        seen.append([readout.rank for readout in readouts])
        return real(readouts, *args, **options)

    monkeypatch.setattr(bertology.readouts, "fit_ranks", fit_ranks)
    return seen


def ranks_of(frame: pd.DataFrame) -> list[int]:
    return [json.loads(params)["rank"] for params in frame.params_json]


def test_a_sweep_is_its_ranks_one_by_one(
    swept: tuple[Path, Path], tiny_bert: Path, fitted_ranks: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTOLOGY_CACHE", str(swept[0]))
    frame = read_results(swept[1]).to_pandas()
    together = frame[frame.layer.notna()]
    assert sorted(ranks_of(together)) == sorted([1, 2, 4] * 2 * 2)
    corpus = Corpus("small", {name: split[:40] for name, split in load_corpus("pocket").splits.items()})
    for rank in (1, 2, 4):
        settings = {"rank": rank, "max_epochs": 3}
        request = asking(tiny_bert, "pocket", TASKS[0], settings=settings)
        alone = run_probes(request, corpus=corpus).to_pandas().set_index(["cell_id", "metric"])
        own = together[[found == rank for found in ranks_of(together)]].set_index(["cell_id", "metric"])
        assert set(alone.index) == set(own.index)
        assert alone.value.tolist() == pytest.approx(own.loc[alone.index].value.tolist(), abs=0.01)
    assert fitted_ranks == [[1], [2], [4]]


def kept_files(run: Path, *folders: str) -> dict[str, bytes]:
    return {f"{folder}/{path.name}": path.read_bytes() for folder in folders for path in (run / folder).iterdir()}


def test_resuming_fits_only_the_ranks_that_are_missing(
    swept: tuple[Path, Path], tiny_bert: Path, tmp_path: Path, fitted_ranks: list[list[int]], monkeypatch: Any
) -> None:
    import shutil

    monkeypatch.setenv("BERTOLOGY_CACHE", str(swept[0]))
    run = shutil.copytree(swept[1], tmp_path / "run")
    frame = read_results(run).to_pandas()
    fitted = frame[frame.layer.notna()]
    lost = fitted.cell_id[[rank == 2 for rank in ranks_of(fitted)]].iloc[0]
    for file in (file_of(run, lost, "cells"), file_of(run, lost, "probes")):
        file.unlink()
    path = tmp_path / "ranks.yaml"
    path.write_text(SWEEP.format(model=tiny_bert, ranks="[1, 2, 4]"))
    run_experiment(load_experiment(path), run, options=RunOptions(engine="serial"))
    assert fitted_ranks == [[2]]
    assert kept_files(run, "predictions", "probes") == kept_files(swept[1], "predictions", "probes")
    path.write_text(SWEEP.format(model=tiny_bert, ranks="[1, 8, 2, 4]"))
    summary = run_experiment(load_experiment(path), run, options=RunOptions(engine="serial"))
    assert fitted_ranks == [[2], [8]]
    assert summary.n_cells == 9
    assert set(ranks_of(read_results(run).to_pandas().dropna(subset="layer"))) == {1, 2, 4, 8}
