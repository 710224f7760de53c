"""Results of every version that has been, as they were written, are read by this one."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bertology import read_results
from bertology.runner import verify_run

KEPT = Path(__file__).parent / "kept"
FOLDERS = sorted(KEPT.iterdir(), key=lambda folder: folder.name)


def test_there_are_some() -> None:
    assert "0.1.0" in [folder.name for folder in FOLDERS]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_numbers_are_those_that_were_written(folder: Path) -> None:
    found = read_results(folder)
    written = pd.read_parquet(folder / "results.parquet")
    frame = found.to_pandas()
    assert frame["value"].tolist() == written["value"].tolist()
    assert frame["cell_id"].tolist() == written["cell_id"].tolist()
    assert len(found.comparisons) == len(pd.read_parquet(folder / "comparisons.parquet"))
    for cell in written.query("status == 'ok'")["cell_id"].unique():
        kept = found.kept[cell]
        row = written.query("cell_id == @cell and metric == 'accuracy'").iloc[0]
        assert (kept.gold == kept.pred).mean() == pytest.approx(row["value"])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_table_is_the_one_that_was_shown(folder: Path) -> None:
    """Below it, newer versions may say more of how it is read."""
    shown = read_results(folder).view().to_markdown().splitlines()
    kept = (folder / "layers.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in shown if line in kept] == kept
    assert {line[:2] for line in shown if line not in kept} <= {"- "}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_run_is_unaltered(folder: Path) -> None:
    assert verify_run(folder) == ()
