"""The command line: one module a command."""

from __future__ import annotations

import os
import sys

from bertology._files import explained_system_errors
from bertology._memory import explained_shortage
from bertology.errors import BertologyError, cut

_INTERRUPTED = 130
_MOST_OF_A_MESSAGE = 500


def main() -> None:
    """Run a command; a person's mistake is one line on standard error and exit status 2."""
    try:
        # Our own files tell better what to do; this is for what is not known there, and what libraries open.
        with explained_system_errors(), explained_shortage("this command"):
            status = _run(sys.argv[1:] or ["--help"])
            sys.stdout.flush()
    except BertologyError as error:
        print(f"bertology: {' '.join(str(error).split())}", file=sys.stderr)
        status = 2
    except BrokenPipeError:
        # The reader of a pipe has seen enough.
        _discard_output()
        status = 141
    except KeyboardInterrupt:
        status = _INTERRUPTED
    if status == _INTERRUPTED:
        print("bertology: stopped; what is computed is kept, the same command goes on from here", file=sys.stderr)
    sys.exit(status)


def _discard_output() -> None:
    """Let what is not written yet go nowhere: the interpreter must not complain of it when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    """Run a command and return its exit status."""
    import typer

    from bertology.cli._app import UsageError, app

    try:
        return app(arguments, prog_name="bertology", standalone_mode=False) or 0
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "bertology"
        message = cut(error.format_message().rstrip("."), most=_MOST_OF_A_MESSAGE)
        raise BertologyError(f"{message}; see `{command} --help`") from error
    except typer.Abort:
        return _INTERRUPTED
