"""What is not a run, or cannot be written, is one line."""

import re
import sys

import pytest

from bertology.cli import main


@pytest.fixture
def report(monkeypatch, capsys):
    """``bertology report``: exit status and what stands on standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bertology", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def one_line(outcome):
    status, captured = outcome
    assert (status, captured.out) == (2, "")
    assert re.fullmatch(r"bertology: [^\n]+\n", captured.err)
    return captured.err


def copied(run, folder):
    folder.mkdir()
    for name in ("results.parquet", "comparisons.parquet"):
        (folder / name).write_bytes((run / name).read_bytes())
    return folder


def test_a_run_becomes_a_file(report, run, tmp_path, monkeypatch):
    folder = copied(run, tmp_path / "copy")
    status, captured = report(folder)
    assert (status, captured.err) == (0, "")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    monkeypatch.chdir(tmp_path)
    assert report(folder, run, "--no-text")[0] == 0
    assert (tmp_path / "report.html").exists()


def test_a_folder_that_is_not_a_run(report, tmp_path):
    assert f"{tmp_path}: not a run, it holds no results.parquet" in one_line(report(tmp_path))
    assert "no such folder" in one_line(report(tmp_path / "nowhere"))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(report, run, tmp_path):
    assert "it is a folder; name a file in --out" in one_line(report(run, "--out", tmp_path))
    (tmp_path / "file").write_text("")
    assert "name another file with --out" in one_line(report(run, "--out", tmp_path / "file" / "report.html"))


def test_a_corpus_that_there_is_not(report, run, tmp_path):
    line = one_line(report(run, "--corpus", tmp_path / "nowhere", "--out", tmp_path / "r.html"))
    assert "no such file or folder" in line
