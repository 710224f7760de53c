"""When a cell's record is believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bertology.results import Predictions
from bertology.results.predictions import Cell, read_cell, write_cell

CELL = Cell({"task": "pos"})


def write(run: Path, pred: list[int]) -> None:
    codes = np.array([0, 1, 1])
    given = Predictions(
        ("a:1", "a:2", "b:1"), np.array([0, 0, 1]), ("a", "b"), codes, np.array(pred), codes / 2, ("X", "Y")
    )
    write_cell(run, CELL, given, facts={}, provenance={})


def test_a_cell_is_believed_as_long_as_its_files_are_the_same(tmp_path: Path) -> None:
    assert read_cell(tmp_path, CELL) is None
    write(tmp_path, [0, 1, 0])
    assert read_cell(tmp_path, CELL) is not None
    path = tmp_path / "predictions" / f"{CELL.id}.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # as long as before
    assert read_cell(tmp_path, CELL) is None
    path.write_bytes(whole)
    assert read_cell(tmp_path, CELL) is not None
    path.unlink()
    assert read_cell(tmp_path, CELL) is None
