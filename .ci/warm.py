"""`bertology` without its start: commands are forked from one process that has imported what they need.

Starting Python and importing torch takes longer than most commands of a page do on tiny data. Each command is a process
of its own all the same, which runs the command line from its arguments on, in the folder, with the environment and with
the open files of whoever asked.

    python warm.py serve SOCKET
    python warm.py run SOCKET ARGUMENTS...
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20
# What most commands take.
IMPORTED = (
    "matplotlib.pyplot",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.linear_model",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "bertology.activations._extract",
    "bertology.cli.ask",
    "bertology.cli.keep",
    "bertology.cli.lookup",
    "bertology.encoders.loading",
    "bertology.readouts",
    "bertology.runner",
)


def run(path: str, arguments: list[str]) -> int:
    """Ask for a command, and wait for its exit status."""
    wanted = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        asked.connect(path)
        socket.send_fds(asked, [json.dumps(wanted).encode()], [0, 1, 2])
        answer = asked.recv(16)
    if not answer:
        print(f"bertology {' '.join(arguments)}: its process was killed", file=sys.stderr)
        return 1
    return int(answer)


def serve(path: str) -> None:
    """Fork a process for each command that is asked for, until killed."""
    for name in IMPORTED:
        importlib.import_module(name)
    # Pages that are never written stay shared with the parent.
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(f"{path}.new")
        server.listen()
        Path(f"{path}.new").rename(path)
        while True:
            asked, _ = server.accept()
            message, files, _, _ = socket.recv_fds(asked, MOST_BYTES, 3)
            if os.fork() == 0:
                server.close()
                answer(asked, json.loads(message), files)
            for opened in files:
                os.close(opened)
            asked.close()
            reap()


def answer(asked: socket.socket, wanted: dict[str, Any], files: list[int]) -> None:
    """Be the command, and say how it ended."""
    from bertology.cli import main

    for place, opened in enumerate(files):
        os.dup2(opened, place)
        os.close(opened)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["bertology", *wanted["arguments"]]
    status = 1
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asked.send(str(status).encode())
        os._exit(status)


def reap() -> None:
    """Let go of the processes that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    what, path, *rest = sys.argv[1:]
    if what == "serve":
        serve(path)
    else:
        sys.exit(run(path, rest))
