"""Whatever the operating system refuses is one line that names the path, and exit status 2."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology._files import explained_system_errors, explained_write_errors
from bertology.errors import StoreError

Command = Callable[..., Any]

PATHS = {
    "loop of links": lambda folder: folder / "loop",
    "long name": lambda folder: folder / ("n" * 300),
    "below a file": lambda folder: folder / "file" / "x",
}
MOST_SHOWN = 1000


@pytest.fixture(params=list(PATHS))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path at which nothing can be made or read."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("in the way")
    return PATHS[request.param](tmp_path)


def test_where_to_write(probe: Command, bertology: Command, path: Path, tiny_bert: Path) -> None:
    page = bertology("attention", "The dog barks.", "--model", tiny_bert, "--out", path / "a.html")
    for line in (probe("--out", path).one_line(), page.one_line()):
        assert line.startswith("cannot write ") or line.endswith("choose a shorter name")
        assert len(line) < MOST_SHOWN


@pytest.mark.parametrize("arguments", [["verify"], ["report"], ["rerun"], ["merge", "--out", "merged"], ["plan"]])
def test_what_to_read(
    bertology: Command, path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    line = bertology(*arguments, path).one_line()
    assert str(path)[:20] in line
    assert len(line) < MOST_SHOWN


def test_the_cache(probe: Command, bertology: Command, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTOLOGY_CACHE", str(path))
    line = probe().one_line()
    assert "BERTOLOGY_CACHE" in line or line.endswith("choose a shorter name")
    for command in ("list", "verify", "prune"):
        outcome = bertology("cache", command)
        assert "BERTOLOGY_CACHE" in outcome.one_line()


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EACCES, "choose another folder, or ask for its permissions"),
        (errno.ENOSPC, "free some space or choose another folder"),
        (errno.ELOOP, "mend the link"),
        (errno.ENAMETOOLONG, "choose a shorter name"),
        (errno.EIO, "check the path"),
    ],
)
def test_each_refusal_has_its_reason_and_a_remedy(code: int, remedy: str) -> None:
    refusal = OSError(code, os.strerror(code), "/some/where")
    with pytest.raises(StoreError) as explained, explained_system_errors():
        raise refusal
    assert str(explained.value).startswith(f"/some/where: {os.strerror(code)}; {remedy}")
    with pytest.raises(StoreError, match="/a/file") as explained, explained_write_errors(Path("/a/file")):
        raise refusal
    assert str(explained.value).endswith("choose another folder")


def test_a_path_of_any_length_is_shown_in_part() -> None:
    with pytest.raises(StoreError) as explained, explained_system_errors():
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), "/" + "n" * 100_000)
    assert len(str(explained.value)) < MOST_SHOWN


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_standard_output_that_is_full() -> None:
    command = [sys.executable, "-c", "from bertology.cli import main; main()", "schema"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == "bertology: No space left on device; free some space or choose another folder\n"
