"""The command line: a module for each panel of the help, whose functions are the commands."""

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from bertology._files import explained_system_errors
from bertology._machine import explained_shortage
from bertology.errors import BertologyError, cut

_STOPPED = "bertology: stopped; what is computed is kept, the same command goes on from here"
_INTERRUPTED = 130
_MOST_OF_A_MESSAGE = 500
_TERMINATED = 143
_STDERR = 2
_PIPE_CLOSED = 141
_END_S = 5.0
"""After SIGTERM or Ctrl-C, how long the orderly end may take; what is left then, the next start deletes."""


def main() -> None:
    """Run a command; a person's mistake is one line on standard error and exit status 2."""
    gc.set_threshold(10_000)  # looking through what is imported, again and again, would take a second and find nothing
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")  # or idle threads of NumPy keep a core busy for 0.2 s
    atexit.register(gc.freeze)  # or the interpreter would look at every object at its end, for a quarter of a second
    is_heard = sys.stdout is not None
    # Streams that are closed are given to /dev/null, so that no file that is opened takes their numbers.
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - as long as the process
    try:
        if not is_heard:
            raise BertologyError("standard output is closed: redirect it to a file, or to /dev/null")
        # Our own files tell better what to do; this is for what is not known there, and what libraries open.
        with explained_system_errors(), explained_shortage("this command"), _terminable():
            status = _run(sys.argv[1:] or ["--help"])
            sys.stdout.flush()
    except BertologyError as error:
        print(f"bertology: {' '.join(str(error).split())}", file=sys.stderr)
        status = 2
    except BrokenPipeError:
        # The reader of a pipe has seen enough: what is not written yet goes nowhere, and the interpreter must not
        # complain of it when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = _PIPE_CLOSED
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except _Terminated:
        status = _TERMINATED
    if status in (_INTERRUPTED, _TERMINATED):
        print(_STOPPED, file=sys.stderr)
    sys.exit(status)


class _Terminated(BaseException):
    """SIGTERM has come."""


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Raise :class:`_Terminated` on SIGTERM, so that workers are stopped and temporary files deleted on the way out.

    On Ctrl-C likewise, as ``KeyboardInterrupt``: fits may be computed in threads, which are waited for.
    """
    terminated = False

    def stop(number: int, _: Any) -> None:
        nonlocal terminated
        if number == signal.SIGTERM:
            terminated = True
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        # Computing may go on in threads that are waited for, and the exception may be lost in a finalizer.
        end = threading.Timer(_END_S, end_now, (_TERMINATED if terminated else _INTERRUPTED,))
        end.daemon = True
        end.start()
        raise _Terminated if terminated else KeyboardInterrupt

    def end_now(status: int) -> None:
        print(_STOPPED, file=sys.stderr, flush=True)
        os._exit(status)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except BaseException:
        if terminated:
            raise _Terminated from None  # whatever else went wrong meanwhile
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(arguments: list[str]) -> int:
    import typer

    from bertology.cli._app import UsageError, app

    stdout = sys.stdout
    try:
        return app(arguments, prog_name="bertology", standalone_mode=False) or 0
    except SystemExit:
        if sys.stdout is stdout:
            raise
        sys.stdout = stdout
        raise BrokenPipeError from None  # typer ends the process itself, after it has put another stream in the place
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "bertology"
        message = cut(error.format_message().rstrip("."), most=_MOST_OF_A_MESSAGE)
        raise BertologyError(f"{message}; see `{command} --help`") from error
    except typer.Abort:
        return _INTERRUPTED
