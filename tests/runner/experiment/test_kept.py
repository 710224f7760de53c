"""Runs that are finished: merged from shards, verified, and repeated from their own record."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bertology.errors import BertologyError
from bertology.results import read_results
from bertology.results.report import write_report
from bertology.results.rows import write_results
from bertology.runner import RunOptions, merge_runs, rerun, run_experiment, verify_run
from bertology.runner.experiment import load_experiment
from bertology.runner.plan import Shard
from bertology.runner.run import RunSummary

Scores = Callable[[Path], pa.Table]
Trial = tuple[Path, RunSummary]
SERIAL = RunOptions(engine="serial")


@pytest.fixture
def run(trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished run, with its cache."""
    monkeypatch.setenv("BERTOLOGY_CACHE", str(trial[0].parent / "cache"))
    return Path(shutil.copytree(trial[1].folder, tmp_path / "run"))


def test_four_shards_merged_are_the_whole_run(
    trial: Trial, tmp_path: Path, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = trial
    parts = [tmp_path / str(number) for number in range(1, 5)]
    for number, part in enumerate(parts, 1):
        # Each job has a machine of its own.
        monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / f"cache-{number}"))
        run_experiment(load_experiment(path), part, options=RunOptions(engine="serial", shard=Shard(number, 4)))
    merge_runs(parts, tmp_path / "merged")
    assert scores(tmp_path / "merged").equals(scores(whole.folder))
    for name in ("comparisons.parquet", "layers.md", "experiment.yaml"):
        assert (tmp_path / "merged" / name).read_bytes() == (whole.folder / name).read_bytes()
    kept = {file.name: file.read_bytes() for file in (whole.folder / "predictions").iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "merged" / "predictions").iterdir()} == kept
    assert verify_run(tmp_path / "merged") == ()
    assert run_experiment(load_experiment(path), tmp_path / "merged", options=SERIAL).n_computed == 0


def test_a_run_of_another_version_is_not_gone_on_with(trial: Trial, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertology.runner._folder.__version__", "9.9")
    with pytest.raises(
        BertologyError, match=r"made by bertology 0\.1\.0, this is 9\.9; name another folder with --out"
    ):
        run_experiment(load_experiment(trial[0]), run, options=SERIAL)


def test_runs_that_do_not_go_together(trial: Trial, run: Path, tmp_path: Path) -> None:
    _, whole = trial
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(BertologyError, match="is not empty"):
        merge_runs([run, whole.folder], tmp_path / "full")
    with pytest.raises(BertologyError, match="is not the folder of a run"):
        merge_runs([run, tmp_path / "full"], tmp_path / "out")
    results = read_results(run)
    wrong = [row if row.value is None else replace(row, value=0.5) for row in results.rows]
    write_results(run, wrong, comparisons=results.comparisons)
    with pytest.raises(BertologyError, match=f"in one and 0.5 in {run}"):
        merge_runs([whole.folder, run], tmp_path / "out")
    asked = run / "experiment.yaml"
    asked.write_text(asked.read_text().replace("seeds: 1", "seeds: 2"))
    with pytest.raises(BertologyError, match="not of one experiment: they differ in seeds"):
        merge_runs([whole.folder, run], tmp_path / "out")


def test_what_is_derived_from_a_run_is_known_to_it(run: Path, monkeypatch: pytest.MonkeyPatch, figures: None) -> None:
    write_report([run], run / "report.html")
    assert verify_run(run) == ()
    results = read_results(run)
    results.save(run, tables=("md", "csv", "tex"), plots=("svg",))
    assert verify_run(run) == ()
    write_report([run], run / "report.html", with_text=False)  # again, with another content
    assert verify_run(run) == ()
    for name in ("report.html", "layers.tex", "layers.svg"):
        whole = (run / name).read_bytes()
        (run / name).write_bytes(whole + b" ")
        assert verify_run(run) == (f"{name}: altered",)
        (run / name).write_bytes(whole)
    (run / "layers.csv").unlink()
    (run / "notes.txt").write_text("by hand")
    assert verify_run(run) == ("layers.csv: missing", "notes.txt: not there when the tables were written")


def edited(record: dict[str, Any], key: str) -> dict[str, Any]:
    """A record with another value at one place."""
    value = record[key]
    if isinstance(value, dict):
        value = edited(value, sorted(value)[0])
    elif isinstance(value, list):
        value = [edited(value[0], "wall_s"), *value[1:]]
    else:
        value = "other" if isinstance(value, str) else 1.5
    return {**record, key: value}


@pytest.mark.parametrize("key", ["content", "sessions", "sha256"])
def test_an_edited_record_is_noticed(trial: Trial, run: Path, key: str) -> None:
    path = run / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record))  # the same content in another layout
    assert verify_run(run) == ()
    path.write_text(json.dumps(edited(record, key)))
    (problem,) = verify_run(run)
    assert problem.startswith(f"{path}: altered")
    # What decides whether tables are written anew is not believed either.
    with pytest.raises(BertologyError, match=r"run.json: altered"):
        run_experiment(load_experiment(trial[0]), run, options=SERIAL)


def test_altered_and_missing_files_are_named(run: Path) -> None:
    os.truncate(run / "experiment.yaml", (run / "experiment.yaml").stat().st_size - 1)
    one, two, three = sorted((run / "cells").glob("*.jsonl"))[:3]
    first, *others = map(json.loads, one.read_text().splitlines())
    first["identity"]["task"] = "other"
    one.write_text("\n".join(map(json.dumps, (first, *others))))
    two.unlink()
    predictions = run / "predictions" / f"{three.stem}.parquet"
    predictions.write_bytes(predictions.read_bytes() + b" ")
    (run / "cells" / "spare.json").write_text("{}")
    problems = verify_run(run)
    assert "experiment.yaml: altered" in problems
    assert f"cells/{one.name}: altered" in problems
    assert f"cells/{one.name}: altered (its name is not the hash of what it says it is)" in problems
    assert f"cells/{two.name}: missing" in problems
    assert f"predictions/{predictions.name}: altered" in problems
    assert "cells/spare.json: not there when the tables were written" in problems


def test_a_run_without_tables_cannot_be_verified(run: Path, tmp_path: Path) -> None:
    (run / "checksums.json").unlink()
    with pytest.raises(BertologyError, match="its tables were never written"):
        verify_run(run)
    with pytest.raises(BertologyError, match="is not the folder of a run"):
        verify_run(tmp_path)
    with pytest.raises(BertologyError, match=r"is not the folder of a run \(there is no such folder\)"):
        verify_run(tmp_path / "nowhere")


def test_a_run_repeats_itself(run: Path, tmp_path: Path, scores: Scores) -> None:
    found = rerun(run, tmp_path / "again", options=SERIAL)
    assert found.moved == ()
    assert found.n_scores == len(read_results(run).rows)
    assert found.summary.n_computed == found.summary.n_cells
    assert scores(tmp_path / "again").equals(scores(run))


def test_a_number_that_moved_is_told(run: Path, tmp_path: Path) -> None:
    results = read_results(run)
    first = next(row for row in results.rows if row.layer == 1 and row.control == "none" and row.task == "pos")
    moved = replace(first, value=0.25)
    rows = [moved if row is first else row for row in results.rows]
    write_results(run, rows[:-1], comparisons=results.comparisons)
    found = rerun(run, tmp_path / "again", options=SERIAL)
    assert len(found.moved) == 2
    told = "\n".join(found.moved)
    assert re.search(
        rf"pos, small, \w+, \w+,.* linear\.v1, layer 1, seed 0, {first.metric}: value 0.25 → 0\.\d+$",
        told,
        re.MULTILINE,
    )
    assert f": only in {tmp_path / 'again'}" in told


def test_an_alteration_that_hides_its_checksum_is_found(run: Path) -> None:
    from bertology.runner._folder import RunFolder

    record = sorted((run / "cells").glob("*.jsonl"))[0]
    first, *others = map(json.loads, record.read_text().splitlines())
    record.write_text("\n".join(map(json.dumps, ({**first, "predictions_sha256": "0" * 64}, *others))))
    RunFolder(run).seal()
    problems = verify_run(run)
    assert f"predictions/{record.stem}.parquet: altered" in problems
    assert f"results.parquet: scores of other predictions than cell {first['cell_id']} has" in problems
