"""Families of encoders in one experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bertology import compare_models
from bertology.results import read_results
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import load_experiment

FAMILIES = ("albert", "gpt2")
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "encoders-side-by-side.yaml"


def test_each_family_has_its_layers_and_is_compared(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    models = [{"name": str(tiny(family)), "id": family} for family in FAMILIES]
    changes = {
        "models": models,
        "corpora": [{"name": "pocket", "sentences": 40}],
        "tasks": ["pos"],
        "layers": [0, -1],
        "controls": ["majority"],
        "outputs": {"plots": [], "tables": ["csv"]},
    }
    written = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    summary = run_experiment(
        load_experiment(EXPERIMENT, changes=written), tmp_path / "run", options=RunOptions(engine="serial")
    )
    assert not summary.failures
    results = read_results(tmp_path / "run")
    layers = {(row.model, row.layer) for row in results.rows if row.control == "none" and row.main_metric}
    assert layers == {(family, layer) for family in FAMILIES for layer in (0, 3)}
    frame = compare_models(results).models()
    assert set(frame["model"]) == set(FAMILIES)
