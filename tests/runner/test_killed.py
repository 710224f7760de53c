"""A run that is killed and started again ends in the scores of a run that was not.

Most are forked from one process (``tests.commands``); one run is killed and started again as a plain command, too.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Commands, Running, assert_same

SEED = 20190709
N_WRITES = 2

Start = Callable[..., Running]


@pytest.fixture(scope="module")
def arguments(tiny_bert: Path, tiny_corpus: Path) -> list[str]:
    options = {"--task": "pos", "--layers": "0-1", "--model": tiny_bert, "--corpus": tiny_corpus}
    return ["probe", *(str(part) for option in options.items() for part in option)]


@pytest.fixture(scope="module")
def start(arguments: list[str], forked: Commands) -> Start:
    """Start the command in a folder with a cache of its own."""
    return lambda folder, **options: forked.start(folder, *arguments, "--out", folder / "out", **options)


@pytest.fixture(scope="module")
def undisturbed(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody kills."""
    run = start(tmp_path_factory.mktemp("undisturbed"))
    assert run.wait() == 0
    return run.folder / "out"


def test_killed_while_a_file_is_put_in_its_place(start: Start, undisturbed: Path, tmp_path: Path) -> None:
    written = [
        path
        for folder in (undisturbed, undisturbed.parent / "cache")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    ]
    tables = 3
    for place in random.Random(SEED).sample(range(1, len(written) - tables), N_WRITES):
        folder = tmp_path / str(place)
        assert start(folder, die_at_write=place).wait() == -signal.SIGKILL
        assert not (folder / "out" / "results.parquet").exists()
        assert start(folder).wait() == 0
        assert_same(folder / "out", undisturbed)


def test_a_plain_command_killed_from_outside(
    start: Start,
    arguments: list[str],
    undisturbed: Path,
    one_thread: dict[str, str],
    tmp_path: Path,
) -> None:
    command = [
        sys.executable,
        "-c",
        "from bertology.cli import main; main()",
        *arguments,
        "--out",
        str(tmp_path / "out"),
    ]
    environment = {**one_thread, "BERTOLOGY_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        while not list(tmp_path.glob("out/cells/*.jsonl")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / "results.parquet").exists()
    assert start(tmp_path).wait() == 0
    assert_same(tmp_path / "out", undisturbed)
