"""Workers end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

_WORKER = """
import os, sys, time
from bertology._parent import end_with_parent
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


def test_a_worker_whose_parent_has_ended_already_ends_at_once() -> None:
    ended = subprocess.run([sys.executable, "-c", _WORKER, "1"], capture_output=True, timeout=20, check=False)
    assert ended.returncode == 1
