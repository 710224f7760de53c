"""User input: opening files, parsing JSON and numerals."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from bertology.errors import BertologyError, cut, cut_path, quoted

Value = TypeVar("Value")

_NUMERAL = re.compile(r"[0-9]{1,18}", re.ASCII)


def taken(values: Iterable[Value], what: str, *, most: int = 100_000) -> list[Value]:
    """The values of an iterable, which need not have an end: refused where there are more than ``most``."""
    found = list(itertools.islice(values, most + 1))
    if len(found) > most:
        raise BertologyError(f"{what}: over {most:,} values, or no end of them; give fewer")
    return found


def described(value: Any) -> str:
    """A value of JSON for a message: ``missing``, or as it is written, of a long one the first 80 characters."""
    return "missing" if value is None else cut(json.dumps(value, ensure_ascii=False))


def is_numeral(text: str) -> bool:
    """Whether a text is a whole number in the digits 0 to 9, of at most 18, which any counter can hold."""
    return _NUMERAL.fullmatch(text) is not None


class NotJson(ValueError):  # noqa: N818 - turned into an error with its place by whoever knows file and line
    """The problem of a text that should be JSON, in a few words."""


def parsed_json(text: str) -> Any:
    """The value that a text of JSON holds, or a :class:`NotJson` with what is wrong with it."""
    try:
        value = json.loads(text, parse_constant=_refused_constant)
        if "\\u" in text:
            # Half of a surrogate pair can be written so, but is no character: no tokenizer or file takes it.
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg}, line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotJson("brackets nested too deeply") from None
    except UnicodeEncodeError:
        raise NotJson("half of a surrogate pair, \\ud800 to \\udfff, which is no character") from None
    except ValueError as error:
        raise (error if isinstance(error, NotJson) else NotJson("a number of over 4300 digits")) from None
    return value


def _refused_constant(name: str) -> Any:
    raise NotJson(f"{name} is no number of JSON")


def given_path(name: str | Path, *, error: type[BertologyError] = BertologyError) -> Path:
    """A path given by the user, with ``~`` expanded; it need not exist, but has to be possible."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except RuntimeError:
        raise error(f"{cut_path(name)}: there is no home of that name; write the whole path") from None
    except OSError as problem:
        raise error(f"{quoted(str(name))} cannot be looked up ({problem.strerror}); check the path") from None
    return path


def exists(name: str | Path) -> bool:
    """Whether a path given by the user exists; False for an impossible path."""
    try:
        return given_path(name).exists()
    except BertologyError:
        return False


@contextlib.contextmanager
def opened(
    path: Path, *, error: type[BertologyError] = BertologyError, missing: str = "check the path"
) -> Iterator[BinaryIO]:
    """A regular file given by the user, opened for reading bytes.

    Devices, pipes and sockets are refused before they are read: they may never end, or give other content each time.
    Errors are of the kind ``error``; ``missing`` is the remedy where there is no such file.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{path}: a folder where a file was due; name a file in it")
        if not stat.S_ISREG(mode):
            raise error(f"{path}: not a regular file but a device, pipe or socket; write what it gives to a file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise error(f"{path}: no such file; {missing}") from None
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise error(f"{cut_path(path)}: cannot be read ({reason}); check its path and permissions") from problem
    except ValueError as problem:
        if "\0" not in str(path) and not isinstance(problem, UnicodeEncodeError):
            raise
        raise error(f"{quoted(str(path))} cannot be the path of a file") from None


def read_text(path: Path, *, error: type[BertologyError] = BertologyError, missing: str = "check the path") -> str:
    """The text of a UTF-8 file without its byte order mark; errors as of :func:`opened`, and where it is not UTF-8."""
    with opened(path, error=error, missing=missing) as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{path}:{line}: byte {content[problem.start]:#04x} is not UTF-8; save the file as UTF-8") from None
