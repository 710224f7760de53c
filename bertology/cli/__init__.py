"""The command line: one module a command."""

from __future__ import annotations

import os
import sys

from bertology.errors import BertologyError


def main() -> None:
    """Run a command; a person's mistake is one line on standard error and exit status 2."""
    from bertology.cli._app import app

    try:
        app(standalone_mode=True)
    except BertologyError as error:
        print(f"bertology: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of a pipe has seen enough; the interpreter must not complain of it when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        print("bertology: stopped; what is computed is kept, the same command goes on from here", file=sys.stderr)
        sys.exit(130)
