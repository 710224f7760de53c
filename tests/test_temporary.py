"""What a process that has ended leaves behind: its temporary files are deleted, nothing else is; its workers end."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertology._files import sweep, temporary_affixes, temporary_folder, write_atomically

DAY = 24 * 3600.0
ENDED = 4_194_303
"""Above the ids that processes of this system have."""


def named(pid: int | str | None = None, *, host: str | None = None) -> str:
    """A temporary name of this process, with parts of its mark replaced."""
    own = re.fullmatch(r"\.x\.(\w+)-(\d+)\.", temporary_affixes("x")[0])
    assert own is not None
    return f".x.{host or own[1]}-{pid or own[2]}.abc_12.tmp"


@pytest.mark.parametrize(
    ("name", "age", "stays"),
    [
        (named(), 9 * DAY, True),
        (named(ENDED), 0.0, False),
        (named(host="00000000"), 0.0, True),
        (named(ENDED, host="00000000"), 6.9 * DAY, True),
        (named(ENDED, host="00000000"), 7.1 * DAY, False),
        (named(99_999_999), 9 * DAY, True),
        (".x.tmp", 9 * DAY, True),
        (named(ENDED)[1:], 9 * DAY, True),
        (named(ENDED).removesuffix(".tmp"), 9 * DAY, True),
    ],
    ids=["own", "ended", "other host", "week", "older", "no id", "no mark", "not hidden", "other ending"],
)
def test_only_what_an_ended_process_left_is_deleted(tmp_path: Path, name: str, age: float, stays: bool) -> None:
    path = tmp_path / name
    path.write_text("half")
    os.utime(path, (time.time() - age, time.time() - age))
    sweep(tmp_path, tmp_path / "absent", path)
    assert path.exists() == stays


_KILLED = """
import os, signal, sys
from pathlib import Path
from bertology import _files
folder = Path(sys.argv[1])
with _files.temporary_folder(folder, "corpora") as made:
    (made / "corpus").write_text("text")
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    _files.write_atomically(folder / ("long " * 50), b"content")
"""


def test_a_killed_process_leaves_a_file_and_a_folder_until_the_next_sweep(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert sorted(path.is_dir() for path in tmp_path.iterdir()) == [False, True]
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_what_ends_well(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, "corpora") as folder:
        (folder / "corpus").write_text("text")
        sweep(tmp_path)
        assert (folder / "corpus").exists()
    write_atomically(tmp_path / "file", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


_WORKER = """
import os, sys, time
from bertology._files import end_with_parent
end_with_parent(int(sys.argv[1]) or os.getppid())
print(os.getpid(), flush=True)
time.sleep(100)
"""
_PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_WORKER!r}, '0'])"


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_ends_with_its_parent(by: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.kill(worker, 0)
        parent.send_signal(by)
        parent.wait()
        # The other end of the pipe is closed when the worker, too, has ended.
        began = time.monotonic()
        assert parent.stdout.read() == ""
        assert time.monotonic() - began < 2
