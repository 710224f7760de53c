"""Finished runs of earlier code are read, verified, reported and exported."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from bertology import read_results
from bertology.results.report import write_report
from bertology.results.tables.store import _SINCE
from bertology.runner import verify_run

KEPT = Path(__file__).parent / "kept"
FOLDERS = sorted(path for path in KEPT.iterdir() if path.is_dir())
TASKS = {
    *("pos", "xpos", "chunk", "ner", "deprel", "feats:Number"),
    *("edge_dependencies", "structural_distance", "agreement", "head_syntax"),
}
EXPORTS = ("layers.md", "layers.csv", "layers.tex", "groups.csv", "heads.csv")

pytestmark = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """A copy of the run, with the times at which its files were written."""
    return Path(shutil.copytree(folder, tmp_path / "run"))


def test_every_number_and_prediction_is_read(folder: Path) -> None:
    results = read_results(folder)
    written = pd.read_parquet(folder / "results.parquet")
    assert set(written["task"]) == TASKS
    assert set(written["status"]) == {"ok"}
    frame = results.to_pandas()
    for name in ("cell_id", "task", "control", "metric", "params_json"):
        assert frame[name].tolist() == written[name].tolist()
    for name in ("value", "ci_low", "ci_high", "mean"):
        pd.testing.assert_series_equal(frame[name], written[name].astype("float64"))
    assert len(results.comparisons) == len(pd.read_parquet(folder / "comparisons.parquet")) > 0
    kept = {path.stem for path in (folder / "predictions").glob("*.parquet")}
    assert set(written["cell_id"]) == kept
    assert set(results.kept) == kept
    # Of attention heads sums are kept, not predictions.
    assert all(results.kept[row.cell_id] is not None for row in results.rows if row.task != "head_syntax")


def test_it_is_as_it_was_written(folder: Path) -> None:
    assert verify_run(folder) == ()


def test_no_place_of_the_machine_is_in_it(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".yaml"):
            assert not re.search(r"/(tmp|home|root|work|Users)/", path.read_text(encoding="utf-8")), path


def tables(text: str) -> dict[str, list[str]]:
    """Tables in Markdown by their headings, less two that follow the order of the run: all tasks, and some groups."""
    parts = [part.splitlines() for part in text.split("\n**")]
    lines = {part[0].strip("*"): [line for line in part if line.startswith("|")] for part in parts}
    return {heading: table for heading, table in lines.items() if not re.match("layers by|.* by group", heading)}


def test_tables_are_those_that_were_shown(folder: Path) -> None:
    """Read from the folder the tasks are in alphabetical order, which the run had in that of its file."""
    view = read_results(folder).view()
    kept = {name: (folder / name).read_text(encoding="utf-8") for name in EXPORTS}
    shown = {"layers.csv": view.to_csv(), "groups.csv": view.by_group().to_csv(), "heads.csv": view.heads().to_csv()}
    for name, text in shown.items():
        assert sorted(text.splitlines()) == sorted(kept[name].splitlines())
    assert tables(view.to_markdown()) == tables(kept["layers.md"])


def test_it_is_reported_and_exported(run: Path, tmp_path: Path) -> None:
    write_report([run], run / "report.html")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert all(task in page for task in TASKS)
    assert verify_run(run) == ()
    out = read_results(run).save(tmp_path / "saved", tables=("md", "csv", "tex"), plots=())
    for name in EXPORTS:
        assert (out / name).stat().st_size > 100
    saved, kept = (pd.read_parquet(path / "results.parquet") for path in (out, run))
    newer = [name for version in (4, 5) for name in _SINCE[version]]
    assert saved[newer].isna().all(axis=None)
    pd.testing.assert_frame_equal(saved.drop(columns=newer), kept)
    assert {path.name: path.read_bytes() for path in (out / "predictions").iterdir()} == {
        path.name: path.read_bytes() for path in (run / "predictions").iterdir()
    }


def test_git_leaves_its_bytes_alone(folder: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    name = (folder / "run.json").relative_to(root).as_posix()
    answer = subprocess.run(["git", "check-attr", "text", name], cwd=root, capture_output=True, text=True, check=True)
    assert answer.stdout.endswith(": text: unset\n")
