"""A small experiment in a file, and the run of it that many tests read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bertology.runner.experiment import RunOptions, RunSummary, load_experiment, run_experiment

Write = Callable[..., Path]

TEXT = """\
name: trial
models:
  - {{name: {model}, id: tiny}}
  - {{name: {model}, id: fresh, init: random}}
corpora:
  - {{name: {corpus}, id: small}}
tasks:
  - pos
  - {{name: chunk, readout: ridge}}
layers: 0-1
controls: [majority, word_majority, control_task]
statistics: {{resamples: 200}}
outputs: {{plots: []}}
"""


@pytest.fixture(scope="session")
def write_experiment(tiny_bert: Path) -> Write:
    """Write the experiment into a folder, with a text in it replaced by another."""

    def write(folder: Path, old: str = "", new: str = "", *, corpus: str = "pocket") -> Path:
        text = TEXT.format(model=tiny_bert, corpus=corpus).replace("id: small", "sentences: 40, id: small")
        assert old in text
        path = folder / "trial.yaml"
        path.write_text(text.replace(old, new) if old else text)
        return path

    return write


@pytest.fixture(scope="session")
def trial(write_experiment: Write, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunSummary]:
    """The experiment run in this process: its file, and what it came to."""
    folder = tmp_path_factory.mktemp("trial")
    path = write_experiment(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        summary = run_experiment(load_experiment(path), folder / "run", options=RunOptions(engine="serial"))
    return path, summary
