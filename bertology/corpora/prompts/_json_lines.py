"""Files of one JSON object a line, fields that must be there, and masks however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertology._inputs import NotJson, described, parsed_json
from bertology.corpora._lines import text_lines
from bertology.errors import CorpusError

MASK = "{mask}"
"""How a mask is written in the texts that readers return."""
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with the numbers of their lines; blank lines are none.

    Raises:
        CorpusError: the file cannot be read, a line is no JSON object, or there is none.
    """
    empty = True
    for number, line in enumerate(text_lines(path), 1):
        if not line.strip():
            continue
        empty = False
        try:
            found = parsed_json(line)
        except NotJson as error:
            raise CorpusError(f"{path}:{number}: not JSON ({error}); one object a line is due") from None
        if not isinstance(found, dict):
            raise CorpusError(f"{path}:{number}: {described(found)} where an object was due")
        yield number, found
    if empty:
        raise CorpusError(f"{path}: nothing in it; give one JSON object a line")


def text_field(found: Mapping[str, Any], field: str, where: str) -> str:
    """The string in a field, without white space around it; it may be empty.

    Raises:
        CorpusError: there is no such field, or no string in it.
    """
    value = found.get(field)
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a string")
    return value.strip()


def sentences_field(found: Mapping[str, Any], field: str, where: str) -> str:
    """The sentences in a field, a list of strings or one string, joined by spaces, masks written ``{mask}``.

    White space is made single: in published sets some sentences have two spaces where a word was put in, which
    byte-level tokenizers would read as another text.

    Raises:
        CorpusError: there is no such field, or something else is in it.
    """
    value = found.get(field)
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a list of sentences with a mask, [MASK]")
    return " ".join(_SPELLINGS.sub(MASK, " ".join(parts)).split())


def mask_trouble(text: str) -> str:
    """Why a text cannot be asked for the word at its mask; empty if it can."""
    count = len(_SPELLINGS.findall(text))
    if count == 1:
        return ""
    return "no mask in the sentence" if count == 0 else "more than one mask in the sentence"
