"""The command line: one module a command."""

from __future__ import annotations

import errno
import os
import sys

from bertology._memory import explained_shortage
from bertology.errors import BertologyError

_INTERRUPTED = 130
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES})


def main() -> None:
    """Run a command; a person's mistake is one line on standard error and exit status 2."""
    try:
        with explained_shortage("this command"):
            status = _run(sys.argv[1:] or ["--help"])
        sys.stdout.flush()
    except BertologyError as error:
        print(f"bertology: {' '.join(str(error).split())}", file=sys.stderr)
        status = 2
    except BrokenPipeError:
        # The reader of a pipe has seen enough; the interpreter must not complain of it when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except OSError as error:
        # Our own files tell better what to do; this is for those that libraries open.
        if error.errno not in _DISK:
            raise
        print(
            f"bertology: {error.filename}: {error.strerror}; free some space or choose another folder", file=sys.stderr
        )
        status = 2
    except KeyboardInterrupt:
        status = _INTERRUPTED
    if status == _INTERRUPTED:
        print("bertology: stopped; what is computed is kept, the same command goes on from here", file=sys.stderr)
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    """Run a command and return its exit status."""
    import typer

    from bertology.cli._app import UsageError, app

    try:
        return app(arguments, prog_name="bertology", standalone_mode=False) or 0
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "bertology"
        raise BertologyError(f"{error.format_message().rstrip('.')}; see `{command} --help`") from error
    except typer.Abort:
        return _INTERRUPTED
