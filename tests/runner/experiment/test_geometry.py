"""Statistics of vectors on every engine: the same bytes, however many threads and processes compute them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import Experiment


def test_engines_give_the_same_bytes(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one task alone, whose layers are spread over threads, and of two in two processes."""
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "cache"))
    quick = {"name": "vectors", "settings": {"measures": "cka", "match": "cka"}}
    asked = {
        "name": "geometry",
        "models": [{"name": str(tiny_bert), "reference": {"name": str(tiny_bert), "init": "random_blocks"}}],
        "corpora": [{"name": "pocket", "sentences": 120}],
        "tasks": ["contextuality", "layer_similarity", {"name": "comparison:vectors", "readout": quick}],
        "controls": [],
        "outputs": {"plots": []},
    }
    options = {
        "serial": RunOptions(engine="serial"),
        "threads": RunOptions(engine="serial"),
        "joblib": RunOptions(engine="joblib", jobs=2),
    }
    kept = {}
    before = torch.get_num_threads()
    for name, chosen in options.items():
        torch.set_num_threads(1 if name == "serial" else 3)
        try:
            summary = run_experiment(Experiment.model_validate(asked), tmp_path / name, options=chosen)
        finally:
            torch.set_num_threads(before)
        assert not summary.failures
        kept[name] = {path.name: path.read_bytes() for path in (tmp_path / name / "predictions").iterdir()}
        assert kept[name] == kept["serial"]
    assert kept["serial"]
