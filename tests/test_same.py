"""The comparison of two recordings sees a number, a cell, a prediction or a line that moved, and no time."""

import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bertology import probe
from tests.cell_files import records_in

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def whole(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run."""
    folder = tmp_path_factory.mktemp("same")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        settings = {"layers": "0-1", "controls": "majority", "device": "cpu", "progress": False}
        probe(["pos", "feats:Number"], model=tiny_bert, corpus=tiny_corpus, out=folder / "run", **settings)
    return folder / "run"


@pytest.fixture(scope="module")
def same() -> ModuleType:
    spec = importlib.util.spec_from_file_location("same", TESTS / "same.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pair(whole: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of a run."""
    return shutil.copytree(whole, tmp_path / "base"), shutil.copytree(whole, tmp_path / "now")


def test_copies_are_the_same(same: ModuleType, pair: tuple[Path, Path]) -> None:
    lines, counts = same.differences(*pair)
    assert lines == []
    assert counts["cells"] == len(records_in(pair[0]))
    assert counts["rows"] > 10


def test_one_number_in_one_row(same: ModuleType, pair: tuple[Path, Path]) -> None:
    path = pair[1] / "results.parquet"
    table = pq.ParquetFile(path).read()
    values = table["value"].to_pylist()
    values[7] += 1e-15
    at = table.column_names.index("value")
    pq.write_table(table.set_column(at, table.field(at), pa.array(values)), path)
    (line,), _ = same.differences(*pair)
    assert line.startswith("results.parquet: value differs in 1 rows, first ")
    assert table["cell_id"][7].as_py() in line


def test_times_may_differ(same: ModuleType, pair: tuple[Path, Path]) -> None:
    path = pair[1] / "results.parquet"
    table = pq.ParquetFile(path).read()
    at = table.column_names.index("wall_s")
    pq.write_table(table.set_column(at, table.field(at), pc.add(table["wall_s"], 1.0)), path)
    for folder, shown in zip(pair, ("2026-01-01T00:00:00+00:00, 3.5 s in 2 fits", ""), strict=True):
        (folder / "report.html").write_text(f"made {shown or '2026-01-02T00:00:00+00:00, 13.0 s in 1 fit'}")
        (folder / "run.json").write_text(folder.name)
    assert same.differences(*pair)[0] == []


def test_rows_cells_predictions_and_lines(same: ModuleType, pair: tuple[Path, Path]) -> None:
    now = pair[1]
    table = pq.ParquetFile(now / "comparisons.parquet").read()
    pq.write_table(table.slice(1), now / "comparisons.parquet")
    one, two = sorted((now / "cells").iterdir())[:2]
    content, *others = map(json.loads, one.read_text().splitlines())
    edited = {**content, "facts": {**content["facts"], "n_items": 3}, "provenance": {}}
    one.write_text("\n".join(map(json.dumps, (edited, *others))))
    two.unlink()
    predictions = sorted((now / "predictions").iterdir())[0]
    predictions.write_bytes(predictions.read_bytes() + b" ")
    table_text = (now / "layers.md").read_text()
    shown = re.search(r"[\d.]+ \[", table_text)
    assert shown is not None
    (now / "layers.md").write_text(table_text.replace(shown[0], "123.4 [", 1))
    lines = same.differences(*pair)[0]
    text = lines.pop(3)
    assert text.startswith("layers.md: line 5: ")
    assert "123.4 [" in text
    assert lines == [
        f"cells/{one.name}: {content['cell_id']}: facts",
        f"cells/{two.name}: only in {pair[0]}",
        f"comparisons.parquet: {table.num_rows} → {table.num_rows - 1} rows",
        f"predictions/{predictions.name}: other bytes",
    ]


def test_a_part_that_is_not_there(same: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        same.main(["--only", "label", "--base", "HEAD"])
    assert "no part label" in capsys.readouterr().err
