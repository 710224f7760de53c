"""Whatever a person gets wrong is answered with one line that names it, and exit status 2."""

import errno
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.encoders.test_hidden_states import BIAS, TEXT, damaged

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "poss"], "unknown task 'poss': did you mean pos or xpos or position"),
        (["--task", "pos,"], None),
        (["--task", ","], "no task is asked for; `bertology tasks` lists them"),
        (["--task", "pos,pos"], None),
        (["--task", "pos,pos.v1"], "task 'pos' is asked for twice"),
        (["--model", "bert-base-uncased"], "cannot get model bert-base-uncased from the hub (not in its cache"),
        (["--revision", "main"], "has no revisions ('main' was asked for)"),
        (["--split", "tets"], "unknown split of corpus tiny 'tets': did you mean test"),
        (["--layers", "4"], "layer '4': the model has layers 0 (embeddings) to 3"),
        (["--layers", "-5"], "layer '-5': the model has layers 0 (embeddings) to 3"),
        (["--layers", f"1-{'9' * 5000}"], "(5,002 characters): the model has layers 0 (embeddings) to 3"),
        (["--seeds", "9" * 30], "seeds is 999999999999999999999999999999; it should be at most 100,000"),
        (["--seeds", "9" * 5000], "Invalid value for '--seeds': "),
        (["--layers", ""], "layers: should be a whole number or a text that is not empty"),
        (["--device", "cdua"], "unknown device 'cdua': give auto, cpu, cuda"),
        (["--on-long", "cut"], "on_long: should be window, error or skip, not 'cut'"),
        (["--on-long", "error", "--max-pieces", "8"], "pieces"),
        (["--annotate", "no_such_pipeline"], "--annotate labels a raw text file: there is no file"),
        (["--colour"], "No such option: --colour"),
        (["--format", "xml"], "Invalid value for '--format'"),
        (["--seeds", "many"], "Invalid value for '--seeds'"),
        (["spare"], "unexpected extra argument"),
    ],
)
def test_what_is_asked_for(
    probe: Command,
    arguments: list[str],
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    outcome = probe(*arguments)
    if message is None:
        # An empty name, and one name twice, are no mistakes.
        assert outcome.status == 0, outcome.err
    else:
        assert message in outcome.one_line()
        assert len(outcome.err) < 1000


@pytest.mark.parametrize("arguments", [["probbe"], ["cache", "lst"], ["cache"], ["probe", "--layers"], ["--versoin"]])
def test_commands_that_there_are_not(bertology: Command, arguments: list[str]) -> None:
    assert "--help`" in bertology(*arguments).one_line()


# Corpora


def test_a_corpus_that_is_not_utf8(probe: Command, tiny_corpus: Path, tmp_path: Path) -> None:
    corpus = shutil.copytree(tiny_corpus, tmp_path / "corpus")
    file = corpus / "tiny-ud-dev.conllu"
    file.write_bytes(file.read_bytes() + "Öl".encode("latin-1"))
    line = probe("--corpus", corpus).one_line()
    assert str(file) in line
    assert "UTF-8" in line


def test_a_corpus_without_labels_of_the_kind(probe: Command, tiny_corpus: Path, tmp_path: Path) -> None:
    corpus = shutil.copytree(tiny_corpus, tmp_path / "corpus")
    file = corpus / "tiny-ud-test.conllu"
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    file.write_text("\n".join("\t".join([*row[:3], "_", *row[4:]]) if len(row) > 1 else row[0] for row in rows) + "\n")
    line = probe("--corpus", corpus).one_line()
    assert "task pos, test split: no word has a label in layer 'upos': the annotation layers are" in line


# Models


def test_a_model_with_truncated_weights(probe: Command, tiny_bert: Path, tmp_path: Path) -> None:
    model = shutil.copytree(tiny_bert, tmp_path / "model")
    os.truncate(model / "model.safetensors", 400)
    assert f"{model}: the weights cannot be loaded" in probe("--model", model).one_line()


def test_weights_that_are_not_finite(bertology: Command, tiny_bert: Path, tmp_path: Path) -> None:
    folder = damaged(tiny_bert, tmp_path / "model", BIAS, (20,), math.inf)
    line = bertology("cloze", TEXT, "--model", folder).one_line()
    assert "its weights hold NaN or infinity" in line
    assert BIAS in line


# Disks


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_read_only_folder(probe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    refuse_writes(monkeypatch, tmp_path / "run", code)
    line = probe("--out", tmp_path / "run").one_line()
    where = tmp_path / "run" / "run.json"
    assert line == f"cannot write {where} ({os.strerror(code)}): name another folder with --out"


def test_a_cache_without_room(probe: Command, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000, "used": 0, "total": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    line = probe().one_line()
    assert re.match(rf"{own_cache}/activations: .* do not fit into the .* free there; free some, name another", line)


def test_a_cache_that_fills_up_loses_nothing(
    probe: Command, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = probe("--format", "csv")
    shutil.rmtree(own_cache)
    with monkeypatch.context() as patch:
        # The first file of the second split (entry) finds no room.
        refuse_writes(patch, own_cache / "activations", errno.ENOSPC, after=3)
        line = probe("--out", tmp_path).one_line()
    assert line.startswith("no space left to write ")
    assert "BERTOLOGY_CACHE" in line
    assert "bertology cache prune" in line
    manifests = {path: path.stat().st_mtime_ns for path in own_cache.glob("activations/*/manifest.json")}
    assert len(manifests) == 1
    outcome = probe("--out", tmp_path, "--format", "csv")
    assert outcome.out == whole.out
    assert {path: path.stat().st_mtime_ns for path in manifests} == manifests


def test_a_folder_that_fills_up_loses_nothing(probe: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = ("--out", tmp_path / "run", "--layers", "0-1", "--controls", "majority", "--format", "csv")
    with monkeypatch.context() as patch:
        refuse_writes(patch, tmp_path / "run", errno.ENOSPC, after=5)
        line = probe(*arguments).one_line()
    assert line.startswith(f"no space left to write {tmp_path / 'run'}")
    kept = {path.name for path in (tmp_path / "run" / "cells").iterdir()}
    assert kept
    assert not (tmp_path / "run" / "results.parquet").exists()
    outcome = probe(*arguments)
    assert outcome.status == 0
    assert kept < {path.name for path in (tmp_path / "run" / "cells").iterdir()}
    assert outcome.out == probe(*arguments[2:]).out


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_files_that_a_library_cannot_open(probe: Command, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), "/a/lock")

    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    assert probe().one_line().startswith(f"/a/lock: {os.strerror(code)}; ")


def test_a_fault_of_our_own_is_not_hushed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from bertology.cli import main

    def faulty(*_: object, **__: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("bertology.runner.run.resolve_work", faulty)
    monkeypatch.setattr(sys, "argv", ["bertology", "probe"])
    with pytest.raises(OSError, match="Bad file descriptor"):
        main()


def refuse_writes(monkeypatch: pytest.MonkeyPatch, below: Path, code: int, *, after: int = 0) -> None:
    """Let the system refuse new files below a folder, once ``after`` of them have been written."""
    import tempfile

    real = tempfile.mkstemp
    written = 0

    def mkstemp(*arguments: Any, **options: Any) -> tuple[int, str]:
        nonlocal written
        if Path(options["dir"]).is_relative_to(below):
            if written >= after:
                raise OSError(code, os.strerror(code))
            made = real(*arguments, **options)
            written += 1
            return made
        return real(*arguments, **options)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)


# The command itself, in a process of its own


def test_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-c", "from bertology.cli import main; main()", "probe", "--task", "poss"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "unknown task 'poss': did you mean pos" in ran.stderr
    assert ran.stderr.count("\n") == 1


_TERMINATED = """
import os, signal, time
from bertology import cli
cli._END_S = 0.5
def run(_):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    {handler}
cli._run = run
cli.main()
"""


@pytest.mark.parametrize(
    "handler",
    [
        "finally: pass",
        "except BaseException as error: raise ValueError('on the way out') from error",
        "except BaseException: time.sleep(60)",
    ],
    ids=["at once", "after another error", "where it is lost"],
)
def test_a_terminated_command_ends_in_order_and_soon(handler: str) -> None:
    command = [sys.executable, "-c", _TERMINATED.replace("{handler}", handler)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert ran.returncode == 143
    assert ran.stderr == "bertology: stopped; what is computed is kept, the same command goes on from here\n"


def test_an_interrupt_says_that_nothing_is_lost(probe: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bertology.runner.run.resolve_work", interrupted)
    outcome = probe()
    assert outcome.status == 130
    assert outcome.err == "bertology: stopped; what is computed is kept, the same command goes on from here\n"
    assert outcome.out == ""
