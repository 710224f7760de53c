"""Tidy tables in and out of a folder."""

import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from bertology.errors import ResultsError, StoreError
from bertology.results import ResultRow, predictions, read_results
from bertology.results.cells import Cell, all_finished, name_of, read_record
from bertology.results.predictions import (
    CellFiles,
    PredictionFolder,
    prediction_schema,
    prediction_table,
    read_predictions,
    write_predictions,
)
from bertology.results.rows import SCHEMA_VERSION, ComparisonRow, read_result_rows, row_schema, write_results
from tests.cell_files import file_of

DESIGNED = {
    "results": """schema_version experiment cell_id status model model_fingerprint init layer n_layers head pooling
        task task_version corpus corpus_fingerprint split language n_train n_items n_clusters n_classes n_skipped
        readout readout_version n_params params_json control seed metric higher_is_better value stderr ci_low ci_high
        ci_method versions device dtype wall_s started_utc predictions_sha256""",
    "comparisons": "family cell_a cell_b n_pairs diff ci_low ci_high p_raw p_adj",
    "predictions": "item_id cluster_id gold pred score",
}


@pytest.mark.parametrize(
    ("table", "schema"),
    [
        ("results", lambda: row_schema(ResultRow)),
        ("comparisons", lambda: row_schema(ComparisonRow)),
        ("predictions", prediction_schema),
    ],
)
def test_tables_have_the_columns_that_others_rely_on(table, schema):
    assert set(DESIGNED[table].split()) <= set(schema().names)


def test_what_is_written_is_read_back(pos, tmp_path, monkeypatch):
    monkeypatch.setattr("bertology.results.rows._ROWS_AT_ONCE", 7)  # fewer than there are
    write_results(tmp_path, pos.rows, comparisons=pos.comparisons)
    found = read_results(tmp_path)
    assert (set(found.rows), set(found.comparisons)) == (set(pos.rows), set(pos.comparisons))
    assert pq.read_schema(tmp_path / "results.parquet").equals(row_schema(ResultRow), check_metadata=False)
    assert {row.schema_version for row in found.rows} == {SCHEMA_VERSION}


def test_same_rows_in_any_order_are_the_same_bytes(pos, tmp_path):
    write_results(tmp_path / "a", pos.rows, comparisons=pos.comparisons)
    write_results(tmp_path / "b", pos.rows[::-1], comparisons=pos.comparisons[::-1])
    for name in ("results.parquet", "comparisons.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_undefined_numbers_are_missing_numbers(pos):
    row = dataclasses.replace(pos.rows[0], value=float("nan"), stderr=np.float64("nan"), layer=np.int64(3))
    assert (row.value, row.stderr, row.layer) == (None, None, 3)
    assert type(row.layer) is int


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"control": "nothing"}, "control of a row is 'nothing': Input should be 'none', 'majority'"),
        ({"value": "high"}, "value of a row is 'high': Input should be a valid number"),
        ({"n_items": 2.5}, "n_items of a row is 2.5: .*it should be of type int"),
        ({"higher_is_better": "yes"}, "higher_is_better of a row is 'yes'"),
    ],
)
def test_a_row_says_which_field_is_wrong(pos, change, message):
    with pytest.raises(ResultsError, match=message):
        dataclasses.replace(pos.rows[0], **change)


def test_missing_results_are_one_line(tmp_path):
    with pytest.raises(ResultsError, match=r"results\.parquet: no such file; it should be") as caught:
        read_results(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"PAR1 nonsense PAR1", "half"])
def test_broken_results_are_one_line(pos, tmp_path, damage):
    write_results(tmp_path, pos.rows)
    path = tmp_path / "results.parquet"
    path.write_bytes(path.read_bytes()[:2000] if damage == "half" else damage)
    with pytest.raises(ResultsError, match=r"results\.parquet: not readable as the scores of a run") as caught:
        read_results(tmp_path)
    assert "\n" not in str(caught.value)


def test_results_without_a_column_name_it(pos, tmp_path):
    write_results(tmp_path, pos.rows)
    path = tmp_path / "results.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["ci_low"]), path)
    with pytest.raises(ResultsError, match="no column ci_low"):
        read_result_rows(tmp_path)


def test_results_in_another_schema_are_refused(pos, tmp_path):
    write_results(tmp_path, [*pos.rows[1:], dataclasses.replace(pos.rows[0], schema_version=SCHEMA_VERSION + 1)])
    path = tmp_path / "results.parquet"
    for lacking in ([], ["pooling"]):  # which other schemas need not have
        pq.write_table(pq.read_table(path).drop_columns(lacking), path)
        with pytest.raises(ResultsError, match=r"written in schema 2, this version .* reads schema 1: run it again"):
            read_results(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_line(pos, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        write_results(tmp_path / "file", pos.rows)


def test_predictions_are_read_back(pos, tmp_path):
    name, kept = next(iter(pos.kept.items()))
    digest = write_predictions(tmp_path, name, kept)
    frame = pd.read_parquet(path := file_of(tmp_path, name))
    assert digest == row_groups_sha256(path, 0)
    assert set(frame["cell_id"]) == {name}
    assert frame["gold"].tolist() == [kept.labels[code] for code in kept.gold]
    found = read_predictions(tmp_path, name)
    assert list(found.item_ids) == list(kept.item_ids)
    for field, values in (("gold", "labels"), ("pred", "labels"), ("cluster", "cluster_ids")):
        mine, theirs = (np.array(p.__dict__[values])[p.__dict__[field]] for p in (found, kept))
        assert mine.tolist() == theirs.tolist()
    np.testing.assert_allclose(found.score, kept.score, rtol=1e-6)


def row_groups_sha256(path: Path, *groups: int) -> str:
    """SHA-256 of the bytes of row groups, column by column, as the file's own metadata places them."""
    about, content, state = pq.read_metadata(path), path.read_bytes(), hashlib.sha256()
    for column in (about.row_group(group).column(k) for group in groups for k in range(about.num_columns)):
        first = min(at for at in (column.dictionary_page_offset, column.data_page_offset) if at is not None)
        state.update(content[first : first + column.total_compressed_size])
    return state.hexdigest()


def test_cells_of_one_file_are_read_alone(pos, tmp_path, monkeypatch):
    """Each has row groups of its own, several where it has many items, and the same checksum as by itself."""
    monkeypatch.setattr(predictions, "_MOST_ROWS", 7)
    names, files = ("pos-0-1", "pos-0-2", "pos-0-3"), CellFiles(tmp_path / "run")
    alone = {name: write_predictions(tmp_path / name, name, pos.kept[name]) for name in names}
    for name in names:
        files.add_table(name, prediction_table(pos.kept[name]))
    assert files.write_tables() == alone
    (path,) = (tmp_path / "run" / "predictions").iterdir()
    n_groups = -(-len(pos.kept["pos-0-1"].item_ids) // 7)
    assert alone["pos-0-2"] == row_groups_sha256(path, *range(n_groups, 2 * n_groups))
    for name in names:
        found = read_predictions(tmp_path / "run", name)
        assert [found.labels[code] for code in found.pred] == [pos.kept[name].labels[k] for k in pos.kept[name].pred]
    frame = pd.read_parquet(path)
    assert frame.groupby("cell_id", observed=True).size().to_dict() == {n: len(pos.kept[n].item_ids) for n in names}


def test_of_two_files_with_a_cell_the_whole_one_is_read(pos, tmp_path):
    """A run that asks for other layers writes cells again; what was damaged since is not taken for them."""
    run, made = tmp_path, [Cell({"layer": layer}) for layer in (1, 2)]
    for of in (made[:1], made):
        with CellFiles(run) as files:
            for cell in of:
                kept = pos.kept[f"pos-0-{cell.identity['layer']}"]
                files.add(cell, kept, facts={}, provenance={"versions": {}, "wall_s": 0.0})
    first = run / "predictions" / f"{name_of([made[0].id])}.parquet"
    assert all_finished(run, made)
    content = bytearray(first.read_bytes())
    content[60] ^= 1
    first.write_bytes(content)
    assert all_finished(run, made)
    assert file_of(run, made[0].id) != first
    first.with_name(f"{name_of(one.id for one in made)}.parquet").unlink()
    assert not all_finished(run, made[:1])
    assert read_record(run, made[0].id) is None


def test_predictions_of_a_folder_are_read_when_asked_for(pos, tmp_path):
    for name in ("pos-0-1", "pos-0-2"):
        write_predictions(tmp_path, name, pos.kept[name])
    folder = PredictionFolder(tmp_path)
    assert list(folder) == ["pos-0-1", "pos-0-2"]
    assert len(folder) == 2
    assert "pos-0-3" not in folder
    with pytest.raises(KeyError):
        folder["pos-0-3"]
    file_of(tmp_path, "pos-0-2").write_bytes(b"PAR1")
    with pytest.raises(ResultsError, match="not readable as the predictions of cells"):
        folder["pos-0-2"]


def test_save_keeps_everything(pos, tmp_path, figures):
    folder = pos.save(tmp_path / "run", tables=("md", "csv", "tex"))
    tidy, views = {"results.parquet", "comparisons.parquet", "predictions"}, {"md", "csv", "tex", "png", "svg", "pdf"}
    assert {path.name for path in folder.iterdir()} == tidy | {f"layers.{ending}" for ending in views}
    again = read_results(folder)
    assert set(again.kept) == set(pos.kept)
    copied = read_results(again.save(tmp_path / "copy", plots=()))
    assert copied.per_label("pos", 2).equals(pos.per_label("pos", 2))
    for path in (folder / "predictions").iterdir():
        assert path.read_bytes() == (tmp_path / "copy" / "predictions" / path.name).read_bytes()
    again.save(folder, tables=(), plots=())
    assert read_results(folder).rows == again.rows
    assert (folder / "results.parquet").read_bytes() == (tmp_path / "copy" / "results.parquet").read_bytes()


def test_importing_brings_in_nothing_heavy():
    code = "import sys, bertology.results, bertology.measures; print(' '.join(sys.modules))"
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert not {"torch", "pandas", "pyarrow", "matplotlib", "scipy", "rich", "sklearn"} & set(found.stdout.split())
